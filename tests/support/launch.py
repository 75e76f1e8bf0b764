"""Starting the command line as its users do: as a process of its own, from whatever turnctl is being tested."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import turnctl
from turnctl.cli.main import _ending_of

ROOT = str(Path(turnctl.__file__).resolve().parent.parent)
BOUND = 15.0
_KEPT = ("TURNCTL_STATE_DIR", "TURNCTL_RUN_RECORD")


def turnctl_argv(*args: str, before: str = "pass") -> list[str]:
    """The argv of a turnctl; ``before`` is run in its interpreter first."""
    code = f"import sys; sys.path.insert(0, {ROOT!r})\n{before}\nfrom turnctl.cli.main import main; main()"
    return [sys.executable, "-I", "-c", code, *args]


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without what would change how turnctl or Python work, but for where records go, if anywhere."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(("TURNCTL", "PYTHON", "COLUMNS"))}
    return {"TURNCTL_RUN_RECORD": "no"} | kept | more


class Ended(NamedTuple):
    """How a turnctl ended: minus N for signal N, as ``subprocess`` has it."""

    status: int
    out: str
    err: str


def start(*args: str, before: str = "pass", env: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
    """Start it without a terminal, in a session of its own."""
    options = {"stdin": subprocess.DEVNULL, "start_new_session": True} | options
    return subprocess.Popen(
        turnctl_argv(*args, before=before),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**(env or {})),
        **options,
    )


@contextmanager
def readied(argv: list[str], **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program, in a session of its own, which has written "ready"; it is killed at the end, also where it stands
    still."""
    environment = clean_environment(**env)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], BOUND)[0]
            assert b"ready\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()
            process.send_signal(signal.SIGCONT)


def finish(process: subprocess.Popen[str]) -> Ended:
    """Wait for it; one that does not end is killed, and the test fails."""
    try:
        out, err = process.communicate(timeout=BOUND)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return Ended(process.returncode, out, err)


def call(*args: str, **options: Any) -> Ended:
    """Run it to its end."""
    return finish(start(*args, **options))


def ask(capfd: pytest.CaptureFixture[str], *args: str) -> Ended:
    """What turnctl answers where it runs nothing: asked in this process, since to start another takes its time."""
    capfd.readouterr()
    ending = _ending_of(list(args))
    return Ended(ending.status, *capfd.readouterr())
