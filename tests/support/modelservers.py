"""A server that answers as a provider of models, as it is told; and the real clients over turnctl's, to ask it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import NAMES, face
from peers import Loopback, Peer, loopback

from turnctl.agent import AnthropicMessages, OpenAIChat

#: ("whole", body), ("status", (number, body)), or "events", "stall", "cut" or "end" with the events before that
Answer = tuple[str, Any]


class Model:
    """A server that answers as it is told, one answer for each request, and keeps what it was asked."""

    def __init__(self, server: Loopback, answers: list[Answer]) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.port}"
        self.answers = answers
        self.asked: list[dict[str, Any]] = []

    def answer(self, peer: Peer) -> None:
        while True:
            head = peer.until(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self.asked.append(json.loads(peer.exactly(size)))
            kind, told = self.answers.pop(0)
            if kind in ("whole", "status"):
                number, body = (200, told) if kind == "whole" else told
                data = json.dumps(body).encode()
                head_of = (
                    f"HTTP/1.1 {number} Told\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
                )
                peer.send(head_of.encode() + data)
                continue
            framing = b"Connection: close" if kind == "end" else b"Transfer-Encoding: chunked"
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%s\r\n\r\n" % framing)
            for event in told:
                name = f"event: {event['type']}\n" if "type" in event else ""
                data = f"{name}data: {json.dumps(event)}\n\n".encode()
                peer.send(data if kind == "end" else b"%x\r\n%s\r\n" % (len(data), data))
            if kind == "stall":
                peer.stall()
            if kind in ("cut", "end"):
                return
            peer.send(b"0\r\n\r\n")


@contextlib.contextmanager
def model(*answers: Answer) -> Iterator[Model]:
    with loopback(lambda peer: found.answer(peer)) as server:
        found = Model(server, list(answers))
        yield found


def family_of(client: Any) -> str:
    """Which httpx the installed SDK is built on."""
    return next(root for one in type(client._client).__mro__ if (root := one.__module__.partition(".")[0]) in NAMES)


@contextlib.contextmanager
def behind(name: str, url: str) -> Iterator[Any]:
    """The model of the loop over the SDK's client over turnctl's."""
    sdk = pytest.importorskip(name, reason=f"the client of {name} is what these tests are about")
    kind, base = (sdk.OpenAI, f"{url}/v1") if name == "openai" else (sdk.Anthropic, url)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(kind(base_url=base, api_key="k", max_retries=0))
        below = stack.enter_context(face(family_of(plain)).Client(timeout=10))
        client = stack.enter_context(kind(base_url=base, api_key="k", max_retries=0, http_client=below))
        yield OpenAIChat(client, "m") if name == "openai" else AnthropicMessages(client, "m", max_tokens=9)


# -- what the providers say ---------------------------------------------------------------------------------------

OPENAI_CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}


def openai_whole(message: dict[str, Any], finish: str) -> Answer:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m-1", "choices": [choice], "usage": usage}
    return ("whole", body)


def openai_chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": [choice]}


def anthropic_whole(content: list[Any], stop: str) -> Answer:
    usage = {"input_tokens": 5, "output_tokens": 2}
    body = {"id": "c", "type": "message", "role": "assistant", "model": "m-1", "content": content}
    return ("whole", {**body, "stop_reason": stop, "stop_sequence": None, "usage": usage})


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1"}
START = {
    "type": "message_start",
    "message": {
        **anthropic_whole([], "end_turn")[1],
        "stop_reason": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    },
}
TEXT = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}},
]
TOOL = [
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "a", "name": "look", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"at"'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ': "x"}'}},
    {"type": "content_block_stop", "index": 1},
]


def ended(stop: str) -> list[Any]:
    told = {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 2},
    }
    return [told, {"type": "message_stop"}]


CALLS = {
    "openai": openai_whole({"content": "so", "tool_calls": [OPENAI_CALL]}, "tool_calls"),
    "anthropic": anthropic_whole(
        [
            THINKING,
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "x"}},
        ],
        "tool_use",
    ),
}
DONE = {
    "openai": openai_whole({"content": "done"}, "stop"),
    "anthropic": anthropic_whole([{"type": "text", "text": "done"}], "end_turn"),
}
HALF = {"openai": [openai_chunk({"role": "assistant", "content": "half"})], "anthropic": [START, *TEXT]}
STREAMED = {
    "openai": [
        *HALF["openai"],
        openai_chunk({"tool_calls": [{"index": 0, **OPENAI_CALL, "function": {"name": "look", "arguments": '{"at"'}}]}),
        openai_chunk({"tool_calls": [{"index": 0, "function": {"arguments": ': "x"}'}}]}, "tool_calls"),
        {**openai_chunk({}), "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
    ],
    "anthropic": [START, *TEXT, *TOOL, *ended("tool_use")],
}
