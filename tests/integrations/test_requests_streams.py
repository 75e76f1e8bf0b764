"""Responses of requests and urllib3 that are read in parts: a stop between two reads, in another thread, at the end."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from peers import Peer
from requestclients import idle, manager, requests_of, session
from standins import Background
from websites import EVENT, Website, website

import turnctl

pytest.importorskip("requests", reason="requests is what these tests are about")
urllib3 = pytest.importorskip("urllib3", reason="it is what requests is built on")


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


READERS = {
    "iter_content": lambda r: r.iter_content(5),
    "iter_lines": lambda r: r.iter_lines(),
    "raw.stream": lambda r: r.raw.stream(5),
    "raw.read": lambda r: iter(lambda: r.raw.read(5), b""),
    "raw.read1": lambda r: iter(lambda: r.raw.read1(5), b""),
    "raw.readinto": lambda r: iter(lambda: r.raw.readinto(bytearray(5)), 0),
}


@pytest.mark.parametrize("how", sorted(READERS))
@pytest.mark.parametrize("path", ["/events", "/sized", "/close"])
def test_each_way_to_read_ends(site: Website, how: str, path: str) -> None:
    """However the body is read, the reader is free at once and the connection closed."""
    if how == "raw.read1" and not hasattr(urllib3.HTTPResponse, "read1"):
        pytest.skip(f"urllib3 {urllib3.__version__} has no read1")
    with session() as one:

        def blocks(_: turnctl.Turn) -> None:
            response = one.get(f"{site.url}{path}", stream=True)
            for _part in READERS[how](response):
                pass

        stopped = stop_at(blocks, site.stalled, stage="reading the response")
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert "reading the response; " in str(stopped.activity.detail)


def test_stop_between_two_reads_closes_at_once(site: Website) -> None:
    """A stop closes the connection of a response that is being read in parts, while nobody reads."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/events", stream=True)
        parts = response.iter_lines(1)
        assert b'data: {"n": 1}' == next(parts)
        peer = site.stalled()
        peer.send(b"%x\r\n%s\r\n" % (len(EVENT % 2), EVENT % 2))
        assert b'data: {"n": 2}' == [next(parts), next(parts)][1]
        turn.token.cancel()
        ended = peer.ended.wait(5)
        with pytest.raises(turnctl.CancelledError):
            next(parts)

    assert ended
    assert "cancelled" == requests_of(turn.report)[0].state


def test_body_that_was_cut_is_never_whole(site: Website) -> None:
    """A body without length that a stop has cut is not taken for one that has ended, also under a shield."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/close", stream=True)
        peer = site.stalled()
        assert b"abc" == response.raw.read(3)
        peer.send(b"d")
        assert b"d" == response.raw.read(1)
        turn.token.cancel()
        assert peer.ended.wait(5)
        with pytest.raises(turnctl.CancelledError), turn.shield():
            response.raw.read(1)
            raise AssertionError("the end of a connection that was cut was taken for the end of the body")


def test_turn_stream_reads_it(site: Website) -> None:
    """``turn.stream`` of such a response ends with the stop, and both are told in the report."""
    with session() as one:
        stopped = stop_at(
            lambda turn: list(turn.stream(one.get(f"{site.url}/events", stream=True))),
            site.stalled,
            stage="reading the response",
        )
        ended = site.server.peer().ended.wait(5)

    assert isinstance(stopped.error, turnctl.CancelledError)
    assert ended
    assert ["http: cancelled", "stream: cancelled"] == sorted(f"{a.kind}: {a.state}" for a in stopped.report.activities)


def test_shield_reads_on(site: Website) -> None:
    """Under a shield a response is read to its end, though a stop came."""
    with session() as one, turnctl.turn() as turn:
        with pytest.raises(turnctl.CancelledError), turn.shield():
            response = one.get(f"{site.url}/stream?3", stream=True)
            turn.token.cancel()
            parts = list(response.iter_lines())
        kept = len(idle(one, site.url))

    assert (3, 1) == (len([part for part in parts if part]), kept)
    assert "completed" == requests_of(turn.report)[0].state


def test_read_in_another_thread_and_context(site: Website) -> None:
    """Whoever reads on obeys the turn that the request was made in."""
    with session() as one:

        def blocks(_: turnctl.Turn) -> None:
            response = one.get(f"{site.url}/events", stream=True)
            Background(contextvars.Context().run, list, response.iter_content(5)).result()

        stopped = stop_at(blocks, site.stalled)

    assert_stopped(stopped)


def test_timeout_around_one_read(site: Website) -> None:
    """A child token that is bound around a read ends that read, and the turn goes on."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/events", stream=True)
        parts = response.iter_lines(1)
        next(parts)
        with turn.token.child(timeout=0.05):
            next(parts)
            next(parts)
        after = one.get(f"{site.url}/ok").text

    assert ("ok", False) == (after, turn.cancelled)


