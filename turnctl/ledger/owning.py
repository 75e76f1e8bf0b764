"""What a turn that works on a task owns, on record: each activity a row, and what became of it.

Invariants
  N1  A process has its row, committed through the gate, before it can run (``own``). All else lives and dies with this
      process, which the lease names: it is put on record within ``SETTLE_S``, or with the next transaction, and what
      has ended by then in one line with its end.
  N2  What is observed is appended to the activity and *then* the activity is marked; who writes takes the mark off
      and *then* looks whether more was there than it wrote. So nothing observed is left out.
  N3  Writing is never in the way of what is observed: it is done by a thread beside, which the turn ends, or within a
      transaction that the turn makes anyway. What was sent to end an activity is sent first.
  N4  A stop that the store does not know is told to it before the signals that followed from it (``Attachment.tell``).

May block: ``own``, ``flush`` and ``close`` for one transaction, ``make`` for one read. Not promised: what was observed
in the last ``SETTLE_S`` before this process was killed.
"""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, NoReturn

from turnctl import points
from turnctl.clock import monotonic
from turnctl.ledger import dealings
from turnctl.ledger.identity import identity_of, not_yet, this_process
from turnctl.ledger.keeping import KeptActivity
from turnctl.ledger.owned import Seen, Step, keep
from turnctl.records.changes import Refusal
from turnctl.records.tasks import PROCESSES
from turnctl.tokens.activities import Activity

if TYPE_CHECKING:
    from turnctl.ledger.attachment import Attachment
    from turnctl.ledger.store import Books
    from turnctl.records.changes import By
    from turnctl.records.tasks import OwnedActivity
    from turnctl.tokens.activities import Owned

__all__ = ["SETTLE_S", "Owning"]

#: how long an activity is there before it gets a line of its own: most calls are shorter
SETTLE_S = 0.05
_CLOSE_S = 15.0
#: what has a place of its own in the ledger, or is only a helper of something that has a row
_UNKEPT = frozenset({"turn", "abort"})
#: what is admitted under a lock or on an event loop, below something that came to the gate itself
_UNASKED = PROCESSES | {"job", "mcp", "mcp connection"}

Taken = list[tuple[KeptActivity, int]]
Observed = list[tuple[KeptActivity, tuple[Step, ...]]]


