"""Being told of an acceptance in whatever process it was made: a doorbell file, rung after COMMIT.

Invariants
  K1  The bell is rung after COMMIT, so who hears it and reads sees what it was rung for.
  K2  The thread has its ear at the bell before it reads how far the acceptances are, and tells of each one after that.
      Who watches and then reads for itself misses none.
  K3  A ring that got lost is found within a second, by SQLite's own count of changes (``data_version``).

The thread begins with the first watch and ends with ``close``. Watchers are called on it, one after the other; what one
raises is told by ``threading.excepthook`` and keeps nothing from the next.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from turnctl import log
from turnctl.errors import StoreClosed, StoreError
from turnctl.ledger import stacks
from turnctl.ledger.connections import Connections
from turnctl.ledger.ears import Ear, open_ear, ring
from turnctl.ledger.highwater import marks_of
from turnctl.ledger.refusals import FAULTS, told

__all__ = ["Doorbell"]

_NET_S = 1.0
_READY_S = 30.0
_NEW = "SELECT inc, told FROM cancellation WHERE told > ? ORDER BY told"


class Doorbell:
    """The bell of the store at ``path``: rung by who accepts, heard by who watches."""

    def __init__(self, path: str, connections: Connections) -> None:
        self._path, self._connections = path, connections
        self._file = f"{path}.bell"
        self._lock = threading.Lock()  # for a few steps only
        self._watchers: dict[object, tuple[str, Callable[[], object]]] = {}
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._failed: StoreError | None = None
        self._ear: Ear | None = None
        self._seen: tuple[sqlite3.Connection | None, int] = (None, 0)
        self._last = 0
        self._closed = False

    def ring(self) -> None:
        """Tell every process that there is something new. A bell that cannot be rung is found by the net (K3)."""
        try:
            ring(self._file)
        except OSError as error:
            log.warning("ledger.bell_silent", file=self._file, error=str(error))

    def watch(self, inc: str, fn: Callable[[], object]) -> Callable[[], None]:
        """Have ``fn`` called soon after each acceptance for ``inc``; blocks until the ear is at the bell."""
        key = object()
        with self._lock:
            if self._closed:
                raise StoreClosed(f"the ledger {self._path} was closed; open it again", path=self._path)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="turnctl-ledger-bell", daemon=True)
                thread.start()  # raises where there is none to be had
                self._thread = thread
            self._watchers[key] = (inc, fn)
        if not self._ready.wait(_READY_S) or self._failed is not None:
            self._watchers.pop(key, None)
            raise self._failed or StoreError(f"the bell of {self._path} cannot be heard", path=self._path)
        return lambda: self._watchers.pop(key, None) and None

    # -- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._ear = ear = open_ear(self._file)
            with self._connections.kept("bell") as connection:
                self._last = marks_of(connection)[0]
                self._has_changed(connection)
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            seen = error if isinstance(error, FAULTS) else sqlite3.OperationalError(str(error))
            self._failed = told(seen, self._path, "watching")
            self._give_back()
            self._ready.set()
            return
        self._ready.set()
        while not self._closed:
            rung = ear.wait(_NET_S)
            try:
                self._tell(self._look(rung=rung))
            except FAULTS as error:
                log.warning("ledger.bell_unread", path=self._path, error=str(error))
                self._tell(None)  # each reads for itself, and meets what is wrong
            stacks.answer(self._path)
        self._give_back()

    def _look(self, *, rung: bool) -> set[str]:
        with self._connections.kept("bell") as connection:
            changed = self._has_changed(connection)
            if not rung and not changed:
                return set()
            new = connection.execute(_NEW, (self._last,)).fetchall()
            self._last = new[-1][1] if new else self._last
            return {row[0] for row in new}

    def _has_changed(self, connection: sqlite3.Connection) -> bool:
        """Whether another connection has committed since the last time; also where this one is another one itself."""
        before, self._seen = self._seen, (connection, _version(connection))
        return before != self._seen

    def _tell(self, incs: set[str] | None) -> None:
        for inc, fn in list(self._watchers.values()):
            if incs is None or inc in incs:
                try:
                    fn()
                except Exception:  # noqa: BLE001 - a watcher's own fault: told as that of any thread
                    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def _give_back(self) -> None:
        if self._ear is not None:
            self._ear.close()
            self._ear = None

    def close(self) -> None:
        """End the thread. Not for a watcher to call."""
        with self._lock:
            self._closed = True
            self._watchers.clear()
            thread = self._thread
        if thread is not None:
            ear = self._ear
            if ear is not None:
                with suppress(OSError):  # it has just ended by itself
                    ear.rouse()
            if thread is not threading.current_thread():
                thread.join()

    def forget(self) -> None:
        """In a forked child: let go of what the parent still uses."""
        if self._ear is not None:
            self._ear.close()


def _version(connection: sqlite3.Connection) -> int:
    found: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return found
