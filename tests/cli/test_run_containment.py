"""``turnctl run --containment``: what was chosen holds the command, on a terminal too, or nothing is run."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap
from launch import turnctl_argv
from ptys import CTRL_C, CTRL_Z, Shell
from standins import until

from turnctl.processes import capabilities


def _has(name: str) -> bool:
    return any(one.name == name and one.is_available for one in capabilities())


NEEDS_NAMESPACE = pytest.mark.skipif("not _has('namespace')", reason="no pid namespaces are to be had here")


def _run(*argv: str, before: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [*(before or []), *turnctl_argv("run", *argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("name", ["namespace", "cgroup", "warden", "group"])
def test_chosen_holder_is_in_the_summary(name: str, tmp_path: Path) -> None:
    """The status is the command's own, and the summary names what held it and how strongly."""
    if not _has(name):
        pytest.skip(f"no {name} is to be had here")
    done = _run("--containment", name, "--summary", str(tmp_path / "s.json"), "--", "sh", "-c", "exit 3")
    (process,) = json.loads((tmp_path / "s.json").read_text())["processes"]

    assert (3, "", name) == (done.returncode, done.stderr, process["held_by"])
    assert (process["containment"] != "best-effort") == process["empty_proven"]


@NEEDS_NAMESPACE
def test_timeout_in_a_namespace() -> None:
    """The timeout ends all of it, and the status is that of a timeout."""
    tag = nap()
    code = f"trap '' TERM; setsid {tag} & {tag}"
    done = _run("--containment", "namespace", "--timeout", "1s", "--grace", "200ms", "--", "sh", "-c", code)

    assert 124 == done.returncode
    assert [] == alive(tag)


def test_refused_holder_runs_nothing(tmp_path: Path) -> None:
    """What this machine refuses is 125, with reason and remedy, on stderr and in the summary."""
    unshare = shutil.which("unshare")
    before = [str(unshare), "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"', "sh"]
    if unshare is None or subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no namespace of users, in which others could be forbidden, is to be had here")
    made, summary = tmp_path / "made", tmp_path / "s.json"
    done = _run("--containment", "namespace", "--summary", str(summary), "--", "touch", str(made), before=before)

    assert 125 == done.returncode
    assert "error: could not run touch as --containment namespace asks for: no more namespaces" in done.stderr
    assert "hint: as root: sysctl -w user.max_user_namespaces" in done.stderr
    assert not made.exists()
    assert "no more namespaces" in json.loads(summary.read_text())["not_started"]


def test_unknown_holder_is_wrong_use() -> None:
    """A word that is no way of holding is 2, by the option and by the environment."""
    assert 2 == _run("--containment", "best", "--", "true").returncode
    assert 2 == _run("--", "true", before=["env", "TURNCTL_CONTAINMENT=best"]).returncode


@pytest.fixture
def shell(tmp_path: Path, leak_check: object) -> Iterator[Shell]:
    """A shell with job control, and turnctl on its PATH."""
    with Shell(tmp_path) as shell:
        yield shell


@NEEDS_NAMESPACE
def test_terminal_in_a_namespace(shell: Shell) -> None:
    """The command has the foreground: Ctrl-Z stops the job, ``fg`` goes on with it, Ctrl-C ends it."""
    tag = nap()
    shell.line(f"turnctl run --containment namespace {tag}")
    assert until(lambda: len(alive(tag)) == 2)
    assert until(lambda: not shell.is_in_front())
    shell.send(CTRL_Z)
    shell.prompt()
    shell.line("fg")
    assert until(lambda: not shell.is_in_front())
    shell.send(CTRL_C)
    shell.prompt()

    assert 130 == shell.exit_status()
    assert [] == alive(tag)
    assert shell.is_in_front()


@NEEDS_NAMESPACE
def test_failed_start_in_a_namespace(shell: Shell) -> None:
    """A command that cannot be started is told so at once, and the shell has its terminal."""
    shown = shell.run("turnctl run --containment namespace no-such-command")

    assert "command not found" in shown
    assert 127 == shell.exit_status()
    assert shell.is_in_front()
