"""What leaves the body decides; then everything that is left is ended, named and accounted for, in one order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from standins import BOUND, Background, Thing, own, until

import turnctl
from turnctl import CancelledError, StopAnswer, TurnOver, points
from turnctl.testing import call_at, pause_at

# -- what leaves the body -----------------------------------------------------------------------------------------


def own_error(turn: turnctl.Turn) -> CancelledError:
    try:
        turn.check()
    except CancelledError as error:
        return error
    raise AssertionError


def other_error(turn: turnctl.Turn) -> CancelledError:
    with turnctl.turn(inherit=False) as other:
        other.stop()
        return own_error(other)
    raise AssertionError


Make = Callable[[turnctl.Turn], BaseException | None]
ROWS: list[tuple[str, Make, bool, str, str | None]] = [
    # what leaves, how it is made, whether the turn was stopped before, outcome, what passes out
    ("nothing", lambda t: None, False, "completed", None),
    ("nothing, stopped", lambda t: None, True, "cancelled", None),
    ("own stop", own_error, True, "cancelled", None),
    ("own stop of a child", lambda t: own_error(t.child()), True, "cancelled", None),  # type: ignore[arg-type]
    ("another turn's stop", other_error, False, "failed", "CancelledError"),
    ("another turn's stop, stopped", other_error, True, "cancelled", "CancelledError"),
    ("error", lambda t: ZeroDivisionError("x"), False, "failed", "ZeroDivisionError"),
    ("error, stopped", lambda t: ZeroDivisionError("x"), True, "cancelled", "ZeroDivisionError"),
    ("asyncio's stop", lambda t: asyncio.CancelledError(), False, "failed", "CancelledError"),
    ("asyncio's stop, stopped", lambda t: asyncio.CancelledError(), True, "cancelled", "CancelledError"),
    ("interrupt", lambda t: KeyboardInterrupt(), False, "cancelled", "KeyboardInterrupt"),
    ("interrupt, stopped", lambda t: KeyboardInterrupt(), True, "cancelled", "KeyboardInterrupt"),
    ("exit", lambda t: SystemExit(), False, "completed", "SystemExit"),
    ("exit 0", lambda t: SystemExit(0), False, "completed", "SystemExit"),
    ("exit 1", lambda t: SystemExit(1), False, "failed", "SystemExit"),
    ("exit with a text", lambda t: SystemExit("bye"), False, "failed", "SystemExit"),
    ("exit 0, stopped", lambda t: SystemExit(0), True, "cancelled", "SystemExit"),
    ("exit 1, stopped", lambda t: SystemExit(1), True, "cancelled", "SystemExit"),
    ("generator's end", lambda t: GeneratorExit(), False, "cancelled", "GeneratorExit"),
    ("group of own", lambda t: group(own_error(t), own_error(t)), True, "cancelled", None),
    ("groups of own", lambda t: group(own_error(t), group(own_error(t))), True, "cancelled", None),
    ("mixed group", lambda t: group(own_error(t), OSError("x")), True, "cancelled", "ExceptionGroup"),
    ("group of others, stopped", lambda t: group(other_error(t)), True, "cancelled", "BaseExceptionGroup"),
    ("group of others", lambda t: group(other_error(t), OSError("x")), False, "failed", "BaseExceptionGroup"),
    ("group of errors", lambda t: group(OSError("x")), False, "failed", "ExceptionGroup"),
]


def group(*errors: BaseException) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup("several", errors)


@pytest.mark.parametrize(("what", "make", "stop", "outcome", "passes"), ROWS, ids=[row[0] for row in ROWS])
def test_what_leaves_the_body_decides(what: str, make: Make, stop: bool, outcome: str, passes: str | None) -> None:
    """Each row of the table: what passes out, and the outcome."""
    passed: BaseException | None = None
    turn = turnctl.turn()
    try:
        with turn:
            if stop:
                turn.stop("enough")
            error = make(turn)
            if error is not None:
                raise error
    except BaseException as caught:
        passed = caught

    assert outcome == turn.outcome
    assert passes == (None if passed is None else type(passed).__name__)
    assert turn.is_over
    assert (outcome == "cancelled") is turn.cancelled
    turn.report.validate()


@pytest.mark.parametrize(
    ("error", "cause"), [(KeyboardInterrupt, "signal"), (GeneratorExit, "closed")], ids=["interrupt", "close"]
)
def test_some_exceptions_are_stops(error: type[BaseException], cause: str) -> None:
    """An interrupt by the host and the close of a generator are on record as what stopped the turn."""
    with pytest.raises(error), turnctl.turn() as turn:
        raise error

    assert ("cancelled", cause) == (turn.outcome, turn.cause)
    assert turn.event.is_set()
    assert turn.report.stop is not None


def test_interrupt_of_a_stopped_turn_keeps_the_first_cause() -> None:
    """The record is the stop that was accepted first."""
    with pytest.raises(KeyboardInterrupt), turnctl.turn() as turn:
        turn.stop("mine")
        raise KeyboardInterrupt

    assert ("user", "mine") == (turn.cause, turn.token.reason)


def test_error_while_stopping_is_noted() -> None:
    """An error that a stop provoked passes out and stands in the report."""
    with pytest.raises(OSError, match="socket closed"), turnctl.turn() as turn:
        turn.stop()
        raise OSError("socket closed")

    assert ("raised while stopping: OSError: socket closed",) == turn.report.notes
    with pytest.raises(ZeroDivisionError), turnctl.turn() as clean:
        raise ZeroDivisionError
    assert () == clean.report.notes


def test_rest_of_a_mixed_group_passes_without_the_stop() -> None:
    """Only the turn's own stops are taken out of the group."""
    with pytest.raises(ExceptionGroup) as raised, turnctl.turn() as turn:
        turn.stop()
        raise BaseExceptionGroup("several", [own_error(turn), OSError("a"), group(own_error(turn), ValueError("b"))])
    found = raised.value.exceptions

    assert "several" == raised.value.message
    assert [OSError, ExceptionGroup] == [type(e) for e in found]
    assert "cancelled" == turn.outcome


