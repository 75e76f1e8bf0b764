"""Every stream of a client that a turn can read: how it is opened over a loopback server, and what it says."""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from models import PARTS, Models
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError, Turn

Opened = AbstractContextManager[Any]
MESSAGES: list[Any] = [{"role": "user", "content": "hi"}]


class Kind:
    """One kind of stream: ``open(models)`` gives the source, ``say`` the text of one item, ``module`` whose it is."""

    def __init__(
        self, module: str, open: Callable[[Models], Opened], say: Callable[[Any], str | None], needs: str
    ) -> None:
        self.module = module
        self.needs = needs
        self.open = open
        self.say = say
        self.name = open.__name__

    def __repr__(self) -> str:
        return self.name

    def skip_if_missing(self) -> None:
        """Skip the test where the client is too old to have such a stream."""
        module: Any = importlib.import_module(self.module)  # may take longer than anything that is waited for here
        if not self.needs:
            return
        with module.OpenAI(api_key="none") as client:
            found: Any = client
            for name in self.needs.split("."):
                found = getattr(found, name, None)
        if found is None:
            pytest.skip(f"this {self.module} has no {self.needs}")

    def text(self, items: list[Any]) -> str:
        """What the items say together."""
        return "".join(part for item in items if (part := self.say(item)) is not None)


KINDS: list[Kind] = []


def kind(
    module: str, say: Callable[[Any], str | None], needs: str = ""
) -> Callable[[Callable[[Models], Iterator[Any]]], None]:
    def add(fn: Callable[[Models], Iterator[Any]]) -> None:
        KINDS.append(Kind(module, contextmanager(fn), say, needs))

    return add


def params(*modules: str) -> list[Any]:
    """The kinds of these modules as parameters, skipped loudly where a module is missing."""
    return [
        pytest.param(
            one,
            id=one.name,
            marks=pytest.mark.skipif(
                importlib.util.find_spec(one.module) is None,
                reason=f"{one.module} is not installed: the clients extra has it",
            ),
        )
        for one in KINDS
        if one.module in modules
    ]


def openai_client(models: Models, **options: Any) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{models.url}/v1", api_key="none", **options)


def anthropic_client(models: Models, **options: Any) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=models.url, api_key="none", **options)


def _of_chunk(item: Any) -> str | None:
    return item.choices[0].delta.content  # type: ignore[no-any-return]


def _of_delta(item: Any) -> str | None:
    """Of an event of the responses API, and of the helper for chats."""
    return item.delta if item.type in ("response.output_text.delta", "content.delta") else None


def _of_block(item: Any) -> str | None:
    return item.delta.text if item.type == "content_block_delta" else None


def _of_bytes(item: bytes) -> str:
    return item.decode().replace("\n", "")


@kind("openai", _of_chunk)
def openai_chat(models: Models) -> Iterator[Any]:
    with openai_client(models) as client:
        yield client.chat.completions.create(model="m", messages=MESSAGES, stream=True)


@kind("openai", _of_delta, "responses.create")
def openai_responses(models: Models) -> Iterator[Any]:
    with openai_client(models) as client:
        yield client.responses.create(model="m", input="hi", stream=True)


@kind("openai", _of_delta, "responses.stream")
def openai_responses_manager(models: Models) -> Iterator[Any]:
    with openai_client(models) as client:
        yield client.responses.stream(model="m", input="hi")


@kind("openai", _of_delta, "chat.completions.stream")
def openai_chat_manager(models: Models) -> Iterator[Any]:
    with openai_client(models) as client:
        yield client.chat.completions.stream(model="m", messages=MESSAGES)


@kind("anthropic", _of_block)
def anthropic_messages(models: Models) -> Iterator[Any]:
    with anthropic_client(models) as client:
        yield client.messages.create(model="m", messages=MESSAGES, max_tokens=9, stream=True)


@kind("anthropic", _of_block)
def anthropic_manager(models: Models) -> Iterator[Any]:
    with anthropic_client(models) as client:
        yield client.messages.stream(model="m", messages=MESSAGES, max_tokens=9)


@kind("anthropic", str)
def anthropic_text(models: Models) -> Iterator[Any]:
    with anthropic_client(models) as client:
        with client.messages.stream(model="m", messages=MESSAGES, max_tokens=9) as stream:
            yield stream.text_stream


