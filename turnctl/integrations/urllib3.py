"""urllib3, made stoppable: its pools hand each request an exchange, and their connections race it with the stop.

Three methods of a pool are put around: ``urlopen`` begins the exchange, ``_get_conn`` binds the connection to it,
``_put_conn`` lets it go. The connection gets ``integrations.connecting`` on top.

Invariants
  N1  One exchange for each attempt: a retry and a redirect begin another one, which is a checkpoint. What an attempt
      failed with is recorded when urllib3 takes note of it, before it would sleep or try again.
  N2  Outside of turns requests are made as ever. What a turn reads on there is raced, in pools that were made
      stoppable; ``install`` leaves what is done outside of turns alone.
  N3  A connection is let go before its pool can give it to somebody else.
  N4  A pool whose wait for a connection was stopped gets nothing back: it gave nothing.
  N5  An urllib3 that does not work in this way is told by ``refuse_if_changed`` before anything is sent.
  N6  What was bound is let go also when ``install`` is undone in the middle of a request. Or the next request on that
      connection, of whomever, would obey a turn that is not its own.
"""

from __future__ import annotations

import http.client
import inspect
import queue
from collections.abc import Callable
from typing import Any, TypeVar

import urllib3
from urllib3 import connection, connectionpool
from urllib3.exceptions import EmptyPoolError
from urllib3.util import Retry

from turnctl.errors import BadArgument, CancelledError, ClientChanged, TurnOver
from turnctl.integrations.connecting import Connection
from turnctl.integrations.exchanges import Exchange, begin, name_of_request, served, serving
from turnctl.integrations.ontop import on_top, put_on_top
from turnctl.integrations.raced import RacedReader, RacedSocket
from turnctl.integrations.retries import stoppable_retry
from turnctl.waiting.conditions import can_join
from turnctl.waiting.installing import Change, Lasting
from turnctl.waiting.parking import end_of
from turnctl.waiting.queues import get_joined

__all__ = ["PoolManager", "changes", "refuse_if_changed", "stoppable"]

T = TypeVar("T")


# -- pools --------------------------------------------------------------------------------------------------------


class _Pool:
    """What stands on top of the class of a pool."""

    def urlopen(
        self, method: str, url: str, body: Any = None, headers: Any = None, retries: Any = None, *args: Any, **kw: Any
    ) -> Any:
        return _urlopen(self, super().urlopen, method, url, body, headers, retries, *args, **kw)  # type: ignore[misc]

    def _get_conn(self, timeout: float | None = None) -> Any:
        return _get_conn(self, super()._get_conn, timeout)  # type: ignore[misc]

    def _put_conn(self, conn: Any) -> None:
        _put_conn(super()._put_conn, conn)  # type: ignore[misc]


class _Stopped(EmptyPoolError):
    """The wait for a connection was stopped. urllib3 knows by its base that it has nothing to give back (N4)."""

    def __init__(self, pool: Any, stop: BaseException) -> None:
        super().__init__(pool, "stopped while waiting for a connection")
        self.stop = stop


class _Waiting(queue.Queue[Any]):
    """The queue of a pool; who waits in it for a connection is woken by a stop."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        exchange = served.get()
        if exchange is None or not block:
            return super().get(block, timeout)
        found = get_joined(exchange.obeyed(), self, end_of(timeout))
        if not found:
            raise queue.Empty
        return found[0]


def _urlopen(
    pool: Any,
    original: Callable[..., Any],
    method: str,
    url: str,
    body: Any = None,
    headers: Any = None,
    retries: Any = None,
    *args: Any,
    **kw: Any,
) -> Any:
    exchange = begin(_name(pool, method, url))
    if exchange is None:
        return original(method, url, body, headers, retries, *args, **kw)
    if not isinstance(retries, Retry):
        redirect = args[0] if args else kw.get("redirect", True)
        retries = Retry.from_int(retries, redirect=redirect, default=pool.retries)
    try:
        with serving(exchange):
            response = original(method, url, body, headers, stoppable_retry(retries), *args, **kw)
    except _Stopped as error:
        exchange.over(error.stop)
        raise error.stop from None
    except Exception as error:
        exchange.over(error)
        exchange.look_back()  # what failed may have failed of the stop, and a stop goes before
        raise
    except BaseException as error:
        exchange.over(error)
        raise
    _hand_over(exchange, response)
    return response


def _name(pool: Any, method: str, url: str) -> str:
    if "://" in url:
        return name_of_request(method, url)
    host = f"[{pool.host}]" if ":" in pool.host else pool.host
    return name_of_request(method, f"{pool.scheme}://{host}{'' if pool.port is None else f':{pool.port}'}{url}")


def _hand_over(exchange: Exchange, response: Any) -> None:
    """The response is the caller's from now on; the exchange is over when its body has been read or closed."""
    plain: Any = getattr(response, "_original_response", None)
    reader = getattr(plain, "fp", None)
    if isinstance(reader, RacedReader) and reader.exchange is exchange:
        exchange.stage = "reading the response"
        reader.begin_body(plain.length, bool(plain.chunked))
    elif reader is None or isinstance(reader, RacedReader):
        exchange.over()  # it has been read, or is that of a later attempt
    elif exchange.turn is not None:
        exchange.turn.notes.append(f"{exchange.name}: {reader!r} is no reader of ours, so its end will not be seen")


