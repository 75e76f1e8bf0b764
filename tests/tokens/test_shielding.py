"""A shield lets clean-up run: checkpoints inside do not raise, for a bounded time, and the stop comes after it."""

from __future__ import annotations

import contextvars
import time

import pytest
from standins import BOUND, Background, is_parked

import turnctl
from turnctl import BadDuration, CancelledError


def test_checkpoint_inside_does_not_raise() -> None:
    """The stop is raised at the end of the shield, not before."""
    reached: list[str] = []
    with turnctl.turn() as turn:
        with turnctl.shield("5s"):
            turn.stop()
            turnctl.check()
            turn.check()
            turn.sleep(0)
            reached.append("clean-up")
        reached.append("after")

    assert ["clean-up"] == reached
    assert "cancelled" == turn.outcome


def test_shield_entered_after_the_stop_holds_as_well() -> None:
    """Clean-up in a ``finally`` runs after the stop was raised, and ends with its own error again."""
    reached: list[str] = []
    with turnctl.turn() as turn:
        turn.stop()
        try:
            turn.check()
        finally:
            with pytest.raises(CancelledError), turn.shield():
                turn.check()
                reached.append("clean-up")

    assert ["clean-up"] == reached
    assert "cancelled" == turn.outcome


def test_shield_without_a_stop_does_nothing() -> None:
    """Nothing is raised at its end."""
    with turnctl.turn() as turn:
        with turn.shield():
            turn.check()
        turn.check()

    assert "completed" == turn.outcome


def test_shield_outside_a_turn_does_nothing() -> None:
    """Code that may run without a turn may use it."""
    with turnctl.shield("1s"):
        turnctl.check()


def test_limit_that_has_passed_raises_again() -> None:
    """A clean-up that takes too long is interrupted like anything else."""
    begun = time.monotonic()
    with turnctl.turn() as turn:
        turn.stop()
        with turn.shield("50ms"):
            while True:
                turn.check()
    took = time.monotonic() - begun

    assert 0.05 <= took < 1.5
    assert "cancelled" == turn.outcome


@pytest.mark.parametrize("stop_first", [True, False])
def test_sleep_inside_ends_with_the_limit(stop_first: bool) -> None:
    """A sleep goes on until the shield's limit, whether the stop came before it or during it, and not longer."""
    begun = time.monotonic()
    with turnctl.turn() as turn:
        if stop_first:
            turn.stop()
        with turn.shield("200ms"):
            if not stop_first:
                Background(lambda: is_parked(turn.token._grow().waiters) and turn.stop())
            turn.sleep(3)
    took = time.monotonic() - begun

    assert 0.2 <= took < 2
    assert "cancelled" == turn.outcome


def test_sleep_inside_takes_its_own_time() -> None:
    """Within the limit a sleep is not cut short."""
    reached: list[float] = []
    with turnctl.turn() as turn:
        turn.stop()
        with turn.shield("5s"):
            begun = time.monotonic()
            turn.sleep("60ms")
            reached.append(time.monotonic() - begun)

    assert 1 == len(reached)
    assert 0.06 <= reached[0] < 1


@pytest.mark.parametrize("when", ["at once", "later", "from asleep"])
def test_kill_passes_through(when: str) -> None:
    """A stop that spends no more grace raises inside the shield, also where it wakes a sleeper."""
    begun = time.monotonic()
    reached: list[int] = []
    with turnctl.turn() as turn, turn.shield("8s"):
        if when == "at once":
            turn.stop(kill=True)
        elif when == "later":
            turn.stop()
            turn.check()
            turn.stop(kill=True)
        else:
            turn.stop()
            Background(lambda: is_parked(turn.token._grow().waiters) and turn.stop(kill=True))
            turn.sleep(8)
        turn.check()
        reached.append(1)
    took = time.monotonic() - begun

    assert [] == reached
    assert took < 4


def test_nested_shields_hold_until_the_outer_ends() -> None:
    """The end of an inner shield raises nothing while an outer one holds."""
    reached: list[str] = []
    with turnctl.turn() as turn:
        with turn.shield("5s"):
            with turn.shield("5s"):
                turn.stop()
            reached.append("between")
            turn.check()
        reached.append("after")

    assert ["between"] == reached


