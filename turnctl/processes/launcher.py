"""The launcher: the process from which every warden of a host is forked, and above all of them the last reaper.

Stand-alone: run as ``python -I -S``, one per host process. It has one thread, is a child subreaper, no child of the
host, and holds nothing of the host's but one end of a socket and a pidfd of it.

Invariants
  A1  It runs no command and opens nothing of a command. A warden holds the socket of its own command only.
  A2  It keeps a copy of each warden's end of the socket. If a warden is killed, the orphans fall to the launcher, which
      kills them and says so in the warden's place; a request that the warden had not read is told as not begun.
  A3  It ends when the host has gone (end of the socket, or the pidfd), when told to, or when it has had no warden and
      no request for ``IDLE_S``; but not before its wardens have ended, nor, within ``DRAIN_S``, orphans.
  A4  Its own death closes a pipe that every warden watches.
  A5  What it says in a warden's place reaches a host that is slow to read; for that it waits ``PARTING_S`` at most.
  A6  A warden that somebody stopped is continued on the host's word and when the host has gone, and is killed on the
      host's word, or if it stands still ``STILL_S`` after the host has gone: its orphans are ended then (A2).
"""

import gc
import os
from _socket import socket
from select import POLLIN, POLLOUT, poll
from time import monotonic

from turnctl.processes import warden
from turnctl.processes.kernel import (
    SIGCONT,
    SIGKILL,
    become_reaper,
    close_all_but,
    failpoint,
    run_and_exit,
)
from turnctl.processes.kin import UNSEEN, read_member
from turnctl.processes.link import VERSION, Broken, Line
from turnctl.processes.steps import Pauses
from turnctl.processes.sweep import Below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Launcher", "main"]

IDLE_S = 10.0
#: how long orphans of a killed warden are killed again and waited for
DRAIN_S = 5.0
#: how long a host may take to read what is said in a warden's place
PARTING_S = 60.0
#: how long a warden may stand still after the host has gone; from look to look twice as long
STILL_S = 2.0
MOST_STILL_S = 60.0


class Charge:
    """A warden and our copy of its end of the socket."""

    __slots__ = ("ended", "line", "number", "pid")

    def __init__(self, pid: int, number: int, sock: socket) -> None:
        self.pid = pid
        #: by which the host names it
        self.number = number
        self.line = Line(sock)
        #: how it ended, while its orphans are being ended
        self.ended: int | None = None


