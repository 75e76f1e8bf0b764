"""How the process of a command ends."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

from typing import NamedTuple

__all__ = ["Ending"]

_BY_SIGNAL = 128


class Ending(NamedTuple):
    """How this process has to end: with a status, and by a signal where ``signal`` names one."""

    status: int
    signal: int | None = None

    @classmethod
    def by(cls, signum: int) -> "Ending":
        """The ending of who dies of that signal; the status is the one that shells show for it."""
        return cls(_BY_SIGNAL + signum, signum)
