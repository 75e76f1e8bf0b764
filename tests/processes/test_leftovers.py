"""What a command leaves behind when it ends by itself: kept, ended, waited for or handed over, as was asked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap, timed
from standins import BOUND, Background, until
from warding import ends, parent_of

import turnctl
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.processes import CommandTimedOut, Unowned
from turnctl.processes.command import popen, run
from turnctl.testing import pause_at


@pytest.fixture(autouse=True, params=["warden", "group"])
def _custody(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise holds with a warden and without."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")


def test_kept_ones_are_ended_with_the_turn(leak_check: object) -> None:
    """With ``end`` they live until the turn ends, and its report says that the ladder ended them."""
    tag = nap()
    with turnctl.turn() as turn:
        done = turn.run(f"{tag} >/dev/null 2>&1 &", shell=True)

        assert "kept" == done.outcome.leftovers_fate
        assert 1 == len(alive(tag))

    assert [] == alive(tag)
    assert ["ended"] == [process.leftovers_fate for process in turn.report.processes]


def test_end_now_ends_before_the_call_returns(owner: FakeTurn) -> None:
    """With ``end-now`` nothing is left when the call comes back, and who was ended is named."""
    tag = nap()
    done = run(owner, f"echo said; {tag} &", shell=True, leftovers="end-now")

    assert [] == alive(tag)
    assert (b"said\n", 0, "ended") == (done.stdout, done.returncode, done.outcome.leftovers_fate)
    assert ["sleep"] == [left.name for left in done.outcome.leftovers]
    assert not done.outcome.stopped
    assert "completed" == owner.activities[0].record().state


def test_leftovers_are_named_by_who_looks_late(owner: FakeTurn, gate: Gate, wardens: None) -> None:
    """Where this program looks only when the warden has ended them, they are named all the same."""
    tag = nap()
    with pause_at("processes.exit.draining") as pause:
        call = Background(lambda: run(owner, f"{tag} & read x < {gate}; exit 0", shell=True, leftovers="end-now"))
        assert until(lambda: len(alive(tag)) == 2)  # the shell, which spells it, and itself
        found = alive(tag)
        (warden,) = {parent_of(pid) for pid in found} - set(found)
        gate.open()
        assert pause.reached.wait(BOUND)
        assert ends(warden)
        pause.release()
    outcome = call.result().outcome

    assert (["sleep"], "ended") == ([left.name for left in outcome.leftovers], outcome.leftovers_fate)


def test_wait_returns_when_all_have_ended(owner: FakeTurn, gate: Gate) -> None:
    """With ``wait`` the call goes on, output included, until the last of them has ended by itself."""
    call = Background(lambda: run(owner, f"(read x < {gate}; echo late) & echo early", shell=True, leftovers="wait"))

    assert until(
        lambda: owner.activities and owner.activities[0].owned and owner.activities[0].owned.phase == "waiting"
    )
    gate.open()
    done = call.result()

    assert (b"early\nlate\n", 0, "gone") == (done.stdout, done.returncode, done.outcome.leftovers_fate)
    assert () == done.outcome.signals


def test_wait_is_bounded_by_the_timeout(owner: FakeTurn) -> None:
    """When the timeout passes what is waited for gets the ladder, and the result says so."""
    tag = nap()
    with timed() as passed, pytest.raises(CommandTimedOut) as caught:
        run(owner, f"{tag} & true", shell=True, leftovers="wait", timeout=0.6, check=True)

    assert BOUND > passed() >= 0.6
    assert [] == alive(tag)
    assert (0, True, "ended") == (
        caught.value.completed.returncode,
        caught.value.completed.outcome.timed_out,
        caught.value.completed.outcome.leftovers_fate,
    )


def test_wait_is_ended_by_a_stop(owner: FakeTurn) -> None:
    """A stop while the call waits ends what is left and raises there."""
    tag = nap()
    call = Background(lambda: run(owner, f"{tag} & true", shell=True, leftovers="wait"))
    assert until(
        lambda: owner.activities and owner.activities[0].owned and owner.activities[0].owned.phase == "waiting"
    )
    owner.stop()
    error = call.error()

    assert isinstance(error, CancelledError)
    assert [] == alive(tag)
    assert error.partial is not None
    assert (0, False) == (error.partial.returncode, error.partial.outcome.stopped)


def test_handle_waits_for_leftovers_too(owner: FakeTurn, gate: Gate) -> None:
    """The same for a handle: its wait comes back when all have ended."""
    process = popen(owner, f"(read x < {gate}; exit 3) & exit 4", shell=True, leftovers="wait")
    assert until(lambda: process._supervision.phase == "waiting")
    assert 4 == process.returncode
    gate.open()

    assert 4 == process.wait(BOUND)
    assert "gone" == process.outcome().leftovers_fate


def test_detached_ones_are_the_other_turns(leak_check: object) -> None:
    """With ``detach`` the owner that is given ends them and reports them; this turn's report says to whom they went."""
    tag = nap()
    with turnctl.turn(inherit=False) as other:
        with turnctl.turn(inherit=False) as turn:
            done = turn.run(f"{tag} >/dev/null 2>&1 &", shell=True, leftovers="detach", owner=other)
        report = turn.report

        assert ("detached", other.turn_id) == (done.outcome.leftovers_fate, done.outcome.detached_to)
        assert ("completed", "ended", ()) == (report.outcome, report.execution, report.alive)
        assert [("detached", f"to turn {other.turn_id}")] == [(a.state, a.detail) for a in report.activities]
        assert 1 == len(alive(tag))

    assert [] == alive(tag)
    assert ["ended"] == [process.leftovers_fate for process in other.report.processes]
    assert "ended" == other.report.execution