def _get_conn(pool: Any, original: Callable[..., Any], timeout: float | None) -> Any:
    exchange = served.get()
    if exchange is None:
        conn = original(timeout)
        if isinstance(pool, _Pool):
            put_on_top(Connection, conn)
        if isinstance(conn.sock, RacedSocket):
            conn.sock.bind(None)
        return conn
    if pool.block:
        _make_stoppable_queue(pool)
    try:
        conn = original(timeout)
    except (CancelledError, TurnOver) as error:
        raise _Stopped(pool, error) from None
    put_on_top(Connection, conn)
    conn.take_on(exchange)
    return conn


def _make_stoppable_queue(pool: Any) -> None:
    found = pool.pool
    if found is None or isinstance(found, _Waiting):
        return
    if not isinstance(found, queue.Queue) or not can_join(found.not_empty):
        raise ClientChanged(
            f"{pool!r} waits for connections in a {type(found).__name__}, which a stop cannot wake; let it have a "
            "queue.LifoQueue (QueueCls), or block=False",
            client="urllib3",
            missing=("queue.LifoQueue",),
        )
    put_on_top(_Waiting, found)


def _put_conn(original: Callable[..., Any], conn: Any) -> None:
    sock = None if conn is None else conn.sock
    if isinstance(sock, RacedSocket):
        exchange = sock.exchange
        if not sock.let_go():  # N3
            conn.close()  # it was cut just as it was done
        if exchange is not None:
            exchange.over()
    original(conn)


# -- faces --------------------------------------------------------------------------------------------------------


class PoolManager(urllib3.PoolManager):
    """A ``urllib3.PoolManager`` whose requests a stop of the current turn ends at once. Takes the same arguments."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        stoppable(self)


def stoppable(what: T) -> T:
    """Make a manager (also ``ProxyManager``) or a pool of urllib3 stoppable, with all its connections; returns it.

    Requests that are under way are not reached. May be called twice. Raises ``ClientChanged`` where this urllib3 does
    not work as it has to. Never blocks for long, not a checkpoint.
    """
    given: Any = what
    if isinstance(given, connectionpool.HTTPConnectionPool):
        refuse_if_changed()
        put_on_top(_Pool, given)
        return what
    if not isinstance(given, urllib3.PoolManager):
        raise BadArgument(f"stoppable() takes a manager or a pool of urllib3, not {what!r}")
    found = given.pool_classes_by_scheme
    if all(issubclass(kind, _Pool) for kind in found.values()):
        return what
    refuse_if_changed()
    given.pool_classes_by_scheme = {scheme: on_top(_Pool, kind) for scheme, kind in found.items()}
    with given.pools.lock:
        for key in list(given.pools.keys()):
            put_on_top(_Pool, given.pools[key])
    return what


def changes() -> tuple[Change, ...]:
    """What ``turnctl.install(http=True)`` replaces, so that every pool there is and will be is stoppable."""
    refuse_if_changed()
    return _changes


def _replaced(name: str, ours: Callable[..., Any], kind: type[Change] = Change) -> Change:
    def make(change: Change) -> Callable[..., Any]:
        original: Any = change.original

        def method(self: Any, *args: Any, **kw: Any) -> Any:
            if change.count <= 0 or isinstance(self, _Pool):
                return original(self, *args, **kw)
            return ours(self, lambda *args, **kw: original(self, *args, **kw), *args, **kw)

        method.__name__ = method.__qualname__ = name
        method.__doc__ = original.__doc__
        method.__wrapped__ = original  # type: ignore[attr-defined] # what refuse_if_changed looks at
        return method

    return kind(lambda: connectionpool.HTTPConnectionPool, name, make)


def _get_conn_of(pool: Any, original: Callable[..., Any], timeout: float | None = None) -> Any:
    return _get_conn(pool, original, timeout)


def _put_conn_of(_: Any, original: Callable[..., Any], conn: Any) -> None:
    _put_conn(original, conn)


_changes = (
    _replaced("urlopen", _urlopen),
    _replaced("_get_conn", _get_conn_of),
    _replaced("_put_conn", _put_conn_of, Lasting),  # N6
)

#: what has to call what for this to work (N5)
_CALLS: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (connectionpool.HTTPConnectionPool, "urlopen", ("_get_conn", "_put_conn", "_make_request", "increment")),
    (connectionpool.HTTPConnectionPool, "_get_conn", ("pool", "get")),
    (connectionpool.HTTPConnectionPool, "_put_conn", ("pool", "put")),
    (connectionpool.HTTPConnectionPool, "_make_request", ("getresponse",)),
    (connection.HTTPConnection, "connect", ("_new_conn",)),
    (connection.HTTPSConnection, "connect", ("_new_conn", "sock")),
    (urllib3.HTTPResponse, "__init__", ("_original_response",)),
    (http.client.HTTPResponse, "__init__", ("makefile",)),
)


def refuse_if_changed() -> None:
    """Raise ``ClientChanged`` if this urllib3 does not call what ours has to be called by. Never blocks."""
    for kind, name, called in _CALLS:
        found: Any = inspect.unwrap(getattr(kind, name, None))  # type: ignore[arg-type]
        code = getattr(found, "__code__", None)
        if found is not None and code is None:
            continue  # somebody has replaced it by something that is no function, and calls on
        missing = tuple(one for one in called if code is None or one not in code.co_names)
        if missing:
            version = getattr(urllib3, "__version__", "of unknown version")
            raise ClientChanged(
                f"urllib3 {version} cannot be made stoppable: {kind.__name__}.{name} does not use "
                f"{', '.join(missing)}; use a version that docs/requests.md names, or fallback='call'",
                client="urllib3",
                missing=tuple(f"{kind.__name__}.{name}: {one}" for one in missing),
            )
