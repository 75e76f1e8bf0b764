"""How the process of a command ends, in what is there also when nothing more can be loaded."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

from enum import IntEnum
from typing import NamedTuple

__all__ = ["Ending", "ExitStatus"]

_BY_SIGNAL = 128


class ExitStatus(IntEnum):
    """What the statuses of the command line mean, besides those that a command gives by itself."""

    OK = 0
    USAGE = 2
    BUG = 70
    STOPPED = 122
    UNRESOLVED = 123
    DEADLINE = 124
    FAILED = 125
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


class Ending(NamedTuple):
    """How this process has to end: with a status, and by a signal where ``signal`` names one."""

    status: int
    signal: int | None = None

    @classmethod
    def by(cls, signum: int) -> "Ending":
        """The ending of who dies of that signal; the status is the one that shells show for it."""
        return cls(_BY_SIGNAL + signum, signum)
