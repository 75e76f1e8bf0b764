"""The examples of the page about retries run as they stand."""

from __future__ import annotations

from typing import Any

import pytest
from models import models
from pages import examples
from streams import MESSAGES, openai_client

import turnctl
from turnctl import CancelledError

pytest.importorskip("tenacity", reason="tenacity is not installed: the test extra has it")


@pytest.fixture
def page() -> dict[str, Any]:
    return examples("retries.md")


def test_function_is_not_tried_again(page: dict[str, Any]) -> None:
    """The decorated one ends with the stop, and gives what it is asked for without."""
    tries: list[int] = []

    def ask() -> None:
        tries.append(1)
        turnctl.current_turn().cancel()  # type: ignore[union-attr]
        raise ConnectionError

    with turnctl.turn():
        assert "answer" == page["fetch"](lambda: "answer")
        with pytest.raises(CancelledError):
            page["fetch"](ask)

    assert [1] == tries


def test_client_is_not_asked_again(page: dict[str, Any]) -> None:
    """One request, and the stop."""
    pytest.importorskip("openai", reason="openai is not installed: the clients extra has it")
    with models() as server, openai_client(server) as client, turnctl.turn() as turn:
        server.mode = 500
        server.heard = lambda _: turn.cancel()
        with pytest.raises(CancelledError):
            page["make_client"](client).chat.completions.create(model="m", messages=MESSAGES)

        assert 1 == len(server.requests)


def test_session_obeys_the_turn(page: dict[str, Any]) -> None:
    """Its policy is the one that was given, and asks the turn."""
    requests = pytest.importorskip("requests", reason="requests is not installed: the clients extra has it")
    from urllib3.util import Retry

    with requests.Session() as plain:
        session = page["make_session"](plain, Retry(3), requests.adapters.HTTPAdapter)
        policy = session.get_adapter("https://x").max_retries

        assert 3 == policy.total
        with turnctl.turn() as turn:
            turn.cancel()
            with pytest.raises(CancelledError):
                policy.increment("GET", "https://x", error=OSError())
