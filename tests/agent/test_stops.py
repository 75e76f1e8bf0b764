"""What a stop does beside what it is for: nothing starts after it, nobody is told of a failure, each end is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, Writing, calls, feed_is_strict, is_strict, statuses, stop_inside
from standins import until

import turnctl
from turnctl.agent import (
    AgentLoop,
    Breaker,
    Call,
    Event,
    Message,
    Result,
    Retry,
    Tool,
    WindowExceeded,
    to_anthropic,
    to_openai,
)
from turnctl.errors import CancelledError
from turnctl.testing import call_at

#: ten times what is promised, and a floor: the machine of a test is shared
PROMPT_S = 1.0
ANY = {"type": "object"}


def _tool(fn: Callable[..., Any], name: str, **options: Any) -> Tool:
    return Tool(lambda **_: fn(), name=name, schema=ANY, **options)


class Counted:
    """A tool that counts how often it was started."""

    def __init__(self) -> None:
        self.started = 0

    def __call__(self) -> str:
        self.started += 1
        return "done"


def _goes_on(loop: AgentLoop) -> None:
    """The next run is whole, and is sent a history that both wires take."""
    loop.model.replies[:] = [["fi", "ne"]] if isinstance(loop.model, Writing) else ["fine"]
    loop.compactor = None
    assert "fine" == loop.run("again").unwrap()
    is_strict(loop.model.requests[-1])


# -- nothing starts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("where", ["model", "hook", "question", "rule", "first call"])
def test_what_was_stopped_is_not_started(where: str, parallel: int) -> None:
    """A call that comes behind a stop is never started, not even once, whoever fired it and however often one tries."""
    for _ in range(5):
        counted, asked = Counted(), Counted()

        def stops(at: str, then: Any) -> Any:
            if at == where:
                loop.cancel(f"in the {at}")  # noqa: B023
            return then

        hooks = type("Host", (), {"before_tool": lambda self, call: stops("hook", None)})()
        tools = [
            _tool(lambda: stops("first call", "x"), "first", parallel=False),
            _tool(counted, "counted"),
            _tool(asked, "asked", approval=lambda _: stops("rule", True)),
        ]
        wanted = calls("first", *["asked"] * parallel, "counted", "counted")  # what is asked about is a wave of its own
        model = Played(lambda: stops("model", wanted), "never")  # noqa: B023
        options: dict[str, Any] = {"hooks": hooks, "ask": lambda _: stops("question", True), "parallel": parallel}
        loop = AgentLoop(model, tools, patience=5, **options)
        result = loop.run("please")

        assert ("cancelled", 0, 1) == (result.stop_reason, asked.started, len(model.requests))
        if parallel == 1 or where not in ("rule", "question"):  # else it runs beside the one that is asked about
            assert 0 == counted.started
        feed_is_strict(loop)


def test_no_event_follows_the_stop_of_a_stream() -> None:
    """A reply that goes on and on: no piece is told after the stop, and the model is not asked on."""
    said: list[str] = []

    def source() -> Any:
        while True:
            time.sleep(0.001)
            yield "x"

    model = Writing(source(), "never")
    loop = AgentLoop(model)
    with loop.stream("please") as events:
        for event in events:
            if event.kind == "delta":
                said.append("x")
                if len(said) == 3:
                    loop.cancel("enough")
    result = events.result

    assert result is not None
    assert (["x"] * 3, "cancelled") == (said, result.stop_reason)
    assert (result.partial or "").startswith("xxx")  # with what had come and was not told yet
    assert 1 == len(model.requests)
    _goes_on(loop)


@pytest.mark.parametrize("after", ["tool_started", "tool_ended", "reply", "delta"])
def test_a_stream_that_is_left_starts_nothing(after: str) -> None:
    """Leaving the events at any of them raises nothing, starts no call and no further step."""
    counted = Counted()
    model = Writing(["let me ", calls("counted", "counted")], ["never"])
    loop = AgentLoop(model, [_tool(counted, "counted")])
    for event in loop.stream("please"):
        if event.kind == after:
            break

    assert {"tool_started": 0, "tool_ended": 1, "reply": 0, "delta": 0}[after] == counted.started
    assert ("cancelled", "closed", 1) == (loop.runs[0].stop_reason, loop.runs[0].cause, len(model.requests))
    _goes_on(loop)


def test_a_tool_that_comes_back_late_changes_nothing() -> None:
    """One that ignores the stop far beyond the patience: no request follows, and its value is told to nobody."""
    came = threading.Event()
    with Gate() as gate:

        def ignores() -> str:
            gate.pass_through()
            came.set()
            return "too late"

        loop = AgentLoop(Played(calls("ignores"), "never"), [_tool(ignores, "ignores")], patience="10ms")
        stop_inside(loop, gate)
        before = loop.history.feed
    assert came.wait(10)
    time.sleep(0.02)

    assert (1, before, {"c1": "cancelled_unknown"}) == (len(loop.model.requests), loop.history.feed, statuses(loop))
    _goes_on(loop)
    assert "too late" not in str(loop.history.transcript)


# -- waits and waves --------------------------------------------------------------------------------------------------


def _full() -> Any:
    raise WindowExceeded("too long")


@pytest.mark.parametrize("what", ["whole", "cut", "torn stream", "after a recovery"])
def test_a_stop_in_a_back_off(what: str) -> None:
    """Whatever is waited for before the next attempt, also after a recovery: awake at once, and no attempt is made."""
    waiting = Gate()
    model: Played = {
        "whole": lambda: Played(ConnectionError("gone"), "never"),
        "cut": lambda: Writing(["hal", ConnectionError("gone")], ["never"]),
        "torn stream": lambda: Writing([ConnectionError("gone")], ["never"]),
        "after a recovery": lambda: Played(_full, ConnectionError("gone"), "never"),
    }[what]()
    loop = AgentLoop(
        model,
        history=["a", ("assistant", "b")],
        compactor=lambda messages: [messages[-1]] if len(model.requests) == 1 and what[0] == "a" else None,
        retry=Retry(wait=60, longest=60),
        observers=lambda event: event.kind == "retry" and waiting.reached.set(),
    )
    stopped = stop_inside(loop, waiting)

    assert ("cancelled", 1) == (stopped.result.stop_reason, stopped.result.record.retries)
    assert stopped.took_s < PROMPT_S
    assert (2 if what == "after a recovery" else 1) == len(model.requests)
    assert ("hal" if what == "cut" else None) == stopped.result.partial
    _goes_on(loop)


def test_a_stop_in_a_recovery() -> None:
    """The window is full, and who should make room hangs: cancelled, the history as it was, and nothing discarded."""
    with Gate() as gate:
        model = Played(_full, "never")
        loop = AgentLoop(model, history=["a", ("assistant", "b")])
        loop.compactor = lambda _: gate.pass_through() if model.requests else None
        stopped = stop_inside(loop, gate)

    assert ("cancelled", 1) == (stopped.result.stop_reason, len(model.requests))
    assert stopped.took_s < PROMPT_S
    assert ["a", "b", "please"] == [one.text for one in loop.history.feed]
    _goes_on(loop)


@pytest.mark.parametrize("at", ["run.failing", "turn.end.deciding"])
def test_a_stop_beside_a_full_window_discards_nothing(at: str) -> None:
    """The error was there first, and the stop before the run had failed of it: a cancelled run keeps what it did."""
    loop = AgentLoop(Played(calls("word"), _full), [_tool(lambda: "word", "word")])
    with call_at(at, lambda: loop.cancel("just now")):
        result = loop.run("please")

    assert "cancelled" == result.stop_reason
    assert ["user", "assistant", "tool"] == [one.role for one in loop.history.feed]


def test_a_stopped_wave_takes_one_grace() -> None:
    """Calls side by side that act and cannot be stopped have the grace at the same time, not one after the other."""
    with Gate() as gate:
        inside = threading.Barrier(8, action=gate.reached.set, timeout=10)
        late = Gate()

        def acts() -> str:
            inside.wait()
            return late.pass_through()

        tool = _tool(acts, "acts", effect="mail.send")
        reply = Message.assistant("", [Call(f"c{n}", "acts", {"to": n}) for n in range(8)])  # eight effects
        loop = AgentLoop(Played(reply), [tool], parallel=8, grace="250ms")
        stopped = stop_inside(loop, gate)

        assert 0.2 < stopped.took_s < 1.5  # of 2 s
        assert {"cancelled_unknown"} == set(statuses(loop).values())
        assert 8 == stopped.result.report.effects_unresolved
        late.open()
    _goes_on(loop)


# -- no failure -------------------------------------------------------------------------------------------------------


class Counts:
    """A breaker of the host's own, and what it was told."""

    failures = 0

    def __init__(self) -> None:
        self.told: list[str] = []

    def allows(self) -> bool:
        self.told.append("allows")
        return True

    def failed(self, error: Exception) -> None:
        self.told.append(f"failed {error}")

    def succeeded(self) -> None:
        self.told.append("succeeded")


