"""``turnctl run`` where there is no warden: statuses, stops, leftovers and words are the same, less the proof."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap
from forked import ran
from launch import Ended, finish, start

from turnctl.processes import capabilities


@pytest.fixture(params=["group", "warden"])
def held_by(request: pytest.FixtureRequest) -> str:
    """What holds the commands: each promise holds without a warden as it does with one."""
    if not any(one.name == request.param and one.is_available for one in capabilities()):
        pytest.skip(f"no {request.param} is to be had here")
    return str(request.param)


@pytest.fixture
def gate(tmp_path: Path, leak_check: object) -> Gate:
    """A place where a command says that it is ready."""
    return Gate(tmp_path / "gate")


def begun(held_by: str, *args: str) -> Any:
    return start("run", *args, env={"TURNCTL_CONTAINMENT": held_by})


def run(held_by: str, *args: str) -> Ended:
    return ran("run", *args, env={"TURNCTL_CONTAINMENT": held_by})


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 77"], 77),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["/nonexistent/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_status_is_the_commands_own(held_by: str, command: list[str], status: int) -> None:
    """Its own, 128 and the signal that ended it, or what says that it could not be started."""
    assert status == run(held_by, "--", *command).status


def test_timeout_ends_the_whole_tree(held_by: str, tmp_path: Path) -> None:
    """Deaf ones and those in sessions of their own are gone after it, and the summary claims what was proved."""
    tag = nap()
    line = f"trap '' TERM; setsid {tag} & {tag} & {tag}"
    summary = tmp_path / "summary"
    options = ["--timeout", "500ms", "--grace", "100ms", "--summary", str(summary)]
    status, out, err = run(held_by, *options, "--", "sh", "-c", line)
    (process,) = json.loads(summary.read_text())["processes"]

    assert (124, "") == (status, out)
    assert [] == alive(tag)
    assert err.startswith("turnctl: stop accepted (timeout of 0.5 s passed)\n")
    assert ("none left" if held_by == "warden" else "none found left") in err
    assert (held_by, held_by == "warden") == (process["held_by"], process["empty_proven"])


def test_leftovers_end_with_the_command(held_by: str) -> None:
    """A command that ends and leaves a process behind keeps its status; the process is named and ended."""
    tag = nap()
    status, _, err = run(held_by, "--", "sh", "-c", f"{tag} & exit 3")

    assert 3 == status
    assert [] == alive(tag)
    assert "turnctl: the command has ended and left 1 process (" in err
    assert "turnctl: failed: 1 process ended" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_and_is_died_of(held_by: str, gate: Gate, number: signal.Signals) -> None:
    """A signal to turnctl stops the whole tree; then turnctl dies of that very signal."""
    tag = nap()
    process = begun(held_by, "--", "sh", "-c", f"{tag} & echo ready > {gate}; {tag}")
    gate.wait()
    process.send_signal(number)
    status, _, err = finish(process)
    gate.close()

    assert -number == status
    assert [] == alive(tag)
    assert "turnctl: stop accepted (" in err


def test_second_signal_kills(held_by: str, gate: Gate) -> None:
    """A command that ignores TERM has its grace until the second press."""
    tag = nap()
    process = begun(held_by, "--grace", "10m", "--", "sh", "-c", f"trap '' TERM; echo ready > {gate}; {tag}")
    gate.wait()
    process.send_signal(signal.SIGTERM)
    assert "turnctl: stop accepted (SIGTERM)\n" == process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    status, _, err = finish(process)
    gate.close()

    assert (-signal.SIGTERM, []) == (status, alive(tag))
    assert "needed SIGKILL" in err
