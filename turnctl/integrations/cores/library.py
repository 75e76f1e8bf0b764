"""httpcore, or a copy of it under another name: its parts, and whether they are what we know.

What is replaced there is private. So before anything is replaced each name is looked for, with its arguments and the
attributes that its code speaks of; what was not found is told in an error, instead of a client that nothing stops.
"""

from __future__ import annotations

import importlib
import inspect
from types import CodeType
from typing import Any

from turnctl.errors import ClientChanged
from turnctl.waiting.installing import Lasting

__all__ = ["Library", "Replaced"]

#: (module, "Class.function", its arguments, the attributes that its code has to speak of)
Need = tuple[str, str, tuple[str, ...], tuple[str, ...]]

_NEEDS: tuple[Need, ...] = (
    ("_backends.sync", "SyncStream.__init__", ("self", "sock"), ("_sock",)),
    ("_backends.sync", "SyncStream.read", ("self", "max_bytes", "timeout"), ("_sock",)),
    ("_backends.sync", "SyncStream.write", ("self", "buffer", "timeout"), ("_sock",)),
    ("_backends.sync", "SyncStream.start_tls", ("self", "ssl_context", "server_hostname", "timeout"), ("_sock",)),
    ("_backends.sync", "TLSinTLSStream._perform_io", ("self", "func"), ("_sock", "_incoming", "_outgoing")),
    (
        "_backends.sync",
        "SyncBackend.connect_tcp",
        ("self", "host", "port", "timeout", "local_address", "socket_options"),
        (),
    ),
    ("_backends.sync", "SyncBackend.connect_unix_socket", ("self", "path", "timeout", "socket_options"), ()),
    ("_backends.base", "NetworkBackend.sleep", ("self", "seconds"), ()),
    ("_synchronization", "Event.__init__", ("self",), ("_event",)),
    ("_synchronization", "Event.wait", ("self", "timeout"), ("_event",)),
    ("_synchronization", "Lock.__init__", ("self",), ("_lock",)),
    ("_synchronization", "Lock.__enter__", ("self",), ("_lock",)),
    ("_synchronization", "Lock.__exit__", ("self", "exc_type", "exc_value", "traceback"), ("_lock",)),
    ("_synchronization", "Semaphore.__init__", ("self", "bound"), ("_semaphore",)),
    ("_synchronization", "Semaphore.acquire", ("self",), ("_semaphore",)),
    ("_synchronization", "Semaphore.release", ("self",), ("_semaphore",)),
    (
        "_sync.connection_pool",
        "ConnectionPool.handle_request",
        ("self", "request"),
        ("_optional_thread_lock", "_requests", "_assign_requests_to_connections", "_close_connections"),
    ),
    ("_sync.connection_pool", "ConnectionPool._assign_requests_to_connections", ("self",), ("_connections",)),
    ("_sync.connection_pool", "ConnectionPool._close_connections", ("self", "closing"), ()),
    ("_sync.connection_pool", "PoolRequest.wait_for_connection", ("self", "timeout"), ("connection",)),
    ("_sync.connection", "HTTPConnection.handle_request", ("self", "request"), ("_connection", "_connect_failed")),
    ("_sync.http11", "HTTP11Connection._send_request_headers", ("self", "request"), ()),
    ("_sync.http11", "HTTP11Connection._response_closed", ("self",), ()),
    ("_sync.http11", "HTTP11Connection.close", ("self",), ("_network_stream",)),
)
_NEEDS_OF_HTTP2: tuple[Need, ...] = (
    (
        "_sync.http2",
        "HTTP2Connection.__init__",
        ("self", "origin", "stream", "keepalive_expiry"),
        ("_network_stream", "_h2_state", "_events", "_state_lock", "_write_lock"),
    ),
    ("_sync.http2", "HTTP2Connection._send_connection_init", ("self", "request"), ()),
    ("_sync.http2", "HTTP2Connection._send_request_headers", ("self", "request", "stream_id"), ()),
    ("_sync.http2", "HTTP2Connection._response_closed", ("self", "stream_id"), ("_events",)),
    ("_sync.http2", "HTTP2Connection._write_outgoing_data", ("self", "request"), ("_write_lock", "_h2_state")),
    ("_sync.http2", "HTTP2Connection._receive_remote_settings_change", ("self", "event"), ("_max_streams_semaphore",)),
)


class Replaced(Lasting):
    """A function of an httpcore, replaced for good; who asks for the signature of ours is told that of the original."""

    def enter(self) -> None:
        super().enter()
        ours: Any = self._ours
        ours.__wrapped__ = self.original


class Library:
    """One httpcore: ``name`` is what it is imported as."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.face: Any = importlib.import_module(name)
        self._asked: list[tuple[str, ...]] = []

    def part(self, name: str) -> Any:
        """One of its modules."""
        return importlib.import_module(f"{self.name}.{name}")

    @property
    def speaks_http2(self) -> bool:
        """Whether what it needs for HTTP/2 is installed."""
        try:
            self.part("_sync.http2")
        except ImportError:
            return False
        return True

    @property
    def version(self) -> str:
        return str(getattr(self.face, "__version__", "of a version that is not known"))

    def missing(self) -> tuple[str, ...]:
        """What we rely on and did not find, as it would be written in code; asked once, before anything is replaced."""
        if not self._asked:
            needs = _NEEDS + (_NEEDS_OF_HTTP2 if self.speaks_http2 else ())
            self._asked.append(tuple(text for need in needs if (text := self._lacks(need)) is not None))
        return self._asked[0]

    def require(self) -> None:
        """Raise ``ClientChanged`` if it is not what we know."""
        missing = self.missing()
        if missing:
            raise ClientChanged(
                f"{self.name} {self.version} is not as turnctl knows it, so a stop could not reach its requests: "
                f"{', '.join(missing[:3])}{' and more' if missing[3:] else ''}; use a version that docs/httpx.md "
                'names, or give fallback="call" to have each request run by turnctl.call(), left behind at a stop',
                client=self.name,
                missing=missing,
            )

    def _lacks(self, need: Need) -> str | None:
        module, path, parameters, attributes = need
        spelled = f"{self.name}.{module}.{path}"
        owner_name, _, name = path.partition(".")
        try:
            found = getattr(self.part(module), owner_name).__dict__[name]
        except (ImportError, AttributeError, KeyError):
            return f"no {spelled}"
        if tuple(inspect.signature(found).parameters) != parameters:
            return f"{spelled}() takes other arguments"
        code: CodeType | None = getattr(inspect.unwrap(found), "__code__", None)
        lacking = [one for one in attributes if code is not None and one not in code.co_names]
        return f"{spelled} without {lacking[0]}" if lacking else None