class Launcher:
    """The loop. ``run`` returns when there is nothing more to do."""

    def __init__(self, control: socket, host: int, wake: int) -> None:
        self._control = Line(control)
        self._host = host
        self._wake = wake
        self._life = os.pipe2(os.O_CLOEXEC)
        self._charges: dict[int, Charge] = {}
        self._bereaved: list[Charge] = []
        self._below = Below(os.getpid(), spared=self._wardens)
        self._given_up: frozenset[int] = frozenset()
        self._sweep_at: float | None = None
        self._swept_until = 0.0
        self._pauses = Pauses()
        self._look_at: float | None = None
        self._still_s = STILL_S
        # what is said last in a warden's place, and until when it may wait
        self._parting: dict[int, tuple[Line, float]] = {}
        self._idle_at = monotonic() + IDLE_S
        self._is_over = False
        self._poll = poll()
        self._watched: dict[int, Callable[[], None]] = {}
        for fd, then in ((control.fileno(), self._on_message), (wake, self._on_child), (host, self._on_host_gone)):
            if fd >= 0:
                self._watched[fd] = then
                self._poll.register(fd, POLLIN)

    def _wardens(self) -> frozenset[int]:
        return self._given_up.union(self._charges)

    def run(self) -> None:
        self._control.send("ready", VERSION, os.getpid())
        failpoint("launcher-ready")
        while True:
            self._look_after()
            self._part()
            if not (self._charges or self._parting) and self._sweep_at is None:
                if self._is_over:
                    return
                if monotonic() >= self._idle_at:
                    self._control.send("leaving")
                    failpoint("launcher-leaving")
                    return
            for ready, _ in self._poll.poll(self._timeout()):
                if ready in self._watched:
                    self._watched[ready]()

    def _timeout(self) -> int | None:
        times = [
            at for at in (self._sweep_at, self._look_at, *[at for _, at in self._parting.values()]) if at is not None
        ]
        if not times:
            if self._is_over or self._charges:
                return None
            times = [self._idle_at]
        until = min(times)
        return max(0, int((until - monotonic()) * 1000) + 1)

    # -- what is heard -------------------------------------------------------------------------------------------------

    def _on_child(self) -> None:
        try:
            os.read(self._wake, 65536)
        except BlockingIOError:
            pass

    def _on_host_gone(self) -> None:
        """Nothing more is heard from it. Wardens see its end by themselves: they watch it as this process does.

        A host that lives is told by the end of this socket, and starts another launcher.
        """
        self._is_over = True
        for pid in self._charges:
            os.kill(pid, SIGCONT)
        self._look_at = monotonic() + self._still_s
        for fd in (self._host, self._control.fileno()):
            if self._watched.pop(fd, None) is not None:
                self._poll.unregister(fd)
        self._control.close()

    def _on_message(self) -> None:
        while not self._is_over:
            try:
                got = self._control.receive()
            except (Broken, OSError, ValueError, EOFError):
                self._on_host_gone()
                return
            if got is None:
                return
            message, fds = got
            self._idle_at = monotonic() + IDLE_S
            if message[0] == "warden" and len(fds) == 1:
                failpoint("launcher-asked")
                self._fork(message[1], socket(fileno=fds[0]))
                continue
            for fd in fds:
                os.close(fd)
            if message[0] == "shutdown":
                self._on_host_gone()
            elif message[0] in ("rouse", "replace"):
                for charge in self._charges.values():
                    if charge.number == message[1]:
                        os.kill(charge.pid, SIGCONT if message[0] == "rouse" else SIGKILL)

    def _look_for_still(self, now: float) -> None:
        """Kill the wardens that stand still although the host has gone (A6). One that waits in peace does not."""
        for pid in self._charges:
            member = read_member(pid)
            if member is not None and member.state in "Tt":
                os.kill(pid, SIGKILL)
        self._still_s = min(self._still_s * 2, MOST_STILL_S)
        self._look_at = now + self._still_s if self._charges else None

    def _fork(self, number: int, sock: socket) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            line = Line(sock)
            line.send("failed", error.errno, "setup")
            line.close()
            return
        if pid == 0:
            run_and_exit(lambda: self._be_warden(sock))
        self._charges[pid] = Charge(pid, number, sock)
        failpoint("launcher-forked")

    def _be_warden(self, sock: socket) -> int:
        close_all_but(tuple([fd for fd in (sock.fileno(), self._life[0], self._host) if fd >= 0]))
        return warden.serve(sock, self._life[0], self._host)

    # -- ends of wardens, and what they leave --------------------------------------------------------------------------

    def _look_after(self) -> None:
        below = self._below
        now = monotonic()
        if self._look_at is not None and now >= self._look_at:
            self._look_for_still(now)
        if below.reap(self._on_end) or below.holds_only_dead():
            self._settle(())
            return
        if self._sweep_at is None:
            self._begin_sweeps(now)  # of a warden that was killed, or gave up
        if now >= self._swept_until:
            self._give_up()
            return
        while not below.reap(self._on_end):
            now = monotonic()
            if now < (self._sweep_at or 0.0) and below.is_swept():
                return
            if now >= self._swept_until:
                self._give_up()
                return
            if below.holds_only_dead():
                break
            below.sweep(self._wake)
            failpoint("launcher-killed")
            self._sweep_at = min(self._pauses.next_at(monotonic()), self._swept_until)
        self._settle(())

    def _begin_sweeps(self, now: float) -> None:
        self._sweep_at = now
        self._swept_until = now + DRAIN_S
        self._pauses = Pauses()

    def _on_end(self, pid: int, status: int) -> None:
        """A child has been reaped: a warden, or an orphan."""
        charge = self._charges.pop(pid, None)
        if charge is None:
            self._given_up = self._given_up - {pid}
            return
        self._idle_at = max(self._idle_at, monotonic())
        charge.ended = status
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) in (warden.GONE_CLEAN, warden.GONE_WITH_SURVIVORS):
            self._tell_unread(charge)
            self._let_go(charge.line)
            return
        failpoint("launcher-bereaved")
        if self._tell_unread(charge):
            self._let_go(charge.line)
            return
        charge.line.send("killed", os.waitstatus_to_exitcode(status))
        self._bereaved.append(charge)
        self._begin_sweeps(monotonic())

    def _tell_unread(self, charge: Charge) -> bool:
        """Say of a request that the warden had not read that it was not begun; whether there was one."""
        found = False
        while True:
            try:
                got = charge.line.receive()
            except (Broken, OSError, ValueError, EOFError):
                return found
            if got is None:
                return found
            message, fds = got
            for fd in fds:
                os.close(fd)
            if message[0] == "run":
                found = True
                charge.line.send("unstarted")

    def _let_go(self, line: Line) -> None:
        """Close it, once the host has read so much that the last of it has found room (A5)."""
        fd = line.fileno()
        if not line.is_waiting:
            line.close()
            return
        self._parting[fd] = line, monotonic() + PARTING_S
        self._poll.register(fd, POLLOUT)
        self._watched[fd] = line.flush

    def _part(self) -> None:
        """Close those that have said all, or have nobody left to say it to."""
        now = monotonic()
        for fd, (line, until) in list(self._parting.items()):
            if not line.is_waiting or now >= until:
                del self._parting[fd], self._watched[fd]
                self._poll.unregister(fd)
                line.close()

    def _give_up(self) -> None:
        me = os.getpid()
        survivors = tuple(self._below.describe()) or (UNSEEN,)
        self._given_up = self._given_up.union(one.pid for one in self._below.members() if one.ppid == me)
        self._settle(survivors)

    def _settle(self, survivors: "tuple[tuple[Any, ...], ...]") -> None:
        """The orphans of the killed wardens are gone, or have been given up: tell each host's end of it."""
        bereaved, self._bereaved = self._bereaved, []
        self._sweep_at = None
        sent = self._below.take_sent(monotonic())
        for charge in bereaved:
            facts = {
                "status": None,
                "empty": not survivors,
                "survivors": survivors,
                "cpu": (0.0, 0.0),
                "memory": 0,
                "reaped": 0,
                "seen": len(self._below.seen),
                "killed": len(self._below.struck),
                "cause": "warden",
                "reusable": False,
                "after": None,
            }
            charge.line.send("signals", sent)
            charge.line.send("ended", facts)
            self._let_go(charge.line)
        if bereaved:
            self._below = Below(os.getpid(), spared=self._wardens)


def main(control: int, host: int, *, in_session: bool) -> None:
    """Be the launcher. ``control`` and ``host`` are descriptors; the second is -1 where there are no pidfds."""
    failpoint("launcher-born")
    if in_session:
        os.setpgid(0, 0)
    else:
        os.setsid()
    os.chdir("/")
    close_all_but(tuple(fd for fd in (control, host) if fd >= 0))
    for fd in (control, host):
        if fd >= 0:
            os.set_inheritable(fd, False)
    wake = become_reaper(b"turnctl: launcher")
    gc.freeze()  # what is loaded stays: no collection walks it, nor copies its pages into the wardens
    Launcher(socket(fileno=control), host, wake).run()
    os._exit(0)
