"""Proxies under requests: a stop ends the wait for a tunnel, what goes through it, and SOCKS."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from peers import Loopback, Peer, loopback
from requestclients import requests_of, session, trusted_in
from standins import BOUND, until
from websites import Website, proxy, pump, server_tls, website

import turnctl

pytest.importorskip("requests", reason="requests is what these tests are about")


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    return trusted_in(tmp_path)


@contextlib.contextmanager
def through(url: str, trusted: str = "") -> Iterator[Any]:
    with session(trusted) as one:
        one.proxies = {"http": url, "https": url}
        yield one


def test_tunnel_that_is_not_answered_ends(trusted: str) -> None:
    """A proxy that does not answer a CONNECT holds nobody, and the report names it."""
    with proxy(stalls=True) as between, through(between.url, trusted) as one:
        stopped = stop_at(lambda _: one.get("https://localhost:9/"), between.stalled, stage="asking the proxy")
        ended = between.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert str(requests_of(stopped.report)[0].detail).startswith("asking the proxy for a tunnel; ")
    assert ["CONNECT"] == between.seen


@pytest.mark.parametrize("path", ["/silence", "/sized", "/close"])
def test_what_goes_through_a_tunnel_ends(trusted: str, path: str) -> None:
    """A response that stalls behind a proxy ends, and so does the connection on both sides of it."""
    with website(tls=True) as site, proxy() as between, through(between.url, trusted) as one:
        stopped = stop_at(lambda _: one.get(f"{site.url}{path}"), site.stalled)
        ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert [f"GET {path}"] == site.seen


def test_handshake_behind_a_tunnel_ends(trusted: str) -> None:
    """A server behind a proxy that does not shake hands holds nobody."""
    with loopback(Peer.stall) as mute, proxy() as between, through(between.url, trusted) as one:
        stopped = stop_at(
            lambda _: one.get(f"https://localhost:{mute.port}/"), lambda: until(lambda: mute.reached().heard)
        )
        ended = mute.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended


def test_request_by_way_of_a_proxy_ends() -> None:
    """A plain request goes to the proxy itself."""
    seen: list[bytes] = []

    def serve(peer: Peer) -> None:
        seen.append(peer.until(b"\r\n"))
        peer.stall()

    with loopback(serve) as between, through(f"http://127.0.0.1:{between.port}") as one:
        stopped = stop_at(lambda _: one.get("http://elsewhere.example/silence"), between.reached)
        ended = between.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert [b"GET http://elsewhere.example/silence HTTP/1.1\r\n"] == seen
    assert "GET http://elsewhere.example/silence" == requests_of(stopped.report)[0].name


@contextlib.contextmanager
def tls_proxy(*, stalls: bool = False) -> Iterator[Loopback]:
    """A proxy that is spoken to with TLS, and through which TLS is spoken."""

    def serve(peer: Peer) -> None:
        with server_tls().wrap_socket(peer.sock, server_side=True) as peer.sock:
            target = peer.until(b"\r\n\r\n").split(b" ")[1].decode()
            if stalls:
                peer.stall()
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port)), BOUND) as other:
                peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                pump(peer.sock, other)

    with loopback(serve) as server:
        yield server


def test_tls_within_tls_ends(trusted: str) -> None:
    """A response through a proxy that is spoken to with TLS ends as well."""
    with website(tls=True) as site, tls_proxy() as between:
        with through(f"https://localhost:{between.port}", trusted) as one:
            with turnctl.turn():
                assert "ok" == one.get(f"{site.url}/ok").text
                assert 3000 == len(one.get(f"{site.url}/ok?{'x' * 3000}").text)
            stopped = stop_at(lambda _: one.get(f"{site.url}/sized"), site.stalled)
            ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert 1 == len(between.peers)


def test_tunnel_of_a_tls_proxy_ends(trusted: str) -> None:
    """The wait for its answer to a CONNECT ends as well."""
    with tls_proxy(stalls=True) as between, through(f"https://localhost:{between.port}", trusted) as one:
        stopped = stop_at(lambda _: one.get("https://localhost:9/"), between.reached)
        ended = between.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended


def socks(*, stalls: bool) -> Any:
    """A SOCKS 5 proxy, or one that does not answer."""

    def serve(peer: Peer) -> None:
        peer.exactly(3)
        if stalls:
            peer.stall()
        peer.send(b"\x05\x00")
        peer.exactly(4)
        host = socket.inet_ntoa(peer.exactly(4))
        port = int.from_bytes(peer.exactly(2), "big")
        with socket.create_connection((host, port), BOUND) as other:
            peer.send(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
            pump(peer.sock, other)

    return loopback(serve)


def test_socks_is_left_behind() -> None:
    """What PySocks does cannot be raced: it is left behind at once, named, and its connection closed when it ends."""
    pytest.importorskip("socks", reason="PySocks is what requests speaks SOCKS with")
    with socks(stalls=True) as between, through(f"socks5://127.0.0.1:{between.port}") as one:
        stopped = stop_at(lambda _: one.get("http://127.0.0.1:9/"), between.reached)
        between.peer().go_on.set()
        between.peer().sock.shutdown(socket.SHUT_RDWR)

    assert_stopped(stopped)
    assert ["http: cancelled", "connect: abandoned"] == [f"{a.kind}: {a.state}" for a in stopped.report.activities]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_response_through_socks_ends(trusted: str, tls: bool) -> None:
    """What comes through SOCKS is raced like anything else."""
    pytest.importorskip("socks", reason="PySocks is what requests speaks SOCKS with")
    with website(tls=tls) as site, socks(stalls=False) as between:
        with through(f"socks5://127.0.0.1:{between.port}", trusted) as one:
            with turnctl.turn():
                assert "ok" == one.get(f"{address_of(site)}/ok").text
            stopped = stop_at(lambda _: one.get(f"{address_of(site)}/sized"), site.stalled)
            ended = site.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended


def address_of(site: Website) -> str:
    return site.url.replace("localhost", "127.0.0.1")