def test_response_of_outside_is_read_in_a_turn(site: Website) -> None:
    """A turn that reads on what was begun outside of it is free at once as well."""
    with session() as one:
        response = one.get(f"{site.url}/events", stream=True)
        parts = response.iter_content(5)
        next(parts)

        def blocks(turn: turnctl.Turn) -> None:
            with turnctl.turn(inherit=False) as inner:
                threading.Timer(0.05, inner.token.cancel).start()
                list(parts)
            assert inner.cancelled
            turn.check()

        with turnctl.turn() as turn:
            blocks(turn)
        ended = site.stalled().ended.wait(5)

    assert ended


def test_response_left_open_is_closed_and_named(site: Website) -> None:
    """What a turn has not read to its end ends with it; who reads on is told so."""
    with session() as one:
        with turnctl.turn() as turn:
            response = one.get(f"{site.url}/events", stream=True)
        ended = site.stalled().ended.wait(5)
        with pytest.raises(turnctl.TurnOver, match="read a response to its end before the turn ends"):
            response.content  # noqa: B018 - read
        response.close()

    record = requests_of(turn.report)[0]
    assert ended
    assert "cancelled" == record.state
    assert "the turn ended while reading the response; " in str(record.detail)


@pytest.mark.parametrize("reads", [False, True], ids=["unread", "begun"])
@pytest.mark.parametrize("path", ["/events", "/sized", "/close"])
def test_response_closed_early_is_told_so(site: Website, path: str, reads: bool) -> None:
    """A host that closes a response before its end gets no error, and the report says what it did."""
    with session() as one, turnctl.turn() as turn:
        with one.get(f"{site.url}{path}", stream=True) as response:
            if reads:
                next(response.iter_content(2))

    record = requests_of(turn.report)[0]
    assert "completed" == record.state
    assert "closed while reading the response; " in str(record.detail)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\n\r\nabc",
    ],
    ids=["sized", "sized-close", "chunked", "chunked-close", "until-the-end", "old"],
)
@pytest.mark.parametrize("kind", ["requests", "streamed", "urllib3", "urllib3-read"])
def test_response_read_to_its_end_is_completed(answer: bytes, kind: str) -> None:
    """Each way in which a body ends is seen as its end, with nothing to add."""
    from peers import loopback

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(answer)

    with loopback(serve) as server, session() as one, manager() as other:
        url = f"http://127.0.0.1:{server.port}/"
        with turnctl.turn() as turn:
            body = {
                "requests": lambda: one.get(url).content,
                "streamed": lambda: b"".join(one.get(url, stream=True).iter_content(2)),
                "urllib3": lambda: other.request("GET", url).data,
                "urllib3-read": lambda: other.request("GET", url, preload_content=False).read(),
            }[kind]()

    assert (b"abc", "completed", None) == (body, requests_of(turn.report)[0].state, requests_of(turn.report)[0].detail)


def test_broken_body_is_an_error_of_the_client(site: Website) -> None:
    """A body that the server breaks off is told as ever, and named as failed."""
    import requests

    if urllib3.__version__.startswith("1."):
        pytest.skip("urllib3 takes half a body for a whole one before 2.0")

    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/sized", stream=True)
        peer = site.stalled()
        peer.sock.shutdown(2)
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            response.content  # noqa: B018 - read

    record = requests_of(turn.report)[0]
    assert "failed" == record.state
    assert "the connection ended before the response did" in str(record.detail)


def test_head_has_no_body(site: Website) -> None:
    """A response that can have no body is over when it is there."""
    with session() as one, turnctl.turn() as turn:
        one.head(f"{site.url}/ok")

    assert "completed" == requests_of(turn.report)[0].state


def test_many_events_are_all_given(site: Website) -> None:
    """What comes without a stop comes whole, however much of it there is."""
    with session() as one, turnctl.turn():
        lines = [line for line in one.get(f"{site.url}/stream?500", stream=True).iter_lines() if line]

    assert [(EVENT % n).strip() for n in range(500)] == lines


def test_response_that_is_forgotten_is_closed(site: Website) -> None:
    """A response that nobody holds any more is closed as ever, whatever its turn goes on to do."""
    import gc

    with session() as one, turnctl.turn() as turn:
        response: Any = one.get(f"{site.url}/sized", stream=True)
        peer = site.stalled()
        del response
        gc.collect()
        ended = peer.ended.wait(5)

    assert ended
    assert "closed while reading the response" in str(requests_of(turn.report)[0].detail)


def test_stop_while_nobody_reads_what_came_with_the_head(site: Website) -> None:
    """The connection is cut at once also where all that was read so far had come together with the headers."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/events", stream=True)
        first = next(response.iter_content(8))
        turn.stop("enough")
        was_cut = site.stalled().ended.wait(5)
        response.close()

    assert b'data: {"' == first
    assert was_cut
