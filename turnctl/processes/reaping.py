"""Helpers of turnctl that are children of this process: reaped, so that none stays a zombie.

Invariant R1: one is in the list or in one hand, so that nobody waits by a descriptor that another thread has closed.

Thread-safe. Blocks where a time is given, for so long at most. In a forked child nothing is left here.
"""

from __future__ import annotations

import os
import select
import signal

from turnctl.processes.kernel import open_pidfd

__all__ = ["Child", "child_of_ours", "reap_children"]

#: those that were let go of and had not ended by then
_left: list[Child] = []


class Child:
    """A child that this process has just started, or that ``child_of_ours`` found."""

    __slots__ = ("_fd", "_pid")

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # at once: a program may have a handler that reaps every child
        self._fd = open_pidfd(pid)

    def kill(self) -> None:
        """Have it killed, where that reaches nobody else."""
        try:
            if self._fd is not None:
                signal.pidfd_send_signal(self._fd, signal.SIGKILL)
            elif self.is_ours():
                os.kill(self._pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended, or is another user's by now

    def let_go(self, within_ms: int) -> None:
        """Reap it when it ends, now if it does so in that time. Where there are no pidfds that blocks until it does."""
        _left.append(self)
        reap_children(within_ms, self)

    def _reap(self, within_ms: int) -> bool:
        """Whether it is gone."""
        try:
            if self._fd is None:
                os.waitpid(self._pid, 0)
                return True
            ready = select.poll()
            ready.register(self._fd, select.POLLIN)
            if not ready.poll(within_ms):
                return False
            os.waitid(os.P_PIDFD, self._fd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            pass  # the program reaps every child by itself
        return True

    def is_ours(self) -> bool:
        """Whether it is a child that nobody has reaped, so that its number is nobody else's."""
        kind, number = (os.P_PID, self._pid) if self._fd is None else (os.P_PIDFD, self._fd)
        try:
            os.waitid(kind, number, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def close(self) -> None:
        """Let go of it without reaping it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def child_of_ours(pid: int) -> Child | None:
    """The process of that number, if it is a child of this one, and a descriptor of it is to be had."""
    found = Child(pid)
    if found._fd is not None and found.is_ours():
        return found
    found.close()
    return None


def reap_children(within_ms: int, first: Child | None = None) -> None:
    """Reap those that were let go of and have ended; ``first`` alone is waited for, if one is given, else each."""
    for child in list(_left):
        try:
            _left.remove(child)
        except ValueError:
            continue  # another thread has it in hand
        is_gone = False
        try:
            is_gone = child._reap(within_ms if first in (None, child) else 0)
        finally:
            if is_gone:
                child.close()
            else:
                _left.append(child)


def _forget() -> None:
    """In a forked child: they are the parent's."""
    while _left:
        _left.pop().close()


os.register_at_fork(after_in_child=_forget)
