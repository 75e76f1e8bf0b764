"""Threads that requests are served on: started when they are needed, used again, ended together.

Invariants
  O1  A job that was taken is run by one thread, once. One that was not begun when the pool closes never is.
  O2  A thread is started by ``submit`` if more jobs wait than threads do, and fewer than ``limit`` are there.
  O3  The lock is held for a few lines of arithmetic, never while a job runs or a thread is started.

May block: ``close``, for the time it is given. Not promised: that a job which does not come back ends; it is named.
"""

from __future__ import annotations

import threading
from _queue import SimpleQueue
from collections.abc import Callable
from typing import Protocol

from turnctl import clock
from turnctl.tokens.threads import needing_threads

__all__ = ["Job", "Pool"]


class Job(Protocol):
    """What a pool runs. ``run`` must not raise."""

    @property
    def name(self) -> str: ...

    @property
    def run(self) -> Callable[[], object]: ...


class Pool:
    """At most ``limit`` threads for jobs of any number."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.limit = limit
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._queued = 0
        self._idle = 0
        self._is_closed = False
        self._threads: dict[threading.Thread, Job | None] = {}
        self._started = 0

    def submit(self, job: Job) -> bool:
        """Have ``job`` run as soon as a thread is free; False, and nothing, once the pool is closed. Never blocks."""
        with self._lock:
            if self._is_closed:
                return False
            self._queued += 1
            starts = self._queued > self._idle and self._started < self.limit
            if starts:
                self._started += 1
            number = self._started
        self._jobs.put(job)
        if starts:
            self._start(number)
        return True

    def _start(self, number: int) -> None:
        thread = threading.Thread(target=self._serve, name=f"turnctl-{self.name}-{number}", daemon=True)
        self._threads[thread] = None
        try:
            with needing_threads(thread.name):
                thread.start()
        except BaseException:
            self._threads.pop(thread, None)
            with self._lock:
                self._started -= 1
                alone = self._started == 0
            if alone:
                raise  # else one of the others will come to it

    def _serve(self) -> None:
        me = threading.current_thread()
        try:
            while True:
                with self._lock:
                    self._idle += 1
                job = self._jobs.get()
                with self._lock:
                    self._idle -= 1
                    if job is not None:
                        self._queued -= 1
                    is_over = self._is_closed
                if job is None or is_over:
                    return  # O1
                self._threads[me] = job
                job.run()
                self._threads[me] = None
                del job  # else it is held until the next one
        finally:
            self._threads.pop(me, None)

    def close(self, seconds: float) -> tuple[str, ...]:
        """Take no more, drop what waits, and wait for what runs; the names of jobs that have not come back."""
        with self._lock:
            self._is_closed = True
            started = self._started
        for _ in range(started):
            self._jobs.put(None)
        ends_at = clock.monotonic() + seconds
        left = []
        for thread, job in list(self._threads.items()):
            if thread is threading.current_thread():
                continue  # a request that shuts its server down does not wait for itself
            try:
                thread.join(max(ends_at - clock.monotonic(), 0.0))
            except RuntimeError:
                continue  # it is only being started, and finds that all is over
            if thread.is_alive() and job is not None:
                left.append(job.name)
        return tuple(left)
