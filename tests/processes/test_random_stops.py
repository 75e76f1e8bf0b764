"""Many commands of many shapes, stopped at any moment: nothing is left of them, and each is accounted for."""

from __future__ import annotations

import random
import threading

import pytest
from commands import FakeTurn, alive, nap

from turnctl.errors import CancelledError
from turnctl.processes.command import run
from turnctl.records.process import Completed

# each of these can be found at this level: what leaves every session and loses its parent at once is not among them
SHAPES = [
    "NAP; true",
    "NAP & NAP",
    "exec NAP",
    "exit 3",
    "NAP | NAP | NAP",
    "NAP >/dev/null 2>&1 &",
    "yes NAP",
    "kill -STOP $$; NAP",
    "trap '' TERM; NAP & NAP; true",
    "trap 'exit 0' TERM; NAP & wait",
    "trap \"(trap '' TERM; NAP; NAP) & exit 0\" TERM; while :; do sleep 0.01; done",
    "set -m; NAP & NAP & wait",
    "setsid NAP & wait",
    "setsid sh -c 'NAP & NAP' & wait",
    "setsid sh -c 'trap \"\" TERM; NAP; NAP' & wait",
]


def stop_some(rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        tag, shape = nap(), rng.choice(SHAPES)
        delay, timeout = rng.choice([0, 0, 0.001, 0.003, 0.01, 0.05]), rng.choice([None, None, 0.02])
        told = f"{shape!r}, stopped after {delay} s, timeout {timeout}, seed {seed}"
        done: Completed | None
        with FakeTurn(rng.choice([0, 0.05, 0.2])) as owner:
            timer = threading.Timer(delay, owner.stop)
            timer.start()
            try:
                done = run(owner, ["bash", "-c", shape.replace("NAP", tag)], timeout=timeout)
            except CancelledError as error:
                done = error.partial
            timer.join()
            owner.end(0.05)

        assert [] == alive(tag), told
        assert all(not activity.is_open for activity in owner.activities), told
        assert 0 == owner.watched, told
        if done is not None:
            assert () == done.outcome.survivors, told
            assert (done.returncode is None) == (not done.outcome.exited), told


def test_nothing_is_left_whenever_it_is_stopped() -> None:
    """Stops at random moments of random shapes leave no process, no open activity and no watch."""
    stop_some(40, seed=random.randrange(1000))


@pytest.mark.stress
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_left_in_a_long_run(seed: int) -> None:
    """The same, two thousand times."""
    stop_some(500, seed)
