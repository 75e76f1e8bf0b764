"""A loopback server that answers as model providers do: a stream of events, whole or half of it, or an error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from peers import Loopback, Peer, loopback

PARTS = ("Hel", "lo ", "wor", "ld")


def _sse(data: Any, event: str | None = None) -> bytes:
    head = "" if event is None else f"event: {event}\n"
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _chat_chunk(text: str | None, *, end: str | None = None) -> bytes:
    delta = {} if text is None else {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": end}
    return _sse({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def chat_events() -> list[bytes]:
    """Of ``/v1/chat/completions``, the four parts first."""
    return [*(_chat_chunk(part) for part in PARTS), _chat_chunk(None, end="stop"), _sse("[DONE]")]


def responses_events() -> list[bytes]:
    """Of ``/v1/responses``: three that open it, the four parts, and the end."""
    message = {"id": "m", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    text = {"type": "output_text", "text": "", "annotations": []}
    whole = {**message, "status": "completed", "content": [{**text, "text": "".join(PARTS)}]}
    base = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "status": "in_progress",
    }
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": base},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", **place, "part": text},
        *({"type": "response.output_text.delta", **place, "delta": part, "logprobs": []} for part in PARTS),
        {"type": "response.output_text.done", **place, "text": "".join(PARTS), "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {**base, "status": "completed", "output": [whole]}},
    ]
    return [_sse({**event, "sequence_number": n}, event["type"]) for n, event in enumerate(events)]


def message_events() -> list[bytes]:
    """Of ``/v1/messages``: two that open it, the four parts, and the end."""
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": p}} for p in PARTS),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]
    return [_sse(event, event["type"]) for event in events]


def line_events() -> list[bytes]:
    """Of any other path: a line for each part."""
    return [f"{part.strip()}\n".encode() for part in PARTS]


#: what a path is answered with, and how many of these make the first half, which has two of the four parts in it
ROUTES: dict[str, tuple[Callable[[], list[bytes]], int]] = {
    "/v1/chat/completions": (chat_events, 2),
    "/v1/responses": (responses_events, 5),
    "/v1/messages": (message_events, 4),
}


class Models:
    """What it was asked, and how it answers.

    ``mode``: ``whole``; ``half``, which stalls in the middle of the stream; ``silent``, which does so before the first
    byte; ``open``, after the last event and before the end of the body; or a number, the status of an error, with
    ``retry_after``. ``framing``: ``chunked`` or ``close``, which ends a body with its connection.
    """

    def __init__(self) -> None:
        self.mode: str | int = "whole"
        self.framing = "chunked"
        self.retry_after: str | None = None
        self.pause_s = 0.0  # between two events
        self.requests: list[str] = []
        self.heard: Callable[[str], object] | None = None
        self.server: Loopback = None  # type: ignore[assignment] - set before anybody asks

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def serve(self, peer: Peer) -> None:
        while True:
            head = peer.until(b"\r\n\r\n").decode("latin-1")
            path = head.split(" ", 2)[1]
            for line in head.split("\r\n"):
                name, _, value = line.partition(":")
                if name.lower() == "content-length":
                    peer.exactly(int(value))
            self.requests.append(path)
            if self.heard is not None:
                self.heard(path)
            self._answer(peer, path)
            if self.framing == "close":
                return

    def _answer(self, peer: Peer, path: str) -> None:
        if isinstance(self.mode, int):
            body = json.dumps({"error": {"message": "busy", "type": "busy", "code": "busy"}}).encode()
            after = "" if self.retry_after is None else f"Retry-After: {self.retry_after}\r\n"
            status = f"HTTP/1.1 {self.mode} X\r\nContent-Type: application/json\r\n{after}"
            peer.send(f"{status}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return
        if self.mode == "silent":
            peer.stall()
        events, half = ROUTES.get(path, (line_events, 2))
        framing = "Transfer-Encoding: chunked" if self.framing == "chunked" else "Connection: close"
        kind = "text/event-stream" if path in ROUTES else "text/plain"
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{framing}\r\n\r\n".encode())
        for n, event in enumerate(events()):
            if n == half and self.mode == "half":
                peer.stall()
            peer.send(b"%x\r\n%s\r\n" % (len(event), event) if self.framing == "chunked" else event)
            time.sleep(self.pause_s)
        if self.mode == "open":
            peer.stall()
        if self.framing == "chunked":
            peer.send(b"0\r\n\r\n")


@contextmanager
def models() -> Iterator[Models]:
    found = Models()
    with loopback(found.serve) as found.server:
        yield found
