"""Questions: a turn asks somebody and waits for the answer; a stop withdraws the question.

Invariants
  Q1  A question has one fate: answered, failed, cancelled or timed out. Each is entered by ``list.append`` and position
      0 decides, so of two answers, or an answer and a stop, exactly one counts, and the other is told so.
  Q2  The token is looked at before the fate. So a stop that is there when the asker looks wins; an answer that had
      been accepted by then is kept as evidence in the report and is not returned.
  Q3  Who has been told of the question (``post``), or was being told when the stop came, is told once when it is not
      wanted any more (``withdraw``). No turn is bound there, so that checkpoints do not cut it short.
  Q4  The question is an activity of the turn before anybody is asked.

May block: ``ask``, until the answer, the stop or the timeout; for as long as ``post`` and ``withdraw`` of the source
take. Not promised: that a source which blocks has come back; it is then named in the report.
"""

from __future__ import annotations

import itertools
from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from turnctl import clock, points
from turnctl.clock import format_duration, parse_duration
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.spelling import described
from turnctl.tokens import registry
from turnctl.tokens.event import park, release_all
from turnctl.tokens.shielding import shielded_until
from turnctl.waiting import abandoned
from turnctl.waiting.aborting import unbound_context
from turnctl.waiting.lines import read_line

if TYPE_CHECKING:
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore
    from turnctl.waiting.worker import Worker

__all__ = ["Question", "QuestionState", "Reply", "Source", "ask", "name_of_prompt", "read_line"]

QuestionState = Literal["pending", "answered", "failed", "cancelled", "timed_out"]
_count = itertools.count(1)
_WHY = {
    "answered": "it has been answered already",
    "failed": "whoever was asked has failed already",
    "cancelled": "the turn was stopped, and the question was withdrawn",
    "timed_out": "its time is over",
}


@runtime_checkable
class Source(Protocol):
    """Somebody who can be asked: a window, a chat, a web page. Both run on the thread that asks."""

    def post(self, question: Question) -> object:
        """Show the question and return; ``question.answer(value)`` is called later, from any thread."""

    def withdraw(self, question: Question) -> object:
        """Take the question back: nobody waits for the answer any more. ``question.state`` says why.

        Called with no turn bound. Called as well if the stop came while ``post`` had not returned.
        """


class Reply:
    """What became of an answer: true if it counts; else ``why`` says in words what came first."""

    __slots__ = ("why",)

    def __init__(self, why: str | None) -> None:
        self.why = why

    def __bool__(self) -> bool:
        return self.why is None

    def __repr__(self) -> str:
        return "<Reply accepted>" if self.why is None else f"<Reply refused: {self.why}>"


class Question:
    """One question that somebody waits for. Thread-safe; nothing in it blocks.

    ``prompt`` is what was given to ``ask``, ``turn_id`` names the turn that waits, ``asked_at`` is in seconds since
    the epoch and ``timeout_s`` in seconds. ``state`` is ``pending``, ``answered``, ``failed`` (the source could not
    ask), ``cancelled`` (the turn was stopped or ended: nobody has declined) or ``timed_out``.
    """

    __slots__ = ("_fate", "_waiters", "asked_at", "id", "prompt", "timeout_s", "turn_id")

    def __init__(self, prompt: object, turn_id: str | None = None, timeout_s: float | None = None) -> None:
        number = next(_count)
        self.id = f"q{number}" if turn_id is None else f"{turn_id}-q{number}"
        self.prompt = prompt
        self.turn_id = turn_id
        self.timeout_s = timeout_s
        self.asked_at = clock.wall()
        self._fate: list[tuple[QuestionState, Any]] = []
        self._waiters: list[LockType] = []

    def answer(self, value: object) -> Reply:
        """Give the answer; true if it counts, false with ``why`` if another one, the stop or the timeout was first.

        Never blocks; may be called from any thread. True says that the answer was accepted. A stop that comes before
        the asker has taken it still wins; the report then has the answer as evidence.
        """
        return self._settle("answered", value)

    def fail(self, error: BaseException) -> Reply:
        """Have ``ask`` raise ``error``: the question could not be asked or answered."""
        return self._settle("failed", error)

    def _settle(self, state: QuestionState, value: object = None) -> Reply:
        fate = self._fate
        entry = (state, value)
        if not fate:
            fate.append(entry)
            points.reach("question.settled")
        release_all(self._waiters)
        return Reply(None if fate[0] is entry else _WHY[fate[0][0]])

    @property
    def state(self) -> QuestionState:
        """What became of it so far."""
        return self._fate[0][0] if self._fate else "pending"

    def __repr__(self) -> str:
        return f"<Question {self.id} {self.state}: {name_of_prompt(self.prompt)}>"


class _Asked:
    """The question as something that a turn owns: the end of the turn withdraws it."""

    kind = "ask"

    def __init__(self, question: Question) -> None:
        self._question = question
        self.name = name_of_prompt(question.prompt)

    def ask(self) -> None:
        self._question._settle("cancelled")

    def end(self, kill_at: Callable[[], float]) -> None:
        """There is nothing to wait for: whoever asked is woken."""

    def alive(self) -> tuple[str, ...]:
        return ()

    def outcome(self) -> None:
        return None


def name_of_prompt(prompt: object) -> str:
    """A line for the report."""
    words = " ".join(str(prompt).split()) or "(no prompt)"
    return words if len(words) <= 60 else f"{words[:57]}..."


