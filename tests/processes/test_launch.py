"""The host's side: what it loads, threads, interruptions, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive
from standins import Background, until
from warding import Command, run, tag

from turnctl.processes import launch, link, reaping, upkeep

pytestmark = pytest.mark.usefixtures("wardens")

PACKAGE = Path(launch.__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


def test_launcher_loads_next_to_nothing() -> None:
    """The launcher's process loads none of the modules that make an interpreter start slowly."""
    code = upkeep._BOOT.split("from turnctl.processes.launcher")[0].replace("if posix.fork(): posix._exit(0)\n", "")
    code += "import turnctl.processes.launcher, turnctl.processes.warden\nprint(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, str(PACKAGE)], capture_output=True, check=True)
    loaded = done.stdout.decode()
    spared = ("socket", "signal", "subprocess", "re", "typing", "ctypes", "enum", "collections", "selectors", "struct")

    assert [] == [name for name in spared if f"'{name}'" in loaded]
    assert "'turnctl.processes.sweep'" in loaded


def test_changed_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent for one command is not sent for the next where the environment, or its PATH, has changed."""
    seen = []
    for value in ("one", "two"):
        monkeypatch.setenv("TURNCTL_TEST_VALUE", value)
        seen.append(run(["printenv", "TURNCTL_TEST_VALUE"])[1])
    monkeypatch.delenv("TURNCTL_TEST_VALUE")
    gone = run(["printenv", "TURNCTL_TEST_VALUE"])[0]["status"]
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(FileNotFoundError):
        run(["printenv"])

    assert ([b"one\n", b"two\n"], 1) == (seen, gone)


def test_import_is_lean() -> None:
    """The host's side loads neither subprocess nor socket, ctypes or psutil."""
    code = "import sys, json; import turnctl.processes.launch; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=PACKAGE.parent)
    loaded = json.loads(done.stdout)

    assert [] == [name for name in ("subprocess", "socket", "ctypes", "psutil", "asyncio") if name in loaded]


def test_threads_share_one_launcher() -> None:
    """Threads that start commands at the same time get one launcher, and each its own command."""
    gate = threading.Barrier(8)

    def one(number: int) -> tuple[int, bytes, str]:
        gate.wait()
        facts, out = run(["sh", "-c", f"echo {number} $PPID"])
        return facts["status"], out.split()[0], out.split()[1].decode()

    results = [thread.result() for thread in [Background(one, number) for number in range(8)]]

    assert [(0, str(n).encode()) for n in range(8)] == [(status, word) for status, word, _ in results]
    assert 1 == len(upkeep._current)


def test_interrupted_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that strikes while a command is being started ends the command."""
    mark = tag()
    run(["true"])
    monkeypatch.setattr("turnctl.processes.warded.Warded.await_start", _struck)

    with pytest.raises(KeyboardInterrupt):
        Command(["sleep", mark], piped=False)
    assert until(lambda: not alive(mark))


def test_interrupted_start_says_what_struck(monkeypatch: pytest.MonkeyPatch) -> None:
    """What struck is raised, and the command ended, also where its warden takes no requests."""
    mark = tag()
    run(["true"])
    monkeypatch.setattr("turnctl.processes.warded.Warded.await_start", _struck)
    monkeypatch.setattr("turnctl.processes.warded.Warded.hurry", _deaf)

    with pytest.raises(KeyboardInterrupt):
        Command(["sleep", mark], piped=False)
    assert until(lambda: not alive(mark))


def _deaf(*_: object) -> None:
    raise TimeoutError("the warden does not take requests")


def _struck(*_: object) -> object:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [("executable", "", "no Python interpreter"), ("frozen", True, "frozen"), ("platform", "darwin", "darwin")],
)
def test_refusal_says_why(monkeypatch: pytest.MonkeyPatch, attribute: str, value: object, words: str) -> None:
    """Where there can be no launcher the error names the reason, and nothing is started."""
    monkeypatch.setattr(sys, attribute, value, raising=False)

    with pytest.raises(launch.Unavailable, match=words):
        launch.start(launch.Request(["true"]))


def test_broken_interpreter_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interpreter that cannot run the launcher is an error that says how to see more."""
    bad = tmp_path / "python3"
    bad.write_text("#!/bin/sh\nexit 1\n")
    bad.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bad))

    with pytest.raises(launch.Unavailable, match="TURNCTL_LAUNCHER_LOG"):
        launch.start(launch.Request(["true"]))


def test_interpreter_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interpreter that never comes to run the launcher is an error in time, and is gone afterwards."""
    mark = tag()
    bad = tmp_path / "python3"
    bad.write_text(f"#!/bin/sh\nexec sleep {mark}\n")
    bad.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bad))
    monkeypatch.setattr(upkeep, "READY_S", 0.2)
    began = time.monotonic()
    with pytest.raises(launch.Unavailable, match="said nothing for 0.2 s"):
        launch.start(launch.Request(["true"]))

    assert time.monotonic() - began < 2
    assert [] == alive(mark)
    assert [] == reaping._left


def test_closed_descriptor_is_refused() -> None:
    """A descriptor that is not open is an error at the start, and costs nothing."""
    fd = 500  # above all that is open here

    with pytest.raises(OSError, match="Bad file descriptor"):
        launch.start(launch.Request(["true"], stdin=fd))
    assert 0 == run(["true"])[0]["status"]


def test_late_requests_do_nothing() -> None:
    """What is asked of a command that is over, or of one that was closed, changes nothing."""
    with Command(["true"], piped=False) as command:
        command.ended()
        command.warded.stop(((15, 1.0),))
        command.warded.hurry(0.0)
    command.warded.stop(((15, 1.0),))
    command.warded.close()

    assert 0 == run(["true"])[0]["status"]
    assert -1 == command.warded.fileno()


def test_late_request_does_not_reach_the_next_command() -> None:
    """A stop that was meant for a command that is over is not obeyed by its warden's next one."""
    with Command(["sh", "-c", "echo $PPID"]) as first:
        warden = int(first.line())
        first.ended()
        sock, number = first.warded._sock, first.warded._number
    with Command(["sh", "-c", "echo $PPID; exec sleep 60"]) as second:
        assert warden == int(second.line())

        link.send(sock, ("stop", number, ((9, 0.0),), "stop"))
        link.send(sock, ("hurry", number, 0.0))
        second.warded.signal(15)

        assert -15 == second.ended()["status"]
    assert "asked" not in second.kinds()


def test_program_may_just_end() -> None:
    """A program that ends without ``shutdown`` writes no warning about what it held."""
    code = """
import sys; sys.path[:0] = [sys.argv[1]]
from turnctl.processes import launch
warded = launch.start(launch.Request(["true"]))
while not warded.is_over: warded.read()
warded.close()
"""
    argv = [sys.executable, "-I", "-X", "dev", "-c", code, str(PACKAGE.parent)]
    done = subprocess.run(argv, capture_output=True, timeout=30)

    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
