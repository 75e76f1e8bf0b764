"""Many commands of many shapes, stopped at any moment: nothing is left of them, and each is accounted for."""

from __future__ import annotations

import random
import threading
import time

import pytest
from commands import FakeTurn, alive, nap
from standins import until

from turnctl.errors import CancelledError
from turnctl.processes.command import run
from turnctl.records.process import Completed

# each of these can be found at this level at any moment
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
]
#: and these once so many processes with their tag are there: a session is lost whose parent ends as it is born
FORMED = {
    "setsid NAP & wait": 2,
    "setsid sh -c 'NAP & NAP' & wait": 4,
    "setsid sh -c 'trap \"\" TERM; NAP; NAP' & wait": 3,
    "setsid sh -c 'setsid NAP & wait' & NAP & wait": 4,
}


def stop_when_formed(owner: FakeTurn, tag: str, count: int, delay: float) -> None:
    until(lambda: not count or len(alive(tag)) >= count)
    time.sleep(delay)
    owner.stop()


def stop_some(rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        tag, shape = nap(), rng.choice([*SHAPES, *FORMED])
        delay, timeout = rng.choice([0, 0, 0.001, 0.003, 0.01, 0.05]), rng.choice([None, None, 0.02])
        if shape in FORMED:
            timeout = None
        told = f"{shape!r}, stopped after {delay} s, timeout {timeout}, seed {seed}"
        done: Completed | None
        with FakeTurn(rng.choice([0, 0.05, 0.2])) as owner:
            stopper = threading.Thread(target=stop_when_formed, args=(owner, tag, FORMED.get(shape, 0), delay))
            stopper.start()
            try:
                done = run(owner, ["bash", "-c", shape.replace("NAP", tag)], timeout=timeout)
            except CancelledError as error:
                done = error.partial
            stopper.join()
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