def ask(
    token: CancelToken | None,
    prompt: object,
    source: Source | Callable[[Any], object] | None = None,
    timeout: float | str | None = None,
) -> Any:
    """Ask somebody and block until the answer is there. A checkpoint that wakes at once when the turn is stopped.

    ``source`` is a ``Source`` (told of the ``Question``, answers it from any thread), or a function that is called
    with ``prompt``, on a thread of the turn, and whose result is the answer, or None for the terminal
    (``turn.input``). ``timeout`` (seconds or "5m") ends it with ``TimeoutError``. Stopped, it raises
    ``CancelledError`` and the question is withdrawn: cancelled, not declined; when stopped before, nobody is asked.
    What the source raises is raised here. Raises ``TurnOver`` if the turn ends, or has ended, without a stop. A
    function that does not come back after a stop, or in time, is left behind, named in the report and counted: too
    many of these, and nobody is asked (``TooManyAbandoned``).
    """
    seconds = parse_duration(timeout, what="timeout", none=True)
    if source is None:
        return read_line(token, str(prompt), seconds)
    if not callable(source) and not isinstance(source, Source):
        raise BadArgument(f"ask() needs a function, or an object with post and withdraw, not {source!r}")
    if token is None and seconds is None and not isinstance(source, Source):
        return source(prompt)
    if token is not None:
        token.check()
    turn = registry.enclosing(token)
    question = Question(prompt, None if turn is None else turn.turn_id, seconds)
    activity = _admit(turn, question, token)
    points.reach("question.admitted")
    post, withdraw = (source.post, source.withdraw) if isinstance(source, Source) else _posting(turn, source)
    try:
        try:
            try:
                post(question)
            except Exception as error:
                if not isinstance(error, TurnOver):
                    question.fail(error)
                raise
            answer = _wait(token, question, None if seconds is None else clock.monotonic() + seconds)
        except BaseException:
            question._settle("cancelled")
            if question.state in ("cancelled", "timed_out"):
                _tell(withdraw, question, activity)  # Q3
            raise
    except BaseException as error:
        _close(activity, question, error)
        raise
    _close(activity, question, None)
    return answer


def _admit(turn: TurnCore | None, question: Question, token: CancelToken | None) -> Activity | None:
    if turn is not None:
        return turn.activities.admit("ask", name_of_prompt(question.prompt), _Asked(question))
    if token is not None and token.retired:
        raise TurnOver(f"{token!r} has ended and asks no more questions; begin a new turn")
    return None


def _posting(
    turn: TurnCore | None, fn: Callable[[Any], object]
) -> tuple[Callable[[Question], object], Callable[[Question], object]]:
    """The two sides of a source, for a function that blocks until it has the answer."""
    from turnctl.waiting.worker import Worker

    workers: list[Worker] = []

    def post(question: Question) -> object:
        name = f"asking {name_of_prompt(question.prompt)}"
        abandoned.admit(name)
        worker = Worker(turn, fn, (question.prompt,), {}, kind="thread", name=name)
        worker.on_end = lambda: _hand_over(worker, question)
        workers.append(worker)
        worker.start()
        return None

    def withdraw(_question: Question) -> object:
        if turn is None or not turn.stop_wanted():  # else the end of the turn waits for it first
            for worker in workers:
                if worker.thread is not None:
                    abandoned.add(worker)
        return None

    return post, withdraw


def _hand_over(worker: Worker, question: Question) -> None:
    if worker.error is not None:
        question.fail(worker.error)
    else:
        question.answer(worker.result)


def _wait(token: CancelToken | None, question: Question, ends_at: float | None) -> object:
    fate = question._fate
    while True:
        if token is not None:
            token.check()  # Q2
        if not fate and ends_at is not None and ends_at <= clock.monotonic():
            question._settle("timed_out")
        if fate:
            break
        points.reach("question.parking")
        left = None if ends_at is None else ends_at - clock.monotonic()
        if token is None:
            park(lambda: bool(fate), left, question._waiters)
        elif token.cancelled:
            # a shield holds the stop back; a kill passes it, and releases the waiters once more
            held = max((shielded_until(token) or 0.0) - clock.monotonic(), 0.0)
            left = held if left is None else min(held, left)
            done = lambda: bool(fate) or shielded_until(token) is None  # noqa: E731
            park(done, left, question._waiters, token._grow().waiters)
        else:
            park(lambda: bool(fate) or token.cancelled, left, question._waiters, token._grow().waiters)
    state, value = fate[0]
    if state == "answered":
        return value
    if state == "failed":
        assert isinstance(value, BaseException)
        raise value
    if state == "timed_out":
        took = format_duration(question.timeout_s or 0.0)
        raise TimeoutError(f"nobody answered within {took}: {name_of_prompt(question.prompt)}")
    raise TurnOver(
        f"turn {question.turn_id} ended while it waited for an answer to: {name_of_prompt(question.prompt)}",
        turn_id=question.turn_id,
    )


def _tell(withdraw: Callable[[Question], object], question: Question, activity: Activity | None) -> None:
    try:
        unbound_context().run(withdraw, question)
    except (Exception, CancelledError) as error:  # noqa: BLE001 - the stop passes out; this is told in the report
        if activity is not None:
            activity.note_late(f"withdrawing the question failed: {described(error)}")


def _close(activity: Activity | None, question: Question, error: BaseException | None) -> None:
    if activity is None:
        return
    if error is None:
        activity.close("completed", "answered")
    elif isinstance(error, (CancelledError, TurnOver)):
        activity.close("cancelled", "withdrawn: nobody has declined it")
    elif question.state == "timed_out":
        activity.close("failed", "nobody answered in time")
    else:
        activity.close("failed", described(error))
    if error is not None and question.state == "answered":
        activity.note_late(f"answered {question._fate[0][1]!r}, which came with the stop and was not given to the turn")
