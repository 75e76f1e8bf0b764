"""A turn under an authority that outlives it: what it is asked, in which order, and what its word changes (P14)."""

from __future__ import annotations

import threading

import pytest

import turnctl
from turnctl.tokens.entries import new_stop


class Authority:
    """Plays a ledger: notes what it is asked, and does what the test says."""

    durable = False

    def __init__(self, **does: object) -> None:
        self.asked: list[str] = []
        self.does = does
        self.turn: turnctl.Turn | None = None

    def _attach(self, turn: turnctl.Turn) -> Authority:
        self.turn = turn
        return self

    def _say(self, name: str) -> BaseException | None:
        self.asked.append(name)
        act = self.does.get(name)
        return act(self.turn) if callable(act) else None

    def begin(self) -> None:
        self._say("begin")

    def undo(self) -> None:
        self._say("undo")

    def deciding(self) -> None:
        self._say("deciding")

    def decided(self) -> BaseException | None:
        return self._say("decided")

    def leaving(self) -> BaseException | None:
        return self._say("leaving")

    def records(self) -> tuple[()]:
        return ()

    def under(self, turn: turnctl.Turn) -> None:
        return None


def turn_of(authority: Authority) -> turnctl.Turn:
    return turnctl.turn(task=authority)  # type: ignore[arg-type]


def overrule(turn: turnctl.Turn) -> None:
    stop = new_stop("enough", "alice", "operator", "kill", None, turn.turn_id)
    turn.token._overrule("completed", stop)


def test_authority_is_asked_in_order() -> None:
    """Begin before the body, deciding before the token, decided after it, leaving when all has ended."""
    authority = Authority()
    with turn_of(authority):
        authority.asked.append("body")

    assert ["begin", "body", "deciding", "decided", "leaving"] == authority.asked


def test_turn_that_is_refused_has_not_begun() -> None:
    """What the authority raises passes out, and nothing is left of the turn."""

    def refuse(_: object) -> None:
        raise turnctl.LedgerRefused("held")

    authority = Authority(begin=refuse)
    turn = turn_of(authority)
    with pytest.raises(turnctl.LedgerRefused), turn:
        pytest.fail("it ran")

    assert (True, ["begin", "undo"]) == (turn.is_over, authority.asked)


def test_overruled_turn_is_cancelled_in_every_respect() -> None:
    """Outcome, flag, event, level, record, and the tokens below, as if the stop had come first."""
    authority = Authority(decided=overrule)
    with turn_of(authority) as turn:
        child = turn.child()
        event = turn.event
        waiter = threading.Thread(target=event.wait)
        waiter.start()
    waiter.join(5)
    record = turn.report.stop

    assert ("cancelled", True, True, True, "kill") == (
        *(turn.outcome, turn.cancelled, event.is_set(), child.cancelled, turn.token.level),
    )
    assert record is not None
    assert ("operator", "alice", "enough") == (record.cause, record.by, record.reason)
    assert ("already_ended", "cancelled") == (turn.cancel().kind, turn.cancel().outcome)
    assert ["cancelled" in repr(turn.token), False] == [True, waiter.is_alive()]


def test_stop_that_came_first_stays_the_record() -> None:
    """Overruling changes nothing of a turn that was stopped here before."""
    authority = Authority(decided=overrule)
    with turn_of(authority) as turn:
        turn.cancel("mine")
    record = turn.report.stop

    assert record is not None
    assert ("cancelled", "mine") == (turn.outcome, record.reason)


def test_turn_may_be_superseded_by_its_authority() -> None:
    """An authority that has given the work to somebody else says that this outcome does not count."""
    authority = Authority(decided=lambda turn: turn.token._overrule("superseded"))
    with turn_of(authority) as turn:
        pass

    assert ("superseded", False, "refused") == (turn.outcome, turn.event.is_set(), turn.cancel().kind)


@pytest.mark.parametrize("at", ["decided", "leaving"])
def test_trouble_is_raised_when_the_turn_is_over(at: str) -> None:
    """What the authority could not be told passes out, after everything else."""
    trouble = OSError("no space")
    authority = Authority(**{at: lambda _: trouble})
    turn = turn_of(authority)
    with pytest.raises(OSError, match="no space"), turn:
        pass

    assert (True, "completed") == (turn.is_over, turn.outcome)


@pytest.mark.parametrize("task", ["job", object(), 7], ids=["name", "object", "number"])
def test_task_is_what_a_ledger_gave(task: object) -> None:
    """Anything else is refused before a turn is made."""
    with pytest.raises(turnctl.BadArgument, match=r"ledger\.submit"):
        turnctl.turn(task=task)  # type: ignore[arg-type]
