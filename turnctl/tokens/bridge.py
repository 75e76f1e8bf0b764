"""The bridge thread: carries a token's signal to things that cannot wait on it, until the turn is over.

Invariants
  B1  One thread per bridge, started with the first thing to serve, never by ``cancel``; a turn that needs none
      starts none.
  B2  The thread sleeps in one ``SimpleQueue.get``. ``ring`` is a ``put``: it holds nothing, never blocks, and may
      be called from a signal handler or a finalizer.
  B3  Each round runs watchers (ours, built-in bridges among them; they neither block nor raise), then the callbacks
      in the order of their registration. A ring in between has the watchers run before the next callback. A callback
      is run at most once, by whoever takes it off the list.
  B4  ``finish`` marks the bridge over and *then* rings: the thread makes one more round and ends. Who lists a
      callback or a release reads ``is_over`` *after* listing it.
  B5  ``finish`` runs each release (``at_over``) once, on the thread that calls it, however long a callback of the
      user holds the bridge thread up: what belongs to the turn is given back when the turn is over.
  B6  ``finish`` marks the bridge over and *then* reads the thread; ``start`` stores the thread and *then* reads
      ``is_over``. So none is started that the end of the turn does not wait for.

  B7  A fork has no thread of a bridge. That of a token without a turn, which is as good there, starts another one with
      the next thing to serve; callbacks from before the fork wait for that.

May block: ``finish``, for the time it is given, on a callback of the user, and before that for as long on a start of
the thread. Such a thread is named in the report.
Not promised: that watchers run while a callback of the user does.
"""

from __future__ import annotations

import os
import threading
import weakref
from _queue import SimpleQueue
from _thread import LockType, allocate_lock
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.tokens.threads import needing_threads

if TYPE_CHECKING:
    from turnctl.tokens.callbacks import Registration
    from turnctl.tokens.token import CancelToken

__all__ = ["Bridge"]


