"""A plain Ctrl-C that strikes the one who called ``run``, while the run begins or is being closed."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import signal
import threading
import time
from typing import Any

import pytest
from interrupts import every_place
from loops import Gate, Played, calls, feed_is_strict

import turnctl
from turnctl.agent import AgentLoop, RunCheckpoint, RunRecord, running
from turnctl.testing import call_at
from turnctl.tokens import registry, scope
from turnctl.waiting import driving


def _press() -> None:
    """Ctrl-C, as Python's own handler has it."""
    found = threading.main_thread().ident
    assert found is not None
    signal.pthread_kill(found, signal.SIGINT)


class _Ends:
    def __init__(self, then: Any = None) -> None:
        self.heard: list[str] = []
        self._then = then

    def on_run_end(self, record: RunRecord) -> None:
        self.heard.append(record.stop_reason)
        if self._then is not None:
            self._then()


@pytest.mark.parametrize("presses", [1, 3])
def test_end_of_a_run_is_not_cut(presses: int) -> None:
    """Each hook hears of the end once, the record and the last checkpoint are kept, and then the Ctrl-C is raised."""

    def press() -> None:
        for _ in range(presses):
            _press()

    first, second = _Ends(press), _Ends()
    kept: list[RunCheckpoint] = []
    loop = AgentLoop(Played(calls("look"), "done", "again"), [_look], hooks=[first, second], checkpoint=kept.append)
    with pytest.raises(KeyboardInterrupt):
        loop.run("go")

    assert [["completed"], ["completed"]] == [first.heard, second.heard]
    assert "completed" == loop.runs[-1].stop_reason
    assert "completed" == kept[-1].stop_reason
    feed_is_strict(loop)
    first._then = None
    assert "again" == loop.run("more").unwrap()


def test_ctrl_c_ends_the_wait_for_a_last_hook() -> None:
    """One that hangs is left behind, noted, and the next is called all the same."""
    with Gate() as gate:
        over = threading.Event()
        second = _Ends(over.set)
        loop = AgentLoop(Played("done"), hooks=[_Ends(gate.pass_through), second])

        def presses() -> None:
            assert gate.reached.wait(10)
            _press()
            while not over.wait(0.5):
                _press()  # again: one that comes right before the system is asked to wait is seen when that is over

        presser = threading.Thread(target=presses)
        presser.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            loop.run("go")
        took = time.monotonic() - began
        presser.join()

        assert 4 > took
        assert ["completed"] == second.heard
        (note,) = loop.runs[-1].notes
        assert "on_run_end of _Ends was left behind" in note


@pytest.mark.parametrize("at", ["turn.begin.registered", "bind"])
def test_ctrl_c_as_a_run_begins_leaves_the_loop_free(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes out, and neither a turn that nobody ends nor one that is bound here stays behind."""
    loop = AgentLoop(Played("done"))
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        if at == "bind":
            patch.setattr(scope, "Binding", _strike)
        else:
            stack.enter_context(call_at(at, _strike))
        loop.run("go")

    assert [] == registry.all_turns()
    assert turnctl.current_turn() is None
    assert "done" == loop.run("more").unwrap()


@pytest.mark.parametrize("where", ["before", "behind"])
def test_ctrl_c_around_the_closing_leaves_it_done_once(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the few instructions on either side of it: the run is closed all the same, and once; then it passes out."""
    close, left = running.close, [KeyboardInterrupt()]

    def struck(*given: Any) -> Any:
        if where == "behind":
            found = close(*given)
        if left:
            raise left.pop()
        return close(*given) if where == "before" else found

    monkeypatch.setattr(running, "close", struck)
    ends = _Ends()
    loop = AgentLoop(Played(calls("look"), "done"), [_look], hooks=[ends])
    with pytest.raises(KeyboardInterrupt):
        loop.run("go")

    assert (["completed"], ["completed"]) == (ends.heard, [one.stop_reason for one in loop.runs])
    feed_is_strict(loop)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_what_strikes_the_end_of_the_turn_passes_out(error: type[BaseException]) -> None:
    """The run stays completed, with its record; what a handler has raised is raised when that is kept."""

    def strikes() -> None:
        raise error

    loop = AgentLoop(Played("done"))
    with call_at("turn.end.leaving", strikes), pytest.raises(error):
        loop.run("go")

    assert "completed" == loop.runs[-1].stop_reason


def _requests(loop: AgentLoop) -> list[list[str]]:
    return [[one.text for one in request] for request in loop.model.requests]


def test_ctrl_c_before_the_work_begins_loses_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has a record, and its prompt is in the history, behind what the run before has left; it can go on."""
    kept: list[RunCheckpoint] = []
    loop = AgentLoop(Played("first", "second"), checkpoint=kept.append)
    loop.run("one")
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
        patch.setattr(driving.Driver, "drive", _strike)
        loop.run("two")

    record = loop.runs[-1]
    assert ("cancelled", "signal", "", "two") == (record.stop_reason, record.cause, record.output, record.input[0].text)
    assert 0 < record.started_at <= record.ended_at
    assert ["one", "first", "two"] == [one.text for one in loop.history.feed]
    assert ["two"] == [one.text for one in loop.history.of_run]
    feed_is_strict(loop)
    assert "second" == AgentLoop(loop.model).resume(kept[-1]).text
    assert [["one"], ["one", "first", "two"]] == _requests(loop)


def test_a_run_that_gets_no_thread_keeps_its_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has failed, as one whose model cannot be reached, and the next one sends both prompts."""

    def refuses(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    loop = AgentLoop(Played("both"))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        result = loop.run("one")

    assert ("failed", "") == (result.stop_reason, result.text)
    assert "both" == loop.run("two").text
    assert [["one", "two"]] == _requests(loop)


def test_a_resumed_run_that_is_struck_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint is there still, and the loop has the history that it had; its record has no output of another."""
    failed = AgentLoop(Played(calls("look"), RuntimeError("down")), [_look]).run("go")
    assert failed.checkpoint is not None
    loop = AgentLoop(Played("done"), [_look])
    with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
        patch.setattr(driving.Driver, "drive", _strike)
        loop.resume(failed.checkpoint)

    assert ((), "", "cancelled") == (loop.history.transcript, loop.runs[-1].output, loop.runs[-1].stop_reason)
    assert "done" == loop.resume(failed.checkpoint).text
    feed_is_strict(loop)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a generator that Python closes
def test_wherever_a_ctrl_c_strikes_a_record_has_its_prompt() -> None:
    """At the entry of any function, from the first of a run to its last: what is on record is in the history.

    And no turn is left. Not at each instruction: a handler is not called between a lock and the ``with`` that holds it.
    """
    records = 0
    for one in every_place(_strike, below=AgentLoop.run.__code__):
        loop = AgentLoop(Played("done"))
        with contextlib.suppress(KeyboardInterrupt):
            one.run(functools.partial(contextvars.copy_context().run, loop.run, "go"))
        records += len(loop.runs)
        prompts = [message.text for message in loop.history.feed if message.role == "user"]

        assert [record.input[0].text for record in loop.runs] == prompts[: len(loop.runs)], one.struck_in
        assert [] == registry.all_turns(), one.struck_in
        feed_is_strict(loop)
    assert 10 < records


def _strike(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _look() -> str:
    """Look."""
    return "seen"


_look.__name__ = _look.__qualname__ = "look"
