"""The warden: supervises one command at a time, and ends only on the kernel's word that nothing of it is left.

Stand-alone: forked by the launcher, one thread, a child subreaper before anything is started. It waits in one poll: on
the socket to the host, a descriptor that tells of children, the launcher's life (a pipe) and the host's (a pidfd).

Invariants
  G1  ``ended`` with ``empty`` true is sent only on a proof, W1 or W5 of ``sweep``. With false it names who is there.
  G2  It never blocks on the host: a host that is stopped, swapped or wedged still has its commands ended on time.
  G3  A ladder asks, step by step, and kills at ``kill_at``, which only ever moves earlier. It begins by a stop, by the
      command's timeout or the owner's deadline, by a signal that the host does not read (``unheard``), by the loss of
      the host or the launcher, or by the policy for leftovers.
  G4  The loss of the host or the launcher ends the command by the steps that the request has for that case; only a
      command that was detached outlives them.
  G5  It serves another command only after ECHILD, if nothing was ever killed or odd. Else it ends.
  G6  Between two commands it holds no descriptor of either.

Every phase ends: asking by the steps, killing by ``drain`` seconds after the first KILL.
"""

import os
from _socket import socket
from errno import EMFILE
from select import POLLIN, POLLOUT
from time import monotonic

from turnctl.processes.birth import NotStarted
from turnctl.processes.console import Console
from turnctl.processes.culls import Culls
from turnctl.processes.holds import begin
from turnctl.processes.kernel import become_reaper, continue_with_parent, failpoint, has_unheard_signals
from turnctl.processes.kin import UNSEEN
from turnctl.processes.link import Broken, Line
from turnctl.processes.steps import FIRST_PAUSE_S, Ladder
from turnctl.processes.sweep import Below
from turnctl.processes.unheard import Unheard
from turnctl.processes.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Warden", "serve"]

#: an idle warden ends after this long
IDLE_S = 10.0
#: how long leftovers of a command that ended by itself have to end before they are told of
SETTLE_S = 0.1
#: what one poll waits at most; it takes no longer number
LONGEST_S = 1_000_000.0
#: for the last message to a host that does not read
PARTING_S = 60.0

#: exit status that tells the launcher what became of this warden
GONE_CLEAN, GONE_WITH_SURVIVORS = 0, 3


