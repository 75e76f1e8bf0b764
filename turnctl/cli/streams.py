"""What becomes of stdout and stderr of a command: handed on as they are, or read here and written on.

A terminal is handed on as it is, so that the command sees one. Anything else can go through turnctl, which keeps it
for the record. Two streams that are one open file (``2>&1``) go through one pipe, which keeps their order.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import NamedTuple

__all__ = ["BOTH", "Outputs", "is_one_file", "read_outputs"]

#: what two streams on one pipe are called
BOTH = "stdout+stderr"
_STREAMS = {"stdout": 1, "stderr": 2}
_KCMP_FILE = 0
#: the number of the call by the name of the machine
_KCMP = {"x86_64": 312, "aarch64": 272}


class Outputs(NamedTuple):
    """What becomes of each stream."""

    #: the streams that go through turnctl, with the descriptors that they are written on to
    through: dict[str, int]
    #: whether one pipe carries both
    is_joint: bool
    #: for the record: the name that a stream is kept by, or why it is not
    told: dict[str, str]


def read_outputs(*, keeps: bool, watches: bool, tty: str) -> Outputs:
    """What is to become of them. ``keeps`` is for the record, ``watches`` for options that have to see all of it."""
    if tty == "new":
        return Outputs({}, False, dict.fromkeys(_STREAMS, BOTH if keeps else "not kept"))
    through, told = {}, {}
    for name, fd in _STREAMS.items():
        if getattr(sys, f"__{name}__") is None:  # the number may by now be another file's
            told[name] = "closed"
        elif not watches and os.isatty(fd):
            told[name] = "a terminal, which is not kept"
        elif watches or keeps:
            through[name] = fd
            told[name] = name if keeps else "not kept"
        else:
            told[name] = "not kept"
    is_joint = len(through) == 2 and is_one_file(1, 2)
    if is_joint and keeps:
        told = dict.fromkeys(told, BOTH)
    return Outputs(through, is_joint, told)


def is_one_file(one: int, other: int) -> bool:
    """Whether what is written to either comes after what was written to the other, in one file.

    Of pipes, sockets and devices that is so if they are the same; of two files only where it is one opening, or both
    append. Where the system does not tell, the place in the file does.
    """
    a, b = os.fstat(one), os.fstat(other)
    if (a.st_dev, a.st_ino) != (b.st_dev, b.st_ino):
        return False
    if not stat.S_ISREG(a.st_mode):
        return True
    import fcntl

    flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (one, other)]
    if all(flag & os.O_APPEND for flag in flags):
        return True
    found = _is_one_opening(one, other)
    if found is not None:
        return found
    return flags[0] == flags[1] and os.lseek(one, 0, os.SEEK_CUR) == os.lseek(other, 0, os.SEEK_CUR)


def _is_one_opening(one: int, other: int) -> bool | None:
    """What the kernel says; None where it does not."""
    number = _KCMP.get(os.uname().machine) if sys.platform == "linux" else None
    if number is None:
        return None
    import ctypes

    pid = os.getpid()
    answer: int = ctypes.CDLL(None).syscall(number, pid, pid, _KCMP_FILE, one, other)
    return None if answer < 0 else answer == 0
