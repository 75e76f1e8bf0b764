"""What a client does with a socket, raced with the stop: look up, connect, secure, send, receive.

The socket is put into non-blocking mode and waited for by one ``poll`` over it and the stop. So a stop wakes the
thread that waits, with ``CancelledError`` as it is: no other thread shuts a socket, no connection error has to be told
from a stop, and no retry of the client, which all catch ``Exception``, sends anything again.

Invariants
  Y1  The stop is looked at before each operation and in each wait. What has been received is returned, so that
      nothing is lost which belongs to another exchange on the same connection; the adapter asks again after it. It
      is also looked at after an error and at the end of the stream: both may come of its having cut the connection.
  Y2  An operation that was stopped leaves the socket open, in the middle of something: who called it closes it, or
      goes on with what it was sending (``unsent``).
  Y3  What cannot be interrupted (a look-up of names, the connect of a Unix socket, the connect of others) runs on a
      thread of its own. A stop leaves that thread behind at once, named and counted; what it brings later is dropped.

May block: all of it, until done, the stop or the time. Times are seconds; None is no limit; a limit that has passed
raises ``TimeoutError``, as a socket does. Thread-safety is that of a socket: one thread reads, one writes.
"""

from __future__ import annotations

import errno
import functools
import os
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from turnctl import points
from turnctl.tokens.current import bound
from turnctl.waiting import abandoned
from turnctl.waiting.descriptors import READ, WRITE, wait_ready
from turnctl.waiting.parking import end_of, must_raise, pend
from turnctl.waiting.worker import Worker

if TYPE_CHECKING:
    from turnctl.integrations.exchanges import Exchange

__all__ = [
    "apart",
    "connect",
    "connect_unix",
    "handshake",
    "look_up",
    "raced",
    "receive",
    "receive_into",
    "secure",
    "send",
]

T = TypeVar("T")
Address = tuple[Any, ...]

_STARTED = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)


def receive(exchange: Exchange, sock: socket.socket, size: int, timeout: float | None = None) -> bytes:
    """Up to ``size`` bytes, at least one; none at the end of the stream. A checkpoint at its start."""
    data = raced(exchange, sock, READ, timeout, lambda: sock.recv(size))
    if not data:
        exchange.look_back()
    if exchange.received is not None:
        exchange.received += len(data)
    return data


def receive_into(exchange: Exchange, sock: socket.socket, buffer: Any, timeout: float | None = None) -> int:
    """As ``receive``, into ``buffer``; how many bytes. A checkpoint at its start."""
    got = raced(exchange, sock, READ, timeout, lambda: sock.recv_into(buffer))
    if not got:
        exchange.look_back()
    if exchange.received is not None:
        exchange.received += got
    return got


def send(
    exchange: Exchange,
    sock: socket.socket,
    data: bytes | bytearray | memoryview,
    timeout: float | None = None,
    unsent: Callable[[bytes], object] | None = None,
) -> None:
    """Send all of ``data``; ``timeout`` is for each part that the kernel takes. A checkpoint at its start.

    When it is stopped after a part was sent, ``unsent`` gets the rest: on a connection that others share the next
    writer has to send that first.
    """
    view = memoryview(data).cast("B")
    try:
        while view:
            count = raced(exchange, sock, WRITE, timeout, lambda: sock.send(view))  # noqa: B023 - called before the next round
            if exchange.sent is not None:
                exchange.sent += count
            view = view[count:]
    except BaseException:
        if unsent is not None:
            unsent(bytes(view))
        raise


def handshake(exchange: Exchange, sock: ssl.SSLSocket, timeout: float | None = None) -> None:
    """Carry out the TLS handshake of a socket that was wrapped with ``do_handshake_on_connect=False``."""
    exchange.stage = "securing the connection"
    raced(exchange, sock, READ, timeout, sock.do_handshake)


