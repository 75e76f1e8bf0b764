"""A question waits for its answer, wakes at once for a stop, and is then cancelled, not declined."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadArgument, BadDuration, CancelledError, TurnOver
from turnctl.errors import TooManyAbandoned
from turnctl.testing import FakeClock, call_at, pause_at
from turnctl.waiting import abandoned
from turnctl.waiting.asks import Question, Source, ask


class Window:
    """A user interface: shows a question, and is told when it is not wanted any more."""

    def __init__(self, then: Callable[[Question], object] | None = None) -> None:
        self.shown: list[Question] = []
        self.withdrawn: list[tuple[str, str]] = []
        self.posted = threading.Event()
        self._then = then

    def post(self, question: Question) -> None:
        self.shown.append(question)
        self.posted.set()
        if self._then is not None:
            self._then(question)

    def withdraw(self, question: Question) -> None:
        self.withdrawn.append((question.id, question.state))

    @property
    def question(self) -> Question:
        assert self.posted.wait(BOUND)
        return self.shown[-1]


def parked(window: Window) -> Question:
    """The question, once the asker stands on its list."""
    question = window.question
    assert is_parked(question._waiters)
    return question


def asked(turn: turnctl.Turn, window: Any, **options: Any) -> Background[Any]:
    return Background(lambda: turn.ask("go on?", window, **options))


def activity_of(turn: turnctl.Turn) -> tuple[str, str, str, str | None]:
    (record,) = [a for a in turn.report.activities if a.kind == "ask"]
    return record.kind, record.name, record.state, record.late


# -- table 9 of docs/guarantees.md ------------------------------------------------------------------------------------


def test_parked_then_answer() -> None:
    """Question parked, then answer: the answer, and the question is answered."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        question = parked(window)
        reply = question.answer("yes")
        got = asker.result()

    assert "yes" == got
    assert reply
    assert ("answered", []) == (question.state, window.withdrawn)
    assert ("ask", "go on?", "completed", None) == activity_of(turn)


def test_parked_then_stop() -> None:
    """Question parked, then stop: ``CancelledError`` at once, withdrawn, cancelled and not declined, answer refused."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        question = parked(window)
        stopped_at = time.monotonic()
        turn.cancel("user pressed Stop")
        error = asker.error()
        late = question.answer("yes")

    assert isinstance(error, CancelledError)
    assert asker.ended_at is not None
    assert asker.ended_at - stopped_at < 1
    assert [(question.id, "cancelled")] == window.withdrawn
    assert not late
    assert "the turn was stopped" in str(late.why)
    assert ("ask", "go on?", "cancelled", None) == activity_of(turn)


def test_answer_and_stop_both_there() -> None:
    """Answer and stop both there: ``CancelledError``; the answer was accepted and is kept in the report."""
    window = Window()
    with turnctl.turn() as turn:
        with pause_at("question.parking") as held:
            asker = asked(turn, window)
            assert held.reached.wait(BOUND)
            reply = window.question.answer("yes")
            turn.cancel()
        error = asker.error()

    assert isinstance(error, CancelledError)
    assert reply
    assert [] == window.withdrawn
    kind, _, state, late = activity_of(turn)
    assert ("ask", "cancelled") == (kind, state)
    assert "answered 'yes'" in str(late)


def test_stop_then_question() -> None:
    """Stop, then question: ``CancelledError`` at once; nobody is asked."""
    window = Window()
    with turnctl.turn() as turn:
        turn.cancel()
        error = asked(turn, window).error()

    assert isinstance(error, CancelledError)
    assert [] == window.shown
    assert () == turn.report.activities


def test_stop_between_look_and_post() -> None:
    """A stop as the question is being asked: shown and taken back, never left standing."""
    window = Window()
    with turnctl.turn() as turn, call_at("question.admitted", turn.cancel):
        error = asked(turn, window).error()

    assert isinstance(error, CancelledError)
    assert [(window.question.id, "cancelled")] == window.withdrawn


def test_two_answers() -> None:
    """Two answers: the first counts, the second is refused and told why."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        question = parked(window)
        replies = [question.answer("first"), question.answer("second")]
        got = asker.result()

    assert "first" == got
    assert [True, False] == [bool(r) for r in replies]
    assert [None, "it has been answered already"] == [r.why for r in replies]


def test_two_answers_at_once() -> None:
    """Two threads that answer in one moment: exactly one is told that it counts, and it is the one that is given."""
    for _ in range(20):
        window = Window()
        with turnctl.turn() as turn:
            asker = asked(turn, window)
            question = parked(window)
            with pause_at("question.settled") as held:
                one = Background(question.answer, "one")
                assert held.reached.wait(BOUND)
                two = question.answer("two")
            counted = [name for name, reply in (("one", one.result()), ("two", two)) if reply]

            assert [asker.result()] == counted


