"""Shells that people write in, on a terminal, with the completion of turnctl loaded."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from launch import turnctl_argv
from ptys import Screen

from turnctl.cli.completing.scripts import script_for

__all__ = ["Shell", "needs", "program", "shell"]

_READY = "ready-2"
_START = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
    "fish": ["--no-config", "-i"],
}
_FUNCTION = {
    "bash": 'turnctl() { if [ "$1" = __complete ]; then command turnctl "$@"; else printf \'<%s>\' "$@"; echo; fi; }',
    "fish": "function turnctl; if test \"$argv[1]\" = __complete; command turnctl $argv; else; printf '<%s>' $argv; "
    "echo; end; end",
}
_FIRST = {"bash": "PS1='> '", "zsh": "PS1='> '; autoload -U compinit; compinit -u -D", "fish": "true"}
#: what moves the cursor, colours, or sets a title
_CONTROL = re.compile(r"\x1b\[[0-9;?>]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>]|\x0f")


def needs(name: str) -> str:
    """The path of that shell, or the test is skipped, which says so."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on this machine, so its completion was not tried")
    return found


def program(folder: Path) -> Path:
    """A folder for PATH, in which ``turnctl`` is the one that is tested."""
    folder.mkdir()
    file = folder / "turnctl"
    file.write_text(f'#!/bin/sh\nexec {shlex.join(turnctl_argv())} "$@"\n')
    file.chmod(0o755)
    return folder


class Shell:
    """One that shows the words that a line has come to, instead of calling turnctl."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def words(self, typed: str, seen: str) -> list[str]:
        """Write that and the key for completion; once ``seen`` is shown, end the line: the words that it had."""
        self._screen.send(typed + "\t")
        self._see(re.escape(seen))
        self._screen.send("\r")
        return re.findall(r"<([^<>]*)>", self._see(r"\n<[^\n]*>\n"))

    def run(self, line: str) -> None:
        """Run a line, and wait until it is through."""
        two = "(math 1 + 1)" if "fish" in str(self._screen.command) else "$((1 + 1))"
        self._screen.send(f"{line}; echo ready-{two}\r")
        self._see(re.escape(_READY))

    def _see(self, pattern: str) -> str:
        """Wait until that is shown, apart from what moves the cursor; what it was."""
        shown = ""
        while True:
            found = re.search(pattern, shown)
            if found is not None:
                return found[0]
            self._screen.expect(r".+")
            shown = _CONTROL.sub("", shown + str(self._screen.after)).replace("\r", "")


@contextmanager
def shell(name: str, folder: Path, state: Path) -> Iterator[Shell]:
    """That shell, ready to be written in."""
    path = needs(name)
    script = folder / f"completion.{name}"
    script.write_text(script_for(name))
    places = program(folder / "bin")
    with Screen(
        [path, *_START[name]],
        PATH=f"{places}:/usr/bin:/bin",
        HOME=str(folder),
        TMPDIR=str(folder),
        XDG_RUNTIME_DIR=str(folder),
        TERM="xterm",
        echo=True,
        TURNCTL_STATE_DIR=str(state),
        LANG="C.UTF-8",
    ) as screen:
        found = Shell(screen)
        found.run(_FIRST[name])
        found.run(f"source {script}")
        found.run(_FUNCTION.get(name, _FUNCTION["bash"]))
        yield found
