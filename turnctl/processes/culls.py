"""The requests of a host to end all below a command's main process, as one warden carries them out. Stand-alone."""

from time import monotonic

from turnctl.processes.cull import Cull
from turnctl.processes.steps import Ladder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnctl.processes.link import Line
    from turnctl.processes.sweep import Below

__all__ = ["Culls"]


class Culls:
    """Those that go on, by the reference that the host gave. An ending of the command itself takes their place."""

    __slots__ = ("_going", "_line")

    def __init__(self, line: "Line") -> None:
        self._line = line
        self._going: dict[int, Cull] = {}

    def obey(self, kind: str, rest: "list[Any]", below: "Below", began: float) -> None:
        """Tell who is there (``mark``), or begin, or have the one of that reference end sooner (``cull``)."""
        if kind == "mark":
            self._line.send("marked", rest[0], [(one.pid, one.start) for one in below.members()])
            return
        ref, spared, steps, drain_s = rest
        ladder = Ladder(monotonic(), steps, "scope")
        if ref in self._going:
            self._going[ref].ladder.shorten(ladder.kill_at)
        else:
            self._going[ref] = Cull(below.leader, below.leader, spared, ladder, began, drain_s)

    def next_at(self) -> "float | None":
        return min([one.next_at() for one in self._going.values()], default=None)

    def step(self, now: float, *, is_ending: bool) -> None:
        """Go on with each, and tell of those that are over; of none once the command itself is being ended."""
        if is_ending:
            self.clear()
        for ref, one in list(self._going.items()):
            facts = one.step(now)
            if facts is not None:
                del self._going[ref]
                self._line.send("culled", ref, facts)

    def clear(self) -> None:
        """Give up all of them: the command itself is over, or is being ended."""
        self._going.clear()
