"""The socket of a connection that requests share: its TLS is used by one thread at a time, and nothing blocks in it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from standins import Background, until
from websites import client_tls, server_tls

from turnctl.integrations.cores.shared import shared_of


class Watched(ssl.SSLSocket):
    """A TLS socket that, once armed, holds who is in it until the test lets him go."""

    held: Any = None

    def recv(self, *args: Any, **kwargs: Any) -> Any:
        return self._hold(super().recv, *args, **kwargs)

    def send(self, *args: Any, **kwargs: Any) -> Any:
        return self._hold(super().send, *args, **kwargs)

    def _hold(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        if self.held is not None:
            self.held.inside += 1
            self.held.entered += 1
            until(lambda: self.held.let_go)
            self.held.inside -= 1
        return fn(*args, **kwargs)


@pytest.fixture
def pair() -> Iterator[tuple[Watched, ssl.SSLSocket]]:
    """Both ends of a TLS connection."""
    here, there = socket.socketpair()
    server = server_tls(("h2",))
    context = client_tls()
    context.sslsocket_class = Watched
    with contextlib.ExitStack() as stack:
        for one in (here, there):
            stack.callback(one.close)
        accepted = Background(lambda: server.wrap_socket(there, server_side=True))
        mine = context.wrap_socket(here, server_hostname="127.0.0.1")
        theirs = accepted.result()
        for one in (mine, theirs):
            stack.callback(one.close)
        assert isinstance(mine, Watched)
        yield mine, theirs


def test_one_thread_at_a_time(pair: tuple[Watched, ssl.SSLSocket]) -> None:
    """While one reads nobody sends; both are done in the end."""
    mine, theirs = pair
    theirs.sendall(b"hello")
    held = mine.held = SimpleNamespace(inside=0, entered=0, let_go=False)
    sock = shared_of(SimpleNamespace(_sock=mine)).sock
    reader = Background(lambda: sock.recv(5))
    assert until(lambda: 1 == held.inside)
    sender = Background(lambda: sock.send(b"there"))
    assert not until(lambda: held.entered > 1, within=0.05)
    held.let_go = True
    got = (reader.result(), sender.result(), theirs.recv(5))

    assert (b"hello", 5, b"there") == got
    assert 2 == held.entered


def test_nobody_makes_it_block(pair: tuple[Watched, ssl.SSLSocket]) -> None:
    """A thread's time-out is its own, and changes the socket for nobody."""
    mine, _ = pair
    mine.settimeout(20)
    sock = shared_of(SimpleNamespace(_sock=mine)).sock
    sock.settimeout(3)
    theirs = Background(sock.gettimeout).result()

    assert (3, None) == (sock.gettimeout(), theirs)
    assert 0 == mine.gettimeout()
    with pytest.raises(ssl.SSLWantReadError):
        sock.recv(1)


def test_plain_socket_is_used_as_it_is() -> None:
    """Without TLS the kernel keeps readers and writers apart."""
    here, there = socket.socketpair()
    with here, there:
        got = shared_of(SimpleNamespace(_sock=here)).sock

        assert here is got


def test_mark_is_made_once(pair: tuple[Watched, ssl.SSLSocket]) -> None:
    """All who ask get the same lock."""
    stream = SimpleNamespace(_sock=pair[0])
    first = shared_of(stream)

    assert first is shared_of(stream)
