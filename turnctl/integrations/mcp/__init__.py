"""MCP, both sides: calls that say stop to a server, and a server whose plain functions are stopped by it.

``Client`` drives the official SDK (package ``mcp``, 1.12 or later) from plain code; ``Wire`` is for asyncio code that
uses the SDK itself; ``Server`` needs no SDK, and ``in_turn`` is for the SDK's own server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.integrations.mcp.client import Client
    from turnctl.integrations.mcp.faults import ConnectionLost, Refused
    from turnctl.integrations.mcp.hosted import in_turn
    from turnctl.integrations.mcp.http import HttpEdge
    from turnctl.integrations.mcp.server import Server
    from turnctl.integrations.mcp.serving import Request, current_request
    from turnctl.integrations.mcp.wire import Wire
    from turnctl.records.mcp import CancelReceived, CancelSent

__all__ = [
    "CancelReceived",
    "CancelSent",
    "Client",
    "ConnectionLost",
    "HttpEdge",
    "Refused",
    "Request",
    "Server",
    "Wire",
    "current_request",
    "in_turn",
]

_HOMES = {
    "CancelReceived": "turnctl.records.mcp",
    "CancelSent": "turnctl.records.mcp",
    "Client": "turnctl.integrations.mcp.client",
    "ConnectionLost": "turnctl.integrations.mcp.faults",
    "HttpEdge": "turnctl.integrations.mcp.http",
    "Refused": "turnctl.integrations.mcp.faults",
    "Request": "turnctl.integrations.mcp.serving",
    "Server": "turnctl.integrations.mcp.server",
    "Wire": "turnctl.integrations.mcp.wire",
    "current_request": "turnctl.integrations.mcp.serving",
    "in_turn": "turnctl.integrations.mcp.hosted",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
