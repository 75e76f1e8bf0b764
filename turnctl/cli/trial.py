"""``turnctl trial``: run a program again and again, stop it at each place once, and say what did not stop well."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.common import Whole
from turnctl.cli.duration import Duration
from turnctl.cli.ending import Ending
from turnctl.cli.options import Folder
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import put, put_document, put_line
from turnctl.cli.table import lines
from turnctl.cli.talk import say
from turnctl.clock import format_duration, parse_duration
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.cli.trials.trying import Trial

__all__ = ["trial"]

HEADERS = ("OVER", "EXIT", "LINES", "LEFT", "EFFECTS", "PROBLEMS", "STOPPED AT")


class _Trying(Answering):
    """Its options end at the first operand, which is the program."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allow_interspersed_args = False


@click.command(
    cls=_Trying,
    short_help="Stop a program at each of its checkpoints, and say what did not stop well.",
    options_metavar="[OPTIONS] [--]",
    examples=[
        ("turnctl trial -- python agent.py", "at each checkpoint of its turns, each in a run of its own"),
        ("turnctl trial --setup 'rm -rf out' --check './sound out' -- python agent.py", "and see what it leaves"),
        ("turnctl trial --max-stops 20 --seed 7 -- make test", "a program without turns: at lines of its output"),
        (
            "turnctl trial --at 1s --at 10s --grace 5s -- make serve",
            "one that does not end by itself, at these moments",
        ),
    ],
    steps=[
        "It is run once without a stop. Where its turns pass checkpoints, each arrival at one is a place to stop it.",
        "Else the places are its start, each line of its output, and some moments by chance.",
        "It is run again for each place, in a tree of its own, with a state directory of its own, and stopped there.",
        "Its turn is stopped by itself; a program without turns is asked by SIGTERM, and killed after the grace.",
        "It is said how long that took, how it ended, what it still wrote and left, and which effects are unresolved.",
    ],
    tables=[
        (
            "Problems",
            [
                ("late", "its turn was not over --grace after the stop"),
                ("swallowed", "the stop was caught, and work went on to another checkpoint"),
                ("endless", "it had not ended --timeout after its start"),
                ("killed", "it had to be killed: asked by SIGTERM it had not ended after --grace"),
                ("crashed", "it died of a signal that was not sent from here"),
                ("leaking", "it ended, and processes that it had started went on"),
                ("alive", "something is there still, after a kill"),
                ("unresolved", "effects of which nobody knows what became, or a ledger of it that cannot be read"),
                ("breaking", "--check failed after it"),
            ],
        ),
        (
            "Exit status",
            [
                ("0", "it stopped well wherever it was stopped"),
                ("1", "it did not somewhere; or it fails without any stop"),
                ("2", "wrong use, or a command that is not found or cannot be executed; nothing was run"),
                ("6", "it does not end without a stop within --timeout"),
            ],
        ),
    ],
    help="The program really runs, each time, with all that it does: give it a canned model and nothing to harm. It "
    "has to do the same each time. A place that is not reached again is told, and is no problem.",
)
@click.option(
    "--max-stops",
    "most",
    type=Whole(min=1),
    default=50,
    show_default=True,
    metavar="N",
    help="Stop it at so many places at most: each line of the program before any is tried again.",
)
@click.option(
    "--timeout", type=Duration(), default="60s", show_default=True, metavar="DUR", help="How long each run may take."
)
@click.option(
    "--grace",
    type=Duration(),
    default="2s",
    show_default=True,
    metavar="DUR",
    help="How long it has from a stop on, before it is late, or is killed.",
)
@click.option(
    "--at", type=Duration(), multiple=True, metavar="DUR", help="Stop it so long after its start. Repeatable."
)
@click.option(
    "--seed", type=Whole(), default=1, show_default=True, metavar="N", help="Which places, and moments, chance takes."
)
@click.option("--setup", metavar="COMMAND", help="A command for the shell before each run.")
@click.option("--check", metavar="COMMAND", help="A command for the shell after each run; it fails if that left harm.")
@click.option("-C", "--chdir", "folder", type=Folder(), help="Run it in this folder.")
@answering(lines=True)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARG]...")
def trial(
    command: tuple[str, ...],
    most: int,
    timeout: str,
    grace: str,
    at: tuple[str, ...],
    seed: int,
    setup: str | None,
    check: str | None,
    folder: str | None,
    as_json: bool,
    as_lines: bool,
    state_dir: str | None,  # noqa: ARG001 - each run has one of its own
    quiet: int,
) -> Ending:
    if not command or not command[0]:
        raise click.UsageError("no command was given; say what to try, such as: turnctl trial -- python agent.py")
    from turnctl.cli.trials.running import Limits
    from turnctl.cli.trials.trying import Asked, Interrupted, Trial

    limits = Limits(_seconds("--timeout", timeout), _seconds("--grace", grace))
    moments = tuple(_seconds("--at", one) for one in at)
    if any(one >= limits.timeout_s for one in moments):
        raise click.UsageError(f"--at is not before --timeout, which is {timeout}; give it more")
    tried = Trial(Asked(command, folder, limits, most, seed, moments, setup, check))
    with _interrupting(tried) as struck:
        try:
            _go_through(tried, command[0], as_lines=as_lines, quiet=quiet)
        except Interrupted:
            tried.notes.append(f"interrupted: {len(tried.found)} of {tried.planned or 'its'} places were tried")
    if as_json:
        put_document(tried.as_dict())
    elif tried.found and not (as_lines or quiet):
        put("".join(f"{visible(line)}\n" for line in _told(tried)))
    for note in tried.notes:
        if not quiet:
            say(note)
    if struck:
        return Ending.by(struck[0])
    return Ending(Code.NOT_SO if any(one.problems for one in tried.found) else Code.OK)


