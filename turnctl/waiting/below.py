"""What a stream is read from: the HTTP response below its source, and the connection that a stop shuts down.

The source is told by its shape, so that no client is imported: a response has ``extensions`` (httpx and copies of it),
``raw`` (requests) or ``release_conn`` (urllib3); streams of SDKs, and their generators, hold one in an attribute or a
variable. Only attributes that are plainly there are read, never a property, which may do anything.

Invariants
  U1  The connection is shut down at most once, and only while it serves this response: before the client gives it
      back to its pool (its ``close`` or ``release_conn``, on whose way there we stand) it is released.
  U2  What is shut down is a descriptor of our own, a copy. So a client that closes its descriptor at the same moment,
      whose number then means another connection, loses nothing.
  U3  ``let_go`` takes all of that back, on whatever way the stream ends.

May block: ``let_go`` and the client's way to its pool, for the length of one system call. Not promised: that a
connection is found. HTTP/2 is not touched, since other requests are on the same connection; ``why_not`` says so.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from turnctl.tokens.shielding import is_shielded
from turnctl.waiting.bridge import Bridging, make_for_socket

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Below"]

#: the attributes that lead from a stream of an SDK towards its response
_STEPS = (
    *("response", "_response", "http_response", "_raw_stream", "completion_stream", "streaming_response", "raw"),
    *("response_iterator", "_iterator"),
)
#: whose generators are looked into; one of the host's own may hold responses that it does not read
_PACKAGES = frozenset({"anthropic", "httpx", "httpx2", "litellm", "openai", "requests", "urllib3"})
_FAR = 40  # things that are looked at before it is given up
_SHARED = "its connection serves other requests as well (HTTP/2), and was not shut down"
_NOT_FOUND = "its connection was not found, and not shut down"


class Below:
    """The response and the connection below one source, as far as they can be found."""

    def __init__(self, turn: TurnCore | None, token: CancelToken | None) -> None:
        self._turn = turn
        self._token = token
        self._response: Any = None
        self._bridging: Bridging | None = None
        self._own: socket.socket | None = None
        self._undo: Callable[[], object] | None = None
        #: why the connection is not shut down, where that is known
        self.why_not: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether a response was found."""
        return self._response is not None

    def look(self, source: object) -> None:
        """Find the response below ``source`` and have its connection shut down by a stop, from now on.

        Under a shield no stop is carried to it; it is shut down when the stream is left. On the thread that makes the
        stream or asks the source. Raises ``TurnOver`` once the turn has ended.
        """
        found = _response_below(source)
        if found is None:
            return
        self._response = found
        if self._turn is None:
            return  # its own loop reads it, and nothing stops that
        sock, holder, name = _connection_of(found)
        if sock is None:
            self.why_not = _SHARED if name == "shared" else _NOT_FOUND
            return
        try:
            self._own = socket.socket(fileno=os.dup(sock.fileno()))  # U2
        except OSError:
            return  # closed: it was read to its end
        self.why_not = None
        try:
            self._bridging = make_for_socket(self._turn, self._own, self._token)
            if holder is not None:
                self._undo = _stand_before(holder, name, self._bridging.release)  # U1
            if self._token is None or not is_shielded(self._token):
                self._bridging._attach()
        except BaseException:
            self.let_go()
            raise

    def cut(self) -> bool:
        """Shut the connection down, if it is this response's; whether there is one. Never blocks."""
        bridging = self._bridging
        if bridging is None:
            return False
        bridging._signal()
        return True

    def let_go(self) -> bool:
        """The connection is not shut down any more (U3); whether it was. May be called twice."""
        bridging, self._bridging = self._bridging, None
        undo, self._undo = self._undo, None
        own, self._own = self._own, None
        if bridging is not None:
            bridging.release()
        if undo is not None:
            undo()
        if own is not None:
            own.close()
        return bridging is not None and bridging.signalled

    def close(self, source: object) -> None:
        """Close the response, if ``source`` is not the response itself: not every stream and generator does."""
        response, self._response = self._response, None
        if response is not None and response is not source and not getattr(response, "is_closed", False):
            response.close()


