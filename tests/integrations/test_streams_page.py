"""The examples of the page about streams run as they stand, against a loopback server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from models import models
from pages import examples
from streams import openai_client

import turnctl

openai = pytest.importorskip("openai", reason="openai is not installed: the clients extra has it")
if not hasattr(openai.OpenAI, "responses"):
    pytest.skip("this openai has no responses", allow_module_level=True)


@pytest.fixture
def client() -> Iterator[Any]:
    with models() as server, openai_client(server) as client:
        yield client


def test_chunks_of_a_chat(client: Any) -> None:
    """The first example."""
    with turnctl.turn() as turn:
        assert "Hello world" == examples("streams.md")["ask"](turn, client, "hi")


def test_events_of_a_manager(client: Any) -> None:
    """The second one."""
    with turnctl.turn() as turn:
        assert "Hello world" == "".join(examples("streams.md")["ask_in_events"](turn, client, "hi"))


def test_generator_with_the_stream_inside(client: Any) -> None:
    """The third one."""
    with turnctl.turn() as turn:
        assert "HELLO WORLD" == "".join(examples("streams.md", "What is recognised")["shout"](turn, client, "hi"))
