"""A stop ends a request of requests or urllib3 at once, wherever it is, and closes its very connection."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from peers import Peer, loopback
from requestclients import idle, manager, requests_of, session, trusted_in
from standins import until
from websites import STALLS, Website, full, mute, server_tls, website

import turnctl
from turnctl.testing import pause_at

pytest.importorskip("requests", reason="requests is what these tests are about")


@pytest.fixture(params=["plain", "tls"])
def site(request: pytest.FixtureRequest) -> Iterator[Website]:
    with website(tls=request.param == "tls") as site:
        yield site


@pytest.fixture
def trusted(site: Website, tmp_path: Path) -> str:
    return trusted_in(tmp_path) if site.url.startswith("https") else ""


@pytest.mark.parametrize("path", sorted(STALLS))
def test_stalled_response_ends(site: Website, trusted: str, path: str) -> None:
    """Before the first byte, in the head, in each kind of body: free at once, connection closed, asked once."""
    stage = "waiting for the response" if path == "/silence" else "reading the response"
    with session(trusted) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}{path}"), lambda: site.stalled(0), stage=stage)
        ended = site.server.peer().ended.wait(5)

        assert [] == idle(one, site.url)
    assert_stopped(stopped)
    assert ended
    assert [f"GET {path}"] == site.seen
    assert str(stopped.activity.detail).startswith(stage)
    assert f"GET {site.url}{path}" == stopped.activity.name


@pytest.mark.parametrize("path", ["/silence", "/sized", "/chunked", "/close"])
def test_stalled_response_of_urllib3_ends(site: Website, trusted: str, path: str) -> None:
    """The same without requests, where the body is read inside of urllib3."""
    with manager(trusted) as one:
        stopped = stop_at(lambda _: one.request("GET", f"{site.url}{path}"), lambda: site.stalled(0))
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert [f"GET {path}"] == site.seen


def test_upload_that_is_not_read_ends(site: Website, trusted: str) -> None:
    """A write that blocks is raced as well; the account says how much was handed over."""
    with session(trusted) as one:
        stopped = stop_at(
            lambda _: one.post(f"{site.url}/upload", data=b"x" * 30_000_000),
            lambda: site.stalled(0),
            stage="sending the request",
        )
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert "sending the request; " in str(stopped.activity.detail)


def test_connect_that_stalls_ends() -> None:
    """Nothing was sent, and the report says so."""
    with full() as port, session() as one, pause_at("wires.connecting") as pause:

        def reached() -> None:
            pause.reached.wait(5)
            pause.release()

        stopped = stop_at(lambda _: one.get(f"http://127.0.0.1:{port}/"), reached)

    assert_stopped(stopped)
    assert f"connecting to 127.0.0.1:{port}; nothing was sent" == stopped.activity.detail


def test_handshake_that_stalls_ends() -> None:
    """A server that does not shake hands holds nobody."""
    with mute() as server, session() as one:
        stopped = stop_at(
            lambda _: one.get(f"https://127.0.0.1:{server.port}/"), lambda: until(lambda: server.reached().heard)
        )
        ended = server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert "securing the connection; nothing was sent" == stopped.activity.detail


def test_look_up_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up of names cannot be interrupted: it is left behind, and named."""
    go_on, inside = threading.Event(), threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "slow.example" and socket.AI_NUMERICHOST not in args:
            inside.set()
            go_on.wait(10)
            return []
        return look_up(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with session() as one:
        stopped = stop_at(lambda _: one.get("http://slow.example/"), lambda: inside.wait(5))
    go_on.set()

    assert isinstance(stopped.error, turnctl.CancelledError)
    assert stopped.took_s < 1
    assert ["http: cancelled", "lookup: abandoned"] == sorted(f"{a.kind}: {a.state}" for a in stopped.report.activities)
    assert until(lambda: not any("look-up" in thread.name for thread in threading.enumerate()))


def test_redirect_in_between(site: Website, trusted: str) -> None:
    """Each request on the way is an exchange of its own; the connection of the pool that was used is closed."""
    with session(trusted) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}/redirect?silence"), lambda: site.stalled(0))

    assert_stopped(stopped)
    assert ["GET /redirect", "GET /silence"] == site.seen
    assert ["completed", "cancelled"] == [one.state for one in requests_of(stopped.report)]


def test_redirect_is_not_followed_after_a_stop(site: Website, trusted: str) -> None:
    """A stop between two hops: the next one is not sent."""
    with session(trusted) as one:

        def stop(response: Any, **_: Any) -> None:
            turnctl.current_turn().stop("enough")  # type: ignore[union-attr]

        with turnctl.turn() as turn:
            one.get(f"{site.url}/redirect?ok", hooks={"response": stop})

    assert turn.cancelled
    assert ["GET /redirect"] == site.seen


