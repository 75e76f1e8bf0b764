"""The file of ``--summary``: checked before anything is started, written in one step."""

from __future__ import annotations

import os
import stat
from typing import Any

from turnctl.beside import Beside, put_whole
from turnctl.cli.folder import gone_for
from turnctl.errors import BadArgument

__all__ = ["check", "remove", "write"]

_STREAMS = ("stdin", "stdout", "stderr")
_MODE = 0o600
_DATABASE = b"SQLite format 3\0"


def check(path: str) -> str:
    """The path to write to, links followed. Raises ``BadArgument`` where it could not be written."""
    if path == "-":
        raise BadArgument("stdout belongs to the command, so the summary needs a file of its own")
    if not path:
        raise BadArgument("the name of the file is empty; is a variable in it not set?")
    try:
        real = os.path.realpath(path)
    except FileNotFoundError:
        raise BadArgument(f"{path}{gone_for(path)}; give a path that begins with /") from None
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise BadArgument(f"{path}: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise BadArgument(f"{path} is a directory")
    if not stat.S_ISREG(mode):
        raise BadArgument(f"{path} is not a regular file, which the summary could replace in one step")
    if _is_of_a_ledger(real):
        raise BadArgument(f"{path} is a database, or a part of one, which no summary replaces; give a file of its own")
    for fd in (0, 1, 2):
        # also by another name: /dev/stdout, /proc/self/fd/2, the log that the shell has opened for us
        try:
            if os.path.samestat(os.fstat(fd), os.stat(real)):
                raise BadArgument(f"{path} is what the command's {_STREAMS[fd]} goes to; give a file of its own")
        except OSError:
            pass  # closed, or no such file yet
    try:
        with Beside(real, mode=_MODE).opened():
            pass
    except OSError as error:
        raise BadArgument(f"cannot write in {os.path.dirname(real)}: {error.strerror}") from None
    return real


def _is_of_a_ledger(path: str) -> bool:
    """Whether it is a database, such as a ledger, or what belongs to one that has its name, such as its log."""
    folder, name = os.path.split(path)
    if name.startswith("ledger.sqlite3") and os.path.exists(os.path.join(folder, "ledger.sqlite3")):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False  # there is none yet, or none that can be read


def remove(path: str) -> None:
    """Take away what an earlier run has written there. Raises ``BadArgument`` where that is not possible."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadArgument(f"{path}, of an earlier run, cannot be replaced: {error.strerror}") from None


def write(path: str, values: dict[str, Any]) -> None:
    """Put a document of ``values`` at ``path``, readable by its owner alone. A reader sees all of it or none.
    Raises ``OSError`` with nothing left behind.
    """
    import json

    text = json.dumps(values, indent=2, default=str) + "\n"
    put_whole(path, text.encode("utf-8", "backslashreplace"), mode=_MODE)
