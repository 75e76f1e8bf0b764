"""What goes wrong between a client and a server, as exceptions."""

from __future__ import annotations

from typing import Any

from turnctl.errors import TurnctlError

__all__ = ["ConnectionLost", "Refused"]


class ConnectionLost(TurnctlError, ConnectionError):
    """The connection to a server has ended, so that no response can come; what the server did is not known."""


class Refused(TurnctlError):
    """An error of JSON-RPC: a tool or a handler raises it to have its request answered so; a raw request raises it when
    it was. ``code`` and ``data`` are those of the message."""

    def __init__(self, message: str, *, code: int = -32603, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
