"""The row of a turn: written before the turn may do anything, told its end when it is over.

Invariants
  T1  The row is in the transaction that takes the lease, so a turn that could do anything has one.
  T2  A turn id is used once in a ledger: a row is never another turn's.
  T3  A row that has its end never changes. One without an end is called lost by a proof of death alone, never by a
      clock: by whoever notes that its worker is gone, in the same transaction, or by who reads it.

Each function runs in a transaction of a store and does nothing else; what it is given was made before.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from turnctl.ledger.identity import proof_of_death, this_process
from turnctl.ledger.names import keepable
from turnctl.records.changes import By, Change, Note, Refusal, evolve
from turnctl.records.turns import TurnRecord
from turnctl.tokens.reporting import report_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from turnctl.ledger.store import Books
    from turnctl.records.effects import EffectRecord
    from turnctl.records.report import ActivityRecord, TurnReport
    from turnctl.records.stops import Outcome
    from turnctl.tokens.turn import TurnCore

__all__ = ["Account", "begin", "end", "observe_lost", "row_of", "with_proofs"]

#: of the text that a stream received, and of the activities of a turn, so much is in its row; the rest is cut out
MOST_TEXT = 16 * 1024
MOST_ACTIVITIES = 500


def row_of(
    turn: TurnCore,
    *,
    name: str | None = None,
    command: Sequence[str] | None = None,
    folder: str | None = None,
    output: dict[str, Any] | None = None,
) -> TurnRecord:
    """The row of a turn of this process that is about to begin; ``begin`` says on what."""
    return TurnRecord(
        turn.turn_id,
        "",
        0,
        this_process(),
        session=turn.session_id,
        name=turn.reason if name is None else keepable(name),
        command=None if command is None else json.dumps(list(command)),
        folder=None if folder is None else keepable(folder),
        output=None if output is None else json.dumps(output),
        grace_s=turn.grace_s,
    )


def begin(books: Books, by: By, row: TurnRecord, inc: str, gen: int) -> TurnRecord | Refusal:
    """Write the row of a turn that has just got the lease ``gen`` of ``inc`` (T1)."""
    known = books.turn(row.turn_id)
    if known is not None:
        text = (
            f"turn {row.turn_id} is on record already, of incarnation {known.inc}: turn ids are used once; leave "
            "turn_id out, or give another one"
        )
        return Refusal("turn_known", text, row=known)
    row = evolve(row, inc=inc, gen=gen, begun_at=by.at)
    books.write(Change((Note(inc, "turn.begun", row.turn_id, row),), row), by)
    return row


def end(
    books: Books, by: By, turn_id: str, outcome: Outcome, *, report: str | None = None, output: str | None = None
) -> None:
    """Tell how it ended; the second time changes nothing (T3)."""
    known = books.turn(turn_id)
    if known is not None and known.ended_at is None:
        row = evolve(known, ended_at=by.at, outcome=outcome, report=report, output=output or known.output)
        books.write(Change((Note(known.inc, "turn.ended", turn_id, row),), row), by)


def observe_lost(books: Books, by: By, inc: str, gen: int, *, evidence: str) -> None:
    """The process of the turns of that lease is proven to be dead: those without an end are lost (T3)."""
    for one in books.turns_of(inc):
        if one.gen == gen and one.ended_at is None and one.lost is None:
            row = evolve(one, lost=evidence)
            books.write(Change((Note(inc, "turn.lost", one.turn_id, row, {"evidence": evidence}),), row), by)


def with_proofs(rows: Iterable[TurnRecord]) -> tuple[TurnRecord, ...]:
    """The rows as who reads them now may call them: with the proof, where a process is gone and nobody noted it."""
    return tuple(evolve(one, lost=proof_of_death(one.holder)) if one.state == "running" else one for one in rows)


class Account:
    """The report of a turn that is about to be over, as its row keeps it; made ready before the transaction.

    What only the transaction knows, the effects as they are from then on, is put in there.
    """

    def __init__(self, turn: TurnCore) -> None:
        self._report: TurnReport = report_of(turn, is_last=True)
        told = self._report.activities
        self._left_out = len(told) - MOST_ACTIVITIES
        self._activities = [_plain(one) for one in told[-MOST_ACTIVITIES:]]

    @property
    def outcome(self) -> Outcome:
        return self._report.outcome or "failed"

    def text(self, effects: tuple[EffectRecord, ...]) -> str:
        """The report with these effects, as JSON."""
        unresolved = sum(one.is_unresolved for one in effects)
        report = evolve(self._report, activities=(), effects=effects, effects_unresolved=unresolved)
        plain = report.as_dict()
        plain["activities"] = self._activities
        if self._left_out > 0:
            plain["notes"].append(f"the first {self._left_out} activities are left out of the record")
        return json.dumps(plain, default=str, separators=(",", ":"))


def _plain(activity: ActivityRecord) -> dict[str, Any]:
    plain = activity.as_dict()
    received = plain["received"]
    text = None if received is None else received["text"]
    if text is not None and len(text) > MOST_TEXT:
        half = MOST_TEXT // 2
        received["text"] = f"{text[:half]}\n[{len(text) - MOST_TEXT} characters left out]\n{text[-half:]}"
    return plain
