"""Handing over to another turn: who ends it, what each report says, and what a stop in between does."""

from __future__ import annotations

import re
import threading

import pytest
from commands import FakeTurn, alive, nap
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.processes import Process
from turnctl.processes.command import popen
from turnctl.testing import pause_at


@pytest.fixture(autouse=True, params=["warden", "group"])
def _custody(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise holds with a warden and without."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")


def begun() -> turnctl.Turn:
    turn = turnctl.turn(inherit=False, grace="1s")
    turn.begin()
    return turn


def test_running_command_is_the_owners(leak_check: object) -> None:
    """It outlives the turn that gave it away, and ends with the one that took it."""
    tag = nap()
    other = begun()
    with turnctl.turn(inherit=False) as turn:
        process = turn.popen(tag.split())
        turn.detach(process, owner=other)
    report = turn.report

    assert 1 == len(alive(tag))
    assert [("detached", f"to turn {other.turn_id}")] == [(a.state, a.detail) for a in report.activities]
    assert [(other.turn_id, process.pid)] == [(p.detached_to, p.pid) for p in report.processes]
    assert ("ended", ()) == (report.execution, report.alive)

    other.end()

    assert [] == alive(tag)
    assert [(process.pid, True, None)] == [(p.pid, p.stopped, p.detached_to) for p in other.report.processes]


def test_stop_of_the_old_turn_no_longer_reaches_it(leak_check: object) -> None:
    """After the hand-over a stop of the old turn ends nothing of it, and a stop of the new one does."""
    tag = nap()
    turn, other = begun(), begun()
    process = turn.popen(tag.split())
    turn.detach(process, owner=other)
    turn.stop()
    turn.end()

    assert 1 == len(alive(tag))

    other.stop()

    assert until(lambda: not alive(tag))
    with pytest.raises(CancelledError) as caught:
        process.wait(BOUND)
    assert caught.value.token is other.token
    other.end()


def test_leftovers_of_a_run_can_be_handed_over(leak_check: object) -> None:
    """What ``run`` left can be given away by its result, and only once."""
    tag = nap()
    turn, other = begun(), begun()
    done = turn.run(f"{tag} >/dev/null 2>&1 &", shell=True)
    turn.detach(done, owner=other)
    with pytest.raises(BadArgument, match="has left nothing behind that is still this turn's"):
        turn.detach(done, owner=other)
    turn.end()

    assert 1 == len(alive(tag))
    assert ["detached"] == [p.leftovers_fate for p in turn.report.processes]

    other.end()

    assert [] == alive(tag)
    assert ["ended"] == [p.leftovers_fate for p in other.report.processes]


def test_deadline_of_the_old_turn_does_not_follow(leak_check: object) -> None:
    """The warden, which knows the deadline of the turn that gave it away, does not act on it any more."""
    tag = nap()
    turn, other = turnctl.turn(inherit=False, timeout=1), begun()
    with turn:
        turn.detach(turn.popen(tag.split()), owner=other)

    assert not until(lambda: not alive(tag), within=1.3)

    other.end()

    assert [] == alive(tag)


def test_handed_on_twice(leak_check: object) -> None:
    """A turn that was given something can give it on."""
    tag = nap()
    first, second, third = begun(), begun(), begun()
    process = first.popen(tag.split())
    first.detach(process, owner=second)
    second.detach(process, owner=third)
    first.end()
    second.end()

    assert 1 == len(alive(tag))

    third.end()

    assert [] == alive(tag)


def test_lines_go_on_after_the_hand_over(leak_check: object) -> None:
    """The handle stays what it was: its lines come also when the old turn is over."""
    turn, other = begun(), begun()
    process = turn.popen("read x; echo $x", shell=True, stdin="pipe", text=True)
    turn.detach(process, owner=other)
    turn.stop()
    turn.end()
    process.write("after\n")

    assert ["after\n"] == list(process)
    assert 0 == process.wait(BOUND)
    other.end()


def test_activity_ends_where_it_has_gone(leak_check: object) -> None:
    """An activity that is handed over is closed in the new owner's report by the code that does it."""
    turn, other = begun(), begun()
    with turn.activity("upload", "photos") as upload:
        turn.detach(upload, owner=other)
        turn.end()

    assert [("detached", f"to turn {other.turn_id}")] == [(a.state, a.detail) for a in turn.report.activities]
    assert [("photos", "completed")] == [(a.name, a.state) for a in other.report.activities]
    other.end()


# -- what comes in between ---------------------------------------------------------------------------------------------


def handing(turn: turnctl.Turn, process: Process, other: turnctl.Turn) -> Background:
    return Background(lambda: turn.detach(process, owner=other))


