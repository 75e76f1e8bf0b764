"""A second stop of a turn, with a shorter grace or a higher level, in the tokens and turns below it."""

from __future__ import annotations

from typing import Any

import pytest

import turnctl
from turnctl.testing import FakeClock
from turnctl.tokens.nesting import hurrying_with_the_outer

#: two stops, 0.3 s from each other, and when what was stopped is killed, from the first; the turns' grace is 20 s
STOPS: dict[str, tuple[list[dict[str, Any]], float]] = {
    "a shorter grace": ([{}, {"grace": 0.4}], 0.7),
    "a shorter one that ends later": ([{"grace": 5}, {"grace": 4.9}], 5),
    "soft, and then not": ([{"level": "soft"}, {}], 20.3),
    "soft with a grace, and then not": ([{"level": "soft", "grace": 2}, {}], 2.3),
    "a kill": ([{}, {"level": "kill"}], 0.3),
}
each_kind = pytest.mark.parametrize(("requests", "seconds"), STOPS.values(), ids=STOPS)


def _stop(turn: turnctl.Turn, requests: list[dict[str, Any]], clock: FakeClock) -> None:
    for request in requests:
        turn.cancel("enough", **request)
        clock.advance(0.3)


@each_kind
@pytest.mark.parametrize("begun", ["before", "after"])
def test_it_counts_from_its_own_time_below(
    requests: list[dict[str, Any]], seconds: float, begun: str, fake_clock: FakeClock
) -> None:
    """A turn below, over a token in between, has until the same moment, also one that begins when all were told."""
    since = fake_clock.monotonic()
    with turnctl.turn(grace="20s") as outer:
        if begun == "after":
            _stop(outer, requests, fake_clock)
        with outer.child(), turnctl.turn(grace="20s") as inner:
            if begun == "before":
                _stop(outer, requests, fake_clock)
            found = outer.kill_at(), inner.kill_at()

    assert (since + seconds, since + seconds) == pytest.approx(found)
    assert ("cancelled", "parent") == (inner.outcome, inner.cause)


@each_kind
def test_it_counts_from_its_own_time_for_a_turn_that_ends(
    requests: list[dict[str, Any]], seconds: float, fake_clock: FakeClock
) -> None:
    """A turn whose outcome is decided is not killed sooner than that one; where none is named it has its own grace."""
    since = fake_clock.monotonic()
    with turnctl.turn(grace="20s") as outer, turnctl.turn(grace="20s") as inner:
        inner.token._retire("completed")
        with hurrying_with_the_outer(inner):
            _stop(outer, requests, fake_clock)
            found = inner.kill_at()

    assert "completed" == inner.outcome
    assert (None if seconds > 20 else pytest.approx(since + seconds)) == found
