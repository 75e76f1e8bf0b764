"""What may be asked for a command's terminal, checked; and the size of ours."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from turnctl.errors import BadArgument

__all__ = ["NewTty", "read_size", "read_tty", "refuse_streams", "size_of_ours"]

#: rows and columns where there is nothing to go by
USUAL = (24, 80)
_MOST = 65535


class NewTty(NamedTuple):
    """A terminal that is to be made: ``size`` in rows and columns."""

    size: tuple[int, int]
    echo: bool


def read_tty(tty: Any, size: Any, echo: Any) -> NewTty | None:
    """What is asked for, if it is a terminal of its own. Raises ``BadArgument`` or ``TypeError``."""
    if tty not in (None, "inherit", "new"):
        raise BadArgument(f"unknown tty {tty!r}; use inherit, new or None")
    if not isinstance(echo, bool):
        raise TypeError(f"tty_echo is {echo!r}, of type {type(echo).__name__}; give True or False")
    if tty != "new":
        if size is not None or echo:
            raise BadArgument('tty_size and tty_echo are of a terminal that is made for the command: tty="new"')
        return None
    return NewTty(size_of_ours() if size is None else read_size(size, "tty_size"), echo)


def read_size(given: Any, what: str) -> tuple[int, int]:
    """Rows and columns. Raises ``BadArgument`` or ``TypeError``."""
    try:
        rows, columns = given
    except (TypeError, ValueError):
        raise TypeError(f"{what} is {given!r}; give rows and columns, such as (24, 80)") from None
    for number in (rows, columns):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{what} is {given!r}; give whole numbers of rows and columns, such as (24, 80)")
        if not 0 < number <= _MOST:
            raise BadArgument(f"{what} is {given!r}; rows and columns go from 1 to {_MOST}")
    return rows, columns


def size_of_ours() -> tuple[int, int]:
    """The size of the terminal that this program is on, by its standard streams; 24 rows of 80 where there is none."""
    for fd in (1, 0, 2):
        try:
            columns, rows = os.get_terminal_size(fd)
        except (OSError, ValueError):
            continue
        if rows > 0 and columns > 0:
            return rows, columns
    return USUAL


def refuse_streams(capture: bool, merge: bool, *streams: Any) -> None:
    """Raise ``BadArgument`` where streams are directed elsewhere than to the terminal that is made for the command."""
    if not capture or merge or any(stream is not None for stream in streams):
        raise BadArgument(
            'with tty="new" all three streams are the new terminal, and its output is stdout; leave out stdin, stdout, '
            'stderr, merge_stderr and capture (input, or stdin="pipe" with popen, is typed there)'
        )
