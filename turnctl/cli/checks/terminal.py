"""The terminal that turnctl was called on, and what its output may look like."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from turnctl.cli.checks.check import Finding, Look
from turnctl.cli.colour import is_coloured

__all__ = ["looks"]


def looks() -> Iterator[tuple[str, Look]]:
    """What there is to look at."""
    yield "terminal.streams", _streams
    yield "terminal.controlling", _controlling
    yield "terminal.colour", _colour


def _streams() -> Finding:
    found = {name: _kind(getattr(sys, f"__{name}__"), fd) for fd, name in enumerate(("stdin", "stdout", "stderr"))}
    return Finding("ok", ", ".join(f"{name} is {kind}" for name, kind in found.items()), details=found)


def _kind(stream: object, fd: int) -> str:
    if stream is None:
        return "closed"
    return "a terminal" if os.isatty(fd) else "no terminal"


def _controlling() -> Finding:
    from turnctl.processes.terminal import Terminal

    terminal = Terminal.find()
    if terminal is None:
        return Finding("ok", "there is none: a command gets a session of its own, and Ctrl-C is turnctl's")
    try:
        is_front = terminal.is_ours()
    finally:
        terminal.close()
    text = "turnctl is in its background, so nothing is taken from it"
    if is_front:
        text = "turnctl is in its foreground, so a command is handed it"
    return Finding("ok", text, details={"foreground": is_front})


def _colour() -> Finding:
    names = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM", "TURNCTL_COLOR")
    said = {name: os.environ[name] for name in names if name in os.environ}
    return Finding("ok", f"words of state are {'coloured' if is_coloured('auto') else 'not coloured'}", details=said)
