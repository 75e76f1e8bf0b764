"""The pause: checkpoints of a paused turn block until it is resumed; a stop wakes them directly.

Invariants
  Z1  A pause stores its mark, *then* raises ``_due`` in the tree below. A child is put on its parent's list, *then*
      reads the parent's ``_due``. So a checkpoint below a paused token takes the long way, and finds the mark there.
  Z2  ``_due`` never goes back: a turn that was paused once takes the long way to its end (measured in
      ``docs/performance.md``). Taking it back could hide a stop that is stored at the same moment.
  Z3  Who blocks is on the waiter lists of its own token and of every paused one above it, and *then* reads the marks;
      ``resume`` takes the mark away, *then* releases the list.

May block: ``wait_while_paused`` only. A shield holds a pause back as it does a stop: clean-up goes on. A deadline
goes on running while its turn is paused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl import clock, points
from turnctl.errors import TurnOver
from turnctl.tokens import registry
from turnctl.tokens.entries import read
from turnctl.tokens.event import park, release_all
from turnctl.tokens.leaving import has_to_leave
from turnctl.tokens.shielding import is_shielded
from turnctl.tokens.tree import all_above, all_below

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = [
    "all_paused",
    "is_paused",
    "pause",
    "pause_all",
    "pause_if_all_are",
    "pauses_in_words",
    "resume",
    "resume_all",
    "wait_while_paused",
]

_ONE, _ALL = "paused", "paused with all"
#: holds one entry while the whole process is paused
all_paused: list[object] = []


def _marks(token: TokenCore) -> bool:
    parts = token._parts_now()
    if parts is None or (_ONE not in parts.cells and _ALL not in parts.cells):
        return False
    return read(token._log)[3] is None


def is_paused(token: TokenCore) -> bool:
    """Whether ``token``, or one that it follows, is paused and not stopped or ended."""
    # a soft stop ends it too: the step in hand cannot be finished by a thread that is held
    return read(token._log)[0] is None and any(_marks(one) for one in all_above(token))


def pause(turn: TurnCore, *, how: str = _ONE) -> bool:
    """Have checkpoints of the turn block; True if this call paused it. Raises ``TurnOver`` once it has ended."""
    token = turn.token
    if token.outcome is not None:
        raise TurnOver(f"turn {turn.turn_id} has ended ({token.outcome}) and cannot be paused", turn_id=turn.turn_id)
    mine = object()
    won = token._grow().cells.setdefault(how, mine) is mine
    points.reach("turn.pause.marked")
    for one in all_below(token):
        one._due = True  # Z1
    if won:
        _note(token, paused=True)
    return won and read(token._log)[0] is None


def _note(token: TokenCore, *, paused: bool) -> None:
    token._grow().cells.setdefault("pauses", []).append((paused, clock.monotonic()))


def pauses_in_words(token: TokenCore, now: float) -> str | None:
    """How often and how long the token was paused, for a report; None if it never was."""
    parts = token._parts_now()
    marks: list[tuple[bool, float]] = [] if parts is None else list(parts.cells.get("pauses", ()))
    if not marks:
        return None
    total, depth, since = 0.0, 0, 0.0
    for paused, at in marks:
        if paused and depth == 0:
            since = at
        elif not paused and depth == 1:
            total += at - since
        depth += 1 if paused else -1
    if depth > 0:
        total += now - since
    times = sum(paused for paused, _ in marks)
    return f"paused {'once' if times == 1 else f'{times} times'}, for {clock.format_duration(total)} in all"


def resume(turn: TurnCore, *, how: str = _ONE) -> bool:
    """Let a paused turn go on; True if this call did. Never blocks."""
    parts = turn.token._grow()
    if parts.cells.pop(how, None) is None:
        return False
    points.reach("turn.resume.unmarked")
    _note(turn.token, paused=False)
    release_all(parts.waiters)  # Z3
    return True


def pause_all() -> list[str]:
    """Pause every turn of the process, and each that begins later; the ids of those that this call paused."""
    if not all_paused:
        all_paused.append(object())
    return [turn.turn_id for turn in registry.all_turns() if pause_if_all_are(turn)]


def pause_if_all_are(turn: TurnCore) -> bool:
    """Pause a turn that begins, or that is found, while the process is paused."""
    if not all_paused:
        return False
    try:
        done = pause(turn, how=_ALL)
    except TurnOver:
        return False  # it ended in between
    if not all_paused:  # then read the mark: ``resume_all`` may not have seen this turn
        resume(turn, how=_ALL)
        return False
    return done


def resume_all() -> list[str]:
    """Undo ``pause_all``; the ids of the turns that go on. A turn that was paused by itself stays paused."""
    all_paused.clear()
    found = [turn for turn in registry.all_turns() if turn._token is not None]
    return [turn.turn_id for turn in found if resume(turn, how=_ALL) and not is_paused(turn.token)]


def wait_while_paused(token: CancelToken) -> None:
    """Block while ``token`` is paused; comes back at once when it is stopped, or has to leave. Raises nothing."""
    while is_paused(token) and not is_shielded(token) and not has_to_leave(token):
        lists = [one._grow().waiters for one in all_above(token)]
        park(lambda: not is_paused(token) or has_to_leave(token), None, *lists)
