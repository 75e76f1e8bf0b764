"""A token trips once, keeps its first record, answers every request, and changes nothing once retired."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadArgument, BadDuration, CancelledError, CancelToken, StopAnswer, TokenMisuse, TurnOver
from turnctl.records.stops import CAUSES
from turnctl.testing import pause_at
from turnctl.tokens.token import TurnToken


@pytest.fixture
def token() -> TurnToken:
    return TurnToken("t1", "chat")


def test_poll_tells_before_and_after(token: TurnToken) -> None:
    """A check is silent before the stop and raises after it, each time."""
    token.check()
    before = (token.cancelled, token.is_cancelled(), token.stopping, token.cause, token.record)
    token.cancel("enough")

    assert (False, False, False, None, None) == before
    assert token.cancelled
    assert token.is_cancelled()
    for _ in range(2):
        with pytest.raises(CancelledError):
            token.check()


def test_error_tells_who_and_why(token: TurnToken) -> None:
    """The exception carries the first record and its token, and its text names the turn."""
    token.cancel("enough", by="ann")
    with pytest.raises(CancelledError) as raised:
        token.check()

    assert token is raised.value.token
    assert token.record is raised.value.record
    assert ("user", "enough") == (raised.value.cause, raised.value.reason)
    assert "turn t1 was cancelled (user): enough" == str(raised.value)


def test_error_is_no_exception() -> None:
    """``except Exception`` in a tool does not swallow a stop (promise 6)."""
    assert not issubclass(CancelledError, Exception)


def test_error_survives_pickling_without_its_token(token: TurnToken) -> None:
    """A worker process may raise it; the record comes along, the token does not."""
    token.cancel("enough", by="ann")
    found = pickle.loads(pickle.dumps(token._error()))

    assert isinstance(found, CancelledError)
    assert ("user", "enough", None) == (found.cause, found.reason, found.token)
    assert "turn t1 was cancelled (user): enough" == str(found)


def test_three_cancels_return_the_first_record(token: TurnToken) -> None:
    """Repeating is harmless: the first answer is ``accepted``, the others carry its record."""
    answers = [token.cancel(f"no {n}", by=f"p{n}") for n in range(3)]

    assert ["accepted", "already_cancelled", "already_cancelled"] == [a.kind for a in answers]
    assert [token.record] * 3 == [a.record for a in answers]
    assert ("no 0", "p0") == (token.reason, answers[2].record.by if answers[2].record else None)


def test_wait_on_a_tripped_token_returns_at_once(token: TurnToken) -> None:
    """A token that has tripped makes nobody wait."""
    token.cancel()

    assert token.event.wait()
    assert token.event.wait(BOUND)


def test_ten_waiters_wake_on_cancel(token: TurnToken) -> None:
    """All who wait on the token's event wake when it trips."""
    waiters = [Background(token.event.wait) for _ in range(10)]
    assert is_parked(token.event._waiters, 10)
    token.cancel()

    assert [True] * 10 == [w.result() for w in waiters]


def test_event_is_always_the_same(token: TurnToken) -> None:
    """Two threads that ask for the event at once get the same one."""
    gate = threading.Barrier(4)

    def ask() -> threading.Event:
        gate.wait(BOUND)
        return token.event

    askers = [Background(ask) for _ in range(4)]

    assert 1 == len({id(a.result()) for a in askers} | {id(token.event)})


def test_event_made_after_the_stop_is_set(token: TurnToken) -> None:
    """It does not matter when the event is first asked for."""
    token.cancel()

    assert token.event.is_set()


def test_event_made_after_the_end_is_retired(token: TurnToken) -> None:
    """An event asked for after the end can never be set."""
    token._retire("completed")
    token.event.set()

    assert not token.event.is_set()
    assert not token.event.wait()


def test_any_holder_may_set_the_event(token: TurnToken) -> None:
    """``event.set()`` is a stop with cause ``event``, and a later one changes nothing."""
    token.event.set()
    token.event.set()
    second = token.cancel("late")

    assert token.cancelled
    assert "event" == token.cause
    assert ("already_cancelled", token.record) == (second.kind, second.record)


def test_event_set_in_one_turn_leaves_the_next_alone() -> None:
    """An event kept from an ended turn reaches no other turn of the session (promise 2)."""
    with turnctl.turn("chat") as first:
        event = first.event
    with turnctl.turn("chat") as second:
        event.set()
        second.check()

    assert not event.is_set()
    assert "completed" == second.outcome


@pytest.mark.parametrize("proposed", ["completed", "failed"])
def test_cancel_after_retire_is_refused(token: TurnToken, proposed: str) -> None:
    """A retired token says how the turn ended, and neither it nor its event changes (promise 2)."""
    event = token.event
    token._retire(proposed)  # type: ignore[arg-type]
    answers = [token.cancel("late"), token.cancel(level="kill", grace=0)]

    assert ["already_ended"] * 2 == [a.kind for a in answers]
    assert [proposed] * 2 == [a.outcome for a in answers]
    assert not any(answers)
    assert (False, None, False) == (token.cancelled, token.record, event.is_set())
    assert token.retired
    token.check()


