"""The plugin's ``turn`` is a turn of the test's own, and ends with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from standins import BOUND, Background

import turnctl

seen: list[turnctl.Turn] = []


@pytest.fixture
def before_and_after() -> None:
    """Nothing is bound before the turn of the test."""
    assert turnctl.current_turn() is None


def test_turn_runs_and_is_bound(before_and_after: None, turn: turnctl.Turn) -> None:
    """Ambient functions find it, and a stop reaches a thread of the test."""
    seen.append(turn)
    sleeper = Background(turn.sleep, BOUND)
    running = (turnctl.current_turn(), turn.is_over)
    turn.cancel()

    assert (turn, False) == running
    assert isinstance(sleeper.error(), turnctl.CancelledError)
    with pytest.raises(turnctl.CancelledError):
        turnctl.check()


def test_turn_of_the_test_before_is_over(turn: turnctl.Turn) -> None:
    """The next test has another one, which knows nothing of the stop (P4)."""
    assert [True] * len(seen) == [one.is_over for one in seen]
    assert turn not in seen
    assert not turn.cancelled


def test_documented_race_points_exist() -> None:
    """Each point in the table of the documents stands in the source."""
    page = Path(__file__).parents[2].joinpath("docs", "testing.md").read_text(encoding="utf-8")
    table = page.partition("## Race points")[2].partition("## ")[0]
    documented = {
        name for row in table.splitlines() if row.startswith("| `") for name in re.findall(r"`([\w.]+)`", row)
    }
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(turnctl.__file__).parent.rglob("*.py"))
    existing = set(re.findall(r'points\.reach\("([\w.]+)"\)', sources))

    assert len(documented) > 10
    assert set() == documented - existing