@pytest.mark.parametrize("streaming", [False, True])
def test_what_breaks_under_a_stop_is_no_failure(streaming: bool) -> None:
    """An error that the stop has caused: no breaker, no failure hook, no retry and no event hears of it."""
    events: list[Event] = []
    failures: list[BaseException] = []
    breaker = Counts()
    hooks = type("Host", (), {"on_failure": lambda self, error: failures.append(error)})()
    with Gate() as gate:

        def breaks() -> Any:
            gate.reached.set()
            assert until(loop.cancel_signal.is_cancelled)
            raise ConnectionError("closed under me")

        model = Writing(["par", breaks], ["never"]) if streaming else Played(breaks, "never")
        loop = AgentLoop(model, hooks=hooks, breaker=breaker, observers=events.append, retry=Retry(wait=0), patience=5)
        result = stop_inside(loop, gate).result

    assert ("cancelled", 0, [], ["allows"]) == (result.stop_reason, result.record.retries, failures, breaker.told)
    assert "retry" not in [one.kind for one in events]
    (ended,) = [one for one in events if one.kind == "step_ended"]
    assert (False, 0) == (ended.ok, ended.usage.total_tokens if ended.usage else None)
    _goes_on(loop)
    assert ["allows", "allows", "succeeded"] == breaker.told


