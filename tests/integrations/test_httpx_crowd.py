"""Many requests of one client, stopped at random: each answer is its own, and the pool stays whole."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import pytest
from httpclients import NAMES, face
from peers import Peer, loopback
from standins import Background, until

import turnctl

WAIT_S = 0.002


def serve(peer: Peer) -> None:
    """The number that was asked for, in two halves with a little time in between."""
    while True:
        head = peer.until(b"\r\n\r\n")
        text = head.split(b" ")[1].rpartition(b"?")[2] * 20
        time.sleep(random.random() * WAIT_S)
        half = len(text) // 2
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text[:half]))
        time.sleep(random.random() * WAIT_S)
        peer.send(text[half:])


class Crowd:
    """Threads that ask and check, until ``wanted`` of their requests were stopped."""

    def __init__(self, client: Any, url: str, wanted: int) -> None:
        self.client, self.url, self.wanted = client, url, wanted
        self.live: dict[int, turnctl.Turn] = {}
        self.stopped = self.answered = 0
        self.wrong: list[object] = []
        self.is_over = False

    def ask(self, number: int) -> None:
        n = 0
        while not self.is_over:
            n += 1
            text = f"{number}.{n}."
            with turnctl.turn(inherit=False) as turn:
                self.live[number] = turn
                try:
                    got = self.client.get(f"{self.url}?{text}").text
                except Exception as error:
                    self.wrong.append(error)
                    return
                self.answered += 1
                if text * 20 != got:
                    self.wrong.append((text, got))
                    return
            self.live.pop(number, None)

    def stop(self) -> None:
        while self.stopped < self.wanted and not self.wrong:
            for turn in random.sample(list(self.live.values()), k=min(3, len(self.live))):
                if turn.stop("at random").kind == "accepted":
                    self.stopped += 1
            time.sleep(0.0005)
        self.is_over = True


@pytest.mark.parametrize(
    ("callers", "stops"), [(12, 100), pytest.param(50, 1_000, marks=pytest.mark.stress)], ids=["some", "a thousand"]
)
@pytest.mark.parametrize("name", NAMES)
def test_random_stops(name: str, callers: int, stops: int) -> None:
    """No deadlock, no answer of another, no connection of another closed, no descriptor left, the pool serves."""
    http = face(name)
    with loopback(serve) as server, http.Client(timeout=20, trust_env=False, verify=False) as client:
        url = f"http://127.0.0.1:{server.port}/"
        client.get(f"{url}?0.")
        crowd = Crowd(client, url, stops)
        callers_running = [Background(crowd.ask, number) for number in range(callers)]
        crowd.stop()
        for one in callers_running:
            one.result(30)
        again = client.get(f"{url}?again").text
        pool = client._transport._pool
        idle = [one.is_idle() for one in pool.connections]
        requests = list(pool._requests)
        before = len(os.listdir("/proc/self/fd"))
        client.close()
        assert until(lambda: all(peer.ended.is_set() for peer in server.peers))
        closed = before - len(os.listdir("/proc/self/fd"))

    assert [] == crowd.wrong
    assert stops <= crowd.stopped
    assert "again" * 20 == again
    assert all(idle)
    assert [] == requests
    assert closed >= len(idle)
    assert 0 < crowd.answered
    assert not [thread for thread in threading.enumerate() if "bridge" in thread.name]
