"""A shielded command sends signals to what it started, and to nothing else; where that cannot be, it is not started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap, python

from turnctl.errors import ContainmentUnavailable
from turnctl.processes import shielding
from turnctl.processes.command import popen, run
from turnctl.processes.shielding import landlock_abi, shield_refusal

pytestmark = pytest.mark.usefixtures("wardens")


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


shielded = pytest.mark.skipif(shield_refusal() != "", reason=f"no shield here: {shield_refusal()}")

#: tries to send a signal and says what the system answers
_TRY = """
import os, sys, time
def tried(pid, number):
    try:
        os.kill(pid, number)
    except OSError as error:
        return type(error).__name__
    return "sent"
"""


def test_refusal_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said: the version, or Landlock altogether."""
    for abi, words in ((0, "offers none to this process"), (5, "offers version 5")):
        monkeypatch.setattr(shielding, "landlock_abi", lambda abi=abi: abi)

        assert words in shield_refusal()
        assert "Landlock version 6 (Linux 6.12)" in shield_refusal()


@pytest.mark.parametrize("start", [run, popen])
def test_missing_shield_starts_nothing(
    owner: FakeTurn, monkeypatch: pytest.MonkeyPatch, start: Any, tmp_path: Any
) -> None:
    """Without the kernel's help the command is refused, never run without its shield."""
    monkeypatch.setattr(shielding, "landlock_abi", lambda: 3)
    with pytest.raises(ContainmentUnavailable, match="not started, since it cannot be shielded: it needs Landlock"):
        start(owner, ["touch", tmp_path / "made"], shield=True)

    assert [] == list(tmp_path.iterdir())


def test_only_a_truth_value_is_taken(owner: FakeTurn) -> None:
    """A word is no answer to a question of safety."""
    with pytest.raises(TypeError, match="shield is 'no', of type str; give True or False"):
        run(owner, ["true"], shield="no")  # type: ignore[arg-type]


@shielded
def test_supervisor_cannot_be_killed(owner: FakeTurn) -> None:
    """KILL to its warden and to this program is EPERM, from a session of its own too, and the command goes on."""
    code = f"""{_TRY}
print(tried(os.getppid(), 9), tried({os.getpid()}, 0), flush=True)
warden = os.getppid()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(tried(warden, 9), tried({os.getpid()}, 0), flush=True)
        os._exit(0)
    os.wait(); os._exit(0)
os.wait()
"""
    done = run(owner, python(code), shield=True, text=True)

    assert ["PermissionError PermissionError"] * 2 == done.stdout.splitlines()  # type: ignore[union-attr]
    assert (0, "complete", True) == (done.returncode, done.outcome.containment, done.outcome.empty_proven)


@shielded
def test_without_it_the_supervisor_is_within_reach(owner: FakeTurn) -> None:
    """The same command without a shield does end its warden: it is the shield that keeps it."""
    done = run(owner, python(f"{_TRY}\nprint(tried(os.getppid(), 0))"), text=True)

    assert "sent\n" == done.stdout


@shielded
@pytest.mark.skipif(which("pkill") is None, reason="there is no pkill")
def test_own_children_are_within_reach(owner: FakeTurn) -> None:
    """What the command started it may stop, kill and wait for, in sessions of their own too, by pid and by name."""
    tag = nap()
    by_pid = f"{tag} & kill $!; wait $!; echo $?; setsid {tag} & kill -9 $!; wait $!; echo $?"
    by_name = f"{tag} & until pkill -9 -P $$ -x sleep; do :; done; wait $!; echo $?"
    script = f"{by_pid}; {by_name}"
    done = run(owner, script, shell=True, shield=True, text=True)

    assert ["143", "137", "137"] == done.stdout.split()  # type: ignore[union-attr]
    assert [] == alive(tag)


@shielded
def test_stop_reaches_a_shielded_tree(owner: FakeTurn, gate: Gate) -> None:
    """The shield is no obstacle inwards: a stop ends all of it, with the kernel's word."""
    tag = nap()
    process = popen(owner, f"setsid {tag} & trap '' TERM; echo > {gate}; {tag}; {tag}", shell=True, shield=True)
    gate.wait()
    process.stop(grace=0.1)

    assert [] == alive(tag)
    assert process.outcome().empty_proven


@shielded
def test_shield_takes_privileges_and_nothing_else(owner: FakeTurn) -> None:
    """No program in it gains rights; the next command of the same warden is as before."""
    show = ["grep", "NoNewPrivs", "/proc/self/status"]
    inside, after = (run(owner, show, shield=on, text=True).stdout for on in (True, False))

    assert "NoNewPrivs:\t1\n" == inside
    ours = int("NoNewPrivs:\t1" in Path("/proc/self/status").read_text())
    assert f"NoNewPrivs:\t{ours}\n" == after


@shielded
def test_errors_of_the_start_are_the_same(owner: FakeTurn) -> None:
    """A program that is not there is told as ever."""
    with pytest.raises(FileNotFoundError) as caught:
        run(owner, ["no-such-program"], shield=True)

    assert "no-such-program" == caught.value.filename


@shielded
def test_shields_nest(owner: FakeTurn) -> None:
    """A turn within a shielded command has commands of its own, which are shielded against it."""
    code = (
        "import os, sys; sys.path[:] = sys.argv[1:]\n"
        "import turnctl\n"
        "done = turnctl.run(['sh', '-c', 'kill -9 $PPID || echo kept'], shield=True, text=True)\n"
        "print(done.stdout.strip(), done.outcome.containment)\n"
        "turnctl.processes.shutdown()\n"
    )
    done = run(owner, [sys.executable, "-c", code, *sys.path], shield=True, text=True)

    assert "kept complete\n" == done.stdout, done.stderr


def test_version_is_what_the_kernel_has() -> None:
    """A kernel that has it says so; 0 stands for none."""
    assert 0 <= landlock_abi()
    if _kernel() < (5, 13):
        assert 0 == landlock_abi()