def test_a_stop_in_the_one_attempt_of_a_breaker() -> None:
    """A breaker that lets one attempt decide is left as it was when that one is stopped: the next one decides."""
    breaker = Breaker(1, rest=0)
    with Gate() as gate:
        loop = AgentLoop(Played(ConnectionError("gone"), gate.pass_through), breaker=breaker, retry=Retry(1))
        loop.run("fails")
        stop_inside(loop, gate)

    assert (1, True) == (breaker.failures, breaker.allows())
    _goes_on(loop)
    assert 0 == breaker.failures


def test_a_reflection_may_ask_a_model() -> None:
    """A reflection upon a failure that is a run of its own is stopped with the run, and reflects on no stop."""
    reflected: list[str] = []

    def fails() -> str:
        raise OSError("broken")

    with Gate() as gate:
        thinker = AgentLoop(Played(gate.pass_through))

        class Memory:
            def reflect(self, call: Call, result: Result) -> str:
                reflected.append(result.status)
                return thinker.run("what went wrong?").text

        loop = AgentLoop(Played(calls("fails"), "never"), [_tool(fails, "fails")], memory=Memory())
        stopped = stop_inside(loop, gate)

    assert ("cancelled", ["failed"], 1) == (stopped.result.stop_reason, reflected, len(loop.model.requests))
    assert ("cancelled", "parent") == (thinker.runs[0].stop_reason, thinker.runs[0].cause)
    assert stopped.took_s < PROMPT_S
    assert {"c1": "failed"} == statuses(loop)


# -- the end ----------------------------------------------------------------------------------------------------------


class Ends:
    """What the end of each run was told as."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None]] = []

    def on_run_end(self, record: Any) -> None:
        self.told.append((record.stop_reason, record.cause))


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("window", ("failed", None)),
        ("steps", ("cancelled", "budget")),
        ("time", ("cancelled", "deadline")),
        ("left", ("cancelled", "closed")),
        ("parent", ("cancelled", "parent")),
        ("exit", ("cancelled", "closed")),
        ("by name", ("cancelled", "user")),
    ],
)
def test_every_other_end_is_told_once(way: str, expected: tuple[str, str | None]) -> None:
    """``on_run_end`` and the last event come once each, however else a run ends, and each step that began has ended."""
    ends, events = Ends(), list[Event]()

    def exits() -> Any:
        raise SystemExit(3)

    def stops() -> Any:
        turnctl.stop(loop.session_id)
        return "x"

    with Gate() as gate:
        replies: dict[str, list[Any]] = {
            "window": [_full],
            "steps": [calls("word")] * 2,
            "time": [gate.pass_through],
            "exit": [exits],
            "by name": [stops],
        }
        loop = AgentLoop(
            Played(*replies.get(way, ["x"])),
            [_tool(lambda: "word", "word")],
            hooks=ends,
            observers=events.append,
            max_steps=1 if way == "steps" else 50,
            timeout="20ms" if way == "time" else None,
        )
        if way == "exit":
            with pytest.raises(SystemExit):
                loop.run("please")
        elif way == "left":
            with loop.stream("please") as stream:
                next(stream)
        elif way == "parent":
            with turnctl.turn() as outer:
                loop.observers = (*loop.observers, lambda event: event.kind == "reply" and outer.cancel())
                loop.model.replies[:] = [lambda: outer.cancel() and "x"]
                loop.run("please")
        else:
            loop.run("please")

    kinds = [one.kind for one in events]
    assert [expected] == ends.told == [(one.stop_reason, one.cause) for one in loop.runs]
    assert (1, "run_ended") == (kinds.count("run_ended"), kinds[-1])
    assert kinds.count("step_started") == kinds.count("step_ended")


@pytest.mark.parametrize("who", ["hook", "observer"])
def test_a_stop_that_is_fired_at_the_end(who: str) -> None:
    """One fired by who is told of the end is answered by that run, and is not the next one's."""
    answers: list[str] = []

    def fires(*_: Any) -> None:
        answers.append(loop.cancel("at the end").kind)

    hooks = type("Host", (), {"on_run_end": fires})() if who == "hook" else ()
    loop = AgentLoop(Played("one", "two"), hooks=hooks)
    loop.observers = (lambda event: event.kind == "run_ended" and fires(),) if who == "observer" else ()
    first = loop.run("a")
    loop.hooks = loop.observers = ()

    assert (["already_ended"], "completed") == (answers, first.stop_reason)
    assert "two" == loop.run("b").unwrap()


