"""Limits of one command: names and amounts as people write them, checked, to what ``setrlimit`` takes.

A limit here only ever lowers what this program has: one above the present hard limit is refused, for every user, so
that what a command may do does not depend on who runs it. Nothing here changes a limit of this program.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Mapping
from typing import Any, NamedTuple

from turnctl.clock import format_duration, parse_duration
from turnctl.errors import BadArgument
from turnctl.processes.sizes import format_size, parse_size

__all__ = ["NAMES", "Limits", "read_limits"]

#: of each name what ``resource`` calls it, and what its amounts are
_KINDS = {
    "core": ("RLIMIT_CORE", "size"),
    "cpu": ("RLIMIT_CPU", "time"),
    "data": ("RLIMIT_DATA", "size"),
    "file_size": ("RLIMIT_FSIZE", "size"),
    "locked_memory": ("RLIMIT_MEMLOCK", "size"),
    "memory": ("RLIMIT_AS", "size"),
    "nofile": ("RLIMIT_NOFILE", "count"),
    "processes": ("RLIMIT_NPROC", "count"),
    "stack": ("RLIMIT_STACK", "size"),
}
NAMES = tuple(_KINDS)
#: what ``ulimit``, ``setrlimit`` and others call them
_ELSEWHERE = {
    "as": "memory",
    "address_space": "memory",
    "fds": "nofile",
    "files": "nofile",
    "fsize": "file_size",
    "filesize": "file_size",
    "memlock": "locked_memory",
    "nproc": "processes",
    "open_files": "nofile",
    "pids": "processes",
    "time": "cpu",
    "vmem": "memory",
}
#: the signal of each limit that has one
_SIGNALS = {"cpu": signal.SIGXCPU, "file_size": signal.SIGXFSZ}
#: how long after SIGXCPU the kernel sends KILL
_LAST_S = 1
_LONGEST = 2**62


class Limits(NamedTuple):
    """The limits of one command: for the kernel, and by name with the amount as text."""

    rows: tuple[tuple[int, int, int], ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    is_core_off: bool = False

    def told_by(self, returncode: int | None) -> str:
        """What a status says about a limit, in words; empty if nothing."""
        for name, number in _SIGNALS.items():
            if returncode == -number:
                short, amount = number.name.removeprefix("SIG"), dict(self.words).get(name)
                if amount is None:
                    return f"{short} is what the kernel sends at a limit ({name}); turnctl set none"
                return f"{short} is what the kernel sends at the limit that it had: {name}={amount}"
        return ""


def read_limits(given: Mapping[str, Any] | None, *, core_dumps: bool = True, unit_required: bool = False) -> Limits:
    """Check ``limits=`` and ``core_dumps=``. Raises ``BadArgument``, ``BadDuration`` or ``TypeError``,
    naming the limit.

    An amount of None or "none" lifts the limit, where the hard limit of this program is none either.
    ``unit_required`` has times and sizes given with their units, as on a command line.
    """
    if not isinstance(core_dumps, bool):
        raise TypeError(f"core_dumps is {core_dumps!r}, of type {type(core_dumps).__name__}; give True or False")
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise TypeError(f"limits is of type {type(given).__name__}; give names and amounts, such as {{'cpu': '30s'}}")
    if not core_dumps and "core" in given:
        raise BadArgument("limits has core, and core_dumps=False is given; give one of them")
    read = [_read(name, amount, unit_required) for name, amount in given.items()]
    rows = tuple(row for row, _ in read)
    return Limits(rows if core_dumps else (*rows, _no_core()), tuple(words for _, words in read), not core_dumps)


def _read(name: object, amount: Any, unit_required: bool) -> tuple[tuple[int, int, int], tuple[str, str]]:
    import resource

    if name not in _KINDS:
        raise BadArgument(f"unknown limit {name!r}; {_near(str(name))}")
    assert isinstance(name, str)
    constant, kind = _KINDS[name]
    number = getattr(resource, constant, None)
    if number is None:
        raise BadArgument(f"limit {name}: this system has no such limit; leave it out")
    no_limit = resource.RLIM_INFINITY
    highest = resource.getrlimit(number)[1]
    if amount is None or amount == "none":
        soft, text = no_limit, "none"
    else:
        soft, text = _amount(name, kind, amount, unit_required)
    if highest != no_limit and (soft == no_limit or soft > highest):
        most = _text(kind, highest)
        raise BadArgument(
            f"limit {name}={text} is above the hard limit of this program, {most}; give at most that, or have this "
            "program started with a higher one"
        )
    hard = soft
    if name == "cpu" and soft != no_limit:
        hard = soft + _LAST_S if highest == no_limit else min(soft + _LAST_S, highest)
    return (number, soft, hard), (name, text)


def _no_core() -> tuple[int, int, int]:
    """No core file, and none for a program that the kernel pipes cores to: that one is spared at a limit of 1 byte."""
    import resource

    highest = resource.getrlimit(resource.RLIMIT_CORE)[1]
    most = 1 if highest == resource.RLIM_INFINITY else min(1, highest)
    return resource.RLIMIT_CORE, most, most


def _amount(name: str, kind: str, amount: Any, unit_required: bool) -> tuple[int, str]:
    what = f"limit {name}"
    if kind == "size":
        size = parse_size(amount, what=what, zero=True, unit_required=unit_required)
        assert size is not None
        return size, format_size(size)
    if kind == "time":
        seconds = parse_duration(amount, what=what, unit_required=unit_required)
        assert seconds is not None
        return math.ceil(seconds), format_duration(math.ceil(seconds))
    if isinstance(amount, str) and amount.strip().isdecimal():
        amount = int(amount)
    if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= _LONGEST:
        raise BadArgument(f"{what} is {amount!r}; give a whole number from 0 on, or none")
    return amount, str(amount)


def _text(kind: str, amount: int) -> str:
    if kind == "time":
        return format_duration(amount)
    return format_size(amount) if kind == "size" else str(amount)


def _near(name: str) -> str:
    from difflib import get_close_matches

    plain = name.lower().removeprefix("rlimit_").replace("-", "_")
    meant = plain if plain in _KINDS else _ELSEWHERE.get(plain)
    if meant is None:
        meant = next(iter(get_close_matches(plain, NAMES, n=1)), None)
    return f"did you mean {meant}?" if meant else f"there are: {', '.join(NAMES)}"
