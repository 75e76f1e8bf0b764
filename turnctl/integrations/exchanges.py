"""One request of a turn and its response: whose stop it obeys, how far it came, and what the report says of it.

An exchange is begun by the adapter of a client, and is an activity of the turn before anything is sent. While the
client works on it, on whatever thread, it is *served*: what blocks on the network down there finds it in a context
variable, and needs no argument for it.

Invariants
  X1  The stop is looked at before an exchange begins: what was stopped sends nothing, and is not even looked up.
  X2  A connection is cut only while it is held for this exchange. ``hold`` gives the chance, ``release`` and the cut
      take it; ``list.pop`` is atomic, so it is one of the two. ``release`` returns when a cut that was under way is
      done, so a connection that has gone back to its pool is never cut.
  X3  The activity is closed once, with how far it came. Bytes that were handed to the kernel are called sent, never
      received by the server; what a server did with them is called unknown. Nothing that the request was given is
      spelled there but its method, host and path (``name_of_request``, ``told_of``).
  X4  Under a shield nothing is watched, so that a stop which is held back cuts nothing. What looks like the end of a
      connection that was cut is never taken for one (``look_back``).

Who cuts: the bridge thread of the turn, for a response that lies open between two reads (``watch``), and the end of
the turn. Who is blocked in a read is not cut: it wakes by itself (``integrations.wires``) and closes what is its own.

May block: ``release``, for the length of one system call. Not promised: that a thread which is no work of the turn and
reads on when the turn is over without a stop is woken, where the connection is shared (HTTP/2).
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from turnctl import points
from turnctl.errors import CancelledError, TurnOver
from turnctl.spelling import described
from turnctl.tokens import registry
from turnctl.tokens.activities import Activity
from turnctl.tokens.current import bound, current_token
from turnctl.tokens.event import TurnEvent
from turnctl.tokens.shielding import is_shielded, shields
from turnctl.tokens.tree import is_under

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Exchange", "begin", "name_of_request", "passing", "served", "serving", "told_of"]

#: what the client on this thread is working on; None outside of turns, and for clients that were not asked to be
served: ContextVar[Exchange | None] = ContextVar("turnctl_exchange", default=None)

_OF_THE_SYSTEM = ("builtins", "socket", "ssl", "http.client")
_UNDER_WAY_S = 1.0  # more than a cut takes


def begin(name: str) -> Exchange | None:
    """Begin an exchange for the current turn; None where there is none, or it is over and was not stopped.

    A checkpoint: raises ``CancelledError`` once the turn was stopped. Never blocks but in a paused turn. ``name`` is
    for people (``name_of_request``).
    """
    token = current_token()
    if token is None:
        return None
    token.check()  # X1
    if token.retired:
        return None  # what was left running by a turn that ended well obeys nothing any more
    return Exchange(registry.enclosing(token), token, name)


def passing(name: str) -> Exchange | None:
    """An exchange for one operation on a connection that no exchange holds; None where no turn is to be obeyed.

    For what was begun outside of the turn that now goes on with it. It is no activity, and has no end to be told.
    """
    token = current_token()
    return None if token is None or token.retired else Exchange(None, token, name)


def name_of_request(method: str, url: str) -> str:
    """What a report calls a request: its method and where it goes, without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{method} {parts.scheme}://{host}{parts.path}"


def told_of(error: BaseException) -> str:
    """What a report calls an error: its class, and what the system said, if that is where it comes from.

    The text of a client's own error is left out: it may spell a header, with the key in it, or a whole URL.
    """
    name = type(error).__name__
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, OSError | EOFError) and type(below).__module__ in _OF_THE_SYSTEM:
            return f"{name}: {below}"
        given = below.args[0] if below.args else None  # httpcore's have it there, and no cause by now
        below = given if isinstance(given, BaseException) else below.__cause__
    return name


@contextmanager
def serving(exchange: Exchange | None) -> Iterator[None]:
    """Have what blocks on this thread obey ``exchange`` for the length of the ``with``."""
    mark = served.set(exchange)
    try:
        yield
    finally:
        served.reset(mark)


