"""``turnctl watch``: one turn until it has stopped, live on a terminal and a line for each change elsewhere."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, Literal

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.colour import Colour, is_coloured
from turnctl.cli.duration import Duration
from turnctl.cli.ending import Ending
from turnctl.cli.names import find
from turnctl.cli.opened import found_turn, glances
from turnctl.cli.problems import Problem
from turnctl.cli.showing import code_of, colour_option, effects_cell, line_of, precise
from turnctl.cli.state import CODES
from turnctl.cli.stdout import put, put_document, put_line
from turnctl.cli.talk import say
from turnctl.clock import parse_duration, wall
from turnctl.ledger.whereabouts import default_path
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.cli.frames import Frame
    from turnctl.cli.scrolling import Scroll
    from turnctl.ledger.glance import Glance

__all__ = ["watch"]

SCHEMA = "turnctl.change/1"
Until = Literal["stopped", "settled"]


@click.command(
    cls=Answering,
    short_help="Watch a turn until it has stopped; how it ended is the exit status.",
    examples=[
        ("turnctl watch @", "the newest turn, until it is over"),
        ("turnctl watch session:build && deploy", "go on only if it has completed"),
        (
            "turnctl watch --until settled --timeout 10m t2nn3c",
            "until it is known what got out, for ten minutes at most",
        ),
        ("turnctl watch --jsonl @", "an object of JSON for each change"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "it has completed"),
                *CODES[1:],
                ("6", "the time has passed, and it is not so yet"),
                ("130", "Ctrl-C, or q: the watching was ended"),
            ],
        )
    ],
    help="Watching changes nothing: Ctrl-C ends the watching, and the turn goes on. A turn has stopped when it has "
    "told its end, or its program is proven to be gone; it is settled when nothing that it sent is unknown besides.\n\n"
    "On a terminal, and with the extra 'live', it is a view of its own screen, which q ends as well; its last state "
    "stays. Elsewhere each change is a line.",
)
@click.argument("turn")
@click.option(
    "--until", type=click.Choice(("stopped", "settled")), default="stopped", show_default=True, help="What to wait for."
)
@click.option(
    "--interval",
    type=Duration(),
    default="1s",
    show_default=True,
    metavar="DUR",
    help="Look so often, besides when something is written.",
)
@click.option("--timeout", type=Duration(), metavar="DUR", help="Give up after so long, with exit status 6.")
@colour_option()
@answering(lines=True)
def watch(
    turn: str,
    until: Until,
    interval: str,
    timeout: str | None,
    color: Colour,
    as_json: bool,
    as_lines: bool,
    state_dir: str | None,
    quiet: int,
) -> Code | Ending:
    glance = found_turn(state_dir, turn)
    watching = _Watching(glance, state_dir, until, parse_duration(interval, what="--interval") or 1.0)
    limit = None if timeout is None else parse_duration(timeout, what="--timeout")
    from turnctl.cli.live import can_move, is_there

    teller: _Lines | _Live = _Lines(as_lines=as_lines, is_quiet=as_json or quiet > 0)
    if not (as_json or as_lines or quiet) and can_move() and is_there():
        teller = _Live(state_dir, colour=is_coloured(color))
    ended_by = watching.through(teller, limit)
    from turnctl.cli.viewer import last_words

    with last_words(ended_by):
        teller.end(watching.glance)
        if as_json:
            put_document(line_of(watching.glance))
    if watching.is_reached:
        return code_of(watching.glance)
    if not quiet:
        _say_why(watching.glance, timeout, is_left=ended_by is not None)
    if ended_by is None:
        return Code.TIME_PASSED
    # q as well: what stands behind && is for a turn that has completed
    return Ending.by(ended_by) if ended_by else Ending(128 + signal.SIGINT)


def _say_why(glance: Glance, timeout: str | None, *, is_left: bool) -> None:
    name, word = glance.turn_id, glance.state
    if not is_left:
        say(f"{timeout} have passed, and {name} is not there yet: {word}")
    elif glance.is_over:
        say(f"watching was ended: {name} {word}")
    else:
        say(f"watching was ended, and the turn goes on: {name} {word}; turnctl stop {name} stops it")


class _Watching:
    """Looks at the turn until it is as wanted."""

    def __init__(self, glance: Glance, state_dir: str | None, until: Until, interval_s: float) -> None:
        self.glance = glance
        self._state_dir = state_dir
        self._until = until
        self._interval = interval_s

    @property
    def is_reached(self) -> bool:
        """Whether it has come to what is waited for."""
        if not self.glance.is_over:
            return False
        return self._until == "stopped" or not (self.glance.unresolved or self.glance.dispositions.get("pending"))

    def through(self, teller: _Lines | _Live, limit_s: float | None) -> int | None:
        """See it through. None where it is reached, or the time has passed; else the signal that ended it, 0 for a
        key."""
        from turnctl.cli.viewer import Viewer
        from turnctl.ledger.stirring import Stirring

        until = None if limit_s is None else time.monotonic() + limit_s
        path = os.path.realpath(default_path(self._state_dir))
        with Stirring(path) as stirring, Viewer(screen=teller.has_screen) as viewer:
            stirring.watch_process(self.glance.pid)
            stirring.watch_reader(1)
            looked = time.monotonic()
            while True:
                teller.tell(self.glance, viewer)
                left = self._interval if until is None else min(self._interval, until - time.monotonic())
                if self.is_reached or left <= 0:
                    return None
                viewer.heed(stirring.wait(left, *viewer.fds))
                if stirring.has_lost_reader:
                    raise BrokenPipeError
                if viewer.is_over:
                    return viewer.ended_by or 0
                # by the time as well: that its process is gone is written by nobody
                if stirring.has_changed() or stirring.has_seen_end or time.monotonic() >= looked + self._interval:
                    self._look()
                    looked = time.monotonic()

    def _look(self) -> None:
        with glances(self._state_dir) as there:
            found = there.named(self.glance.turn_id, 1)
        if not found:
            text = f"{self.glance.turn_id} was purged while it was watched"
            raise Problem("purged", text, "turnctl ps -a lists those that are on record", Code.NO_SUCH)
        self.glance = found[0]


def _facts(glance: Glance) -> dict[str, Any]:
    """What a change is a change of."""
    return {
        "state": glance.state,
        "processes": glance.processes,
        "effects": dict(glance.dispositions),
        "stop": (glance.cancelled_by, glance.reason) if glance.is_stopped else None,
    }


class _Lines:
    """A line, or an object, for each change."""

    has_screen = False

    def __init__(self, *, as_lines: bool, is_quiet: bool) -> None:
        self._as_lines = as_lines
        self._is_quiet = is_quiet
        self._last: dict[str, Any] = {}

    def tell(self, glance: Glance, _viewer: Any) -> None:
        facts = _facts(glance)
        changed = [name for name, value in facts.items() if self._last.get(name, self) != value]
        self._last = facts
        if not changed or self._is_quiet:
            return
        at = precise(wall())
        if self._as_lines:
            put_line({"schema": SCHEMA, "at": at, "changed": changed, "turn": line_of(glance)})
        else:
            put(f"{at} {visible(f'{glance.turn_id} {_words(glance)}')}\n")

    def end(self, glance: Glance) -> None:
        pass


def _words(glance: Glance) -> str:
    words = [glance.state]
    if glance.is_stopped and glance.cancelled_by is not None:
        words.append(f"stop asked for by {glance.cancelled_by}" + (f" ({glance.reason})" if glance.reason else ""))
    words.append(f"{glance.processes} process{'' if glance.processes == 1 else 'es'}")
    if glance.dispositions:
        words.append(f"effects {effects_cell(glance)}")
    if glance.lost is not None:
        words.append(glance.lost)
    return "; ".join(words)


class _Live:
    """The turn on a screen of its own."""

    has_screen = True

    def __init__(self, state_dir: str | None, *, colour: bool) -> None:
        self._state_dir = state_dir
        self._colour = colour

    def tell(self, glance: Glance, viewer: Any) -> None:
        viewer.draw(self._drawn(glance, scroll=viewer.scroll))

    def end(self, glance: Glance) -> None:
        put("\n".join(self._drawn(glance, scroll=None)) + "\n")

    def _drawn(self, glance: Glance, *, scroll: Scroll | None) -> list[str]:
        """Without ``scroll`` it is what stays when the view is over."""
        from turnctl.cli.live import drawn, size

        columns, rows = size()
        is_last = scroll is None
        frame = self._frame(glance, is_last=is_last)
        return drawn(frame, columns, rows - is_last, colour=self._colour, scroll=scroll)

    def _frame(self, glance: Glance, *, is_last: bool) -> Frame:
        from turnctl.cli.watched import frame_of

        with glances(self._state_dir) as there:
            return frame_of(there, find(there, glance.turn_id), wall(), is_last=is_last)
