"""Built-in bridges: a stop carried to a descriptor, a socket or a plain event, which cannot wait for a token.

The asyncio side is in ``waiting.coroutines``; functions of the user's are in ``tokens.callbacks``.

Invariants
  G1  Each bridge is signalled at most once, by whoever takes its one chance; ``list.pop`` is atomic. Releasing it and
      the end of the turn take the chance as well, so it is never signalled afterwards.
  G2  It is listed with the bridge thread and *then* the token is read: a stop in between is carried by one of the two.
  G3  ``release`` returns when a signal that was under way has been carried out, so a socket that has been released is
      not shut down any more.
  G4  A bridge that is listed when the turn is over is settled there, by the thread that ends the turn: signalled if
      the turn was stopped, let go if not. That holds also while a callback of the user blocks the bridge thread.

Who carries: the turn's bridge thread, before callbacks of the user. Not the canceller, whose ``cancel`` does no system
call and takes no lock that a signal handler could find held, and both are needed here: a descriptor is written to
under a lock, ``Event.set`` takes the event's own, and ``loop.call_soon_threadsafe`` writes to the loop's socket and
tells a handler on the loop's own thread about a loop that stands in the middle of something. That is one hop more;
``on_cancel(fn, inline=True)`` saves it for a function that its author vouches for. A bridge that is made when the stop
has come is signalled by the thread that makes it: it is no canceller.

May block: nothing but ``release``, for the length of one system call. Not promised: that a bridge is signalled while a
callback of the user (of this turn, or of a child token) keeps the bridge thread from coming back.
"""

from __future__ import annotations

import errno
import socket
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from turnctl import points
from turnctl.errors import BadArgument, TurnOver
from turnctl.spelling import described
from turnctl.tokens.eras import Latch
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Bridging", "bridge_event", "bridge_fd", "bridge_socket", "make_for_socket"]

#: closed, or not connected, which wakes who waits on it all the same
_NOBODY_WAITS = (errno.EBADF, errno.ENOTCONN)
_UNDER_WAY_S = 1.0  # more than a signal takes


class Bridging:
    """One thing that the stop of a turn is carried to; ``release()``, or the end of its ``with``, takes it back."""

    __slots__ = ("_carrier", "_chance", "_done", "_fire", "_token", "_turn", "_undos", "what")

    def __init__(self, turn: TurnCore, what: str, fire: Callable[[], object], token: CancelToken | None = None) -> None:
        self.what = what
        self._turn = turn
        self._token: CancelToken = turn.token if token is None else token  # a child of the turn's, perhaps
        self._fire = fire
        self._chance: list[None] = [None]
        self._done = Latch()
        self._carrier: int | None = None
        self._undos: tuple[Callable[[], object], ...] = ()

    def _attach(self) -> Self:
        """Have it signalled from now on; ``TurnOver`` once the turn has ended."""
        turn = self._turn
        refuse_if_ended(turn, self.what)
        host = turn.bridge
        points.reach("bridge.listing")
        self._undos = (host.watch(self._token, self._carry), host.at_over(self._settle))
        points.reach("bridge.listed")
        if self._token.cancelled:  # G2
            self._carry()
        elif host.is_over:  # B4 of the bridge: it may not have seen this one
            self._drop()
            raise _over(turn, self.what)
        return self

    def _carry(self) -> None:
        """Signal it if the turn was stopped. On the bridge thread after each change; neither blocks nor raises."""
        if self._token.cancelled:
            self._signal()

    def _signal(self) -> None:
        """Signal it, stopped or not, unless that was done or it was released. Neither blocks nor raises."""
        if not self._take():
            return
        points.reach("bridge.carrying")
        self._carrier = threading.get_ident()
        try:
            self._fire()
        except BaseException as error:  # noqa: BLE001 - the thread serves others too; the report has it
            self._turn.notes.append(f"bridge failed: {self!r}: {described(error)}")
        finally:
            self._finish()

    def _settle(self) -> None:
        self._carry()
        self._drop()  # G4

    def _take(self) -> bool:
        try:
            self._chance.pop()  # G1
        except IndexError:
            return False
        return True

    def _finish(self) -> None:
        self._done.set()
        self._fire = _nothing  # lets go of what it was for
        for undo in self._undos:
            undo()

    def _drop(self) -> bool:
        won = self._take()
        if won:
            self._finish()
        return won

    @property
    def signalled(self) -> bool:
        """Whether the stop has been carried to it."""
        return self._carrier is not None

    def release(self) -> bool:
        """Take the bridge back; True if it was not signalled and now never will be.

        A signal that is under way is waited for, for one system call. May be called twice and after the turn.
        Thread-safe, not a checkpoint.
        """
        if self._drop():
            return True
        if self._carrier != threading.get_ident():
            self._done.wait(_UNDER_WAY_S)  # G3
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Bridging of turn {self._turn.turn_id} to {self.what}>"