def test_nested_turns_error_is_not_the_outers_own() -> None:
    """An inner turn's stop that leaves the outer body is another turn's: the outer failed."""
    with pytest.raises(CancelledError), turnctl.turn() as outer:
        with turnctl.turn() as inner:
            inner.stop()
            error = own_error(inner)
        raise error

    assert "failed" == outer.outcome


def test_parents_error_passes_through_a_nested_turn() -> None:
    """The parent's own error goes out of the child's ``with`` and ends at the parent's."""
    with turnctl.turn() as outer:
        with turnctl.turn() as inner:
            outer.stop()
            outer.check()

    assert ("cancelled", "cancelled") == (outer.outcome, inner.outcome)


def test_error_of_an_earlier_turn_is_not_absorbed() -> None:
    """An exception kept from a turn that has ended is no stop of this one."""
    with turnctl.turn() as first:
        first.stop()
        error = own_error(first)
    with pytest.raises(CancelledError), turnctl.turn() as second:
        raise error

    assert "failed" == second.outcome


def test_stop_after_the_end_of_the_body_is_too_late() -> None:
    """The first terminal transition wins: held before its decision the turn can be stopped, after it not."""
    for point, kind, outcome in (
        ("turn.end.deciding", "accepted", "cancelled"),
        ("turn.end.decided", "already_ended", "completed"),
    ):
        answers: list[object] = []
        turn = turnctl.turn()
        with call_at(point, lambda turn=turn, answers=answers: answers.append(turn.stop())), turn:  # type: ignore[misc]
            pass

        assert isinstance(answers[0], StopAnswer)
        assert (kind, outcome) == (answers[0].kind, turn.outcome)
        assert (outcome == "cancelled") is turn.event.is_set()


# -- the order of the end -----------------------------------------------------------------------------------------


def test_end_goes_in_its_order() -> None:
    """Decided and closed first, then asked and ended, then the bridge, then the session, then over."""
    seen: dict[str, tuple[object, ...]] = {}
    turn = turnctl.turn("slot")

    class Watched(Thing):
        def ask(self) -> None:
            seen["ask"] = (turn.outcome, turn.activities.is_closed, turn.is_over)

        def end(self, kill_at: Callable[[], float]) -> None:
            seen["end"] = (turn.outcome, turnctl.session("slot").turn is turn, len(bridges()))
            self.ended.set()

    def bridges() -> list[threading.Thread]:
        return [t for t in threading.enumerate() if turn.turn_id in t.name]

    with call_at("turn.end.leaving", lambda: seen.update(leaving=(turn.is_over, len(bridges())))), turn:
        turn.on_cancel(print)
        turn.admit(Watched())

    assert ("completed", True, False) == seen["ask"]
    assert ("completed", True, 1) == seen["end"]
    assert (False, 0) == seen["leaving"]
    assert turn.is_over
    assert turnctl.session("slot").turn is None


