"""What the official SDK (package ``mcp``) is asked for; the one file that knows it, in each version that is supported.

Versions 1.x and 2.x differ in the names of types and in how a message is wrapped. Only what both have is used: a pair
of streams of messages, a session over them, and messages that are made from plain values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from turnctl.errors import BadArgument, TurnctlError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = [
    "closed_errors",
    "http_streams",
    "make",
    "negotiate",
    "payload",
    "plain",
    "session_class",
    "shielded",
    "stdio_streams",
    "tool_error",
    "unsendable",
]


def _load(name: str) -> ModuleType:
    try:
        return import_module(f"mcp.{name}")
    except ImportError as error:
        raise TurnctlError(
            f"the client side of turnctl.integrations.mcp needs the official SDK, and mcp.{name} cannot be imported "
            f"({error}); install the package mcp, 1.12 or later"
        ) from error


def session_class() -> Callable[..., Any]:
    """``ClientSession``."""
    found: Callable[..., Any] = _load("client.session").ClientSession
    return found


def stdio_streams(
    argv: list[str], env: Mapping[str, str] | None, cwd: str | None, errlog: Any
) -> AbstractAsyncContextManager[tuple[Any, ...]]:
    """A server that is started as a subprocess."""
    stdio = _load("client.stdio")
    parameters = stdio.StdioServerParameters(
        command=argv[0],
        args=argv[1:],
        env=None if env is None else dict(env),
        cwd=cwd,
        encoding_error_handler="replace",  # a byte that is no UTF-8 is to spoil its line, and not the connection
    )
    opened: AbstractAsyncContextManager[tuple[Any, ...]] = (
        stdio.stdio_client(parameters) if errlog is None else stdio.stdio_client(parameters, errlog=errlog)
    )
    return opened


def http_streams(
    url: str, headers: Mapping[str, str] | None, watch: Callable[[Any], object]
) -> AbstractAsyncContextManager[tuple[Any, ...]]:
    """A server at ``url``, by streamable HTTP; ``watch`` is told of the HTTP client before it is used."""
    module = _load("client.streamable_http")
    opened: AbstractAsyncContextManager[tuple[Any, ...]]
    if not hasattr(module, "streamable_http_client"):  # before 1.24

        def factory(**options: Any) -> Any:
            client = _http_client(**options)
            watch(client)
            return client

        kept = None if headers is None else dict(headers)
        opened = module.streamablehttp_client(url, headers=kept, httpx_client_factory=factory)
        return opened
    return _Opened(module, url, headers, watch)


def _http_client(**options: Any) -> Any:
    """The SDK's HTTP client without a limit of connections: each call under way has one, and a stop needs one more."""
    usual = _load("shared._httpx_utils").create_mcp_http_client(**options)
    kind = type(usual)
    limits = import_module(kind.__module__.partition(".")[0]).Limits(max_connections=None, max_keepalive_connections=20)
    return kind(
        headers=usual.headers,
        timeout=usual.timeout,
        auth=usual.auth,
        follow_redirects=usual.follow_redirects,
        limits=limits,
    )


class _Opened:
    """The transport with a client of ours, which is closed with it."""

    def __init__(
        self, module: ModuleType, url: str, headers: Mapping[str, str] | None, watch: Callable[[Any], object]
    ) -> None:
        self._module = module
        self._url = url
        self._headers = headers
        self._watch = watch
        self._client: Any = None
        self._streams: Any = None

    async def __aenter__(self) -> tuple[Any, ...]:
        self._client = _http_client(headers=None if self._headers is None else dict(self._headers))
        self._watch(self._client)
        try:
            self._streams = self._module.streamable_http_client(self._url, http_client=self._client)
            opened: tuple[Any, ...] = await self._streams.__aenter__()
            return opened
        except BaseException:
            await self._client.aclose()
            raise

    async def __aexit__(self, *error: object) -> bool | None:
        try:
            left: bool | None = await self._streams.__aexit__(*error)
            return left
        finally:
            await self._client.aclose()


async def negotiate(session: Any, protocol: str) -> str:
    """Open the connection: ``initialize``, or from 2026-07-28 on ``server/discover``; the version that is spoken."""
    if protocol == "initialize":
        result = await session.initialize()
        return str(_either(result, "protocol_version", "protocolVersion"))
    if not hasattr(session, "discover"):
        raise BadArgument("protocol='discover' needs version 2 of the package mcp; use protocol='initialize'")
    await session.discover()
    return str(session.protocol_version)


def _either(thing: Any, new: str, old: str) -> Any:
    return getattr(thing, new) if hasattr(thing, new) else getattr(thing, old)


# -- messages ---------------------------------------------------------------------------------------------------------


def payload(item: Any) -> Any:
    """The message in an item of a stream: ``method``, ``id``, ``params``, ``result`` and ``error``, as it has them."""
    message = getattr(item, "message", item)
    return getattr(message, "root", message)


def plain(message: Any) -> dict[str, Any]:
    """A message as plain values."""
    found: dict[str, Any] = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return found


def unsendable(message: Any) -> Exception | None:
    """Why a transport could not write ``message``, which would end it; None if it can."""
    try:
        json.dumps(plain(message), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return error
    return None


def make(message: dict[str, Any], headers: Mapping[str, str] | None = None) -> Any:
    """An item for a stream, from plain values; ``headers`` are for HTTP."""
    types = _load("types")
    adapter = getattr(types, "jsonrpc_message_adapter", None)
    made = types.JSONRPCMessage.model_validate(message) if adapter is None else adapter.validate_python(message)
    wrapping = _load("shared.message")
    if headers is None or "headers" not in wrapping.ClientMessageMetadata.__dataclass_fields__:
        return wrapping.SessionMessage(made)
    return wrapping.SessionMessage(made, wrapping.ClientMessageMetadata(headers=dict(headers)))


def closed_errors() -> tuple[type[BaseException], ...]:
    """What a stream raises when the other side of it is closed."""
    anyio = import_module("anyio")
    return (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


def shielded(seconds: float) -> Any:
    """A ``with`` in which a cancellation from around does not come through, for so long."""
    return import_module("anyio").move_on_after(seconds, shield=True)


def tool_error(text: str) -> Exception:
    """What a tool of the SDK's server raises to have ``text`` told to the client; a plain error where there is none."""
    for name in ("mcp.server.mcpserver.exceptions", "mcp.server.fastmcp.exceptions"):
        try:
            found: Exception = import_module(name).ToolError(text)
        except (ImportError, AttributeError):
            continue
        return found
    return TurnctlError(text)
