"""``idle_timeout``: a command that is silent for too long is ended, one that writes is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap, notes_of, python, timed
from standins import Background, until

from turnctl.errors import BadArgument, BadDuration, CancelledError
from turnctl.processes import CommandTimedOut
from turnctl.processes.command import popen, run
from turnctl.processes.idle import Idle


class Pipes:
    """What the clock asks of a pump."""

    def __init__(self, waiting: bool = False) -> None:
        self.taken_at, self.is_held, self.waiting = 0.0, False, waiting

    def look_in(self) -> None:
        if self.waiting:
            self.taken_at = monotonic()


CHATTY = "import time\nfor n in range(12): print(n, flush=True); time.sleep(0.1)"


def test_silent_command_is_ended(owner: FakeTurn) -> None:
    """Silence for the limit ends the whole tree as a timeout does, and the outcome says that it was silence."""
    tag = nap()
    with timed() as passed:
        done = run(owner, f"echo begun; {tag} & {tag}", shell=True, idle_timeout=0.4)

    assert 10 > passed() >= 0.4
    assert [] == alive(tag)
    assert (b"begun\n", -15) == (done.stdout, done.returncode)
    assert (True, "idle", False) == (done.outcome.timed_out, done.outcome.timed_out_by, done.outcome.stopped)
    assert ("it was ended because it wrote nothing for 400ms (idle_timeout)",) == notes_of(done.outcome)
    assert "it wrote nothing for 400ms: ended by SIGTERM" == owner.activities[0].record().detail


def test_chatty_command_lives(owner: FakeTurn) -> None:
    """A command that writes more often than that runs on for longer than the limit."""
    with timed() as passed:
        done = run(owner, python(CHATTY), idle_timeout="900ms")

    assert passed() > 0.9
    assert (0, False, None) == (done.returncode, done.outcome.timed_out, done.outcome.timed_out_by)


def test_either_stream_counts(owner: FakeTurn) -> None:
    """Output on stderr is output."""
    done = run(
        owner, python(CHATTY.replace("flush=True", "flush=True, file=__import__('sys').stderr")), idle_timeout=0.9
    )

    assert (0, False) == (done.returncode, done.outcome.timed_out)


def test_check_says_that_it_was_silence(owner: FakeTurn) -> None:
    """With ``check=True`` it is a ``TimeoutExpired`` with the limit, that names silence."""
    with pytest.raises(CommandTimedOut, match=r"wrote nothing for 0\.2 s \(idle_timeout\)") as caught:
        run(owner, ["sleep", "60"], idle_timeout=0.2, timeout=50, check=True)

    assert isinstance(caught.value, subprocess.TimeoutExpired)
    assert 0.2 == caught.value.timeout


def test_earlier_limit_is_the_one_that_is_named(owner: FakeTurn) -> None:
    """With both limits the one that passes first ends it."""
    done = run(owner, ["sleep", "60"], idle_timeout=30, timeout=0.2)

    assert (True, "timeout") == (done.outcome.timed_out, done.outcome.timed_out_by)


def test_streams_that_are_closed_are_silent(owner: FakeTurn) -> None:
    """A command that has closed its output writes nothing any more."""
    done = run(owner, "exec >&- 2>&-; exec sleep 60", shell=True, idle_timeout=0.3)

    assert "idle" == done.outcome.timed_out_by


def test_stop_goes_before_silence(owner: FakeTurn, gate: Gate) -> None:
    """A stop while the command is silent is a stop; what the limit would have done is not claimed."""
    call = Background(lambda: run(owner, f"echo x > {gate}; exec sleep 60", shell=True, idle_timeout=30))
    gate.wait()
    owner.stop()
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert (True, False, None) == (
        error.partial.outcome.stopped,
        error.partial.outcome.timed_out,
        error.partial.outcome.timed_out_by,
    )


def test_slow_reader_is_not_silence(owner: FakeTurn) -> None:
    """A command that waits for its reader is not taken to be silent, however long that takes."""
    size = 9 * 1024 * 1024
    process = popen(owner, ["head", "-c", str(size), "/dev/zero"], idle_timeout=0.3)
    with process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)  # nobody reads: it waits at 8 MiB
        raise AssertionError("it came to its end")

    assert not process.outcome().timed_out


def test_suspended_program_ends_nobody() -> None:
    """A program that was stopped for longer than the limit reads what came meanwhile before it decides."""
    program = (
        "import turnctl\n"
        "print('ready', flush=True)\n"
        "done = turnctl.run(['sh', '-c', 'for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.1; done'], idle_timeout=0.6)\n"
        "print(done.returncode, done.outcome.timed_out)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        process.stdout.readline()
        threading.Event().wait(0.3)
        os.kill(process.pid, signal.SIGSTOP)
        threading.Event().wait(1.0)
        os.kill(process.pid, signal.SIGCONT)
        said = process.stdout.read()

    assert "0 False\n" == said


@pytest.mark.parametrize(
    "options",
    [
        {"capture": False},
        {"stdout": "null", "stderr": "null"},
        {"stdout": "inherit", "stderr": "inherit"},
    ],
)
def test_without_output_to_watch_it_is_refused(owner: FakeTurn, options: dict[str, object]) -> None:
    """Where no stream is captured nothing could be heard, so that nothing is started."""
    with pytest.raises(BadArgument, match="idle_timeout has no output to watch"):
        run(owner, ["true"], idle_timeout=1, **options)  # type: ignore[arg-type]

    assert [] == owner.activities


@pytest.mark.parametrize("limit", [0, -1, True, "1x", float("nan")])
def test_wrong_limits_are_refused(owner: FakeTurn, limit: object) -> None:
    """A limit that is no duration above 0 starts nothing."""
    with pytest.raises(BadDuration, match="idle_timeout"):
        run(owner, ["true"], idle_timeout=limit)  # type: ignore[arg-type]


# -- the clock ------------------------------------------------------------------------------------------------


def test_time_of_a_slow_consumer_does_not_count() -> None:
    """While a consumer holds the output up there is no end of silence; it is measured anew from when there is room."""
    pipes: Any = Pipes()
    idle = Idle(0.05)
    pipes.is_held = True
    held = idle.ends_at(pipes), idle.has_passed(pipes)
    until(lambda: idle._since + 0.1 < monotonic())
    pipes.is_held = False
    freed = idle.ends_at(pipes)

    assert (None, False) == held
    assert freed is not None
    assert monotonic() + 0.06 > freed > monotonic()


def test_pipes_are_looked_into_before_the_end() -> None:
    """The time alone is not enough: what lies in a pipe by then was written in time."""
    idle = Idle(0.01)
    until(lambda: idle._since + 0.02 < monotonic())

    assert not idle.has_passed(Pipes(waiting=True))  # type: ignore[arg-type]
    assert idle.has_passed(Pipes())  # type: ignore[arg-type]
