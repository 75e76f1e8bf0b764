"""Turns of a SQLite ledger at a glance: what lists and one-line answers need, read fast and never written.

For commands that are called often: it loads neither the store nor the records, opens no connection that can write, and
reads rows that the ledger's own transactions made. The whole account of a turn is ``ledger.accounts``'s.

Invariants
  G1  What cannot be trusted is refused as by opening the ledger (owner, modes, another program's file, a newer
      schema), but for what needs its marks: a glance changes nothing and promises nothing.
  G2  The word of a turn is that of ``records.states``, from what its account has; ``lost`` is said on a proof alone.
"""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import json
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from turnctl.errors import StoreForeign, StoreLost, StoreMissing, StoreTooNew
from turnctl.ledger.highwater import marks_of, missing_from, read_marks
from turnctl.ledger.identity import Whoever, proof_of_death
from turnctl.ledger.places import check_folder, check_owner
from turnctl.ledger.reading import connect_to_read
from turnctl.ledger.refusals import FAULTS, system_told, told
from turnctl.ledger.versions import APPLICATION_ID, VERSION
from turnctl.records.states import state_word
from turnctl.spelling import in_words

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.records.report import Execution
    from turnctl.records.stops import Outcome

__all__ = ["Glance", "Glances"]

_BUSY_S = 2.0
_LEAST = 512
_MOST = 2**63 - 1  # as large as numbers of SQLite get


class Glance(NamedTuple):
    """One turn. Times are seconds since the epoch; ``dispositions`` counts its effects by what is known of them."""

    turn_id: str
    inc: str
    tenant: str
    task_id: str
    session: str | None
    name: str | None
    command: tuple[str, ...] | None
    folder: str | None
    begun_at: float
    ended_at: float | None
    outcome: "Outcome | None"
    pid: int
    #: the proof that its process is gone without having told its end
    lost: str | None
    #: what its own report says of what it started, where there is one
    execution: "Execution"
    #: the cancellation of its task: who, why and when
    cancelled_by: str | None
    reason: str | None
    cancelled_at: float | None
    #: a stop of the turn itself that left its task to others counts as well
    is_stopped: bool
    dispositions: dict[str, int]
    unresolved: int
    #: processes that are on record as started and not as ended; those of an earlier boot or a lost turn may be gone
    processes: int

    @property
    def is_over(self) -> bool:
        """Whether nothing of it goes on by itself: it has told its end, or its process is gone."""
        return self.ended_at is not None or self.lost is not None

    @property
    def state(self) -> str:
        """The word for people."""
        return state_word(
            stop=self.is_stopped, outcome=self.outcome, execution=self.execution, unresolved=self.unresolved > 0
        )

    @property
    def title(self) -> str:
        """What it is, in a few words: its command, behind its label where it has one, else its name, else its task."""
        text = self.command_line
        if text is not None:
            return text if self.label is None else f"{self.label}: {text}"
        return self.name or self.task_id

    @property
    def command_line(self) -> str | None:
        """Its command as a shell takes it."""
        if self.command is None:
            return None
        from shlex import join

        return join(self.command)

    @property
    def label(self) -> str | None:
        """What people call a command, where that was given; its name is that of its program else."""
        if self.command is None or not self.command or self.name is None:
            return None
        return None if self.name == os.path.basename(self.command[0]) else self.name


