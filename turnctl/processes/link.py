"""The protocol between a host, its launcher and the wardens: framed messages over Unix sockets.

A message is one packet of a SEQPACKET socket: a byte of version, a byte that tells where the body is, and the body, a
tuple whose first item is the kind. A body that is too large for a packet (arguments and environment may have
megabytes) lies in a memory file that comes as the last descriptor. Both sides run the same Python, so the body is in
its own format for plain values.

Kinds
  host to launcher   warden(number) with the warden's end of a new socket · rouse(number) · replace(number) · shutdown
  launcher to host   ready(version, pid) · leaving
  host to warden     run(request) with descriptors · stop(steps, cause) · hurry(seconds) · signal(number, scope) ·
                     unheard(seconds, signals) with the ear · mark(ref) · cull(ref, spared, steps, drain); all but run
                     begin with the request's number
  warden to host     started(pid, start) · failed(errno, what) · stopped(signal) · continued · exited(status, after) ·
                     leftovers(members) · asked(cause, after) · signals(list) · marked(ref, identities) ·
                     culled(ref, facts) · ended(facts) · leaving
  launcher, in place of a warden that died    unstarted · killed(signal) · ended(facts)

A kind that is not known is passed over, so a newer side may say more. Spans are seconds; points in time are seconds
since the command was started.

Invariants
  K1  A packet that has been sent is read whole or not at all.
  K2  A request that nobody has read when its reader is gone was not begun: the kernel then tells the sender
      ECONNRESET, once and before what is still to be read, or the launcher says ``unstarted``.
  K3  Descriptors arrive closed on exec.
  K4  ``Line.send`` never blocks: what does not fit waits in memory, bounded, for ``flush``, at the end for ``part``.
"""

import _socket
import marshal
import os
from errno import EAGAIN, ECONNRESET, EINTR, EMFILE, EMSGSIZE, ENOBUFS, EPIPE
from select import POLLOUT, poll
from sys import byteorder
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = tuple[Any, ...]

__all__ = ["MOST_DESCRIPTORS", "VERSION", "Broken", "Line", "pair", "receive", "send"]

VERSION = 1
#: what the kernel lets one packet carry, less the one for a large body
MOST_DESCRIPTORS = 252

_INLINE = 48 * 1024
_HERE, _IN_MEMORY = 0, 1
_CLOEXEC_ON_RECEIPT = 0x40000000
_MOST_WAITING = 1000
_CONTROL_SIZE = _socket.CMSG_SPACE(4 * (MOST_DESCRIPTORS + 1))


class Broken(Exception):
    """The other side is gone. ``unread`` if it went without having read what was sent to it."""

    def __init__(self, unread: bool = False) -> None:
        super().__init__("the other side of the socket is gone")
        self.unread = unread


def pair() -> tuple[_socket.socket, _socket.socket]:
    """Two connected sockets, closed on exec and not blocking."""
    kind = _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
    return _socket.socketpair(_socket.AF_UNIX, kind, 0)


def send(sock: _socket.socket, message: "Message", fds: tuple[int, ...] = ()) -> None:
    """Send one message. Raises ``BlockingIOError`` where it does not fit now, ``Broken`` where nobody can read it.

    The descriptors are copied by the kernel and stay the caller's.
    """
    body = marshal.dumps(message)
    if len(body) <= _INLINE:
        _send(sock, bytes((VERSION, _HERE)) + body, fds)
        return
    memory = os.memfd_create("turnctl", os.MFD_CLOEXEC)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(memory, rest) :]
        _send(sock, bytes((VERSION, _IN_MEMORY)), (*fds, memory))
    finally:
        os.close(memory)


