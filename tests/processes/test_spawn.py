"""Starting a command: an interruption at any moment of it leaves no process and no descriptor behind."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap
from standins import until

from turnctl.processes import grouped, reaping
from turnctl.processes import spawn as spawning
from turnctl.processes.command import popen, run

pytestmark = pytest.mark.usefixtures("grouped")


def struck(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_interruption_inside_popen_ends_the_child(owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C while the standard library still starts the child: the child and what it started are ended."""
    tag = nap()
    plain = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute(self: Any, *args: Any) -> None:
        plain(self, *args)
        gate.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "_execute_child", execute)
    with pytest.raises(KeyboardInterrupt):
        run(owner, f"{tag} & echo > {gate}; {tag}; true", shell=True, input=b"x")

    assert until(lambda: not alive(tag))  # killed with its group; the command alone is waited for
    assert "failed" == owner.activities[0].record().state


@pytest.mark.parametrize("begin", [run, popen])
def test_interruption_before_supervision_ends_the_child(
    owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch, begin: Any
) -> None:
    """A Ctrl-C after the start and before anybody supervises: the command and its group are ended."""
    tag = nap()

    def leader(*_: object) -> None:
        gate.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(grouped, "Leader", leader)
    with pytest.raises(KeyboardInterrupt):
        begin(owner, f"{tag} & echo > {gate}; {tag}; true", shell=True)

    assert until(lambda: not alive(tag))  # killed with its group; the command alone is waited for
    assert 0 == owner.watched


def test_interruption_before_the_child_is_harmless(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C before there is a child leaves nothing to end."""
    monkeypatch.setattr(subprocess.Popen, "_execute_child", struck)
    with pytest.raises(KeyboardInterrupt):
        run(owner, ["true"])

    assert "failed" == owner.activities[0].record().state


def test_child_that_will_not_die_is_left_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in uninterruptible sleep holds nobody up for longer than a bound, and is reaped once it has ended."""
    monkeypatch.setattr(spawning, "ENDING_MS", 50)
    process = subprocess.Popen(nap().split())
    with monkeypatch.context() as patch:
        patch.setattr(reaping.Child, "kill", lambda _: None)
        spawning.kill_child(process.pid)
    left = list(reaping._left)
    process.kill()
    reaping.reap_children(5000)

    assert 1 == len(left)
    assert [] == reaping._left
    process.returncode = 0  # reaped above


def test_number_that_is_no_child_of_ours_is_left_alone() -> None:
    """Where another part of the program has reaped the child, nobody who may have its number now is signalled."""
    tag = nap()
    with subprocess.Popen(["sh", "-c", f"{tag} & wait"]) as shell:
        assert until(lambda: alive(tag))
        (other,) = [pid for pid in alive(tag) if pid != shell.pid]
        spawning.kill_child(other)
        still = alive(tag)
        os.kill(other, signal.SIGKILL)

    assert other in still
