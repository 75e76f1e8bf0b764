"""The text of a stream's items: told by their shape, each piece once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from turnctl.records.texts import text_of


def chunk(content: str | None, *, choices: bool = True) -> Any:
    choice = SimpleNamespace(delta=SimpleNamespace(content=content))
    return SimpleNamespace(object="chat.completion.chunk", choices=[choice] if choices else [])


def event(kind: str, **held: Any) -> Any:
    return SimpleNamespace(type=kind, **held)


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([], ""),
        (["a", 1], None),
        (["Hel", "lo"], "Hello"),
        ([1, 2], None),
        ([b"Hello"], None),
        ([chunk("Hel"), chunk("lo"), chunk(None), chunk(None, choices=False)], "Hello"),
        ([event("response.created"), event("response.output_text.delta", delta="Hello")], "Hello"),
        ([event("chunk", chunk=chunk("Hello")), event("content.delta", delta="Hello")], "Hello"),
        (
            [
                event("content_block_delta", delta=SimpleNamespace(type="text_delta", text="Hello")),
                event("text", text="Hello", snapshot="Hello"),
                event("content_block_delta", delta=SimpleNamespace(type="input_json_delta", partial_json="{")),
            ],
            "Hello",
        ),
        ([event("content_block_delta"), event("content.delta", delta=3)], None),
        ([event("message_start")], None),
    ],
)
def test_text_of_items(items: list[Any], text: str | None) -> None:
    """Text, chunks of chats, events of responses and messages; anything else says nothing."""
    assert text == text_of(items)


def test_item_that_only_looks_like_an_event_does_no_harm() -> None:
    """What its attributes raise stays with it."""

    class Odd:
        type = "content.delta"

        @property
        def delta(self) -> str:
            raise OSError

    assert "a" == text_of([Odd(), event("content.delta", delta="a")])
