"""Clients of httpx whose requests end with a stop of their turn.

``Client`` is used as ``httpx.Client`` is; ``stoppable`` changes one that there is; ``Transport`` goes around one.
"""

from __future__ import annotations

from typing import Any

import httpx

from turnctl.integrations.transports import Fallback, Passing, Wrapping, stoppable, wrap_in_place

__all__ = ["Client", "Transport", "stoppable"]


class Transport(Wrapping, httpx.BaseTransport):
    """A transport around another one, whose requests end with a stop of their turn.

    Raises ``ClientChanged`` or ``BadArgument`` if nothing could interrupt those of ``wrapped``, unless ``fallback`` is
    "call" (each is run by ``turnctl.call``, left behind at a stop and named) or "check" (the stop is looked at before
    and after). Those of a ``MockTransport`` and a ``WSGITransport``, which run on the caller's thread, are checked so.
    """

    family = "httpx"

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Pass ``request`` on; a checkpoint in all that it waits for."""
        response: httpx.Response = super().handle_request(request)
        return response

    def _body(self, inner: Any) -> _Body:
        return _Body(inner)


class _Body(Passing, httpx.SyncByteStream):
    pass


class Client(httpx.Client):
    """``httpx.Client``, with the same arguments, whose requests end with a stop of their turn.

    With no turn it works as the plain one does. ``fallback`` is that of ``Transport``.
    """

    def __init__(self, *args: Any, fallback: Fallback | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        try:
            wrap_in_place(self, Transport, fallback)
        except BaseException:
            self.close()
            raise
