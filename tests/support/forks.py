"""A fork of the test run that does one thing and says what came of it: for waits that a fork must not begin."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["held", "said_in_a_fork"]

BOUND_S = 10  # of which nothing is used: a wait for a thread that is not there has no end


def said_in_a_fork(work: Callable[[], object]) -> str:
    """What ``work`` gives in a forked child, as text, or which error; "hangs" if it does not come back."""
    read, write = os.pipe()
    with warnings.catch_warnings():  # from 3.12 on of threads, which are what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:  # pragma: no cover - in the child
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(BOUND_S)
            try:
                said = str(work())
            except BaseException as error:
                if isinstance(error, AssertionError):
                    traceback.print_exc()
                said = f"{type(error).__name__}: {error}"
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        said = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "hangs" if status == -signal.SIGALRM else said


@contextmanager
def held(enter: Callable[[], object], leave: Callable[[], object]) -> Iterator[None]:
    """Another thread has done ``enter``, and does ``leave`` at the end of the block."""
    has_entered, may_leave = threading.Event(), threading.Event()

    def hold() -> None:
        enter()
        try:
            has_entered.set()
            may_leave.wait(30)
        finally:
            leave()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert has_entered.wait(10)
        yield
    finally:
        may_leave.set()
        thread.join()
