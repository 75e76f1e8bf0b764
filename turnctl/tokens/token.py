"""The public tokens: ``CancelToken``, made as a child or a link, and ``TurnToken``, the one of a turn.

The mechanism, its invariants and why nothing in it can deadlock stand in ``tokens.core``. Checking costs one slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from turnctl import points
from turnctl.clock import monotonic, parse_duration
from turnctl.errors import BadArgument, CancelledError, TokenMisuse, TurnOver
from turnctl.tokens.bridge import Bridge
from turnctl.tokens.callables import check_plain
from turnctl.tokens.callbacks import Registration
from turnctl.tokens.core import TokenCore
from turnctl.tokens.deadline import cancel_at
from turnctl.tokens.entries import CANCEL, Stop, is_ended, is_stopped, level_name, new_stop, outcome_of, read
from turnctl.tokens.event import TurnEvent
from turnctl.tokens.leaving import leave_if_sent_off
from turnctl.tokens.pausing import wait_while_paused
from turnctl.tokens.scope import bind, join, pin, unbind, unpin
from turnctl.tokens.shielding import Shield, is_shielded, shields
from turnctl.tokens.swallowing import note_raise, note_seen
from turnctl.tokens.tracing import trace, traced
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.records.stops import Cause, Level, Outcome, StopAnswer, StopRecord
    from turnctl.tokens.turn import TurnCore

__all__ = ["CancelToken", "TurnToken"]

_new_error = BaseException.__new__


class CancelToken(TokenCore):
    """One cancellation signal that every layer checks.

    ``cancelled`` is True once a stop has been accepted that interrupts work. It never goes back. Reading it costs
    one slot. A token made by ``child()`` or ``any_of()`` follows its parents, never the reverse.
    """

    __slots__ = ()

    # -- checking ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise ``CancelledError`` if a stop that interrupts work was accepted. A checkpoint.

        Blocks only while the turn is paused.
        """
        if self._due:
            self._attend()

    def is_cancelled(self) -> bool:
        """Whether a stop that interrupts work was accepted. Not a checkpoint."""
        return self.cancelled

    def _attend(self) -> None:
        """The long way of a checkpoint: it is traced, or paused, or a stop is to be raised, or this thread to leave."""
        if traced:
            trace(self)
        if not self.cancelled:
            wait_while_paused(self)
            leave_if_sent_off(self)
        if self.cancelled:
            if not shields.get() or not is_shielded(self):
                raise note_raise(self, self._error())
            note_seen(self)

    def _raised(self, *, after_work: bool = True) -> CancelledError:
        """The error of a stop that is raised here and now; who finds out about swallowed ones takes note of it."""
        return note_raise(self, self._error(), after_work=after_work)

    def _error(self) -> CancelledError:
        for stop in self._log:
            if type(stop) is Stop:
                break
        else:
            return CancelledError(token=self)
        text = f"{self._title()} was cancelled ({stop.cause})"
        if stop.reason:
            text = f"{text}: {stop.reason}"
        # its initialiser would take several times as long as these lines, and it is a wake-up that they delay
        error = _new_error(CancelledError, text)
        error._stop = stop
        error.token = self
        error.partial = None
        error.late = None
        return error

    def _title(self) -> str:
        return "a token"

    def _deadline_passed(self, reason: str) -> None:
        self.cancel(reason, cause="deadline")

    # -- asking -----------------------------------------------------------------------------------------------

    def cancel(
        self,
        reason: str | None = None,
        *,
        by: str | None = None,
        cause: Cause = "user",
        level: Level = "cancel",
        grace: float | str | None = None,
    ) -> StopAnswer:
        """Ask for a stop, record who asked and why, wake every waiter, and return what became of the request.

        The first accepted request stays on record. A later one may raise ``level`` (``soft``, ``cancel``,
        ``kill``) or shorten ``grace`` (seconds or "1m30s"), never the reverse. On a retired token nothing
        changes and the answer says so. Does not prove that anything has ended. Never blocks, starts no thread,
        logs nothing, holds no lock: safe in signal handlers, finalizers and callbacks. Not a checkpoint.
        Raises ``BadArgument`` or ``BadDuration`` before anything is recorded.
        """
        return self._enter(new_stop(reason, by, cause, level, grace, self._source()))

    @property
    def event(self) -> TurnEvent:
        """A ``threading.Event`` that is set when the token trips; setting it is a stop with cause ``event``.

        Made on first use, then always the same.
        """
        parts = self._grow()
        event: TurnEvent | None = parts.cells.get("event")
        if event is None:
            made = TurnEvent()
            made._token = self
            made._waiters = parts.waiters
            made._flag = self.cancelled  # before others can see it
            event = parts.cells.setdefault("event", made)
            points.reach("token.event.made")
            assert event is not None
            # then read the log: a stop or the end may have looked for the event before it was there
            _, level, _, end = read(self._log)
            if level >= CANCEL:
                event._raise_flag()  # who waits on it already is woken as well
            if end is not None:
                event._retire()
        return event

    # -- what the log says ------------------------------------------------------------------------------------

    @property
    def record(self) -> StopRecord | None:
        """The stop that was accepted first, if any."""
        first = read(self._log)[0]
        return None if first is None else first.record

    @property
    def cause(self) -> str | None:
        """The path by which the accepted stop came, if any: ``user``, ``deadline``, ``signal`` and so on."""
        record = self.record
        return None if record is None else record.cause

    @property
    def reason(self) -> str | None:
        """The text given with the accepted stop, if any."""
        record = self.record
        return None if record is None else record.reason

    @property
    def level(self) -> Level | None:
        """How urgent the accepted stop has become: ``soft``, ``cancel`` or ``kill``."""
        level = read(self._log)[1]
        return level_name(level) if level else None

    @property
    def stopping(self) -> bool:
        """Whether any stop was accepted, a soft one included: what a loop asks between two steps."""
        return is_stopped(self._log)

    @property
    def retired(self) -> bool:
        """Whether the token has been retired; it then refuses every stop."""
        return is_ended(self._log)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None before it has been decided."""
        first, _, _, end = read(self._log)
        return None if end is None else outcome_of(first, end)

    def close(self) -> bool:
        """Retire a child or linked token and take it off its parents' lists; False if it was closed before.

        Later stops of the parents do not reach it. Not a checkpoint; never blocks.
        """
        won = self._retire("completed")
        parts = self._parts_now()
        if parts is not None:
            timer = parts.cells.pop("timer", None)
            if timer is not None:
                timer.cancel()
            bridge = parts.cells.pop("bridge", None)
            if bridge is not None:
                bridge.finish()
        return won

    # -- the tree ---------------------------------------------------------------------------------------------

    def child(self, *, timeout: float | str | None = None) -> CancelToken:
        """A token that follows this one and may be cancelled on its own; use it with ``with``, or ``close`` it.

        ``timeout`` (seconds or "30s") cancels it with cause ``deadline``. Born tripped if this one is. Costs this
        token nothing once the child is closed or forgotten. Raises ``TurnOver`` on a retired token that was never
        tripped: nothing could stop the child.
        """
        return _linked((self,), timeout)

    @classmethod
    def any_of(cls, *parents: CancelToken, timeout: float | str | None = None) -> CancelToken:
        """A token that trips with the first of several; its record names the parent that did it."""
        if not parents:
            raise BadArgument("any_of() needs at least one token to follow")
        for parent in parents:
            if not isinstance(parent, CancelToken):
                raise BadArgument(f"any_of() follows tokens, each an argument of its own, not {parent!r}")
        return _linked(parents, timeout)

    def shield(self, max: float | str = "5s") -> Shield:
        """Hold a stop back for the length of a ``with``, at most ``max``; it is raised at the end of it."""
        return Shield(self, max)

    def __enter__(self) -> Self:
        self._grow().cells.setdefault("binds", []).append(bind(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Close the token; absorb the ``CancelledError`` that this token raised for a stop of its own.

        A stop that came from a parent passes on to that parent's ``with``.
        """
        unbind(self._grow().cells["binds"].pop())
        self.close()
        return isinstance(error, CancelledError) and error.token is self and self.cause != "parent"

    # -- callbacks --------------------------------------------------------------------------------------------

    def on_cancel(self, fn: Callable[[], object], *, inline: bool = False) -> Registration:
        """Have ``fn()`` called once when the token trips, on a bridge thread, or at once if it has tripped.

        With ``inline=True`` it runs on the canceller's stack, which may be a signal handler's: it must neither
        block nor take a lock. An exception of ``fn`` is kept in the registration and in the turn's report.
        Never blocks, not a checkpoint. Raises ``TurnOver`` once the turn is over.
        """
        check_plain("on_cancel()", fn)
        if self.retired and not self._still_serves():
            raise TurnOver(f"{self!r} has ended and runs no more callbacks")
        host = None if inline else self._bridge()
        registration = Registration(self, fn, inline=inline)
        parts = self._grow()
        if host is not None:
            host.serve(self)
        parts.calls[registration] = None
        pin(self)
        points.reach("token.callback.listed")
        if self.cancelled:  # then read the flag: the tripping thread may have looked before
            if host is not None:
                host.wake()
            else:
                registration._run_once()
        if host is not None and host.is_over and parts.calls.pop(registration, registration) is None:
            # the bridge made its last round before this was listed
            raise TurnOver(f"{self!r} is over and runs no more callbacks")
        return registration

    def _still_serves(self) -> bool:
        return False

    def _bridge(self) -> Bridge:
        """The bridge thread that serves this token: its turn's, else one of its own.

        A link to several parents has its own, since each of these may end before the others.
        """
        one: TokenCore | tuple[TokenCore, ...] | None = self
        while isinstance(one, TokenCore):
            if isinstance(one, TurnToken):
                turn = one._turn
                if turn is not None:
                    return turn.bridge
                if one.retired:
                    raise TurnOver(f"{one!r} is over and runs no more callbacks", turn_id=one.turn_id)
            bridge: Bridge | None = one._grow().cells.get("bridge")
            if bridge is not None:
                return bridge
            one = one._parent
        made: Bridge = self._grow().cells.setdefault("bridge", Bridge("token", of_turn=False))
        return made

    def _note_failure(self, registration: Registration, error: BaseException) -> None:
        found: list[TokenCore] = [self]
        for one in found:
            one._grow().cells.setdefault("failures", []).append((registration, error))
            found.extend(parents_of(one))

    def _release_pin(self) -> None:
        parts = self._parts_now()
        if parts is not None and not parts.calls:
            unpin(self)

    # -- being an object --------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TokenMisuse(
            f"{self!r} cannot be pickled: a token lives in one process; pass the turn id and stop by that"
        )

    def __repr__(self) -> str:
        return f"<CancelToken {self._state()}>"


