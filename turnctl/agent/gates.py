"""May this call be carried out? The question, whoever can be asked, and the one record of what was answered.

Invariants
  A1  A question leaves exactly one record, and nothing but ``approved`` lets the call be started.
  A2  An approval is bound to run, step, call and the digest of the arguments; with others it is asked again.
  A3  What is not plainly yes is no: no answer, an answer that nobody understands, an end of file, a failure.
  A4  A stop withdraws the question: cancelled, not declined. It is looked at before the answer (``waiting.asks``, Q2).
  A5  Each question has one answer; later ones are told why they do not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import turnctl.waiting.asks as asks
from turnctl import clock, points
from turnctl.agent.bounded import tell_bounded
from turnctl.errors import CancelledError, TurnOver
from turnctl.records.runs import GateKind, GateRecord
from turnctl.spelling import described
from turnctl.tokens.callables import check_plain
from turnctl.waiting import abandoned
from turnctl.waiting.worker import Worker

if TYPE_CHECKING:
    from turnctl.records.messages import Call
    from turnctl.tokens.turn import TurnCore
    from turnctl.waiting.asks import Question, Reply, Source

__all__ = ["Approval", "Decision", "Desk", "digest_of", "put"]

_YES = frozenset({"yes", "y", "allow", "approve", "approved", "ok"})


def digest_of(arguments: object) -> str:
    """What tells these arguments from others: a SHA-256 over them as JSON in one fixed form."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Approval:
    """What is asked: may this call be carried out? ``str`` of it is a line for people.

    ``arguments`` is a copy: changing it changes nothing.
    """

    __slots__ = ("arguments", "call_id", "digest", "run_id", "step", "tool")

    def __init__(self, run_id: str, step: int, call: Call, arguments: dict[str, Any]) -> None:
        self.run_id = run_id
        self.step = step
        self.call_id = call.id
        self.tool = call.name
        self.arguments = arguments
        self.digest = digest_of(arguments)

    def __str__(self) -> str:
        return f"allow {self.tool} {json.dumps(self.arguments, sort_keys=True, default=repr)}? [y/N] "

    def __repr__(self) -> str:
        return f"<Approval of {self.tool} ({self.call_id}) in step {self.step} of run {self.run_id}>"


class Decision:
    """An answer with a reason, and with who gave it. ``True``, ``False`` and "yes" are answers as well."""

    __slots__ = ("by", "is_allowed", "reason")

    def __init__(self, is_allowed: bool, reason: str | None = None, by: str | None = None) -> None:
        self.is_allowed = is_allowed is True
        self.reason = reason
        self.by = by

    def __repr__(self) -> str:
        return f"Decision({self.is_allowed}, reason={self.reason!r}, by={self.by!r})"


def _decision_of(answer: object) -> Decision | None:
    """What an answer means; None for none (A3)."""
    if isinstance(answer, Decision):
        return answer
    if answer is True or answer is False:
        return Decision(answer)
    if isinstance(answer, str) and answer.strip():
        said = answer.strip()
        return (
            Decision(True) if said.lower() in _YES else Decision(False, None if said.lower() in ("n", "no") else said)
        )
    return None


class _Told(Exception):
    """The desk is closed: whoever waits gets this."""


def put(
    turn: TurnCore,
    approval: Approval,
    source: Source | Callable[[Any], object] | Literal["terminal"] | None,
    timeout: float | str | None,
    patience: float,
) -> tuple[GateRecord, BaseException | None]:
    """Ask, and give the record of it, with what is to be raised now that it is kept. Blocks until the answer.

    ``source`` None is nobody: a loop without one denies.
    """
    asked_at = clock.wall()

    def record(kind: GateKind, reason: str | None = None, by: str | None = None) -> GateRecord:
        return GateRecord(
            approval.run_id,
            approval.step,
            approval.call_id,
            approval.tool,
            approval.digest,
            kind,
            asked_at,
            clock.wall(),
            reason,
            by,
        )

    if source is None:
        return record("unanswered", "there is nobody who could be asked"), None
    points.reach("gate.asking")
    try:
        answer = asks.ask(turn.token, approval, _source_of(turn, source, patience), timeout)
    except CancelledError as error:
        return record("cancelled", "while awaiting approval"), error
    except TurnOver as error:
        return record("cancelled", "the run ended while awaiting approval"), error
    except TimeoutError:
        return record("expired", "nobody answered in time"), None
    except _Told as error:
        return record("unanswered", str(error)), None
    except (EOFError, KeyboardInterrupt) as error:
        passes = error if isinstance(error, KeyboardInterrupt) else None
        return record("unanswered", f"no answer ({type(error).__name__})"), passes
    except (Exception, SystemExit) as error:  # noqa: BLE001 - A3: who cannot be asked has not said yes
        return record("unanswered", f"asking failed: {described(error)}"), None
    found = _decision_of(answer)
    if found is None:
        return record("unanswered", f"no answer ({answer!r})"), None
    return record("approved" if found.is_allowed else "denied", found.reason, found.by), None


