"""The ledger of the state directory, for commands that only look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnctl.cli.codes import Code
from turnctl.cli.names import check, find
from turnctl.cli.problems import Problem
from turnctl.cli.talk import explain, note, say, warn
from turnctl.errors import StoreMissing
from turnctl.ledger.glance import Glances
from turnctl.ledger.whereabouts import default_file

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glance

__all__ = ["found_turn", "glances", "no_turns", "opened", "tell_of_none", "tell_once"]

_told: list[str] = []


def glances(state_dir: str | None) -> Glances:
    """The turns on record there. Raises ``StoreMissing`` where there is no ledger yet, ``StoreError`` where it cannot
    be used; one that is not all there is told on stderr."""
    there = Glances(default_file(state_dir))
    explain(f"reads {default_file(state_dir)}")
    if there.still is not None:
        tell_once(there.still.words)
    if there.doubt is not None:
        warn(f"{there.doubt}; turnctl ledger verify tells more")
    return there


def tell_once(text: str) -> None:
    """Say what holds for all that is read there; once."""
    if text not in _told:  # who watches reads it again and again
        _told.append(text)
        note(text)


def opened(state_dir: str | None) -> Glances | None:
    """The same; None where there is no ledger yet."""
    try:
        return glances(state_dir)
    except StoreMissing:
        return None


def no_turns(state_dir: str | None, name: str, *, is_effect: bool = False) -> Problem:
    """Why there is no turn, or effect, of that name where there is no ledger. Raises ``Problem`` where it is no name
    at all."""
    check(name, is_effect=is_effect)
    name = repr(name) if not name.isprintable() else name
    what = "effect" if is_effect else "turn"
    message = f"there is no {what} {name}: none is on record in {os.path.dirname(default_file(state_dir))}"
    hint = "turnctl run records what it runs; TURNCTL_STATE_DIR, or --state-dir, names another directory"
    return Problem(f"no_such_{what}", message, hint, Code.NO_SUCH)


def tell_of_none(state_dir: str | None) -> None:
    """Say where it is that nothing is on record, for a list that is empty for want of a ledger."""
    say(f"no turn is on record in {os.path.dirname(default_file(state_dir))}")


def found_turn(state_dir: str | None, name: str) -> Glance:
    """The turn that ``name`` means there. Raises ``Problem`` where there is none, or several."""
    there = opened(state_dir)
    if there is None:
        raise no_turns(state_dir, name)
    with there:
        return find(there, name)
