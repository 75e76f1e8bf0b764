"""``turnctl doctor --end-leftovers``: end what earlier commands have left that nobody holds, and say what was done."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from turnctl.cli.codes import Code
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import put, put_document
from turnctl.processes.clearing import end_leftovers
from turnctl.processes.remains import leftovers
from turnctl.processes.table import shows_us
from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.processes.clearing import Fate
    from turnctl.processes.remains import Leftover

__all__ = ["clear"]

SCHEMA = "turnctl.cleared/1"
_NONE = "no command has left a process that nobody holds, as far as can be found"
_WORDS: dict[Fate, str] = {
    "term": "ended by SIGTERM",
    "kill": "ended by SIGKILL",
    "gone": "had ended by itself",
    "not ours": "is not a leftover any more, and was left alone",
    "other user": "is another user's, and was left alone",
    "caller": "runs this very command, and was left alone",
    "alive": "is there still",
}


def clear(*, is_dry: bool, yes: bool, grace_s: float, grace: str, as_json: bool, quiet: bool) -> Code:
    """End them, or with ``is_dry`` say what would be done. Blocks for the grace."""
    if not shows_us():
        text = "the processes of this machine cannot be seen here, so nobody can say what was left"
        raise Problem("not_seen", text, "call it where /proc is that of this pid namespace", Code.UNUSABLE)
    found = leftovers()
    if is_dry:
        asked = f"would be asked by SIGTERM, and killed after {grace}" if grace_s > 0 else "would be killed"
        _tell([(one, None, asked) for one in found], is_dry=True, as_json=as_json, quiet=quiet)
        return Code.OK
    if found and not yes:
        _confirm(found)
    done = end_leftovers(found, grace_s=grace_s)
    _tell([(one.leftover, one.fate, _WORDS[one.fate]) for one in done], is_dry=False, as_json=as_json, quiet=quiet)
    return Code.NOT_SO if any(one.fate == "alive" for one in done) else Code.OK


def _tell(rows: list[tuple[Leftover, Fate | None, str]], *, is_dry: bool, as_json: bool, quiet: bool) -> None:
    if as_json:
        processes = [{**one._asdict(), "fate": fate, "text": text} for one, fate, text in rows]
        put_document({"schema": SCHEMA, "dry_run": is_dry, "processes": processes})
    elif not quiet:
        put("".join(f"{visible(str(one))}: {text}\n" for one, _, text in rows) or f"{_NONE}\n")


def _confirm(found: Sequence[Leftover]) -> None:
    """Ask a person, where there is one to ask; else it has to be said beforehand."""
    listed = visible("; ".join(map(str, found)))
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()):
        many = "a process" if len(found) == 1 else f"{len(found)} processes"
        raise click.UsageError(f"--end-leftovers would end {many} ({listed}); say that you mean it: -y")
    if not click.confirm(f"turnctl: end {listed}?", err=True):
        raise Problem("not_confirmed", "nothing was ended", "turnctl doctor --leftovers names them", Code.NOT_SO)
