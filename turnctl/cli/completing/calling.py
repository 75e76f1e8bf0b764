"""Which shell a person uses: the one that called us, as the kernel tells, else the one of the login."""

from __future__ import annotations

import os

from turnctl.cli.completing.places import SHELLS

__all__ = ["guess"]

_ALSO = {"pwsh": "powershell"}
#: how far up is looked: a shell may have called a wrapper, and that one us
_HIGHEST = 6


def guess() -> tuple[str, str] | None:
    """The shell, and what speaks for it; None where nothing does."""
    pid = os.getppid()
    for _ in range(_HIGHEST):
        name, parent = _process(pid)
        shell = _known(name)
        if shell is not None:
            return shell, "which has called this"
        if parent < 2:
            break
        pid = parent
    shell = _known(os.path.basename(os.environ.get("SHELL", "")))
    return None if shell is None else (shell, "by SHELL")


def _known(name: str) -> str | None:
    name = _ALSO.get(name.lstrip("-"), name.lstrip("-"))
    return name if name in SHELLS else None


def _process(pid: int) -> tuple[str, int]:
    """Its name and its parent; nothing where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return "", 0
    rest = text[text.rindex(")") + 2 :].split()
    return text[text.index("(") + 1 : text.rindex(")")], int(rest[1])
