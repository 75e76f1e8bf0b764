"""What the options take, checked: durations, signals, folders, files, pairs. Each refusal says what would be right.

Each function takes the text and the name of its option, and gives on what ``run`` is to have. Raises ``BadArgument``
or ``BadDuration``. None of them needs click, so that a plain line can be read without it.
"""

from __future__ import annotations

import os
import signal as signals
from collections.abc import Callable

from turnctl.cli import summary
from turnctl.cli.folder import gone_for
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.processes.limits import NAMES, read_limits
from turnctl.processes.signames import number_of
from turnctl.processes.sizes import parse_size

__all__ = ["duration", "folder", "leftovers", "limit", "new_file", "pair", "pattern", "signal", "size", "umask"]

_MASK = 0o777
_NO_LEFTOVERS = {
    "end-now": "here they are ended at once by end, since the turn ends with the command",
    "detach": "nothing of turnctl is left to own them, which needs a ledger that this version does not have; "
    "start what is to go on outside of turnctl run",
}


def duration(*, none: bool = False, zero: bool = False) -> Callable[[str, str], str]:
    """A duration with its unit; given on as text, since ``none`` and a number are not the same."""

    def check(value: str, what: str) -> str:
        parse_duration(value, what=what, none=none, zero=zero, unit_required=True)
        return value

    return check


def size(value: str, what: str) -> str:
    """A number of bytes, such as 64k or 10MiB; given on as text, since ``none`` is one."""
    parse_size(value, what=what)
    return value


def signal(value: str, _: str) -> int:
    """A signal by name, with or without SIG, or by number; given on as a number."""
    number = number_of(value)
    if number is None:
        raise BadArgument(f"unknown signal {value!r}; {_near(value)}")
    return number


def _near(text: str) -> str:
    name = text.strip().upper()
    if name.lstrip("+-").isdecimal():
        return f"the numbers of signals go from 1 to {max(signals.valid_signals()):d}"
    if "RTM" in name:
        return f"real-time signals go from RTMIN to RTMAX, which is RTMIN+{signals.SIGRTMAX - signals.SIGRTMIN}"
    from difflib import get_close_matches

    names = [one.removeprefix("SIG") for one in signals.Signals.__members__]
    near = get_close_matches(name.removeprefix("SIG"), names, n=1, cutoff=0.7)
    return "write it like TERM, SIGTERM or 15" + (f" (did you mean {near[0]}?)" if near else "")


def leftovers(value: str, _: str) -> str:
    """What becomes of what a command leaves behind: ``end`` or ``wait``. The turn ends with the command here."""
    if value not in ("end", "wait"):
        raise BadArgument(f"{value!r} is not possible; {_NO_LEFTOVERS.get(value, 'use end or wait')}")
    return value


def folder(value: str, _: str) -> str:
    """A folder that can be entered."""
    if not os.path.exists(value):
        raise BadArgument(f"there is no folder {value!r}{gone_for(value)}")
    if not os.path.isdir(value):
        raise BadArgument(f"{value!r} is not a folder")
    if not os.access(value, os.X_OK):
        raise BadArgument(f"the folder {value!r} may not be entered by this user")
    return value


def new_file(value: str, _: str) -> str:
    """A file that can be written, tried at once; given on with links followed."""
    return summary.check(value)


def pair(value: str, _: str) -> str:
    """NAME=VALUE, given on as it is."""
    _split(value, "write it as NAME=VALUE")
    return value


def limit(value: str, _: str) -> str:
    """A limit with its amount, looked at at once: times and sizes need their unit."""
    name, amount = _split(value, f"write it like cpu=30s, memory=2GiB or nofile=256; there are: {', '.join(NAMES)}")
    read_limits({name: amount}, unit_required=True)
    return value


def _split(value: str, example: str) -> tuple[str, str]:
    name, mark, amount = value.partition("=")
    if not name or not mark:
        raise BadArgument(f"{value!r} has no {'name' if mark else '='}; {example}")
    return name, amount


def umask(value: str, _: str) -> int:
    """A mask in octal digits, given on as a number."""
    try:
        mask = int(value, 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= _MASK:
        raise BadArgument(f"{value!r} is no mask of permissions; write it in octal, such as 077")
    return mask


def pattern(value: str, _: str) -> str:
    """The name of a variable, or a pattern for some."""
    if not value or "=" in value:
        raise BadArgument(f"{value!r} is no name; write a name, or a pattern such as '*_TOKEN'")
    return value
