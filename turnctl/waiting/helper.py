"""A thread that runs one call after the other, for those that make many: a thread for each would cost more.

Invariants
  P1  A call is handed over only when the one before it has come back, so that none waits behind a blocked one.
  P2  ``finish`` lets it go: it ends when the call that it is in, if any, comes back. It is a daemon.

Nothing here blocks but ``finish``, for a thread that has nothing left to do.
"""

from __future__ import annotations

import threading
from _thread import LockType
from typing import TYPE_CHECKING

from turnctl.tokens.event import park, release_all
from turnctl.tokens.threads import needing_threads

if TYPE_CHECKING:
    from turnctl.waiting.worker import Worker

__all__ = ["Helper"]


class Helper:
    """One such thread, for one thread that hands calls over; started with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next: list[Worker] = []
        self._last: Worker | None = None
        self._waiters: list[LockType] = []
        self._is_over = False
        self._thread: threading.Thread | None = None

    @property
    def is_free(self) -> bool:
        """Whether a call can be handed over (P1)."""
        return self._last is None or self._last.has_ended

    def take(self, worker: Worker) -> None:
        """Run it on this thread, now."""
        self._last = worker
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name=f"turnctl-{self._name}", daemon=True)
            with needing_threads(self._name):
                thread.start()
            self._thread = thread
        self._next.append(worker)
        release_all(self._waiters)

    def _serve(self) -> None:
        ready = self._next
        while True:
            park(lambda: bool(ready) or self._is_over, None, self._waiters)
            if not ready:
                return
            ready.pop()._run()

    def finish(self) -> None:
        """No more calls: the thread ends, at once if it is free."""
        self._is_over = True
        release_all(self._waiters)
        if self._thread is not None and self.is_free:
            self._thread.join()
