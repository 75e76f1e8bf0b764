"""Colour for words of state. It never carries a meaning alone: the word is there without it."""

from __future__ import annotations

import os
from typing import Literal

from turnctl.cli.stdout import is_terminal

__all__ = ["COLOURS", "Colour", "is_coloured", "paint_state"]

Colour = Literal["auto", "always", "never"]
COLOURS: tuple[Colour, ...] = ("auto", "always", "never")

_GREEN, _YELLOW, _RED, _BOLD = "32", "33", "31", "1"


def is_coloured(choice: Colour) -> bool:
    """Whether to colour: as said, else by NO_COLOR, which is stronger than FORCE_COLOR, else where a person looks."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return is_terminal() and os.environ.get("TERM") != "dumb"


def paint_state(word: str, text: str) -> str:
    """``text`` in the colour of the state ``word``."""
    if "unresolved" in word or word in ("lost", "failed"):
        colour = _RED
    elif word == "completed" or word.endswith("settled"):
        colour = _GREEN
    elif word == "running":
        colour = _BOLD
    else:
        colour = _YELLOW
    return f"\x1b[{colour}m{text}\x1b[0m"
