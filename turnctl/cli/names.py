"""How a person names a turn: its id or the beginning of it, ``@`` for the newest, ``session:NAME``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.cli.codes import Code
from turnctl.cli.problems import Problem

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glance, Glances

__all__ = ["EFFECTS_HINT", "LEAST", "check", "find"]

#: letters that the beginning of an id needs
LEAST = 3
#: and more than this is no name
MOST = 1000
_SHOWN = 5
EFFECTS_HINT = "turnctl effects -a lists those that are on record"
_HINT = "turnctl ps -a lists those that are on record"


def find(glances: Glances, name: str) -> Glance:
    """The one turn that ``name`` means.

    ``@`` is the newest, ``@2`` the one before, ``session:NAME`` the one that alone runs there; else it is an id, the
    beginning of one that fits no other, or the id of the incarnation that it worked on. Raises ``Problem`` where there
    is none, or several.
    """
    check(name)
    if name.startswith("@"):
        return _newest(glances, name)
    if name.startswith("session:"):
        return _running_in(glances, name.removeprefix("session:"))
    found = glances.named(name, _SHOWN + 1) or glances.of_incarnation(name)[:1]
    if len(name) < LEAST and name not in (one.turn_id for one in found):
        text = f"{name!r} is too short: the beginning of an id needs {LEAST} letters"
        raise Problem("bad_name", text, _HINT, Code.USAGE)
    if not found:
        raise Problem("no_such_turn", f"there is no turn {name}", _HINT, Code.NO_SUCH)
    if len(found) > 1:
        text = f"{name} fits several turns: {_several(found)}"
        raise Problem("ambiguous", text, "give more of its letters", Code.NO_SUCH)
    return found[0]


_FORMS = "give an id or the beginning of one, @ for the newest, @2 for the one before, or session:NAME"


def _several(found: list[Glance]) -> str:
    return ", ".join(one.turn_id for one in found[:_SHOWN]) + (" and more" if len(found) > _SHOWN else "")


def check(name: str, *, is_effect: bool = False) -> None:
    """Refuse what can be no name, so that it can be told in a line; but for sessions, whose names are a program's."""
    what, hint = ("an effect", EFFECTS_HINT) if is_effect else ("a turn", _FORMS)
    if len(name) > MOST:  # more than a line of stderr takes
        raise Problem("bad_name", f"{name[:40] + '...'!r} is no name of {what}: it is too long", hint, Code.USAGE)
    if name == "session:" and not is_effect:
        raise Problem("bad_name", "'session:' names no session; is a variable in it not set?", hint, Code.USAGE)
    if not name or not (name.isprintable() or (name.startswith("session:") and not is_effect)):
        raise Problem("bad_name", f"{name!r} is no name of {what}", hint, Code.USAGE)


def _newest(glances: Glances, name: str) -> Glance:
    number = name[1:] or "1"
    if not (number.isascii() and number.isdigit() and int(number) > 0):
        raise Problem("bad_name", f"{name!r} is no name of a turn", _FORMS, Code.USAGE)
    found = glances.newest(int(number))
    if found is None:
        few = "no turn is on record" if number == "1" else f"fewer than {number} turns are on record"
        raise Problem("no_such_turn", few, _HINT, Code.NO_SUCH)
    return found


def _running_in(glances: Glances, session: str) -> Glance:
    found = [one for one in glances.open(session=session) if one.lost is None]
    if not found:
        raise Problem(
            "no_such_turn",
            f"no turn runs in session {session!r}",
            "turnctl ps shows what runs, and where; turnctl ps -a -s NAME what ran in a session",
            Code.NO_SUCH,
        )
    if len(found) > 1:
        text = f"{_several(found)} run in session {session!r}"
        raise Problem("ambiguous", text, "name one of them by its id", Code.NO_SUCH)
    return found[0]
