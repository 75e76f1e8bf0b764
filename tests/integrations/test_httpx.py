"""A stop ends a request of httpx at once, wherever it is, and closes its very connection; both names of the client."""

from __future__ import annotations

import contextlib
import inspect
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpclients import NAMES, Stopped, assert_stopped, face, package, stop_at
from peers import Peer, loopback
from standins import Background, until
from websites import STALLS, Website, client_tls, full, mute, proxy, website

import turnctl
import turnctl.testing

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:httpx.*")


@pytest.fixture(params=NAMES)
def http(request: pytest.FixtureRequest) -> Any:
    return face(request.param)


@pytest.fixture(params=["plain", "tls"])
def site(request: pytest.FixtureRequest) -> Iterator[Website]:
    with website(tls=request.param == "tls") as site:
        yield site


@contextlib.contextmanager
def client(http: Any, **options: Any) -> Iterator[Any]:
    options = {"timeout": 20, "trust_env": False, "verify": client_tls(), **options}
    with http.Client(**options) as one:
        yield one


def pools(one: Any) -> list[Any]:
    return one._transport._pool.connections  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", sorted(STALLS))
def test_stalled_response_ends(http: Any, site: Website, path: str) -> None:
    """Before the first byte, in the head, in each kind of body: free at once, connection closed, asked once."""
    stage = "waiting for the response" if path in ("/silence", "/head") else "reading the response"
    with client(http) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}{path}"), lambda: site.stalled(0), stage=stage)
        peer = site.server.peer()
        ended = peer.ended.wait(5)
        left = pools(one)

    assert_stopped(stopped)
    assert ended
    assert [] == left
    assert [f"GET {path}"] == site.seen
    assert str(stopped.activity.detail).startswith(stage)
    assert f"GET {site.url}{path}" == stopped.activity.name


def test_upload_that_is_not_read_ends(http: Any, site: Website) -> None:
    """A write that blocks is raced as well; the account says how much was handed over."""
    with client(http) as one:
        stopped = stop_at(lambda _: one.post(f"{site.url}/upload", content=b"x" * 12_000_000), lambda: site.stalled(0))
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert "sending the request; " in str(stopped.activity.detail)


def test_connect_that_stalls_ends(http: Any) -> None:
    """Nothing was sent, and the report says so."""
    with full() as port, client(http) as one, turnctl.testing.pause_at("wires.connecting") as pause:

        def reached() -> None:
            pause.reached.wait(5)
            pause.release()

        stopped = stop_at(lambda _: one.get(f"http://127.0.0.1:{port}/"), reached)
        left = pools(one)

    assert_stopped(stopped)
    assert [] == left
    assert f"connecting to 127.0.0.1:{port}; nothing was sent" == stopped.activity.detail


def test_handshake_that_stalls_ends(http: Any) -> None:
    """A server that does not shake hands holds nobody."""
    with mute() as server, client(http) as one:
        stopped = stop_at(lambda _: one.get(f"https://127.0.0.1:{server.port}/"), server.reached, stage="securing")
        ended = server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert "securing the connection; nothing was sent" == stopped.activity.detail


