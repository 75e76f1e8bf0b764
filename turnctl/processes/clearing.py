"""Ending what earlier commands have left on this machine, by identity: asked first, killed after a grace.

Invariants
  Z1  Nobody is signalled but by a pidfd that was opened before its start time and its mark were read again: a process
      that has the number of one that has ended is never reached.
  Z2  Nobody is signalled who was not given, but for what a given one has started meanwhile: it has the same mark, or
      descends from one that is still there.
  Z3  Only processes of this user are signalled, whatever else this user may do, and none that runs this one.
  Z4  The word for each is what was seen: its end by the pidfd, never the signal that was sent.

Blocks for the grace and what a kill takes. Not promised: that what a process does in its end leaves nothing; what was
found by descent from one that has ended meanwhile has nothing that ties it to a command, and counts by its start alone.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from turnctl.processes.kernel import open_pidfd
from turnctl.processes.marks import own_namespace
from turnctl.processes.remains import Leftover, leftovers, mark_of
from turnctl.processes.table import read_entry

__all__ = ["Cleared", "Fate", "end_leftovers"]

Fate = Literal["term", "kill", "gone", "not ours", "other user", "caller", "alive"]
#: how long the kernel has to end what was killed, before it is named
_KILL_S = 5.0
#: how often it is looked for what they have started meanwhile
_ROUNDS = 5


class Cleared(NamedTuple):
    """What became of one leftover.

    ``term`` and ``kill``: it ended after that was sent. ``gone``: it had ended by itself. ``not ours``: its number is
    another process's, or somebody holds it now. ``other user``: it belongs to somebody else. ``caller``: this process
    descends from it. ``alive``: it is there still.
    """

    leftover: Leftover
    fate: Fate


class _Held:
    """One process that a pidfd holds on to."""

    def __init__(self, leftover: Leftover, fd: int) -> None:
        self.leftover = leftover
        self.fd = fd
        self.fate: Fate = "alive"
        self.sent: Fate = "gone"

    def send(self, number: int, word: Fate) -> None:
        try:
            signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            return  # it has ended, which the descriptor tells
        except PermissionError:
            return  # another user's by now (a set-uid program): it stays "alive"
        self.sent = word


def end_leftovers(found: Sequence[Leftover], *, grace_s: float) -> tuple[Cleared, ...]:
    """End these, and what they start meanwhile; with a grace of 0 nobody is asked. What became of each, in order.

    Not thread-safe; not a checkpoint.
    """
    done: list[Cleared] = []
    known = {(one.pid, one.start) for one in found}
    wardens = {one.warden for one in found if one.warden}
    more = list(found)
    for _ in range(_ROUNDS):
        done += _end(more, grace_s)
        # who is born during a look, of one that ends before the look comes to it, is seen by the next one alone
        new = _new(known, wardens) or _new(known, wardens)
        if not new:
            break
        known |= {(one.pid, one.start) for one in new}
        more, grace_s = new, 0.0  # what comes up in its place is not asked again and again
    return tuple(done)


def _new(known: set[tuple[int, int]], wardens: set[int]) -> list[Leftover]:
    """Those that have come up since, of the same commands (Z2)."""
    return [one for one in leftovers() if (one.pid, one.start) not in known and one.warden in wardens]


def _end(found: Sequence[Leftover], grace_s: float) -> list[Cleared]:
    done: dict[Leftover, Fate] = {}
    held: list[_Held] = []
    try:
        for one in found:
            taken = _taken(one)
            if isinstance(taken, _Held):
                held.append(taken)
            else:
                done[one] = taken
        if grace_s > 0:
            for each in held:
                each.send(signal.SIGTERM, "term")
                entry = read_entry(each.leftover.pid)
                if entry is not None and entry.state in "Tt":
                    each.send(signal.SIGCONT, "term")  # it would never hear of it
            _wait(held, grace_s)
        for each in _left(held):
            each.send(signal.SIGKILL, "kill")
        _wait(held, _KILL_S)
        return [Cleared(one, done.get(one) or _fate_of(one, held)) for one in found]
    finally:
        for each in held:
            os.close(each.fd)


def _taken(one: Leftover) -> _Held | Fate:
    """Hold on to it, or say why not (Z1, Z3)."""
    if one.user != os.geteuid():
        return "other user"
    if one.pid in _above():
        return "caller"
    fd = open_pidfd(one.pid)
    if fd is None:
        return "gone" if read_entry(one.pid) is None else "alive"
    verdict = _verdict(one)
    if verdict is None:
        return _Held(one, fd)
    os.close(fd)
    return verdict


def _above() -> set[int]:
    """This process, and those that it descends from."""
    found, pid = set[int](), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        entry = read_entry(pid)
        pid = 0 if entry is None else entry.ppid
    return found


def _verdict(one: Leftover) -> Fate | None:
    """Why it is not to be signalled; None where it is that process, and nobody's."""
    entry = read_entry(one.pid)
    if entry is None or entry.is_dead:
        return "gone"
    try:
        user = os.stat(f"/proc/{one.pid}").st_uid
    except OSError:
        return "gone"
    if int(entry.start) != one.start:
        return "not ours"
    if user != one.user:
        return "other user"
    mark = mark_of(one.pid)
    if one.found_by == "mark" and (mark is None or mark.namespace != own_namespace() or mark.warden[0] != one.warden):
        return "not ours"  # it has become another program since, with an environment of its own
    return "not ours" if mark is not None and mark.is_held() else None


def _wait(held: list[_Held], seconds: float) -> None:
    """Until all have ended, for so long at most."""
    until = time.monotonic() + seconds
    poll = select.poll()
    waiting = {each.fd: each for each in _left(held)}
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while waiting:
        ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
        for fd, _ in ready:
            poll.unregister(fd)
            each = waiting.pop(fd)
            each.fate = each.sent
        if not ready and time.monotonic() >= until:
            return


def _left(held: list[_Held]) -> Iterator[_Held]:
    return (each for each in held if each.fate == "alive")


def _fate_of(one: Leftover, held: list[_Held]) -> Fate:
    return next(each.fate for each in held if each.leftover is one)