class Warden:
    """One warden with its loop. ``run`` returns the exit status."""

    def __init__(self, sock: socket, wake: int, launcher: int, host: int) -> None:
        self._line = Line(sock)
        self._wake = wake
        self._launcher = launcher
        self._host = host
        self._watch = Watch()
        self._watch.add(sock.fileno(), self._on_message)
        self._watch.add(wake, self._on_child)
        self._watch.add(launcher, self._on_launcher_gone)
        self._watch.add(host, self._on_host_gone)
        self._request: dict[str, Any] | None = None
        self._below = Below(os.getpid())
        self._ladder: Ladder | None = None
        self._began = 0.0
        self._deadline: float | None = None
        self._settle_at: float | None = None
        self._unheard = Unheard()
        self._culls = Culls(self._line)
        self._console = Console()
        self._policy = "end"
        self._is_odd = False
        self._has_told_exit = False
        self._lost = ""
        self._idle_at = monotonic() + IDLE_S
        self._status: int | None = None

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self) -> int:
        while self._status is None:
            line = self._line
            then = self._watch.then
            if line.fileno() in then:
                self._watch.poll.modify(line.fileno(), POLLIN | POLLOUT if line.is_waiting else POLLIN)
            until = self._next_at()
            timeout = None if until is None else max(0, int(min(until - monotonic(), LONGEST_S) * 1000) + 1)
            for ready, happened in self._watch.poll.poll(timeout):
                if ready == line.fileno() and happened & POLLOUT:
                    line.flush()
                if happened & ~POLLOUT and ready in then:
                    then[ready]()
            if self._request is not None:
                self._advance(monotonic())
            elif self._lost or monotonic() >= self._idle_at:
                self._leave(GONE_CLEAN)
        return self._status

    def _next_at(self) -> float | None:
        if self._request is None:
            return self._idle_at
        times = [self._unheard.next_at(), self._culls.next_at()]
        if self._ladder is not None:
            times.append(self._ladder.next_at(self._request["drain"]))
        else:
            times += (self._deadline, self._settle_at)
        return min([at for at in times if at is not None], default=None)

    def _leave(self, status: int) -> None:
        if status == GONE_CLEAN and not self._lost and not self._is_odd:
            self._line.send("leaving")
        self._line.part(PARTING_S)
        failpoint("warden-leaving")
        self._status = status

    # -- what is heard -------------------------------------------------------------------------------------------------

    def _on_child(self) -> None:
        try:
            os.read(self._wake, 65536)
        except BlockingIOError:
            pass

    def _on_below(self) -> None:
        if not self._below.hear():
            self._watch.remove(self._below.fd)

    def _on_host_gone(self) -> None:
        self._watch.remove(self._host)
        self._lose("host")

    def _on_launcher_gone(self) -> None:
        self._watch.remove(self._launcher)
        self._lose("launcher")

    def _lose(self, whom: str) -> None:
        """Somebody is gone without whom nothing goes on (G4)."""
        self._lost = self._lost or whom
        if whom != "launcher":
            self._console.restore(self._below.leader)
        self._is_odd = True
        request = self._request
        if request is not None and not (self._policy == "detach" and self._below.status is not None):
            self._begin(request["orphaned"], whom)

    def _on_message(self) -> None:
        while self._status is None:
            try:
                got = self._line.receive()
            except (Broken, ValueError, EOFError, TypeError):
                self._watch.remove(self._line.fileno())
                self._lose("owner")
                return
            except OSError as error:
                if self._request is None:
                    self._line.send("failed", error.errno, "setup")
                elif error.errno != EMFILE:
                    raise
                # else it was cut, as only one with descriptors can be: what the host may be unable to tell
                continue
            if got is None:
                return
            message, fds = got
            try:
                if message[0] == "run":
                    if self._request is None:
                        self._start(message[1], fds)
                else:
                    self._obey(message, fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _obey(self, message: "tuple[Any, ...]", fds: tuple[int, ...]) -> None:
        kind, number, *rest = message
        request = self._request
        if request is None or request["number"] != number:
            return  # too late: of a command that is over
        if kind == "stop":
            self._begin(*rest)
        elif kind == "hurry":
            if self._ladder is None:
                self._begin(request["steps"] if rest[0] > 0 else (), "stop")
            if self._ladder is not None:  # what began just now may be over
                self._ladder.shorten(monotonic() + rest[0])
        elif kind == "unheard":
            self._expect(rest[0], rest[1], fds[0] if fds else -1)
        elif kind == "signal":
            if rest[1] == "group":
                self._below.signal_group(rest[0])
            else:
                self._below.signal_leader(rest[0])
            self._tell_sent()
        elif kind in ("mark", "cull"):
            self._culls.obey(kind, rest, self._below, self._began)

    # -- one command ---------------------------------------------------------------------------------------------------

    def _start(self, request: "dict[str, Any]", fds: tuple[int, ...]) -> None:
        failpoint("warden-asked")
        self._request = request
        self._ladder = self._deadline = self._settle_at = None
        self._has_told_exit = False
        self._policy = request["leftovers"]
        try:
            self._below = below = begin(request, fds, self._lift)
        except (NotStarted, OSError) as error:
            self._request = None
            self._idle_at = monotonic() + IDLE_S
            self._line.send("failed", error.errno, error.what if isinstance(error, NotStarted) else "setup")
            return
        failpoint("warden-started")
        self._began = monotonic()
        self._watch.add(below.fd, self._on_below)
        if request["timeout"] is not None:
            self._deadline = self._began + request["timeout"]
        self._console.hold(request["console"], fds)
        if below.leader:
            self._line.send("started", below.leader, self._began, below.details)
        failpoint("warden-told")
        due_s, numbers, at = request["unheard"]
        if due_s is not None or numbers:
            self._expect(due_s, numbers, fds[at] if at >= 0 else -1)
        if self._lost:
            self._begin(request["orphaned"], self._lost)

    def _expect(self, due_s: "float | None", numbers: tuple[int, ...], fd: int) -> None:
        """What the host may be unable to tell of, from now on."""
        now = monotonic()
        due_at = None if due_s is None else now + due_s
        old = self._unheard.fd
        try:
            self._unheard.expect(due_at, numbers, fd, now)
        except OSError:
            self._unheard.expect(due_at, (), -1, now)  # it has to do without: the host is asked all the same
            return
        if fd >= 0:
            self._watch.remove(old)
        edges = self._unheard.fd
        if edges not in self._watch.then:
            self._watch.add(edges, lambda: self._unheard.on_edge(monotonic()))

    def _lift(self, above: int) -> None:
        """Move what is ours out of the way of numbers that a program is to have."""
        moved = self._watch.move_up(above)
        new = moved.get(self._line.fileno())
        if new is not None:
            self._line.sock.detach()
            self._line.sock = socket(fileno=new)
        for old in moved:
            os.close(old)
        self._wake = moved.get(self._wake, self._wake)
        self._launcher = moved.get(self._launcher, self._launcher)
        self._host = moved.get(self._host, self._host)

    def _advance(self, now: float) -> None:
        below = self._below
        is_empty = below.reap()
        if below.status is None and self._request is not None and self._request["watch_stops"]:
            news = below.stops()
            if news:
                self._line.send(*news)
        if is_empty:
            self._finish(())
            return
        if below.status is not None and not self._has_told_exit:
            self._has_told_exit = True
            self._line.send("exited", below.status, now - self._began)
            failpoint("warden-exited")
            if self._ladder is None:
                self._settle_at = now + SETTLE_S
            if self._policy != "wait":
                self._deadline = None  # the timeout was the main process's own
        cause, presses = self._unheard.found(now)
        if cause and self._request is not None:
            self._begin(self._request["steps"], cause)
            if presses > 1 and self._ladder is not None:
                self._ladder.shorten(now)
        self._culls.step(now, is_ending=self._ladder is not None)
        if self._ladder is not None:
            self._climb(now)
        elif self._settle_at is not None and now >= self._settle_at:
            left = below.left_over(now)
            self._settle_at = now + SETTLE_S if left is None else None
            if left is None and below.holds_only_dead():
                self._is_odd = True
                self._finish(())
            if left is not None:
                self._line.send("leftovers", left)
                self._deal_with_leftovers()
        elif self._deadline is not None and now >= self._deadline:
            assert self._request is not None
            self._begin(self._request["steps"], "timeout")

    def _deal_with_leftovers(self) -> None:
        assert self._request is not None
        if self._policy == "end-now":
            self._begin(self._request["steps"], "leftovers")
        elif self._lost and self._policy != "detach":
            self._begin(self._request["orphaned"], self._lost)

    # -- the ending ----------------------------------------------------------------------------------------------------

    def _begin(self, steps: tuple[tuple[int, float], ...], cause: str) -> None:
        """Begin the ladder, or have the one that goes on end sooner."""
        now = monotonic()
        ladder = Ladder(now, steps, cause)
        if self._ladder is not None:
            self._ladder.shorten(ladder.kill_at)
            return
        self._ladder = ladder
        self._settle_at = None
        self._is_odd = True
        self._line.send("asked", cause, now - self._began)
        failpoint("warden-asked-tree")
        self._climb(now)

    def _climb(self, now: float) -> None:
        ladder, below, request = self._ladder, self._below, self._request
        assert ladder is not None
        assert request is not None
        if ladder.killed_at is None and now >= ladder.kill_at:
            ladder.killed_at = ladder.sweep_at = now
        if ladder.killed_at is None:
            while ladder.asks and now >= ladder.asks[0][0]:
                below.ask(ladder.asks.pop(0)[1])
                failpoint("warden-ladder")
            self._tell_sent()
            return
        reaped = below.reaped
        while not below.reap():
            now = monotonic()
            if below.reaped != reaped:  # they are dying: no need to look by the clock yet
                reaped = below.reaped
                ladder.sweep_at = max(ladder.sweep_at, now + FIRST_PAUSE_S)
            if now < ladder.sweep_at and below.is_swept():
                break
            if below.holds_only_dead():
                self._finish(())
                return
            if now >= ladder.killed_at + request["drain"]:
                self._finish(tuple(below.describe()) or (UNSEEN,))
                return
            below.sweep(self._wake)
            failpoint("warden-killed")
            ladder.sweep_at = ladder.pauses.next_at(monotonic())
        else:
            self._finish(())
            return
        self._tell_sent()

    def _tell_sent(self) -> None:
        sent = self._below.take_sent(self._began)
        if sent:
            self._line.send("signals", sent)

    def _finish(self, survivors: "tuple[tuple[Any, ...], ...]") -> None:
        """Nothing is left, or what is left has been given up."""
        below, ladder = self._below, self._ladder
        self._tell_sent()
        failpoint("warden-empty")
        is_reusable = not (survivors or self._is_odd or self._lost or has_unheard_signals())
        facts = below.facts(survivors) | {
            "cause": "" if ladder is None else ladder.cause,
            "reusable": is_reusable,
            "after": monotonic() - self._began,
        }
        self._watch.remove(below.fd)
        below.close()
        self._line.send("ended", facts)
        self._culls.clear()
        self._watch.remove(self._unheard.fd)
        self._unheard.close()
        self._console.close()
        self._request = self._ladder = self._deadline = self._settle_at = None
        self._idle_at = monotonic() + IDLE_S
        if not is_reusable:
            self._leave(GONE_WITH_SURVIVORS if survivors else GONE_CLEAN)


def serve(sock: socket, launcher: int, host: int) -> int:
    """Be a warden until there is nothing more to do; the exit status. Called in a child of the launcher's own."""
    wake = become_reaper(b"turnctl: warden")
    continue_with_parent()
    failpoint("warden-born")
    return Warden(sock, wake, launcher, host).run()
