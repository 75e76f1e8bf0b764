"""Streams of real clients: a stop in the middle frees the loop, keeps what was received, and closes the right thing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from models import PARTS, Models, models
from standins import BOUND, Background, until
from streams import Kind, expected, openai_client, params, stop_in_the_middle

import turnctl
from turnctl import CancelledError
from turnctl.testing import pause_at
from turnctl.waiting import abandoned

WHOLE = "".join(f"{part.strip()}\n" for part in PARTS)
CLIENTS = params("openai", "anthropic", "httpx", "httpx2", "requests", "urllib3", "urllib")


@pytest.fixture
def server() -> Iterator[Models]:
    with models() as server:
        yield server


@pytest.mark.parametrize("kind", CLIENTS)
def test_stop_in_the_middle_of_a_stream(kind: Kind, server: Models) -> None:
    """The loop is over, the partial text is in the report, the server sees the end, and nothing is sent again."""
    stop_in_the_middle(kind, server, "chunked")


# these read so many bytes at a time that the half is not given to anybody before the end
BY_BYTES = ("requests_response", "urllib3_stream")


@pytest.mark.parametrize("kind", [one for one in CLIENTS if one.id not in BY_BYTES])
def test_stop_of_a_body_that_ends_with_its_connection(kind: Kind, server: Models) -> None:
    """A cut looks like its end: it is the stop all the same."""
    stop_in_the_middle(kind, server, "close")


@pytest.mark.parametrize("kind", CLIENTS)
def test_whole_stream(kind: Kind, server: Models) -> None:
    """Without a stop every item comes, and the turn is completed."""
    kind.skip_if_missing()
    with turnctl.turn() as turn, kind.open(server) as source:
        found = list(turn.stream(source))

    assert expected(kind, 4) == kind.text(found)
    assert ["completed"] == [one.state for one in turn.report.activities]


@pytest.mark.parametrize("kind", [one for one in CLIENTS if one.id not in BY_BYTES])
def test_loop_that_is_left_ends_its_response(kind: Kind, server: Models) -> None:
    """``break``, while the reader waits for more: the server sees the end, and nothing waits for the next item."""
    kind.skip_if_missing()
    server.mode = "half"
    with turnctl.turn(grace=60) as turn, kind.open(server) as source:
        for item in turn.stream(source):
            if kind.say(item):
                break
        assert server.server.reached().ended.wait(BOUND)

    assert ["completed"] == [one.state for one in turn.report.activities]


def test_stop_before_the_first_byte_frees_the_loop(server: Models) -> None:
    """The request that a manager sends belongs to its reader, which is named until the client gives it up."""
    openai = pytest.importorskip("openai", reason="openai is not installed: the clients extra has it")
    if not hasattr(openai.OpenAI, "responses"):
        pytest.skip("this openai has no responses")
    server.mode = "silent"
    with openai_client(server, max_retries=0, timeout=BOUND) as client:
        with turnctl.turn(grace=0.01) as turn:
            loop = Background(list, turn.stream(client.responses.stream(model="m", input="hi")))
            peer = server.server.reached()
            at = time.monotonic()
            turn.stop()
            assert isinstance(loop.error(), CancelledError)
            assert time.monotonic() - at < 1
        record = turn.report.activities[0]
        assert "abandoned" == record.state
        assert "left behind" in str(record.detail)
        peer.go_on.set()
        assert until(lambda: abandoned.count() == 0)

    assert 1 == len(server.requests)


def test_manager_over_a_client_that_obeys_turns(server: Models) -> None:
    """With a client of ours below it the request itself ends: nothing is left behind, nor named."""
    pytest.importorskip("httpx2", reason="httpx2 is not installed: the clients extra has it")
    openai = pytest.importorskip("openai", reason="openai is not installed: the clients extra has it")
    if not hasattr(openai, "DefaultHttpx2Client") and int(openai.__version__.partition(".")[0]) < 3:
        pytest.skip("this openai is not built on httpx2")
    from turnctl.integrations.httpx2 import Client

    server.mode = "silent"
    with Client() as http, openai_client(server, http_client=http) as client:
        with turnctl.turn(grace=60) as turn:
            loop = Background(list, turn.stream(client.responses.stream(model="m", input="hi")))
            peer = server.server.reached()
            turn.stop("enough")
            assert isinstance(loop.error(), CancelledError)
            assert peer.ended.wait(BOUND)

    assert {"cancelled"} == {one.state for one in turn.report.activities}
    assert 1 == len(server.requests)


class Pooled:
    """One client with a pool, and two ways to use it."""

    def __init__(self, name: str, server: Models) -> None:
        module = pytest.importorskip(name, reason=f"{name} is not installed: the clients extra has it")
        self.url = server.url
        self.is_requests = name == "requests"
        self.client = module.Session() if self.is_requests else module.Client()

    def lines(self) -> Any:
        if self.is_requests:
            return self.client.get(self.url, stream=True).iter_lines(chunk_size=1)
        return self.client.send(self.client.build_request("GET", self.url), stream=True).iter_lines()

    def get(self) -> str:
        return str(self.client.get(self.url).text)


@pytest.fixture(params=["httpx", "httpx2", "requests"])
def pooled(request: pytest.FixtureRequest, server: Models) -> Iterator[Pooled]:
    found = Pooled(request.param, server)
    yield found
    found.client.close()


def test_others_of_the_pool_live_on(pooled: Pooled, server: Models) -> None:
    """Only the stream of the stopped turn is cut; what was cut is not used again, what was not is."""
    server.mode = "half"
    with turnctl.turn(grace=60) as other, turnctl.turn(grace=60, inherit=False) as turn:
        theirs: list[Any] = []
        items = other.stream(pooled.lines())
        loop = Background(lambda: theirs.extend(items))
        first = server.server.reached(0)
        mine = Background(list, turn.stream(pooled.lines()))
        second = server.server.reached(1)
        turn.stop()
        assert isinstance(mine.error(), CancelledError)
        assert second.ended.wait(BOUND)
        server.mode = "whole"
        assert WHOLE == pooled.get()
        assert not first.ended.is_set()
        first.go_on.set()
        loop.result()

    assert 4 == len(theirs)
    assert WHOLE == pooled.get()
    assert 3 == len(server.server.peers)


def test_body_that_is_complete_as_the_stop_comes(pooled: Pooled, server: Models) -> None:
    """The shutdown is under way when the body ends: the connection is not used again, and no request fails."""
    server.mode = "open"
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(pooled.lines())
        loop = Background(list, items)
        peer = server.server.reached()
        assert until(lambda: len(items.received) == 4)  # the reader waits for nothing but the end
        bridging = items._feed.source._below._bridging  # type: ignore[union-attr]
        assert bridging is not None
        with pause_at("bridge.carrying") as held:
            turn.stop()
            assert held.reached.wait(BOUND)
            peer.go_on.set()
            assert until(lambda: bridging._done._waiters)  # on its way back to the pool, and not in it
            server.mode = "whole"
            assert WHOLE == pooled.get()
            assert 2 == len(server.server.peers)
            held.release()
        assert isinstance(loop.error(), CancelledError)

    assert [WHOLE] * 3 == [pooled.get() for _ in range(3)]


def test_stop_after_the_body_touches_nothing(pooled: Pooled, server: Models) -> None:
    """The connection has gone back, and serves the next request (promise 2)."""
    with turnctl.turn() as turn:
        assert 4 == len(list(turn.stream(pooled.lines())))
        turn.stop()

    assert [WHOLE] * 3 == [pooled.get() for _ in range(3)]
    assert 1 == len(server.server.peers)


@pytest.mark.parametrize("streams", [12, pytest.param(125, marks=pytest.mark.stress)])
def test_stops_at_random_hit_nobody_else(pooled: Pooled, server: Models, streams: int) -> None:
    """Eight threads share a client, and half of the turns are stopped at any moment: every other stream is whole."""
    server.pause_s = 0.001
    seeds = random.Random(4)
    wrong: list[object] = []

    def worker(chance: random.Random) -> None:
        for _ in range(streams):
            is_stopped = chance.random() < 0.5
            with turnctl.turn(inherit=False) as turn:
                items = turn.stream(pooled.lines())
                stopping = threading.Timer(chance.random() * 0.008, turn.stop) if is_stopped else None
                if stopping is not None:
                    stopping.start()
                try:
                    found = list(items)
                except CancelledError:
                    found = []
                if stopping is not None:
                    stopping.join()
                elif len(found) != 4:
                    wrong.append(found)

    threads = [Background(worker, random.Random(seeds.random())) for _ in range(8)]
    for one in threads:
        one.result(50)

    assert [] == wrong
    assert [WHOLE] * 3 == [pooled.get() for _ in range(3)]