class Bridge:
    """One lazily started thread that serves all callbacks and watchers of a turn."""

    __slots__ = (
        "__weakref__",
        "_gate",
        "_queue",
        "_releases",
        "_served",
        "_starts",
        "_thread",
        "_watchers",
        "is_over",
        "name",
        "of_turn",
    )

    def __init__(self, name: str, *, of_turn: bool = True) -> None:
        self.name = name
        self.of_turn = of_turn
        self.is_over = False
        self._begin_anew()
        if not of_turn:
            _alone.add(self)
        # weak: a token that nobody can reach can never trip, and must not be kept by its bridge
        self._served: dict[weakref.ref[CancelToken], None] = {}
        self._watchers: dict[object, Callable[[], None]] = {}
        self._releases: dict[object, Callable[[], None]] = {}

    def _begin_anew(self) -> None:
        self._gate = allocate_lock()
        self._queue: SimpleQueue[None] = SimpleQueue()
        # starts that go on: on which thread, and what is held meanwhile
        self._starts: dict[tuple[int, LockType], None] = {}
        self._thread: threading.Thread | None = None

    @property
    def thread_name(self) -> str:
        return f"turnctl-bridge-{self.name}"

    @property
    def is_running(self) -> bool:
        """Whether its thread is there."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def ring(self) -> None:
        """Have the thread look again. Never blocks; does nothing without a thread."""
        self._queue.put(None)

    def wake(self) -> None:
        """Have the thread look again, and see that there is one. Put first, then try to start: a thread that is
        giving itself up does the two the other way round, so that one of the two sees the other."""
        self.ring()
        self.start()

    def serve(self, token: CancelToken) -> None:
        """Run ``token``'s callbacks on this bridge from now on; starts the thread if there is none."""
        if weakref.ref(token) not in self._served:
            self._served[weakref.ref(token, self._gone)] = None
            token._grow().bells.append(self.ring)
        self.start()

    def _gone(self, ref: weakref.ref[CancelToken]) -> None:
        self._served.pop(ref, None)
        if not self.of_turn and not self._served:
            self.is_over = True
            self.ring()

    def watch(self, token: CancelToken, fn: Callable[[], None]) -> Callable[[], None]:
        """Call ``fn`` on the thread after each change of ``token``; returns the undo."""
        key = object()
        self._watchers[key] = fn
        self.serve(token)
        if token.stopping:  # then read the log
            self.ring()
        return lambda: self._watchers.pop(key, None) and None

    def at_over(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call ``fn`` once when the bridge is finished, at once if it has been; returns the undo. Needs no thread.

        ``fn`` must neither block nor raise. It runs on the thread that ends the turn.
        """
        key = object()
        self._releases[key] = fn
        points.reach("bridge.release.listed")
        if self.is_over:  # B4
            self._release_all()
        return lambda: self._releases.pop(key, None) and None

    def _release_all(self) -> None:
        for key in list(self._releases):
            fn = self._releases.pop(key, None)  # atomic, so each is called once
            if fn is not None:
                fn()

    def start(self) -> None:
        """Start the thread once, unless the bridge is over."""
        points.reach("bridge.start")
        if self._gate.locked():
            return
        mine = (threading.get_ident(), allocate_lock())
        mine[1].acquire()
        self._starts[mine] = None
        try:
            if self._gate.acquire(False):  # tried, never waited for
                self._start_thread()
        finally:
            del self._starts[mine]
            mine[1].release()

    def _start_thread(self) -> None:
        before = self._thread
        try:
            self._thread = thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)
            if self.is_over:  # B6
                self._thread = before
                self._gate.release()
                return
            points.reach("bridge.starting")
            with needing_threads(self.thread_name):
                thread.start()
        except BaseException:
            self._thread = before
            self._gate.release()
            raise

    def _await_starts(self, within: float = -1) -> None:
        """Wait until every start that goes on now is decided, but for those of this very thread, below us."""
        for ident, going_on in list(self._starts):
            if ident != threading.get_ident() and going_on.acquire(timeout=within):
                going_on.release()

    def _run(self) -> None:
        while True:
            self._queue.get()
            while not self._queue.empty():
                self._queue.get()
            last = self.is_over
            self._round()
            if last:
                return
            if self._is_idle():
                # give the thread up, and *then* look whether more has come
                self._gate.release()
                if self._queue.empty() and self._is_idle():
                    return
                while not self._gate.acquire(False):
                    self._await_starts()
                    if self._thread is not threading.current_thread():
                        return  # another one goes on

    def _is_idle(self) -> bool:
        """Whether nothing can become due any more that is not listed anew."""
        if self._watchers:
            return False
        found = [token for ref in list(self._served) if (token := ref()) is not None]
        return all(token.cancelled or token.retired for token in found) and not self._due(found)

    @staticmethod
    def _due(found: list[CancelToken]) -> list[Registration]:
        return [call for token in found if token.cancelled for call in list(token._grow().calls)]

    def _round(self) -> None:
        """Run all that is due."""
        while True:
            rings = self._queue.qsize()
            for fn in list(self._watchers.values()):
                fn()
            found = [token for ref in list(self._served) if (token := ref()) is not None]
            due = self._due(found)
            if not due:
                return
            for registration in sorted(due, key=attrgetter("order")):
                registration._run_once()
                if self._queue.qsize() != rings:
                    break  # something has changed: watchers first (B3)

    def finish(self, timeout: float = 0.0) -> bool:
        """End the thread after one more round, waiting at most ``timeout`` seconds; whether it has ended.

        Called on the bridge's own thread it only marks it, and the answer is True: the thread ends when the
        callback that called it returns.
        """
        self.is_over = True
        self.ring()
        try:
            return self._join(timeout)
        finally:
            self._release_all()  # B5

    def _join(self, timeout: float) -> bool:
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        if timeout > 0:
            try:
                self._await_starts(timeout)
                thread.join(timeout)
            except RuntimeError:
                pass  # it could not be started, or is being started by this thread, below us: it finds the bridge over
        if thread.is_alive():
            return False
        self._served.clear()
        self._watchers.clear()
        return True


_alone: weakref.WeakSet[Bridge] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for bridge in list(_alone):
        bridge._begin_anew()  # B7


os.register_at_fork(after_in_child=_begin_all_anew)