def _source_of(
    turn: TurnCore, given: Source | Callable[[Any], object] | Literal["terminal"], patience: float
) -> Source | None:
    if given == "terminal":
        return None
    if isinstance(given, Desk) and given.is_quiet:
        return given  # ours alone, and blocks nowhere
    return _Posting(turn, given, patience) if isinstance(given, asks.Source) else _Asking(turn, given, patience)


class _Asking:
    """A function that blocks until it has the answer: asked on a thread of the turn.

    When the answer is not wanted any more it has the patience to come back, and is then left behind: a person who does
    not answer must not hold up the end of the run.
    """

    def __init__(self, turn: TurnCore, fn: Callable[[Any], object], patience: float, *, is_answer: bool = True) -> None:
        self._turn = turn
        self._fn = fn
        self._is_answer = is_answer
        self._patience = patience
        self._worker: Worker | None = None

    def post(self, question: Question) -> object:
        name = f"asking {asks.name_of_prompt(question.prompt)}"
        abandoned.admit(name)
        asked = question.prompt if self._is_answer else question
        worker = self._worker = Worker(self._turn, self._fn, (asked,), {}, name=name)
        worker.on_end = lambda: _hand_over(worker, question, is_answer=self._is_answer)
        worker.start()
        return None

    def withdraw(self, _: Question) -> object:
        worker = self._worker
        if worker is None or worker.wait(self._patience) or worker.activity is None:
            return None
        if worker.activity.close("abandoned", f"left behind{worker.where()}: the answer is not wanted any more"):
            abandoned.add(worker)
        return None


class _Posting:
    """A source of the host: told of the question on a thread of the turn, since what it does there may block."""

    def __init__(self, turn: TurnCore, source: Source, patience: float) -> None:
        self._source = source
        self._telling = _Asking(turn, source.post, patience, is_answer=False)
        self._turn = turn
        self._patience = patience

    def post(self, question: Question) -> object:
        return self._telling.post(question)

    def withdraw(self, question: Question) -> object:
        self._telling.withdraw(question)
        name = f"withdrawing {asks.name_of_prompt(question.prompt)}"
        tell = self._source.withdraw
        self._turn.notes.extend(tell_bounded(name, tell, question, self._patience, turn_id=self._turn.turn_id))
        return None


def _hand_over(worker: Worker, question: Question, *, is_answer: bool) -> None:
    if worker.error is not None:
        question.fail(worker.error)
    elif is_answer:
        question.answer(worker.result)


class Desk:
    """Where questions wait for people: give it as ``ask=``, list ``pending``, answer by id from any thread.

    ``on_question(question)`` is called when there is a new one, on a thread of its own. Once the desk is closed, all
    that is outstanding and all that comes is unanswered, so that nothing is carried out.
    """

    def __init__(self, on_question: Callable[[Question], object] | None = None) -> None:
        if on_question is not None:
            check_plain("on_question of a Desk", on_question)
        self._on_question = on_question
        self._pending: dict[str, Question] = {}
        self._is_closed = False

    @property
    def is_quiet(self) -> bool:
        """Whether nobody is told of new questions."""
        return self._on_question is None and type(self) is Desk

    @property
    def pending(self) -> tuple[Question, ...]:
        """What waits for an answer, oldest first; ``question.prompt`` is the ``Approval``."""
        return tuple(one for one in list(self._pending.values()) if one.state == "pending")

    def answer(self, question_id: str, decision: Decision | bool | str) -> Reply | bool:
        """Answer that question; true if the answer counts. False for one that is answered, withdrawn or unknown."""
        question = self._pending.pop(question_id, None)
        return False if question is None else question.answer(decision)

    def close(self) -> None:
        """Nobody is here any more. May be called twice."""
        self._is_closed = True
        while self._pending:
            _, question = self._pending.popitem()
            question.fail(_Told("whoever could be asked has gone"))

    def post(self, question: Question) -> object:
        """Called by the run."""
        self._pending[question.id] = question
        if self._is_closed:  # then read the flag: the close may not have seen it
            self.close()
        elif self._on_question is not None:
            self._on_question(question)
        return None

    def withdraw(self, question: Question) -> object:
        """Called by the run, when the answer is not wanted any more."""
        return self._pending.pop(question.id, None)

    def __repr__(self) -> str:
        return f"<Desk {'closed' if self._is_closed else 'open'}, {len(self.pending)} pending>"
