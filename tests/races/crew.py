"""Threads that live through a whole test and start each round together."""

from __future__ import annotations

import random
import threading
import time
from _thread import LockType, allocate_lock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from turnctl.testing import races

BOUND = 20.0


class Crew:
    """``size`` threads; ``round`` has each run one function, all from the same moment on."""

    def __init__(self, size: int = 8) -> None:
        self._work: Sequence[Callable[[], object] | None] = ()
        self._errors: list[BaseException] = []
        # a thread sleeps on its own lock; a barrier of threading costs several times the work of a round
        self._starts = [_taken() for _ in range(size)]
        self._ends = [_taken() for _ in range(size)]
        self.threads = [threading.Thread(target=self._live, args=(i,), daemon=True) for i in range(size)]
        for thread in self.threads:
            thread.start()

    def _live(self, index: int) -> None:
        while True:
            self._starts[index].acquire()
            work = self._work[index]
            if work is None:
                return
            try:
                work()
            except BaseException as error:
                self._errors.append(error)
            self._ends[index].release()

    def round(
        self,
        work: Sequence[Callable[[], object]],
        *,
        within: float = BOUND,
        rescue: Callable[[], object] | None = None,
    ) -> bool:
        """One function for each thread; returns when all are done, and raises what one of them raised.

        A thread that does not come to its end is an error, or with ``rescue`` the answer False: that is called
        until it does.
        """
        assert len(work) == len(self.threads)
        self._work = work
        for start in self._starts:
            start.release()
        in_time = True
        for end in self._ends:
            while not end.acquire(timeout=within):
                assert rescue is not None, "a thread did not come to the end of its round"
                in_time = False
                rescue()
        if self._errors:
            raise self._errors.pop()
        return in_time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._work = [None] * len(self.threads)
        for start in self._starts:
            start.release()
        for thread in self.threads:
            thread.join(BOUND)


def _taken() -> LockType:
    lock = allocate_lock()
    lock.acquire()
    return lock


class _Shake:
    """At every race point a thread gives way to the others, now and then."""

    def __init__(self, chance: float) -> None:
        self._chance = chance

    def take(self, name: str) -> bool:
        return random.random() < self._chance

    def act(self) -> None:
        time.sleep(0)


@contextmanager
def shaken(chance: float = 0.5) -> Iterator[None]:
    """Have threads give way at race points while the block lasts, so that far more of their steps interleave."""
    with races._active(_Shake(chance)):
        yield
