"""``turnctl bundle``: all that is on record of a task, in one file that tells of it without turnctl."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import click

from turnctl.cli.answering import Answering, answering
from turnctl.cli.codes import Code
from turnctl.cli.interrupts import telling_when_interrupted
from turnctl.cli.names import LEAST, check
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import put, put_document
from turnctl.cli.talk import complain, explain, say
from turnctl.errors import BadArgument, StoreMissing, StoreUnsafe
from turnctl.spelling import in_words, visible

if TYPE_CHECKING:
    from turnctl.ledger.store import Store

__all__ = ["bundle"]

_MOST = 6
_HINT = "turnctl ps -a lists the turns that are on record"


@click.command(
    cls=Answering,
    short_help="Write all that is on record of a task into one file.",
    help="TURN is the id of a turn or of an incarnation, the beginning of one, @ for the newest turn, or session:NAME. "
    "In the file are its log with the hash chain, rows, payloads and receipts, and those of what is below it. Get the "
    "verifier from where you get turnctl, not with the bundle.",
    examples=[
        ("turnctl bundle @ -o job.bundle", "the task that the newest turn worked on"),
        ("turnctl bundle --verifier > verifier.py", "what reads it, one Python file"),
        ("python verifier.py job.bundle --timeline", "accepted or refused, and what happened"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "it is written, and its verifier accepts it"),
                ("1", "it is written, and refused: the ledger is not as it was written; or it could not be written"),
                ("2", "wrong use, or there is such a file already"),
                ("4", "there is no such turn or incarnation, or the name fits several"),
                ("5", "the state directory, or stdout, cannot be used"),
            ],
        )
    ],
)
@click.argument("turn", required=False)
@click.option("-o", "--output", metavar="FILE", help="The new file; - for stdout.")
@click.option("--self", "is_alone", is_flag=True, help="It alone, without what is below it.")
@click.option("--no-payloads", is_flag=True, help="Leave the bytes of payloads out, and keep their hashes.")
@click.option("--verifier", "wants_verifier", is_flag=True, help="Print the verifier, and nothing else.")
@answering()
def bundle(
    turn: str | None,
    output: str | None,
    is_alone: bool,
    no_payloads: bool,
    wants_verifier: bool,
    as_json: bool,
    state_dir: str | None,
    quiet: int,
) -> Code:
    if wants_verifier:
        from importlib.resources import files

        put(files("turnctl.ledger").joinpath("verifier.py").read_text("utf-8"))
        return Code.OK
    if turn is None or output is None:
        raise click.UsageError("name a turn, and the file to write: turnctl bundle TURN -o FILE")
    if not output:
        raise click.UsageError("-o: the name of the file is empty; is a variable in it not set?")
    if as_json and output == "-":
        raise click.UsageError("--json answers on stdout, where the bundle goes; give -o a file")

    from turnctl.ledger.bundling import bundle_of, described, put_new
    from turnctl.ledger.whereabouts import default_path
    from turnctl.records.changes import Refusal

    if output != "-" and os.path.lexists(output):
        raise _there(output)
    left = ("nothing was written, and the ledger is as it was", "run it again")
    explain(f"reads {default_path(state_dir)}")
    with telling_when_interrupted(lambda: left), closing(_opened(state_dir, turn)) as store:
        inc = _found(store, turn, state_dir)
        data = bundle_of(store, inc, payloads=not no_payloads, scope="self" if is_alone else "subtree")
    if isinstance(data, Refusal):
        raise Problem(data.code, data.text, _HINT, Code.NO_SUCH)
    if output == "-":
        put(data.decode("ascii"))
    else:
        try:
            put_new(output, data)
        except BadArgument:
            raise _there(output) from None
        except OSError as error:
            text = f"{output} could not be written: {in_words(error, of=output)}"
            raise Problem("not_written", text, "give a file in a folder that has room", Code.NOT_SO) from error
    made = described(inc, output, data)
    if as_json:
        put_document(made.as_dict())
    elif output != "-" and not quiet:
        logs = "1 log" if made.incarnations == 1 else f"{made.incarnations} logs"
        put(f"{visible(output)}: {inc}, {logs}, {made.size} bytes, fingerprint {made.fingerprint}\n")
    elif not quiet:
        say(f"fingerprint {made.fingerprint}")
    if made.refused is not None:
        complain(f"the ledger is not as it was written, and its verifier refuses the bundle: {made.refused}")
    return Code.OK if made.refused is None else Code.NOT_SO


def _there(output: str) -> Problem:
    text = f"{output} is there already, and a bundle replaces nothing"
    return Problem("file_exists", text, "name another file, or remove it", Code.USAGE)


def _opened(state_dir: str | None, turn: str) -> Store:
    """The ledger; where there is none there is no such turn either."""
    from turnctl.ledger.opening import open_sqlite
    from turnctl.ledger.whereabouts import default_path

    path = default_path(state_dir)
    try:
        return open_sqlite(path)
    except StoreUnsafe:
        from turnctl.cli.opened import tell_once
        from turnctl.ledger.stillstore import open_still

        still = open_still(path)
        if still is None:
            raise
        tell_once(still.still.words)
        return still
    except StoreMissing:
        from turnctl.cli.opened import no_turns

        raise no_turns(state_dir, turn) from None


def _found(store: Store, name: str, state_dir: str | None) -> str:
    """The one incarnation that ``name`` means."""
    check(name)
    if name.startswith(("@", "session:")):
        from turnctl.cli.opened import found_turn

        return found_turn(state_dir, name).inc
    found = store.read(lambda books: books.named(name, _MOST))
    exact = [inc for one, inc in found if one == name]
    if exact:
        return exact[0]
    if len(name) < LEAST:
        text = f"{name!r} is too short: the beginning of an id needs {LEAST} letters"
        raise Problem("bad_name", text, _HINT, Code.USAGE)
    if not found and (grave := store.read(lambda books: books.tombstone(name))) is not None:
        return grave.inc  # which is answered as stale
    if not found:
        raise Problem("no_such_turn", f"there is no turn or incarnation {name}", _HINT, Code.NO_SUCH)
    if len({inc for _, inc in found}) > 1:
        listed = ", ".join(one for one, _ in found[: _MOST - 1]) + (" and more" if len(found) == _MOST else "")
        raise Problem("ambiguous", f"{name} fits several: {listed}", "give more of its letters", Code.NO_SUCH)
    return found[0][1]
