"""What fits a place: words of commands and options, and what is on record in the state directory, which is only read.

What a value is, is told by its type, or by the word that stands for it in the help: TURN, EFFECT, NAME of a session,
DIR, FILE. So a command that uses these words is completed without being known here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from turnctl.cli.completing.words import Place
from turnctl.cli.pages.reading import commands_of, context_of

if TYPE_CHECKING:
    from pathlib import Path

    from turnctl.ledger.glance import Glance, Glances

__all__ = ["MOST", "Found", "found_for"]

T = TypeVar("T")

#: so many are shown of what is on record; who needs another writes more of it
MOST = 50
_LONGEST = 60


class Found(NamedTuple):
    """What fits: words with what they mean; or ``kind`` says that the shell itself knows (files, folders)."""

    words: list[tuple[str, str]]
    kind: str = "words"


def found_for(place: Place) -> Found:
    """What fits there."""
    if place.inner is not None:
        return Found([], f"command {place.inner}")
    if place.param is not None:
        found = _of_value(place, place.param)
        if found is not None:
            return found
        if isinstance(place.param, click.Option):
            return Found([])  # whatever it is, it is no option
    if isinstance(place.command, click.Group) and not place.start.startswith("-"):
        return Found(_fitting(place, _commands(place.command, place.name)))
    return Found([] if place.is_ended else _fitting(place, _options(place.command)))


def _fitting(place: Place, words: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(word, what) for word, what in words if word.startswith(place.start)]


def _commands(command: click.Command, name: str) -> list[tuple[str, str]]:
    return list(commands_of(command, context_of(command, name)))


def _options(command: click.Command) -> list[tuple[str, str]]:
    ctx = context_of(command, command.name or "")
    params = [one for one in command.get_params(ctx) if isinstance(one, click.Option) and not one.hidden]
    return [
        (name, one.help or "")
        for one in params
        for name in [*one.opts, *one.secondary_opts]
        if name.startswith("--") or len(one.opts) == 1
    ]


def _of_value(place: Place, param: click.Parameter) -> Found | None:
    if isinstance(param.type, click.Choice):
        return Found([(f"{place.before}{one}", "") for one in param.type.choices if str(one).startswith(place.start)])
    name = param.type.name if isinstance(param, click.Option) else param.name
    word = (param.metavar or name or "").upper()
    if word == "NAME" and param.name != "session":
        return None
    marks = list(dict.fromkeys(re.findall(r"[A-Z]+", word)))
    if "TURN" in marks and "EFFECT" in marks:
        marks.remove("EFFECT")  # turnctl effects [TURN | show EFFECT]: what is meant is said by the word before
    for mark in marks:
        if mark in _FILES:
            return Found([], _FILES[mark])
    made = [_KINDS[mark] for mark in marks if mark in _KINDS]
    if not made:
        return None
    found = [one for make in made for one in make(place) if one[0].startswith(place.start) and one[0].isprintable()]
    return Found([(place.before + value, _one_line(what)) for value, what in found[: 2 * MOST]])


def _one_line(text: str) -> str:
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


# -- from the state directory ----------------------------------------------------------------------------------------


def _ledger(place: Place) -> Path:
    """Where it is: as given before the cursor, or by a variable, or as the settings say."""
    from turnctl.ledger.whereabouts import STATE_DIR, default_path

    given = place.given.get("state_dir")
    if not given and not os.environ.get(STATE_DIR):
        from turnctl.cli.settings.taking import state_dir_of

        given = state_dir_of(place.given)
    return default_path(given)


def _turns(place: Place) -> Iterator[tuple[str, str]]:
    from turnctl.ledger.glance import Glances

    start, is_stop = place.start, place.name == "turnctl stop"
    with Glances(_ledger(place)) as there:
        if start.startswith("session:") or "session:".startswith(start):
            running = {f"session:{one.session}": one.title for one in there.open() if one.session and one.lost is None}
            yield from islice(((name, title) for name, title in running.items() if name.startswith(start)), MOST)
        if start.startswith("session:"):
            return
        if start.startswith("@") or not start:
            for n in range(1, 10 if start else 2):
                newest = there.newest(n)
                if newest is not None and not (is_stop and newest.is_over):
                    yield f"@{n if n > 1 else ''}", f"{newest.turn_id}  {newest.state}  {newest.title}"
            if start:
                return
        for one in _some(_beginning(there, start, is_stop=is_stop)):
            yield one.turn_id, f"{one.state}  {one.title}"
    if place.name == "turnctl effects":
        yield "show", "one effect, with its receipts and its history"


def _beginning(there: Glances, start: str, *, is_stop: bool) -> Iterator[Glance]:
    """The turns whose id begins so, the newest first; for a stop those that run."""
    if is_stop:
        return (one for one in there.open() if one.turn_id.startswith(start) and one.lost is None)
    return iter(there.named(start, MOST)) if start else there.all()


def _some(found: Iterator[T]) -> list[T]:
    """At most so many of them; the rest is let go of at once, while the ledger is still open."""
    return list(islice(found, MOST))


def _sessions(place: Place) -> Iterator[tuple[str, str]]:
    from turnctl.ledger.glance import Glances

    with Glances(_ledger(place)) as there:
        if place.name == "turnctl ps":
            names = {one.session: one.title for one in _some(there.all()) if one.session}
        else:
            names = {one.session: one.title for one in there.open() if one.session and one.lost is None}
    yield from names.items()


def _effects(place: Place) -> Iterator[tuple[str, str]]:
    from turnctl.ledger.effects_glance import effects
    from turnctl.ledger.glance import Glances

    is_open = place.name == "turnctl reconcile"
    begins = {"start": place.start} if place.start else {}
    with Glances(_ledger(place)) as there:
        found = _some(one for one in effects(there, **begins) if one.is_unresolved or not is_open)
    for one in found:
        yield one.effect_id, f"{one.disposition}  {one.kind} {one.key}"


def _turns_or_effects(place: Place) -> Iterator[tuple[str, str]]:
    return _effects(place) if place.operands[:1] == ("show",) else _turns(place)


# -- from the code -------------------------------------------------------------------------------------------------


def _states(_place: Place) -> Iterator[tuple[str, str]]:
    from turnctl.records.states import STATES

    for word in STATES:  # as the option takes them too, so that nothing has to be quoted
        yield word.replace(",", "").replace(" ", "_"), ""


def _signals(_place: Place) -> Iterator[tuple[str, str]]:
    from signal import Signals

    for name in Signals.__members__:
        yield name.removeprefix("SIG"), ""


def _helped(place: Place) -> Iterator[tuple[str, str]]:
    from turnctl.cli.pages.tree import found
    from turnctl.cli.topics import TOPICS

    command, name = found(place.operands)
    yield from _commands(command, name)
    if not place.operands:
        yield from TOPICS.items()


_KINDS: dict[str, Callable[[Place], Iterator[tuple[str, str]]]] = {
    "EFFECT": _effects,
    "ID": _effects,
    "NAME": _sessions,
    "POLICY": lambda _: iter((("end", "end them"), ("wait", "wait for them"))),
    "SIG": _signals,
    "STATE": _states,
    "TOPIC": _helped,
    "TURN": _turns_or_effects,
    "TURNS": _turns,
}
_FILES = {"DIR": "folders", "FILE": "files", "PATH": "files"}
