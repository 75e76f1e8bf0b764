"""Detaching is no loophole: another owner, a contract, before any cancellation, and on record (R47)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from commands import nap
from standins import until

import turnctl
from turnctl.errors import BadArgument, LedgerRefused, TurnOver
from turnctl.testing import call_at


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that turnctl did not start."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch, ledger: turnctl.Ledger) -> None:
    """Turns hear no bell of the store."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)


def test_adopted_process_goes_to_an_owner_outside(ledger: turnctl.Ledger, stranger: subprocess.Popen[bytes]) -> None:
    """It runs on, the report lists it with its owner and contract, and the task settles without it."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        adopted = turn.adopt(stranger)
        turn.detach(adopted, owner="nightly", contract="runs until noon")
        ledger.cancel(task, by="alice")
    report = ledger.report(task)
    (gone,), (row,) = report.detached, report.activities

    assert (None, "cancelled_settled") == (stranger.poll(), task.state)
    assert (row.ref, "nightly", "runs until noon", None) == (gone.ref, gone.owner, gone.contract, gone.came_back)
    assert (True, "detached to nightly") == (row.stopped, row.detail)
    assert f"{gone.ref} went to nightly" in str(report)
    assert "nightly" == report.as_dict()["detached"][0]["owner"]
    assert "to nightly" == turn.report.activities[0].detail


def test_activity_goes_to_an_owner_outside(ledger: turnctl.Ledger) -> None:
    """The account of work that somebody else ends now."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.activity("upload", "it") as upload:
        turn.detach(upload, owner="uploader", contract="resumes it")

    assert ["uploader"] == [one.owner for one in ledger.report(task).detached]
    assert "detached" == turn.report.activities[0].state


def test_child_task_goes_to_an_owner_outside(ledger: turnctl.Ledger) -> None:
    """A task that was submitted below runs on when its parent is cancelled."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        child = ledger.submit("acme", "part", parent=turn)
        turn.detach(child, owner="nightly", contract="runs until it is done")
        ledger.cancel(task, by="alice")
    report = ledger.report(task)

    assert ("cancelled_settled", "running") == (task.state, child.state)
    assert [(child.inc, "nightly")] == [(one.ref, one.owner) for one in report.detached]
    ledger.cancel(child, by="alice")


def test_command_goes_to_the_turn_of_another_task(ledger: turnctl.Ledger) -> None:
    """It has a row with each of them; the new owner's cancellation ends it."""
    task, other = ledger.submit("acme", "job"), ledger.submit("acme", "other")
    with turnctl.turn(task=other, grace=0.3, inherit=False) as heir:
        with turnctl.turn(task=task, inherit=False) as turn:
            process = turn.popen(["sleep", "60"])
            turn.detach(process, owner=heir)
            runs_on = process.poll() is None
        assert until(lambda: ledger.report(other).activities[0].process.pid == process.pid)
        ledger.cancel(other, by="alice")
        heir.sleep(60)
    (mine,), (theirs,) = ledger.report(task).activities, ledger.report(other).activities

    assert (True, "completed", other.inc) == (runs_on, task.state, ledger.report(task).detached[0].owner)
    assert ("SIGTERM", True, "cancelled_settled") == (theirs.signal, theirs.stopped, other.state)
    assert (mine.process, None) == (theirs.process, mine.signal)


def test_leftovers_go_through_the_ledger(ledger: turnctl.Ledger) -> None:
    """What a command leaves for another owner is on record as well."""
    task, tag = ledger.submit("acme", "job"), nap().split()[1]
    with turnctl.turn(grace=0.3, inherit=False) as heir:
        with turnctl.turn(task=task, inherit=False) as turn:
            turn.run(["sh", "-c", f"sleep {tag} >/dev/null 2>&1 &"], leftovers="detach", owner=heir)
    report = ledger.report(task)

    assert [f"turn {heir.turn_id}"] == [one.owner for one in report.detached]
    assert ("completed", f"ends with turn {heir.turn_id}") == (task.state, report.detached[0].contract)