def test_everything_is_asked_before_anything_is_waited_for() -> None:
    """A thing that takes its time does not make the others wait for their asking."""
    first, second = Thing("first", ends="killed"), Thing("second")
    asked: list[list[str]] = []

    class Looks(Thing):
        def end(self, kill_at: Callable[[], float]) -> None:
            asked.append([*first.log, *second.log])
            super().end(kill_at)

    with turnctl.turn(grace=0) as turn:
        own(turn, Looks("looks"))
        own(turn, first)
        own(turn, second)

    assert [["asked", "asked"]] == asked
    assert ["asked", "killed"] == first.log


def test_what_ends_when_asked_is_not_killed() -> None:
    """The grace is not waited out."""
    thing = Thing()
    begun = time.monotonic()
    with turnctl.turn(grace="30s") as turn:
        own(turn, thing)
    took = time.monotonic() - begun

    assert ["asked"] == thing.log
    assert took < 5
    assert [("thing", "it", "cancelled", "ended with the turn")] == [
        (a.kind, a.name, a.state, a.detail) for a in turn.report.activities
    ]


def test_what_ignores_the_asking_is_killed_after_the_grace() -> None:
    """Not before it, and soon after."""
    thing = Thing(ends="killed")
    begun = time.monotonic()
    with turnctl.turn(grace="100ms") as turn:
        own(turn, thing)
    took = time.monotonic() - begun

    assert ["asked", "killed"] == thing.log
    assert 0.1 <= took < 2
    assert "ended" == turn.report.execution


def test_grace_of_nothing_kills_at_once() -> None:
    """``grace=0`` spends no time on asking."""
    thing = Thing(ends="killed")
    with turnctl.turn(grace=0) as turn:
        own(turn, thing)

    assert "killed" in thing.log
    assert thing.kill_times[0] <= time.monotonic()


def test_grace_of_a_stop_counts_from_the_stop() -> None:
    """A body that takes its time to end has used up that part of the grace."""
    thing = Thing(ends="killed")
    with turnctl.turn(grace="10s") as turn:
        own(turn, thing)
        turn.stop(grace="50ms")
        record = turn.token.record
        assert until(lambda: turn.kill_at() is not None and turn.kill_at() <= time.monotonic())  # type: ignore[operator]

    assert record is not None
    assert {record.at + 0.05} == set(thing.kill_times)


@pytest.mark.parametrize("late", [{"kill": True}, {"grace": 0}, {"grace": "10ms"}])
def test_late_stop_is_told_and_shortens_the_rest(late: dict[str, object]) -> None:
    """While the turn is finishing a stop is answered ``already_ended``, and still spends less grace."""
    thing = Thing(ends="killed")
    answers: list[object] = []

    def press() -> None:
        assert thing.in_end.wait(BOUND)
        answers.append(turn.stop(**late))  # type: ignore[arg-type]

    begun = time.monotonic()
    with turnctl.turn("slot", grace="20s") as turn:
        own(turn, thing)
        presser = Background(press)
    took = time.monotonic() - begun
    presser.result()

    assert isinstance(answers[0], StopAnswer)
    assert ("already_ended", "completed") == (answers[0].kind, answers[0].outcome)
    assert took < 5
    assert ("completed", False) == (turn.outcome, turn.event.is_set())
    assert turn.report.stop is None


@pytest.mark.parametrize("stopped_before", [False, True])
@pytest.mark.parametrize("late", [{"kill": True}, {"grace": 0}, {"grace": "10ms"}])
def test_late_stop_of_a_turn_around_it_shortens_the_rest(late: dict[str, object], stopped_before: bool) -> None:
    """A turn that ends is not reached by its token any more, and its outer one may be waiting for it: it hears all the
    same, also through a token in between and over several turns; what was decided stays."""
    thing = Thing(ends="killed")

    def press() -> None:
        assert thing.in_end.wait(BOUND)
        outer.stop(**late)  # type: ignore[arg-type]

    with turnctl.turn(grace="20s") as outer:
        with outer.child() as between, turnctl.turn(grace="20s"):
            begun = time.monotonic()
            with turnctl.turn(grace="20s") as turn:
                own(turn, thing)
                presser = Background(press)
                if stopped_before:
                    outer.cancel("enough")
            took = time.monotonic() - begun
            presser.result()
        assert between.cancelled

    assert took < 5
    assert ("cancelled" if stopped_before else "completed") == turn.outcome
    assert "cancelled" == outer.outcome


