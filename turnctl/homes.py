"""Where this user is at home, for what is kept for him."""

from __future__ import annotations

import os

__all__ = ["expanded", "home"]


def home() -> str | None:
    """This user's home directory: HOME where it is absolute, else what the system has; None for who has none.

    A HOME that is empty, or relative, would be another folder wherever one stands.
    """
    named = os.environ.get("HOME", "")
    if os.path.isabs(named):
        return named
    import pwd

    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return found if os.path.isabs(found) else None


def expanded(path: str) -> str:
    """``path`` with the home directory in the place of a ~ before it, or of ~NAME that of another user."""
    if path != "~" and not path.startswith("~/"):
        return os.path.expanduser(path)
    return (home() or "~") + path[1:]
