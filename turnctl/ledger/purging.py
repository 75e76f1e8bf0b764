"""Purging a ledger: which trees of tasks are old enough and are told of in full, and burying them piece by piece.

Invariants
  U1  No transaction takes away more than some hundred rows, so a cancellation waits for no more than that.
  U2  Each transaction leaves a ledger that is whole. What was killed in between is gone on with by the next purge.
  U3  What was found to be purgeable is looked at again in the transaction that buries it.
  U4  What is to be exported is on the disk before any of its tree is buried.
  U5  The clock decides only how old something is, never what came first.

Blocks for the store, for as long as all of it takes. Not a checkpoint. Several purges beside each other are allowed.
Not promised: the moment at which the file gets smaller; SQLite cuts it off when it next writes its log through.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from turnctl.clock import wall
from turnctl.errors import BadArgument
from turnctl.ledger.graves import Pin, known, pinned
from turnctl.ledger.spooling import forget, forget_noted, with_output
from turnctl.records.retention import Purged

if TYPE_CHECKING:
    from turnctl.ledger.store import Books, Store

__all__ = ["purge"]

#: how much one transaction does: rows taken away, tombstones made or dropped, pages given back
ROWS, TOGETHER, TOMBSTONES, PAGES = 400, 16, 200, 64
_LOOK = 64


class _Family(NamedTuple):
    """A root and all that is below it, leaves first; and why it stays, if it does."""

    pos: int
    incs: tuple[str, ...]
    pin: Pin | None


def purge(
    store: Store,
    *,
    older_than_s: float,
    tombstones_s: float,
    dry_run: bool,
    include_detached: bool,
    export: str | None = None,
) -> Purged:
    """See ``Ledger.purge``."""
    now = wall()
    if export is not None and not os.path.isdir(export):
        raise BadArgument(f"there is no folder {export!r} for the bundles of what is purged; make it, mode 0700")
    one = _Purge(store, now, now - older_than_s, include_detached, export)
    if not dry_run:
        one.clear()
    one.bury_all(dry_run=dry_run)
    dropped = given_back = 0
    if not dry_run:
        dropped = one.forget(now - tombstones_s)
        given_back = one.give_back()
    return Purged(one.count, dropped, given_back, dict(one.kept), dry_run)


class _Done(NamedTuple):
    """What one transaction came to: how many were seen to and buried, which is not gone as a whole, why some stay."""

    seen: int
    buried: int
    unfinished: str | None
    kept: list[Pin]


class _Purge:
    def __init__(self, store: Store, now: float, before: float, include_detached: bool, export: str | None) -> None:
        self._export_to = export
        self.store, self.now, self.before, self.include_detached = store, now, before, include_detached
        self.count = 0
        self.kept: Counter[str] = Counter()

    # -- what to bury ---------------------------------------------------------------------------------------------

    def bury_all(self, *, dry_run: bool) -> None:
        after = 0
        while found := self.store.read(lambda books, after=after: self._look(books, after)):  # type: ignore[misc]
            after = found[-1].pos
            self.kept.update(one.pin for one in found if one.pin is not None)
            incs = [inc for one in found if one.pin is None for inc in one.incs]
            if dry_run:
                self.count += len(incs)
            else:
                for one in found if self._export_to is not None else ():
                    if one.pin is None:
                        self._export(one.incs[-1])
                for at in range(0, len(incs), TOGETHER):
                    self._bury(incs[at : at + TOGETHER])

    def _export(self, root: str) -> None:
        """Have a bundle of the tree in the folder for them; one that a killed purge has left there is whole."""
        from turnctl.ledger.bundling import write_bundle

        path = os.path.join(self._export_to or "", f"{root}.bundle")
        if not os.path.lexists(path):
            write_bundle(self.store, root, path, payloads=True, scope="subtree")

    def _look(self, books: Books, after: int) -> list[_Family]:
        return [self._family(books, pos, root) for pos, root in books.roots_over(self.before, after, _LOOK)]

    def _family(self, books: Books, pos: int, root: str) -> _Family:
        incs = [root]
        for inc in incs:
            pin, children = self._pin(books, inc)
            if pin is not None:
                return _Family(pos, (), pin)
            incs += [one for one in children if one not in incs]
        return _Family(pos, tuple(reversed(incs)), None)

    def _pin(self, books: Books, inc: str) -> tuple[Pin | None, list[str]]:
        view = books.incarnation(inc)
        if view is None:  # since it was found
            return None, []
        detached = [one for one in books.detached_of(inc) if known(books, one.ref) is None]
        pin = pinned(view, detached, self.before, include_detached=self.include_detached)
        return pin, [its.inc for _, its in view.children]

    # -- burying --------------------------------------------------------------------------------------------------

    def _bury(self, incs: list[str]) -> None:
        output = with_output(self.store, incs)
        while incs:
            done = self.store.transact(lambda books, incs=incs: self._piece(books, incs), point="purge")  # type: ignore[misc]
            self.count += done.buried
            self.kept.update(done.kept)
            incs = incs[done.seen :]
            if done.unfinished is not None:
                self._clear(done.unfinished)
        forget(self.store, output)

    def _piece(self, books: Books, incs: list[str]) -> _Done:
        """Bury as many of these as one transaction should (U1)."""
        kept: list[Pin] = []
        buried, room = 0, ROWS
        for seen, inc in enumerate(incs, 1):
            pin, children = self._pin(books, inc)
            if children and pin is None:
                pin = "an open task"  # one of them was kept
            if pin is not None:
                kept.append(pin)
            elif books.task(inc) is not None:
                removed = books.bury(inc, self.now, room)
                buried += 1
                room -= removed.rows
                if not removed.is_all or room <= 0:
                    return _Done(seen, buried, None if removed.is_all else inc, kept)
        return _Done(len(incs), buried, None, kept)

    def _clear(self, inc: str) -> None:
        while not self.store.transact(lambda books: books.clear(inc, ROWS), point="purge.clear").is_all:
            pass

    def clear(self) -> None:
        """Go on with what a purge that was killed has left."""
        for inc in self.store.read(lambda books: books.remains()):
            self._clear(inc)
        forget_noted(self.store)

    # -- afterwards -----------------------------------------------------------------------------------------------

    def forget(self, before: float) -> int:
        dropped = 0
        while count := self.store.transact(lambda books: books.forget(before, TOMBSTONES), point="purge.forget"):
            dropped += count
        return dropped

    def give_back(self) -> int:
        pages = given = 0
        left = 1
        while left and (given or not pages):
            given, left = self.store.transact(lambda books: books.give_back(PAGES), point="purge.give_back")
            pages += given
        return pages * self.store.read(lambda books: books.page_size)
