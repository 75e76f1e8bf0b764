"""The clockwork of a ladder, in every order of events, with a clock that the test moves."""

from __future__ import annotations

from examples import given
from hypothesis import strategies as st

from turnctl.processes.ladder import DRAIN_S, LONGEST_PAUSE_S, Ladder


def test_empty_tree_is_done_unasked() -> None:
    """Where nothing lives there is nobody to ask."""
    ladder = Ladder(kill_at=5.0)

    assert "done" == ladder.step(0.0, alive=0, unkilled=0)
    assert not ladder.has_asked


def test_asks_then_waits_then_kills() -> None:
    """One ask, waiting for the grace, KILL when it has passed."""
    ladder = Ladder(kill_at=5.0)
    moves = [ladder.step(at, alive=2, unkilled=2) for at in (0.0, 0.1, 4.9, 5.0)]

    assert ["ask", "wait", "wait", "kill"] == moves


def test_done_when_the_tree_is_empty() -> None:
    """The ladder ends as soon as nothing lives, whatever is left of the grace."""
    ladder = Ladder(kill_at=5.0)
    ladder.step(0.0, alive=1, unkilled=1)

    assert "done" == ladder.step(0.2, alive=0, unkilled=0)


def test_no_grace_kills_unasked() -> None:
    """With a grace of 0 nobody is asked."""
    ladder = Ladder(kill_at=3.0)
    moves = [ladder.step(3.0, alive=1, unkilled=1), ladder.step(3.1, alive=1, unkilled=0)]

    assert ["kill", "wait"] == moves
    assert not ladder.has_asked


def test_shorter_grace_kills_sooner() -> None:
    """An escalation while waiting moves the KILL forward and makes the next look due by then."""
    ladder = Ladder(kill_at=100.0)
    ladder.step(0.0, alive=1, unkilled=1)
    for at in range(1, 10):
        ladder.step(float(at), alive=1, unkilled=1)
    ladder.shorten(9.1)

    assert 9.1 == ladder.look_at
    assert "kill" == ladder.step(9.1, alive=1, unkilled=1)


def test_longer_grace_changes_nothing() -> None:
    """A repeated stop never extends the grace."""
    ladder = Ladder(kill_at=5.0)
    ladder.step(0.0, alive=1, unkilled=1)
    ladder.shorten(50.0)

    assert "kill" == ladder.step(5.0, alive=1, unkilled=1)


def test_what_appears_after_the_kill_is_killed_too() -> None:
    """KILL is repeated while something lives that has not had it."""
    ladder = Ladder(kill_at=1.0)
    moves = [ladder.step(1.0, alive=1, unkilled=1)]
    moves += [ladder.step(1.1, alive=3, unkilled=2), ladder.step(1.2, alive=1, unkilled=0)]

    assert ["kill", "kill", "wait"] == moves


def test_gives_up_after_the_drain() -> None:
    """What KILL does not end is given up after the drain, and not before."""
    ladder = Ladder(kill_at=1.0)
    ladder.step(1.0, alive=1, unkilled=1)

    assert "wait" == ladder.step(1.0 + DRAIN_S - 0.001, alive=1, unkilled=0)
    assert 1.0 + DRAIN_S == ladder.look_at
    assert "give-up" == ladder.step(1.0 + DRAIN_S, alive=1, unkilled=0)


def test_pauses_grow_to_a_limit() -> None:
    """The tree is looked at soon after the ask and ever more seldom, but never too seldom."""
    ladder = Ladder(kill_at=1000.0)
    now, pauses = 0.0, []
    ladder.step(now, alive=1, unkilled=1)
    for _ in range(10):
        ladder.step(now, alive=1, unkilled=1)
        pauses.append(round(ladder.look_at - now, 6))
        now = ladder.look_at

    assert pauses == sorted(pauses)
    assert 0.01 > pauses[0]
    assert LONGEST_PAUSE_S == pauses[-1]


@given(
    grace=st.floats(0, 10),
    events=st.lists(
        st.tuples(st.floats(0, 2), st.integers(0, 3), st.integers(0, 3), st.none() | st.floats(0, 20)), max_size=40
    ),
)
def test_ladder_keeps_its_invariants(grace: float, events: list[tuple[float, int, int, float | None]]) -> None:
    """In any order of facts: one ask at most, none after KILL, no KILL before its time, done only when empty."""
    ladder = Ladder(kill_at=grace)
    now, earliest, moves = 0.0, grace, []
    for passed, alive, unkilled, shorter in events:
        now += passed
        if shorter is not None:
            ladder.shorten(shorter)
            if ladder.killed_at is None:
                earliest = min(earliest, shorter)
        move = ladder.step(now, alive=alive, unkilled=min(alive, unkilled))
        moves.append(move)

        assert (move == "done") == (alive == 0)
        assert move != "kill" or now >= earliest
        assert move != "ask" or (moves.count("ask") == 1 and "kill" not in moves)
        assert move != "give-up" or now >= (ladder.killed_at or 0) + DRAIN_S
        assert move != "wait" or ladder.look_at <= now + LONGEST_PAUSE_S
