"""The end of a process is waited for under a stop, by its descriptor, and nobody's status is stolen."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError
from turnctl.testing import call_at
from turnctl.tokens.token import TurnToken
from turnctl.waiting.wait import wait


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def test_status_is_there_afterwards(token: TurnToken) -> None:
    """The handle knows its status when the wait is over, and gives it to a later ``wait`` of its own."""
    with subprocess.Popen(["sh", "-c", "exit 3"]) as process:
        found = wait(token, process, BOUND)
        status = process.returncode

    assert found
    assert 3 == status


def test_status_stays_for_a_handle_that_waits_itself(token: TurnToken) -> None:
    """A thread in ``Popen.wait`` gets the true status, and so do we."""
    with sleeper() as process:
        owner = Background(process.wait)
        waiter = Background(wait, token, process)
        assert until(lambda: token._grow().bells)
        process.terminate()

        assert -signal.SIGTERM == owner.result()
        assert waiter.result()


def test_stop_leaves_the_process_alone(token: TurnToken) -> None:
    """The wait ends, the process goes on: it is not the turn's."""
    with sleeper() as process:
        waiter = Background(wait, token, process)
        assert until(lambda: token._grow().bells)
        token.cancel()
        error = waiter.error()
        still = process.poll()
        process.kill()

    assert isinstance(error, CancelledError)
    assert still is None


def test_process_that_was_reaped_by_somebody_else(token: TurnToken) -> None:
    """One whose status somebody took without its handle has ended, and no later process is taken for it."""
    with sleeper() as process:
        process.kill()
        os.waitpid(process.pid, 0)
        with call_at("waiting.asked", lambda: None):
            found = wait(token, process, BOUND)

    assert found


def test_number_that_was_given_to_a_later_process(token: TurnToken, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends as its descriptor is opened is asked again, and a later one of its number is not awaited."""

    class Handle:
        pid = 1
        returncode: int | None = None

    handle = Handle()
    opened = os.pidfd_open

    def reused(pid: int, flags: int = 0) -> int:
        handle.returncode = 0
        return opened(os.getpid(), flags)

    monkeypatch.setattr(os, "pidfd_open", reused)

    assert wait(token, handle, 5)


def test_handle_whose_owner_stores_the_status(token: TurnToken) -> None:
    """A handle with a pid and a returncode is enough: the process has ended when the kernel says so."""

    class Handle:
        def __init__(self, pid: int) -> None:
            self.pid = pid
            self.returncode: int | None = None

    with sleeper() as process:
        early = wait(token, Handle(process.pid), 0.01)
        waiter = Background(wait, token, Handle(process.pid))
        assert until(lambda: token._grow().bells)
        process.kill()
        found = waiter.result()
        stored = Handle(process.pid)
        stored.returncode = 0

        assert not early
        assert found
        assert wait(token, stored)


def test_multiprocessing_process(token: TurnToken) -> None:
    """Its exit code is there when the wait is over."""
    process = multiprocessing.get_context("fork").Process(target=os._exit, args=(4,))
    with pytest.raises(BadArgument, match="has not been started"):
        wait(token, process)
    process.start()
    found = wait(token, process, BOUND)
    code = process.exitcode
    process.close()

    assert found
    assert 4 == code


def test_command_of_the_turn() -> None:
    """A command that the turn started can be awaited, and the stop that ends it ends the wait."""
    with turnctl.turn() as turn:
        quick = turn.popen(["true"])
        found = turn.wait(quick, BOUND)
        slow = turn.popen(["sleep", "60"])
        waiter = Background(turn.wait, slow)
        assert until(lambda: turn.token._grow().bells or turn.token._grow().waiters)
        turn.cancel()
        error = waiter.error()

    assert found
    assert isinstance(error, CancelledError)


def test_without_process_descriptors_it_goes_by_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none, or forbids them, the wait works and says that it polls."""

    def forbidden(pid: int, flags: int = 0) -> int:
        raise PermissionError

    for how in (
        lambda: monkeypatch.setattr(os, "pidfd_open", forbidden),
        lambda: monkeypatch.delattr(os, "pidfd_open"),
    ):
        how()
        with turnctl.turn() as turn, sleeper() as process:
            early = turn.wait(process, "20ms")
            waiter = Background(turn.wait, process)
            process.kill()
            found = waiter.result()

        assert not early
        assert found
        assert any("subprocess.Popen in slices of 50 ms" in note for note in turn.report.notes)


def test_no_descriptor_stays(token: TurnToken) -> None:
    """However the wait ends, its descriptors are closed."""
    before = len(os.listdir("/proc/self/fd"))
    with sleeper() as process:
        for _ in range(5):
            wait(token, process, 0.001)
        token.cancel()
        with pytest.raises(CancelledError):
            wait(token, process)
        after = len(os.listdir("/proc/self/fd"))
        process.kill()

    assert before == after


def test_wait_without_a_turn(token: TurnToken) -> None:
    """It is a plain wait, timed or not."""
    begun = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        found = wait(None, process)
    thing: Any = process

    assert found
    assert wait(None, thing, 0)
    assert time.monotonic() - begun < BOUND