def test_longer_of_two_nested_limits_holds() -> None:
    """An inner shield may lengthen the clean-up, not cut the outer one short."""
    for outer, inner in (("5s", "1ms"), ("1ms", "5s")):
        reached: list[int] = []
        with turnctl.turn() as turn:
            turn.stop()
            with turn.shield(outer), turn.shield(inner):
                time.sleep(0.01)
                turn.check()
                reached.append(1)

        assert [1] == reached


def test_exception_of_the_body_passes_with_a_note() -> None:
    """A clean-up that fails is not hidden by the stop; the note tells of it."""
    with pytest.raises(ZeroDivisionError) as raised, turnctl.turn() as turn, turn.shield():
        turn.stop()
        raise ZeroDivisionError

    assert 1 == len(raised.value.__notes__)
    assert "was stopped while this ran under its shield" in raised.value.__notes__[0]
    assert turn.turn_id in raised.value.__notes__[0]
    assert "cancelled" == turn.outcome
    assert "raised while stopping: ZeroDivisionError" in turn.report.notes


def test_exception_of_the_body_without_a_stop_has_no_note() -> None:
    """Nothing is added where nothing happened."""
    with pytest.raises(ZeroDivisionError) as raised, turnctl.turn() as turn, turn.shield():
        raise ZeroDivisionError

    assert not hasattr(raised.value, "__notes__")
    assert "failed" == turn.outcome


def test_shield_belongs_to_its_context() -> None:
    """Another thread of the turn goes on raising."""
    with turnctl.turn() as turn, turn.shield():
        turn.stop()
        turn.check()
        error = Background(turn.check).error()

    assert isinstance(error, CancelledError)


def test_copied_context_carries_the_shield() -> None:
    """Work that was given this context is part of the clean-up."""
    with turnctl.turn() as turn, turn.shield():
        turn.stop()
        error = Background(contextvars.copy_context().run, turn.check).error()

    assert error is None


def test_shield_of_a_turn_covers_its_children() -> None:
    """A child's checkpoint inside the turn's shield does not raise."""
    with turnctl.turn() as turn:
        child = turn.child()
        with turn.shield():
            turn.stop()
            child.check()


def test_shield_of_a_child_does_not_cover_its_turn() -> None:
    """Who checks the turn itself is told."""
    with turnctl.turn() as turn:
        child = turn.child()
        with pytest.raises(CancelledError), child.shield():
            turn.stop()
            child.check()
            with pytest.raises(CancelledError):
                turn.check()


def test_shield_of_another_turn_does_not_cover_this_one() -> None:
    """A shield is a turn's own."""
    with turnctl.turn() as outer, turnctl.turn(inherit=False) as turn:
        reached: list[int] = []
        with outer.shield():
            turn.stop()
            turn.check()
            reached.append(1)

    assert [] == reached
    assert ("completed", "cancelled") == (outer.outcome, turn.outcome)


@pytest.mark.parametrize("value", [0, -1, "0s", "5", "", None, "none", float("nan"), True])
def test_bad_limit_is_refused(value: float) -> None:
    """A shield has a limit, and it is a duration like any other."""
    with turnctl.turn() as turn:
        for make in (turn.shield, turn.token.shield, turnctl.shield):
            with pytest.raises(BadDuration):
                make(value)
    with pytest.raises(BadDuration):
        turnctl.shield(value)


def test_limit_counts_from_entry() -> None:
    """A shield that was made early is not used up when it is entered."""
    with turnctl.turn() as turn:
        shield = turn.shield("100ms")
        time.sleep(0.15)
        turn.stop()
        reached: list[int] = []
        with shield:
            turn.check()
            reached.append(1)

    assert [1] == reached


def test_outcome_under_a_shield_is_decided_as_ever() -> None:
    """A body that ends inside a shield ends ``cancelled`` (promise 6)."""

    def body() -> str:
        with turnctl.shield():
            turnctl.current_turn().stop()  # type: ignore[union-attr]
            try:
                return "value"
            finally:
                pass

    result = turnctl.run_turn(body)

    assert result.cancelled
    with pytest.raises(CancelledError):
        result.unwrap()


def test_wait_for_a_stop_is_not_shielded() -> None:
    """``wait_cancelled`` tells of the stop also inside a shield; it raises nothing."""
    with turnctl.turn() as turn:
        with pytest.raises(CancelledError), turn.shield():
            waiter = Background(turn.wait_cancelled)
            turn.stop()

            assert waiter.result(BOUND)
            assert turn.wait_cancelled(BOUND)
