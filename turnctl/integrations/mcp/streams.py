"""What a session of the SDK reads from and writes to, in place of the streams of its transport.

Closing them does nothing: the wire closes the transport itself, when what is still to be sent has gone out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from turnctl.integrations.mcp.wire import Wire

__all__ = ["Reader", "Writer"]


class Reader:
    """What a session reads from."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def last_context(self) -> Any:
        return self._wire.last_context

    async def receive(self) -> Any:
        return await self._wire.receive()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._wire.receive()
        except self._wire.closed as error:
            if type(error).__name__ == "EndOfStream":
                raise StopAsyncIteration from None
            raise

    async def aclose(self) -> None:
        """See above."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Writer:
    """What a session writes to."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, item: Any) -> None:
        await self._wire.send(item)

    async def aclose(self) -> None:
        """See above."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
