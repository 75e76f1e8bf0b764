"""How an actor speaks to the receiver: it sends an effect, or asks what became of one, under its id.

By a socket alone, since an actor has to start quickly and http.client takes as long as the rest of it.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import turnctl
    from turnctl.records.effects import Effect

__all__ = ["Client", "Refused"]

_WITHIN_S = 60.0


class Refused(Exception):
    """The receiver says no: its status and words."""


class Client:
    """One credential at one receiver. A connection for each request, so that a lost one is the affair of that one."""

    def __init__(self, port: int, credential: str) -> None:
        self.port, self.credential = port, credential

    def _ask(self, method: str, effect_id: str, payload: bytes = b"") -> tuple[int, dict[str, str]]:
        head = f"{method} /effects/{effect_id} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {self.credential}\r\nContent-Length: {len(payload)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), _WITHIN_S) as connection:
            connection.sendall(head.encode() + payload)
            answer = connection.makefile("rb").read()
        if not answer:
            raise ConnectionResetError("no answer came")
        first, _, body = answer.partition(b"\r\n\r\n")
        return int(first.split()[1]), json.loads(body)

    def post(self, effect_id: str, payload: bytes) -> str:
        """Send it; the receipt. ``ConnectionError`` where no answer came, which says nothing of what it did."""
        status, body = self._ask("POST", effect_id, payload)
        if status != 200:
            raise Refused(f"{status} {body['error']}")
        return body["receipt"]

    def look_up(self, effect: Effect) -> turnctl.ledger.Answer | None:
        """What became of it, asked under its own id: a receipt, or None where that cannot be told."""
        from turnctl.ledger import Answer

        status, body = self._ask("GET", effect.effect_id)
        return Answer("completed", body["receipt"], "receiver") if status == 200 else None
