"""The topic of exit statuses: the codes as they are in the code, and of each command the ones that it names."""

from __future__ import annotations

from collections.abc import Iterable

from turnctl.cli.codes import MEANINGS
from turnctl.cli.pages.model import Rows
from turnctl.cli.pages.tree import pages
from turnctl.cli.topics.reading import Part

__all__ = ["exit_codes"]


def exit_codes() -> list[Part]:
    """All of them, by number and by command."""
    found = list(pages())
    run = next(page for page in found if page.name == "turnctl run")
    own = [(word, meaning) for word, meaning in run.codes if word not in _numbers()]
    return [
        "What each of them means with a command is in its help; of several turns the highest one counts.",
        ("Of every command but run", tuple((str(int(code)), meaning) for code, meaning in MEANINGS.items())),
        (
            "A state directory in which nothing was recorded yet is like one with nothing in it: lists are empty and "
            "there is nothing to purge (0), and a turn, an effect or a ledger that is named, or is to be verified or "
            "copied, is not there (4). A ledger that was there and is gone cannot be used (5)."
        ),
        ("Of turnctl run, the command's own besides", tuple(own)),
        ("Which command gives which", _by_command((page.name, page.codes) for page in found)),
        (
            "A command whose reader has gone dies of SIGPIPE, which shells show as 141. A help text that stdout "
            "does not take is an error (125), unless its reader has gone (1). Scripts that need more than the "
            "status read the JSON (turnctl help json)."
        ),
    ]


def _numbers() -> set[str]:
    return {str(int(code)) for code in MEANINGS}


def _by_command(found: Iterable[tuple[str, Rows]]) -> Rows:
    rows = []
    for name, codes in found:
        words = [word for told, _ in codes for word in told.split(", ")]
        rows.append((name.removeprefix("turnctl "), ", ".join(sorted(words, key=_order))))
    return tuple(rows)


def _order(word: str) -> tuple[int, str]:
    return (int(word), "") if word.isdigit() else (1000, word)