# -- what else may happen -----------------------------------------------------------------------------------------


def test_answer_from_within_post() -> None:
    """A source that knows the answer gives it at once."""
    window = Window(lambda question: question.answer(len(str(question.prompt))))
    with turnctl.turn() as turn:
        got = turn.ask("four", window)

    assert 4 == got


def test_two_questions_at_once_both_get_theirs() -> None:
    """Two threads of a turn may ask; each gets its own answer."""
    first, second = Window(), Window()
    with turnctl.turn() as turn:
        askers = [asked(turn, first), asked(turn, second)]
        parked(second).answer(2)
        parked(first).answer(1)

        assert [1, 2] == [a.result() for a in askers]


def test_nobody_answers_in_time() -> None:
    """The timeout withdraws the question and is told as ``TimeoutError``; a later answer is refused."""
    window = Window()
    with turnctl.turn() as turn, pytest.raises(TimeoutError, match="nobody answered within 50ms: go on?"):
        turn.ask("go on?", window, timeout="50ms")

    assert [(window.question.id, "timed_out")] == window.withdrawn
    assert "its time is over" == window.question.answer(1).why
    assert "failed" == activity_of(turn)[2]


def test_time_of_a_question_is_that_of_the_clock(fake_clock: FakeClock) -> None:
    """An hour's question is over when the clock in use has passed an hour."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window, timeout="1h")
        fake_clock.wait_for_sleepers()
        fake_clock.advance(3599)
        early = asker.is_running
        fake_clock.advance(1)

        assert isinstance(asker.error(), TimeoutError)
    assert early


def test_function_that_blocks_is_a_source() -> None:
    """A plain function is called with the prompt, on another thread, and its result is the answer."""
    threads: list[threading.Thread] = []

    def person(prompt: str) -> str:
        threads.append(threading.current_thread())
        return prompt.upper()

    with turnctl.turn() as turn:
        got = turn.ask("name?", person)

    assert "NAME?" == got
    assert [threading.current_thread()] != threads


def test_function_that_does_not_come_back_is_named() -> None:
    """A stop wakes the asker although the function goes on; it is in the report until it comes back."""
    gate, inside = threading.Event(), threading.Event()

    def person(prompt: str) -> str:
        inside.set()
        gate.wait(BOUND)
        return "late"

    with turnctl.turn(grace=0.05) as turn:
        asker = asked(turn, person)
        assert inside.wait(BOUND)
        turn.cancel()
        error = asker.error()
    report = turn.report
    gate.set()

    assert isinstance(error, CancelledError)
    assert "unproven" == report.execution
    assert any("asking go on?" in name for name in report.alive)
    assert until(lambda: "ended" == turn.report.execution)


def test_what_the_source_raises_is_raised() -> None:
    """A function or a window that fails is the asker's to know, and the report has it."""

    def broken(_: object) -> None:
        raise ZeroDivisionError("no screen")

    for source in (broken, Window(broken)):
        with turnctl.turn() as turn, pytest.raises(ZeroDivisionError):
            turn.ask("go on?", source)

        assert "failed" == activity_of(turn)[2]


def test_fail_ends_the_question() -> None:
    """An interface that loses its user says so, from any thread."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        parked(window).fail(ConnectionError("gone"))

        assert isinstance(asker.error(), ConnectionError)
    assert "failed" == window.question.state


def test_withdrawing_that_fails_does_not_hide_the_stop() -> None:
    """What ``withdraw`` raises is told in the report; the stop is what is raised."""

    class Broken(Window):
        def withdraw(self, question: Question) -> None:
            raise OSError("no window")

    window = Broken()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        parked(window)
        turn.cancel()
        error = asker.error()

    assert isinstance(error, CancelledError)
    assert "OSError: no window" in str(activity_of(turn)[3])


def test_stop_while_the_source_is_still_posting() -> None:
    """The source may have shown it by then: it is withdrawn, and counts as cancelled, not as failed (Q3)."""

    def stopped(_: Question) -> None:
        turn.cancel()
        turn.check()

    window = Window(stopped)
    with turnctl.turn() as turn:
        turn.ask("go on?", window)
    question = window.question

    assert [(question.id, "cancelled")] == window.withdrawn
    assert "the turn was stopped" in str(question.answer("yes").why)
    assert ("ask", "go on?", "cancelled", None) == activity_of(turn)


def test_checkpoint_in_withdraw_does_not_cut_it_short() -> None:
    """Taking a question back is clean-up: no turn is bound in it (Q3)."""

    class Checks(Window):
        def withdraw(self, question: Question) -> None:
            turnctl.check()
            turnctl.sleep(0.001)
            super().withdraw(question)

    window = Checks(lambda _: turn.cancel())
    with turnctl.turn() as turn:
        turn.ask("go on?", window)

    assert [(window.question.id, "cancelled")] == window.withdrawn


def test_functions_that_do_not_come_back_in_time_are_counted() -> None:
    """A loop that asks with a timeout is refused before it has piled up threads without end."""
    go = threading.Event()
    before = abandoned.set_limit(3)
    asked_of: list[str] = []

    def slow(prompt: str) -> None:
        asked_of.append(prompt)
        go.wait(BOUND)

    try:
        with turnctl.turn(grace=0.2) as turn:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                for number in range(3):
                    with pytest.raises(TimeoutError):
                        turn.ask(f"q{number}", slow, timeout=0.001)
                with pytest.raises(TooManyAbandoned):
                    turn.ask("q3", slow, timeout=0.001)
            left = abandoned.count()
            go.set()
            assert until(lambda: abandoned.count() == 0)
    finally:
        go.set()
        abandoned.set_limit(before)

    assert 3 == left
    assert "q3" not in asked_of


def test_end_of_the_turn_withdraws_the_question() -> None:
    """A question that another thread still waits for when the turn ends without a stop raises ``TurnOver``."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        parked(window)
    error = asker.error()

    assert isinstance(error, TurnOver)
    assert [(window.question.id, "cancelled")] == window.withdrawn
    assert ("completed", "ended") == (turn.outcome, turn.report.execution)