@pytest.mark.parametrize("point", ["processes.move.deciding", "processes.move.stored"])
@pytest.mark.parametrize("how", ["stop", "end"])
def test_old_turn_stopped_meanwhile(leak_check: object, point: str, how: str) -> None:
    """A stop, or the end, of the old turn before the decision has it refused: it stays there and is ended there."""
    tag = nap()
    turn, other = begun(), begun()
    process = turn.popen(tag.split())
    with pause_at(point) as pause:
        call = handing(turn, process, other)
        assert pause.reached.wait(BOUND)
        ending = Background(turn.end) if how == "end" else None
        if how == "stop":
            turn.stop()
        assert until(turn.stop_wanted)
    error = call.error()

    assert isinstance(error, TurnOver)
    assert "it is being ended; it stays with turn" in str(error)
    if ending is not None:
        ending.result()
    turn.end()
    assert [] == alive(tag)
    assert ["cancelled"] == [a.state for a in turn.report.activities]
    assert [("cancelled", True)] == [(a.state, "was not handed over" in str(a.detail)) for a in other.report.activities]
    assert () == other.report.processes
    other.end()


@pytest.mark.parametrize("point", ["processes.move.deciding", "processes.move.stored"])
@pytest.mark.parametrize("how", ["stop", "end"])
def test_new_owner_ended_meanwhile(leak_check: object, point: str, how: str) -> None:
    """If the new owner is stopped or ends before the decision, the command stays, and lives on, with the old turn."""
    tag = nap()
    turn, other = begun(), begun()
    process = turn.popen(tag.split())
    with pause_at(point) as pause:
        call = handing(turn, process, other)
        assert pause.reached.wait(BOUND)
        ending = Background(other.end) if how == "end" else None
        if how == "stop":
            other.stop()
        assert until(other.stop_wanted)
    error = call.error()

    assert isinstance(error, TurnOver)
    assert f"turn {other.turn_id} is being stopped or has ended" in str(error)
    if ending is not None:
        ending.result()
    other.end()
    assert 1 == len(alive(tag))
    assert ["open"] == [a.state for a in turn.report.activities]
    turn.end()
    assert [] == alive(tag)


def test_new_owner_stopped_right_after(leak_check: object) -> None:
    """A stop of the new owner that comes after the decision ends it, also what nobody drives."""
    tag = nap()
    turn, other = begun(), begun()
    done = turn.run(f"{tag} >/dev/null 2>&1 &", shell=True)
    turn.detach(done, owner=other)
    other.stop()

    assert until(lambda: not alive(tag))
    turn.end()
    other.end()


def test_command_that_ends_meanwhile(leak_check: object) -> None:
    """A command that has ended before the decision is not handed over, and its end is in the old report."""
    turn, other = begun(), begun()
    process = turn.popen("read x", shell=True, stdin="pipe")
    with pause_at("processes.run.over") as pause:
        process.write(b"go\n")
        assert pause.reached.wait(BOUND)
        call = handing(turn, process, other)
    error = call.error()

    assert isinstance(error, (TurnOver, BadArgument))
    assert "ended" in str(error)
    turn.end()
    assert ["completed"] == [a.state for a in turn.report.activities]
    other.end()


def test_two_owners_at_once(leak_check: object) -> None:
    """Of two threads that give the same command away one succeeds, and one turn alone owns it afterwards."""
    tag = nap()
    turn, one, two = begun(), begun(), begun()
    process = turn.popen(tag.split())
    barrier = threading.Barrier(2)

    def give(to: turnctl.Turn) -> None:
        barrier.wait()
        turn.detach(process, owner=to)

    calls = [Background(lambda to=to: give(to)) for to in (one, two)]  # type: ignore[misc]
    errors = [error for call in calls if (error := call.error()) is not None]
    turn.end()

    assert 1 >= len(errors)
    assert 1 == len(alive(tag))
    one.end()
    two.end()
    assert [] == alive(tag)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_refusals_say_what_to_do(leak_check: object, owner: FakeTurn) -> None:
    """Without a running turn as owner, or for what is not this turn's, nothing is moved."""
    turn, other = begun(), begun()
    process = turn.popen(["sleep", "60"])
    over = begun()
    over.end()
    foreign = popen(owner, ["sleep", "60"])
    thread = turn.thread(other.wait_cancelled)
    for what, to, words in (
        (process, None, "detach() needs owner="),
        (process, "worker-2", "needs a ledger"),
        (process, 5, "owner is 5"),
        (process, turn, "whose it is already"),
        (foreign, other, "belongs to turn fake, not to turn"),
        (thread, other, "cannot be detached: it obeys the token of the turn"),
        ("make", other, "a str cannot be detached"),
    ):
        with pytest.raises(BadArgument, match=re.escape(words)):
            turn.detach(what, owner=to)  # type: ignore[arg-type]
    with pytest.raises(TurnOver, match="cannot own anything more"):
        turn.detach(process, owner=over)
    process.stop(grace=0)
    with pytest.raises(BadArgument, match="has ended, so there is nothing to detach"):
        turn.detach(process, owner=other)
    foreign.stop(grace=0)
    other.stop()
    turn.end()
    other.end()
