"""The refusal of a thread: told as the exhausted limit that it is, as the refusal of a process is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EAGAIN

__all__ = ["has_no_thread", "is_thread_refused", "needing_threads"]


def is_thread_refused(error: BaseException | None) -> bool:
    """Whether it says that the system gave no thread (not: that the program is ending)."""
    if isinstance(error, BlockingIOError):
        error = error.__cause__  # as it was told already
    return isinstance(error, RuntimeError) and "can't start new thread" in str(error)


def has_no_thread(error: BaseException | None) -> bool:
    """Whether it says that no thread could be started, for this reason or because the program is ending."""
    is_ending = isinstance(error, RuntimeError) and "new thread at interpreter shutdown" in str(error)
    return is_ending or is_thread_refused(error)


@contextmanager
def needing_threads(what: str) -> Iterator[None]:
    """Have a thread that is not to be had raise ``BlockingIOError``, as ``subprocess`` does for a process.

    The outermost of several says by its ``what`` for whom the thread was wanted.
    """
    try:
        yield
    except (RuntimeError, BlockingIOError) as error:
        if not is_thread_refused(error):
            raise
        text = "no thread is to be had; the limit of this user or machine on processes and threads is reached"
        cause = error.__cause__ if isinstance(error, BlockingIOError) else error
        raise BlockingIOError(EAGAIN, f"{what}: {text} (ulimit -u)") from cause
