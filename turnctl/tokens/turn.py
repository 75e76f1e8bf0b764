"""The turn: one unit of work, its one token, and what it owns, from begin to over.

Invariants
  U1  A turn has one token, made at begin; everything bound in it checks that one.
  U2  Admission to what the turn owns closes when the outcome has been decided, before anything is ended.
  U3  The turn is over exactly once, after everything it owned has been ended or named (``tokens.ending``).
  U4  A session's slot is held from begin until over, or until a newer turn displaces this one.

May block: ``begin`` with ``on_busy="wait"``, ``stop`` with ``wait``, leaving the ``with``. Nothing blocks under a lock.
"""

from __future__ import annotations

import threading
from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from turnctl import points
from turnctl.clock import monotonic, parse_duration, wall
from turnctl.errors import BadArgument, TurnctlError
from turnctl.records.stops import StopAnswer
from turnctl.tokens import pausing, registry
from turnctl.tokens.activities import Activities, Activity, Owned
from turnctl.tokens.adopting import Adopted, adopt, check_event
from turnctl.tokens.bridge import Bridge
from turnctl.tokens.deadline import Timer, cancel_at, is_time
from turnctl.tokens.due import due_at
from turnctl.tokens.entries import Stop, new_stop
from turnctl.tokens.eras import Latch
from turnctl.tokens.event import TurnEvent, release_all
from turnctl.tokens.ids import check_name, new_turn_id
from turnctl.tokens.nesting import ChildTurn
from turnctl.tokens.ruled import begin_under, ruling_of
from turnctl.tokens.scope import join
from turnctl.tokens.shielding import shielded_until
from turnctl.tokens.slot import find_outer, parent_token, refuse_own_session, take
from turnctl.tokens.token import TurnToken

if TYPE_CHECKING:
    from turnctl.records.stops import Cause, Level, Outcome

__all__ = ["OnBusy", "TurnCore"]

OnBusy = Literal["displace", "retire", "refuse", "wait"]
_DEFAULT_GRACE_S = 5.0
_POLICIES = ("displace", "retire", "refuse", "wait")