def test_plain_stop_of_a_turn_around_it_shortens_nothing() -> None:
    """A turn that ends by itself has its own grace, whatever is asked of the one around it; nothing is left hung up."""
    thing = Thing()

    with turnctl.turn(grace=0) as outer:
        hung_up = len(outer.token._grow().bells)
        with turnctl.turn(grace="20s") as turn:
            own(turn, thing)
            outer.cancel("enough")
            turn_at = turn.kill_at()
        assert hung_up == len(outer.token._grow().bells)

    assert turn_at is not None
    assert turn_at > time.monotonic() + 5
    assert all(at > time.monotonic() + 5 for at in thing.kill_times)


def test_state_while_finishing_is_finishing() -> None:
    """Decided, things of the turn still being ended: that word, and the things are named."""
    thing = Thing("slow", ends="killed")
    reports: list[turnctl.TurnReport] = []

    def look() -> None:
        assert thing.in_end.wait(BOUND)
        reports.append(turn.report)
        turn.stop(kill=True)

    with turnctl.turn(grace="20s") as turn:
        own(turn, thing)
        looker = Background(look)
    looker.result()

    assert ("finishing", "stopping", "completed") == (reports[0].state, reports[0].execution, reports[0].outcome)
    assert ("thing slow",) == reports[0].alive
    assert "completed" == turn.report.state


def test_what_will_not_end_is_named_and_not_claimed() -> None:
    """A thing that cannot be ended keeps the turn not proven: named, once, without a thread that tries for ever."""
    thing = Thing("stuck", ends="never")
    before = threading.active_count()
    with turnctl.turn(grace="20ms") as turn:
        own(turn, thing)
        turn.stop()
    report = turn.report

    assert turn.is_over
    assert ("unproven", "draining", "cancelled") == (report.execution, report.state, report.outcome)
    assert ("thing stuck",) == report.alive
    assert ["abandoned"] == [a.state for a in report.activities]
    assert "still alive: thing stuck" in str(report)
    assert str(report).startswith("draining, asked to stop by the user")
    assert before == threading.active_count()
    report.validate()


def test_completed_turn_with_something_left_does_not_say_so() -> None:
    """The outcome stands, but no word claims an end."""
    thing = Thing("stuck", ends="never")
    with turnctl.turn(grace=0) as turn:
        own(turn, thing)

    assert ("completed", "unproven", "finishing") == (
        turn.outcome, turn.report.execution, turn.report.state,
    )  # fmt: skip
    assert "finishing: still alive: thing stuck" == str(turn.report)


def test_open_activity_of_the_body_is_closed_as_unknown() -> None:
    """What nobody reported the end of is not called ended or failed, and it has a time."""
    with turnctl.turn() as turn:
        turn.activities.admit("ask", "permission")
    (activity,) = turn.report.activities

    assert ("unknown", True) == (activity.state, activity.ended_at is not None)
    assert () == turn.report.open_activities


def test_interrupt_during_the_end_spends_the_grace() -> None:
    """A second Ctrl-C while the turn ends: everything is still ended, then the interrupt is raised."""

    class Struck(Thing):
        struck = False

        def end(self, kill_at: Callable[[], float]) -> None:
            if not self.struck:
                self.struck = True
                raise KeyboardInterrupt
            super().end(kill_at)

    things = [Struck("struck", ends="killed"), Thing("other", ends="killed")]
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), turnctl.turn("slot", grace="30s") as turn:
        for thing in things:
            own(turn, thing)
    took = time.monotonic() - begun

    assert took < 5
    assert all(thing.ended.is_set() for thing in things)
    assert turn.is_over
    assert ("completed", "ended") == (turn.outcome, turn.report.execution)
    assert turnctl.session("slot").turn is None


def test_interrupt_that_goes_on_does_not_keep_the_turn() -> None:
    """A thing whose ending always raises is given up after some tries, and the turn is over."""

    class Breaks(Thing):
        tries = 0

        def end(self, kill_at: Callable[[], float]) -> None:
            self.tries += 1
            raise KeyboardInterrupt

    thing, other = Breaks(ends="never"), Thing("other")
    with pytest.raises(KeyboardInterrupt), turnctl.turn(grace=0) as turn:
        own(turn, thing)
        own(turn, other)

    assert 1 < thing.tries < 10
    assert other.ended.is_set()
    assert (True, "unproven") == (turn.is_over, turn.report.execution)