class Glances:
    """The turns of the ledger at ``path``. Raises ``StoreError`` where it cannot be trusted; ``StoreMissing`` where
    there is none. Blocks for the disk. For one thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        path = os.path.realpath(os.fspath(path))
        check_folder(path)
        if not os.path.lexists(path):
            if os.path.lexists(f"{path}.hwm") and not os.path.lexists(path):  # not one that was made in between
                raise StoreLost(f"the ledger {path} is gone, and its mark is there; put the right file back", path=path)
            raise StoreMissing(f"there is no ledger {path}; it is made by the first turn that is recorded", path=path)
        with system_told(path, "reading"):
            check_owner(path)
            if os.stat(path).st_size < _LEAST:
                raise StoreForeign(f"{path} is as good as empty, and no ledger; name another file", path=path)
        self._path = path
        try:
            self._connection, self.still = connect_to_read(path, _BUSY_S)
        except FAULTS as error:
            raise told(error, path, "reading") from error
        #: why what it tells may be old or incomplete; None where nothing speaks for that
        self.doubt: str | None = None
        try:
            self._check()
            self._connection.execute("BEGIN")  # one state for all that is asked
        except FAULTS as error:
            self._connection.close()
            raise told(error, path, "reading") from error
        except BaseException:
            self._connection.close()
            raise

    def _check(self) -> None:
        path, ask = self._path, self._connection.execute
        if ask("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreForeign(f"{path} is a database of another program; name another file", path=path)
        oldest, by, authority = ask("SELECT min_reader, written_by, store_uuid FROM meta").fetchone()
        if oldest > VERSION:
            text = f"{path} was written by {by}, which this turnctl cannot read; use that version or a later one"
            raise StoreTooNew(text, path=path, needs=oldest)
        try:
            mark = read_marks(path)  # before the state is read, which then is not behind it
        except (OSError, ValueError) as error:
            why = in_words(error, of=f"{path}.hwm")
            self.doubt = f"{path}.hwm cannot be read ({why}), so what is told of {path} may be old"
            return
        missing = None if mark is None else missing_from(mark, authority, *marks_of(self._connection))
        if missing is not None:
            self.doubt = f"the ledger {path} {missing}: what is told of it may be old"

    def close(self) -> None:
        """Give the connection back. ``StoreBusy`` where what was read may be wrong, since somebody has written to what
        was to be an unchanging copy (``still``)."""
        self._connection.close()
        if self.still is not None:
            self.still.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if error is None:
            self.close()
        else:
            self._connection.close()

    # -- which -------------------------------------------------------------------------------------------------------

    def open(self, *, session: str | None = None) -> Iterator[Glance]:
        """The turns that have not told their end and are not known to be lost, the newest first."""
        wanted, values = "turn.ended_at IS NULL AND turn.lost IS NULL", []
        if session is not None:
            wanted, values = f"{wanted} AND session = ?", [session]
        return self._found(wanted, values)

    @cached_property
    def lost(self) -> frozenset[str]:
        """The ids of those turns whose process is proven to be gone, which nobody has noted yet."""
        return frozenset(one.turn_id for one in self.open() if one.lost is not None)

    def all(self, *, session: str | None = None, since: float | None = None) -> Iterator[Glance]:
        """All turns on record, the newest first."""
        wanted, values = ["1"], list[Any]()
        for column, value in (("session =", session), ("begun_at >=", since)):
            if value is not None:
                wanted.append(f"{column} ?")
                values.append(value)
        return self._found(" AND ".join(wanted), values)

    def named(self, start: str, most: int) -> list[Glance]:
        """The turns whose id begins so, at most so many; the one with that very id alone, where there is one."""
        exact = list(self._found("turn_id = ?", [start]))
        return exact or list(self._found("turn_id > ? AND turn_id < ? || char(1114111)", [start, start], most))

    def of_incarnation(self, inc: str) -> list[Glance]:
        """The turns that worked on that incarnation, the newest first."""
        return list(self._found("turn.inc = ?", [inc]))

    def newest(self, n: int) -> Glance | None:
        """The n-th newest turn, from 1."""
        if n > _MOST:
            return None
        found = list(self._found("1", [], 1, n - 1))
        return found[0] if found else None

    def shortest(self, turn_id: str, least: int) -> str:
        """The shortest beginning of that id, of ``least`` letters at least, that is no other turn's."""
        beside = [
            row[0]
            for way, order in (("<", "DESC"), (">", "ASC"))
            for row in self.ask(
                f"SELECT turn_id FROM turn WHERE turn_id {way} ? ORDER BY turn_id {order} LIMIT 1",  # noqa: S608
                [turn_id],
            )
        ]
        length = least
        while length < len(turn_id) and any(other.startswith(turn_id[:length]) for other in beside):
            length += 1
        return turn_id[:length]

    # -- rows --------------------------------------------------------------------------------------------------------

    def ask(self, query: str, values: Iterable[Any] = ()) -> Iterator[Any]:
        """The rows of a query of ours, over the one state that is seen."""
        try:
            yield from self._connection.execute(query, list(values))
        except FAULTS as error:
            if self.still is not None:
                self.still.check()  # or a writer who came later is taken for damage
            raise told(error, self._path, "reading") from error

    def _found(self, wanted: str, values: list[Any], most: int = -1, skipped: int = 0) -> Iterator[Glance]:
        query = (
            "SELECT turn_id, turn.inc, gen, tenant, task_id, session, name, command, folder, begun_at, turn.ended_at, "  # noqa: S608
            "outcome, holder, lost, report, task.state, requester, reason, cancellation.at "
            "FROM turn JOIN task ON task.inc = turn.inc LEFT JOIN cancellation ON cancellation.inc = turn.inc "
            f"WHERE {wanted} ORDER BY turn.pos DESC LIMIT {most} OFFSET {skipped}"
        )
        for row in self.ask(query, values):
            yield self._glance(*row)

    def _glance(
        self,
        turn_id: str,
        inc: str,
        gen: int,
        tenant: str,
        task_id: str,
        session: str | None,
        name: str | None,
        command: str | None,
        folder: str | None,
        begun_at: float,
        ended_at: float | None,
        outcome: "Outcome | None",
        holder: str,
        lost: str | None,
        report: str | None,
        task_state: str,
        requester: str | None,
        reason: str | None,
        at: float | None,
    ) -> Glance:
        who = Whoever(*json.loads(holder))
        if ended_at is None and lost is None:
            lost = proof_of_death(who)
        dispositions, unresolved = self._effects(inc, gen, ended_at is not None or lost is not None)
        is_stopped = outcome == "cancelled" if ended_at is not None else requester is not None
        return Glance(
            turn_id,
            inc,
            tenant,
            task_id,
            session,
            name,
            None if command is None else tuple(json.loads(command)),
            folder,
            begun_at,
            ended_at,
            outcome,
            who.pid,
            lost,
            _execution(ended_at is not None, lost, report, is_stopped and task_state != "cancel_requested"),
            requester,
            reason,
            at,
            is_stopped,
            dispositions,
            unresolved,
            self._processes(inc, gen),
        )

    def _processes(self, inc: str, gen: int) -> int:
        query = "SELECT count(*) FROM activity WHERE inc = ? AND gen = ? AND kind = 'process' AND NOT stopped"
        return next(self.ask(query, [inc, gen]))[0]  # type: ignore[no-any-return]

    def _effects(self, inc: str, gen: int, is_over: bool) -> tuple[dict[str, int], int]:
        """How many effects of one attempt there are of each disposition, and how many nobody has told of.

        While the turn goes on what was claimed is on its way; afterwards nobody tells any more.
        """
        counts: dict[str, int] = {}
        unresolved = 0
        query = (
            "SELECT disposition, count(*), sum(closed_by IS NULL AND (disposition = 'unknown' OR (? AND phase = "
            "'claimed'))) FROM effect WHERE inc = ? AND gen = ? GROUP BY disposition"
        )
        for disposition, count, untold in self.ask(query, [is_over, inc, gen]):
            counts[disposition] = count
            unresolved += untold
        return counts, unresolved


def _execution(is_ended: bool, lost: str | None, report: str | None, is_draining: bool) -> "Execution":
    if is_ended:
        state: Execution = "ended" if report is None else json.loads(report)["execution"]["state"]
        return state
    if lost is not None:
        return "lost"
    return "stopping" if is_draining else "running"