class TurnCore:
    """The life of a turn. ``turnctl.Turn`` adds what the higher rooms can do in it."""

    def __init__(
        self,
        session_id: str | None = None,
        *,
        turn_id: str | None = None,
        event: threading.Event | None = None,
        on_busy: OnBusy = "displace",
        inherit: bool = True,
        timeout: float | str | None = None,
        grace: float | str = "5s",
        reason: str | None = None,
        task: object | None = None,
    ) -> None:
        if on_busy not in _POLICIES:
            raise BadArgument(f"unknown on_busy {on_busy!r}; use one of {', '.join(_POLICIES)}")
        for what, given in (("session_id", session_id), ("turn_id", turn_id)):
            if given is not None and not check_name(given):
                raise BadArgument(f"{what} must be a non-empty str or None, not {given!r}")
        if inherit is not True and inherit is not False:
            raise BadArgument(f"inherit is True or False, not {inherit!r}")
        if reason is not None and not isinstance(reason, str):
            raise BadArgument(f"the reason of a turn is a str or None, not {reason!r}")
        if event is not None:
            check_event(event)
        self.session_id = session_id
        self.turn_id = turn_id or new_turn_id()
        self.grace_s = _DEFAULT_GRACE_S if grace == "5s" else parse_duration(grace, what="grace", zero=True) or 0.0
        self.timeout_s = parse_duration(timeout, what="timeout", none=True)
        self.reason = reason
        self.activities = Activities(self.turn_id)
        self.notes: list[str] = []
        self.started_at = 0.0
        self.over_at: float | None = None
        self.over_mono = 0.0
        self._on_busy: OnBusy = on_busy
        self._inherit = inherit
        self._given_event = event
        self._adopted: Adopted | None = None
        self._token: TurnToken | None = None
        self._timer: Timer | None = None
        self._outer: TurnCore | None = None
        self._place: Activity | None = None
        self._bridge: Bridge | None = None
        self._over = Latch()
        self._is_framed, self._beginner = False, 0  # the ident of the thread that began it
        self._ruling = ruling_of(task, self)
        # stops that came after the decision: they change no outcome, they only shorten the rest
        self._hurry: list[Stop] = []
        self._hurry_waiters: list[LockType] = []
        self._decided_at: float | None = None
        self._ending = self._is_finishing = False
        self._enders: list[threading.Thread] = []

    @property
    def bridge(self) -> Bridge:
        """The turn's bridge, made on first use; it starts its thread with the first thing to serve."""
        found: Bridge | None = self._bridge
        if found is None:
            # setdefault is atomic, so two threads get the same one
            found = self._bridge = self.__dict__.setdefault("_one_bridge", Bridge(self.turn_id))
            if self._over.is_set():  # then read the end: it may not have seen the bridge
                found.finish()
        return found

    def _nudge(self) -> None:
        """Have everything that is blocked in this turn look up, so that the main thread runs a handler that is due."""
        if self._token is not None:
            self._token._nudge()
        release_all(self._over._waiters)
        self._ring()

    def _ring(self) -> None:
        if self._bridge is not None:
            self._bridge.ring()

    # -- begin ------------------------------------------------------------------------------------------------

    def begin(self) -> TurnToken:
        """Begin the turn: make its token, take its session, start its clock.

        With ``on_busy="wait"`` it blocks until the session is free, and is then a checkpoint of the enclosing
        turn; otherwise it never blocks. Raises ``SessionBusy``, ``ShuttingDown`` or ``TurnOver`` with nothing
        begun. A turn begins once.
        """
        if self._token is not None:
            raise TurnctlError(f"turn {self.turn_id} has begun already; make a new turn for each unit of work")
        self._outer = find_outer(self.session_id)
        refuse_own_session(self)
        registry.refuse_if_shutting_down()
        if registry.on_begin:
            registry.tell(registry.on_begin)
        self._over.renew()
        token = self._token = TurnToken(self.turn_id, self.session_id)
        token._turn = self
        self._beginner = threading.get_ident()
        self.started_at = wall()
        try:
            self._register()
            points.reach("turn.begin.registered")
            return token
        except BaseException:
            self._undo_begin(token)
            raise

    def _register(self) -> None:
        token = self.token
        if not registry.enter(self):
            raise BadArgument(f"a turn with the id {self.turn_id} is running already; turn ids are used once")
        if self._outer is not None and self._inherit:
            self._place = self._outer.activities.admit("turn", self.turn_id, ChildTurn(self))
            token._parent = parent_token(self._outer)
            join(token, token._parent)
        if self._given_event is not None:
            self._adopted = adopt(self._given_event, self)
        if self.timeout_s is not None and self._on_busy == "wait":
            self.set_timeout(self.timeout_s)  # the wait for the session is part of it
        if self.session_id is not None:
            take(self, self.session_id, self._on_busy)
        if self.timeout_s is not None and self._timer is None:
            self.set_timeout(self.timeout_s)
        registry.refuse_if_shutting_down()  # then read the gate: shutdown may not have seen this turn
        if pausing.all_paused:
            pausing.pause_if_all_are(self)
        begin_under(self, self._outer if self._inherit else None)

    def _undo_begin(self, token: TurnToken) -> None:
        if isinstance(self._given_event, TurnEvent) and self._given_event._token is token:
            # the host may use it for the next try
            token._grow().cells.pop("event", None)
            self._given_event._token = None
        token._retire("failed")
        if self._ruling is not None:
            self._ruling.undo()
        self.activities.close_admission()
        if self._place is not None:
            self._place.close("failed", "the turn could not begin")
        if self._bridge is not None:
            self._bridge.finish(1.0)
        self._leave()

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def token(self) -> TurnToken:
        """The turn's one token. Raises ``TurnctlError`` before begin."""
        if self._token is None:
            raise TurnctlError(f"turn {self.turn_id} has not begun; enter it with `with`, or use turnctl.begin_turn()")
        return self._token

    @property
    def event(self) -> threading.Event:
        """The event that is set when the turn is stopped: the adopted one, else the token's own."""
        return self._given_event if self._given_event is not None else self.token.event

    @property
    def cancelled(self) -> bool:
        """Whether the turn was stopped: the token tripped, or the outcome is ``cancelled``."""
        return self.token.cancelled or self.token.outcome == "cancelled"

    @property
    def stopping(self) -> bool:
        """Whether any stop was accepted, a soft one included; what a loop asks between two steps."""
        return self.token.stopping

    @property
    def cause(self) -> str | None:
        """The path by which the accepted stop came, if any."""
        return self.token.cause

    @property
    def outcome(self) -> Outcome | None:
        """How the turn ended; None before that has been decided."""
        return self.token.outcome

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended and everything it owned was ended or named."""
        return self._over.is_set()

    @property
    def deadline(self) -> float | None:
        """Monotonic seconds at which the turn is stopped with cause ``deadline``; None for no limit."""
        return None if self._timer is None else self._timer.at

    def check(self) -> None:
        """Raise ``CancelledError`` if the turn was stopped. A checkpoint; blocks only while the turn is paused."""
        (self._token or self.token).check()

    # -- the deadline -----------------------------------------------------------------------------------------

    def set_timeout(self, timeout: float | str | None) -> None:
        """Have the turn stopped ``timeout`` from now (seconds or "5m"); None takes the limit away.

        Moves an earlier deadline. A turn that has been decided keeps none. Never blocks.
        """
        seconds = parse_duration(timeout, what="timeout", none=True)
        self._limit(None if seconds is None else monotonic() + seconds, seconds)

    def set_deadline(self, at: float | None) -> None:
        """Have the turn stopped at ``at`` in monotonic seconds, at once if that has passed; None for no limit."""
        if at is not None and not is_time(at):
            raise BadArgument(f"a deadline is a time of time.monotonic() in seconds or None, not {at!r}")
        self._limit(at, None if at is None else float(f"{max(at - monotonic(), 0):.3g}"))

    def _limit(self, at: float | None, seconds: float | None) -> None:
        old, self._timer = self._timer, None
        if old is not None:
            old.cancel()
        if at is not None and not self.is_over:
            if at <= monotonic():
                self._deadline_passed("its deadline had passed")
                return
            timer = self._timer = cancel_at(self, at, f"timeout of {seconds:g} s passed")
            if self._over.is_set():  # then read the end: it may not have seen the timer
                timer.cancel()
        self._ring()  # for who has told others when it passes

    def _deadline_passed(self, reason: str) -> None:
        at = self.deadline
        if at is not None and at > monotonic():
            return  # moved in the meantime, and this is the earlier timer
        self.cancel(reason, cause="deadline")

    # -- stopping ---------------------------------------------------------------------------------------------

    def cancel(
        self,
        reason: str | None = None,
        *,
        by: str | None = None,
        cause: Cause = "user",
        level: Level = "cancel",
        grace: float | str | None = None,
    ) -> StopAnswer:
        """Ask the turn to stop and return what became of the request; see ``CancelToken.cancel``.

        A turn that was displaced and still drains answers ``already_cancelled``; a level of ``kill`` or a shorter
        grace then still shortens the rest. Never blocks; safe in a signal handler. Not a checkpoint.
        """
        stop = new_stop(reason, by, cause, level, grace, self.turn_id)
        answer = (self._token or self.token)._enter(stop)
        return answer if answer.kind == "accepted" else self._too_late(stop, answer)

    def _too_late(self, stop: Stop, answer: StopAnswer) -> StopAnswer:
        """What a request comes to that is not the one on record."""
        if answer or self.is_over:
            return answer
        if answer.outcome == "superseded" and stop.cause != "deadline" and not self._ending:
            return answer  # its frames run on: only its own deadline still ends what it owns
        # decided, but not over: nothing changes any more but how long the rest may take
        points.reach("turn.stop.late")
        self._hurry.append(stop)
        self._ring()
        release_all(self._hurry_waiters)
        if answer.outcome == "cancelled" and not self._ending:
            return StopAnswer("already_cancelled", answer.record, None, None, self.turn_id, self.session_id)
        return answer

    # -- owning (the Owner side of tokens.activities) ---------------------------------------------------------

    def stop_wanted(self) -> bool:
        """Whether work of this turn has to be interrupted: it was tripped, or it hurries to its end."""
        return self.token.cancelled or self._ending or bool(self._hurry)

    def kill_at(self) -> float | None:
        """Monotonic seconds at which asking turns into killing; None while no stop is wanted. Only ever sooner."""
        ends: list[float] = []
        kept: float | None = None
        for record in self.token._stops():
            if record.level == "soft":
                kept = record.grace_s if kept is None else min(kept, kept if record.grace_s is None else record.grace_s)
            elif record.level == "kill":
                ends.append(record.at)
            elif record.grace_s is not None:
                ends.append(record.at + record.grace_s)
            elif not ends:
                # the first one spends the turn's grace; a repeated stop must say so to shorten it
                ends.append(record.at + (self.grace_s if kept is None else kept))
        if not ends and self._ending and self._decided_at is not None:
            ends.append(self._decided_at + self.grace_s)
        for record in self._hurry:
            if record.level == "kill" or (record.grace_s is not None and record.level != "soft"):
                ends.append(record.at + (0.0 if record.level == "kill" else record.grace_s or 0.0))
            elif record.cause == "deadline" and not ends:
                ends.append(record.at + self.grace_s)
        return min(ends, default=None)

    def due_at(self) -> float | None:
        """Monotonic seconds at which the nearest deadline stops it: its own, or one of a turn above it."""
        return due_at(self.token)

    def held_until(self) -> float | None:
        """Monotonic seconds until which a shield of this context holds the stop back; None if none does."""
        return shielded_until(self.token)

    def watch(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Call ``fn`` on the bridge thread after each change of the two above; returns its undo."""
        return self.bridge.watch(self.token, fn)

    def admit(self, owned: Owned) -> Activity:
        """Register ``owned`` before it can run; ``TurnOver`` once the outcome has been decided."""
        return self.activities.admit(owned.kind, owned.name, owned)

    # -- being over -------------------------------------------------------------------------------------------

    def wait_over(self, timeout: float | str | None = None) -> bool:
        """Block until the turn is over or ``timeout`` has passed; whether it is over. Not a checkpoint."""
        return self._over.wait(parse_duration(timeout, what="timeout", zero=True, none=True))

    def _leave(self) -> None:
        """Give up everything that others find the turn by, and say that it is over (U3)."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        adopted, self._adopted = self._adopted, None
        if adopted is not None:
            adopted.leave()
        self.over_mono = monotonic()
        self.over_at = wall()
        registry.leave(self)
        if self.session_id is not None:
            registry.release(self.session_id, self)
        if self._token is not None:
            self._token._turn = None
        points.reach("turn.leaving")
        self._over.set()
        if self._bridge is not None:
            self._bridge.finish()  # one that was made while the turn ended

    def _forked(self) -> None:
        """In a forked child no turn is live: the token refuses, and the end does nothing."""
        if self._token is not None:
            self._token._retire("superseded")
            self._token._turn = None
        self.activities.close_admission()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.token.__reduce_ex__(protocol)

    def __copy__(self) -> TurnCore:
        return self

    def __deepcopy__(self, memo: Any) -> TurnCore:
        return self

    def __repr__(self) -> str:
        inside = "not begun" if self._token is None else repr(self._token)
        return f"<{type(self).__name__} {self.turn_id} {inside}{' over' if self.is_over else ''}>"
