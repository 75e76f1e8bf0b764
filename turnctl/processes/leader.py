"""The main process of a command: how its end is seen, its status kept, and its number held.

As long as the main process is our child and has not been reaped, the kernel gives its number to nobody else,
neither as a pid nor as a group or session. So it is looked at with ``WNOWAIT`` and reaped last: that is the
proof that a signal to the group reaches this command and no other. Another part of the program may reap it
nevertheless (a SIGCHLD handler, ``os.wait``); then the status is not known, and the group is signalled only
through what else still proves the number: the pidfd, where the kernel can send to a group by it, or a member
known from before.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

from turnctl.processes.table import read_entry

__all__ = ["Leader", "open_pidfd"]

_TO_GROUP = 4  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

# ended or not, these could not be reaped when their command was given up; tried again at the next start
_abandoned: list[Leader] = []


def open_pidfd(pid: int) -> int | None:
    """A descriptor of the process, None where this machine, its sandbox or its limits refuse one."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


class Leader:
    """A child of ours from its start to its reaping. Not thread-safe: whoever supervises it owns it."""

    __slots__ = ("_thread", "_wake", "ended", "entry", "fd", "lost", "pid", "returncode")

    def __init__(self, pid: int, wake: Callable[[], None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = False
        #: reaped by somebody else, so that the status is not known and the number may be used again
        self.lost = False
        self.fd = open_pidfd(pid)
        self.entry = read_entry(pid)
        self._wake = wake
        self._thread: threading.Thread | None = None
        if self.fd is None:
            name = f"turnctl-exit-{pid}"
            self._thread = threading.Thread(target=self._wait_for_end, name=name, daemon=True)
            self._thread.start()

    def _wait_for_end(self) -> None:
        """Wake the loop at the end of the process, where there is no descriptor that would."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass  # reaped in the meantime
        self._wake()

    def look(self) -> bool:
        """Whether the process has ended, all of its threads included. Does not reap; never blocks."""
        if not self.ended:
            self._wait(os.WNOWAIT)
        return self.ended

    def is_held(self) -> bool:
        """Whether its number is certainly still its own: it is our child, and nobody has reaped it."""
        if not self.lost:
            self._wait(os.WNOWAIT)
        return not self.lost

    def _wait(self, flags: int) -> bool:
        kind, number = (os.P_PID, self.pid) if self.fd is None else (os.P_PIDFD, self.fd)
        try:
            found = os.waitid(kind, number, os.WEXITED | os.WNOHANG | flags)
        except ChildProcessError:
            self.ended = self.lost = True
            return True
        if found is None:
            return False
        self.ended = True
        exited = found.si_code == os.CLD_EXITED
        self.returncode = found.si_status if exited else -found.si_status
        return True

    def signal_group(self, signum: int) -> bool:
        """Send to all of the command's group in one step; whether it reached anybody.

        False as well where the group can no longer be proved to be this command's, and for a group that holds
        only processes which we may not signal.
        """
        if self.pid <= 1 or self.pid == os.getpgrp():
            return False
        if self.fd is not None:
            try:
                signal.pidfd_send_signal(self.fd, signum, None, _TO_GROUP)
                return True
            except (ProcessLookupError, PermissionError):
                return False
            except OSError:
                pass  # an older kernel
        if not self.is_held():
            return False
        try:
            os.killpg(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def signal(self, signum: int) -> bool:
        """Send to the process itself; whether it was reached."""
        if self.ended:
            return False
        try:
            if self.fd is not None:
                signal.pidfd_send_signal(self.fd, signum)
            elif self.is_held():
                os.kill(self.pid, signum)
            else:
                return False
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def reap(self) -> bool:
        """Let go of the process, its number and its descriptor; False if it has not ended."""
        if not self.lost and not self._wait(0):
            return False
        self.lost = True
        if self._thread is not None:
            self._thread.join()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        return True

    def abandon(self) -> None:
        """Keep it for reaping at some later start, since it has not ended."""
        _abandoned.append(self)


def reap_abandoned() -> None:
    """Reap what was given up and has ended since. Never blocks."""
    for leader in list(_abandoned):
        if leader.reap():
            try:
                _abandoned.remove(leader)
            except ValueError:
                pass  # another thread was here at the same time


os.register_at_fork(after_in_child=_abandoned.clear)