def _nothing() -> None:
    """What a settled bridge does."""


def _over(turn: TurnCore, what: str) -> TurnOver:
    return TurnOver(
        f"turn {turn.turn_id} has ended, so no stop can be carried to {what}; make the bridge inside the turn",
        turn_id=turn.turn_id,
    )


def refuse_if_ended(turn: TurnCore, what: str) -> None:
    """Raise ``TurnOver`` if nothing would be carried to ``what`` any more."""
    if turn.token.retired and not turn.token._still_serves():
        raise _over(turn, what)


def bridge_event(turn: TurnCore, event: threading.Event) -> Bridging:
    """Have ``event.set()`` called when the turn is stopped, at once if it has been; undone by ``release()``.

    The event stays the host's: a turn that ends without a stop leaves it unset, and setting it stops nothing (for
    that hand it in with ``turn(event=...)``). Never blocks, not a checkpoint, thread-safe; not for signal handlers.
    Raises ``TurnOver`` once the turn has ended.
    """
    if not isinstance(event, threading.Event):
        raise BadArgument(
            f"bridge_event() needs a threading.Event, not {event!r}; for anything else use turn.on_cancel(fn)"
        )
    return Bridging(turn, f"{type(event).__name__} at {id(event):#x}", event.set)._attach()


def bridge_socket(turn: TurnCore, sock: socket.socket) -> Bridging:
    """Have ``sock`` shut down in both directions when the turn is stopped, at once if it has been.

    Who is blocked on it wakes: a read sees a *clean end*, a write or a connect an ``OSError``, so ask the token after
    each. The socket is not closed and not kept alive. Release it before its connection goes back to a pool. On TLS it
    is the connection below that is shut down; bridge the TLS socket, since wrapping takes the plain one's descriptor
    away. Never blocks, not a checkpoint, thread-safe. Raises ``TurnOver`` once the turn has ended.
    """
    return make_for_socket(turn, sock)._attach()


def make_for_socket(turn: TurnCore, sock: socket.socket, token: CancelToken | None = None) -> Bridging:
    """The bridge to ``sock``, of ``turn`` or of a child token of it, that nothing is carried to yet."""
    if not isinstance(sock, socket.socket):
        raise BadArgument(f"bridge_socket() needs a socket.socket, not {sock!r}; use turn.on_cancel(fn) for others")
    fd = sock.fileno()
    if fd < 0:
        raise BadArgument(
            f"{sock!r} has no descriptor to shut down: it is closed, or was wrapped or detached; bridge the socket "
            "that is read from"
        )
    bridging = Bridging(turn, f"socket {fd}", lambda: _shut_down(ref()), token)
    ref = weakref.ref(sock, lambda _: bridging._drop())  # forgotten, hence closed: nothing to carry to
    return bridging


def _shut_down(sock: socket.socket | None) -> None:
    if sock is None:
        return
    try:
        # the base method: that of a TLS socket drops its TLS object, and a reader would see plain bytes
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in _NOBODY_WAITS:
            raise


def bridge_fd(turn: TurnCore) -> int:
    """A descriptor that becomes and stays readable when the turn is stopped, for a ``select`` loop; see ``Turn``.

    The same one at each call, made by the first. It belongs to the turn, which closes it when it is over: do not read
    from it, close it, or wait on it after the turn. A forked child has a copy that nobody closes. Never blocks, not a
    checkpoint, thread-safe. Raises ``TurnOver`` once the turn has ended.
    """
    refuse_if_ended(turn, "a descriptor")
    cells = turn.token._grow().cells
    found: _Descriptor | None = cells.get("descriptor")
    if found is None:
        made = _Descriptor(turn)
        found = cells.setdefault("descriptor", made)  # atomic: two threads get the same
        assert found is not None
        if found is not made:
            made.wakeup.close()
            found.ready.wait(_UNDER_WAY_S)
        else:
            found.attach()
    return found.number()


class _Descriptor:
    """The one descriptor of a turn."""

    __slots__ = ("ready", "turn", "wakeup")

    def __init__(self, turn: TurnCore) -> None:
        self.turn = turn
        self.wakeup = Wakeup()
        self.ready = Latch()

    def attach(self) -> None:
        try:
            bridging = Bridging(self.turn, f"descriptor {self.wakeup.fd}", self.wakeup.ring)
            bridging._attach()
        except BaseException:  # the turn has ended in between
            self.close()
            raise
        finally:
            self.ready.set()
        self.turn.bridge.at_over(self.close)  # after the signal: releases run in the order of listing

    def close(self) -> None:
        self.turn.token._grow().cells.pop("descriptor", None)
        self.wakeup.close()

    def number(self) -> int:
        fd = self.wakeup.fd
        if fd < 0:
            raise _over(self.turn, "a descriptor")
        return fd
