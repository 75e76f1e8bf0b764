"""The retries inside the clients of openai and anthropic: a stop ends their sleep, and no further request is sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Models, models
from standins import Background, until
from streams import MESSAGES, anthropic_client, openai_client

import turnctl
from turnctl import BadArgument, CancelledError, ClientChanged
from turnctl.integrations.retries import of_sdks, stoppable_client

LIMIT_S = 2.0  # ten times what is promised


@pytest.fixture
def server() -> Iterator[Models]:
    with models() as server:
        server.mode, server.retry_after = 429, "60"
        yield server


class Sdk:
    """A client of one of the two, and a request of it."""

    def __init__(self, name: str, server: Models) -> None:
        pytest.importorskip(name, reason=f"{name} is not installed: the clients extra has it")
        self.name = name
        make = openai_client if name == "openai" else anthropic_client
        self.client = make(server, max_retries=5)

    def ask(self, client: Any = None, **options: Any) -> Any:
        client = client or self.client
        if self.name == "openai":
            return client.chat.completions.create(model="m", messages=MESSAGES, **options)
        return client.messages.create(model="m", messages=MESSAGES, max_tokens=9, **options)


@pytest.fixture(params=["openai", "anthropic"])
def sdk(request: pytest.FixtureRequest, server: Models) -> Iterator[Sdk]:
    found = Sdk(request.param, server)
    with found.client:
        yield found


@pytest.fixture(params=["the client", "with options", "installed"])
def ask(request: pytest.FixtureRequest, sdk: Sdk) -> Iterator[Callable[..., Any]]:
    """A request of a client that was made stoppable, of one derived from it, and of a plain one under ``install``."""
    if request.param == "installed":
        pytest.importorskip("httpx", reason="httpx is not installed: the clients extra has it")
        with turnctl.install(http=True):
            yield sdk.ask
        return
    client: Any = stoppable_client(sdk.client)
    if request.param == "with options":
        client = client.with_options(max_retries=3)
    yield lambda **options: sdk.ask(client, **options)


def test_stop_ends_the_sleep(ask: Callable[..., Any], server: Models) -> None:
    """The server has asked for 60 s: the caller is free at once, and there was one request."""
    with turnctl.turn() as turn:
        asking = Background(turn.bind(ask))
        assert until(lambda: server.requests and turn.token._grow().waiters)
        at = time.monotonic()
        turn.stop("enough")
        error = asking.error()

        assert isinstance(error, CancelledError)
        assert "enough" == error.reason
        assert asking.ended_at is not None
        assert asking.ended_at - at < LIMIT_S
    assert 1 == len(server.requests)


@pytest.mark.parametrize("stream", [False, True])
def test_answer_that_comes_after_the_stop_is_not_retried(ask: Callable[..., Any], server: Models, stream: bool) -> None:
    """The request was under way when the turn was stopped; whatever it came to, it was the last."""
    with turnctl.turn() as turn:
        server.heard = lambda _: turn.cancel("enough")
        with pytest.raises(CancelledError) as caught:
            ask(stream=stream)

    assert ("enough", 1) == (caught.value.reason, len(server.requests))


def test_stopped_turn_sends_nothing(ask: Callable[..., Any], server: Models) -> None:
    """Stop, then the request."""
    with turnctl.turn() as turn:
        turn.cancel()
        with pytest.raises(CancelledError):
            ask()

    assert [] == server.requests


def test_without_a_stop_it_retries(ask: Callable[..., Any], server: Models) -> None:
    """Each attempt is one request, and the answer comes with the third."""
    server.retry_after = "0.01"

    def heard(_: str) -> None:
        if len(server.requests) == 3:
            server.mode = "whole"

    server.heard = heard
    with turnctl.turn() as turn:
        for _ in turn.stream(ask(stream=True)):
            pass

    assert 3 == len(server.requests)


def test_outside_of_turns_it_retries(ask: Callable[..., Any], server: Models) -> None:
    """As ever."""
    server.retry_after = "0.01"
    server.heard = lambda _: setattr(server, "mode", "whole") if len(server.requests) == 2 else None
    for _ in ask(stream=True):
        pass

    assert 2 == len(server.requests)


@pytest.mark.parametrize("retries", [0, 5])
def test_connection_that_fails_after_a_stop_is_the_last(sdk: Sdk, server: Models, retries: int) -> None:
    """The end of the connection is the cause, and not what the caller gets."""
    server.mode = "silent"
    client = stoppable_client(sdk.client).with_options(max_retries=retries)
    with turnctl.turn() as turn:
        asking = Background(turn.bind(sdk.ask), client)
        peer = server.server.reached()
        turn.cancel("enough")
        peer.sock.shutdown(2)
        error = asking.error()

    assert isinstance(error, CancelledError)
    assert retries or "APIConnectionError" == type(error.__cause__).__name__
    assert 1 == len(server.requests)


def test_sleep_is_in_the_log_of_the_client(sdk: Sdk, server: Models, caplog: pytest.LogCaptureFixture) -> None:
    """Where those who read it expect it, with its true length."""
    server.retry_after = "0.01"
    server.heard = lambda _: setattr(server, "mode", "whole") if len(server.requests) == 2 else None
    client = stoppable_client(sdk.client)
    with turnctl.turn() as turn, caplog.at_level(logging.INFO):
        for _ in turn.stream(sdk.ask(client, stream=True)):
            pass

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("._base_client")]
    assert any("Retrying request" in line for line in lines)


def test_client_stays_what_it_was(sdk: Sdk) -> None:
    """The same object, of a class that derives from its own, also if it is made stoppable twice."""
    kind = type(sdk.client)
    client = stoppable_client(stoppable_client(sdk.client))

    assert client is sdk.client
    assert isinstance(client, kind)
    assert (kind.__name__, kind) == (type(client).__name__, type(client).__mro__[1])
    assert type(client) is type(client.with_options(max_retries=1))


def test_uninstall_takes_it_back(sdk: Sdk) -> None:
    """The methods are those that were there."""
    pytest.importorskip("httpx", reason="httpx is not installed: the clients extra has it")
    root = of_sdks._root_of(type(sdk.client))
    before = dict(root.__dict__)
    with turnctl.install(http=True):
        assert before != dict(root.__dict__)

    assert before == dict(root.__dict__)


def test_asynchronous_client_is_refused(sdk: Sdk) -> None:
    """It sleeps on its loop, where a stop cancels its task."""
    import importlib

    module = importlib.import_module(sdk.name)
    client = module.AsyncOpenAI(api_key="x") if sdk.name == "openai" else module.AsyncAnthropic(api_key="x")
    with pytest.raises(BadArgument, match="its retries end with its task"):
        stoppable_client(client)


@pytest.mark.parametrize("thing", [None, 3, object()])
def test_what_is_no_client_is_refused(thing: Any) -> None:
    """With what is taken."""
    with pytest.raises(BadArgument, match="is for synchronous clients of openai and anthropic"):
        stoppable_client(thing)


@pytest.mark.parametrize("how", ["client", "install"])
def test_client_whose_sleep_is_not_known_is_refused(sdk: Sdk, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """It would go on retrying after a stop: that is told when it is made stoppable, and nothing is changed."""
    root = of_sdks._root_of(type(sdk.client))
    kind = type(sdk.client)
    name = "_sleep_for_retry" if "_sleep_for_retry" in root.__dict__ else "_retry_request"
    monkeypatch.delattr(root, name)
    with pytest.raises(ClientChanged, match="does not sleep between its retries in a way that turnctl knows") as caught:
        stoppable_client(sdk.client) if how == "client" else turnctl.install(http=True)

    assert sdk.name == caught.value.client
    assert kind is type(sdk.client)
