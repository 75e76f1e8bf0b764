"""A Ctrl-C of Python's own while the events of a run are read: the record says so, and is there when it passes out."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from interrupts import every_place
from loops import Gate, Played, Writing, is_strict
from standins import ctrl_c_once

from turnctl.agent import AgentLoop, RunRecord, RunStream
from turnctl.agent.streaming import _Feed


class Ends:
    """A hook that hears of the end, and takes its time."""

    def __init__(self, gate: Gate | None = None) -> None:
        self.records: list[RunRecord] = []
        self._gate = gate

    def on_run_end(self, record: RunRecord) -> None:
        self.records.append(record)
        if self._gate is not None:
            self._gate.pass_through()


@pytest.mark.parametrize("form", ["with", "for", "resume"])
def test_ctrl_c_that_waits_for_an_event_is_a_signal(form: str) -> None:
    """As for ``run``: cause ``signal``; history, record and hooks are done when it passes out."""
    with Gate() as gate:
        hooks = Ends()
        loop = AgentLoop(Writing(["par", gate.pass_through, "tial"]), hooks=hooks)
        if form == "resume":
            first = AgentLoop(Played("x"))
            first.cancel("later")
            events = loop.resume_stream(first.run("please").checkpoint or {})
        else:
            events = loop.stream("please")
        with pytest.raises(KeyboardInterrupt), ctrl_c_once(gate.reached):
            if form == "for":
                list(events)
            else:
                with events:
                    list(events)

        assert ("cancelled", "signal", "KeyboardInterrupt") == (
            loop.runs[0].stop_reason,
            loop.runs[0].cause,
            loop.runs[0].reason,
        )
        assert events.result is not None
        assert ("par", [loop.runs[0].run_id]) == (events.result.partial, [one.run_id for one in hooks.records])
        assert [] == list(events)
        is_strict(loop.history.feed)


@pytest.mark.parametrize(("error", "cause"), [(KeyboardInterrupt, "signal"), (ZeroDivisionError, "closed")])
def test_what_strikes_in_the_body_is_the_cause(error: type[BaseException], cause: str) -> None:
    """A Ctrl-C in the ``with`` is a signal; any other way out of it is a run whose events are not wanted any more."""
    loop = AgentLoop(Writing(["a", "b"]))
    with pytest.raises(error), loop.stream("please") as events:
        for event in events:
            if event.kind == "delta":
                raise error

    assert ("cancelled", cause) == (loop.runs[0].stop_reason, loop.runs[0].cause)


def test_a_second_ctrl_c_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """It strikes who waits for the end: no hook is waited for any more, and the first one passes out."""
    strikes: list[Any] = []
    join = RunStream._join

    def struck(self: RunStream) -> None:
        if not strikes:
            assert gate.reached.wait(10)
            strikes.append(time.monotonic())
            raise KeyboardInterrupt
        join(self)

    with Gate() as gate, monkeypatch.context() as patch:
        patch.setattr(RunStream, "_join", struck)
        loop = AgentLoop(Writing(["a", "b"]), hooks=Ends(gate), grace="20s")
        first = KeyboardInterrupt("first")
        with pytest.raises(KeyboardInterrupt) as raised, loop.stream("please") as events:
            next(events)
            raise first
        took = time.monotonic() - strikes[0]

        assert (first, "signal") == (raised.value, loop.runs[0].cause)
        assert events.result is not None
        assert any("on_run_end of Ends" in note for note in events.result.record.notes)
        assert took < 10


def test_ctrl_c_while_a_stream_is_closed_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was left before: cause ``closed``. It passes out when all is recorded."""
    join, strikes = RunStream._join, [KeyboardInterrupt("closing")]

    def struck(self: RunStream) -> None:
        if strikes:
            raise strikes.pop()
        join(self)

    loop = AgentLoop(Writing(["a", "b"]))
    events = loop.stream("please")
    next(events)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt, match="closing"):
        patch.setattr(RunStream, "_join", struck)
        events.close()

    assert ("closed", "cancelled") == (loop.runs[0].cause, events.result and events.result.stop_reason)


def test_ctrl_c_in_the_first_lines_leaves_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It strikes when the thread has been started, and nobody knows of it yet: the first event ends the run."""
    over = threading.Event()
    start, go = RunStream._start, _Feed.go

    def started(self: RunStream) -> None:
        start(self)
        self._thread = None
        raise KeyboardInterrupt

    def gone(self: _Feed) -> None:
        go(self)
        over.set()

    model = Writing(["a", "b"])
    loop = AgentLoop(model)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStream, "_start", started)
        patch.setattr(_Feed, "go", gone)
        with loop.stream("please") as events:
            next(events)
    assert over.wait(10)

    assert ("signal", []) == (loop.runs[0].cause, model.requests)


def test_ctrl_c_anywhere_in_closing_leaves_no_run() -> None:
    """Whichever instruction it strikes, the run is over when the stream has been closed once more at the latest."""

    def strike() -> None:
        raise KeyboardInterrupt

    going_on = []
    for interruption in every_place(strike, within=(RunStream._close.__code__,)):
        loop = AgentLoop(Writing(["a", "b"]))
        events = loop.stream("please")
        next(events)
        try:
            interruption.run(events.close)
        except KeyboardInterrupt:
            events.close()
        if events.result is None:
            going_on.append(interruption.struck_in)
            events._feed.leave()
            events._join()

    assert [] == going_on
