"""A socket for clients that read and write on one themselves: its operations are raced with the stop.

It stands where a client expects a socket, on top of the real one, plain or TLS, which is in non-blocking mode from
then on; the time-out is kept here. What it has no method for is the real one's.

Invariants
  Z1  It obeys the exchange that it is bound to, on whatever thread and in whatever context it is used. Bound to none,
      it obeys the turn that is bound where it is used, and outside of turns it waits as a plain socket does.
  Z2  It is the exchange's chance to cut from ``bind`` until ``let_go``; closing it lets go first. So the descriptor
      that is shut down is never one that was closed and given away.
  Z3  Who reads from ``makefile("rb")`` is stopped also where the data is buffered already, and a body whose end is
      known is over when that has been read: the exchange is told before the connection can go back to a pool.

May block: what blocks on a socket, until done, the stop or the time. Thread-safety is that of a socket. Not promised:
that a socket of a kind that is neither plain nor ``ssl``'s is raced: it is cut while somebody waits on it.
"""

from __future__ import annotations

import io
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self, TypeVar

from turnctl.integrations.exchanges import Exchange, passing
from turnctl.integrations.wires import raced
from turnctl.waiting.descriptors import READ, WRITE
from turnctl.waiting.parking import end_of, left_until

__all__ = ["RacedReader", "RacedSocket", "adopt"]

T = TypeVar("T")
_BLANK = (b"\r\n", b"\n")


def adopt(real: Any) -> RacedSocket:
    """``real`` as a ``RacedSocket``, or itself if it is one. Never blocks."""
    return real if isinstance(real, RacedSocket) else RacedSocket(real)


