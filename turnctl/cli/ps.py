"""``turnctl ps``: which turns run, and which there were."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured, paint_state
from turnctl.cli.common import SessionWanted, Whole
from turnctl.cli.duration import Duration
from turnctl.cli.opened import glances, tell_of_none
from turnctl.cli.showing import LEAST_SHOWN, Moment, State, colour_option, effects_cell, format_of, line_of, time_option
from turnctl.cli.stdout import is_terminal, put, put_document, put_line, width
from turnctl.cli.table import lines
from turnctl.cli.times import TimeFormat, ago, shown
from turnctl.clock import parse_duration, wall
from turnctl.errors import StoreMissing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnctl.ledger.glance import Glance, Glances

__all__ = ["ps"]

SCHEMA = "turnctl.turns/1"


@click.command(
    cls=Answering,
    short_help="Show which turns run, or all that are on record.",
    examples=[
        ("turnctl ps", "what runs now"),
        ("turnctl ps -a -n 10", "the ten newest, whatever became of them"),
        ("turnctl ps -a --state failed --since 2h", "what failed in the last two hours"),
        ("turnctl ps -q", "ids alone, for another command"),
        ("turnctl ps -a --jsonl", "a JSON object for each"),
        ("turnctl ps --watch 2s", "again and again; in a pipe only what has changed"),
    ],
    tables=[
        (
            "Columns",
            [
                ("STATE", "what is known of it; lost is said only on a proof that its process is gone"),
                ("PROCS", "processes of it that are on record as started and not as ended"),
                ("EFFECTS", "effects that were told of, and after a plus those whose outcome nobody has told: 2+1?"),
            ],
        ),
        (
            "Exit status",
            [
                ("0", "the list is whole, if it is empty or not"),
                ("2, 5", "wrong use; the state directory cannot be used"),
            ],
        ),
    ],
)
@click.option("-a", "--all", "is_all", is_flag=True, help="Also those that have told their end; lost ones never do.")
@click.option("-s", "--session", type=SessionWanted(), metavar="NAME", help="Only those of this session.")
@click.option(
    "--state", "states", multiple=True, type=State(), metavar="STATE", help="Only those in this state; repeatable."
)
@click.option("--since", type=Moment(), help="Only those that began since then: 42m, or a time of RFC 3339.")
@click.option("-n", "--number", type=Whole(min=1), metavar="N", help="Only the N newest.")
@click.option("--no-trunc", is_flag=True, help="Cut nothing to the width of the terminal.")
@click.option(
    "--watch",
    type=Duration(),
    metavar="DUR",
    help="Look again, so far apart. Elsewhere than on a terminal, only what has changed is shown.",
)
@time_option()
@colour_option()
@answering(lines=True)
def ps(
    is_all: bool,
    session: str | None,
    states: tuple[str, ...],
    since: str | None,
    number: int | None,
    no_trunc: bool,
    watch: str | None,
    time_format: TimeFormat | None,
    color: Colour,
    as_json: bool,
    as_lines: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if as_json and watch is not None:
        raise click.UsageError("--json is one document; with --watch give --jsonl")
    wanted = _Wanted(is_all, session, frozenset(states), None if since is None else float(since), number)
    shows = _Shows(time_format, color, no_trunc=no_trunc, as_lines=as_lines, as_ids=quiet > 0 and not as_json)
    look = partial(_look, state_dir, wanted, quiet, shorten=not no_trunc and is_terminal())
    if watch is not None:
        from turnctl.cli.watching import watch_list

        return watch_list(shows, look, state_dir, parse_duration(watch, what="--watch") or 1.0)
    found = look()
    if as_json:
        put_document({"schema": SCHEMA, "turns": [line_of(one) for _, one in found]})
    else:
        shows.put(found)
    return Code.OK


class _Shows:
    """How turns are written where not as one document."""

    def __init__(
        self, time_format: TimeFormat | None, color: Colour, *, no_trunc: bool, as_lines: bool, as_ids: bool
    ) -> None:
        self._time_format = time_format
        self._color = color
        self._no_trunc = no_trunc
        self._as_lines = as_lines
        self._as_ids = as_ids

    @property
    def is_table(self) -> bool:
        """Whether it has columns."""
        return not (self._as_lines or self._as_ids)

    def put(self, found: Sequence[tuple[str, Glance]], *, has_header: bool = True) -> None:
        """All of these."""
        if self._as_lines:
            for _, one in found:
                put_line(line_of(one))
        elif self._as_ids:
            put("".join(f"{one.turn_id}\n" for _, one in found))
        else:
            lines = self.table(found)
            put("".join(f"{line}\n" for line in (lines if has_header else lines[1:])))

    def table(self, found: Sequence[tuple[str, Glance]]) -> list[str]:
        """The lines of a table, the headers first."""
        return _table(found, self._time_format, self._color, None if self._no_trunc else width())


class _Wanted:
    """Which turns are asked for."""

    def __init__(
        self, is_all: bool, session: str | None, states: frozenset[str], since: float | None, number: int | None
    ) -> None:
        self._is_all = is_all
        self._session = session
        self._states = states
        self._since = since
        self._number = number

    def of(self, there: Glances) -> Iterator[Glance]:
        """Those, the newest first."""
        if self._is_all:
            found = there.all(session=self._session, since=self._since)
        else:
            found = (one for one in there.open(session=self._session) if one.begun_at >= (self._since or 0.0))
        if self._states:
            found = (one for one in found if one.state in self._states)
        return islice(found, self._number)


def _look(state_dir: str | None, wanted: _Wanted, quiet: int, *, shorten: bool) -> list[tuple[str, Glance]]:
    """Them with the id to show. No ledger is no turns."""
    try:
        with glances(state_dir) as there:
            return [
                (there.shortest(one.turn_id, LEAST_SHOWN) if shorten else one.turn_id, one) for one in wanted.of(there)
            ]
    except StoreMissing:
        if not quiet:
            tell_of_none(state_dir)
        return []


def _table(
    found: Sequence[tuple[str, Glance]], time_format: TimeFormat | None, color: Colour, columns: int | None
) -> list[str]:
    now = wall()
    how = format_of(time_format)
    rows = [
        (
            name,
            one.session or "-",
            one.state,
            ago(now - one.begun_at) if how == "relative" else shown(one.begun_at, how, now),
            str(one.processes),
            effects_cell(one),
            one.title,
        )
        for name, one in found
    ]
    headers = ("ID", "SESSION", "STATE", "AGE" if how == "relative" else "BEGAN", "PROCS", "EFFECTS", "COMMAND")
    paint: Any = (lambda n, cell, text: paint_state(cell, text) if n == 2 else text) if is_coloured(color) else None
    return lines(headers, rows, width=columns, paint=paint)
