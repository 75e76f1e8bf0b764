"""The control group (version 2) that this program is in, as a folder in which groups of its own could be made."""

from __future__ import annotations

__all__ = ["own_folder"]


def own_folder() -> str:
    """The folder; empty where there is none that can be seen. Says nothing of what may be done in it."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            own = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ") for line in file if " - cgroup2 " in line]
    except OSError:
        return ""
    for field in mounts if own is not None else ():
        root, place = _plain(field[3]).rstrip("/"), _plain(field[4]).rstrip("/")
        if own is not None and (own + "/").startswith(root + "/") and "/.." not in own:
            return (place + own[len(root) :]).rstrip("/")
    return ""


def _plain(text: str) -> str:
    """A word of the table of mounts, in which some characters are written by their number."""
    for number in (0o40, 0o11, 0o12, 0o134):
        text = text.replace(f"\\{number:03o}", chr(number))
    return text
