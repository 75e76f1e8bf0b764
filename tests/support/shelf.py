"""A state directory with a turn in each condition, made at fixed times, for the commands that answer from it.

=============  ========  ==================================================  =======================================
turn           session   what it is                                          its state
=============  ========  ==================================================  =======================================
``t1aaaaaaaa`` docs      ``sphinx-build docs out``, four effects told        completed
``t1bbbbbbbb``           ``make check``, which has printed                   failed
``t2cccccccc``           ``make all``, cancelled by ana: wrong repo          cancelled, settled
``t2dddddddd`` mail      a program's own turn, one effect told, one not      stopped, effects unresolved
``t3eeeeeeee`` night     ``sleep 99``, its process is gone                   lost
``t3ffffffff`` build     ``make test 'all of it'``, one effect on its way    running
=============  ========  ==================================================  =======================================
"""

from __future__ import annotations

import hashlib
import json
import time
from _thread import LockType
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnctl import clock
from turnctl.ledger import dealings, turnrows
from turnctl.ledger.identity import this_process
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.spool import Spool
from turnctl.ledger.store import Store
from turnctl.records.changes import By, evolve
from turnctl.records.effects import Effect, Receipt
from turnctl.records.tasks import Holder
from turnctl.records.turns import TurnRecord

#: when the first of them began: 2026-11-30T12:00:00Z
START = 1796040000.0
IDS = ("t1aaaaaaaa", "t1bbbbbbbb", "t2cccccccc", "t2dddddddd", "t3eeeeeeee", "t3ffffffff")


def gone() -> Holder:
    """A process that is proven to be gone."""
    return evolve(this_process(), boot_id="another boot")


class Shelf:
    """Puts one turn after another into a store, a minute apart."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._at = START
        self._n = 0

    def by(self, actor: str = "worker", authority: Any = "worker") -> By:
        return By(actor, authority, self._at)

    def deal(self, fn: Any, *args: Any, **more: Any) -> Any:
        self._at += 1
        by = more.pop("by", None) or self.by()
        return self._store.transact(lambda books: fn(books, by, *args, **more))

    def turn(self, turn_id: str, **fields: Any) -> str:
        """A task with a turn on it, which has begun; the incarnation."""
        self._n += 1
        self._at = START + 60 * (self._n - 1)
        task = fields.pop("task", f"job-{self._n}")
        inc = f"i-{self._n}" if task == f"job-{self._n}" else f"i-{task}"
        holder = fields.pop("holder", this_process())
        command = fields.pop("command", None)
        row = TurnRecord(turn_id, "", 0, holder, command=None if command is None else json.dumps(command), **fields)

        def begin(books: Any) -> None:
            by = self.by()
            dealings.submit(books, by, inc, "acme", task)
            dealings.take_lease(books, by, inc, holder)
            turnrows.begin(books, by, row, inc, 1)

        self._store.transact(begin)
        return inc

    def effect(self, inc: str, effect_id: str, key: str, disposition: str | None, **more: Any) -> None:
        payload = b"hello"
        sha = hashlib.sha256(payload).hexdigest()
        wanted = Effect(effect_id, inc, key, "email.send", sha, 0, 1, **more)
        self.deal(dealings.admit, wanted, 1, payload)
        self.deal(dealings.claim, effect_id, 1, "worker")
        if disposition is None:
            return
        receipt = None
        if disposition != "unknown":
            body = f"msg-{effect_id}"
            receipt = Receipt(effect_id, "provider", hashlib.sha256(body.encode()).hexdigest(), body, disposition)  # type: ignore[arg-type]
        self.deal(dealings.close, effect_id, disposition, receipt=receipt, gen=1)

    def cancel(self, inc: str, by: str, reason: str) -> None:
        self.deal(dealings.cancel, inc, lambda: f"cr-{inc}", reason=reason, by=self.by(by, "canceller"))
        self.deal(dealings.acknowledge, inc, 1)

    def end(self, inc: str, turn_id: str, outcome: Any) -> None:
        if outcome != "cancelled":
            self.deal(dealings.complete, inc, 1, outcome)
        self.deal(dealings.give_back, inc, 1)
        self.deal(turnrows.end, turn_id, outcome)


@contextmanager
def opened(folder: Path) -> Iterator[Shelf]:
    """The ledger of a state directory, to put more into it."""
    path = folder / "ledger.sqlite3"
    init(path)
    store = open_sqlite(path)
    try:
        yield Shelf(store)
    finally:
        store.close()


class At:
    """A clock that is set by hand; all that is timed goes by the real one."""

    def __init__(self, now: float) -> None:
        self.now = now

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return self.now

    def block(self, lock: LockType, seconds: float) -> object:
        return lock.acquire(True, seconds)


def prints(folder: Path, turn_id: str, *writes: tuple[str, bytes], limit: int = 1 << 20) -> None:
    """Keep these writes, a second apart from the turn's start on."""
    at = At(START + 60 * IDS.index(turn_id))
    with clock.use(at):
        made = Spool(str(folder), turn_id, limit)
        streams: dict[str, Any] = {}
        for name, data in writes:
            at.now += 1
            if name not in streams:
                streams[name] = made.stream(name)
            streams[name].write(data)
        made.close()


def fill(folder: Path) -> None:
    """Put the turns above there."""
    with opened(folder) as shelf:
        _fill(shelf)
    prints(
        folder,
        IDS[1],
        ("stdout", b"compiling a.c\n"),
        ("stderr", b"a.c:3: warning\n"),
        ("stdout", b"linking"),
        ("stderr", b"ld: error\n"),
        ("stdout", b"... failed\n"),
    )


def _fill(shelf: Shelf) -> None:
    inc = shelf.turn(IDS[0], session="docs", command=["sphinx-build", "docs", "out"], folder="/srv/docs")
    for n in range(4):
        shelf.effect(inc, f"e-a{n}", f"k{n}", "rejected" if n == 3 else "completed")
    shelf.end(inc, IDS[0], "completed")

    inc = shelf.turn(IDS[1], command=["make", "check"])
    shelf.end(inc, IDS[1], "failed")

    inc = shelf.turn(IDS[2], command=["make", "all"])
    shelf.cancel(inc, "ana", "wrong repo")
    shelf.end(inc, IDS[2], "cancelled")

    inc = shelf.turn(IDS[3], session="mail", name="weekly mail")
    shelf.effect(inc, "e-d0", "k0", "completed")
    shelf.effect(inc, "e-d1", "k1", "unknown", consequence="high")
    shelf.cancel(inc, "ben", "wrong list")
    shelf.end(inc, IDS[3], "cancelled")

    shelf.turn(IDS[4], session="night", command=["sleep", "99"], holder=gone())

    inc = shelf.turn(IDS[5], session="build", command=["make", "test", "all of it"], folder="/srv/app")
    shelf.effect(inc, "e-f0", "k0", None)