def test_detached_without_a_turn(leak_check: object) -> None:
    """A command that has no turn can leave what it started to one."""
    tag = nap()
    with turnctl.turn() as other:
        done = run(Unowned(), f"{tag} >/dev/null 2>&1 &", shell=True, leftovers="detach", owner=other)

        assert "detached" == done.outcome.leftovers_fate
        assert 1 == len(alive(tag))
    assert [] == alive(tag)


def test_nothing_left_is_nothing_detached(leak_check: object) -> None:
    """A command that leaves nothing is this turn's alone."""
    with turnctl.turn(inherit=False) as other:
        with turnctl.turn(inherit=False) as turn:
            done = turn.run(["true"], leftovers="detach", owner=other)

        assert (None, None) == (done.outcome.leftovers_fate, done.outcome.detached_to)
        assert () == other.report.activities


def test_owner_that_ends_meanwhile_gets_nothing(leak_check: object, gate: Gate) -> None:
    """If the owner has ended when the command ends, they stay with this turn, and a note says why."""
    tag = nap()
    with turnctl.turn(inherit=False) as turn:
        other = turnctl.turn(inherit=False)
        other.begin()
        call = Background(
            lambda: turn.run(f"{tag} >/dev/null 2>&1 & read x < {gate}", shell=True, leftovers="detach", owner=other)
        )
        assert until(lambda: len(alive(tag)) == 2)
        other.end()
        gate.open()
        done = call.result()

        assert ("kept", None) == (done.outcome.leftovers_fate, done.outcome.detached_to)
        assert any(f"turn {other.turn_id} is over" in note for note in done.outcome.notes), done.outcome.notes
    assert [] == alive(tag)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"leftovers": "keep"}, BadArgument, "unknown leftovers 'keep'; use end, end-now, wait or detach"),
        ({"leftovers": "detach"}, BadArgument, 'leftovers="detach" needs owner='),
        ({"leftovers": "detach", "owner": "chat-7"}, BadArgument, "an owner outside this program needs a ledger"),
        ({"leftovers": "detach", "owner": 7}, BadArgument, "owner is 7; give the running turn"),
        ({"owner": "chat-7"}, BadArgument, 'owner= is for leftovers="detach" alone'),
    ],
)
def test_wrong_policy_is_refused(owner: FakeTurn, options: dict[str, Any], kind: type[Exception], words: str) -> None:
    """What cannot be done is said before anything is started."""
    tag = nap()
    with pytest.raises(kind, match=re.escape(words)):
        run(owner, tag, shell=True, **options)

    assert [] == owner.activities
    assert [] == alive(tag)


def test_owner_that_is_over_is_refused(leak_check: object) -> None:
    """Neither a turn that has ended nor the turn itself can be the owner."""
    with turnctl.turn(inherit=False) as over:
        pass
    with turnctl.turn(inherit=False) as turn:
        with pytest.raises(TurnOver, match="cannot own anything more"):
            turn.run(["true"], leftovers="detach", owner=over)
        with pytest.raises(BadArgument, match="whose it is already"):
            turn.run(["true"], leftovers="detach", owner=turn)


def test_killed_waiter_leaves_nothing(owner: FakeTurn) -> None:
    """A leftover that is deaf is killed when the waiting call is stopped without grace."""
    tag = nap()
    process = popen(owner, f"trap '' TERM; {tag} & exit 0", shell=True, leftovers="wait", capture=False)
    assert until(lambda: process._supervision.phase == "waiting")
    process.kill()
    process.wait(BOUND)

    assert [] == alive(tag)
    assert "SIGKILL" in [sent.signal for sent in process.outcome().signals]
