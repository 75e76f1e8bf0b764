"""The examples of the tutorial and of the README run as they stand, and do what the text around them says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pages import examples
from standins import BOUND, Background, until

import turnctl

ROOT = Path(__file__).resolve().parent.parent


def endless(_: object) -> SimpleNamespace:
    return SimpleNamespace(command="echo more")


def test_loop_of_the_tutorial_is_stopped() -> None:
    """The loop without an end ends at a checkpoint, and its report names who asked."""
    page = examples("tutorial.md", call_the_model=endless)
    running = Background(page["agent"], "tutorial", "hello")
    assert until(lambda: turnctl.session("tutorial").turn)
    turnctl.stop("tutorial", reason="user pressed Stop")
    report = running.result()

    assert ("cancelled", "user pressed Stop") == (report.outcome, report.stop.reason)


def test_function_of_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints what the function gave."""
    examples("tutorial.md", "A function instead of a `with`", turnctl=turnctl, work=lambda a, b: a + b)

    assert "3\n" == capsys.readouterr().out


def test_signals_of_the_tutorial() -> None:
    """The loop runs under the handlers, which are gone afterwards."""
    ran: list[str] = []
    examples("tutorial.md", "Ctrl-C", turnctl=turnctl, agent=lambda *said: ran.extend(said))

    assert ["chat-42", "hello"] == ran


def test_clean_up_of_the_tutorial() -> None:
    """What is saved under the shield is saved whole, and the stop is raised behind it."""
    saved: list[str] = []

    def save(state: str) -> None:
        turn.sleep(0.001)
        saved.append(state)

    with turnctl.turn() as turn:
        turn.cancel()
        examples("tutorial.md", "Clean-up that a stop must not cut short", turn=turn, state="all", save=save)
        pytest.fail("the stop was not raised")

    assert (["all"], "cancelled") == (saved, turn.outcome)


# -- the stop of two stages ----------------------------------------------------------------


@pytest.fixture
def stop_button() -> Callable[..., Any]:
    found: Callable[..., Any] = examples("tutorial.md", "Ask first, then insist", turnctl=turnctl)["stop_button"]
    return found


def test_step_in_hand_is_finished(stop_button: Callable[..., Any]) -> None:
    """A loop that asks between two steps ends by itself, and nothing of it is interrupted."""
    finished: list[int] = []
    turns: list[turnctl.Turn] = []
    in_step = threading.Event()

    def work() -> None:
        with turnctl.turn("chat") as turn:
            turns.append(turn)
            while not turn.stopping:
                in_step.set()
                turn.sleep(0.02)
                finished.append(1)

    running = Background(work)
    in_step.wait(BOUND)
    answer = stop_button("chat")
    running.result()
    report = turns[0].report

    assert finished
    assert ("accepted", turns[0].turn_id) == (answer.kind, answer.turn_id)
    assert ("cancelled", "soft", "user pressed Stop") == (report.outcome, report.level, report.stop.reason)


def test_what_does_not_end_is_interrupted(stop_button: Callable[..., Any]) -> None:
    """The command is killed, the question withdrawn, each is accounted for; the first stop stays on record."""
    turns: list[turnctl.Turn] = []

    def work() -> None:
        with turnctl.turn("chat") as turn:
            turns.append(turn)
            turn.thread(turn.ask, "go on?", lambda _: threading.Event().wait(0.5))
            turn.run(["sleep", "60"])

    running = Background(work)
    assert until(lambda: turns and {"ask", "process"} <= {one.kind for one in turns[0].report.activities})
    stop_button("chat", patience=0.05)
    running.result()
    report = turns[0].report

    assert ("cancelled", "cancel", "user pressed Stop") == (report.outcome, report.level, report.stop.reason)
    assert ("ended", ()) == (report.execution, report.alive)
    assert {"cancelled"} == {one.state for one in report.activities if one.kind in ("ask", "process")}


def test_turn_that_came_after_is_not_reached(stop_button: Callable[..., Any]) -> None:
    """The turn that was asked ends in between, and another one has the session."""
    late = threading.Event()

    def work() -> None:
        with turnctl.turn("chat") as turn:
            assert until(lambda: turn.stopping)
        with turnctl.turn("chat") as following:
            late.wait(BOUND)
        assert "completed" == following.outcome

    running = Background(work)
    assert until(lambda: turnctl.session("chat").turn)
    stop_button("chat")
    late.set()

    running.result()


def test_limit_in_place_of_waiting() -> None:
    """A soft stop and a limit: nobody waits, and the stop on record is the user's."""
    with turnctl.turn("chat") as turn:
        turn.stop("user pressed Stop", soft=True)
        turn.set_timeout(0.02)
        turn.sleep(60)

    assert ("cancelled", "user", "cancel") == (turn.outcome, turn.cause, turn.token.level)


# -- the README ----------------------------------------------------------------


def test_example_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    """The agent runs, is stopped from another thread, and tells what is known."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {"call_the_model": endless}
    exec(compile(block, "README.md", "exec"), scope)
    running = Background(scope["agent"], "hello")
    assert until(lambda: turnctl.session("chat-42").turn)
    answer = turnctl.stop("chat-42", reason="wrong repo")
    running.result()
    shown = capsys.readouterr().out

    assert str(answer).startswith("stop accepted for turn ")
    assert "stopped by the user (wrong repo), which took " in shown