def test_cancel_after_supersession_is_refused(token: TurnToken) -> None:
    """A superseded token refuses with the reason ``retired``."""
    token._retire("superseded")
    answer = token.cancel()

    assert ("refused", "retired", "superseded") == (answer.kind, answer.why, answer.outcome)
    assert not answer
    assert not token.cancelled


def test_cancel_after_a_cancelled_end_keeps_the_record(token: TurnToken) -> None:
    """The late canceller is told that the turn had ended, and by whose stop."""
    token.cancel("first")
    token._retire("completed")
    answer = token.cancel("second")

    assert ("already_ended", "cancelled") == (answer.kind, answer.outcome)
    assert answer.record is token.record
    assert "first" == token.reason


def test_retiring_is_done_once(token: TurnToken) -> None:
    """The first end stands, the second is told False (promise 3)."""
    assert token._retire("completed")
    assert not token._retire("failed")
    assert "completed" == token.outcome


def test_end_decides_by_the_stop_before_it(token: TurnToken) -> None:
    """Deciding and retiring are one step: a stop in the log makes the outcome ``cancelled`` (promise 3)."""
    token.cancel()
    before = token.outcome
    token._retire("completed")

    assert before is None
    assert "cancelled" == token.outcome


def test_soft_stop_is_accepted_and_does_not_interrupt(token: TurnToken) -> None:
    """Softly stopped, nothing raises and the event stays down, but a loop can ask."""
    answer = token.cancel("finish up", level="soft")
    token.check()

    assert "accepted" == answer.kind
    assert (False, True, "soft") == (token.cancelled, token.stopping, token.level)
    assert not token.event.is_set()
    token._retire("completed")
    assert "cancelled" == token.outcome
    assert not token.event.is_set()


@pytest.mark.parametrize(
    ("levels", "level", "cancelled"),
    [
        (["soft", "cancel"], "cancel", True),
        (["soft", "kill"], "kill", True),
        (["cancel", "soft"], "cancel", True),
        (["cancel", "kill"], "kill", True),
        (["kill", "cancel"], "kill", True),
        (["soft", "soft"], "soft", False),
    ],
)
def test_level_rises_and_never_falls(token: TurnToken, levels: list[str], level: str, cancelled: bool) -> None:
    """A later stop may raise the level; the first record stays whatever comes."""
    first, second = (token.cancel(one, level=one) for one in levels)  # type: ignore[arg-type]

    assert (level, cancelled) == (token.level, token.cancelled)
    assert cancelled is token.event.is_set()
    assert ("already_cancelled", first.record) == (second.kind, second.record)
    assert levels[0] == token.reason


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause_can_be_given(token: TurnToken, cause: str) -> None:
    """Each word of the vocabulary is kept as it was given."""
    token.cancel(cause=cause)  # type: ignore[arg-type]

    assert cause == token.cause


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"cause": "boredom"}, BadArgument),
        ({"level": "hard"}, BadArgument),
        ({"grace": -1}, BadDuration),
        ({"grace": "5"}, BadDuration),
        ({"grace": float("nan")}, BadDuration),
        ({"grace": True}, BadDuration),
    ],
)
def test_bad_request_changes_nothing(token: TurnToken, options: dict[str, object], error: type) -> None:
    """What cannot be a stop is refused before anything is recorded."""
    with pytest.raises(error):
        token.cancel(**options)  # type: ignore[arg-type]

    assert (False, False, None) == (token.cancelled, token.stopping, token.record)


def test_two_cancels_at_once_have_one_first() -> None:
    """Of requests that meet at a barrier exactly one is accepted; all carry its record."""
    for _ in range(100):
        token = TurnToken("t")
        gate = threading.Barrier(3)

        def ask(token: TurnToken = token, gate: threading.Barrier = gate) -> StopAnswer:
            gate.wait(BOUND)
            return token.cancel()

        answers = [Background(ask) for _ in range(3)]
        kinds = sorted(a.result().kind for a in answers)

        assert ["accepted", "already_cancelled", "already_cancelled"] == kinds
        assert {token.record} == {a.result().record for a in answers}


ACTIONS: dict[str, Callable[[TurnToken], object]] = {
    "complete": lambda token: token._retire("completed"),
    "fail": lambda token: token._retire("failed"),
    "displace": lambda token: token._retire("superseded"),
    "cancel": lambda token: token.cancel("a"),
    "cancel too": lambda token: token.cancel("b"),
}


