"""Whether the namespace of a command has ended, asked of the kernel where nobody is left who would tell.

The kernel kills the first process of a namespace with its warden, whoever killed that, and tells of that end only after
everybody in the namespace has gone (``nested``). So its end proves that nothing of the command is left.

Invariants
  W1  It counts as ended only where the kernel says that nobody has its number, or tells by a pidfd, opened by that
      number, of an end: of its own or of one who was given the number after it.
  W2  The number counts only in the pid namespace in which it was told.

Blocks nowhere. Not promised: an answer where there are no pidfds, or somebody who lives on has got the number.
"""

from __future__ import annotations

import os
import select

from turnctl.processes.leader import open_pidfd
from turnctl.processes.marks import own_namespace

__all__ = ["LastWord"]


class LastWord:
    """The first process of a namespace whose warden is gone. Owned by whoever supervises its command."""

    __slots__ = ("_is_gone", "fd")

    def __init__(self, pid: int, namespace: int) -> None:
        #: readable when it has ended; -1 without one
        self.fd = -1
        self._is_gone = False
        if pid > 1 and namespace and namespace == own_namespace():
            self._open(pid)

    def _open(self, pid: int) -> None:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            self._is_gone = True
            return
        except OSError:
            pass  # somebody has the number
        fd = open_pidfd(pid)
        self.fd = -1 if fd is None else fd

    def is_gone(self) -> bool:
        """Whether it has certainly ended."""
        if not self._is_gone and self.fd >= 0:
            ready = select.poll()
            ready.register(self.fd, select.POLLIN)
            self._is_gone = bool(ready.poll(0))
        return self._is_gone

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