@pytest.mark.parametrize("owner", ["task_id", "inc"])
def test_task_itself_is_no_other_owner(ledger: turnctl.Ledger, owner: str) -> None:
    """Without a different owner it is refused, and stays."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.activity("upload", "it") as upload:
        with pytest.raises(LedgerRefused) as caught:
            turn.detach(upload, owner=getattr(task, owner), contract="mine")
        still = upload.is_open

    assert ("same_owner", True, ()) == (caught.value.code, still, ledger.report(task).detached)


def test_cancelled_task_lets_nothing_go(ledger: turnctl.Ledger, deaf: None, stranger: subprocess.Popen[bytes]) -> None:
    """After the acceptance, also an unheard one, nothing escapes: the caller sees the stop, the process is ended."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, grace=0.3) as turn:
        adopted = turn.adopt(stranger)
        ledger.cancel(task, by="alice")
        turn.detach(adopted, owner="nightly", contract="runs on")

    assert ("cancelled", -15, ()) == (turn.outcome, stranger.wait(), ledger.report(task).detached)


def test_leftovers_of_a_cancelled_task_stay(ledger: turnctl.Ledger, deaf: None) -> None:
    """The gate refuses what a command would leave for another owner, and it is ended with the turn."""
    task, tag = ledger.submit("acme", "job"), nap().split()[1]
    with turnctl.turn(grace=0.3, inherit=False) as heir:
        with turnctl.turn(task=task, grace=0.3, inherit=False) as turn:
            with call_at("processes.exit.draining", lambda: ledger.cancel(task, by="alice")):
                turn.run(["sh", "-c", f"sleep {tag} >/dev/null 2>&1 &"], leftovers="detach", owner=heir)

    assert ("cancelled", (), ()) == (turn.outcome, ledger.report(task).detached, heir.report.activities)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"owner": "nightly"}, "contract="),
        ({"owner": "", "contract": "x"}, "non-empty"),
        ({"owner": "nightly", "contract": ""}, "contract is a text"),
        ({"owner": None}, "owner="),
    ],
    ids=["no contract", "no owner", "empty contract", "none"],
)
def test_unclear_owner_is_refused(ledger: turnctl.Ledger, how: dict[str, object], words: str) -> None:
    """Who has it, and under what, is said before anything is let go of."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.activity("upload", "it") as upload:
        with pytest.raises(BadArgument, match=words):
            turn.detach(upload, **how)  # type: ignore[arg-type]

    assert () == ledger.report(task).detached


def test_command_of_ours_needs_an_owner_here(ledger: turnctl.Ledger) -> None:
    """What a warden ends with this program cannot be promised to an owner outside."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, grace=0.3) as turn:
        process = turn.popen(["sleep", "60"])
        with pytest.raises(BadArgument, match="ends with this program"):
            turn.detach(process, owner="nightly", contract="x")

    assert () == ledger.report(task).detached


def test_task_of_somebody_else_is_refused(ledger: turnctl.Ledger) -> None:
    """Only a child of the turn's own task can be let go of."""
    task, other = ledger.submit("acme", "job"), ledger.submit("acme", "other")
    with turnctl.turn(task=task) as turn, pytest.raises(LedgerRefused) as caught:
        turn.detach(other, owner="nightly", contract="x")
    with turnctl.turn() as plain, pytest.raises(BadArgument):
        plain.detach(other, owner="nightly", contract="x")

    assert "no_such_task" == caught.value.code


def test_what_was_not_taken_comes_back(ledger: turnctl.Ledger, stranger: subprocess.Popen[bytes]) -> None:
    """Where the other owner is stopped in between it stays, the log says why, and its stop ends it."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(inherit=False) as heir, turnctl.turn(task=task, grace=0.3, inherit=False) as turn:
        adopted = turn.adopt(stranger)
        with call_at("processes.move.stored", heir.stop), pytest.raises(TurnOver):
            turn.detach(adopted, owner=heir)
        report = ledger.report(task)
    (gone,), (row,) = report.detached, report.activities

    assert (True, "is being stopped" in (gone.came_back or "")) == (row.may_act, True)
    assert (-15, "completed", True) == (stranger.wait(), task.state, ledger.report(task).activities[0].stopped)
    assert "went to" not in str(ledger.report(task))


def test_owner_outside_needs_a_ledger() -> None:
    """Without one it is refused unless the owner is another live turn."""
    with turnctl.turn() as turn, turn.activity("upload", "it") as upload, pytest.raises(BadArgument, match="ledger"):
        turn.detach(upload, owner="nightly", contract="x")
