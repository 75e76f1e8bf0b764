"""Starting a command: an interruption at any moment of it leaves no process and no descriptor behind."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap

from turnctl.processes import grouped
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

    assert [] == alive(tag)
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

    assert [] == alive(tag)
    assert 0 == owner.watched


def test_interruption_before_the_child_is_harmless(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C before there is a child leaves nothing to end."""
    monkeypatch.setattr(subprocess.Popen, "_execute_child", struck)
    with pytest.raises(KeyboardInterrupt):
        run(owner, ["true"])

    assert "failed" == owner.activities[0].record().state
