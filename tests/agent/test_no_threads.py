"""A run in a process that gets no more threads: it ends as it would have, and says what is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, calls, stop_inside

import turnctl
from turnctl.agent import AgentLoop, RunResult, tool

Refuse = Callable[[str], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """From the call on, no thread whose name begins like that can be started."""
    start = threading.Thread.start

    def begin(prefix: str) -> None:
        def refuses(thread: threading.Thread) -> None:
            if thread.name.startswith(prefix):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", refuses)

    return begin


def test_run_is_closed_all_the_same(refuse: Refuse) -> None:
    """Where its closing gets no thread of its own, the caller closes it."""
    refuse("turnctl-thread-closing")
    loop = AgentLoop(Played("done"))

    assert "done" == loop.run("go").unwrap()
    assert "completed" == loop.runs[-1].stop_reason


def test_hook_of_the_end_without_a_thread_is_noted(refuse: Refuse) -> None:
    """It cannot be bounded, so it is not called: noted, and what comes behind it is done."""

    class Ends:
        def on_run_end(self, _: Any) -> None: ...

    kept: list[Any] = []
    refuse("turnctl-thread-on_run_end")
    result = AgentLoop(Played("done"), hooks=[Ends()], checkpoint=kept.append).run("go")

    (note,) = result.record.notes
    assert note.startswith("on_run_end of Ends was not called: BlockingIOError")
    assert "completed" == kept[-1].stop_reason


def test_abort_without_a_thread_holds_no_stop_up(refuse: Refuse) -> None:
    """The stop goes on without it, is not taken for a strike, and the report says that it was not called."""
    aborted: list[int] = []
    with Gate() as gate:

        class Model:
            complete = staticmethod(gate.pass_through)

            def abort(self) -> None:
                aborted.append(1)

        refuse("turnctl-abort")
        stopped = stop_inside(AgentLoop(Model()), gate)

    assert ("cancelled", "user") == (stopped.result.stop_reason, stopped.result.cause)
    assert [] == aborted
    (note,) = stopped.result.report.notes
    assert note.startswith("abort of call Gate.pass_through was not called: BlockingIOError")


class Window:
    """A source of the host's: it shows the question, and may block."""

    def __init__(self) -> None:
        self.shown = threading.Event()
        self.withdrawn = 0
        self.holds: Callable[[], object] = bool

    def post(self, _: Any) -> object:
        return self.shown.set()

    def withdraw(self, _: Any) -> object:
        self.withdrawn += 1
        return self.holds()


def stopped_while_asking(window: Window, *, grace: float = 5.0) -> RunResult:
    @tool(approval=True)
    def rm() -> str:
        raise AssertionError("it must not be carried out")

    loop = AgentLoop(Played(calls("rm")), [rm], ask=window, grace=grace)
    stopping = threading.Thread(target=lambda: window.shown.wait(10) and loop.cancel("enough"))
    stopping.start()
    result = loop.run("go")
    stopping.join()
    return result


def test_question_without_a_thread_is_withdrawn(refuse: Refuse) -> None:
    """A stop that cannot tell whoever was asked is a stop: the question is on record as cancelled, and it is said."""
    window = Window()
    refuse("turnctl-thread-withdrawing")
    result = stopped_while_asking(window)

    assert ("cancelled", "user") == (result.stop_reason, result.cause)
    assert [("cancelled", "while awaiting approval")] == [(one.kind, one.reason) for one in result.record.gates]
    assert 0 == window.withdrawn
    (note,) = result.report.notes
    assert note.startswith("withdrawing allow rm {}? [y/N] was not called: BlockingIOError")


def test_question_that_is_not_taken_back_in_time() -> None:
    """A window that hangs while it takes its question back holds no stop up, and the report names it."""
    window = Window()
    with Gate() as gate:
        window.holds = gate.pass_through
        result = stopped_while_asking(window, grace=0.05)

        assert [("cancelled", "while awaiting approval")] == [(one.kind, one.reason) for one in result.record.gates]
        (note,) = result.report.notes
        assert note.startswith("withdrawing allow rm {}? [y/N] was left behind (")
        assert note.endswith("it did not come back within 50ms")


def test_observer_before_one_without_a_thread_ends(refuse: Refuse) -> None:
    """The run fails with that error, and no thread stays behind."""

    def first(_: Any) -> None: ...

    def second(_: Any) -> None: ...

    second.__qualname__ = "second"
    refuse("turnctl-observer-second")
    result = AgentLoop(Played("done"), observers=[first, second]).run("go")

    assert isinstance(result.error, BlockingIOError)
    assert not any("observer" in one.name for one in threading.enumerate())


def test_abort_of_a_plain_call_without_a_thread(refuse: Refuse) -> None:
    """The same for ``turn.call``: what is raised is the stop."""
    with Gate() as gate:
        refuse("turnctl-abort")
        with turnctl.turn(grace=0) as turn:
            stopping = threading.Thread(target=lambda: gate.reached.wait(10) and turn.cancel("enough"))
            stopping.start()
            turn.call(gate.pass_through, abort=lambda: None)
        stopping.join()

    assert "cancelled" == turn.outcome
    assert any("was not called" in note for note in turn.report.notes)
