"""What has to be done whole is, once, whatever strikes the main thread."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from turnctl.testing import call_at
from turnctl.waiting.unstruck import unstruck


class _Struck(RuntimeError):
    """What a handler of the host's raises."""


def _hurried() -> None:
    """Nobody is waited for."""


def test_it_is_done_once_however_often_it_is_struck() -> None:
    """Whatever a handler raises is given back, the first of it, and what is done is neither cut nor begun again."""
    begun: list[str] = []
    hurried: list[str] = []
    main = threading.main_thread().ident
    assert main is not None

    def done() -> str:
        begun.append(threading.current_thread().name)
        for n in range(3):
            signal.pthread_kill(main, signal.SIGUSR1)
            while not seen[n].wait(1):  # one that comes right before a wait is seen with the next
                signal.pthread_kill(main, signal.SIGUSR1)
        return "done"

    seen = [threading.Event() for _ in range(3)]

    def handler(_number: int, _frame: FrameType | None) -> None:
        raise _Struck(len(hurried))

    def hurry() -> None:
        hurried.append("")
        seen[min(len(hurried), 3) - 1].set()

    earlier = signal.signal(signal.SIGUSR1, handler)
    try:
        found = unstruck(done, name="it", hurry=hurry)
    finally:
        signal.signal(signal.SIGUSR1, earlier)

    assert ("done", 1) == (found.value, len(begun))
    assert len(hurried) >= 3
    assert isinstance(found.by, _Struck)
    assert (0,) == found.by.args


def test_start_that_is_struck_is_made_again() -> None:
    """A Ctrl-C before its thread has come up begins it later, and not twice."""
    left = [KeyboardInterrupt(), KeyboardInterrupt()]
    begun: list[None] = []

    def strikes() -> None:
        if left:
            raise left.pop()

    with call_at("worker.admitted", strikes):
        found = unstruck(lambda: begun.append(None), name="it", hurry=_hurried)

    assert [None] == begun
    assert isinstance(found.by, KeyboardInterrupt)


def test_without_a_thread_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has no thread left, and on any thread but the main one, the caller does it."""

    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        here = unstruck(threading.get_ident, name="it", hurry=_hurried)
    beside: list[bool] = []

    def run() -> None:
        found = unstruck(threading.get_ident, name="it", hurry=_hurried)
        beside.append(found.value == threading.get_ident())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert threading.get_ident() == here.value
    assert [True] == beside


def test_what_it_raises_is_raised() -> None:
    """An error of what is done is the caller's."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        unstruck(fails, name="it", hurry=_hurried)
