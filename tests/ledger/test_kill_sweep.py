"""SIGKILL at every failpoint that the source has: what was told is there, and the next worker finds its way (R67)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ledger_lives import LIVES, granted
from ledger_points import failpoints
from ledger_recovery import lost, recovered, told_lines, wrong_outside
from stores import finish, line, program

import turnctl
from turnctl.ledger.verify import verify

POINTS = failpoints()


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that bears others, and has nothing of the ledger open itself."""
    process = program("from ledger_lives import nursery; nursery()", Path("none"))
    yield process
    finish(process)


def live(nursery: subprocess.Popen[str], name: str, folder: Path, armed: str | None) -> int:
    """Have a process live in ``folder``; how it ended."""
    assert nursery.stdin is not None
    nursery.stdin.write(json.dumps([name, str(folder), armed]) + "\n")
    nursery.stdin.flush()
    return int(line(nursery))


@contextmanager
def fresh(quick: Path, name: str) -> Iterator[Path]:
    folder = quick / name
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def paths(nursery: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """For each life how often it comes to which failpoint, if nobody kills it."""
    found = {}
    for name in LIVES:
        folder = tmp_path_factory.mktemp("life")
        os.chmod(folder, 0o700)
        assert 0 == live(nursery, name, folder, None)
        found[name] = Counter((folder / "reached").read_text().split())
    return found


def killed(nursery: subprocess.Popen[str], quick: Path, name: str, point: str, at: int) -> list[str]:
    """Kill that life there; what is wrong afterwards, with where it was."""
    with fresh(quick, f"{name}-{point}-{at}") as folder:
        url = f"{folder}/ledger.db"
        status = live(nursery, name, folder, f"{point}=kill:{at}")
        wrong = [] if status == -9 else [f"it ended with {status}"]
        with turnctl.open_ledger(url, authorise=granted) as ledger:
            wrong += [f"was told, and is lost: {one}" for one in lost(ledger, told_lines(folder))]
            wrong += wrong_outside(ledger, folder)
        wrong += verify(url).findings
        wrong += recovered(url, folder)
    return [f"{name}, killed at {point} ({at}): {one}" for one in wrong]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(point: str, nursery: subprocess.Popen[str], paths: dict[str, Counter[str]], quick: Path) -> None:
    """Whoever is killed there leaves what was told, a sound log, and tasks that the next one carries on or drains."""
    times, name = max((path[point], name) for name, path in paths.items())
    assert times, f"no life comes to {point}: extend one in tests/support/ledger_lives.py"
    wrong = killed(nursery, quick, name, point, (times + 1) // 2)

    assert [] == wrong


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_arrival(
    point: str, nursery: subprocess.Popen[str], paths: dict[str, Counter[str]], quick: Path
) -> None:
    """The same in every life, at each time that it comes there."""
    wrong = [
        one
        for name, path in paths.items()
        for at in range(1, path[point] + 1)
        for one in killed(nursery, quick, name, point, at)
    ]

    assert [] == wrong
