"""What became of the things that a task owns, as its worker saw it, or as it is proven without one. Pure, and dealings.

Invariants
  O1  A process is registered through the gate before it can run (``children.own``). What lives and dies with its worker
      is put on record as soon as it matters; where it began before its worker heard of a cancellation, that is said.
  O2  A row goes through the states that were observed, in their order, each with its line; writing them again changes
      nothing, and what another authority has closed stays closed.
  O3  The word of a fenced generation is not taken.
  O4  Without a worker only a proof of death closes a row: of the process itself, or of the one that it ran in. What is
      one end of a connection is severed by it, and not stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from turnctl.ledger.model import and_advance, refuse
from turnctl.ledger.moves import deal, tell_parents, whole
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal, evolve
from turnctl.records.tasks import Detached, OwnedActivity

if TYPE_CHECKING:
    from turnctl.ledger.store import Books

__all__ = ["REMOTE", "Seen", "Step", "came_back", "close_activity", "keep", "observe_activities"]

#: kinds that are our end of something elsewhere: that this end was closed does not stop the other one
REMOTE = frozenset({"http", "stream", "mcp", "mcp connection"})
_LATE = "it had begun before its worker heard of the cancellation, or under a shield"


class Step(NamedTuple):
    """One thing that was observed of an activity: the word for it, and the row as it was from then on."""

    word: str
    row: OwnedActivity


class Seen(NamedTuple):
    """All that was observed of one activity, from its registration on."""

    ref: str
    steps: tuple[Step, ...]


# -- transitions ----------------------------------------------------------------------------------------------------


def kept(view: Incarnation, known: Mapping[str, OwnedActivity], seen: Sequence[Seen], gen: int, by: By) -> Change:
    """Bring what is on record up to what was seen (O2); ``known`` are the rows that are there already, by ref."""
    task = view.task
    if gen != task.lease_gen:
        text = f"generation {gen} of task {task.task_id} was fenced by {task.lease_gen}: its word is not taken"
        return refuse(task.inc, "activity.rejected", Refusal("stale_generation", text, row=view.lease), by)
    notes: list[Note] = []
    for ref, steps in seen:
        for n, step in enumerate(_news(known.get(ref), steps)):
            late = n == 0 and ref not in known and not task.is_running
            notes.append(Note(task.inc, f"activity.{step.word}", ref, step.row, {"late": _LATE} if late else {}))
    return and_advance(view, notes, None, by)


def _news(known: OwnedActivity | None, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    if known is None:  # what is over by now has one line
        return steps[-1:] if len(steps) == 2 and steps[-1].row.ended_at is not None else steps
    told = [n for n, step in enumerate(steps) if step.row == known]
    # a row that is none of these is further on, or was closed by somebody else
    return steps[told[-1] + 1 :] if told else ()


def proven(view: Incarnation, proofs: Mapping[str, str], by: By) -> Change:
    """The processes that these are, or ran in, are proven to be gone (O4); ``proofs`` by ref."""
    task = view.task
    notes = []
    for one in view.activities:
        proof = proofs.get(one.ref)
        if proof is None or not one.may_act:
            continue
        ends = {"severed": True} if one.kind in REMOTE else {"stopped": True}
        row = evolve(one, ended_at=by.at, detail=f"found to be gone: {proof}", **ends)
        notes.append(Note(task.inc, "activity.gone", one.ref, row, {"evidence": proof}))
    return and_advance(view, [*notes, *_at_rest(view, notes)], None, by)


def _at_rest(view: Incarnation, notes: Sequence[Note]) -> list[Note]:
    """Where nobody works on it, and nothing that may act is left, it is not unproven any more."""
    task, lease = view.task, view.lease
    now = view.after(Change(tuple(notes), None))
    if task.execution != "unproven" or (lease is not None and lease.live) or now.acting:
        return []
    rests = evolve(task, execution="idle" if task.is_running else "stop_observed")
    return [Note(task.inc, "task.at_rest", task.inc, rests)]


def closed_by(view: Incarnation, ref: str, by: By, *, reason: str) -> Change:
    """Somebody decides that nobody will ever prove it: it is severed by that name, and not called stopped."""
    task, lease = view.task, view.lease
    one = next((one for one in view.activities if one.ref == ref and one.may_act), None)
    refusal = None
    if one is None:
        refusal = Refusal("closed", f"task {task.task_id} owns nothing open that is called {ref}", row=task)
    elif by.authority != "operator":
        refusal = Refusal("not_authorised", f"{one.title} is for an operator to close, or to be proven gone", row=one)
    elif lease is not None and lease.live and one.gen == lease.gen:
        text = f"{one.title} is with process {lease.holder.pid}, whose death is not proven: that one tells of it"
        refusal = Refusal("held", text, row=lease)
    if one is None or refusal is not None:
        assert refusal is not None
        return refuse(task.inc, "activity.refused", refusal, by)
    row = evolve(one, severed=True, ended_at=by.at, detail=f"closed by {by.actor}, without proof: {reason}")
    notes = [Note(task.inc, "activity.closed_by_operator", ref, row, {"reason": reason})]
    return and_advance(view, [*notes, *_at_rest(view, notes)], row, by)


# -- dealings -------------------------------------------------------------------------------------------------------


def keep(books: Books, by: By, inc: str, gen: int, seen: Sequence[Seen]) -> Refusal | None:
    """See ``kept``; reads as little as the state of the task allows."""
    known = {one.ref: row for one in seen if (row := books.activity(inc, one.ref)) is not None}
    found: Refusal | None = deal(books, inc, by, lambda view: kept(view, known, seen, gen, by), if_moving=True)
    return found if isinstance(found, Refusal) else None


def observe_activities(books: Books, by: By, inc: str, proofs: Mapping[str, str]) -> None:
    """See ``proven``."""
    view = whole(books, inc)
    if view is None:
        return
    books.write(proven(view, proofs, by), by)
    tell_parents(books, view.task, by)


def close_activity(books: Books, by: By, inc: str, ref: str, *, reason: str) -> OwnedActivity | Refusal:
    """See ``closed_by``."""
    found: OwnedActivity | Refusal = deal(books, inc, by, lambda view: closed_by(view, ref, by, reason=reason))
    return found


def came_back(books: Books, by: By, inc: str, ref: str, why: str) -> None:
    """What was let go of could not be taken: it is this incarnation's again, and the log says why."""
    gone = next((one for one in books.detached_of(inc) if one.ref == ref), None)
    known = books.activity(inc, ref)
    notes = []
    if gone is not None:
        row: Detached = evolve(gone, came_back=why)
        notes.append(Note(inc, "work.came_back", ref, row))
    if gone is not None and known is not None and known.stopped:
        back = evolve(known, stopped=False, detail=None)  # as it was
        notes.append(Note(inc, "activity.came_back", ref, back, {"why": why}))
    books.write(Change(tuple(notes), None), by)
