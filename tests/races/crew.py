"""Threads that live through a whole test and start each round together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from turnctl.testing import races

BOUND = 20.0


class Crew:
    """``size`` threads; ``round`` has each run one function, all from the same moment on."""

    def __init__(self, size: int = 8) -> None:
        self._work: Sequence[Callable[[], object]] = ()
        self._arrived: list[None] = []
        self._errors: list[BaseException] = []
        self._over = False
        self._barrier = threading.Barrier(size + 1)
        self.threads = [threading.Thread(target=self._live, args=(i,), daemon=True) for i in range(size)]
        for thread in self.threads:
            thread.start()

    def _live(self, index: int) -> None:
        while True:
            self._barrier.wait()
            if self._over:
                return
            # woken one by one, so they wait for the last of them before they begin
            self._arrived.append(None)
            give_up_at = time.monotonic() + BOUND
            while len(self._arrived) < len(self.threads) and time.monotonic() < give_up_at:
                pass
            try:
                self._work[index]()
            except BaseException as error:
                self._errors.append(error)
            self._barrier.wait()

    def round(self, work: Sequence[Callable[[], object]]) -> None:
        """One function for each thread; returns when all are done, and raises what one of them raised."""
        assert len(work) == len(self.threads)
        self._work = work
        self._arrived.clear()
        self._barrier.wait(BOUND)
        self._barrier.wait(BOUND)
        if self._errors:
            raise self._errors.pop()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        if not self._barrier.broken:
            self._barrier.wait(BOUND)
        for thread in self.threads:
            thread.join(BOUND)


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
