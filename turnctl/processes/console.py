"""What a warden does about a terminal: it puts it right when the host is gone.

Stand-alone, a part of the warden. A host that was killed cannot give the foreground back nor undo what a command did to
the driver's settings (raw mode, no echo). The warden holds a descriptor of the terminal, and does it in its place.

Invariants
  R1  Nothing is changed on a terminal that somebody else has taken meanwhile: the foreground must still be with the
      command's group, or with the host's if it was the host that changed the settings.
  R2  It is done at once, when the loss is seen, and once: later it could hit whoever goes on there.
  R3  No call here stops this process: SIGTTOU is blocked for its length.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Console", "controlled_by"]


class Console:
    """The terminal of one command, or of its host, or none."""

    __slots__ = ("_fd", "_group", "_is_hosts_own", "_modes")

    def __init__(self) -> None:
        self._fd = -1
        self._group = 0
        self._modes: list[Any] = []
        self._is_hosts_own = False

    def hold(self, given: "tuple[int, int, list[Any], bool] | None", fds: tuple[int, ...]) -> None:
        """Begin with what the request has of it: a descriptor, the host's group, the settings, and
        whether the host itself has changed them."""
        if given is not None:
            at, self._group, self._modes, self._is_hosts_own = given
            self._fd = os.dup(fds[at])

    def restore(self, leader: int) -> None:
        """Put it right for whoever is in the host's group, and let go of it; ``leader`` is the command's group."""
        if self._fd < 0:
            return
        import termios

        before = _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGTTOU,))
        try:
            holder = os.tcgetpgrp(self._fd)
            if holder == leader or (self._is_hosts_own and holder == self._group):
                # not TCSADRAIN: output that was halted by Ctrl-S would make it wait for ever
                termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)
            if holder == leader:
                os.tcsetpgrp(self._fd, self._group)
        except (OSError, termios.error):
            pass  # it has hung up, or nobody is left in that group
        finally:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
        self.close()

    def close(self) -> None:
        """Let go of it; may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def controlled_by(fd: int) -> None:
    """Make that terminal the controlling one of this process, which leads a session that has none."""
    from fcntl import ioctl
    from termios import TIOCSCTTY

    ioctl(fd, TIOCSCTTY, 0)
