"""Measuring the time between the checkpoints of each thread of a turn, for a turn that asks for it.

Invariants
  G1  A gap is the time in which the user's code ran: from one checkpoint to the next that was entered by another call.
      Checkpoints of one and the same call, before and after it has blocked, are no gap.
  G2  A figure is given only for threads that came to a checkpoint after the measuring had begun.

Costs some microseconds per checkpoint, and keeps the frame of each thread's last one alive until ``end``. Nothing here
blocks.
"""

from __future__ import annotations

import sys
import threading
import weakref
from types import FrameType
from typing import TYPE_CHECKING

from turnctl import clock
from turnctl.tokens.sites import Site, frame_of, in_words, is_ours, site_of

if TYPE_CHECKING:
    from turnctl.records.diagnosis import Gap
    from turnctl.tokens.core import TokenCore

__all__ = ["Gaps"]


class _Thread:
    """The last checkpoint of one thread, and its longest gap."""

    __slots__ = ("at", "call", "longest", "site", "thread")

    def __init__(self) -> None:
        self.thread = weakref.ref(threading.current_thread())
        self.at = 0.0
        self.call: FrameType | None = None
        self.site: Site | None = None
        self.longest: tuple[float, Site | None, Site | None, str] | None = None


class Gaps:
    """A tracer (``tokens.tracing``) that measures. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._threads: list[_Thread] = []
        #: how many checkpoints were passed
        self.checkpoints = 0

    def __call__(self, _token: TokenCore) -> None:
        now = clock.monotonic()
        call, user = _call_of(sys._getframe(1))
        mine: _Thread | None = getattr(self._local, "mine", None)
        if mine is None:
            mine = self._local.mine = _Thread()
            self._threads.append(mine)
        elif mine.call is not call:  # G1
            site = site_of(user)
            if mine.longest is None or now - mine.at > mine.longest[0]:
                mine.longest = (now - mine.at, mine.site, site, threading.current_thread().name)
        self.checkpoints += 1
        mine.at, mine.call, mine.site = now, call, site_of(user)

    def end(self) -> None:
        """Let go of frames; what was measured stays."""
        for one in self._threads:
            one.call = None

    def longest(self, now: float | None) -> Gap | None:
        """The longest gap so far; with ``now`` also those that last still. None if no gap was seen."""
        from turnctl.records.diagnosis import Gap

        found = [one.longest for one in self._threads if one.longest is not None]
        best = max(found, key=lambda gap: gap[0], default=None)
        answer = None if best is None else Gap(best[0], in_words(best[1]), in_words(best[2]), best[3])
        if now is not None:
            for one in self._threads:
                thread = one.thread()
                if thread is None or not thread.is_alive() or self._is_in_call(one, thread):
                    continue
                if answer is None or now - one.at > answer.seconds:
                    answer = Gap(now - one.at, in_words(one.site), None, thread.name)
        return answer

    @staticmethod
    def _is_in_call(one: _Thread, thread: threading.Thread) -> bool:
        frame = frame_of(thread.ident)
        while frame is not None:
            if frame is one.call:
                return True
            frame = frame.f_back
        return False


def _call_of(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """The call of ours that the user's code made, and the user's frame."""
    call = None
    while frame is not None and is_ours(frame.f_code.co_filename):
        call = frame
        frame = frame.f_back
    return call, frame
