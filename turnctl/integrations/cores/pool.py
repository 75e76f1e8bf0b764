"""A pool of httpcore: each of its requests that is to be served is an exchange, and so is what is read of the response.

Invariants
  F1  The stop is looked at before a request enters the pool, when its response has begun, after each part of the body
      and at the end of it. A response that came whole together with the stop is not given out.
  F2  What is asked for from inside a request (by a body that is generated, a trace, a handler of the log) is an
      exchange of its own, or none; it is never part of this one. So code of the caller's is never served, and neither
      is a request of a client that was not asked to be.
  F3  When an exchange comes to nothing, connections that no request of the pool will ever use again are taken out of
      it, under its lock, and requests that wait are given what is free.
  F4  A response that lies open between two reads is watched from its first part on, unless that is known to be all:
      a stop cuts its connection, though nobody reads. A response that says its length and comes whole costs no thread.
  F5  Who closes or forgets a response, on whatever thread, lets the connection go first (``cores.http1``). What was
      forgotten is closed with the turn at the latest, so that it gives its place in the pool back.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from turnctl import points
from turnctl.integrations.cores.http1 import cutting
from turnctl.integrations.cores.library import Library, Replaced
from turnctl.integrations.exchanges import Exchange, begin, name_of_request, served, serving
from turnctl.waiting.installing import Change

__all__ = ["Body", "Everywhere", "Wish", "changes", "wanted"]


_CLIENTS = frozenset(("httpcore", "httpcore2", "httpx", "httpx2"))


class Wish:
    """That requests from here are to be served; ``is_heard`` once a pool has taken one."""

    __slots__ = ("is_heard",)

    def __init__(self) -> None:
        self.is_heard = False


#: set by a transport of ours around what it passes on
wanted: ContextVar[Wish | None] = ContextVar("turnctl_http_wanted", default=None)


class Everywhere(Change):
    """Counts who wants all requests of the process to be served; replaces nothing itself."""

    def __init__(self) -> None:
        self.count = 0

    def enter(self) -> None:
        self.count += 1

    def leave(self) -> str | None:
        self.count -= 1
        return None


def changes(library: Library, everywhere: Everywhere) -> list[Change]:
    """What is replaced in the pool."""
    part = library.part("_sync.connection_pool")

    def pool() -> Any:
        return part.ConnectionPool

    return [Replaced(pool, "handle_request", lambda change: _handle_request(change, everywhere))]


def _handle_request(change: Change, everywhere: Everywhere) -> Callable[..., Any]:
    original: Any = change.original

    def handle_request(self: Any, request: Any) -> Any:
        wish = wanted.get()
        if wish is None and everywhere.count <= 0:
            return _plainly(original, self, request)
        if wish is not None:
            wish.is_heard = True
        exchange = begin(_name_of(request))  # F1
        if exchange is None:
            return _plainly(original, self, request)
        wish_mark = wanted.set(None)  # F2
        mark = served.set(exchange)
        try:
            response = original(self, _apart_from_this(request))
        except BaseException as error:
            _come_to_nothing(self, exchange, error)
            raise
        finally:
            served.reset(mark)
            wanted.reset(wish_mark)
        return _opened(response, exchange)

    return handle_request


def _plainly(original: Any, pool: Any, request: Any) -> Any:
    if served.get() is None:
        return original(pool, request)
    with serving(None):
        return original(pool, request)


def _apart_from_this(request: Any) -> Any:
    """The same request; the code in it that is the caller's is served by nobody (F2)."""
    trace = request.extensions.get("trace")
    if trace is None and _is_bytes(request.stream):
        return request  # there is none of the caller's code in it
    made = copy.copy(request)
    made.stream = _Given(request.stream)
    if trace is not None:
        made.extensions = {**request.extensions, "trace": _unserved(trace)}
    return made


def _is_bytes(stream: Any) -> bool:
    """Whether it is the client's own stream of bytes that are there."""
    kind = type(stream)
    return kind.__name__ == "ByteStream" and kind.__module__.partition(".")[0] in _CLIENTS


def _unserved(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn, updated=())
    def plainly(*args: Any, **kwargs: Any) -> Any:
        with serving(None):
            return fn(*args, **kwargs)

    return plainly


