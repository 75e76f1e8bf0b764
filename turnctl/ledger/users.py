"""Which processes have a store open: so that who comes first after a crash looks whether the file is sound.

A lock that ends with the process (``flock``): shared by those who use the store, and to be had alone by the first.
Not shared with a fork.
"""

from __future__ import annotations

import fcntl
import os

from turnctl.ledger.ownfiles import own_file

__all__ = ["Users"]


class Users:
    """This process's part in it."""

    def __init__(self, path: str) -> None:
        self._file = f"{path}.users"
        self.joined = False
        self._fd = own_file(self._file, os.O_RDWR)

    def are_none(self) -> bool:
        """Whether nobody else has it open; keeps others from finding so until ``join`` or ``close``."""
        return self._take(fcntl.LOCK_EX)

    def join(self) -> None:
        """Be one of them; while somebody else looks at the file that is refused, and asked for again."""
        self.joined = self._take(fcntl.LOCK_SH)

    def _take(self, how: int) -> bool:
        try:
            fcntl.flock(self._fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def again(self) -> None:
        """In a forked child: let go of the parent's, and be one of them by itself."""
        self.close()
        self._fd = own_file(self._file, os.O_RDWR)
        self.join()

    def close(self) -> None:
        """Be none of them any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
