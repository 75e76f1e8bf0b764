"""A request that is made from inside another one, by a client that was not asked to obey a turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from httpclients import face
from requestclients import session
from standins import until
from websites import Website, website

import turnctl

httpx = pytest.importorskip("httpx", reason="httpx makes the requests inside of others here")

Ask = Callable[..., "contextlib.AbstractContextManager[Iterator[bytes]]"]


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


@pytest.fixture
def plain() -> Iterator[Any]:
    with httpx.Client(timeout=20, trust_env=False) as one:
        yield one


@pytest.fixture(params=["httpx", "httpx2", "requests"])
def post(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Posts what is generated with a client that obeys turns, and gives the parts of the answer."""
    face("httpx").stoppable(httpx.Client()).close()  # so that httpcore is changed, whoever posts
    if request.param == "requests":
        pytest.importorskip("requests", reason="requests is what this test is about")
        with session() as ours:

            @contextlib.contextmanager
            def ask(url: str, content: Iterator[bytes], length: int) -> Iterator[Iterator[bytes]]:
                with ours.post(url, data=content, headers={"Content-Length": str(length)}, stream=True) as response:
                    yield response.raw.stream(6)

            yield ask
        return
    with face(request.param).Client(timeout=20, trust_env=False) as client:

        @contextlib.contextmanager
        def ask(url: str, content: Iterator[bytes], length: int) -> Iterator[Iterator[bytes]]:
            headers = {"Content-Length": str(length)}
            with client.stream("POST", url, content=content, headers=headers) as response:
                yield response.iter_raw()

        yield ask


def test_stop_cuts_only_the_one_outside(site: Website, plain: Any, post: Ask) -> None:
    """Its own connection, though the other was opened by its body and lies open; that goes on as if nothing was."""
    kept: list[Any] = []

    def content() -> Iterator[bytes]:
        kept.append(plain.send(plain.build_request("GET", f"{site.url}/events"), stream=True))
        yield b"hello"

    with turnctl.turn() as turn, post(f"{site.url}/events", content(), 5) as parts:
        next(parts)
        turn.stop("enough")
        outside, inside = site.server.peer(0), site.stalled(1)
        was_cut = outside.ended.wait(5)
    inside.go_on.set()
    with contextlib.closing(kept[0]):
        parts = kept[0].iter_raw()
        next(parts)
        late = next(parts)

    assert was_cut
    assert b"it went" == late
    assert 1 == len(turn.report.activities)


def test_account_is_of_the_one_outside(site: Website, plain: Any, post: Ask) -> None:
    """What came and went for the other is not among its bytes, and a stop does not break the other off."""

    def content() -> Iterator[bytes]:
        with plain.stream("GET", f"{site.url}/ok?{'x' * 50_000}") as response:
            turn.stop("enough")
            got.extend(response.iter_raw())
        yield b"hello"

    got: list[bytes] = []
    with turnctl.turn() as turn, post(f"{site.url}/ok", content(), 5):
        pass
    detail = turn.report.activities[0].detail or ""

    assert 50_000 == sum(map(len, got))
    assert "0 received" in detail, detail


def test_trace_is_code_of_the_callers(site: Website, plain: Any) -> None:
    """What a trace asks for is no part of the request that it traces."""

    def trace(name: str, info: object) -> None:
        if name == "http11.send_request_headers.complete":
            turn.stop("enough")
            told.append(plain.get(f"{site.url}/ok?told").text)

    told: list[str] = []
    with face("httpx").Client(timeout=20, trust_env=False) as client, turnctl.turn() as turn:
        client.get(f"{site.url}/silence", extensions={"trace": trace})

    assert ["told"] == told
    assert until(lambda: site.server.peer(0).ended.is_set())
    assert ["cancelled"] == [one.state for one in turn.report.activities]