class TurnToken(CancelToken):
    """The one token of a turn; it shows whose it is. Born at begin, retired at end."""

    __slots__ = ("_turn", "born_at", "session_id", "turn_id")

    def __init__(self, turn_id: str, session_id: str | None = None) -> None:
        super().__init__()
        # held until the turn is over, so that whoever holds the token of a displaced turn can still end that turn
        self._turn: TurnCore | None = None
        self.turn_id = turn_id
        self.session_id = session_id
        self.born_at = monotonic()

    def _title(self) -> str:
        return f"turn {self.turn_id}"

    def _ids(self) -> tuple[str | None, str | None]:
        return self.turn_id, self.session_id

    def _source(self) -> str | None:
        return self.turn_id

    @property
    def deadline(self) -> float | None:
        """Monotonic seconds at which the turn is stopped with cause ``deadline``; None for no limit."""
        return None if self._turn is None else self._turn.deadline

    def _still_serves(self) -> bool:
        # stopped and not over: what is registered now runs at once
        return self.cancelled and self._turn is not None and not self._turn.bridge.is_over

    def close(self) -> bool:
        """Refused: only the end of the turn retires its token."""
        raise TokenMisuse(f"{self!r} is retired by the end of its turn: leave the with, or call end_turn()")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        """Undo the binding to this context, nothing more: the turn goes on, and absorbs its own errors."""
        unbind(self._grow().cells["binds"].pop())
        return False

    def __repr__(self) -> str:
        session = f" session={self.session_id!r}" if self.session_id is not None else ""
        age = monotonic() - self.born_at
        return f"<TurnToken turn={self.turn_id}{session} {self._state()} age={age:.3g}s>"


def _linked(parents: tuple[CancelToken, ...], timeout: float | str | None) -> CancelToken:
    seconds = parse_duration(timeout, what="timeout", none=True)
    for parent in parents:
        if parent.retired and not parent.stopping:
            raise TurnOver(f"{parent!r} has ended and takes no more children; begin a new turn")
    kid = CancelToken()
    kid._parent = parents[0] if len(parents) == 1 else parents
    for parent in parents:
        join(kid, parent)
    if seconds is not None and not kid.cancelled:
        at = monotonic() + seconds
        kid._grow().cells["timer"] = cancel_at(kid, at, f"timeout of {timeout} passed")
    return kid