class Exchange:
    """One request and its response, owned by a turn (``tokens.activities.Owned``) or by a token alone."""

    kind = "http"

    __slots__ = (
        "_carrier",
        "_chance",
        "_cut_done",
        "_is_over",
        "_unwatch",
        "activity",
        "at_end",
        "is_cut",
        "name",
        "opened",
        "received",
        "sent",
        "stage",
        "token",
        "turn",
    )

    def __init__(self, turn: TurnCore | None, token: CancelToken, name: str) -> None:
        self.turn = turn
        self.token = token
        self.name = name
        #: what it is doing, as a report would say it: "waiting for a connection", "waiting for the response"
        self.stage = "waiting for a connection"
        #: bytes handed to the kernel for it, and read from the kernel; None where the connection is shared
        self.sent: int | None = 0
        self.received: int | None = 0
        #: sockets that were opened for it and have not been given to a connection that closes them itself
        self.opened: list[socket.socket] = []
        #: called once at the end of the turn, if it is still under way then; must not block
        self.at_end: Callable[[], object] | None = None
        #: whether its connection was cut: what looks like its end is none
        self.is_cut = False
        self._chance: list[Callable[[], object]] = []
        self._cut_done = TurnEvent()
        self._carrier: int | None = None
        self._is_over = False
        self._unwatch: Callable[[], object] | None = None
        self.activity = Activity("http", name) if turn is None else turn.activities.admit("http", name, self)

    # -- the stop ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the stop, or ``TurnOver`` where the turn has ended around it. A checkpoint.

        The stop of a token that is bound here and is not the exchange's own is raised as well: one with a timeout
        around a single read, or that of another turn which reads on what this one began.
        """
        if self._unwatch is not None and shields.get():
            self._stop_watching()  # X4
        self.token.check()
        here = bound.get()
        if here is not None and here is not self.token and not here.retired:
            here.check()
        if self._is_over:
            raise TurnOver(
                f"turn {self._turn_id()} ended while {self.name} was under way, and its connection was closed; read a "
                "response to its end before the turn ends",
                turn_id=self._turn_id(),
            )

    def look_back(self) -> None:
        """Raise the stop if the error, or the end of the stream, that was just seen may come of it. A checkpoint.

        A connection that was cut looks as if the other side had closed it, also under a shield that begins later.
        """
        self.check()
        if self.is_cut and self.token.cancelled:
            raise self.token._raised()

    def obeyed(self) -> CancelToken:
        """The token to wait with on this thread: a stop of the exchange, and of what is bound here, wakes the wait."""
        here = bound.get()
        if here is None or here is self.token or here.retired:
            return self.token
        if not is_under(here, self.token):
            self.watch()  # its own stop comes as the end of the connection then
        return here

    def _turn_id(self) -> str | None:
        return None if self.turn is None else self.turn.turn_id

    # -- the connection it holds (X2) -------------------------------------------------------------------------

    def hold(self, cut: Callable[[], object]) -> None:
        """Say how the connection of this exchange is cut, from now until ``release``. ``cut`` must not block."""
        self._chance[:] = (cut,)

    def release(self) -> bool:
        """The connection is this exchange's no more; True if it was not cut and now never will be."""
        self._stop_watching()
        if self._take() is not None:
            return True
        if self._carrier is None:
            return True  # it held none
        if self._carrier != threading.get_ident():
            self._cut_done.wait(_UNDER_WAY_S)
        return False

    def watch(self) -> None:
        """Have the connection cut as soon as the turn is stopped, also while nobody reads. May be called twice.

        Does nothing under a shield; ``check`` under a shield takes it back.
        """
        if self._unwatch is not None or is_shielded(self.token):
            return
        # a token that is of no turn has a bridge of its own
        bridge = self.token._bridge() if self.turn is None else self.turn.bridge
        if not bridge.is_over:
            self._unwatch = bridge.watch(self.token, self._carry)

    def _carry(self) -> None:
        if self.token.cancelled:
            self.cut()

    def _stop_watching(self) -> None:
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()

    def _take(self) -> Callable[[], object] | None:
        try:
            return self._chance.pop()
        except IndexError:
            return None

    def cut(self) -> bool:
        """Cut the connection, if one is held; whether it was. Never blocks, never raises."""
        self._carrier = threading.get_ident()
        points.reach("exchange.cutting")
        cut = self._take()
        if cut is None:
            self._carrier = None
            return False
        self.is_cut = True
        try:
            self.activity.signalled("cut")
            cut()
        except OSError as error:
            self._note(f"could not cut {self.name}: {described(error)}")
        finally:
            self._cut_done.set()
        return True

    def _note(self, text: str) -> None:
        if self.turn is not None:
            self.turn.notes.append(text)

    # -- its account (X3) -------------------------------------------------------------------------------------

    def over(self, error: BaseException | None = None) -> None:
        """It has come to its end: read to the end, or with ``error``. The first end counts."""
        self._let_go()
        activity = self.activity
        if error is None:
            activity.close("completed")
        elif isinstance(error, CancelledError | GeneratorExit) or self.token.cancelled:
            activity.close("cancelled", self.account())
        else:
            activity.close("failed", f"{told_of(error)}; {self.account()}")

    def left(self) -> None:
        """The response was closed before its end, by the host's own choice or by the stop."""
        self._let_go()
        self.activity.close("cancelled" if self.token.cancelled else "completed", f"closed while {self.account()}")

    def _let_go(self) -> None:
        """Keep nothing of the request and its response: the turn keeps this to its end."""
        self._stop_watching()
        self.at_end = None

    def account(self) -> str:
        """How far it came, in words."""
        sent, received = self.sent, self.received
        if sent is None or received is None:
            return f"{self.stage}, on a shared connection; what the server did with it is not known"
        if sent == 0:
            return f"{self.stage}; nothing was sent"
        return f"{self.stage}; {sent} bytes sent, {received} received; what the server did with it is not known"

    # -- being owned (tokens.activities.Owned) ----------------------------------------------------------------

    def ask(self) -> None:
        """The turn ends: nobody is to read on."""
        self._is_over = True
        self.cut()

    def end(self, kill_at: Callable[[], float]) -> None:  # noqa: ARG002 - there is nothing to wait for
        self._stop_watching()
        if not self.activity.close("cancelled", f"the turn ended while {self.account()}"):
            return
        at_end, self.at_end = self.at_end, None
        if at_end is not None:
            try:
                at_end()
            except Exception as error:  # noqa: BLE001 - of the client; the end of the turn goes on, and tells it
                self._note(f"could not close {self.name}: {described(error)}")

    def alive(self) -> tuple[str, ...]:
        return ()

    def outcome(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"<Exchange {self.name}: {self.account()}>"
