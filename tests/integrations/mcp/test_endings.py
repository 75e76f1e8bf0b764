"""Response streams that end without a response: told at once, or when nobody has taken them up again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from turnctl.integrations.mcp import endings


class AsyncByteStream:
    """Named as that of the library, which the wrapped stream has to be one of."""

    def __init__(self, *parts: bytes, error: Exception | None = None) -> None:
        self.parts = parts
        self.error = error
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        if self.error is not None:
            raise self.error

    async def aclose(self) -> None:
        self.is_closed = True


class Browser:
    """An HTTP client whose responses a test makes up; ``ended`` has the ids whose streams have ended."""

    def __init__(self) -> None:
        self.event_hooks: dict[str, list[Any]] = {"response": []}
        self.ended: list[Any] = []
        watch: Callable[[Any], None] = endings.watch_responses(self.ended.append)
        watch(self)

    async def respond(
        self,
        stream: AsyncByteStream,
        request_id: Any = 1,
        *,
        method: str = "POST",
        kind: str = "text/event-stream",
        content: bytes | None = None,
        **headers: str,
    ) -> Any:
        """A response, after the hooks have seen it."""
        body = json.dumps({"id": request_id}).encode() if content is None else content
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = SimpleNamespace(
            headers={"content-type": kind},
            request=SimpleNamespace(method=method, content=body, headers=sent),
            stream=stream,
        )
        for hook in self.event_hooks["response"]:
            await hook(response)
        return response


async def read(response: Any) -> bytes:
    return b"".join([part async for part in response.stream])


def test_end_is_told_with_the_id() -> None:
    """What was read is what there was, and the stream is still one of its library's."""
    browser = Browser()

    async def main() -> bytes:
        stream = AsyncByteStream(b"data: 1\n", b"\n")
        response = await browser.respond(stream, "a")
        assert isinstance(response.stream, AsyncByteStream)
        text = await read(response)
        await response.stream.aclose()
        assert stream.is_closed
        return text

    assert b"data: 1\n\n" == asyncio.run(main())
    assert ["a"] == browser.ended


def test_stream_that_breaks_is_told() -> None:
    """Its error comes out as it is."""
    browser = Browser()

    async def main() -> None:
        with pytest.raises(OSError, match="broken"):
            await read(await browser.respond(AsyncByteStream(b"x", error=OSError("broken"))))

    asyncio.run(main())

    assert [1] == browser.ended


def test_reader_that_has_had_enough_is_no_end() -> None:
    """Who stops reading has what it wanted."""
    browser = Browser()

    async def main() -> None:
        parts = (await browser.respond(AsyncByteStream(b"x", b"y"))).stream.__aiter__()
        await parts.__anext__()
        await parts.aclose()

    asyncio.run(main())

    assert [] == browser.ended


@pytest.mark.parametrize(
    "options", [{"kind": "application/json"}, {"method": "GET"}, {"method": "DELETE"}], ids=["json", "GET", "DELETE"]
)
def test_other_responses_are_left_alone(options: dict[str, Any]) -> None:
    """Only response streams of requests are watched."""
    browser = Browser()

    async def main() -> None:
        stream = AsyncByteStream(b"x")
        response = await browser.respond(stream, **options)
        assert stream is response.stream
        await read(response)

    asyncio.run(main())

    assert [] == browser.ended


@pytest.mark.parametrize("content", [b"nonsense", b"[]"])
def test_body_that_is_no_request(content: bytes) -> None:
    """The end of its stream is told of nobody."""
    browser = Browser()

    async def main() -> None:
        await read(await browser.respond(AsyncByteStream(b"x"), content=content))

    asyncio.run(main())

    assert [None] == browser.ended


@pytest.mark.parametrize("resumed", [True, False])
def test_stream_with_ids_may_be_taken_up_again(resumed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up when nobody has done so in time; a stream that goes on with it is watched in its place."""
    monkeypatch.setattr(endings, "_RESUME_S", 0.05 if not resumed else 30.0)
    browser = Browser()
    told: list[list[Any]] = []

    async def main() -> None:
        await read(await browser.respond(AsyncByteStream(b"id: 1\ndata:\n\n"), 7))
        told.append(list(browser.ended))
        if resumed:
            again = AsyncByteStream(b"data: 2\n\n")
            await read(await browser.respond(again, method="GET", last_event_id="1"))
        else:
            await asyncio.sleep(0.1)
        told.append(list(browser.ended))

    asyncio.run(main())

    assert [[], [7]] == told
