"""A ``with`` block around reads and writes of one connection, which a stop ends by shutting the connection down.

Invariants
  Q1  The connection is bridged inside the block only. When the block is left it is not shut down any more, so it may
      serve somebody else from then on.
  Q2  ``discard`` is called whenever the connection was shut down or a ``CancelledError`` leaves the block, also one
      that was raised before it began: a client that is stopped between two answers of one exchange must not give the
      rest to whoever asks next. It is called before a pool that is around the block can have the connection back.
  Q3  The token is asked at both ends, after Q1 and Q2. So what was read is never taken for whole because a shut
      connection looks as if it had ended, and an error that comes of the shutdown is not the caller's.

May block: ``discard``, which is the caller's. Not promised: that the other side stops working on what it was asked;
that a connection which is still being made is ended (it has no socket yet); HTTP/2 and other protocols that serve
several callers on one connection, all of whom would lose it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from turnctl.errors import BadArgument, CancelledError
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.shielding import is_shielded
from turnctl.waiting.bridge import make_for_socket
from turnctl.waiting.parking import must_raise, token_in

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore
    from turnctl.waiting.bridge import Bridging

__all__ = ["Stoppable", "stoppable"]


class HasFileno(Protocol):
    """What has a descriptor of its own."""

    def fileno(self) -> int: ...


def stoppable(
    turn: TurnCore | None, sock: HasFileno | int, *, discard: Callable[[], object] | None = None
) -> Stoppable:
    """A ``with`` block in which a stop of ``turn`` shuts ``sock`` down, and comes out as ``CancelledError``.

    ``sock`` is the socket that the code in the block is blocked on, or its descriptor's number. ``discard()`` is called
    when a stop ends the block: give the client's own way to close the connection, so that no pool hands it out again.
    A checkpoint at both ends; an ``Exception`` that leaves the block after a stop is the cause of the
    ``CancelledError``. Under a shield the block runs as without a stop; a shield inside the block does not hold the
    shutdown back. With ``turn`` None, as ``turnctl.current_turn()`` may be, the block is left alone. For one ``with``,
    on one thread. Raises ``TurnOver`` once the turn has ended.
    """
    if discard is not None and not callable(discard):
        raise BadArgument(f"discard must be a function without arguments or None, not {discard!r}")
    return Stoppable(turn, sock, discard)


class Stoppable:
    """What ``stoppable`` gives, for ``with``."""

    def __init__(self, turn: TurnCore | None, sock: HasFileno | int, discard: Callable[[], object] | None) -> None:
        self._turn = turn
        self._sock = sock
        self._discard = discard
        self._bridging: Bridging | None = None
        self._own: socket.socket | None = None
        self._token: CancelToken | None = None

    @property
    def was_shut_down(self) -> bool:
        """Whether the stop has shut the connection down, so that it is of no more use."""
        return self._bridging is not None and self._bridging.signalled

    def __enter__(self) -> Self:
        turn = self._turn
        if self._bridging is not None:
            raise BadArgument("stoppable() is for one with block; make another for the next")
        if turn is None:
            return self
        token = self._token = token_in(turn)
        try:
            token.check()
        except CancelledError:
            self._throw_away()
            raise
        if not is_shielded(token):
            try:
                self._bridging = make_for_socket(turn, self._socket(), token)
                self._bridging._attach()
            except BaseException:
                self._close_own()
                raise
        return self

    def _socket(self) -> socket.socket:
        sock = self._sock
        if isinstance(sock, socket.socket):
            return sock
        fd = sock if isinstance(sock, int) else getattr(sock, "fileno", lambda: None)()
        if type(fd) is not int or fd < 0:
            raise BadArgument(f"stoppable() needs a connected socket or its descriptor's number, not {sock!r}")
        # a number may mean another connection by the time of the stop; a copy of it means this one
        try:
            copy = os.dup(fd)
            try:
                own = self._own = socket.socket(fileno=copy)
            except OSError:
                os.close(copy)
                raise
        except OSError as error:
            text = f"descriptor {fd} is no open socket ({error.strerror}); give that of the connection"
            raise BadArgument(text) from error
        return own

    @calls_the_body
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        turn, token, bridging = self._turn, self._token, self._bridging
        if turn is None or token is None:
            return
        if bridging is not None:
            bridging.release()  # Q1
        self._close_own()
        stop = error if isinstance(error, CancelledError) else self._stop(error)
        if stop is not None or self.was_shut_down:
            self._throw_away()
        if stop is not None and stop is not error:
            raise stop from error  # Q3

    def _stop(self, error: BaseException | None) -> CancelledError | None:
        """The stop that is to be raised in place of ``error``, or of nothing."""
        token = self._token
        assert token is not None
        if error is None:
            try:
                token.check()
            except CancelledError as stop:
                return stop
        elif isinstance(error, Exception) and must_raise(token):
            return token._raised()
        return None

    def _throw_away(self) -> None:
        """Discard the connection (Q2)."""
        turn = self._turn
        assert turn is not None
        if self._discard is None:
            return
        try:
            self._discard()
        except Exception as failure:  # noqa: BLE001 - reported; it is the stop that the caller has to hear of
            turn.notes.append(f"discard of {self._sock!r} failed: {type(failure).__name__}: {failure}")

    def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()
