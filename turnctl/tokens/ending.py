"""How a turn ends: what leaves the body decides, then everything that is left is ended and accounted for.

The order, which nothing may change:
  1  decide the outcome and retire the token (one step)
  2  close admission
  3  end what is left: ask all of it, then wait for each within the grace, then kill
  4  let the bridge go, and wait for it within bounds
  5  give up the session and the id, say that the turn is over, make the report

An exception that strikes in 3 or 4 (a second Ctrl-C under Python's own handler) spends the rest of the grace and is
raised after 5: the steps are never left out.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.clock import monotonic
from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens.entries import new_stop
from turnctl.tokens.nesting import hurrying_with_the_outer

if TYPE_CHECKING:
    from turnctl.records.stops import Outcome
    from turnctl.tokens.turn import TurnCore

__all__ = ["Verdict", "finish", "judge"]

_BRIDGE_WAIT_S = 1.0
_STRIKES = 5  # how many exceptions that strike in the end are put off until it is through
_REST_S = 10.0  # more than a ladder takes to give up after the grace


class Verdict:
    """What an exception that leaves the body means: the outcome, and what passes out of the ``with``."""

    __slots__ = ("absorb", "outcome", "passes")

    def __init__(self, outcome: Outcome, *, absorb: bool, passes: BaseException | None = None) -> None:
        self.outcome = outcome
        self.absorb = absorb
        self.passes = passes


def judge(turn: TurnCore, error: BaseException | None) -> Verdict:
    """Decide by the table of ``docs/guarantees.md``; records the stop that the exception itself is."""
    token = turn.token
    if error is None:
        return Verdict("completed", absorb=False)
    if _is_own(turn, error):
        return Verdict("cancelled", absorb=True)
    if isinstance(error, BaseExceptionGroup):
        own, rest = error.split(lambda e: _is_own(turn, e))
        if rest is None:
            return Verdict("cancelled", absorb=True)
        return Verdict("failed", absorb=False, passes=rest if own is not None else None)
    if isinstance(error, KeyboardInterrupt):
        token._enter(new_stop("KeyboardInterrupt", None, "signal", "cancel", None, turn.turn_id))
        return Verdict("cancelled", absorb=False)
    if isinstance(error, GeneratorExit):
        token._enter(new_stop("generator closed", None, "closed", "cancel", None, turn.turn_id))
        return Verdict("cancelled", absorb=False)
    if isinstance(error, SystemExit):
        return Verdict("completed" if error.code in (0, None) else "failed", absorb=False)
    if token.stopping and not isinstance(error, CancelledError):
        turn.notes.append(f"raised while stopping: {described(error)}")
    return Verdict("failed", absorb=False)


def _is_own(turn: TurnCore, error: BaseException) -> bool:
    if not isinstance(error, CancelledError) or not turn.token.cancelled:
        return False
    # a token of the turn's own tree, but not of a turn nested in it: that one answers for itself
    from turnctl.tokens.token import CancelToken, TurnToken

    token = error.token
    found = [token] if isinstance(token, CancelToken) else []
    for one in found:
        if one is turn.token:
            return True
        if not isinstance(one, TurnToken):
            parent = one._parent
            found.extend(p for p in (parent if isinstance(parent, tuple) else (parent,)) if p is not None)  # type: ignore[misc]
    return False


def finish(turn: TurnCore, proposed: Outcome) -> bool:
    """Take the turn through the five steps; whether this call decided the outcome.

    Blocks at most for the grace and the bounds of what it owns.

    Called again it waits for the first call, within the same bounds; in a forked child it does nothing.
    """
    if turn.is_over:
        return False
    me = threading.current_thread()  # not its ident: a later thread may get the ident of one that is dead
    if me not in turn._enders:
        turn._enders.append(me)
    if turn._enders[0] is not me:  # the list decides between threads; the one that began goes on after a strike
        turn._over.wait(turn.grace_s + _REST_S)
        return False
    if turn._is_finishing:
        return False  # from a callback or a handler, inside the very end that it asks for
    struck: BaseException | None = None
    decided = False
    for _ in range(_STRIKES):
        try:
            turn._is_finishing = True
            decided = _go_through(turn, proposed) or decided
        except BaseException as error:  # noqa: BLE001 - raised when the turn is over
            # most likely a Ctrl-C: no more grace, and the steps are gone through again
            struck = struck or error
            _spend_the_grace(turn, error)
        finally:
            turn._is_finishing = False
        if turn._over.is_set():
            break
    else:
        # struck at every try: others must not wait for it for ever, and its report names what is left
        turn.token._retire(proposed)
        turn.activities.close_admission()
        _close_activities(turn)
        turn._leave()
    if struck is not None:
        raise struck
    return decided


def _go_through(turn: TurnCore, proposed: Outcome) -> bool:
    """The five steps; each may be done again after an exception struck in it."""
    decided, struck = _decide(turn, proposed)
    if turn.activities.is_used:
        with hurrying_with_the_outer(turn):
            struck = _end_what_is_left(turn) or struck
    # a stopped turn serves callbacks until here, so it has a bridge that says so from now on
    bridge = turn.bridge if turn.token.cancelled else turn._bridge
    if bridge is not None:
        bridge.finish(_BRIDGE_WAIT_S)
    if turn._ruling is not None:
        trouble = turn._ruling.leaving()  # also where its outcome could not be told: nothing may go on listening
        struck = struck or trouble
    points.reach("turn.end.leaving")
    _close_place(turn)
    turn._leave()
    if struck is not None:
        raise struck
    return decided


def _decide(turn: TurnCore, proposed: Outcome) -> tuple[bool, BaseException | None]:
    """Steps 1 and 2; whether this call decided, and what went wrong in telling the ledger."""
    token, ruling = turn.token, turn._ruling
    trouble: BaseException | None = None
    adopted = turn._adopted
    if adopted is not None and adopted.event.is_set() and not token.cancelled:
        adopted.release()  # set before the end, so it counts, even if the bell was not yet heard
    if ruling is not None and not token.retired:
        ruling.deciding()
    points.reach("turn.end.deciding")
    decided = token._retire(proposed)
    if ruling is not None:
        points.reach("turn.end.ruling")
        trouble = ruling.decided()
    if not turn._ending:
        turn._decided_at = monotonic()
    turn._ending = True
    points.reach("turn.end.decided")
    turn.activities.close_admission()
    return decided, trouble


def _end_what_is_left(turn: TurnCore) -> BaseException | None:
    struck: BaseException | None = None

    def kill_at() -> float:
        at = turn.kill_at()
        return monotonic() if at is None else at

    open_now = [a for a in turn.activities.all() if a.is_open]
    for activity in open_now:
        if activity.owned is not None:
            try:
                activity.owned.ask()
            except BaseException as error:  # noqa: BLE001 - raised after the last step; ``end`` asks again
                struck = struck or error
    for activity in open_now:
        if activity.owned is None:
            continue
        for _ in range(3):
            try:
                activity.owned.end(kill_at)
                break
            except BaseException as error:  # noqa: BLE001 - raised after the last step
                # most likely a second Ctrl-C: the grace is spent, the rest is still ended
                struck = struck or error
                _spend_the_grace(turn, error)
    _close_activities(turn)
    return struck


def _spend_the_grace(turn: TurnCore, error: BaseException) -> None:
    turn._hurry.append(new_stop(type(error).__name__, None, "signal", "kill", None, turn.turn_id))


def _close_activities(turn: TurnCore) -> None:
    """Give every activity an end, each the one that was observed."""
    for activity in turn.activities.all():
        if activity.owned is not None and activity.owned.alive():
            activity.close_here("abandoned", "still there when the turn was over")
        elif activity.owned is not None:
            activity.close_here("cancelled", "ended with the turn")
        else:
            activity.close_here("unknown", "its end was not reported before the turn was over")


def _close_place(turn: TurnCore) -> None:
    """Tell the parent's inventory how this turn ended."""
    if turn._place is not None:
        outcome = turn.token.outcome
        if outcome == "superseded":
            turn._place.close("unknown", "superseded: its session went to another turn while it ran")
        else:
            turn._place.close(outcome or "unknown")