# -- finding the response -----------------------------------------------------------------------------------------


def _response_below(source: object) -> Any:
    """The first response on the way down from ``source``; None if none is plainly there."""
    line: deque[object] = deque((source,))
    seen: set[int] = set()
    while line and len(seen) < _FAR:
        thing = line.popleft()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if _is_response(thing):
            return thing
        line.extend(_steps_from(thing))
    return None


def _is_response(thing: object) -> bool:
    if not callable(getattr(type(thing), "close", None)):
        return False
    held = _held_by(thing)
    if isinstance(held.get("extensions"), dict):
        return "stream" in held or "is_closed" in held
    return bool(held) and (
        "_original_response" in held
        or {"raw", "_content_consumed"} <= held.keys()
        or {"fp", "will_close"} <= held.keys()
    )


def _held_by(thing: object) -> dict[str, Any]:
    held = getattr(thing, "__dict__", None)
    return held if type(held) is dict and not isinstance(thing, type) else {}


def _steps_from(thing: object) -> Iterator[object]:
    if isinstance(thing, GeneratorType):
        frame = thing.gi_frame
        if frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _PACKAGES:
            yield from frame.f_locals.values()
        return
    held = _held_by(thing)
    for name in _STEPS:
        if held.get(name) is not None:
            yield held[name]


# -- and its connection -------------------------------------------------------------------------------------------


def _connection_of(response: Any) -> tuple[socket.socket | None, Any, str]:
    """Its socket; and the object and its method by which the client gives the connection back."""
    held = _held_by(response)
    if isinstance(held.get("extensions"), dict):
        return _of_httpx(response, held["extensions"])
    if "will_close" in held:
        return _sock_of(response), None, ""
    return _of_urllib3(held["raw"] if "_content_consumed" in held else response)


def _of_httpx(response: Any, extensions: dict[str, Any]) -> tuple[socket.socket | None, Any, str]:
    below = extensions.get("network_stream")
    if below is None or getattr(response, "is_closed", True):
        return None, None, ""
    if extensions.get("http_version") == b"HTTP/2" or "stream_id" in extensions:
        return None, None, "shared"
    sock = below.get_extra_info("socket")
    holder = getattr(response, "stream", None)
    if not isinstance(sock, socket.socket) or not _can_stand_before(holder, "close"):
        return None, None, ""
    return sock, holder, "close"


def _of_urllib3(raw: Any) -> tuple[socket.socket | None, Any, str]:
    connection = getattr(raw, "_connection", None)
    if getattr(raw, "version", None) == 20:
        return None, None, "shared"
    sock = getattr(connection, "sock", None)
    if sock is None and connection is not None:
        sock = _sock_of(getattr(raw, "_original_response", None))
    if not isinstance(sock, socket.socket) or sock.fileno() < 0 or not _can_stand_before(raw, "release_conn"):
        return None, None, ""
    return sock, raw, "release_conn"


def _sock_of(response: object) -> socket.socket | None:
    """That of a response of ``http.client``, which reads a file on it and nothing else once it is to end with it."""
    sock = getattr(getattr(getattr(response, "fp", None), "raw", None), "_sock", None)
    return sock if isinstance(sock, socket.socket) and sock.fileno() >= 0 else None


def _can_stand_before(holder: Any, name: str) -> bool:
    return callable(getattr(holder, name, None)) and type(getattr(holder, "__dict__", None)) is dict


def _stand_before(holder: Any, name: str, fn: Callable[[], object]) -> Callable[[], None]:
    """Have ``fn`` called before ``holder.name``, of this one object; returns the undo."""
    held = holder.__dict__
    before = held.get(name)
    original = getattr(holder, name)

    def first(*args: Any, **kwargs: Any) -> Any:
        fn()
        return original(*args, **kwargs)

    def undo() -> None:
        if held.get(name) is not first:
            return  # somebody stands before us by now; ours does nothing any more
        if before is None:
            del held[name]
        else:
            held[name] = before

    held[name] = first
    return undo
