"""A pause blocks at checkpoints and nowhere else; a stop wakes it; nothing of it is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import CancelledError, TurnOver
from turnctl.testing import call_at, pause_at
from turnctl.tokens import pausing


@pytest.fixture
def turn() -> Iterator[turnctl.Turn]:
    with turnctl.turn("chat") as made:
        yield made


@pytest.fixture(autouse=True)
def _unpaused() -> Iterator[None]:
    yield
    assert [] == turnctl.resume_all(), "the test left the process paused"


def parked(turn: turnctl.Turn, threads: int = 1) -> bool:
    return until(lambda: is_parked(turn.token._grow().waiters, threads))


def test_checkpoint_blocks_until_resumed(turn: turnctl.Turn) -> None:
    """check() of a paused turn blocks, and comes back when it is resumed (P8)."""
    assert turn.pause()
    worker = Background(turn.check)

    assert parked(turn)
    assert turn.paused
    assert turn.resume()
    worker.result()
    assert not turn.paused


def test_ambient_checkpoint_blocks(turn: turnctl.Turn) -> None:
    """turnctl.check() finds the pause by its context."""
    turn.pause()
    worker = Background(copy_context().run, turnctl.check)

    assert parked(turn)
    turn.resume()
    worker.result()


def test_stop_wakes_a_paused_checkpoint() -> None:
    """A stop is not held up by a pause: the blocked checkpoint raises at once."""
    with turnctl.turn() as turn:
        turn.pause()
        worker = Background(turn.check)
        parked(turn)
        turn.stop("enough")

        assert isinstance(worker.error(), CancelledError)
        assert not turn.paused
    assert "cancelled" == turn.outcome


def test_soft_stop_ends_the_pause(turn: turnctl.Turn) -> None:
    """The step in hand has to be finished: a held thread goes on without raising, and is not held again."""
    turn.pause()
    worker = Background(turn.check)
    parked(turn)
    turn.stop(soft=True)
    worker.result()

    assert not turn.paused
    assert not turn.pause()
    turn.check()


def test_pause_after_a_stop_changes_nothing() -> None:
    """A stopped turn is not paused: its checkpoints raise."""
    with turnctl.turn() as turn:
        turn.stop()

        assert not turn.pause()
        with pytest.raises(CancelledError):
            turn.check()


def test_second_pause_and_resume_change_nothing(turn: turnctl.Turn) -> None:
    """Pausing is not counted: one resume ends it."""
    assert (True, False) == (turn.pause(), turn.pause())
    assert (True, False) == (turn.resume(), turn.resume())


def test_pause_of_a_finished_turn_is_refused() -> None:
    """A turn that has ended cannot be paused, and says so."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver, match=rf"turn {turn.turn_id} has ended \(completed\) and cannot be paused"):
        turn.pause()


def test_child_tokens_and_turns_block_too(turn: turnctl.Turn) -> None:
    """A pause holds everything below: tokens and turns that were there, and those made while it is paused."""
    before = turn.child()
    turn.pause()
    after = turn.child()
    with turnctl.turn(session_id="inner") as inner:
        workers = [Background(token.check) for token in (before, after, inner.token)]

        assert until(lambda: len(turn.token._grow().waiters) == 3)
        assert inner.paused
        turn.resume()
        for worker in workers:
            worker.result()


def test_pause_of_a_child_turn_leaves_the_parent(turn: turnctl.Turn) -> None:
    """A pause reaches down, never up."""
    with turnctl.turn("inner") as inner:
        inner.pause()
        turn.check()

        assert (True, False) == (inner.paused, turn.paused)
        inner.resume()


def test_child_born_while_the_pause_is_stored_blocks(turn: turnctl.Turn) -> None:
    """Between the mark and the look at the children a child is born: it finds the mark."""
    born: list[turnctl.CancelToken] = []
    with call_at("turn.pause.marked", lambda: born.append(turn.child())):
        turn.pause()
    worker = Background(born[0].check)

    assert parked(turn)
    turn.resume()
    worker.result()


