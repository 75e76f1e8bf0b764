"""The kinds of value that options take: signals, sizes, folders, files. Each refusal says what would be right."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import click

from turnctl.cli import summary
from turnctl.cli.folder import gone_for
from turnctl.errors import BadArgument
from turnctl.processes.signames import number_of
from turnctl.processes.sizes import parse_size

__all__ = ["Folder", "Leftovers", "NewFile", "Signal", "Size"]


if TYPE_CHECKING:
    # generic from click 8.4 on, for type checkers alone
    OfText = click.ParamType[str]
    OfNumber = click.ParamType[int]
else:
    OfText = OfNumber = click.ParamType


class Size(OfText):
    """A number of bytes, such as 64k or 10MiB; given on as text, since ``none`` is one."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_size(str(value), what="size" if param is None else param.opts[-1])
        except BadArgument as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Signal(OfNumber):
    """A signal by name, with or without SIG, or by number; given on as a number."""

    name = "SIG"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = number_of(str(value))
        if number is None:
            self.fail(f"unknown signal {value!r}; {_near(str(value))}", param, ctx)
        return number


def _near(text: str) -> str:
    name = text.strip().upper()
    if name.lstrip("+-").isdecimal():
        return f"the numbers of signals go from 1 to {max(signal.valid_signals()):d}"
    if "RTM" in name:
        return f"real-time signals go from RTMIN to RTMAX, which is RTMIN+{signal.SIGRTMAX - signal.SIGRTMIN}"
    from difflib import get_close_matches

    names = [one.removeprefix("SIG") for one in signal.Signals.__members__]
    near = get_close_matches(name.removeprefix("SIG"), names, n=1, cutoff=0.7)
    return "write it like TERM, SIGTERM or 15" + (f" (did you mean {near[0]}?)" if near else "")


_NO_LEFTOVERS = {
    "end-now": "here they are ended at once by end, since the turn ends with the command",
    "detach": "nothing of turnctl is left to own them, which needs a ledger that this version does not have; "
    "start what is to go on outside of turnctl run",
}


class Leftovers(OfText):
    """What becomes of what a command leaves behind: ``end`` or ``wait``. The turn ends with the command here."""

    name = "POLICY"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in ("end", "wait"):
            self.fail(f"{str(value)!r} is not possible; {_NO_LEFTOVERS.get(str(value), 'use end or wait')}", param, ctx)
        return str(value)


class Folder(OfText):
    """A folder that can be entered."""

    name = "DIR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not os.path.exists(value):
            self.fail(f"there is no folder {value!r}{gone_for(str(value))}", param, ctx)
        if not os.path.isdir(value):
            self.fail(f"{value!r} is not a folder", param, ctx)
        if not os.access(value, os.X_OK):
            self.fail(f"the folder {value!r} may not be entered by this user", param, ctx)
        return str(value)


class NewFile(OfText):
    """A file that can be written, tried at once."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return summary.check(value)
        except BadArgument as error:
            self.fail(str(error), param, ctx)
