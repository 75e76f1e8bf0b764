"""A command in a pid namespace of its own, as its warden holds it: ``Below`` for what hangs on an ``nsinit``.

Stand-alone, for a warden. Whoever is in there is found and asked from outside, by the numbers that they have outside,
which are those that everybody is told; the main process's group alone is asked from inside, where it has a number that
nobody else can have.

Invariants
  V1  Nothing is left if and only if the first process has been reaped: the kernel tells of its death only after
      everybody in the namespace has gone.
  V2  Killing asks the first process to kill everybody else in one step, so that it can tell how the main process
      ended; it is killed itself as soon as that is known, or after ``TELL_S``.
  V3  It is killed by its number while it is our unreaped child.
"""

import os
from _socket import SCM_CREDENTIALS, SO_PASSCRED, SOL_SOCKET, socket
from errno import EIO
from select import POLLIN, poll
from sys import byteorder
from time import monotonic

from turnctl.processes import link, nsinit
from turnctl.processes.birth import NotStarted
from turnctl.processes.kernel import SIGKILL, failpoint, open_pidfd, run_and_exit
from turnctl.processes.kin import Member, describe, own_children, send, walk
from turnctl.processes.marks import own_namespace
from turnctl.processes.sweep import Below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Nested", "begin"]

#: how long the first process has to tell how the main process ended, after everybody was killed
TELL_S = 1.0
#: how long it has to answer
ANSWER_S = 0.5
#: how long the end of a namespace is waited for, in which nothing was started
ENDING_MS = 200


class Nested(Below):
    """What lives in the namespace of one command."""

    def __init__(self, init: int, leader: int, line: link.Line, details: "dict[str, Any]") -> None:
        super().__init__(init)
        self.init = init
        self.leader = leader
        self.line = line
        self.details = details
        self._count = 0
        self._answers: dict[int, bool] = {}
        self._news: list[tuple[Any, ...]] = []
        self._kill_init_at: float | None = None

    @property
    def fd(self) -> int:
        return self.line.fileno()

    def close(self) -> None:
        self.line.close()

    # -- what it tells -------------------------------------------------------------------------------------------------

    def hear(self) -> bool:
        while True:
            try:
                got = self.line.receive()
            except (link.Broken, OSError, ValueError, EOFError):
                return False  # its end is seen by ``wait``
            if got is None:
                return True
            message = got[0]
            if message[0] == "exited":
                self.status = message[1]
            elif message[0] == "sent":
                self._answers[message[1]] = message[2]
            else:
                self._news.append(message)

    def stops(self) -> "tuple[Any, ...]":
        self.hear()
        return self._news.pop(0) if self._news else ()

    def reap(self, ended: "Callable[[int, int], None] | None" = None) -> bool:
        self.hear()
        while True:
            try:
                found = os.waitid(os.P_PID, self.init, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if found is None:
                return False
            self.hear()  # what it said last
            status = self._let_go(self.init)
            if ended is not None:
                ended(self.init, status)

    def release(self) -> None:
        """Nothing to let go of: the first process holds the main one until nobody is left."""

    # -- asking and killing --------------------------------------------------------------------------------------------

    def members(self) -> list[Member]:
        return [member for member in walk(own_children(self.init)) if member.pid != self.init]

    def describe(self, reason: str = "") -> list[tuple[int, int, int, str, bytes, str]]:
        # where nobody can be found, the first process stands for those that keep it
        found = self.members() or walk(own_children(self.init))
        return [describe(member, reason) for member in found]

    def signal_group(self, signum: int) -> bool:
        return self._from_inside(signum, "group")

    def signal_leader(self, signum: int) -> bool:
        return self.status is None and self._from_inside(signum, "process")

    def _from_inside(self, signum: int, scope: str) -> bool:
        """Have the first process send it; whether it reached anybody. Waits ``ANSWER_S`` for the answer."""
        self._count += 1
        count = self._count
        self.line.send("signal", count, signum, scope)
        until = monotonic() + ANSWER_S
        ready = poll()
        ready.register(self.line.fileno(), POLLIN)
        while count not in self._answers and not self.line.is_broken:
            left = until - monotonic()
            if left <= 0 or any(happened & ~POLLIN for _, happened in ready.poll(int(left * 1000) + 1)):
                break
            self.hear()
        self.hear()
        if not self._answers.pop(count, False):
            return False
        self._note(signum, scope, self.leader)
        return True

    def _send(self, member: Member, signum: int) -> int:
        errno = send(member, signum, self.init)
        if errno == 0:
            self._note(signum, "process", member.pid)
        return errno

    def sweep(self, wake: int) -> None:  # noqa: ARG002 - nothing has to be waited for
        now = monotonic()
        for member in self.members():
            self.seen.add((member.pid, member.start))
            self.struck.add((member.pid, member.start))
        if self._kill_init_at is None:
            self._kill_init_at = now + TELL_S
            self.line.send("kill")
            self._note(SIGKILL, "namespace", self.init)
        if self.status is not None or self.line.is_broken or now >= self._kill_init_at:
            os.kill(self.init, SIGKILL)  # V3

    def is_swept(self) -> bool:
        return self._kill_init_at is not None


def begin(request: "dict[str, Any]", fds: tuple[int, ...]) -> Nested:
    """Start the command of a request in a namespace of its own. Raises ``NotStarted``; then nothing is left.

    Where its first process was killed in the moment of the start, so that the command may have run, what is returned
    has no ``leader``; nothing of it is left then.
    Blocks until the program has been loaded, which a hung file system can delay.
    """
    ours, theirs = link.pair()
    ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 1)
    init = 0
    before = own_children(os.getpid())
    try:
        maker = os.fork()
        if maker == 0:
            run_and_exit(lambda: _make(ours, theirs, request, fds))
        theirs.close()
        failpoint("warden-made")
        os.waitpid(maker, 0)
        init = _first_child(before)
        line = link.Line(ours)
        line.send("go")
        told, leader = _await_word(ours)
        if init and told[0] in ("started", "lost"):
            ours.setsockopt(SOL_SOCKET, SO_PASSCRED, 0)
            return Nested(init, leader, line, told[1] | {"init": (init, own_namespace())})
    except BaseException:
        _end(init, ours)
        raise
    finally:
        theirs.close()
    _end(init, ours)
    if told[0] == "failed":
        raise NotStarted(told[1], told[2])
    raise NotStarted(EIO, "namespace:gone")


