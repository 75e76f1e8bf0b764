"""Data goes to stdout, whole or with an error: a short write, a full disk, a closed descriptor are never kept quiet."""

from __future__ import annotations

import os
import sys
from typing import Any

from turnctl.cli.codes import Code
from turnctl.cli.problems import Problem
from turnctl.spelling import in_words

__all__ = ["is_terminal", "put", "put_bytes", "put_document", "put_line", "width"]

_STDOUT = 1


def put(text: str) -> None:
    """Write ``text`` to stdout, all of it. Blocks while its reader is slow.

    Raises ``BrokenPipeError`` where the reader has gone, ``Problem`` where it cannot be written.
    """
    put_bytes(text.encode("utf-8", "backslashreplace"))


def put_bytes(data: bytes) -> None:
    """The same for bytes that are written as they are."""
    if sys.__stdout__ is None:  # the number may by now be another file's
        raise _lost("it is closed")
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(_STDOUT, left) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _lost(in_words(error)) from error


def _lost(why: str) -> Problem:
    hint = "the answer goes there; give it a place, such as a file or a pager"
    return Problem("stdout_lost", f"could not write to stdout: {why}", hint, Code.UNUSABLE)


def put_document(value: dict[str, Any]) -> None:
    """One JSON document, for ``--json``."""
    import json  # which help and run do without

    put(_safe(json.dumps(value, indent=2, ensure_ascii=False, default=str)) + "\n")


def put_line(value: dict[str, Any]) -> None:
    """One line of JSON, for ``--jsonl``."""
    import json

    put(_safe(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)) + "\n")


def _safe(text: str) -> str:
    """The same JSON where a person looks: without what JSON allows and a terminal may act on."""
    if text.isascii() or not is_terminal():
        return text
    import json

    return "".join(c if c.isascii() or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def is_terminal() -> bool:
    """Whether a person sees stdout."""
    return sys.__stdout__ is not None and os.isatty(_STDOUT)


def width() -> int | None:
    """How many columns there are; None where nothing has to be cut."""
    if not is_terminal():
        return None
    try:
        return os.get_terminal_size(_STDOUT).columns or None
    except OSError:
        return None
