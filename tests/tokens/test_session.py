"""A stop reaches the turn that was meant, or is answered: never another turn, never silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from standins import BOUND, Background, Thing, own, until

import turnctl
from turnctl import BadArgument, BadDuration, ShuttingDown, StopAnswer, StopResult
from turnctl.tokens import registry


def answer_of(found: StopAnswer | StopResult) -> StopAnswer:
    return found.answer if isinstance(found, StopResult) else found


def test_stop_by_session() -> None:
    """The running turn of the session is stopped; the answer names it."""
    with turnctl.turn("chat") as turn:
        answer = answer_of(turnctl.stop("chat", reason="Stop button", by="ann"))

    assert ("accepted", turn.turn_id, "chat") == (answer.kind, answer.turn_id, answer.session_id)
    assert answer
    assert turn.token.record is answer.record
    assert ("user", "Stop button", "ann") == (turn.cause, turn.token.reason, answer.record and answer.record.by)


def test_stop_by_turn_id() -> None:
    """A turn is found by its id, with or without a session."""
    with turnctl.turn(turn_id="job-1") as turn:
        answer = answer_of(turnctl.stop(turn_id="job-1"))

    assert "accepted" == answer.kind
    assert turn.cancelled


def test_stop_without_a_turn_is_refused_in_words() -> None:
    """A stop that finds nothing is answered, not silent."""
    by_session = answer_of(turnctl.stop("chat"))
    by_id = answer_of(turnctl.stop(turn_id="t1"))

    assert ("refused", "no_turn") == (by_session.kind, by_session.why)
    assert ("refused", "no_turn") == (by_id.kind, by_id.why)
    assert not by_session
    assert "refused: no running turn in session chat" == str(by_session)


@pytest.mark.parametrize("target", [{}, {"session_id": "chat", "turn_id": "t1"}])
def test_stop_needs_one_target(target: dict[str, str]) -> None:
    """No target, or two, is a misuse and says so."""
    with pytest.raises(BadArgument, match="one target"):
        turnctl.stop(**target)  # type: ignore[arg-type]


def test_late_stop_does_not_reach_the_next_turn() -> None:
    """Stop, end, begin: the new turn is clean; a stop while idle is refused and not kept."""
    with turnctl.turn("chat"):
        turnctl.stop("chat")
    idle = answer_of(turnctl.stop("chat"))
    with turnctl.turn("chat") as second:
        turnctl.check()

    assert ("refused", "no_turn") == (idle.kind, idle.why)
    assert "completed" == second.outcome


def test_late_stop_with_the_old_turns_id_is_refused() -> None:
    """``expected_turn`` keeps a late press from the turn that runs now (promise 2)."""
    with turnctl.turn("chat") as first:
        pass
    with turnctl.turn("chat") as second:
        wrong = answer_of(turnctl.stop("chat", expected_turn=first.turn_id))
        by_id = answer_of(turnctl.stop(turn_id=first.turn_id))
        turnctl.check()
        right = answer_of(turnctl.stop("chat", expected_turn=second.turn_id))

    assert ("refused", "retired", first.turn_id) == (wrong.kind, wrong.why, wrong.turn_id)
    assert ("refused", "no_turn") == (by_id.kind, by_id.why)
    assert "accepted" == right.kind


def test_stop_with_an_expected_turn_and_none_running_is_refused() -> None:
    """The answer names the turn that was expected."""
    answer = answer_of(turnctl.stop("chat", expected_turn="t1", wait=1))

    assert ("refused", "no_turn", "t1", "chat") == (answer.kind, answer.why, answer.turn_id, answer.session_id)


def test_handle_of_an_ended_turn_tells_how_it_ended() -> None:
    """Whoever still holds the turn is told its outcome; nothing changes."""
    with turnctl.turn("chat") as turn:
        pass
    answer = answer_of(turn.stop())

    assert ("already_ended", "completed") == (answer.kind, answer.outcome)
    assert not answer
    assert turn.report.stop is None


def test_sessions_are_independent() -> None:
    """A stop of one leaves the other untouched."""
    with turnctl.turn("one") as one, turnctl.turn("two", inherit=False) as two:
        turnctl.stop("one")
        two.check()

    assert ("cancelled", "completed") == (one.outcome, two.outcome)


def test_running_turn_is_looked_up() -> None:
    """A session knows its turn while it runs."""
    from turnctl.tokens.session import running_turn

    with turnctl.turn("chat") as turn:
        found = (running_turn("chat"), turnctl.session("chat").turn, running_turn("other"))

    assert (turn, turn, None) == found
    assert running_turn("chat") is None


@pytest.mark.parametrize("level", ["soft", "kill"])
def test_stop_has_levels(level: str) -> None:
    """Soft lets the step in hand finish, kill spends no grace."""
    with turnctl.turn("chat") as turn:
        turnctl.stop("chat", **{level: True})  # type: ignore[arg-type]
        found = turn.token.level

    assert level == found


def test_soft_and_kill_together_are_refused() -> None:
    """The two contradict each other."""
    with turnctl.turn("chat") as turn:
        for stop in (turn.stop, lambda **options: turnctl.stop("chat", **options)):
            with pytest.raises(BadArgument, match="soft or kill"):
                stop(soft=True, kill=True)

        assert not turn.stopping


@pytest.mark.parametrize("option", ["grace", "wait"])
@pytest.mark.parametrize("value", [-1, "5", "", float("nan"), float("inf"), True, object()])
def test_bad_duration_is_refused_before_anything_is_recorded(option: str, value: object) -> None:
    """Every duration of a stop is checked; the turn is unharmed."""
    with turnctl.turn("chat") as turn:
        for stop in (turn.stop, lambda **options: turnctl.stop("chat", **options)):
            with pytest.raises(BadDuration):
                stop(**{option: value})

        assert not turn.stopping


@pytest.mark.parametrize("options", [{"grace": "5"}, {"wait": "5"}, {"soft": True, "kill": True}])
def test_bad_stop_is_refused_though_nothing_runs(options: dict[str, object]) -> None:
    """A misuse does not wait for the day on which a turn runs."""
    with pytest.raises((BadDuration, BadArgument)):
        turnctl.stop("chat", **options)  # type: ignore[arg-type]


def test_stop_with_wait_returns_when_the_turn_is_over() -> None:
    """The result holds the answer and the report at the end."""
    begun, thread = run_until_stopped("chat")
    assert begun.wait(BOUND)
    result = turnctl.stop("chat", reason="enough", wait="10s")
    turn = thread.result()

    assert isinstance(result, StopResult)
    assert result
    assert result.over
    assert "accepted" == result.answer.kind
    assert result.report is not None
    assert "cancelled, settled" == result.report.state
    assert turn.report.as_dict() == result.report.as_dict()


def run_until_stopped(session: str) -> tuple[threading.Event, Background[turnctl.Turn]]:
    begun = threading.Event()

    def body() -> turnctl.Turn:
        with turnctl.turn(session) as turn:
            begun.set()
            turn.sleep(60)
        return turn

    return begun, Background(body)


def test_wait_that_is_too_short_names_what_goes_on() -> None:
    """The result says that the turn is not over, and the report does not claim an end."""
    with turnctl.turn("chat", grace="10s") as turn:
        thing = Thing("slow", ends="never")
        own(turn, thing)
        result = Background(lambda: turnctl.stop("chat", wait="30ms")).result()
        thing.finish()

    assert isinstance(result, StopResult)
    assert not result.over
    assert result.report is not None
    assert ("draining", "stopping") == (result.report.state, result.report.execution)
    assert ("thing slow",) == result.report.alive


@pytest.mark.parametrize("nested", [False, True])
def test_waiting_from_inside_the_turn_is_cut_to_nothing(nested: bool) -> None:
    """A turn that waits for its own end would wait for ever; it is answered at once."""
    begun = time.monotonic()
    with turnctl.turn("chat") as turn:
        if nested:
            with turnctl.turn("inner", inherit=False):
                result = turnctl.stop("chat", wait=60)
        else:
            result = turn.stop(wait=60)
    took = time.monotonic() - begun

    assert isinstance(result, StopResult)
    assert (True, False) == (bool(result), result.over)
    assert took < 5


def test_waiting_without_a_turn_returns_at_once() -> None:
    """There is nothing to wait for: over, without a report."""
    result = turnctl.stop("chat", wait=60)

    assert isinstance(result, StopResult)
    assert (False, True, None) == (bool(result), result.over, result.report)


def test_wait_of_nothing_asks() -> None:
    """A wait of 0 returns the report as it stands."""
    begun, thread = run_until_stopped("chat")
    assert begun.wait(BOUND)
    result = turnctl.stop("chat", wait=0)
    thread.result()

    assert isinstance(result, StopResult)
    assert result.report is not None


def test_stop_all_answers_once_for_each_turn() -> None:
    """Every turn of the process is stopped, those without a session too."""
    made = [turnctl.turn(name, inherit=False) for name in ("one", "two", None)]
    for turn in made:
        turn.begin()
    answers = turnctl.stop_all("closing", by="ann", cause="operator", grace="1s")
    for turn in made:
        turn.end()

    assert {t.turn_id for t in made} == {a.turn_id for a in answers}
    assert ["accepted"] * 3 == [a.kind for a in answers]
    assert {("operator", "closing", "ann", 1.0)} == {
        (a.record.cause, a.record.reason, a.record.by, a.record.grace_s) for a in answers if a.record
    }
    assert [] == turnctl.stop_all()


def test_stop_all_reaches_parents_and_children_alike() -> None:
    """A nested turn is answered too; whichever is asked first, both are stopped."""
    with turnctl.turn("one") as outer, turnctl.turn("two") as inner:
        answers = turnctl.stop_all()

    assert 2 == len(answers)
    assert all(answers)
    assert ("cancelled", "cancelled") == (outer.outcome, inner.outcome)


@pytest.mark.parametrize("running", [True, False])
def test_stop_all_checks_what_it_was_given(running: bool) -> None:
    """A misuse is told, whether or not something runs."""
    with turnctl.turn() if running else turnctl.session("idle"):
        with pytest.raises(BadDuration):
            turnctl.stop_all(grace="5")
        with pytest.raises(BadArgument):
            turnctl.stop_all(level="hard")  # type: ignore[arg-type]


@pytest.fixture
def _reopened() -> Iterator[None]:
    yield
    registry.reopen()


@pytest.mark.usefixtures("_reopened")
def test_shutdown_stops_all_and_refuses_new_turns() -> None:
    """A server that got SIGTERM: what runs is stopped with cause ``shutdown``, and nothing begins any more."""
    with turnctl.turn("chat") as turn:
        answers = turnctl.shutdown("deploy")
        with pytest.raises(ShuttingDown, match=r"shutting down \(deploy\)"):
            turnctl.turn("other", inherit=False).begin()
    with pytest.raises(ShuttingDown), turnctl.turn():
        pass

    assert ["accepted"] == [a.kind for a in answers]
    assert ("shutdown", "deploy") == (turn.cause, turn.token.reason)
    assert [] == registry.all_turns()


@pytest.mark.usefixtures("_reopened")
def test_shutdown_during_a_begin_misses_no_turn() -> None:
    """A turn that registers while the process shuts down is stopped or refused: never neither."""
    from turnctl.testing import call_at

    made = turnctl.turn("chat")
    with turnctl.turn("chat", inherit=False) as holder:
        begin = Background(lambda: call_in_begin(made, call_at))
        error = begin.error()

    assert isinstance(error, ShuttingDown)
    assert holder.cancelled
    assert [] == registry.all_turns()


def call_in_begin(made: turnctl.Turn, call_at: object) -> None:
    with call_at("turn.begin.busy", lambda: turnctl.shutdown()):  # type: ignore[operator]
        made.begin()


@pytest.mark.usefixtures("_reopened")
def test_shutdown_with_a_bad_duration_shuts_nothing() -> None:
    """A misuse is refused before anything has changed."""
    with pytest.raises(BadDuration):
        turnctl.shutdown(grace="5")
    with turnctl.turn() as turn:
        pass

    assert "completed" == turn.outcome


def test_reopened_process_begins_turns_again() -> None:
    """What the tests rely on."""
    turnctl.shutdown()
    registry.reopen()
    with turnctl.turn() as turn:
        assert until(lambda: turn.token is turnctl.current_token())
