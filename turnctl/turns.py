"""The face: ``Turn``, with everything that can be done in a turn, and the functions that begin and end one.

The rooms below know only ``TurnCore``; this file puts them together on one object, and loads each on first use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, overload

from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.ledger.effecting import EffectingTurn
from turnctl.processes.face import CommandingTurn
from turnctl.spelling import described
from turnctl.tokens import registry
from turnctl.tokens.callables import check_plain
from turnctl.tokens.current import current_token
from turnctl.tokens.ending import Verdict, finish, judge
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.ids import check_name
from turnctl.tokens.scope import Binding, bind, unbind
from turnctl.tokens.session import stop_turn
from turnctl.tokens.token import CancelToken, TurnToken
from turnctl.tokens.turn import OnBusy, TurnCore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from turnctl.ledger.task import LedgerTask
    from turnctl.records.report import TurnReport
    from turnctl.records.stops import Outcome, StopAnswer, StopResult
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.shielding import Shield

__all__ = ["Turn", "TurnResult", "begin_turn", "current_turn", "end_turn", "run_turn", "turn"]

T = TypeVar("T")
Argv = Sequence["str | bytes | os.PathLike[str]"] | str


class Turn(CommandingTurn, EffectingTurn):
    """One unit of work that can be stopped, and the account of what became of it. See ``turnctl.turn``."""

    _binding: Binding | None = None

    # -- begin and end ----------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._is_framed = True
        is_new = self._token is None
        try:
            self._binding = bind(self.begin())
            return self
        except BaseException as error:
            if is_new and self._token is not None and not self.is_over:
                self.__exit__(type(error), error, error.__traceback__)  # a Ctrl-C in there: nobody else would end it
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        struck: BaseException | None = None
        verdict: Verdict | None = None
        if self._token is None:
            self.token  # noqa: B018 - refuses where it has not begun
        while verdict is None:
            try:
                self._undo_binding()
                verdict = judge(self, error)
            except BaseException as now:  # noqa: BLE001 - a Ctrl-C in these few lines must not leave the turn open
                struck = struck or now
                error = error or now
        try:
            finish(self, verdict.outcome)
        except BaseException as now:  # noqa: BLE001 - raised below
            struck = struck or now
            if not self._over.is_set():
                finish(self, verdict.outcome)  # a Ctrl-C in its first lines, or between its steps
        if struck is not None:
            raise struck
        if verdict.passes is not None:
            raise verdict.passes
        return verdict.absorb

    def _undo_binding(self) -> None:
        if self._binding is not None:
            unbind(self._binding)
            self._binding = None  # then, so that it can be done again after a strike

    def end(self, outcome: Outcome = "completed") -> TurnReport:
        """End the turn as ``end_turn`` does."""
        _check_outcome(outcome)
        finish(self, outcome)
        return self.report

    # -- stopping ---------------------------------------------------------------------------------------------

    @overload
    def stop(
        self,
        reason: str | None = ...,
        *,
        by: str | None = ...,
        soft: bool = ...,
        kill: bool = ...,
        grace: float | str | None = ...,
        wait: None = ...,
    ) -> StopAnswer: ...
    @overload
    def stop(
        self,
        reason: str | None = ...,
        *,
        by: str | None = ...,
        soft: bool = ...,
        kill: bool = ...,
        grace: float | str | None = ...,
        wait: float | str,
    ) -> StopResult: ...
    def stop(
        self,
        reason: str | None = None,
        *,
        by: str | None = None,
        soft: bool = False,
        kill: bool = False,
        grace: float | str | None = None,
        wait: float | str | None = None,
    ) -> StopAnswer | StopResult:
        """Stop this turn, and with ``wait`` block until it is over; see ``turnctl.stop``."""
        return stop_turn(self, reason=reason, by=by, soft=soft, kill=kill, grace=grace, wait=wait)

    def child(self, *, timeout: float | str | None = None) -> CancelToken:
        """A token that follows this turn's and can be cancelled on its own; use it with ``with``."""
        return self.token.child(timeout=timeout)

    def shield(self, max: float | str = "5s") -> Shield:
        """Hold a stop back for the length of a ``with``, at most ``max``; it is raised at the end of it."""
        return self.token.shield(max)

    # -- owning -----------------------------------------------------------------------------------------------

    @contextmanager
    def activity(self, kind: str, name: str) -> Iterator[Activity]:
        """Account for something that the body does: it is in the report with its times and how it ended.

        Raises ``TurnOver`` once the outcome has been decided. Not a checkpoint.
        """
        for what, given in (("kind", kind), ("name", name)):
            if not check_name(given):
                raise BadArgument(f"the {what} of an activity is a non-empty str, not {given!r}")
        activity = self.activities.admit(kind, name)
        try:
            yield activity
        except CancelledError:
            activity.close("cancelled")
            raise
        except BaseException as error:
            activity.close("failed", described(error))
            raise
        activity.close("completed")

    def staged(
        self,
        path: str | os.PathLike[str],
        mode: Literal["w", "wb", "x", "xb"] = "w",
        *,
        named: bool = False,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> AbstractContextManager[IO[Any]]:
        """A file to write in a ``with``; at its end ``path`` is that file, whole, if the turn still admits work.

        Else, and when the body raises or the program is killed, ``path`` stays what it was, so a tool that writes so
        may be abandoned. The modes are those of ``open``; with ``x`` the file must not be there, neither at the start
        nor at the end. A link is followed; owner and permissions of the old file are kept as far as the user may.
        ``named`` gives it a name (``file.name``), hidden and beside ``path``, for another program to write to.

        A checkpoint at its start and before the file is moved. Blocks for the disk. Raises ``TurnOver`` if the turn
        has ended meanwhile, and ``OSError`` as ``open`` does. A stop that is accepted after the last look does not
        keep the file out: the report has the times of both.
        """
        from turnctl.waiting.staging import staged

        return staged(self, path, mode, named=named, encoding=encoding, errors=errors, newline=newline)

    # -- the account ------------------------------------------------------------------------------------------

    @property
    def report(self) -> TurnReport:
        """What is known now: intent, execution, activities, processes. Never blocks, not a checkpoint.

        ``print`` gives a sentence, ``as_dict()`` plain values. Once the turn is over it still takes in what its
        parts learn later, such as the end of a process that had been given up.
        """
        from turnctl.tokens.reporting import report_of

        return report_of(self)


class TurnOptions(TypedDict, total=False):
    """The options of ``turnctl.turn``, for the functions that pass them on."""

    turn_id: str | None
    event: threading.Event | None
    on_busy: OnBusy
    inherit: bool
    timeout: float | str | None
    grace: float | str
    reason: str | None
    task: LedgerTask | None


class RunTurnOptions(TurnOptions, total=False):
    """The options of ``turnctl.turn``, the session among them, as ``run_turn`` takes them."""

    session_id: str | None


def turn(
    session_id: str | None = None,
    *,
    turn_id: str | None = None,
    event: threading.Event | None = None,
    on_busy: OnBusy = "displace",
    inherit: bool = True,
    timeout: float | str | None = None,
    grace: float | str = "5s",
    reason: str | None = None,
    task: LedgerTask | None = None,
) -> Turn:
    """A turn to enter with ``with``: begins, binds its token to this context, and at the end accounts for all.

    ``session_id`` names the conversation or worker slot; one turn runs in it at a time, and ``on_busy`` says what
    to do when there is one: ``displace`` it (stopped, then retired), ``retire`` it (frames run on), ``refuse``
    (``SessionBusy``) or ``wait``. ``timeout`` and ``grace`` are seconds or "5m"; ``grace`` is the time between
    asking and killing. ``event`` adopts a ``threading.Event`` of the host, shared both ways. Begun where another
    turn is bound it is that turn's child, unless ``inherit=False``.

    ``task`` is what ``ledger.submit`` or ``ledger.task`` gave: the turn then works on that task, under a lease
    (``LedgerRefused`` where another worker has it), is stopped when the ledger accepts a cancellation from any process,
    and tells the ledger how it ended. A task that was cancelled gives a turn that is born cancelled.

    The ``with`` absorbs the ``CancelledError`` of its own token only; ``turn.cancelled`` tells. Leaving it blocks
    until what the turn owned has ended or was given up, at most the grace and a few seconds.
    """
    return Turn(
        session_id,
        turn_id=turn_id,
        event=event,
        on_busy=on_busy,
        inherit=inherit,
        timeout=timeout,
        grace=grace,
        reason=reason,
        task=task,
    )


def begin_turn(session_id: str | None = None, **options: Unpack[TurnOptions]) -> TurnToken:
    """Begin a turn without ``with`` and return its token; give that to ``end_turn`` in a ``finally``.

    Takes the options of ``turnctl.turn``. The token is bound to this context until ``end_turn`` is called in it. A turn
    that nobody ends is displaced by the next one of its session; turns of other sessions that begin in this context are
    its children, which its stop reaches, unless they say ``inherit=False``.
    """
    made = Turn(session_id, **options)
    token = made.begin()
    made._binding = bind(token, is_loose=True)
    return token


def end_turn(token: TurnToken | Turn, outcome: Outcome = "completed", *, error: BaseException | None = None) -> bool:
    """End the turn of that token, and no other; True if this call decided its outcome.

    ``error`` is the exception that left the body, if one did: it decides as it would in the ``with``. A stop that
    was accepted before makes the outcome ``cancelled``. A turn that has ended already stays as it is: False.
    Blocks like leaving the ``with``. Raises ``BadArgument`` without a token.
    """
    _check_outcome(outcome)
    if isinstance(token, Turn):
        target: TurnCore | None = token
    elif isinstance(token, TurnToken):
        target = token._turn
    else:
        raise BadArgument(f"end_turn() needs the token that begin_turn() returned, not {token!r}")
    if target is None or target.is_over:
        return False
    if isinstance(target, Turn):
        target._undo_binding()
    return finish(target, judge(target, error).outcome if error is not None else outcome)


def _check_outcome(outcome: object) -> None:
    if outcome not in ("completed", "failed"):
        raise BadArgument(f"a turn ends completed or failed, not {outcome!r}; stop it to have it cancelled")


class TurnResult(Generic[T]):
    """What ``run_turn`` gives: the value, or how the turn ended; ``unwrap()`` raises what did not succeed."""

    def __init__(self, made: Turn, value: T | None, error: BaseException | None) -> None:
        self.turn = made
        self.error = error
        self._value = value

    @property
    def cancelled(self) -> bool:
        """Whether the turn was stopped."""
        return self.turn.outcome == "cancelled"

    @property
    def value(self) -> T | None:
        """The function's value; None where the turn did not complete."""
        return self._value if self.turn.outcome == "completed" else None

    @property
    def late_value(self) -> T | None:
        """The value that the function returned although the turn had been stopped."""
        return self._value if self.cancelled else None

    @property
    def report(self) -> TurnReport:
        """The turn's report."""
        return self.turn.report

    def __repr__(self) -> str:
        return f"<TurnResult {self.turn.outcome} of {self.turn.turn_id}>"

    def unwrap(self) -> T:
        """The value; raises the function's own exception, or ``CancelledError`` if the turn was stopped."""
        if self.error is not None:
            raise self.error
        if self.turn.outcome == "superseded":
            raise TurnOver(
                f"turn {self.turn.turn_id} was superseded: its session went to another turn while it ran, so its "
                "value does not count",
                turn_id=self.turn.turn_id,
            )
        if self.turn.outcome != "completed":
            raise self.turn.token._error()
        return self._value  # type: ignore[return-value]


@calls_the_body
def run_turn(
    fn: Callable[..., T], /, *args: Any, options: RunTurnOptions | None = None, **kwargs: Any
) -> TurnResult[T]:
    """Run ``fn(*args, **kwargs)`` in a turn of its own and return a result that never raises for a stop.

    ``options`` are those of ``turnctl.turn``. Ordinary exceptions of ``fn`` are kept in the result;
    ``KeyboardInterrupt``, ``SystemExit`` and another turn's ``CancelledError`` pass out. Blocks as ``fn`` does.
    """
    check_plain("run_turn()", fn)
    if options is not None and not isinstance(options, dict):
        raise BadArgument(f"options of run_turn() are those of turnctl.turn, as a dict, not {options!r}")
    made = turn(**options) if options else turn()
    value: T | None = None
    error: BaseException | None = None
    began = False
    try:
        with made:
            began = True
            value = fn(*args, **kwargs)
    except Exception as caught:
        if not began:
            raise  # a busy session, a shutdown: the caller's to know
        error = caught
    except CancelledError as caught:
        if began or caught.token is not made._token:
            raise  # another turn's; this one was stopped while it waited for its session
    return TurnResult(made, value, error)


def current_turn() -> Turn | None:
    """The running turn that this frame belongs to, or None. Never blocks, not a checkpoint."""
    found = registry.enclosing(current_token())
    return found if isinstance(found, Turn) else None


if "TURNCTL_TRIAL" in os.environ:  # set by ``turnctl trial`` alone
    from turnctl.waiting.trialled import arm

    arm()