class Owning:
    """The rows of one turn; made with its ``Attachment``. Thread-safe."""

    def __init__(self, of: Attachment) -> None:
        self._of = of
        self._pid = os.getpid()
        self._marked: dict[KeptActivity, None] = {}
        self._calls: SimpleQueue[str] = SimpleQueue()
        self._is_called = False
        self._is_closed = False
        # gives a mark to the first who asks
        self._start_once = iter((True,))
        self._thread: threading.Thread | None = None

    # -- beginning ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Have what the turn owns from now on kept here."""
        self._of.turn.activities.make = self.make

    def make(self, kind: str, name: str, owned: Owned | None = None) -> Activity:
        """An activity that is kept. Raises the stop where the store has accepted one that was not heard of yet."""
        of = self._of
        if kind in _UNKEPT or of.turn.activities.is_closed or os.getpid() != self._pid:
            return Activity(kind, name, owned)  # the last two are refused by who asks
        if kind not in _UNASKED and of.gen and not of.turn.token.cancelled:
            of._quietly(of.heard)
            of.turn.token.check()
        made = KeptActivity(self, kind, name, owned)
        if kind not in PROCESSES:
            self.changed(made)
        return made

    def own(self, activity: KeptActivity) -> None:
        """Bring a process to the gate, and have its row committed (N1). Raises the stop, or why it is refused."""
        of, by, first, taken = self._of, self._of.by, activity.first(), Taken()
        if of.turn.token.cancelled:  # and a shield holds it back: the gate has to know of it first
            of.tell()

        def register(books: Books) -> OwnedActivity | Refusal:
            self.into(books, by, taken)
            return dealings.own(books, by, first, of.gen)

        answer = of.store.transact(register, point="activity")
        self.cleared(taken)
        if isinstance(answer, Refusal):
            activity.is_void = True
            self._refused(answer)
        self.changed(activity)

    def row(self, activity: Activity) -> dict[str, object]:
        """What a row begins with."""
        of = self._of
        process = not_yet() if activity.kind in PROCESSES else this_process()
        return {"inc": of.inc, "gen": of.gen, "process": process, "begun_at": activity.started_at}

    # -- observing ------------------------------------------------------------------------------------------------

    def changed(self, activity: KeptActivity, *, at_once: bool = False) -> None:
        """Something was observed of it (N2). Never blocks."""
        if os.getpid() != self._pid or activity.is_void or not self._of.gen:
            return
        self._marked[activity] = None
        if self._is_closed:
            return
        if self._thread is None and next(self._start_once, False):
            self._start()
        if at_once:
            self._calls.put("now")
        elif not self._is_called:
            self._is_called = True
            self._calls.put("soon")

    def stop_sent(self) -> None:
        """The token has tripped, which all obey that run in this process."""
        for one in self._of.turn.activities.all():
            if isinstance(one, KeptActivity) and one.kind not in PROCESSES and one.is_open:
                one.signalled("stop")

    def identify(self, activity: KeptActivity, pid: int) -> None:
        """It is that process."""
        activity.observed("identified", process=identity_of(pid))

    def returned(self) -> None:
        """Something that was left behind has ended since; when the turn is over nobody else would write that."""
        if self._is_closed and os.getpid() == self._pid:
            self._come_to_rest()

    def let_go(self, activity: KeptActivity, owner: str, contract: str) -> None:
        """Have the gate let it go to another owner. Raises the stop, or why it is refused."""
        of, by, taken = self._of, self._of.by, Taken()

        def detach(books: Books) -> object:
            self.into(books, by, taken)
            return dealings.detach(books, by, of.inc, of.gen, activity.ref, owner, contract)

        answer = of.store.transact(detach, point="detach")
        self.cleared(taken)
        if isinstance(answer, Refusal):
            self._refused(answer)

    def came_back(self, activity: KeptActivity, why: str) -> None:
        """The other owner did not take it."""
        self._of.deal(dealings.came_back, self._of.inc, activity.ref, why)

    def lets_go(self, what: object, owner: str, contract: str) -> bool:
        """Let a child task go, if ``what`` is one; see ``turn.detach``."""
        of, inc = self._of, getattr(what, "inc", None)
        if not isinstance(inc, str):
            return False
        answer = of.deal(dealings.detach_child, of.inc, of.gen, inc, owner, contract, point="detach")
        if isinstance(answer, Refusal):
            self._refused(answer)
        return True

    def _refused(self, refusal: Refusal) -> NoReturn:
        """Raise what a refusal of the gate comes to: the stop, if that is why."""
        from turnctl.ledger.attachment import error_of

        if self._of.heard() and refusal.code in ("cancelled", "drain_only"):
            raise self._of.turn.token._raised()
        raise error_of(refusal)

    # -- writing --------------------------------------------------------------------------------------------------

    def into(self, books: Books, by: By, taken: Taken, *, is_first: bool = False, only: Observed | None = None) -> None:
        """Write what is marked, within a transaction; with ``is_first`` only that it is there, or ``only`` these."""
        taken.clear()
        of = self._of
        if not of.gen:
            return
        seen = []
        for one, steps in self._observed() if only is None else only:
            taken.append((one, len(steps)))
            if not one.is_void:
                seen.append(Seen(one.ref, steps[:1] if is_first else steps))
        if seen:
            keep(books, by, of.inc, of.gen, seen)

    def _observed(self) -> Observed:
        """What is marked, each with what was observed of it by now."""
        return [(one, one.steps()) for one in list(self._marked)]

    def cleared(self, taken: Taken) -> None:
        """What ``into`` has taken was committed."""
        for one, count in taken:
            self._marked.pop(one, None)
            if one.count > count:
                self._marked[one] = None

    def flush(self) -> None:
        """Write what is marked; nothing if nothing is."""
        of, by, taken = self._of, self._of.by, Taken()
        # before the look at the token: what follows from a stop that comes now is not in it (N4)
        observed = self._observed()
        if not observed or (of.turn.token.cancelled and of.tell()):
            return

        def write(books: Books) -> None:
            points.reach("ledger.owning.writing")
            self.into(books, by, taken, only=observed)

        of.store.transact(write, point="activities")
        self.cleared(taken)

    def _come_to_rest(self) -> None:
        """The turn is over: write what came, and that its worker is through where nothing of it may act any more."""
        of, by, taken = self._of, self._of.by, Taken()

        def rest(books: Books) -> None:
            self.into(books, by, taken)
            view = books.incarnation(of.inc)
            if view is not None and not view.acting:
                dealings.give_back(books, by, of.inc, of.gen)

        if of._quietly(lambda: of.store.transact(rest, point="activities")) is None:
            self.cleared(taken)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=f"turnctl-ledger-{self._of.task_id}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had: it is written by the transactions of the turn
            return
        self._thread = thread

    def _run(self) -> None:
        while (call := self._calls.get()) != "end":
            due = monotonic() + SETTLE_S
            while call == "soon" and (left := due - monotonic()) > 0:
                try:
                    call = self._calls.get(timeout=left)
                except Empty:
                    break
            if call == "end":
                return
            self._is_called = False
            self._of._quietly(self.flush)

    def close(self) -> None:
        """End the thread beside; what is marked is for the next transaction of the turn."""
        self._is_closed = True
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            self._calls.put("end")
            thread.join(_CLOSE_S)