def secure(
    exchange: Exchange,
    sock: socket.socket,
    context: ssl.SSLContext,
    server_hostname: str | None = None,
    timeout: float | None = None,
) -> ssl.SSLSocket:
    """``sock`` with TLS on it, in non-blocking mode; it takes ``sock`` over. A checkpoint at its start.

    A context that only shakes hands while it wraps (a class of somebody else) does so on a thread of its own, which
    a stop frees by a shutdown of the socket.
    """
    exchange.check()
    exchange.stage = "securing the connection"
    if not _can_defer(context):
        return _secure_apart(exchange, sock, context, server_hostname, timeout)
    sock.setblocking(False)
    secured = context.wrap_socket(sock, server_hostname=server_hostname, do_handshake_on_connect=False)
    try:
        handshake(exchange, secured, timeout)
    except BaseException:
        secured.close()
        raise
    return secured


def _can_defer(context: Any) -> bool:
    """Whether the handshake can be had apart from the wrapping, with all that the context looks at in it."""
    if type(context).wrap_socket is ssl.SSLContext.wrap_socket:
        return True
    inner = getattr(context, "_ctx", None)  # truststore: its sockets look at the certificate themselves
    made = getattr(inner, "sslsocket_class", ssl.SSLSocket)
    return made.do_handshake is not ssl.SSLSocket.do_handshake


def _secure_apart(
    exchange: Exchange, sock: socket.socket, context: ssl.SSLContext, server_hostname: str | None, timeout: float | None
) -> ssl.SSLSocket:
    sock.settimeout(timeout)
    wrap = functools.partial(context.wrap_socket, sock, server_hostname=server_hostname)
    with sock.dup() as handle:  # ``sock`` gives its descriptor away in there
        try:
            secured = apart(exchange, "TLS handshake", wrap, drop=ssl.SSLSocket.close)
        except BaseException:
            _shut(handle)
            raise
    secured.setblocking(False)
    return secured


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # its other end was faster


def connect(
    exchange: Exchange,
    host: str,
    port: int,
    timeout: float | None = None,
    source_address: Address | None = None,
    options: Iterable[tuple[Any, ...]] = (),
    family: int = 0,
) -> socket.socket:
    """A connected socket, in non-blocking mode; the addresses of ``host`` are tried in turn, as the library does.

    ``timeout`` is for each address and does not hold for the look-up. Raises the ``OSError`` of the last one. A
    checkpoint at its start.
    """
    last: OSError | None = None
    for family_, kind, proto, _, address in look_up(exchange, host, port, family):
        exchange.stage = f"connecting to {_spelled(address)}"
        sock: socket.socket | None = None
        try:
            sock = socket.socket(family_, kind, proto)
            for option in options:
                sock.setsockopt(*option)
            if source_address:
                sock.bind(source_address)
            _connect(exchange, sock, address, timeout)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if not isinstance(error, OSError):
                raise
            last = error
        else:
            return sock
    assert last is not None
    try:
        raise last
    finally:
        last = None  # its traceback holds this frame


def _connect(exchange: Exchange, sock: socket.socket, address: Address, timeout: float | None) -> None:
    exchange.check()
    sock.setblocking(False)
    status = sock.connect_ex(address)
    if status in _STARTED:
        points.reach("wires.connecting")
        _wait(exchange, sock, WRITE, end_of(timeout))
        status = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if status:
        raise OSError(status, os.strerror(status))