def test_connection_from_the_pool(site: Website, trusted: str) -> None:
    """One that served before is closed like a new one, and another one of the pool lives on."""
    with session(trusted) as one:
        first = one.get(f"{site.url}/stream?3", stream=True)
        assert "ok" == one.get(f"{site.url}/ok").text
        assert b"data" in first.content
        assert 2 == len(idle(one, site.url))
        stopped = stop_at(lambda _: one.get(f"{site.url}/silence"), lambda: until(lambda: "GET /silence" in site.seen))
        kept = idle(one, site.url)
        with one.get(f"{site.url}/stream?1", stream=True) as new:  # the pool gives the empty place first
            again = one.get(f"{site.url}/again").text
            new.content  # noqa: B018 - read to its end

    ended = [peer for peer in site.server.peers[:2] if peer.reached.is_set()]
    assert_stopped(stopped)
    assert (1, "ok", 3, 1) == (len(kept), again, len(site.server.peers), len(ended))


@pytest.mark.parametrize("kind", ["requests", "urllib3"])
def test_full_pool_is_waited_for(site: Website, trusted: str, kind: str) -> None:
    """A wait for a connection of the pool ends with the stop; nothing was sent, and the pool is as it was."""
    full_at_one = {"pool_maxsize": 1, "pool_block": True}
    with session(trusted, **full_at_one) as one, manager(trusted, maxsize=1, block=True) as other:

        def get(path: str, open_: bool = False) -> Any:
            if kind == "requests":
                return one.get(f"{site.url}{path}", stream=open_)
            return other.request("GET", f"{site.url}{path}", preload_content=not open_)

        held = get("/stream?3", True)
        with pause_at("waiting.asked") as pause:

            def reached() -> None:
                pause.reached.wait(5)
                pause.release()

            stopped = stop_at(lambda _: get("/ok"), reached)
        (held if kind == "urllib3" else held.raw).drain_conn()
        pool = (other if kind == "urllib3" else one.get_adapter(site.url).poolmanager).connection_from_url(site.url)
        if kind == "urllib3":
            held.release_conn()
        free = pool.pool.qsize()
        turns = [get("/ok").status if kind == "urllib3" else get("/ok").status_code for _ in range(2)]

    assert_stopped(stopped)
    assert "waiting for a connection; nothing was sent" == stopped.activity.detail
    assert ([200, 200], ["GET /stream", "GET /ok", "GET /ok"]) == (turns, site.seen)
    assert 1 == free


def test_stop_in_the_main_thread_by_a_signal(site: Website, trusted: str) -> None:
    """A Ctrl-C while the main thread waits for the response ends it as any stop does."""
    import os
    import signal

    with session(trusted) as one, turnctl.handle_signals():

        def interrupt() -> None:
            site.stalled(0)
            os.kill(os.getpid(), signal.SIGINT)

        stopper = threading.Thread(target=interrupt)
        with turnctl.turn() as turn:
            stopper.start()
            one.get(f"{site.url}/sized")
        stopper.join(5)
        ended = site.server.peer().ended.wait(5)

    assert ("signal", "cancelled", True) == (turn.cause, requests_of(turn.report)[-1].state, ended)
    assert ["GET /sized"] == site.seen


def test_outside_of_turns_nothing_changes(site: Website, trusted: str) -> None:
    """Without a turn it is the client as ever, with its own time-out, also on a connection that a turn has made."""
    import requests

    with session(trusted) as one:
        with turnctl.turn():
            one.get(f"{site.url}/ok")
        again = one.get(f"{site.url}/ok").text
        with pytest.raises(requests.exceptions.ReadTimeout):
            one.get(f"{site.url}/silence", timeout=0.05)
        with pytest.raises(requests.exceptions.ConnectionError, match="Read timed out"):
            one.get(f"{site.url}/sized", timeout=0.05)

    assert ("ok", 2) == (again, len(site.server.peers))


def test_errors_in_a_turn_are_the_clients_own(site: Website, trusted: str) -> None:
    """What goes wrong without a stop is told as ever, and named in the report."""
    import requests
    import urllib3

    with session(trusted) as one, socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
        gone.close()
        with turnctl.turn() as turn:
            with pytest.raises(requests.exceptions.ReadTimeout):
                one.get(f"{site.url}/silence", timeout=0.05)
            with pytest.raises(requests.exceptions.ConnectionError, match="NewConnectionError|refused"):
                one.get(f"http://127.0.0.1:{port}/")
            with pytest.raises(requests.exceptions.ConnectionError, match="NameResolutionError|Failed to"):
                one.get("http://nobody.invalid/")
            with full() as busy, pytest.raises(requests.exceptions.ConnectTimeout):
                one.get(f"http://127.0.0.1:{busy}/", timeout=0.05)
            with pytest.raises(urllib3.exceptions.LocationParseError, match="label empty or too long"):
                one.get(f"http://{'a' * 64}.example/")
            with loopback(_distrusted) as other, pytest.raises(requests.exceptions.SSLError):
                one.get(f"https://localhost:{other.port}", verify=True)

    states = [record.state for record in requests_of(turn.report)]
    assert ["failed"] * 6 == states
    assert "ReadTimeout" in str(requests_of(turn.report)[0].detail)


def _distrusted(peer: Peer) -> None:
    with contextlib.suppress(ssl.SSLError):
        server_tls().wrap_socket(peer.sock, server_side=True).close()