@kind("httpx", str)
def httpx_lines(models: Models) -> Iterator[Any]:
    import httpx

    with httpx.Client() as client, client.stream("GET", models.url) as response:
        yield response.iter_lines()


@kind("httpx", _of_bytes)
def httpx_bytes(models: Models) -> Iterator[Any]:
    import httpx

    with httpx.Client() as client, client.stream("GET", models.url) as response:
        yield response.iter_bytes()


@kind("httpx2", str)
def httpx2_lines(models: Models) -> Iterator[Any]:
    import httpx2

    with httpx2.Client() as client, client.stream("GET", models.url) as response:
        yield response.iter_lines()


@kind("requests", _of_bytes)
def requests_lines(models: Models) -> Iterator[Any]:
    import requests

    with requests.Session() as session:
        yield session.get(models.url, stream=True).iter_lines(chunk_size=1)


@kind("requests", _of_bytes)
def requests_content(models: Models) -> Iterator[Any]:
    import requests

    with requests.Session() as session:
        yield session.get(models.url, stream=True).iter_content(1)


@kind("requests", _of_bytes)
def requests_response(models: Models) -> Iterator[Any]:
    import requests

    with requests.Session() as session:
        yield session.get(models.url, stream=True)


@kind("urllib3", _of_bytes)
def urllib3_stream(models: Models) -> Iterator[Any]:
    import urllib3

    with urllib3.PoolManager() as pool:
        yield pool.request("GET", models.url, preload_content=False).stream()


@kind("urllib", _of_bytes)
def urlopen(models: Models) -> Iterator[Any]:
    import urllib.request

    yield urllib.request.urlopen(models.url)


def _litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or the import asks a server for it
    import litellm

    return litellm


def preloaded() -> Any:
    """litellm, loaded, which takes longer than anything else does."""
    return _litellm()


@kind("litellm", _of_chunk)
def litellm_openai(models: Models) -> Iterator[Any]:
    litellm = _litellm()
    with openai_client(models) as client:
        yield litellm.completion(
            model="openai/m", messages=MESSAGES, stream=True, client=client, api_key="none", num_retries=3
        )


@kind("litellm", _of_chunk)
def litellm_anthropic(models: Models) -> Iterator[Any]:
    litellm = _litellm()
    from litellm.llms.custom_httpx.http_handler import HTTPHandler

    handler = HTTPHandler()
    yield litellm.completion(
        model="anthropic/m", messages=MESSAGES, stream=True, client=handler, api_key="none", api_base=models.url
    )
    handler.close()


# -- what is tried with each of them -----------------------------------------------------------------------------------


def reading(turn: Turn, kind: Kind, server: Models, got: list[Any]) -> Background[None]:
    """A loop in the middle of a stream, whose server says nothing more."""

    def loop() -> None:
        with kind.open(server) as source:
            for item in turn.stream(source):
                got.append(item)

    return Background(turn.bind(loop))


def expected(kind: Kind, count: int) -> str:
    """What so many parts say; lines are stripped."""
    parts = PARTS[:count]
    return "".join(parts if kind.name.split("_")[0] in ("openai", "anthropic", "litellm") else map(str.strip, parts))


def stop_in_the_middle(kind: Kind, server: Models, framing: str) -> None:
    """Stop a loop that has had half; what it got, what the server saw, and what the report says."""
    kind.skip_if_missing()
    server.mode, server.framing = "half", framing
    got: list[Any] = []
    with turnctl.turn(grace=60) as turn:
        loop = reading(turn, kind, server, got)
        peer = server.server.reached()
        assert until(lambda: kind.text(got) == expected(kind, 2))
        stopped_at = time.monotonic()
        turn.stop("enough")
        error = loop.error()

        assert isinstance(error, CancelledError)
        assert "enough" == error.reason
        assert peer.ended.wait(BOUND)
        assert loop.ended_at is not None
        assert loop.ended_at - stopped_at < 1
    assert 1 == len(server.requests)
    record = next(one for one in turn.report.activities if one.kind == "stream")
    assert "cancelled" == record.state
    assert expected(kind, 2) == kind.text(list(record.received or ()))
    assert record.text in (None, expected(kind, 2))
    assert (record.text is None) == (kind.say is _of_bytes)