def test_turn_that_is_over_asks_nobody() -> None:
    """The end, then question: ``TurnOver``, nobody is asked."""
    window = Window()
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.ask("go on?", window)

    assert [] == window.shown


def test_under_a_shield_the_question_stays() -> None:
    """A stop under a shield: the answer is still taken; the stop is raised at the end of the shield."""
    window = Window()

    def clean_up(turn: turnctl.Turn) -> tuple[object, BaseException | None]:
        got = None
        try:
            with turn.shield("30s"):
                got = turn.ask("save?", window)
        except CancelledError as error:
            return got, error
        return got, None

    with turnctl.turn() as turn:
        asker = Background(clean_up, turn)
        question = parked(window)
        turn.cancel()
        assert is_parked(question._waiters)
        question.answer("yes")
        got, error = asker.result()

    assert "yes" == got
    assert isinstance(error, CancelledError)


def test_end_of_the_shield_withdraws_the_question() -> None:
    """A stop under a shield whose time is over is raised then."""
    window = Window()

    def clean_up(turn: turnctl.Turn) -> None:
        with turn.shield("100ms"):
            turn.ask("save?", window)

    with turnctl.turn() as turn:
        asker = Background(clean_up, turn)
        parked(window)
        turn.cancel()

        assert isinstance(asker.error(), CancelledError)
    assert [(window.question.id, "cancelled")] == window.withdrawn


def test_paused_turn_takes_the_answer_when_resumed() -> None:
    """A question of a paused turn may be answered; the turn goes on when it is resumed."""
    window = Window()
    with turnctl.turn() as turn:
        asker = asked(turn, window)
        question = parked(window)
        turn.pause()
        question.answer("yes")
        assert is_parked(turn.token._grow().waiters)
        running = asker.is_running
        turn.resume()

        assert "yes" == asker.result()
    assert running


def test_without_a_turn_it_is_a_plain_question() -> None:
    """Outside of any turn a function is called where it is asked, and a window can answer or let the time pass."""
    here: list[int] = []
    plain = ask(None, "name?", lambda prompt: (here.append(threading.get_ident()), prompt)[1])
    answered = ask(None, "go on?", Window(lambda question: question.answer("yes")))
    with pytest.raises(TimeoutError):
        ask(None, "go on?", Window(), timeout=0.02)

    assert ("name?", "yes") == (plain, answered)
    assert [threading.get_ident()] == here


def test_what_cannot_ask_is_refused() -> None:
    """Neither a function nor a window, or a time that is none: nothing is asked."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument, match="post and withdraw"):
            turn.ask("go on?", object())  # type: ignore[arg-type]
        with pytest.raises(BadDuration):
            turn.ask("go on?", Window(), timeout=0)

    assert () == turn.report.activities


def test_question_says_what_it_is() -> None:
    """A window has what it needs to show, and each question an id of its own."""
    window = Window(lambda question: question.answer(None))
    with turnctl.turn() as turn:
        turn.ask({"kind": "approval"}, window, timeout="1h")
        turn.ask("x" * 100, window)
    first, second = window.shown

    assert isinstance(window, Source)
    assert ({"kind": "approval"}, 3600.0, turn.turn_id) == (first.prompt, first.timeout_s, first.turn_id)
    assert first.id != second.id
    assert abs(first.asked_at - time.time()) < 60
    assert repr(second).endswith("answered: " + "x" * 57 + "...>")