def test_resume_between_the_look_and_the_wait_is_not_lost(turn: turnctl.Turn) -> None:
    """A thread that has found the pause and is not blocked yet comes through when it is resumed at that moment."""
    for _ in range(200):
        turn.pause()
        worker = Background(turn.check)
        turn.resume()
        worker.result()


def test_resume_and_stop_at_once(turn: turnctl.Turn) -> None:
    """The mark is gone and nobody is woken yet when the stop comes: the checkpoint goes on or raises, never hangs."""
    with turnctl.turn() as other:
        other.pause()
        worker = Background(other.check)
        parked(other)
        with pause_at("turn.resume.unmarked") as held:
            resumer = Background(other.resume)
            assert held.reached.wait(BOUND)
            other.stop()
            error = worker.error()
            held.release()
        resumer.result()

    assert isinstance(error, CancelledError)


def test_waits_block_when_they_are_over(turn: turnctl.Turn) -> None:
    """A wait that was going on ends as usual, and its thread then blocks."""
    waiting = Background(turn.sleep, 0.05)
    turn.pause()

    assert parked(turn)
    assert waiting.is_running
    turn.resume()
    waiting.result()


def test_shield_holds_a_pause_back(turn: turnctl.Turn) -> None:
    """Clean-up under a shield goes on while the turn is paused."""
    turn.pause()
    with turn.shield("5s"):
        turn.check()
    turn.resume()


def test_end_releases_a_paused_thread() -> None:
    """A turn that ends while a thread is paused lets it go: the thread never hangs."""
    with turnctl.turn() as turn:
        turn.pause()
        worker = Background(turn.token.check)
        parked(turn)

    worker.result()


def test_unused_pause_costs_nothing(turn: turnctl.Turn) -> None:
    """A turn that was never paused takes the short way, and starts no thread."""
    before = threading.active_count()
    turn.check()

    assert not turn.token._due
    assert before == threading.active_count()


def test_report_tells_of_the_pause() -> None:
    """How often and for how long is in the report, with what is still going on."""
    with turnctl.turn() as turn:
        turn.pause()
        time.sleep(0.01)
        turn.resume()
        turn.pause()
        turn.resume()

    [note] = turn.report.notes
    assert note.startswith("paused 2 times, for ")
    assert note.endswith(" in all")


def test_pause_all_covers_the_process(turn: turnctl.Turn) -> None:
    """Every turn blocks, one that begins later too, and all go on together."""
    assert [turn.turn_id] == turnctl.pause_all()
    with turnctl.turn("later", inherit=False) as later:
        assert (True, True) == (turn.paused, later.paused)
        assert [] == turnctl.pause_all()
        assert {turn.turn_id, later.turn_id} == set(turnctl.resume_all())
        turn.check()
        later.check()


def test_resume_all_leaves_who_was_paused_alone(turn: turnctl.Turn) -> None:
    """A turn that was paused by itself stays paused, and its own resume does not undo pause_all."""
    turn.pause()
    turnctl.pause_all()

    assert [] == turnctl.resume_all()
    assert turn.paused
    turnctl.pause_all()
    turn.resume()
    assert turn.paused
    assert [turn.turn_id] == turnctl.resume_all()


def test_turn_that_begins_while_all_are_resumed_is_free() -> None:
    """Begun between the mark of pause_all and its end: never left paused."""
    turnctl.pause_all()
    with call_at("turn.pause.marked", turnctl.resume_all), turnctl.turn() as turn:
        assert not turn.paused


def test_pause_from_a_signal_handler_holds_nothing(turn: turnctl.Turn) -> None:
    """Pausing and resuming in between each other's steps leaves the turn as the last one said."""
    with call_at("turn.pause.marked", turn.resume):
        turn.pause()

    assert not turn.paused
    Background(turn.check).result(BOUND)


def test_mark_is_read_from_the_nearest_up(turn: turnctl.Turn) -> None:
    """A token below two paused turns is free only when both are."""
    with turnctl.turn("inner") as inner:
        turn.pause()
        inner.pause()
        turn.resume()
        assert pausing.is_paused(inner.token)
        inner.resume()
        assert not pausing.is_paused(inner.token)
