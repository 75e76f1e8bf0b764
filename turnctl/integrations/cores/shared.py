"""What the requests on one connection (HTTP/2) share: its socket, used by one at a time, and what is left to send.

One thread waits for an answer and reads while another sends its request. A socket allows that; TLS on it does not:
tried with OpenSSL 3, a record that is read while another is written now and then breaks both, and the server ends the
connection ("bad record mac"), with every request on it. httpcore has no lock there. It has one here.

Invariants
  U1  No two threads are inside of the TLS objects of a shared connection at once.
  U2  The lock is held for operations that do not block: the socket is in non-blocking mode from the moment that it
      is shared, whoever asks for another time-out, and nobody waits for readiness with the lock held.
  U3  What could not be sent, because the stop came in the middle, is kept and goes out before anything else, whoever
      writes next: no frame and no record is torn, none overtakes another.

May block: nothing here, but for the lock, for the length of one operation.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["NOBODY", "Shared", "mark_of", "shared_of"]

_SHARED = "_turnctl_shared"


class _Nobody:
    """Stands for the exchange of a request that obeys no turn, on a connection that it shares."""

    stage = ""
    sent = received = None

    def check(self) -> None:
        """There is nobody to stop it."""

    look_back = check

    def obeyed(self) -> None:
        """No token wakes it."""


NOBODY: Any = _Nobody()


class _OneAtATime:
    """``sock``, of which one operation at a time is carried out, without blocking (U1, U2).

    A time-out is remembered for the thread that set it and the socket keeps its mode: with that of another thread a
    read would block.
    """

    def __init__(self, sock: socket.socket, lock: threading.Lock) -> None:
        self._sock = sock
        self._lock = lock
        self._asked = threading.local()
        sock.setblocking(False)

    def recv(self, size: int) -> bytes:
        with self._lock:
            return self._sock.recv(size)

    def send(self, data: bytes | memoryview) -> int:
        with self._lock:
            return self._sock.send(data)

    def settimeout(self, timeout: float | None) -> None:
        self._asked.timeout = timeout

    def gettimeout(self) -> float | None:
        asked: float | None = getattr(self._asked, "timeout", None)
        return asked

    def setblocking(self, flag: bool) -> None:
        """It stays as it is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Shared:
    """The mark of a stream that requests share, and what they cannot lose when one of them is stopped."""

    __slots__ = ("_lock", "rest", "sock")

    def __init__(self, stream: Any) -> None:
        self._lock = threading.Lock()
        #: bytes that have to be sent before anything else (U3); touched with the connection's write lock held
        self.rest = b""
        #: the socket to read from and to write to
        self.sock: Any = stream._sock
        if hasattr(stream, "ssl_obj"):
            stream._sock = self.sock = _OneAtATime(self.sock, threading.Lock())
        elif isinstance(self.sock, ssl.SSLSocket):
            self.sock = _OneAtATime(self.sock, self._lock)

    def keep(self, unsent: bytes) -> None:
        self.rest = unsent

    def carry_out(self, stream: Any, fn: Callable[..., Any]) -> tuple[Any, type[ssl.SSLError] | None]:
        """One operation on the TLS object of ``stream``, which is TLS in TLS: what it gave, or what it waits for.

        What it has to send is in ``rest`` afterwards.
        """
        with self._lock:
            wants: type[ssl.SSLError] | None = None
            given = None
            try:
                given = fn()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
                wants = type(error)
            self.rest += stream._outgoing.read()
        return given, wants

    def take_in(self, stream: Any, data: bytes) -> None:
        """Give ``stream``, which is TLS in TLS, what was received for it; nothing is its end."""
        with self._lock:
            if data:
                stream._incoming.write(data)
            else:
                stream._incoming.write_eof()

    def send_rest(self) -> None:
        """Send ``rest``, in order. Never blocks: raises what the socket raises when it takes no more now."""
        with self._lock:
            while self.rest:
                self.rest = self.rest[self.sock.send(self.rest) :]


def mark_of(stream: Any) -> Shared | None:
    """The mark of ``stream``, if requests share it."""
    found: Shared | None = stream.__dict__.get(_SHARED)
    return found


def shared_of(stream: Any) -> Shared:
    """The mark of ``stream`` that says that requests share it; made with the first call, before others know of it."""
    found = mark_of(stream)
    if found is None:
        found = stream.__dict__.setdefault(_SHARED, Shared(stream))
    return found
