"""Where a shell looks for completions of this user, and writing one file there: never one that is not ours."""

from __future__ import annotations

import os

from turnctl.beside import put_whole
from turnctl.homes import expanded

__all__ = ["MARK", "SHELLS", "Foreign", "after", "place_of", "put_there"]

SHELLS = ("bash", "zsh", "fish", "powershell")
#: what a file of ours has in it
MARK = "completion of turnctl"


class Foreign(Exception):
    """Another's file is in the place."""


def place_of(shell: str) -> str | None:
    """The file for it; None where the shell has no folder for completions of a user, or the user no home directory."""
    found = None
    if shell == "bash":
        base = _folder("BASH_COMPLETION_USER_DIR", os.path.join(_data(), "bash-completion"))
        found = os.path.join(base, "completions", "turnctl")
    if shell == "zsh":
        found = os.path.join(_data(), "zsh", "site-functions", "_turnctl")
    if shell == "fish":
        found = os.path.join(_folder("XDG_CONFIG_HOME", "~/.config"), "fish", "completions", "turnctl.fish")
    return None if found is None or found.startswith("~") else found


def _data() -> str:
    return _folder("XDG_DATA_HOME", "~/.local/share")


def _folder(variable: str, otherwise: str) -> str:
    found = os.environ.get(variable, "")
    return found if os.path.isabs(found) else expanded(otherwise)


def after(shell: str, path: str) -> str:
    """What a person has to know once it is there."""
    if shell == "bash":
        return f"new shells have it where the package bash-completion is loaded; elsewhere add to ~/.bashrc: . {path}"
    if shell == "zsh":
        folder = os.path.dirname(path)
        return f"new shells have it if ~/.zshrc has, before compinit: fpath=({folder} $fpath)"
    return "new shells have it"


def put_there(path: str, text: str) -> bool:
    """Write ``text`` in one step, making its folder; False if it was there already. Raises ``Foreign``, ``OSError``."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            before = file.read()
    except FileNotFoundError:
        before = None
    if before == text:
        return False
    if before is not None and MARK not in before[:200]:
        raise Foreign(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    put_whole(path, text.encode("utf-8"))
    return True
