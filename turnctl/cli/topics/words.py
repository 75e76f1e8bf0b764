"""The topics of words: of state, of effects, and the names of schemas, each from the code's own list of them."""

from __future__ import annotations

import json as parser
from importlib.resources import files

from turnctl.cli.pages.model import Rows
from turnctl.cli.topics.reading import Part
from turnctl.records.states import STATES, StateWord

__all__ = ["DISPOSITIONS", "MEANINGS", "dispositions", "json", "states"]

_ENDED = "it has ended, and nobody has told the outcome of one effect or more"

MEANINGS: dict[StateWord, str] = {
    "running": "it goes on, and no stop was asked for",
    "cancellation requested": "a stop was accepted; its program has not seen it yet",
    "draining": "a stop was accepted, and what it started is being ended, or is not proven to have ended",
    "finishing": "its outcome is decided, and what it started is still being ended",
    "cancelled, settled": "it was stopped, has ended, and the outcome of every effect is known",
    "stopped, effects unresolved": "it was stopped and has ended; the outcome of one effect or more is not known",
    "completed": "it came to its own end, and the outcome of every effect is known",
    "completed, effects unresolved": f"it came to its own end: {_ENDED}",
    "failed": "it ended by an error, or its command by another status than 0",
    "failed, effects unresolved": f"it ended by an error: {_ENDED}",
    "superseded": "another turn of its session took its place, and it has ended",
    "superseded, effects unresolved": f"another turn took its place: {_ENDED}",
    "lost": "its process is proven to be gone, and it has not told its end",
}
DISPOSITIONS = {
    "pending": "it was let out, or is about to be, and nothing is known yet",
    "suppressed": "it was never let out: the stop came first",
    "rejected": "its receiver has said that it did not happen",
    "completed": "its receiver has said that it happened",
    "provider_cancelled": "its receiver has said that it was called off before it happened",
    "unknown": "it may have happened, and nobody has told; turnctl reconcile asks",
}


def states() -> list[Part]:
    """The words of state."""
    return [
        (
            "A word is derived from three facts that are kept apart: whether a stop was asked for, whether anything "
            "still runs, and what got out. It is used only where there is evidence for it. On the command line the "
            "beginning of one will do, also with _ for a space: --state cancelled."
        ),
        ("Words", tuple((word, MEANINGS[word]) for word in STATES)),
        "turnctl status tells them by its exit status as well (turnctl help exit-codes).",
    ]


def dispositions() -> list[Part]:
    """The words of effects."""
    return [
        (
            "An effect is something that leaves the program and cannot be taken back by ending processes, such as a "
            "mail. Rejected, completed and provider_cancelled are said on a receipt alone. A stop closes the gate: "
            "what was not let out by then never is."
        ),
        ("Dispositions", tuple(DISPOSITIONS.items())),
    ]


def json() -> list[Part]:
    """What programs get."""
    return [
        (
            "--json answers with one document, --jsonl with an object a line, on stdout. Every object names its "
            "schema. Fields are only ever added under one name; what means something else gets another number. "
            "Where a command comes to nothing, its document is a turnctl.error/1: a word for programs (code), what "
            "(message) and what to do (hint); the same stands on stderr."
        ),
        ("Schemas, which come with turnctl in turnctl/schemas", _schemas()),
    ]


def _schemas() -> Rows:
    found = []
    for file in files("turnctl.schemas").iterdir():
        if file.name.endswith(".json"):
            schema = parser.loads(file.read_text("utf-8"))
            found.append((schema["title"], schema.get("description", "").removesuffix(" Fields are only ever added.")))
    return tuple(sorted(found))
