"""The answer to a shell: ``turnctl __complete SHELL ...``, which the scripts of ``completing.scripts`` call.

The first line says what follows: ``words``, a word a line with a tab before what it means; or nothing, where the shell
is to look by itself: ``files``, ``folders``, ``command N`` (from the N-th word on it is a command line of its own; for
bash behind the N-th letter).

Whatever goes wrong is told by no answer: a message would stand in the middle of what a person is writing.
"""

from __future__ import annotations

import os

from turnctl.cli.completing.kinds import Found, found_for
from turnctl.cli.completing.lines import Word, quoted, split
from turnctl.cli.completing.words import place_in

__all__ = ["WORD", "answer", "found_at"]

#: what a shell calls turnctl with, in the place of a command
WORD = "__complete"


def answer(args: list[str]) -> int:
    """Write the answer to stdout; the status is 0 if there was one. Blocks for the disk, as looking does."""
    try:
        shell, *rest = args
        text = _for_bash(*rest) if shell == "bash" else _for_others(shell, rest)
        os.write(1, text.encode("utf-8", "replace"))
    except BaseException:  # noqa: BLE001 - also Ctrl-C and what click ends by: nothing is said here, see above
        return 1
    return 0


def found_at(words: list[str], last: str) -> Found:
    """What fits after these words, of which the first is the program."""
    from turnctl.cli.group import cli

    place = place_in(cli, "turnctl", words[1:], last)
    return Found([]) if place is None else found_for(place)


def _for_others(shell: str, words: list[str]) -> str:
    """For zsh and fish, which give the words apart: all before the cursor, and the last one up to it."""
    *before, last = words
    if shell == "fish":
        last = split(last)[0].text  # it gives that one as it is written
    found = found_at(before, last)
    kind = found.kind
    if kind.startswith("command "):
        kind = f"command {int(kind.split()[1]) + 2}"  # with the program, and from 1, as these shells count
    return "".join([f"{kind}\n", *(f"{word}\t{what}\n" for word, what in found.words)])


def _for_bash(line: str, current: str) -> str:
    """For bash, which gives the line up to the cursor, and what it takes for the current word: it breaks words at
    colons and the like, and puts what it is given in the place of what is behind the last one."""
    *before, last = split(line)
    found = found_at([one.text for one in before], last.text)
    if found.kind.startswith("command "):
        return f"command {[*before, last][int(found.kind.split()[1]) + 1].at}\n"
    kept = _kept(last, current)
    return "".join([f"{found.kind}\n", *(f"{quoted(word, last.quote)[kept:]}\n" for word, _ in found.words)])


def _kept(last: Word, current: str) -> int:
    """How many letters of what is written bash leaves as they are."""
    raw = last.raw.removeprefix(last.quote) if last.quote else last.raw
    written = current.removeprefix(last.quote) if last.quote else current
    return len(raw) - len(written) if raw.endswith(written) else 0
