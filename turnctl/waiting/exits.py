"""Waiting for the end of a process together with the stop, by a descriptor that stands for the process (pidfd).

Nothing is reaped here but by the handle's own ``poll`` or ``exitcode``, which is its owner's way to ask; so no status
is stolen from whoever waits for it elsewhere.

Invariant X1: the descriptor is opened, *then* the handle is asked again. A handle that does not know of an end by then
still has a claim on that number, so the descriptor stands for its process and not for a later one of the same number.

May block: until the process, the stop or the time. Where pidfds are not to be had it goes by slices of 50 ms, and the
report says so. Does not wait for what the process has started, nor for its output. Not promised: anything about a
handle that learns of an end later than it gives the number free, by more than it takes the system to use it again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.errors import BadArgument
from turnctl.waiting.descriptors import READ, wait_ready
from turnctl.waiting.parking import end_of, left_until
from turnctl.waiting.slices import SLICE_S, in_slices, kind_of

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["is_process", "wait_for_exit"]


def is_process(thing: object) -> bool:
    """Whether it has a pid and can tell that the process has ended."""
    return hasattr(thing, "pid") and _way(thing) is not None


def _way(thing: Any) -> Callable[[], object] | None:
    """How to ask whether it has ended: None while it runs."""
    if callable(getattr(thing, "poll", None)):
        return thing.poll  # type: ignore[no-any-return] # subprocess.Popen
    for name in ("exitcode", "returncode"):  # multiprocessing; handles whose owner stores the status
        if hasattr(thing, name):
            return lambda: getattr(thing, name)
    return None


def wait_for_exit(token: CancelToken | None, process: Any, ends_at: float | None) -> bool:
    """Block until the process has ended or ``ends_at``; whether it has. A checkpoint at both ends."""
    status = _way(process)
    assert status is not None
    if token is not None:
        token.check()
    if status() is not None:
        return True
    if not isinstance(process.pid, int):
        raise BadArgument(f"{process!r} has not been started, so it cannot end; start it before waiting for it")
    try:
        fd = _open(process.pid)
    except ProcessLookupError:
        # ended and reaped already, by its owner on another thread or by somebody who had no right to
        return True
    if fd is None:
        return in_slices(token, lambda seconds: _look(status, seconds), ends_at, kind_of(process))
    try:
        if status() is not None:  # X1
            return True
        if not wait_ready(token, {fd: READ}, ends_at):
            return False
        status()
        return True
    finally:
        os.close(fd)


def _open(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:
        return None  # an old kernel, or a filter that forbids it


def _look(status: Callable[[], object], seconds: float | None) -> bool:
    ends_at = end_of(seconds)
    while status() is None:
        left = left_until(ends_at)
        if left == 0:
            return False
        time.sleep(SLICE_S if left is None else min(left, SLICE_S))
    return True
