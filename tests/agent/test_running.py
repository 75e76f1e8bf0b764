"""A run beside the end of another one, and beside a thread that it has left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from loops import Gate, Played, calls, feed_is_strict, statuses, stop_inside
from standins import BOUND, Background, until

import turnctl
from turnctl.agent import AgentLoop, History, Tool
from turnctl.records.runs import StepRecord
from turnctl.testing import call_at, pause_at


@pytest.fixture
def gate() -> Iterator[Gate]:
    """One, open at the end of the test at the latest."""
    with Gate() as made:
        yield made


class Slow(History):
    """One whose ``salvage`` says that it has begun, and takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def salvage(self, **told: object) -> None:  # type: ignore[override]
        if not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(BOUND)
        super().salvage(**told)  # type: ignore[arg-type]


def test_next_run_begins_on_a_coherent_history(gate: Gate) -> None:
    """Who sees that the turn of a run is over may begin the next one: it waits until the history is coherent."""

    def look() -> str:
        """Look."""
        return gate.pass_through()

    history = Slow()
    loop = AgentLoop(Played(calls("look"), "second"), [look], history=history)
    first = Background(lambda: loop.run("first"))
    assert gate.reached.wait(BOUND)
    stopped = turnctl.stop(loop.session_id, wait=BOUND)
    assert stopped.over
    assert history.begun.wait(BOUND)
    second = Background(lambda: loop.run("second"))
    assert not until(lambda: not second.is_running, within=0.1)
    history.go_on.set()

    assert "second" == second.result().unwrap()
    assert "cancelled" == first.result().stop_reason
    assert ["first", "second"] == [one.text for one in history.transcript if one.role == "user"]
    feed_is_strict(loop)


def test_thread_that_was_left_ends_no_step(gate: Gate) -> None:
    """One that comes back while the run is ending changes nothing: the step is ended once, by who closes the run."""
    run = AgentLoop(gate.pass_through)._made("please", None, None, None)
    seen: list[tuple[StepRecord, ...]] = []

    def comes_back() -> None:
        gate.open()
        assert until(lambda: run.driver._has_ended)
        seen.append(run.state.steps)

    stopping = Background(lambda: gate.reached.wait(BOUND) and run.turn.cancel("enough"))
    with call_at("turn.end.leaving", comes_back):
        result = run.go()
    stopping.result()

    assert [()] == seen
    assert ["cancelled"] == [one.outcome for one in result.record.steps]


@pytest.mark.parametrize("parallel", [1, 2])
def test_second_tool_of_a_reply_has_its_grace(parallel: int, gate: Gate) -> None:
    """A tool that has begun a turn has the grace, also where one before it in the reply was on the same thread."""

    def look() -> str:
        """Look."""
        return "seen"

    def acts() -> str:
        """Act."""
        with turnctl.turn():
            return gate.pass_through()

    tools = [look, Tool(acts, parallel=False)]
    loop = AgentLoop(Played(calls("look", "look", "acts")), tools, parallel=parallel, patience="10ms")

    def stop() -> None:
        loop.cancel("enough")
        threading.Timer(0.15, gate.open).start()  # long after the patience, and well within the grace

    stopped = stop_inside(loop, gate, stop=stop)

    assert ["completed"] * 3 == list(statuses(loop).values())
    assert () == stopped.result.report.alive


def test_step_whose_time_is_over_is_cancelled() -> None:
    """It is in the record as cancelled, also where its stop is seen before that of the run."""
    with pause_at("token.cancel.flagged") as flagged:
        loop = AgentLoop(lambda *_: str(flagged.reached.wait(BOUND)), step_timeout="20ms", patience=BOUND)
        result = loop.run("please")

    assert ("cancelled", "deadline") == (result.stop_reason, result.cause)
    assert ["cancelled"] == [one.outcome for one in result.record.steps]
    assert "step 1 took longer than 20ms" == result.record.reason
