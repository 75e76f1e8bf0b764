"""A failpoint acts where a test asked for it by the environment, once, and is nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk
from stores import admit, finish, held_at, line, program

from turnctl import points
from turnctl.ledger import failpoints
from turnctl.ledger.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.arm("")


def test_fault_before_commit_leaves_nothing(store: SqliteStore) -> None:
    """What raises before COMMIT was not written; what raises after it was, though nobody was told."""
    Desk(store)
    failpoints.arm("gate.before_commit=raise,gate.after_commit=raise:2")
    with pytest.raises(failpoints.InjectedFault, match=r"gate\.before_commit"):
        admit(store, "e1")
    admit(store, "e2")
    with pytest.raises(failpoints.InjectedFault, match=r"gate\.after_commit"):
        admit(store, "e3")

    assert ["e2", "e3"] == [one.effect_id for one in store.read(lambda books: books.effects_of("i1"))]


def test_pause_holds_until_it_is_released(place: Path, quick: Path, store: SqliteStore) -> None:
    """It tells by one FIFO that it is there, and goes on by another."""
    Desk(store)
    with held_at("gate.before_begin", "store = open_sqlite(path); admit(store, 'e1'); say('on')", place, quick) as held:
        assert None is store.read(lambda books: books.effect("e1"))
        held.release()
        assert "on" == line(held.process)


def test_kill_at_the_third_arrival(place: Path, store: SqliteStore) -> None:
    """A number says at which arrival."""
    Desk(store)
    code = "store = open_sqlite(path)\nfor n in range(9): admit(store, f'e{n}')"
    process = program(code, place, TURNCTL_LEDGER_FAILPOINT="gate.after_commit=kill:3")

    assert -9 == process.wait(20)
    with pytest.raises(AssertionError):
        finish(process)
    assert 3 == len(store.read(lambda books: books.effects_of("i1")))


def test_place_of_another_room_is_reached(place: Path) -> None:
    """The escalation of a command is a place as well, though its room knows nothing of the ledger."""
    code = """
        import turnctl
        import turnctl.ledger.failpoints
        with turnctl.turn() as turn:
            turn.run("trap '' TERM; sleep 60 & wait; wait", shell=True, timeout="50ms")
        """
    process = program(code, place, TURNCTL_LEDGER_FAILPOINT="escalate.after_term=kill")

    assert -9 == process.wait(20)
    with pytest.raises(AssertionError):
        finish(process)


def test_hook_is_given_back() -> None:
    """A place of another room costs nothing once it is not asked for any more."""
    failpoints.arm("escalate.after_term=raise")
    with pytest.raises(failpoints.InjectedFault, match="escalate"):
        points.reach("processes.ladder.asked")
    failpoints.arm("")

    assert None is points.hook


def test_what_is_no_failpoint_is_refused() -> None:
    """A misspelt wish is not passed over: the test would show nothing."""
    with pytest.raises(ValueError, match="neither pause, kill nor raise"):
        failpoints.arm("gate.before_commit=explode")