def test_a_hook_of_the_end_may_begin_the_next_run() -> None:
    """One that goes on by itself: each run has one record, in the order in which they ended, and its own signal."""

    class Host:
        def on_run_end(self, record: Any) -> None:
            if "a" == record.input[0].text:
                loop.run("b")
                raise OSError("no disk")

    loop = AgentLoop(Played("one", "two", "three"), hooks=Host())
    result = loop.run("a")

    assert [("a", "one"), ("b", "two")] == [(one.input[0].text, one.output) for one in loop.runs]
    assert (result.record, "one") == (loop.runs[0], result.text)
    assert result.message is not None
    assert result.checkpoint is not None
    assert ("one", ["a", "one"]) == (result.message.text, [one.text for one in result.checkpoint.transcript])
    assert "no disk" in result.record.notes[0]
    assert "armed" == loop.cancel("the next").kind
    assert ["cancelled", "completed"] == [loop.run("c").stop_reason, loop.run("d").stop_reason]


def test_a_handle_is_good_for_every_run() -> None:
    """One signal, taken before the first run: it stops the third, and who waited through the others wakes for that."""
    with Gate() as gate:
        loop = AgentLoop(Played("one", "two", gate.pass_through))
        signal, woken = loop.cancel_signal, list[bool]()
        watcher = threading.Thread(target=lambda: woken.append(signal.wait(10)))
        watcher.start()
        assert until(lambda: signal._waiters)
        loop.run("a")
        loop.run("b")
        assert watcher.is_alive()
        third = stop_inside(loop, gate, stop=lambda: signal.cancel("the third")).result
        watcher.join(10)

    assert ("cancelled", "the third", [True]) == (third.stop_reason, third.record.reason, woken)
    assert signal is loop.cancel_signal
    with pytest.raises(CancelledError, match="the third"):
        third.unwrap()


def test_what_the_model_is_told_of_three_calls() -> None:
    """Stopped in the second of three: the next request has each of them once, and says what is true of it."""
    with Gate() as gate:
        tools = [_tool(lambda: "found it", "first"), _tool(gate.pass_through, "gate"), _tool(lambda: "x", "third")]
        loop = AgentLoop(Played(calls("first", "gate", "third")), tools)
        stop_inside(loop, gate)
    _goes_on(loop)
    request = loop.model.requests[-1]
    chat = [one for one in to_openai(request) if one["role"] == "tool"]
    blocks = [block for one in to_anthropic(request)[1] if isinstance(one["content"], list) for block in one["content"]]
    results = [one for one in blocks if one["type"] == "tool_result"]
    expected = ["found it", "cancelled, outcome unknown", "stopped before it started"]

    assert expected == [one["content"].partition(":")[0] for one in chat]
    assert ["c1", "c2", "c3"] == [one["tool_call_id"] for one in chat] == [one["tool_use_id"] for one in results]
    told = [one["content"] if isinstance(one["content"], str) else one["content"][0]["text"] for one in results]
    assert expected == [one.partition(":")[0] for one in told]
    assert Message.user("again") == request[-1]


# -- a run in a turn --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["turn.begin.registered", "signal.bound", "run.begun"])
def test_a_stop_of_the_parent_as_a_run_begins(at: str) -> None:
    """Between the look at the turn around it and its own work: cancelled, cause ``parent``, and nothing is sent."""
    model = Played("never")
    loop = AgentLoop(model)
    with turnctl.turn() as outer:
        with call_at(at, lambda: outer.cancel("outer")):
            loop.run("please")
        pytest.fail("the stop of the turn around it is raised")

    assert ("cancelled", "parent", []) == (loop.runs[0].stop_reason, loop.runs[0].cause, model.requests)
    assert ["please"] == [one.text for one in loop.history.feed]
    _goes_on(loop)
