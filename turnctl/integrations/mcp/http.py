"""The streamable HTTP transport of a server: one request per POST, its response stream watched while it is in work.

Up to 2025-11-25 a client has a session, and cancels by a notification in another POST; that the response stream is
closed cancels nothing. From 2026-07-28 on each POST stands for itself, and closing its response stream *is* the cancel.

Invariants
  Z1  Only the thread of a connection writes to it. The thread that serves a request leaves the answer there and rings.
  Z2  A request that is in work has its response stream open, and the connection is watched for its end by the same
      ``poll`` that waits for the answer.
  Z3  After ``close`` no request is admitted; those in work are stopped, their streams end without an answer.

May block: ``serve``, until ``close``, ``shutdown()`` of the server or the stop of the caller's turn. Not promised: that
the end of a client is seen which does not close its connection (a machine that was switched off), nor streams that can
be taken up again. It is made for this machine: no TLS, no authorisation; a foreign ``Origin`` is refused.
"""

from __future__ import annotations

import errno
import secrets
import socket
import threading
from collections import OrderedDict
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from turnctl import clock
from turnctl.errors import BadArgument, CancelledError
from turnctl.integrations.mcp.posts import PostConnection
from turnctl.integrations.mcp.server import Stopper
from turnctl.tokens.current import current_token
from turnctl.waiting.descriptors import READ, wait_ready
from turnctl.waiting.parking import end_of
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from turnctl.integrations.mcp.server import Server
    from turnctl.integrations.mcp.serving import Peer

__all__ = ["HttpEdge"]

_SESSIONS = 1000
_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_REST_S = 10.0
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SCARCE_S = 0.1  # until it is tried again, where there was no descriptor for a connection
_LAST_WORDS_S = 1.0  # what the end of a stream has to be written in


class HttpEdge(Stopper):
    """A server of MCP at a port of this machine; ``with`` serves it on a thread, ``serve()`` on the caller's."""

    def __init__(self, server: Server, host: str, port: int, path: str, origins: tuple[str, ...]) -> None:
        if not path.startswith("/"):
            raise BadArgument(f"the path of an endpoint begins with a slash, not {path!r}")
        self.server = server
        self.path = path
        self.origins = frozenset(origins)
        self.pool = server.new_pool()
        self.is_closed = False
        self._sessions: OrderedDict[str, Peer] = OrderedDict()
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._alone: set[Peer] = set()
        self._home = server.new_peer(self.pool, "http")  # of tasks of those that have no session
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        #: where clients find it
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self._listener.getsockname()[1]}{path}"
        self._bell = Wakeup()
        self._thread: threading.Thread | None = None
        #: the names of requests that had not come back when it ended
        self.left: tuple[str, ...] = ()

    # -- life -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        context = copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._serve_quietly), name="turnctl-mcp-http")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        assert self._thread is not None
        self._thread.join(self.server.grace + 2 * _REST_S)

    def _serve_quietly(self) -> None:
        try:
            self.serve()
        except CancelledError:
            pass  # the turn that it was opened in was stopped, which ends it

    def close(self) -> None:
        """Have it end: all in work is stopped, nothing more is answered. Never blocks; signal-safe."""
        self.is_closed = True
        self._bell.ring()

    def serve(self) -> tuple[str, ...]:
        """Serve until ``close``, ``shutdown()`` of the server, or a stop of the caller's turn; see ``Server.serve``."""
        serving = self.server.serving
        serving.append(self)
        why = "its server was stopped"
        try:
            if self.server.reason is not None:  # then read the wish
                self.close()
            self._accept()
            why = self.server.reason or "the server was closed"
        finally:
            serving.remove(self)
            self._end(why)
        return self.left

    def _accept(self) -> None:
        listener, bell = self._listener.fileno(), self._bell.fd
        self._listener.setblocking(False)
        while bell not in wait_ready(current_token(), {listener: READ, bell: READ}, None):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                continue  # it has gone again
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                wait_ready(current_token(), {bell: READ}, end_of(_SCARCE_S))
                continue
            self._begin(connection, address)

    def _begin(self, connection: socket.socket, address: Any) -> None:
        connection.setblocking(True)
        context = copy_context()
        thread = threading.Thread(
            target=lambda: context.run(self._connected, connection, address), name="turnctl-mcp-connection", daemon=True
        )
        self._connections[thread] = connection
        try:
            thread.start()
        except RuntimeError:
            self._connections.pop(thread)
            connection.close()

    def _connected(self, connection: socket.socket, address: Any) -> None:
        try:
            with connection:
                PostConnection(connection, address, self)
        except OSError:
            pass  # the client is gone, which is no news to anybody here
        finally:
            self._connections.pop(threading.current_thread(), None)

    def _end(self, why: str) -> None:
        self.is_closed = True
        self._listener.close()
        with self._lock:
            peers = [*self._sessions.values(), *self._alone, self._home]
        for peer in peers:
            peer.close(why, "shutdown")
        self.left = self.pool.close(self.server.grace + _REST_S)
        connections = list(self._connections.items())
        for how, seconds in ((socket.SHUT_RD, _LAST_WORDS_S), (socket.SHUT_RDWR, _REST_S)):
            for _, connection in connections:
                try:
                    connection.shutdown(how)  # one that waits for the next request; then one that cannot write
                except OSError:
                    pass
            ends_at = clock.monotonic() + seconds  # for all of them together
            for thread, _ in connections:
                thread.join(max(ends_at - clock.monotonic(), 0.0))
        self._bell.close()

    # -- clients ----------------------------------------------------------------------------------------------

    def open_session(self) -> tuple[str, Peer]:
        """A client that keeps a session."""
        peer = self.server.new_peer(self.pool, "http")
        name = secrets.token_hex(16)
        with self._lock:
            self._sessions[name] = peer
            surplus = len(self._sessions) - _SESSIONS
            idle = [key for key, one in self._sessions.items() if not one.in_work] if surplus > 0 else []
            for key in idle[: max(surplus, 0)]:
                del self._sessions[key]
        self._close_if_late(peer)
        return name, peer

    def _close_if_late(self, peer: Peer) -> None:
        if self.is_closed:  # read after it was listed (Z3)
            peer.close("the server was closed", "shutdown")

    def session(self, name: str) -> Peer | None:
        """The client of that session."""
        with self._lock:
            return self._sessions.get(name)

    def end_session(self, name: str) -> bool:
        """The client has ended it; whether there was one."""
        with self._lock:
            peer = self._sessions.pop(name, None)
        if peer is not None:
            peer.close("the client ended its session")
        return peer is not None

    def open_alone(self) -> Peer:
        """A client of one request, until ``close_alone``."""
        peer = self.server.new_peer(self.pool, "http")
        peer.home = self._home
        with self._lock:
            self._alone.add(peer)
        self._close_if_late(peer)
        return peer

    def close_alone(self, peer: Peer) -> None:
        """Its request is over."""
        with self._lock:
            self._alone.discard(peer)

    def allows(self, origin: str) -> bool:
        """Whether a page from there may ask."""
        return origin in self.origins or urlsplit(origin).hostname in _LOCAL
