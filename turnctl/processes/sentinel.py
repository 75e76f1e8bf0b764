"""The sentinel: a tiny process in the command's group that tells us of the terminal's keys.

With the foreground handed over, Ctrl-C goes to the command's group and not to us. That is right as long as
somebody there reacts to it; a command that ignores it would leave the user without a way to stop anything.
The sentinel gets the same signal at the same moment, and writes its number into a pipe.

Invariants
  S1  It is forked while this process has one thread, and never execs.
  S2  It holds three descriptors, its ends of our pipes, and ends when we end or let go of it.
  S3  Every signal is blocked in it, so nothing that is sent to the group reaches it but KILL and STOP. It
      takes INT, QUIT and HUP off one by one, and tells only those that the kernel sent: a program that
      signals its own group has pressed no key.
  S4  It is in ``helpers`` from its start until it has been reaped, so its number is its own for that time.

Does not promise to survive a KILL of the group; the pipe then ends.
"""

from __future__ import annotations

import os
import select
import signal
from _thread import start_new_thread
from typing import Literal

from turnctl.processes.table import read_table, shows_us

__all__ = ["NAME", "Reaction", "Sentinel", "helpers", "reaction"]

#: what a process table shows of it
NAME = "turnctl-keys"

_JOINING_S = 1.0
_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)

#: children of this process that may sit in a command's group and are never members of it
helpers: set[int] = set()

Reaction = Literal["caught", "ignored", "dying"]


class Sentinel:
    """A running sentinel. Used by one thread, but for ``read``, which another one may block in."""

    __slots__ = ("_joined", "_life", "_report", "pid")

    def __init__(self, pid: int, report: int, joined: int, life: int) -> None:
        self.pid = pid
        self._report = report
        self._joined = joined
        self._life = life

    @classmethod
    def start(cls) -> Sentinel | None:
        """Fork it, in our own group for now; None if no process is to be had. The caller has one thread."""
        report, report_end = os.pipe()
        joined, joined_end = os.pipe()
        life_end, life = os.pipe()
        # blocked before the fork, so that no signal finds it half made
        before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                _stand(report_end, joined_end, life_end)
        except OSError:
            for fd in (report, joined, life):
                os.close(fd)
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            for fd in (report_end, joined_end, life_end):
                os.close(fd)
        helpers.add(pid)
        return cls(pid, report, joined, life)

    def join(self, group: int) -> bool:
        """Have it join ``group``, which is of our session, 0 for one of its own; whether it did. Blocks until then, a
        second at most.

        May be called in a forked child of ours as well, for the child's own group: that is the one way to have it
        there before the child becomes a command.
        """
        try:
            os.write(self._life, group.to_bytes(4, "little"))
            return bool(select.select([self._joined], [], [], _JOINING_S)[0]) and os.read(self._joined, 1) == b"y"
        except OSError:
            return False  # it has ended

    @property
    def ends(self) -> tuple[int, int]:
        """Where to write the number of a group that it is to join, and whence it answers with a byte."""
        return (self._life, self._joined)

    def read(self) -> bytes:
        """The numbers of the signals that came, one byte each; empty once the sentinel has ended. Blocks."""
        return os.read(self._report, 64)

    def end(self) -> None:
        """End it and reap it; a blocked ``read`` returns. Takes the time of one KILL."""
        if self._life < 0:
            return
        os.close(self._life)
        self._life = -1
        try:
            os.kill(self.pid, signal.SIGKILL)  # our child, and nobody has reaped it (S4)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass  # a host that reaps every child by itself
        helpers.discard(self.pid)

    def close(self) -> None:
        """Let go of the pipes, once nobody reads from them any more."""
        os.close(self._report)
        os.close(self._joined)


def _stand(report: int, joined: int, life: int) -> None:
    """The whole life of the sentinel; never returns."""
    try:
        _close_all_but(report, joined, life)
        _name_ourselves(NAME)
        start_new_thread(_obey, (joined, life))
        while True:
            number = _next_key()
            if number:
                os.write(report, bytes([number]))
    finally:
        os._exit(0)


def _name_ourselves(name: str) -> None:
    """So that ``ps`` does not show the same program twice."""
    try:
        with open("/proc/self/comm", "w", encoding="ascii") as comm:
            comm.write(name)
    except OSError:
        pass


def _obey(joined: int, life: int) -> None:
    """Join the groups whose numbers come, and end with the pipe."""
    try:
        while number := os.read(life, 4):
            try:
                os.setpgid(0, int.from_bytes(number, "little"))
                os.write(joined, b"y")
            except OSError:
                os.write(joined, b"n")
    finally:
        os._exit(0)


def _next_key() -> int:
    if not hasattr(signal, "sigwaitinfo"):
        return signal.sigwait(_KEYS)  # no word of the sender here: taken for a key
    info = signal.sigwaitinfo(_KEYS)
    return info.si_signo if info.si_code > 0 else 0


def _close_all_but(*kept: int) -> None:
    low = 0
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def reaction(group: int, signum: int) -> Reaction:
    """What becomes of a signal to the group: somebody handles it, somebody lives on and ignores it, or all die.

    One that blocks the signal may be waiting for it and counts as handling it, unless others ignore it: every fork
    blocks all signals for a moment. One that is stopped handles nothing. Helpers do not count. Where there is no
    /proc of ours to tell, it is ``caught``: not ours to decide.
    """
    if not shows_us():
        return "caught"
    bit = 1 << (signum - 1)
    is_ignored = is_blocked = False
    for entry in read_table().values():
        if entry.pgrp != group or entry.pid in helpers or entry.is_dead:
            continue
        masks = _masks(entry.pid)
        if masks is None:
            continue  # ended meanwhile
        if entry.state == "T" or masks[b"SigIgn"] & bit:
            is_ignored = True
        elif masks[b"SigCgt"] & bit:
            return "caught"
        elif masks[b"SigBlk"] & bit:
            is_blocked = True
    return "ignored" if is_ignored else "caught" if is_blocked else "dying"


def _masks(pid: int) -> dict[bytes, int] | None:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    masks = {
        name: int(value, 16)
        for name, _, value in (line.partition(b":\t") for line in lines)
        if name in (b"SigBlk", b"SigIgn", b"SigCgt")
    }
    return masks if len(masks) == 3 else None