def test_each_request_has_one_answer_that_fits() -> None:
    """Complete, fail, displace and two cancels meet at a barrier: one end, and each answer is true of it."""
    for _ in range(100):
        token = TurnToken("t")
        gate = threading.Barrier(len(ACTIONS))

        def act(name: str, token: TurnToken = token, gate: threading.Barrier = gate) -> object:
            gate.wait(BOUND)
            return ACTIONS[name](token)

        running = {name: Background(act, name) for name in ACTIONS}
        found = {name: thread.result() for name, thread in running.items()}
        answers = [found["cancel"], found["cancel too"]]
        kinds = [a.kind for a in answers if isinstance(a, StopAnswer)]
        winners = [name for name in ("complete", "fail", "displace") if found[name]]

        assert 1 == len(winners)
        assert kinds.count("accepted") <= 1
        if "accepted" in kinds:
            assert "cancelled" == token.outcome
            assert token.cancelled
        else:
            expected = {"complete": "completed", "fail": "failed", "displace": "superseded"}[winners[0]]
            assert expected == token.outcome
            assert {"refused" if expected == "superseded" else "already_ended"} == set(kinds)
            assert not token.cancelled


def test_answer_never_runs_ahead_of_the_flag(token: TurnToken) -> None:
    """While the first canceller is held before it stores the flag, the second stores it (T4)."""
    with pause_at("token.cancel.entered") as held:
        first = Background(token.cancel, "first")
        assert held.reached.wait(BOUND)
        flag_before = token.cancelled
        second = token.cancel("second")
        flag_after = token.cancelled
        held.release()

    assert (False, True) == (flag_before, flag_after)
    assert "accepted" == first.result().kind
    assert ("already_cancelled", "first") == (second.kind, second.record.reason if second.record else None)


def test_end_shows_a_stop_whose_canceller_is_held(token: TurnToken) -> None:
    """The end stores the flag itself, so the public event is set before it returns."""
    event = token.event
    with pause_at("token.cancel.entered") as held:
        canceller = Background(token.cancel)
        assert held.reached.wait(BOUND)
        token._retire("completed")
        seen = (token.outcome, token.cancelled, event.is_set())
        held.release()

    assert ("cancelled", True, True) == seen
    assert "accepted" == canceller.result().kind


def test_stop_behind_a_held_end_is_refused(token: TurnToken) -> None:
    """Once the end is in the log a stop changes nothing, though the ender has not gone on."""
    event = token.event
    with pause_at("token.end.entered") as held:
        ender = Background(token._retire, "completed")
        assert held.reached.wait(BOUND)
        answer = token.cancel()
        held.release()

    assert ender.result()
    assert ("already_ended", "completed") == (answer.kind, answer.outcome)
    assert (False, False) == (token.cancelled, event.is_set())


def test_intent_is_recorded_before_anything_is_signalled() -> None:
    """Inside a callback of the trip another thread already reads the record."""
    with turnctl.turn() as turn:
        seen: list[object] = []
        registration = turn.on_cancel(lambda: seen.append(Background(lambda: turn.token.record).result()))
        answer = turn.stop("now")
        assert until(lambda: seen)
        registration.unregister(wait=True)

    assert isinstance(answer, StopAnswer)
    assert [answer.record] == seen


def test_intent_is_recorded_before_the_waiters_wake(token: TurnToken) -> None:
    """Who wakes from the event finds the record."""
    reader = Background(lambda: token.event.wait() and token.record)
    assert is_parked(token.event._waiters)
    token.cancel("now")

    assert token.record is reader.result()


def test_repr_shows_whose_it_is_and_how_it_stands(token: TurnToken) -> None:
    """Session, turn, state, cause and age are in what is printed."""
    live = repr(token)
    token.cancel()
    cancelled = repr(token)
    token._retire("completed")

    for text in (live, cancelled, repr(token)):
        assert "turn=t1" in text
        assert "session='chat'" in text
        assert "age=" in text
    assert " live " in live
    assert " cancelled cause=user " in cancelled
    assert " retired cancelled cause=user " in repr(token)


def test_pickling_a_token_is_refused_with_a_hint(token: TurnToken) -> None:
    """A token lives in one process; the refusal says what to pass instead."""
    for one in (token, CancelToken()):
        with pytest.raises(TokenMisuse, match="pass the turn id and stop by that"):
            pickle.dumps(one)


def test_copying_a_token_returns_itself(token: TurnToken) -> None:
    """A copy that no stop could reach would be worse than none."""
    assert token is copy.copy(token)
    assert token is copy.deepcopy({"token": token})["token"]


def test_token_shows_its_turn_and_deadline() -> None:
    """What a token shows is what the turn has."""
    with turnctl.turn("chat", turn_id="job-1", timeout="1h") as turn:
        token = turn.token

        assert ("chat", "job-1", False) == (token.session_id, token.turn_id, token.retired)
        assert turn.event is token.event
        assert turn.deadline is not None
        assert turn.deadline == token.deadline


def test_callback_on_a_retired_token_is_refused(token: TurnToken) -> None:
    """Nothing could ever run it."""
    token._retire("completed")
    for inline in (False, True):
        with pytest.raises(TurnOver):
            token.on_cancel(print, inline=inline)


def test_binding_a_turns_token_does_not_end_the_turn() -> None:
    """A thread may bind the turn's token with ``with``; when it leaves, the turn can still be stopped."""
    with turnctl.turn() as turn:

        def work() -> None:
            with turn.token:
                turnctl.check()

        Background(work).error()
        answer = turn.stop()

        assert isinstance(answer, StopAnswer)
        assert "accepted" == answer.kind