def test_end_from_two_threads_is_one_end() -> None:
    """The second waits for the first, and both find the turn over."""
    turn = turnctl.turn()
    turn.begin()
    thing = Thing(ends="never")
    own(turn, thing)
    first = Background(turn.end)
    assert thing.in_end.wait(BOUND)
    second = Background(turn.end, "failed")
    waiting = not until(lambda: not second.is_running, within=0.05)
    thing.finish()
    reports = [first.result(), second.result()]

    assert waiting
    assert ["completed", "completed"] == [r.outcome for r in reports]
    assert 1 == thing.log.count("asked")


def test_admission_is_closed_as_soon_as_it_is_decided() -> None:
    """Nothing can be started behind the decision."""
    refused: list[bool] = []

    def late() -> None:
        try:
            turn.admit(Thing())
        except TurnOver:
            refused.append(True)

    turn = turnctl.turn()
    with call_at("turn.end.leaving", late), turn:
        pass

    assert [True] == refused
    assert () == turn.report.activities


def test_stop_accepted_while_its_canceller_is_held_decides() -> None:
    """A canceller that is held before it stores the flag has its stop shown by the end."""
    turn = turnctl.turn()
    with pause_at("token.cancel.entered") as held:
        with turn:
            canceller = Background(turn.stop)
            assert held.reached.wait(BOUND)
        seen = (turn.outcome, turn.event.is_set(), turn.is_over)
        held.release()
    answer = canceller.result()

    assert ("cancelled", True, True) == seen
    assert isinstance(answer, StopAnswer)
    assert "accepted" == answer.kind


# -- an exception that strikes in the end itself ------------------------------------------------------------------


class Struck(BaseException):
    """A second Ctrl-C, in the tests' own hands."""


def strike() -> None:
    raise Struck


@pytest.mark.parametrize("point", ["turn.end.deciding", "turn.end.decided", "turn.end.leaving", "token.end.entered"])
def test_strike_in_the_end_leaves_nothing_behind(point: str) -> None:
    """A Ctrl-C at any step of the end is raised after it: things are ended, the turn is over (promises 9 and 12)."""
    thing = Thing(ends="killed")
    turns: list[turnctl.Turn] = []
    with pytest.raises(Struck), call_at(point, strike), turnctl.turn("chat", grace="1s") as turn:
        turns.append(turn)
        own(turn, thing)

    assert thing.ended.is_set()
    assert turns[0].is_over
    assert "ended" == turns[0].report.execution
    assert turnctl.session("chat").turn is None


def test_strike_while_asking_still_ends_the_others() -> None:
    """The exception of one thing that is asked to end keeps none of the others alive."""

    class Strikes(Thing):
        def ask(self) -> None:
            if not self.log:
                self.log.append("asked")
                raise Struck
            super().ask()

    things = [Strikes("first"), Thing("second")]
    turns: list[turnctl.Turn] = []
    with pytest.raises(Struck), turnctl.turn(grace="1s") as turn:
        turns.append(turn)
        for thing in things:
            own(turn, thing)

    assert [True, True] == [thing.ended.is_set() for thing in things]
    assert turns[0].is_over


def test_end_that_is_struck_every_time_still_ends() -> None:
    """Whoever waits for the turn does not wait for ever, and what is left is named."""
    thing = Thing("stubborn", ends="never")

    class Always(Thing):
        def end(self, kill_at: Callable[[], float]) -> None:
            raise Struck

    turns: list[turnctl.Turn] = []
    with pytest.raises(Struck), turnctl.turn(grace="0s") as turn:
        turns.append(turn)
        own(turn, thing)
        own(turn, Always("striking", ends="never"))

    assert turns[0].is_over
    assert ("unproven", True) == (turns[0].report.execution, "thing striking" in turns[0].report.alive)
    assert "none found left" not in str(turns[0].report)


def test_end_that_never_comes_through_has_a_report_without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Struck in its steps at every try, the turn is over all the same, and nothing in its report is left open."""

    def strike_always(name: str) -> None:
        if name == "turn.end.decided":
            raise Struck

    turns: list[turnctl.Turn] = []
    with pytest.raises(Struck), turnctl.turn("chat") as turn:
        turns.append(turn)
        turn.activities.admit("tool", "search")
        monkeypatch.setattr(points, "hook", strike_always)
    monkeypatch.setattr(points, "hook", None)

    assert turns[0].is_over
    assert () == turns[0].report.open_activities
    assert turnctl.session("chat").turn is None
    with pytest.raises(TurnOver):
        turns[0].activities.admit("tool", "late")