class _Given:
    """The body of a request, which the caller's code may generate."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        with serving(None):
            parts = iter(self._stream)
        end = object()
        while True:
            with serving(None):
                part: Any = next(parts, end)
            if part is end:
                return
            yield part


def _name_of(request: Any) -> str:
    url = request.url
    port = "" if url.port is None else f":{url.port}"
    target = url.target.decode("ascii", "replace")
    path = target if target.startswith("/") else ""
    host = url.host.decode("ascii", "replace")
    where = f"{url.scheme.decode('ascii', 'replace')}://{f'[{host}]' if ':' in host else host}{port}{path}"
    return name_of_request(request.method.decode("ascii", "replace"), where)


def _opened(response: Any, exchange: Exchange) -> Any:
    exchange.stage = "reading the response"
    exchange.opened.clear()  # its connection closes it from here on
    body = response.stream = Body(response.stream, exchange, _length_of(response))
    points.reach("http.answered")
    try:
        exchange.check()  # F1
    except BaseException as error:
        exchange.over(error)
        body.close()
        raise
    if response.status == 101:
        _given_away(response, exchange)
    return response


def _length_of(response: Any) -> int | None:
    for name, value in response.headers:
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


def _given_away(response: Any, exchange: Exchange) -> None:
    """Both sides go on in another protocol, with no request around it: a stop cuts the connection."""
    exchange.stage = "upgraded to another protocol"
    stream = response.extensions.get("network_stream")
    cut = None if stream is None else cutting(stream)
    if cut is not None:
        exchange.hold(cut)
        exchange.watch()


def _come_to_nothing(pool: Any, exchange: Exchange, error: BaseException) -> None:
    exchange.release()
    if exchange.token.cancelled or not isinstance(error, Exception):
        for sock in exchange.opened:
            sock.close()
        _prune(pool)
    exchange.opened.clear()
    exchange.over(error)
    if isinstance(error, Exception):
        exchange.look_back()  # the stop, if that is what was behind it


def _prune(pool: Any) -> None:
    """F3: a connection that was made for a request which never used it, or that was given up half way."""
    with pool._optional_thread_lock:
        in_use = {id(one.connection) for one in pool._requests}
        orphans = [one for one in pool._connections if id(one) not in in_use and _is_orphan(one)]
        for one in orphans:
            pool._connections.remove(one)
        closing = pool._assign_requests_to_connections()
    pool._close_connections([*orphans, *closing])


def _is_orphan(connection: Any) -> bool:
    if connection.is_closed() or connection.is_idle():
        return False  # the pool sees to those
    return not _was_connected(connection) or not connection.is_available()


def _was_connected(connection: Any) -> bool:
    inner = getattr(connection, "_connection", connection)
    return inner is not None and (inner is connection or _was_connected(inner))


class Body:
    """The body of a response, read for an exchange (F1); may be read and closed on different threads, one at a time."""

    def __init__(self, stream: Any, exchange: Exchange, length: int | None = None) -> None:
        self._stream = stream
        self._exchange = exchange
        #: how many bytes are to come, as far as is known
        self.length = length
        self._is_open = [None]
        #: empty while somebody reads
        self._at_rest = [None]
        exchange.at_end = self._close_at_rest

    def __iter__(self) -> Iterator[bytes]:
        return _Reading(self, iter(self._stream), self._exchange)

    def close(self) -> None:
        """Close the response. Not a checkpoint."""
        if _took(self._is_open):
            close = getattr(self._stream, "close", None)
            if close is not None:
                close()
            self._exchange.left()

    def _close_at_rest(self) -> None:
        """The turn ends: who reads is woken by the cut and closes it; if nobody does, it is closed here."""
        if _took(self._at_rest):
            self.close()

    def begin_read(self) -> None:
        if not _took(self._at_rest):
            self._exchange.check()  # the turn has ended and closed it; or two threads read, as they like

    def end_read(self) -> None:
        self._at_rest[:] = (None,)


def _took(chance: list[None]) -> bool:
    """Whether this is the first who asks."""
    try:
        chance.pop()
    except IndexError:
        return False
    return True


class _Reading(Iterator[bytes]):
    def __init__(self, body: Body, parts: Iterator[bytes], exchange: Exchange) -> None:
        self._body = body
        self._parts = parts
        self._exchange = exchange
        self._is_watched = False
        self._count = 0  # of bytes

    def __next__(self) -> bytes:
        exchange = self._exchange
        self._body.begin_read()
        mark = served.set(exchange)
        try:
            part = next(self._parts)
        except StopIteration:
            self._ask(exchange.look_back)
            exchange.over()
            raise
        except Exception as error:
            self._ask(exchange.look_back)  # a stop that has cut the connection is told as what it is
            exchange.over(error)
            raise
        except BaseException as error:
            exchange.over(error)
            raise
        finally:
            served.reset(mark)
            self._body.end_read()
        if not self._is_watched:
            self._count += len(part)
            if self._body.length is None or self._count < self._body.length:
                self._is_watched = True
                exchange.watch()  # F4
        self._ask(exchange.check)
        return part

    def _ask(self, ask: Callable[[], None]) -> None:
        points.reach("http.read")
        try:
            ask()  # F1
        except BaseException as error:
            self._exchange.over(error)
            self._body.close()
            raise
