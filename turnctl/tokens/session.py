"""Addressing a turn: by session, by turn id, all of them; and stopping what was addressed.

A stop that names a turn never reaches another one: ``expected_turn`` is compared with the turn that was found, and
the request then goes to that turn's own token, which refuses once it has been retired.
"""

from __future__ import annotations

from contextvars import Token as ResetToken
from typing import TYPE_CHECKING, Literal, Self, overload

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.records.stops import StopAnswer, StopResult
from turnctl.tokens import registry
from turnctl.tokens.current import bound, session_name
from turnctl.tokens.entries import check_request
from turnctl.tokens.ids import check_name

if TYPE_CHECKING:
    from turnctl.records.stops import Cause, Level
    from turnctl.tokens.turn import TurnCore

__all__ = ["Session", "running_turn", "session", "shutdown", "stop", "stop_all", "stop_turn"]


class Session:
    """``with turnctl.session("chat-42"):`` code inside with no token bound obeys that session's running turn.

    Binds a name, nothing else: it starts no turn and holds none.
    """

    def __init__(self, session_id: str) -> None:
        if not check_name(session_id):
            raise BadArgument(f"session_id must be a non-empty str, not {session_id!r}")
        self.session_id = session_id
        self._resets: list[ResetToken[str | None]] = []

    @property
    def turn(self) -> TurnCore | None:
        """The session's running turn, if it has one."""
        return registry.sessions.get(self.session_id)

    def __repr__(self) -> str:
        return f"<Session {self.session_id!r} {self.turn!r}>"

    def __enter__(self) -> Self:
        self._resets.append(session_name.set(self.session_id))
        return self

    def __exit__(self, *_: object) -> None:
        reset = self._resets.pop()
        try:
            session_name.reset(reset)
        except ValueError:
            pass  # another context than the one that bound it: that binding went with its context


def session(session_id: str) -> Session:
    """The session of that name, to bind with ``with`` or to look up its running turn."""
    return Session(session_id)


def running_turn(session_id: str) -> TurnCore | None:
    """The turn that holds the session now, if any. Never blocks."""
    return registry.sessions.get(session_id)


@overload
def stop(
    session_id: str | None = ...,
    *,
    turn_id: str | None = ...,
    expected_turn: str | None = ...,
    reason: str | None = ...,
    by: str | None = ...,
    cause: Cause = ...,
    soft: bool = ...,
    kill: bool = ...,
    grace: float | str | None = ...,
    wait: None = ...,
) -> StopAnswer: ...
@overload
def stop(
    session_id: str | None = ...,
    *,
    turn_id: str | None = ...,
    expected_turn: str | None = ...,
    reason: str | None = ...,
    by: str | None = ...,
    cause: Cause = ...,
    soft: bool = ...,
    kill: bool = ...,
    grace: float | str | None = ...,
    wait: float | str,
) -> StopResult: ...
def stop(
    session_id: str | None = None,
    *,
    turn_id: str | None = None,
    expected_turn: str | None = None,
    reason: str | None = None,
    by: str | None = None,
    cause: Cause = "user",
    soft: bool = False,
    kill: bool = False,
    grace: float | str | None = None,
    wait: float | str | None = None,
) -> StopAnswer | StopResult:
    """Stop the running turn of a session, or the turn of that id; the answer says what became of the request.

    Give one of ``session_id`` and ``turn_id``. With ``expected_turn`` the stop is refused unless the session
    still runs that turn, so a late press never reaches the next one. ``soft`` lets the step in hand finish,
    ``kill`` spends no grace. Without ``wait`` it never blocks, is safe in a signal handler, and returns a
    ``StopAnswer``; with ``wait`` (seconds or "10s") it blocks until the turn is over or the time has passed, and
    returns a ``StopResult``. Not a checkpoint.
    """
    if (session_id is None) == (turn_id is None):
        raise BadArgument("give stop() one target: a session id, or turn_id=")
    for what, name in (("session_id", session_id), ("turn_id", turn_id), ("expected_turn", expected_turn)):
        if name is not None and not check_name(name):
            raise BadArgument(f"{what} must be a non-empty str, not {name!r}")
    _check_stop(soft=soft, kill=kill, grace=grace, wait=wait)
    check_request(reason, by, cause, "cancel")  # a misuse is told also when nothing runs
    if turn_id is not None:
        turn = registry.find(turn_id)
    else:
        assert session_id is not None
        turn = registry.sessions.get(session_id)
    if turn is None:
        answer = StopAnswer("refused", None, None, "no_turn", turn_id or expected_turn, session_id)
        return answer if wait is None else StopResult(answer, None, True)
    if expected_turn is not None and turn.turn_id != expected_turn:
        answer = StopAnswer("refused", None, None, "retired", expected_turn, session_id)
        return answer if wait is None else StopResult(answer, None, True)
    return stop_turn(turn, reason=reason, by=by, cause=cause, soft=soft, kill=kill, grace=grace, wait=wait)


def stop_turn(
    turn: TurnCore,
    *,
    reason: str | None = None,
    by: str | None = None,
    cause: Cause = "user",
    soft: bool = False,
    kill: bool = False,
    grace: float | str | None = None,
    wait: float | str | None = None,
) -> StopAnswer | StopResult:
    """Stop that turn; see ``stop``. Waiting from inside the turn itself is cut to nothing: it could not end."""
    seconds = _check_stop(soft=soft, kill=kill, grace=grace, wait=wait)
    level: Level = "soft" if soft else "kill" if kill else "cancel"
    answer = turn.cancel(reason, by=by, cause=cause, level=level, grace=grace)
    if seconds is None:
        return answer
    inside = registry.enclosing(bound.get())
    while inside is not None and inside is not turn:
        inside = inside._outer
    over = turn.is_over if inside is turn else turn.wait_over(seconds)
    from turnctl.tokens.reporting import report_of  # loads the records of a report: not in a signal handler

    return StopResult(answer, report_of(turn), over)


def _check_stop(*, soft: bool, kill: bool, grace: float | str | None, wait: float | str | None) -> float | None:
    """Refuse a misuse before anything is looked up or changed; the wait in seconds."""
    if soft and kill:
        raise BadArgument("a stop is soft or kill, not both")
    if grace is not None:
        parse_duration(grace, what="grace", zero=True)
    return parse_duration(wait, what="wait", zero=True, none=True)


def stop_all(
    reason: str | None = None,
    *,
    by: str | None = None,
    cause: Literal["user", "signal", "shutdown", "operator"] = "user",
    level: Level = "cancel",
    grace: float | str | None = None,
) -> list[StopAnswer]:
    """Stop every turn of this process; one answer each. Never blocks; safe in a signal handler."""
    check_request(reason, by, cause, level)  # a misuse is told also when nothing runs
    _check_stop(soft=False, kill=False, grace=grace, wait=None)
    return [turn.cancel(reason, by=by, cause=cause, level=level, grace=grace) for turn in registry.all_turns()]


def shutdown(reason: str = "shutdown", *, grace: float | str | None = None) -> list[StopAnswer]:
    """Stop every turn and begin no more (``ShuttingDown``); for a server that got SIGTERM. Never blocks."""
    _check_stop(soft=False, kill=False, grace=grace, wait=None)
    registry.shut(reason)
    return stop_all(reason, cause="shutdown", grace=grace)
