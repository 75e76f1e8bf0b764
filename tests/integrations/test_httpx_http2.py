"""Over HTTP/2 a stop resets its own stream; the connection, and the other requests on it, live on."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from http2sites import Http2Site, http2_site
from httpclients import NAMES, assert_stopped, face, package, stop_at
from standins import Background, until
from websites import client_tls, proxy

import turnctl
import turnctl.testing

CANCEL = 8


@pytest.fixture(params=NAMES)
def http(request: pytest.FixtureRequest) -> Any:
    return face(request.param)


@contextlib.contextmanager
def client(http: Any, **options: Any) -> Iterator[Any]:
    options = {"timeout": 20, "trust_env": False, "http1": False, "http2": True, "verify": client_tls(), **options}
    with http.Client(**options) as one:
        yield one


@pytest.fixture(params=["plain", "tls"])
def site(request: pytest.FixtureRequest) -> Iterator[Http2Site]:
    with http2_site(tls=request.param == "tls") as site:
        yield site


@pytest.mark.parametrize(
    ("path", "stage"), [("/silence", "waiting for the response"), ("/part", "reading the response")]
)
def test_stream_is_reset(http: Any, site: Http2Site, path: str, stage: str) -> None:
    """Before the first byte and in the body: free at once, the server is told, the connection serves on."""
    with client(http) as one:
        stopped = stop_at(lambda _: one.get(site.url + path), lambda: site.has_seen(path), stage=stage)
        assert until(lambda: site.resets)
        again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert "ok" == again
    assert [(1, CANCEL)] == site.resets
    assert 1 == len(site.server.peers)
    assert f"{stage}, on a shared connection; what the server did with it is not known" == stopped.activity.detail


def test_other_request_lives_on(http: Any, site: Http2Site) -> None:
    """Of two on one connection, one of them in no turn, one is stopped: the other gets its answer."""
    with client(http) as one:
        one.get(f"{site.url}/ok")
        waits = Background(lambda: (site.has_seen("/silence"), one.get(f"{site.url}/part").text)[1])
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), lambda: site.has_seen("/part"))
        assert until(lambda: site.resets)
        assert waits.is_running
        site.finish("/part")
        got = waits.result()

    assert_stopped(stopped)
    assert "abclate" == got
    assert 1 == len(site.server.peers)


def test_who_waits_behind_a_reader_is_freed(http: Any, site: Http2Site) -> None:
    """The lock that another request holds while it reads is no obstacle."""
    with client(http) as one:
        one.get(f"{site.url}/ok")
        reader = Background(lambda: one.get(f"{site.url}/silence").text)
        assert site.has_seen("/silence")
        assert until(lambda: one._transport._pool.connections[0]._connection._read_lock._lock.locked())
        stopped = stop_at(lambda _: one.get(f"{site.url}/part"), lambda: site.has_seen("/part"))
        assert until(lambda: site.resets)
        assert reader.is_running
        site.finish("/silence")
        got = reader.result()

    assert_stopped(stopped)
    assert "late" == got
    assert 1 == len(site.server.peers)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_write_that_is_torn_is_finished(http: Any, tls: bool) -> None:
    """A stop in the middle of an upload tears no frame: the next writer sends the rest first."""
    with http2_site(wide=True, tls=tls) as site, client(http) as one:
        one.get(f"{site.url}/ok")
        with turnctl.testing.pause_at("wires.blocking") as pause:
            # the first wait is for the connection to take more
            stopped = stop_at(
                lambda _: one.post(f"{site.url}/deaf", content=b"x" * 9_000_000),
                lambda: (site.has_seen("/deaf"), pause.reached.wait(5), pause.release()),
                stage="sending the request",
            )
        site.reads.set()
        again = one.post(f"{site.url}/ok", content=b"y" * 100_000).text
        assert until(lambda: site.resets)

    assert_stopped(stopped)
    assert "y" * 100_000 == again
    assert [(3, CANCEL)] == site.resets
    assert 1 == len(site.server.peers)


def test_credit_is_given_back(http: Any) -> None:
    """What arrives for a stream that was reset does not use the connection up (16 MB and a little)."""
    with http2_site() as site, client(http) as one:
        for _ in range(4):
            with turnctl.turn(), one.stream("GET", f"{site.url}/flood?375") as response:
                next(response.iter_raw())
        body = b"x" * 50_000
        again = one.post(f"{site.url}/ok", content=body).content
        resets = list(site.resets)

    assert body == again
    assert [CANCEL] * 4 == [code for _, code in resets]
    assert 1 == len(site.server.peers)


def test_credit_of_what_others_read_is_given_back(http: Any) -> None:
    """What another request has read for it, and nobody will ask for, does not use the connection up either."""
    with http2_site() as site, client(http) as one, turnctl.turn():
        for _ in range(12):
            with one.stream("GET", f"{site.url}/flood?100") as response:
                parts = response.iter_raw()
                next(parts)
                one.get(f"{site.url}/ok")
        body = b"x" * 50_000
        again = one.post(f"{site.url}/ok", content=body).content

    assert body == again
    assert 1 == len(site.server.peers)


def test_who_waits_for_anothers_connect_is_freed(http: Any) -> None:
    """Two want one connection, which the first is making: the second is stopped, and the first gets it all the same."""
    with http2_site(tls=True) as site, client(http, http1=True) as one:
        site.begins.clear()
        first = Background(lambda: one.get(f"{site.url}/ok").text)
        assert until(lambda: site.server.peers)

        def waits() -> bool:
            connection = one._transport._pool.connections[0]
            return bool(getattr(connection._request_lock, "_turnctl_twin", None))

        stopped = stop_at(lambda _: one.get(f"{site.url}/never"), lambda: until(waits))
        site.begins.set()
        got = first.result()
        again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert ("ok", "ok") == (got, again)
    assert 1 == len(site.server.peers)
    assert "/never" not in site.seen


def waits_for_a_place(one: Any) -> bool:
    found = one._transport._pool.connections[0]._connection._max_streams_semaphore._semaphore
    return len(found._cond._waiters) > 0


def test_who_waits_for_a_place_is_freed(http: Any) -> None:
    """A server that takes one request at a time: who waits for his turn is stopped, and takes no place with him."""
    with http2_site(places=1) as site, client(http) as one:
        one.get(f"{site.url}/ok")
        holder = Background(lambda: one.get(f"{site.url}/silence").text)
        assert site.has_seen("/silence")
        stopped = stop_at(lambda _: one.get(f"{site.url}/never"), lambda: until(lambda: waits_for_a_place(one)))
        site.finish("/silence")
        holder.result()
        again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert "ok" == again
    assert "/never" not in site.seen
    assert [] == site.resets


def test_fewer_places_hold_nobody_up(http: Any, site: Http2Site) -> None:
    """A server takes places back while they are in use: who reads for all does not wait for them."""
    with client(http) as one, turnctl.turn():
        one.get(f"{site.url}/ok")
        held = [one.send(one.build_request("GET", f"{site.url}/part"), stream=True) for _ in range(3)]
        fewer = one.get(f"{site.url}/fewer").text
        parts = held[0].iter_raw()
        next(parts)
        for response in held:
            response.close()
        again = [one.get(f"{site.url}/ok").text for _ in range(3)]

    assert "ok" == fewer
    assert ["ok"] * 3 == again


def test_stop_between_two_reads_resets_at_once(http: Any, site: Http2Site) -> None:
    """The server hears of it though nobody reads."""
    with client(http) as one:
        with turnctl.turn() as turn:
            with one.stream("GET", f"{site.url}/part") as response:
                parts = response.iter_raw()
                part = next(parts)
                assert [] == site.resets
                turn.stop()
                told = until(lambda: site.resets)
        again = one.get(f"{site.url}/ok").text

    assert b"abc" == part
    assert told
    assert "ok" == again
    assert 1 == len(site.server.peers)


def test_stop_behind_a_tls_proxy_waits_for_nobody(http: Any) -> None:
    """TLS in TLS: a request of no turn that waits for its answer does not hold the stop of another up."""
    if "ssl_context" not in inspect.signature(package(http).Proxy).parameters:
        pytest.skip("this version takes no trust for the proxy")
    with http2_site(tls=True) as site, proxy(tls=True) as between:
        transport = package(http).HTTPTransport(
            http1=False,
            http2=True,
            proxy=package(http).Proxy(between.url, ssl_context=client_tls()),
            verify=client_tls(),
        )
        with client(http, mounts={"all://": transport}) as one:
            one.get(f"{site.url}/ok")
            reader = Background(lambda: one.get(f"{site.url}/part").text)
            assert site.has_seen("/part")
            stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), lambda: site.has_seen("/silence"))
            assert until(lambda: site.resets)
            assert reader.is_running
            site.finish("/part")
            got = reader.result()
            again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert ("abclate", "ok") == (got, again)
    assert 1 == len(site.server.peers)
