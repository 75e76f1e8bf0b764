"""The mark in a command's environment that names who holds it: its warden and the launcher, by pid and start time.

Stand-alone. It is evidence for the day when both were killed at one moment, and nothing else goes by it: a program can
drop it, and where the environment was given whole there is none.
"""

import os

from turnctl.processes.kin import is_dead, read_member

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NAME", "Mark", "is_there", "own_namespace", "put", "read_mark"]

NAME = "TURNCTL_HELD_BY"
_PREFIX = NAME.encode() + b"="

_own: tuple[int, bytes] = (0, b"")


class Mark:
    """What a mark says: warden and launcher as pid and start, and the pid namespace in which that holds."""

    __slots__ = ("launcher", "namespace", "warden")

    def __init__(self, warden: tuple[int, int], launcher: tuple[int, int], namespace: int) -> None:
        self.warden = warden
        self.launcher = launcher
        self.namespace = namespace

    def is_held(self) -> bool:
        """Whether one of the two is still there."""
        return is_there(*self.warden) or is_there(*self.launcher)


def put(env: list[bytes]) -> None:
    """Add the mark of this process, a warden below a launcher, in place of one that is there."""
    env[:] = [item for item in env if not item.startswith(_PREFIX)]
    mark = _own_mark()
    if mark:
        env.append(mark)


def _own_mark() -> bytes:
    """Empty where /proc does not show this process, so that nobody could be found by it either."""
    global _own
    me = os.getpid()
    if _own[0] != me:
        numbers: list[int] = []
        for pid in (me, os.getppid()):
            member = read_member(pid)
            numbers += [pid, 0 if member is None else member.start]
        numbers.append(own_namespace())
        _own = me, b"" if 0 in numbers else _PREFIX + b".".join([b"%d" % number for number in numbers])
    return _own[1]


def own_namespace() -> int:
    """The number of this process's pid namespace, 0 where it is not told."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def read_mark(environ: "Sequence[bytes]") -> Mark | None:
    """The mark in an environment; None without one that can be read."""
    for item in environ:
        if item.startswith(_PREFIX):
            words = item[len(_PREFIX) :].split(b".")
            if len(words) != 5 or not all(word.isdigit() for word in words):
                return None
            numbers = [int(word) for word in words]
            return Mark((numbers[0], numbers[1]), (numbers[2], numbers[3]), numbers[4])
    return None


def is_there(pid: int, start: int) -> bool:
    """Whether that very process lives."""
    member = read_member(pid)
    return member is not None and member.start == start and not is_dead(member)