def _make(ours: socket, theirs: socket, request: "dict[str, Any]", fds: tuple[int, ...]) -> int:
    ours.close()
    return nsinit.make(theirs, request, fds)


def _first_child(before: list[int]) -> int:
    """The first process, which fell to us when its maker ended; 0 where the maker made none."""
    return next((pid for pid in own_children(os.getpid()) if pid not in before), 0)


def _await_word(sock: socket) -> "tuple[tuple[Any, ...], int]":
    """What became of the start, and the command's pid as it is known here."""
    import marshal

    is_starting = False
    ready = poll()
    ready.register(sock.fileno(), POLLIN)
    while True:
        ready.poll()
        try:
            packet, extras, _, _ = sock.recvmsg(65536, 4096)
        except ConnectionResetError:
            continue  # told once, before what is still to be read
        if len(packet) < 2:
            return ("lost" if is_starting else "gone", {}), 0
        pid = 0
        for level, kind, data in extras:
            if level == SOL_SOCKET and kind == SCM_CREDENTIALS:
                pid = int.from_bytes(data[:4], byteorder)
        told = marshal.loads(packet[2:])  # noqa: S302 - written by our own other half
        if told[0] == "starting":
            is_starting = True
            continue
        return told, pid


def _end(init: int, sock: socket) -> None:
    """End the first process of a command that was not started.

    If somebody outside is still in the group that the command was to have, as one that listens for the keys of its
    terminal, it cannot end before that one has heard of it: then it is reaped with the next command.
    """
    sock.close()
    if not init:
        return
    try:
        os.kill(init, SIGKILL)
    except ProcessLookupError:
        return
    fd = open_pidfd(init)
    if fd is not None:
        gone = poll()
        gone.register(fd, POLLIN)
        gone.poll(ENDING_MS)
        os.close(fd)
    os.waitpid(init, os.WNOHANG)