def _send(sock: _socket.socket, packet: bytes, fds: tuple[int, ...]) -> None:
    rights = []
    if fds:
        numbers = b"".join([fd.to_bytes(4, byteorder) for fd in fds])
        rights.append((_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers))
    try:
        sock.sendmsg([packet], rights, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
    except OSError as error:
        if error.errno in (EPIPE, ECONNRESET):
            raise Broken(unread=error.errno == ECONNRESET) from None
        if error.errno in (ENOBUFS, EAGAIN):
            raise BlockingIOError(EAGAIN, "the other side does not read") from None
        raise


def receive(sock: _socket.socket) -> "tuple[Message, tuple[int, ...]] | None":
    """The next message with its descriptors, None if there is none now. Raises ``Broken`` at the end."""
    try:
        packet, rights, flags, _ = sock.recvmsg(_INLINE + 64, _CONTROL_SIZE, _socket.MSG_DONTWAIT | _CLOEXEC_ON_RECEIPT)
    except OSError as error:
        if error.errno in (EAGAIN, EINTR):
            return None
        if error.errno == ECONNRESET:
            raise Broken(unread=True) from None
        raise
    fds = [
        int.from_bytes(numbers[at : at + 4], byteorder)
        for level, kind, numbers in rights
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS
        for at in range(0, len(numbers) - len(numbers) % 4, 4)
    ]
    if not packet:
        raise Broken
    try:
        _check(packet, flags)
        body = packet[2:]
        if packet[1] == _IN_MEMORY:
            memory = fds.pop()
            try:
                body = _contents(memory)
            finally:
                os.close(memory)
        return marshal.loads(body), tuple(fds)  # noqa: S302 - written by our own other half
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _check(packet: bytes, flags: int) -> None:
    if packet[0] != VERSION:
        raise OSError(EMSGSIZE, f"a message of protocol version {packet[0]}, this side speaks {VERSION}")
    if flags & (_socket.MSG_CTRUNC | _socket.MSG_TRUNC):
        raise OSError(EMFILE, "a message was cut: this process has too few descriptors left to receive it")


def _contents(memory: int) -> bytes:
    size = os.fstat(memory).st_size
    parts = []
    at = 0
    while at < size:
        part = os.pread(memory, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


class Line:
    """One side of a socket for a loop that must never block: messages that do not fit wait in memory."""

    __slots__ = ("_waiting", "dropped", "is_broken", "sock")

    def __init__(self, sock: _socket.socket) -> None:
        self.sock = sock
        self.is_broken = False
        self.dropped = 0
        self._waiting: list[Message] = []

    def fileno(self) -> int:
        return self.sock.fileno()

    @property
    def is_waiting(self) -> bool:
        """Whether ``flush`` is to be called when the socket takes more."""
        return bool(self._waiting) and not self.is_broken

    def send(self, *message: object) -> None:
        """Send, or keep until ``flush``. What nobody can read any more is passed over."""
        if len(self._waiting) >= _MOST_WAITING and message[0] in ("signals", "stopped", "continued"):
            self.dropped += 1
            return
        self._waiting.append(message)
        self.flush()

    def flush(self) -> None:
        """Send as much as fits now."""
        while self._waiting and not self.is_broken:
            try:
                send(self.sock, self._waiting[0])
            except BlockingIOError:
                return
            except Broken:
                self.is_broken = True
                return
            del self._waiting[0]

    def part(self, within_s: float) -> None:
        """Bring the last messages to a side that may be slow to read. Blocks for so long at most."""
        until = monotonic() + within_s
        room = poll()
        room.register(self.fileno(), POLLOUT)
        while self.is_waiting and monotonic() < until:
            room.poll(int((until - monotonic()) * 1000) + 1)
            self.flush()

    def receive(self) -> "tuple[Message, tuple[int, ...]] | None":
        """As ``receive``; what was sent before the end is read before it."""
        try:
            return receive(self.sock)
        except Broken as broken:
            if not broken.unread:
                raise
            return receive(self.sock)  # the kernel tells first that something of ours was not read, and once

    def close(self) -> None:
        self.sock.close()