def _go_through(tried: Trial, name: str, *, as_lines: bool, quiet: int) -> None:
    with _started(name):
        tried.look()
    if not quiet and sys.__stderr__ is not None and sys.__stderr__.isatty():  # for a person who waits
        lasted = (
            "" if tried.lasted_s is None else f", each some {format_duration(round(tried.lasted_s, 1) or 0.1)} long"
        )
        where = "checkpoints" if tried.is_at_checkpoints else "moments"
        say(f"stopping it at {tried.planned} of {tried.places} {where}, in a run for each{lasted}")
    stops = tried.stops()
    while True:
        with _started(name):  # with --at this is the first time that it is
            stop = next(stops, None)
        if stop is None:
            return
        if as_lines:
            put_line(stop.as_dict())


@contextmanager
def _started(name: str) -> Iterator[None]:
    """Have it told where the program cannot be started."""
    try:
        yield
    except OSError as error:
        raise _not_started(error, name) from error


@contextmanager
def _interrupting(tried: Trial) -> Iterator[list[int]]:
    """The first INT, TERM or HUP ends the run that goes on, and is told of; a second one ends us at once."""
    struck: list[int] = []

    def strike(number: int, _frame: FrameType | None) -> None:
        struck.append(number)
        for one in taken:
            signal.signal(one, signal.SIG_DFL)
        tried.interrupt()

    taken = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, strike)
    try:
        yield struck
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


def _seconds(what: str, text: str) -> float:
    found = parse_duration(text, what=what)
    assert found is not None
    return found


def _told(tried: Trial) -> list[str]:
    """The table, and each problem in words: of several that are the same the first place, and how many more."""
    found = lines(HEADERS, [one.cells() for one in tried.found])
    same: dict[Any, list[Any]] = {}
    for stop in tried.found:
        for problem in stop.problems:
            same.setdefault(problem, []).append(stop.place)
    count = sum(len(places) for places in same.values())
    many = _counted(len(tried.found), "stop")
    found.append(f"{many}: {'no problem' if not count else _counted(count, 'problem')}")
    for problem, places in same.items():
        more = f", and at {len(places) - 1} more" if len(places) > 1 else ""
        found += [f"  {problem}", f"    stopped {places[0].said}{more}"]
    return found


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _not_started(error: OSError, name: str) -> Problem:
    if isinstance(error, FileNotFoundError):
        return Problem("not_found", f"command not found: {name}", "is it on PATH, or is it a file?", Code.USAGE)
    text = f"cannot execute {name}: {error.strerror}"
    return Problem("not_executable", text, "if it should be a program: chmod +x it", Code.USAGE)
