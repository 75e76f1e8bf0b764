"""Files and folders for their owner alone, whatever the umask; and the one that tells what the others are."""

from __future__ import annotations

import os

__all__ = ["NAME", "describe", "own_file", "own_folder"]

#: the ledger of a state directory
NAME = "ledger.sqlite3"

_README = """\
This folder is turnctl's: it is where turnctl remembers which turns there were, what they started and what got out.
It is for its owner alone (the folder 0700, files 0600), and is refused where others can reach it.

ledger.sqlite3       the ledger, and beside it what SQLite and turnctl need while it is in use.
                     Do not copy or move the file by hand: turnctl ledger backup FILE
turns/TURN_ID/       what was kept of the output of a command

turnctl ps -a                        what is on record
turnctl doctor --only state          whether all is well here, and how large it is
turnctl ledger verify                whether it is as it was written
turnctl ledger prune --older-than 30d
                                     take away what is over and wholly told of

While no program uses it the whole folder can be removed: nothing is remembered then, and effects whose outcome is not
known will never be. turnctl makes it anew, and this file with it; this file alone can be removed as well.
"""


def own_folder(folder: str) -> None:
    """Make it, and what is missing above it. Raises ``OSError``."""
    above = os.path.dirname(folder)
    if above != folder and not os.path.isdir(above):
        own_folder(above)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    else:
        os.chmod(folder, 0o700)


def own_file(path: str, flags: int) -> int:
    """Open it with ``flags``, made where it is not there. No link is followed. Raises ``OSError``."""
    fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if os.fstat(fd).st_mode & 0o600 != 0o600:  # the umask took it from ourselves
        os.fchmod(fd, 0o600)
    return fd


def describe(folder: str) -> None:
    """Put a README there that says what this folder is; one that is there stays."""
    try:
        fd = own_file(os.path.join(folder, "README"), os.O_WRONLY | os.O_EXCL)
    except OSError:
        return  # it is there; or there is no room, which is told by who needs it
    with open(fd, "w", encoding="utf-8") as file:
        file.write(_README)
