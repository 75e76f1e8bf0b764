"""``turnctl completion``: the script that has a shell complete what is written, printed or put in its place."""

from __future__ import annotations

import os

import click

from turnctl.cli.codes import Code
from turnctl.cli.common import option
from turnctl.cli.completing.places import SHELLS
from turnctl.cli.help import Steady
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import put, put_bytes, put_document
from turnctl.cli.talk import say
from turnctl.homes import home
from turnctl.spelling import in_words

__all__ = ["completion"]

SCHEMA = "turnctl.completion/1"


@click.command(
    cls=Steady,
    short_help="Have the shell complete commands, options, and turns on record.",
    examples=[
        ("turnctl completion --install", "one file, for the shell that this is called from"),
        ('eval "$(turnctl completion bash)"', "for this shell alone, and until it ends"),
        ("turnctl completion zsh > _turnctl", "a file for a folder of fpath"),
        ("turnctl completion fish --path", "where --install writes"),
    ],
    tables=[
        (
            "Exit status",
            [
                ("0", "it is printed, or is in its place"),
                ("1", "the file could not be written, or another's is in its place"),
                ("2", "wrong use, or there is no completion for that shell"),
            ],
        )
    ],
    help="Without a SHELL it is the one that has called this, else the one that SHELL names; stderr says which. What "
    "is completed comes from turnctl itself, also turns, sessions and effects on record, which are only read. "
    "--install writes one file, says which, and changes no other: what has to be added to a file of yours is said.",
)
@click.argument("shell", type=click.Choice(SHELLS), required=False, metavar=f"[{'|'.join(SHELLS)}]")
@click.option("--install", "is_install", is_flag=True, help="Write it where the shell looks for it.")
@click.option("--path", "is_path", is_flag=True, help="Print where --install writes, and nothing else.")
@option("--json", "as_json", is_flag=True, group="output", help="Answer with one JSON document.")
def completion(shell: str | None, is_install: bool, is_path: bool, as_json: bool) -> Code:
    if is_install and is_path:
        raise click.UsageError("--path only prints where --install writes; give one of them")
    from turnctl.cli.completing.places import place_of
    from turnctl.cli.completing.scripts import NoScript, script_for

    shell = shell or _guessed()
    path = place_of(shell)
    if path is None and (is_install or is_path):
        hint = f"add the output of turnctl completion {shell} to your profile"
        why = f"{shell} has no folder for completions of a user"
        if home() is None:
            why = "this user has no home directory"
        raise Problem("no_place", why, hint, Code.USAGE)
    try:
        text = script_for(shell)
    except NoScript as error:
        raise Problem("no_script", *_halves(error), Code.USAGE) from error
    is_new = is_install and path is not None and _install(shell, path, text)
    if as_json:
        document = {"schema": SCHEMA, "shell": shell, "path": path, "script": text, "installed": is_install}
        put_document(document | {"written": is_new})
    elif path is not None and (is_path or is_install):
        put_bytes(os.fsencode(path) + b"\n")
    else:
        put(text)
    return Code.OK


def _halves(error: Exception) -> tuple[str, str]:
    message, _, hint = str(error).partition("; ")
    return message, hint


def _guessed() -> str:
    from turnctl.cli.completing.calling import guess

    found = guess()
    if found is None:
        raise click.UsageError(f"which shell this is for cannot be told; name it: {', '.join(SHELLS)}")
    shell, why = found
    say(f"for {shell}, {why}")
    return shell


def _install(shell: str, path: str, text: str) -> bool:
    from turnctl.cli.completing.places import Foreign, after, put_there

    try:
        is_new = put_there(path, text)
    except Foreign:
        message = f"{path} is not turnctl's, and was left as it is"
        raise Problem("file_exists", message, f"move it away, or write another: turnctl completion {shell} > FILE",
                      Code.NOT_SO) from None  # fmt: skip
    except OSError as error:
        message = f"{path} could not be written: {in_words(error, of=path)}"
        raise Problem(
            "not_written", message, f"write another: turnctl completion {shell} > FILE", Code.NOT_SO
        ) from error
    say(f"{'written' if is_new else 'it was there already'}: {path}")
    say(after(shell, path))
    return is_new
