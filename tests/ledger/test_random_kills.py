"""Busy processes, killed one by one at random moments: nothing told is lost, nothing comes after a cancellation."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_busy import too_late
from ledger_lives import granted
from ledger_recovery import lost, recovered, told_lines, wrong_outside
from stores import finish, line, program

import turnctl
from turnctl.ledger.opening import init
from turnctl.ledger.verify import verify

CREW = 8
#: a dozen lines take some hundredths of a second
BOUND_S = 10.0


class Crowd:
    """The busy processes over the ledger in ``folder``."""

    def __init__(self, keeper: subprocess.Popen[str], folder: Path) -> None:
        self.keeper, self.folder = keeper, folder
        self.pids: list[int] = []
        self.seed = 0
        self.statuses: Counter[int] = Counter()

    def _say(self, text: str) -> int:
        assert self.keeper.stdin is not None
        self.keeper.stdin.write(f"{text}\n")
        self.keeper.stdin.flush()
        return int(line(self.keeper))

    def start(self) -> None:
        self.seed += 1
        self.pids.append(self._say(f"+{self.folder} {self.seed}"))

    def let_work(self, chance: random.Random) -> None:
        """Wait until they have been told a few things more, and then for a moment that nothing hangs on."""
        until, end = self._told() + chance.randrange(600), time.monotonic() + BOUND_S
        while self._told() < until and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.random() / 100)

    def _told(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("told.*"))

    def kill(self, pid: int) -> None:
        self.pids.remove(pid)
        self.statuses[self._say(f"-{pid}")] += 1


@pytest.fixture
def crowd(quick: Path) -> Iterator[Crowd]:
    init(quick / "ledger.db")
    keeper = program("from ledger_busy import crowd; crowd()", Path("none"))
    found = Crowd(keeper, quick)
    yield found
    for pid in list(found.pids):
        found.kill(pid)
    finish(keeper)


def wrong_now(folder: Path) -> list[str]:
    """What is wrong while they run, or after: what was told before this look has to be there."""
    lines = told_lines(folder)
    with turnctl.open_ledger(str(folder / "ledger.db"), authorise=granted) as ledger:
        return [*lost(ledger, lines), *wrong_outside(ledger, folder), *too_late(ledger, lines)]


def kills(crowd: Crowd, count: int, *, seed: int, look_every: int) -> Counter[str]:
    """Kill ``count`` of them, one after the other, and everybody at the end; what they had been told, by kind."""
    chance = random.Random(seed)
    for _ in range(CREW):
        crowd.start()
    for n in range(count - CREW):
        crowd.let_work(chance)
        crowd.kill(chance.choice(crowd.pids))
        crowd.start()
        if n % look_every == look_every - 1:
            wrong = wrong_now(crowd.folder)
            assert [] == wrong, (seed, n)
    crowd.let_work(chance)
    for pid in list(crowd.pids):
        crowd.kill(pid)
    told = Counter(what for what, _ in told_lines(crowd.folder))

    assert {-9: count} == crowd.statuses
    assert [] == wrong_now(crowd.folder)
    assert verify(crowd.folder / "ledger.db")
    assert [] == recovered(str(crowd.folder / "ledger.db"), crowd.folder)
    return told


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_random_kills_of_a_busy_crew(crowd: Crowd) -> None:
    """Twenty kills, at random moments; then the next workers carry on, and all comes to rest."""
    told = kills(crowd, 20, seed=1, look_every=6)

    assert {"submitted", "leased", "claimed", "closed", "cancelled"} <= set(told), told


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_two_hundred_random_kills(crowd: Crowd) -> None:
    """The same, two hundred times."""
    told = kills(crowd, 200, seed=2, look_every=40)
    print(told, verify(crowd.folder / "ledger.db"))

    assert min(told[one] for one in ("submitted", "leased", "claimed", "closed", "cancelled")) > 50, told