def connect_unix(
    exchange: Exchange, path: str, timeout: float | None = None, options: Iterable[tuple[Any, ...]] = ()
) -> socket.socket:
    """A socket connected to ``path``, in non-blocking mode. A checkpoint at its start.

    A full backlog cannot be waited for with ``poll``, so the connect has a thread of its own.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    exchange.stage = f"connecting to {path}"
    try:
        for option in options:
            sock.setsockopt(*option)
        sock.settimeout(timeout)
        # the thread that is left behind keeps the socket until its connect has come back
        apart(exchange, f"connect to {path}", _connect_held, sock, path)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _connect_held(sock: socket.socket, path: str) -> None:
    sock.connect(path)


def look_up(exchange: Exchange, host: str, port: int, family: int = 0) -> list[Any]:
    """The addresses of ``host``, as ``socket.getaddrinfo`` gives them. A checkpoint at its start.

    A look-up cannot be interrupted: a stop leaves its thread behind, named in the report.
    """
    exchange.check()
    exchange.stage = f"looking up {host}"
    try:
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
    except OSError:
        pass  # a name, and no address: that takes a server
    return apart(
        exchange, f"look-up of {host}", socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, kind="lookup"
    )


def _spelled(address: Address) -> str:
    host, port = address[0], address[1]
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


# -- what cannot be interrupted (Y3) ------------------------------------------------------------------------------


class _Apart(Worker):
    """A thread for one call that cannot be interrupted. The end of the turn does not wait for it either."""

    def __init__(self, exchange: Exchange, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kind: str) -> None:
        super().__init__(exchange.turn, fn, args, {}, kind=kind, name=name)
        self._context.run(bound.set, None)  # it obeys nobody: the stop is its caller's to look at
        self._wanted = [True]
        self.drop: Callable[[Any], object] | None = None
        self.on_end = self._hand_over

    def _hand_over(self) -> None:
        if not self.take() and self.drop is not None and self.error is None:
            result, self.result = self.result, None
            self.drop(result)

    def take(self) -> bool:
        """Whether this is the first who asks: the thread that brings the result, or the caller who gives it up."""
        try:
            return self._wanted.pop()
        except IndexError:
            return False

    def end(self, kill_at: Callable[[], float]) -> None:  # noqa: ARG002 - no grace helps
        self.leave()

    def leave(self) -> None:
        if self._is_ours and not self.has_ended:
            abandoned.add(self)
            if self.activity is not None:
                self.activity.close("abandoned", "it cannot be interrupted; its thread was left behind")


def apart(
    exchange: Exchange,
    name: str,
    fn: Callable[..., T],
    *args: Any,
    drop: Callable[[T], object] | None = None,
    kind: str = "connect",
) -> T:
    """``fn(*args)`` on a thread of its own that a stop leaves behind at once. A checkpoint at its start.

    ``kind`` is what the report calls it. ``drop`` gets a result that comes when nobody waits any more, on that thread:
    a socket, say, to be closed.
    """
    exchange.check()
    abandoned.admit(name)
    token = exchange.token
    worker = _Apart(exchange, name, fn, args, kind)
    worker.drop = drop
    try:
        worker.start()
        while not worker.has_ended and not must_raise(token):
            pend(token, lambda: worker.has_ended, None, worker.waiters)
        points.reach("wires.apart.looking")
        if must_raise(token):
            token.check()
    except BaseException:
        _give_up(worker)
        raise
    if worker.error is not None:
        raise worker.error
    result: T = worker.result
    return result


def _give_up(worker: _Apart) -> None:
    if worker.take():
        worker.leave()
        return
    worker.wait()  # it is handing over, which takes no time
    result, worker.result = worker.result, None
    if worker.drop is not None and worker.error is None and result is not None:
        worker.drop(result)


# -- the wait (Y1) ------------------------------------------------------------------------------------------------


def raced(exchange: Exchange | None, sock: socket.socket, mask: int, timeout: float | None, once: Callable[[], T]) -> T:
    """What ``once()`` gives as soon as ``sock`` can do it. A checkpoint at its start, and where it fails.

    ``once`` is one operation on ``sock``, which this puts into non-blocking mode; ``mask`` says what a plain socket
    has to be ready for, a TLS socket says so itself. With ``exchange`` None it is waited for without any stop.
    """
    ends_at: float | None = None
    is_timed = False
    if sock.gettimeout() != 0:
        sock.setblocking(False)  # which is a system call
    while True:
        if exchange is not None:
            exchange.check()
        try:
            return once()
        except BlockingIOError:
            waits_for = mask
        except ssl.SSLWantReadError:
            waits_for = READ
        except ssl.SSLWantWriteError:
            waits_for = WRITE
        except OSError:
            if exchange is not None:
                exchange.look_back()
            raise
        if not is_timed:
            ends_at, is_timed = end_of(timeout), True
        points.reach("wires.blocking")
        _wait(exchange, sock, waits_for, ends_at)


def _wait(exchange: Exchange | None, sock: socket.socket, mask: int, ends_at: float | None) -> None:
    fd = sock.fileno()
    if fd < 0:
        raise OSError(errno.EBADF, "the socket was closed while it was in use")
    if not wait_ready(None if exchange is None else exchange.obeyed(), {fd: mask}, ends_at):
        raise TimeoutError("timed out")
