"""Many stops at random moments, over many requests at once that share one session."""

from __future__ import annotations

import gc
import heapq
import os
import random
import threading
import time
from typing import Any

import pytest
from requestclients import idle, session
from standins import until
from storms import Busy, busy

import turnctl

pytest.importorskip("requests", reason="requests is what these tests are about")

AT_ONCE = 50


class Stopper:
    """A thread that stops turns at the times it is given."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, turnctl.Turn]] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, turn: turnctl.Turn, after_s: float) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + after_s, id(turn), turn))
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._is_over:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                else:
                    heapq.heappop(self._due)[2].token.cancel("at random")

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(5)


def storm(one: Any, server: Busy, stopper: Stopper, requests: int) -> list[str]:
    """Make that many requests at once, each stopped at random; how each ended, but for what went wrong."""
    told: list[str] = []
    names = iter([f"{random.getrandbits(64):016x}" for _ in range(requests)])
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                name = next(names, None)
            if name is None:
                return
            try:
                told.append(_ask(one, server, stopper, name))
            except BaseException as error:
                told.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    return told


def _ask(one: Any, server: Busy, stopper: Stopper, name: str) -> str:
    text = None
    with turnctl.turn() as turn:
        stopper.stop(turn, random.uniform(0, 0.04))
        response = one.get(f"{server.url}/{name}", stream=random.random() < 0.5)
        text = response.text
    if text is not None:
        return "whole" if text == name else f"{name} was answered with {text}"
    return "stopped" if turn.cancelled else "neither"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("requests", [300, pytest.param(1000, marks=pytest.mark.stress)])
def test_random_stops(requests: int) -> None:
    """No deadlock, no response of somebody else, nothing sent twice, the pool is usable, descriptors are flat."""
    stopper = Stopper()
    with busy() as server, session(pool_maxsize=AT_ONCE) as one:
        before = descriptors()
        told = storm(one, server, stopper, requests)
        stopper.close()
        gc.collect()
        kept = len(idle(one, server.url))
        flat = until(lambda: server.connections == kept) and descriptors() - before == 2 * kept
        again = {one.get(f"{server.url}/again{n}").text for n in range(20)}

    assert {"whole", "stopped"} == set(told)
    assert requests == len(told)
    assert 1 == max(server.seen.values())
    assert (20, True) == (len(again), flat)


@pytest.mark.parametrize("requests", [150, pytest.param(1000, marks=pytest.mark.stress)])
def test_random_stops_of_a_full_pool(requests: int) -> None:
    """The same where most wait for a connection: none is lost, and none too many comes into being."""
    stopper = Stopper()
    with busy() as server, session(pool_maxsize=10, pool_block=True) as one:
        told = storm(one, server, stopper, requests)
        stopper.close()
        pool = one.get_adapter(server.url).poolmanager.connection_from_url(server.url).pool

        assert 10 == pool.qsize()
    assert {"whole", "stopped"} == set(told)
    assert 1 == max(server.seen.values())