class RacedSocket:
    """A socket by its methods, on top of ``real``; see the module."""

    __slots__ = (
        "__weakref__",
        "_closed",
        "_io_refs",
        "_is_body",
        "_is_raced",
        "_timeout",
        "exchange",
        "real",
        "saw_end",
        "task",
        "was_cut",
    )

    def __init__(self, real: Any) -> None:
        self.real = real
        self.exchange: Exchange | None = None
        #: what the exchange is said to do while it is used, where that is not sending and waiting
        self.task: str | None = None
        #: whether the other side has ended the stream
        self.saw_end = False
        #: whether it was cut for one that it obeyed: then it is of no use to anybody
        self.was_cut = False
        self._is_body = False
        self._closed = False
        self._io_refs = 0
        self._timeout: float | None = real.gettimeout()
        #: raced here; what stands on top of another one of these is raced there, and the rest cannot be
        self._is_raced = isinstance(real, socket.socket)
        if self._is_raced:
            real.setblocking(False)

    # -- whose it is ------------------------------------------------------------------------------------------

    def bind(self, exchange: Exchange | None) -> None:
        """Obey ``exchange`` from now on, and be cut with it; None lets go of the one before."""
        if exchange is None:
            self.let_go()
        elif exchange is not self.exchange:
            self.exchange = exchange
            self._is_body = False
            exchange.hold(self.cut)

    def let_go(self) -> bool:
        """Obey no exchange any more; True if it was cut for none and never will be (Z2)."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None and not exchange.release():
            self.was_cut = True
        return not self.was_cut

    def cut(self) -> None:
        """End the connection under whoever uses it. Never blocks."""
        with suppress(OSError):  # closed, or not connected any more: that is what was wanted
            if self._is_raced:
                socket.socket.shutdown(self.real, socket.SHUT_RDWR)  # SSLSocket's own would drop the TLS object
            else:
                with socket.socket(fileno=os.dup(self.real.fileno())) as other:
                    other.shutdown(socket.SHUT_RDWR)

    def body_began(self) -> None:
        """What is read from now on is a response that was given to the caller, who may read it when he likes."""
        self._is_body = True

    # -- reading and writing ----------------------------------------------------------------------------------

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """As ``socket.recv``. A checkpoint."""
        real = self.real
        data: bytes = self._receive(lambda: real.recv(bufsize, flags) if flags else real.recv(bufsize))
        self._received(len(data), wanted=bufsize)
        return data

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        """As ``socket.recv_into``. A checkpoint."""
        real = self.real
        room = memoryview(buffer).cast("B")[: nbytes or None]
        got: int = self._receive(lambda: real.recv_into(room, 0, flags) if flags else real.recv_into(room))
        self._received(got, wanted=len(room))
        return got

    def _receive(self, once: Callable[[], T]) -> T:
        exchange = self.exchange
        if self._is_body and exchange is not None:
            exchange.watch()  # it comes in parts: between two of them nobody would see a stop
        return self._operate(READ, self._timeout, once)

    def _received(self, got: int, wanted: int) -> None:
        exchange = self.exchange
        if got:
            if exchange is not None:
                exchange.stage = self.task or "reading the response"
                if exchange.received is not None:
                    exchange.received += got
        elif wanted:
            if exchange is not None:
                exchange.look_back()
            self.saw_end = True

    def send(self, data: Any, flags: int = 0) -> int:
        """As ``socket.send``. A checkpoint."""
        return self._send(data, flags, self._timeout)

    def _send(self, data: Any, flags: int, timeout: float | None) -> int:
        real, exchange = self.real, self.exchange
        if exchange is not None:
            exchange.stage = self.task or "sending the request"
        count: int = self._operate(WRITE, timeout, lambda: real.send(data, flags) if flags else real.send(data))
        if exchange is not None and exchange.sent is not None:
            exchange.sent += count
        return count

    def sendall(self, data: Any, flags: int = 0) -> None:
        """As ``socket.sendall``: the time-out is for all of it, with TLS for each part. A checkpoint."""
        timeout = self._timeout
        ends_at = None if isinstance(self.real, ssl.SSLSocket) or timeout == 0 else end_of(timeout)
        with memoryview(data) as view, view.cast("B") as rest:
            at = 0
            while at < len(rest):
                at += self._send(rest[at:], flags, timeout if ends_at is None else left_until(ends_at))

    def _operate(self, mask: int, timeout: float | None, once: Callable[[], T]) -> T:
        exchange = self.exchange or passing("a connection that was there before")
        if self._is_raced:
            if timeout == 0 and self._timeout == 0:
                return once()
            return raced(exchange, self.real, mask, timeout, once)
        if exchange is None or isinstance(getattr(self.real, "socket", None), RacedSocket):
            return once()
        exchange.check()
        exchange.hold(self.cut)
        exchange.watch()
        try:
            return once()
        except Exception:
            exchange.look_back()
            raise
        finally:
            if exchange is not self.exchange:
                exchange.release()

    def unwrap(self) -> RacedSocket:
        """As ``SSLSocket.unwrap``: the plain socket, raced as well. A checkpoint."""
        plain = RacedSocket(self._operate(READ, self._timeout, self.real.unwrap))
        plain.settimeout(self._timeout)
        return plain

    def makefile(self, mode: str = "r", buffering: int | None = None, **text: Any) -> Any:
        """As ``socket.makefile``; what reads bytes through a buffer is a ``RacedReader``. Never blocks."""
        if mode not in ("rb", "br") or buffering == 0 or buffering == 1:
            plainly: Any = socket.socket.makefile
            return plainly(self, mode, buffering, **text)
        raw = socket.SocketIO(self, "r")  # type: ignore[arg-type]
        self._io_refs += 1
        if self.exchange is not None:
            self.exchange.stage = self.task or "waiting for the response"
        size = io.DEFAULT_BUFFER_SIZE if buffering is None or buffering < 0 else buffering
        return RacedReader(raw, size, self)

    # -- the rest of a socket ---------------------------------------------------------------------------------

    def settimeout(self, value: float | None) -> None:
        """Seconds that one operation may take, None for no limit."""
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._timeout = value
        if not self._is_raced:
            self.real.settimeout(value)

    def gettimeout(self) -> float | None:
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout != 0

    def fileno(self) -> int:
        number: int = self.real.fileno()
        return number

    def detach(self) -> int:
        """Give the descriptor away; this one is closed. Who takes it has told the exchange how to cut it."""
        self.exchange = None
        self._closed = True
        number: int = self.real.detach()
        return number

    def shutdown(self, how: int) -> None:
        self.real.shutdown(how)

    def close(self) -> None:
        """Close it as soon as nothing that ``makefile`` gave is open. Never blocks for long."""
        self._closed = True
        if self._io_refs <= 0:
            self.let_go()
            self.real.close()

    def _decref_socketios(self) -> None:  # what SocketIO calls
        if self._io_refs > 0:
            self._io_refs -= 1
        if self._closed:
            self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RacedSocket on {self.real!r}>"


class RacedReader(io.BufferedReader):
    """What ``makefile("rb")`` gives: asks the stop after each read, and tells the exchange how its body ends (Z3)."""

    def __init__(self, raw: io.RawIOBase, size: int, sock: RacedSocket) -> None:
        super().__init__(raw, size)
        self._under = sock
        self.exchange = sock.exchange
        self._is_body = False
        self._length: int | None = None
        self._is_chunked = False
        self._given = 0
        self._is_blank = False  # the last thing read was a blank line, or the size of the last chunk
        self._is_last = False

    def begin_body(self, length: int | None, chunked: bool) -> None:
        """The headers have been read: what follows has ``length`` bytes, or is chunked, or ends with the stream."""
        self._is_body, self._length, self._is_chunked, self._is_blank = True, length, chunked, False
        self._under.body_began()

    def _asked(self, read: Callable[..., T], *args: Any) -> T:
        exchange = self.exchange
        try:
            got = read(*args)
            if exchange is not None:
                exchange.check()
        except BaseException as error:
            if exchange is not None and self._is_body:
                exchange.over(error)
            raise
        if self._is_body:
            self._given += got if isinstance(got, int) else len(got)  # type: ignore[arg-type]
            self._is_blank = False
            if exchange is not None and not self._is_complete():
                exchange.watch()  # there is more to come, and nobody may be reading when the stop does
        return got

    def read(self, size: int | None = -1, /) -> bytes:
        return self._asked(super().read, size)

    def read1(self, size: int = -1, /) -> bytes:
        return self._asked(super().read1, size)

    def readinto(self, buffer: Any, /) -> int:
        return self._asked(super().readinto, buffer)

    def readinto1(self, buffer: Any, /) -> int:
        return self._asked(super().readinto1, buffer)

    def readline(self, size: int | None = -1, /) -> bytes:
        was_last = self._is_last
        line = self._asked(super().readline, size)
        # some servers leave out the blank line after the last chunk, and end the stream
        self._is_blank = line in _BLANK or (not line and was_last)
        self._is_last = line not in _BLANK and bool(line) and not line.partition(b";")[0].strip().strip(b"0")
        return line

    def _is_complete(self) -> bool:
        if self._is_chunked:
            return self._is_blank  # the line after the last chunk, and nothing since
        return self._under.saw_end if self._length is None else self._given >= self._length

    def close(self) -> None:
        """Close it, and let go of the connection if a body was read from it."""
        if self.closed:
            return
        exchange, self.exchange = self.exchange, None
        try:
            if exchange is not None and self._is_body and self._under.exchange is exchange:
                self._under.let_go()
        finally:
            super().close()
        if exchange is None or not self._is_body:
            return
        if self._is_complete():
            exchange.over()
        elif self._under.saw_end:
            exchange.over(EOFError("the connection ended before the response did"))
        else:
            exchange.left()
