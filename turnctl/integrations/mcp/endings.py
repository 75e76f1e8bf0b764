"""Response streams of HTTP: when they begin, and which end without a response.

Some versions of the SDK wait on for one that cannot come. The SDK's HTTP client tells of each response (its event
hooks); the stream of one is wrapped, and its end told. A stream whose events have ids is taken up again by the SDK;
only if that has not come about in ``_RESUME_S`` is it given up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

__all__ = ["watch_responses"]

_RESUME_S = 15.0


def watch_responses(
    ended: Callable[[Any], object], begun: Callable[[Any], object] = lambda _: None
) -> Callable[[Any], None]:
    """What is to be done with an HTTP client so that ``begun`` is called with the id of each request whose response has
    begun, and ``ended`` with that of one whose response stream has ended, in the loop of the client."""
    endings = _Endings(ended, begun)

    def watch(client: Any) -> None:
        hooks = client.event_hooks
        hooks["response"].append(endings.see)
        client.event_hooks = hooks

    return watch


class _Endings:
    """The response streams of one connection."""

    def __init__(self, ended: Callable[[Any], object], begun: Callable[[Any], object]) -> None:
        self._ended = ended
        self._begun = begun
        self._waiting: dict[Any, asyncio.TimerHandle] = {}

    async def see(self, response: Any) -> None:
        """A response has begun."""
        if response.request.method == "POST":
            self._begun(_id_in(response.request.content))
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            return
        if response.request.method == "POST":
            ids = [_id_in(response.request.content)]
        elif "last-event-id" in response.request.headers:
            ids = list(self._waiting)
        else:
            return
        for one in ids:
            self._go_on(one)
        response.stream = _wrap(response.stream, lambda resumable: self._see_end(ids, resumable))

    def _go_on(self, request_id: Any) -> None:
        timer = self._waiting.pop(request_id, None)
        if timer is not None:
            timer.cancel()

    def _see_end(self, ids: list[Any], resumable: bool) -> None:
        loop = asyncio.get_running_loop()
        for one in ids:
            if resumable:
                self._waiting[one] = loop.call_later(_RESUME_S, self._give_up, one)
            else:
                self._ended(one)

    def _give_up(self, request_id: Any) -> None:
        self._waiting.pop(request_id, None)
        self._ended(request_id)


def _id_in(content: bytes) -> Any:
    try:
        found = json.loads(content)
    except ValueError:
        return None
    return found.get("id") if isinstance(found, dict) else None


def _wrap(stream: Any, end: Callable[[bool], object]) -> Any:
    """``stream``, with its end told; of the class that its library insists on."""
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream")

    async def parts(_: Any) -> AsyncIterator[bytes]:
        resumable = False
        try:
            async for part in stream:
                resumable = resumable or part.startswith(b"id:") or b"\nid:" in part
                yield part
        except (GeneratorExit, asyncio.CancelledError):
            raise  # whoever reads has had enough
        except BaseException:
            end(resumable)
            raise
        end(resumable)

    async def aclose(_: Any) -> None:
        await stream.aclose()

    made: Any = type("WatchedStream", (base,), {"__aiter__": parts, "aclose": aclose})
    return made()
