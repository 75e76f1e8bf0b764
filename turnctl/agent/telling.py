"""Telling others what happens in a run: observers, and whoever iterates over ``loop.stream()``.

Why observers have threads of their own: what is called inline can hang, and a stop then waits for it; a call that is
raced with the stop costs a thread for each event. So each observer of a run has one thread and one queue, hears all
events in order, a little later than they happen, and nobody waits for it but the end of the run, a quarter of a second
at the most. What has to happen *in* the run, and may hold it up, is a hook.

Invariants
  O1  ``tell`` blocks for a consumer of ``stream()`` alone, and then wakes with the stop.
  O2  An observer that raises hears the next event all the same; the first error of each is noted.
  O3  An observer that is behind by ``LIMIT`` events loses pieces of replies (``delta``), and nothing else.
  O4  One that does not come back is left behind, counted and noted.

Observers run with no turn bound: what they call is not cut short by the stop that they are told of.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable, Iterable

from turnctl.records.runs import Event
from turnctl.spelling import described
from turnctl.tokens.event import park, release_all
from turnctl.waiting import abandoned
from turnctl.waiting.aborting import unbound_context
from turnctl.waiting.worker import Worker, name_of

__all__ = ["LIMIT", "Telling"]

LIMIT = 10_000
_FLUSH_S = 0.25


class _Observing:
    """One observer of one run: a thread that calls it with one event after the other."""

    def __init__(self, observer: Callable[[Event], object]) -> None:
        self.observer = observer
        self.name = name_of(observer)
        self.notes: list[str] = []
        self.lost = 0
        self._events: list[Event] = []
        self._is_over = False
        self._waiters: list[LockType] = []
        self._worker = Worker(None, self._serve, (), {}, kind="observer", name=self.name, context=unbound_context())
        self._worker.start()

    def tell(self, event: Event) -> None:
        if event.kind == "delta" and len(self._events) >= LIMIT:
            self.lost += 1  # O3
            return
        self._events.append(event)
        release_all(self._waiters)

    def _serve(self) -> None:
        events = self._events
        while True:
            park(lambda: bool(events) or self._is_over, None, self._waiters)
            if not events:
                return
            event = events.pop(0)
            try:
                self.observer(event)
            except BaseException as error:  # noqa: BLE001 - O2: noted, and the run goes on
                if not self.notes:
                    self.notes.append(f"observer {self.name} failed at {event.kind}: {described(error)}")

    def finish(self) -> list[str]:
        self._is_over = True
        release_all(self._waiters)
        worker = self._worker
        if worker.wait(_FLUSH_S):
            if worker.thread is not None:
                worker.thread.join()
        else:
            abandoned.add(worker)  # O4
            self._events.clear()
            self.notes.append(f"observer {self.name} was left behind{worker.where()}: it did not come back in time")
        if self.lost:
            self.notes.append(f"observer {self.name} was behind, and did not hear {self.lost} pieces of replies")
        return self.notes


class Telling:
    """All who are told of one run. ``tell`` may be called from any thread of the run."""

    def __init__(
        self, observers: Iterable[Callable[[Event], object]], sink: Callable[[Event], object] | None = None
    ) -> None:
        self._given = tuple(observers)
        self._observing: list[_Observing] = []
        self._sink = sink
        self.is_heard = bool(self._given) or sink is not None

    def start(self) -> None:
        """Start the threads of the observers."""
        for one in self._given:
            self._observing.append(_Observing(one))  # one by one: those before one that has no thread are ended

    def tell(self, event: Event) -> None:
        """Have all of them hear it."""
        for one in self._observing:
            one.tell(event)
        if self._sink is not None:
            self._sink(event)

    def finish(self) -> list[str]:
        """No more events: let the observers come to their end; what is to be noted. Blocks at most 0.25 s for each."""
        return [note for one in self._observing for note in one.finish()]
