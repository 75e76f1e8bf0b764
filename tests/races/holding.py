"""Two threads in one order of events: one is held at a named point while the other does what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from standins import BOUND, Background

import turnctl
from turnctl.testing import Pause, pause_at


class Held:
    """A thread that stands at a point."""

    def __init__(self, thread: Background[Any], pause: Pause) -> None:
        self._thread = thread
        self._pause = pause

    def result(self) -> Any:
        """Let it go on, and give what it returned or raise what it raised."""
        self._pause.release()
        return self._thread.result()

    @property
    def is_running(self) -> bool:
        return self._thread.is_running


@contextmanager
def held(point: str, fn: Callable[..., Any], *args: Any) -> Iterator[Held]:
    """Run ``fn`` in a thread of its own up to ``point``; it goes on at ``result()`` or at the end of the block."""
    with pause_at(point) as pause:
        thread = Background(fn, *args)
        assert pause.reached.wait(BOUND), f"no thread came to {point}"
        yield Held(thread, pause)
    thread.error()


def begun(session: str | None = None, **options: Any) -> turnctl.Turn:
    """A turn that has begun and is bound to no context."""
    made = turnctl.turn(session, **options)
    made.begin()
    return made


def leave_now(*turns: turnctl.Turn) -> None:
    """End turns that a test has left running, newest first."""
    for turn in reversed(turns):
        turnctl.end_turn(turn)