def test_look_up_is_left_behind(http: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up of names cannot be interrupted: it is left behind, and named."""
    import threading

    go_on, inside = threading.Event(), threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "slow.example" and socket.AI_NUMERICHOST not in args:
            inside.set()
            go_on.wait(10)
            return []
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with client(http) as one:
        stopped = stop_at(lambda _: one.get("http://slow.example/"), lambda: inside.wait(5))
    go_on.set()

    assert_stopped_with_look_up(stopped)
    assert until(lambda: not any("look-up" in thread.name for thread in threading.enumerate()))


def assert_stopped_with_look_up(stopped: Stopped) -> None:
    assert isinstance(stopped.error, turnctl.CancelledError)
    assert stopped.took_s < 1
    assert ["http: cancelled", "lookup: abandoned"] == sorted(f"{a.kind}: {a.state}" for a in stopped.report.activities)


def test_redirect_in_between(http: Any, site: Website) -> None:
    """Each request on the way is an exchange of its own; the connection of the pool that was used is closed."""
    with client(http, follow_redirects=True) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}/redirect?silence"), lambda: site.stalled(0))

    assert_stopped(stopped)
    assert ["GET /redirect", "GET /silence"] == site.seen
    assert ["completed", "cancelled"] == [one.state for one in stopped.report.activities]


def test_connection_from_the_pool(http: Any, site: Website) -> None:
    """One that served before is closed like a new one, and another one of the pool lives on."""
    with client(http) as one:
        with one.stream("GET", f"{site.url}/stream?3") as first:
            assert "ok" == one.get(f"{site.url}/ok").text
            first.read()
        assert 2 == len(pools(one))
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), lambda: until(lambda: "GET /silence" in site.seen))
        assert 1 == len(pools(one))
        again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert "ok" == again
    assert 2 == len(site.server.peers)


def test_pool_that_is_exhausted(http: Any, site: Website) -> None:
    """Who waits for a connection is freed, sends nothing, and takes no place with him."""
    with client(http, limits=one_connection(http)) as one:
        with one.stream("GET", f"{site.url}/sized") as first:
            stopped = stop_at(lambda _: one.get(f"{site.url}/ok"), lambda: until(lambda: queued(one)))
        first.close()
        again = one.get(f"{site.url}/ok").text

    assert_stopped(stopped)
    assert "waiting for a connection; nothing was sent" == stopped.activity.detail
    assert "ok" == again
    assert ["GET /sized", "GET /ok"] == site.seen


def one_connection(http: Any) -> Any:
    return package(http).Limits(max_connections=1)


def queued(one: Any) -> bool:
    return any(request.is_queued() for request in list(one._transport._pool._requests))


def test_assigned_as_the_stop_comes(http: Any, site: Website) -> None:
    """A connection that was made for a request which was stopped meanwhile does not take up a place for ever."""
    with client(http, limits=one_connection(http)) as one:
        first = one.send(one.build_request("GET", f"{site.url}/sized"), stream=True)
        with turnctl.turn() as turn:
            giver = Background(lambda: (until(lambda: queued(one)), first.close()))
            with turnctl.testing.call_at("waiting.woken", lambda: turn.stop("enough")):
                with pytest.raises(turnctl.CancelledError):
                    one.get(f"{site.url}/ok")
            giver.result()
        again = one.get(f"{site.url}/ok").text

    assert "ok" == again
    assert ["GET /sized", "GET /ok"] == site.seen


def through(http: Any, url: str) -> Any:
    transport = package(http).HTTPTransport(proxy=package(http).Proxy(url), verify=client_tls())
    return client(http, mounts={"all://": transport})


@pytest.mark.parametrize("stalls", [True, False], ids=["in connect", "after it"])
def test_proxy(http: Any, stalls: bool) -> None:
    """A CONNECT that is not answered, and a request through the tunnel; both connections end."""
    with website(tls=True) as site, proxy(stalls=stalls) as between, through(http, between.url) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), (between if stalls else site).stalled)
        ended = between.server.peer().ended.wait(5)
        left = [c for t in one._mounts.values() if t is not None for c in t._pool.connections]

    assert_stopped(stopped)
    assert ended
    assert [] == left
    assert ([] if stalls else ["GET /silence"]) == site.seen
    assert ["CONNECT"] == between.seen
    assert stalls == (stopped.activity.detail or "").startswith("asking the proxy for a tunnel; ")


def test_tls_in_tls(http: Any) -> None:
    """A proxy that is spoken to by TLS, and TLS through it: a stalled answer, an upload that is not read, an answer."""
    if "ssl_context" not in inspect.signature(package(http).Proxy).parameters:
        pytest.skip("this version takes no trust for the proxy")
    with website(tls=True) as site, proxy(tls=True) as between:
        transport = package(http).HTTPTransport(
            proxy=package(http).Proxy(between.url, ssl_context=client_tls()), verify=client_tls()
        )
        with client(http, mounts={"all://": transport}) as one:
            with turnctl.turn():
                assert "ok" == one.get(f"{site.url}/ok").text
            stopped = stop_at(
                lambda _: one.get(f"{site.url}/silence"), lambda: until(lambda: "GET /silence" in site.seen)
            )
            torn = stop_at(
                lambda _: one.post(f"{site.url}/upload", content=b"x" * 12_000_000),
                lambda: until(lambda: "POST /upload" in site.seen),
            )
            left = transport._pool.connections

    assert_stopped(stopped)
    assert_stopped(torn)
    assert [] == left


def test_socks_proxy_that_stalls(http: Any) -> None:
    """Half the greeting of a SOCKS proxy."""
    pytest.importorskip("socksio", reason="httpx speaks SOCKS by it")

    def serve(peer: Peer) -> None:
        peer.exactly(3)
        peer.send(b"\x05\x00")
        peer.stall()

    with loopback(serve) as server, through(http, f"socks5://127.0.0.1:{server.port}") as one:
        stopped = stop_at(lambda _: one.get("http://127.0.0.1:9/"), server.reached)
        ended = server.peer().ended.wait(5)
        left = [c for t in one._mounts.values() if t is not None for c in t._pool.connections]

    assert_stopped(stopped)
    assert ended
    assert [] == left


def test_unix_socket(http: Any, tmp_path: Path) -> None:
    """A server behind a path ends in the same way."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        transport = package(http).HTTPTransport(uds=path)
        with client(http, transport=transport) as one:
            accepted: list[socket.socket] = []
            stopped = stop_at(
                lambda _: one.get("http://x/y"),
                lambda: accepted.append(listener.accept()[0]),
                stage="waiting for the response",
            )
        with accepted[0] as peer:
            asked = peer.recv(65536)
            end = peer.recv(10)

    assert_stopped(stopped)
    assert asked.startswith(b"GET /y")
    assert b"" == end


@pytest.mark.parametrize("point", ["http.answered", "http.read"])
def test_response_that_came_with_the_stop_is_not_given(http: Any, site: Website, point: str) -> None:
    """Whole or not: after the stop a request does not return; a connection that is sound is kept."""
    with client(http) as one, turnctl.turn() as turn:
        with turnctl.testing.call_at(point, lambda: turn.stop("enough")):
            with pytest.raises(turnctl.CancelledError) as caught:
                one.get(f"{site.url}/ok")

    assert "enough" == caught.value.reason
    assert ["cancelled"] == [one.state for one in turn.report.activities]


def test_end_of_the_body_is_asked(http: Any, site: Website) -> None:
    """All parts were given, and then the stop came: it is no whole answer that is returned."""
    reads: list[None] = []
    with client(http) as one, turnctl.turn() as turn:

        def second() -> None:
            reads.append(None)
            if len(reads) == 2:
                turn.stop("enough")

        with turnctl.testing.call_at("http.read", second), turnctl.testing.call_at("http.read", second):
            with pytest.raises(turnctl.CancelledError, match="enough"):
                one.get(f"{site.url}/ok")
        kept = [connection.is_idle() for connection in pools(one)]

    assert [True] == kept
    assert ["cancelled"] == [one.state for one in turn.report.activities]


def test_stopped_turn_sends_nothing(http: Any, site: Website) -> None:
    """The stop is looked at before a connection is."""
    with client(http) as one, turnctl.turn() as turn:
        turn.stop("enough")
        with pytest.raises(turnctl.CancelledError):
            one.get(f"{site.url}/ok")

    assert [] == site.seen
    assert () == turn.report.activities


def test_without_a_turn_it_is_a_plain_client(http: Any, site: Website) -> None:
    """The same answers, and nothing of a turn."""
    with client(http) as one:
        assert "ok" == one.get(f"{site.url}/ok").text
        assert 5 == len(list(one.get(f"{site.url}/stream?5").iter_lines())) // 2


def test_done_request_is_told(http: Any, site: Website) -> None:
    """An ordinary request is in the report as completed."""
    with client(http) as one, turnctl.turn() as turn:
        one.get(f"{site.url}/ok?secret=1")

    assert [("http", f"GET {site.url}/ok", "completed")] == [(a.kind, a.name, a.state) for a in turn.report.activities]


def test_connection_error_stays_one(http: Any) -> None:
    """What has nothing to do with a stop is raised as the client does, and the report has it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with client(http) as one, turnctl.turn() as turn:
        with pytest.raises(Exception, match="refused") as caught:
            one.get(f"http://127.0.0.1:{port}/")

    assert "ConnectError" == type(caught.value).__name__
    assert "failed" == turn.report.activities[0].state


def test_time_out_stays_one(http: Any, site: Website) -> None:
    """The client's own limits hold."""
    with client(http, timeout=0.05) as one, turnctl.turn():
        with pytest.raises(Exception) as caught:
            one.get(f"{site.url}/silence")

    assert "ReadTimeout" == type(caught.value).__name__
