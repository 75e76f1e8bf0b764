"""``turnctl top``: the turns that run and their processes, live on a terminal."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, Literal

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured
from turnctl.cli.common import SessionWanted
from turnctl.cli.duration import Duration
from turnctl.cli.ending import Ending
from turnctl.cli.opened import glances
from turnctl.cli.problems import Problem
from turnctl.cli.showing import LEAST_SHOWN, colour_option, effects_cell, line_of
from turnctl.cli.stdout import put, put_document
from turnctl.cli.times import ago
from turnctl.clock import parse_duration, wall
from turnctl.errors import StoreMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.cli.frames import Cell, Frame
    from turnctl.cli.trees import Node
    from turnctl.ledger.glance import Glance

__all__ = ["top"]

SCHEMA = "turnctl.top/1"
Sort = Literal["age", "procs", "effects"]
#: columns that a command needs to be told from another, and what is left out for it, in this order
_LEAST_COMMAND = 24
_LEFT_OUT = ("SESSION", "EFFECTS", "PROCS")


@click.command(
    cls=Answering,
    short_help="Show the turns that run and their processes, live.",
    examples=[
        ("turnctl top", "what runs now; q ends it, j and k scroll"),
        ("turnctl top --sort procs --interval 5s", "those with the most processes first"),
        ("turnctl top --once -s build", "one look, at one session"),
        ("turnctl top --json", "one look for a program, on no terminal"),
    ],
    tables=[
        (
            "Columns",
            [
                ("PROCS", "processes of its commands that are seen now, by session, group and descent"),
                ("EFFECTS", "effects that were told of, and after a plus those whose outcome nobody has told: 2+1?"),
            ],
        ),
        (
            "Exit status",
            [
                ("0", "it was shown"),
                ("2", "wrong use, no terminal, or the extra 'live' is missing"),
                ("5", "the state directory cannot be used"),
                ("130", "Ctrl-C"),
            ],
        ),
    ],
    help="Needs a terminal and the extra 'live' (rich). Where the window is too small for all, each turn keeps its own "
    "line before processes do, and what is left out is counted; j, k, the arrows, PgDn, PgUp, g and G go through all "
    "lines. turnctl ps --watch 1s needs neither.",
)
@click.option("-s", "--session", type=SessionWanted(), metavar="NAME", help="Only those of this session.")
@click.option(
    "--sort",
    type=click.Choice(("age", "procs", "effects")),
    default="age",
    show_default=True,
    help="Which stand first: the oldest, those with the most processes, or with the most effects nobody has told of.",
)
@click.option(
    "--interval", type=Duration(), default="1s", show_default=True, metavar="DUR", help="From one look to the next."
)
@click.option("--once", is_flag=True, help="Look once, and end.")
@colour_option()
@answering()
def top(
    session: str | None,
    sort: Sort,
    interval: str,
    once: bool,
    color: Colour,
    as_json: bool,
    state_dir: str | None,
    quiet: int,  # noqa: ARG001 - there is nothing that could be left out
) -> Code | Ending:
    look = _Look(state_dir, session, sort)
    if as_json:
        put_document({"schema": SCHEMA, "turns": [_plain(*one) for one in look()]})
        return Code.OK
    from turnctl.cli.live import can_move, drawn, is_there, size

    if not can_move():
        raise _not_here("a terminal that it can draw on", is_once=once)
    if not is_there():
        raise _not_here("rich, which comes with the extra 'live': pip install 'turnctl[live]'", is_once=once)
    has_colour = is_coloured(color)
    if once:
        columns, _ = size()
        put("\n".join(drawn(look.frame(columns, is_live=False), columns, None, colour=has_colour)) + "\n")
        return Code.OK
    ended_by = _show(look, parse_duration(interval, what="--interval") or 1.0, has_colour=has_colour)
    from turnctl.cli.viewer import last_words

    columns, lines = size()
    with last_words(ended_by):
        put("\n".join(drawn(look.frame(columns, is_live=False), columns, lines - 1, colour=has_colour)) + "\n")
    return Ending.by(ended_by) if ended_by else Code.OK


def _not_here(needs: str, *, is_once: bool) -> Problem:
    hint = "turnctl ps, or turnctl top --json" if is_once else "turnctl ps --watch 1s --jsonl"
    return Problem("no_live_view", f"turnctl top needs {needs}", hint, Code.USAGE)


def _show(look: _Look, seconds: float, *, has_colour: bool) -> int | None:
    """Show it until somebody ends it; the signal that did."""
    from turnctl.cli.live import drawn, size
    from turnctl.cli.viewer import Viewer

    with Viewer(screen=True) as viewer:
        frame, due = None, 0.0
        while True:
            columns, lines = size()
            if frame is None or not viewer.has_scrolled or time.monotonic() >= due:
                frame, due = look.frame(columns, is_live=True), time.monotonic() + seconds
            viewer.draw(drawn(frame, columns, lines, colour=has_colour, scroll=viewer.scroll))
            poll = select.poll()
            for fd in viewer.fds:
                poll.register(fd, select.POLLIN)
            viewer.heed([fd for fd, _ in poll.poll(max(0.0, due - time.monotonic()) * 1000)])
            if viewer.is_over:
                return viewer.ended_by


def _plain(glance: Glance, nodes: Sequence[Node]) -> dict[str, Any]:
    names = ("pid", "ppid", "depth", "name", "command")
    return {"turn": line_of(glance), "processes": [{name: getattr(one, name) for name in names} for one in nodes]}


class _Look:
    """The turns that run, with their processes, each time that it is called."""

    def __init__(self, state_dir: str | None, session: str | None, sort: Sort) -> None:
        self._state_dir = state_dir
        self._session = session
        self._sort = sort
        self._known: set[str] = set()
        #: the shortest name of each
        self._names: dict[str, str] = {}
        #: the turn that ended last while this was looking
        self._ended: Glance | None = None

    def __call__(self) -> list[tuple[Glance, list[Node]]]:
        from turnctl.cli.trees import Trees, commands_of

        try:
            with glances(self._state_dir) as there:
                found = list(there.open(session=self._session))
                commands = [commands_of(there, one.turn_id) for one in found]
                self._names = {one.turn_id: there.shortest(one.turn_id, LEAST_SHOWN) for one in found}
                now = {one.turn_id for one in found}
                for turn_id in sorted(self._known - now):
                    self._ended = next(iter(there.named(turn_id, 1)), self._ended)
                self._known = now
        except StoreMissing:
            return []
        trees = Trees()
        shown = [(one, trees.of(mine)) for one, mine in zip(found, commands, strict=True)]
        return sorted(shown, key=self._place)

    def _place(self, one: tuple[Glance, list[Node]]) -> tuple[float, float]:
        glance, nodes = one
        untold = glance.unresolved + glance.dispositions.get("pending", 0)
        first = {"age": 0, "procs": -len(nodes), "effects": -untold}[self._sort]
        return first, glance.begun_at

    def frame(self, columns: int, *, is_live: bool) -> Frame:
        """What is seen of them on a terminal of that width."""
        from turnctl.cli.frames import Cell, Frame, Group, Row
        from turnctl.cli.watched import tree_rows

        shown = self()
        now = wall()
        count = sum(len(nodes) for _, nodes in shown)
        title = f"{_many(len(shown), 'turn')}, {_many(count, 'process', 'processes')}"
        clock = "" if not is_live else f"   {_clock()}"
        head = [Row((Cell(f"turnctl top   {title}{clock}", "title"),))]
        rows = [self._cells(one, len(nodes), now) for one, nodes in shown]
        names = _columns(rows, columns)
        if shown:
            head.append(Row(tuple(Cell(name, "head") for name in names), has_columns=True))
        groups = [
            Group(Row(tuple(cells[name] for name in names), has_columns=True), tuple(tree_rows(nodes)))
            for cells, (_, nodes) in zip(rows, shown, strict=True)
        ]
        if not groups:
            where = f" in session {self._session}" if self._session else ""
            groups = [Group(Row((Cell(f"no turn runs{where}"),)))]
        foot = [Row((Cell(self._footer(is_live=is_live), "quiet"),))] if is_live else []
        return Frame(tuple(head), tuple(groups), tuple(foot), ("turn", "turns"))

    def _cells(self, glance: Glance, count: int, now: float) -> dict[str, Cell]:
        from turnctl.cli.frames import Cell, state_cell

        return {
            "ID": Cell(self._names.get(glance.turn_id, glance.turn_id), "strong"),
            "STATE": state_cell(glance.state),
            "AGE": Cell(ago(now - glance.begun_at)),
            "PROCS": Cell(str(count)),
            "EFFECTS": Cell(effects_cell(glance)),
            "SESSION": Cell(glance.session or "-"),
            "COMMAND": Cell(glance.title),
        }

    def _footer(self, *, is_live: bool) -> str:
        last = "" if self._ended is None else f"   ended: {self._ended.turn_id} {self._ended.state}"
        return f"q ends{last}" if is_live else last.strip()


def _columns(rows: list[dict[str, Cell]], columns: int) -> list[str]:
    """The columns that find room beside a command that can still be read."""
    names = ["ID", "STATE", "AGE", "PROCS", "EFFECTS", "SESSION", "COMMAND"]
    wide = {name: max([len(name), *(len(row[name].text) for row in rows)]) + 2 for name in names[:-1]}
    left_out = iter(_LEFT_OUT)
    if all(row["SESSION"].text == "-" for row in rows):
        names.remove(next(left_out))
    while sum(wide[name] for name in names[:-1]) + _LEAST_COMMAND > columns:
        name = next(left_out, None)
        if name is None:
            break
        names.remove(name)
    return names


def _many(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _clock() -> str:
    from datetime import datetime

    return datetime.fromtimestamp(wall()).astimezone().strftime("%H:%M:%S")
