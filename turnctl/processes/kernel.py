"""Calls to the kernel that the launcher and its wardens share, with nothing imported that starts slowly.

Stand-alone: the launcher runs without site-packages and loads neither ``ctypes`` nor ``signal``, ``socket``,
``subprocess`` or ``typing``. ``prctl`` is reached through the C part of ``ctypes`` alone.

Failpoints: a process whose environment has ``TURNCTL_FAILPOINT=name`` kills itself on reaching that name, and with
``name:stop`` stops itself. Tests of crashes use it; nothing else does.
"""

import _signal  # type: ignore[import-not-found,unused-ignore]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

__all__ = [
    "SIGCHLD",
    "SIGCONT",
    "SIGKILL",
    "SIGSTOP",
    "WALL",
    "adopt_orphans",
    "bar_tracers",
    "become_reaper",
    "call",
    "close_all_but",
    "continue_with_parent",
    "failpoint",
    "has_unheard_signals",
    "hear_children",
    "open_pidfd",
    "prctl",
    "rename",
    "run_and_exit",
]

SIGKILL: int = int(_signal.SIGKILL)
SIGSTOP: int = int(_signal.SIGSTOP)
SIGCONT: int = int(_signal.SIGCONT)
SIGCHLD: int = int(_signal.SIGCHLD)

#: for the ``wait`` family: children of every kind, however they were cloned
WALL = 0x40000000

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1

#: what a helper ends with that an exception ended
_FAILED = 70

_failing_at = os.environ.get("TURNCTL_FAILPOINT", "")


def failpoint(name: str) -> None:
    """Be killed or stopped here, if a test asked for that."""
    if not _failing_at or name != _failing_at.partition(":")[0]:
        return
    if _failing_at.endswith(":stop"):
        os.kill(os.getpid(), SIGSTOP)
        return
    os.kill(os.getpid(), SIGKILL)
    os._exit(137)  # the first process of a namespace, whom its own signals do not reach


def run_and_exit(main: "Callable[[], int]") -> "NoReturn":
    """In a fork: run ``main`` and end with its status. What it raises is written to stderr, which a log may be."""
    status = _FAILED
    try:
        status = main()
    except BaseException:  # noqa: BLE001 - whoever forked us has a loop of its own, which must not go on here
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def prctl(option: int, *args: int) -> int:
    """The system call of that name; the result, minus one if it was refused.

    Raises ``ImportError`` for a Python that was built without foreign functions, ``OSError`` where the C library has
    no such call.
    """
    import _ctypes

    itself: Any = None
    function = _ctypes.dlsym(_ctypes.dlopen(itself, 0), "prctl")
    padded = (option, *args, 0, 0, 0, 0)[:5]
    return int(_ctypes.call_cdeclfunction(function, padded))


def call(name: str, *args: int | bytes | None) -> int:
    """A function of the C library; its result. Raises ``OSError`` with its errno where that is minus one."""
    import _ctypes

    class Int(_ctypes._SimpleCData):  # type: ignore[misc,name-defined,type-arg,unused-ignore]
        _type_ = "i"

    class Function(_ctypes.CFuncPtr):
        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = Int

    itself: Any = None
    make: Any = Function
    result: int = make(_ctypes.dlsym(_ctypes.dlopen(itself, 0), name))(*args)
    if result == -1:
        errno = _ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))
    return result


def adopt_orphans() -> None:
    """From now on every orphan among the descendants becomes a child of this process. Not inherited by a fork."""
    if prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        raise OSError("the kernel refused to make this process a child subreaper")


def bar_tracers(barred: bool = True) -> None:
    """Nobody of this user may trace this process or take its descriptors from now on. Inherited by a fork, not by exec.

    Its files in /proc are root's then: what is to be written there is written before.
    """
    prctl(_PR_SET_DUMPABLE, 0 if barred else 1)


def continue_with_parent() -> None:
    """Be continued by the kernel when the parent ends: who was stopped until then hears of it. Not inherited."""
    prctl(_PR_SET_PDEATHSIG, SIGCONT)


def rename(title: bytes) -> None:
    """Show as ``title`` in lists of processes, so that a pattern meant for other programs does not match.

    And bar tracers, from then on.
    """
    bar_tracers(False)  # what is written below would be root's
    try:
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(title[:15])
        with open("/proc/self/stat", "rb", buffering=0) as file:
            field = file.read(4096).rpartition(b")")[2].split()
        first, end = int(field[45]), int(field[46])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(first)
            memory.write(title[: end - first - 1].ljust(end - first, b"\0"))
    except (OSError, ValueError, IndexError):
        pass  # no /proc here: the name stays, which only matters to who kills by name
    bar_tracers()


def open_pidfd(pid: int) -> int | None:
    """A descriptor of the process, None where this machine, its sandbox or its limits refuse one."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def close_all_but(kept: tuple[int, ...]) -> None:
    """Close every descriptor from 3 on that is not in ``kept``."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = [*range(3, min(os.sysconf("SC_OPEN_MAX"), 65536))]
    for fd in found:
        if fd >= 3 and fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # the one that listed them


def hear_children() -> int:
    """Arrange that a child that ends or stops makes a descriptor readable, and return it.

    Every signal is blocked from now on: a process that is sent more of them than it can take would come to nothing
    else. They are caught besides, for the moment in which a program is started: a handler, unlike an ignored signal, is
    not handed on to it. What was ignored when this process began is no longer.
    """
    _signal.pthread_sigmask(_signal.SIG_SETMASK, _signal.valid_signals())
    for number in range(1, int(_signal.NSIG)):
        if number not in (SIGKILL, SIGSTOP, SIGCONT, *_LEFT):
            try:
                _signal.signal(number, _nothing)
            except (OSError, ValueError):
                pass  # a number that this machine does not have
    _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
    heard = (1 << (SIGCHLD - 1)).to_bytes(_SIGSET_SIZE, sys.byteorder)
    return call("signalfd", -1, heard, os.O_CLOEXEC | os.O_NONBLOCK)


# the faults of a program itself: their default is the only answer
_LEFT = (_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT, _signal.SIGTRAP)
_SIGSET_SIZE = 128


def become_reaper(title: bytes) -> int:
    """Show as ``title``, hear of children, and adopt orphans; the descriptor of ``hear_children``."""
    rename(title)
    wake = hear_children()
    adopt_orphans()
    return wake


def has_unheard_signals() -> bool:
    """Whether somebody has sent signals that wait here: all but the one for children."""
    return not _signal.sigpending() <= {SIGCHLD}


def _nothing(_number: int, _frame: object) -> None:
    pass
