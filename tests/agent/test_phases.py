"""A stop in each phase of a run: cancelled, prompt, paired, and the next run works."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, Writing, calls, feed_is_strict, statuses, stop_inside

from turnctl.agent import AgentLoop, Breaker, Call, CallDelta, Desk, Event, Message, Reply, Result, Retry, Usage
from turnctl.errors import CancelledError
from turnctl.testing import call_at

#: ten times what is promised, and a floor: the machine of a test is shared
PROMPT_S = 1.0


class Heard:
    """Hooks and events, as they came."""

    def __init__(self) -> None:
        self.hooks: list[str] = []
        self.events: list[Event] = []

    def on_run_end(self, record: Any) -> None:
        self.hooks.append(f"end {record.stop_reason}")

    def on_failure(self, error: Exception) -> None:
        self.hooks.append(f"failure {error}")

    def before_tool(self, call: Call) -> None:
        self.hooks.append(f"before {call.id}")

    def after_tool(self, call: Call, _: Result) -> None:
        self.hooks.append(f"after {call.id}")


def _quiet() -> str:
    """A tool that gives a word."""
    return "word"


def _hooks(name: str, gate: Gate) -> dict[str, Any]:
    return {"hooks": [type("Host", (), {name: gate.pass_through})()]}


def _memory(name: str, gate: Gate) -> dict[str, Any]:
    return {"memory": type("Memory", (), {name: gate.pass_through})()}


def _failing() -> str:
    """A tool that fails."""
    raise OSError("broken")


def _model(*replies: Any) -> dict[str, Any]:
    return {"model": Played(*replies)}


class _Probed(Played):
    probe: Callable[[], object]


def _probed(gate: Gate) -> dict[str, Any]:
    model = _Probed("never")
    model.probe = gate.pass_through
    return {"model": model}


class _Compacting:
    def __init__(self, compact: Callable[..., Any], demote: Callable[..., Any] | None = None) -> None:
        self.compact = compact
        if demote is not None:
            self.demote = demote


class _Breaking:
    failures = 0

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def allows(self) -> bool:
        return self.failures > 0 or bool(self._gate.pass_through())

    def succeeded(self) -> None:
        pass

    def failed(self, _: Exception) -> None:
        pass


class _Asking(Writing):
    """A model that hangs before its stream is there, once."""

    def stream(self, messages: list[Message], _tools: list[Any]) -> Any:
        if callable(self.replies[0]):
            self.requests.append(messages)
            return self.replies.pop(0)()
        return super().stream(messages, _tools)


class _Shown:
    """A value that hangs where it is shown."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __str__(self) -> str:
        return self._gate.pass_through()

    __repr__ = __str__


_FALLBACK = type("Fallback", (Played,), {"stream": lambda *_: (_ for _ in ()).throw(NotImplementedError())})


def _fallback(gate: Gate) -> dict[str, Any]:
    return {"model": _FALLBACK(gate.pass_through)}


#: what the loop is made of, and what its feed is afterwards: roles, and the status of each call
PHASES: dict[str, tuple[Callable[[Gate], dict[str, Any]], str, dict[str, str]]] = {
    "probe": (_probed, "u", {}),
    "run start hook": (lambda g: _model("x") | _hooks("on_run_start", g), "u", {}),
    "before step hook": (lambda g: _model("x") | _hooks("before_step", g), "u", {}),
    "model": (lambda g: _model(g.pass_through), "u", {}),
    "stream, before its first event": (lambda g: {"model": Writing([g.pass_through])}, "u", {}),
    "stream, between events": (lambda g: {"model": Writing(["par", "tial", g.pass_through, "x"])}, "u", {}),
    "stand-in for a stream": (_fallback, "u", {}),
    "first tool": (lambda g: _model(calls("gate", "quiet")), "uat", {"c1": "cancelled_unknown", "c2": "not_started"}),
    "second of three tools": (
        lambda g: _model(calls("quiet", "gate", "quiet")),
        "uat",
        {"c1": "completed", "c2": "cancelled_unknown", "c3": "not_started"},
    ),
    "between two tools": (
        lambda g: _model(calls("quiet", "quiet")) | _hooks("after_tool", g),
        "uat",
        {"c1": "completed", "c2": "not_started"},
    ),
    "model of the second step": (lambda g: _model(calls("quiet"), g.pass_through), "uat", {"c1": "completed"}),
    "stream of the second step": (
        lambda g: {"model": Writing([calls("quiet")], ["par", g.pass_through, "x"])},
        "uat",
        {"c1": "completed"},
    ),
    "before tool hook": (lambda g: _model(calls("quiet")) | _hooks("before_tool", g), "u", {}),
    "after tool hook": (lambda g: _model(calls("quiet")) | _hooks("after_tool", g), "uat", {"c1": "completed"}),
    "after step hook": (lambda g: _model(calls("quiet")) | _hooks("after_step", g), "uat", {"c1": "completed"}),
    "recall": (lambda g: _model("x") | _memory("recall", g), "u", {}),
    "store": (lambda g: _model(calls("quiet")) | _memory("store", g), "uat", {"c1": "completed"}),
    "reflection": (lambda g: _model(calls("failing")) | _memory("reflect", g), "uat", {"c1": "failed"}),
    "consolidation": (lambda g: _model("done") | _memory("consolidate", g), "ua", {}),
    "failure hook": (lambda g: _model(OSError("no"), "x") | _hooks("on_failure", g), "u", {}),
    "compaction": (lambda g: _model("x") | {"compactor": _Compacting(g.pass_through)}, "u", {}),
    "hand-off": (
        lambda g: _model("x") | {"compactor": _Compacting(lambda m: [Message.user("short")], g.pass_through)},
        "u",
        {},
    ),
    "check whether to ask": (lambda g: _model(calls("checked")) | {"ask": lambda _: True}, "u", {}),
    "telling a desk": (lambda g: _model(calls("asked")) | {"ask": Desk(g.pass_through)}, "u", {}),
    "breaker of the host": (lambda g: _model("x") | {"breaker": _Breaking(g)}, "u", {}),
    "checkpoint": (lambda g: _model(calls("quiet")) | {"checkpoint": g.pass_through}, "u", {}),
    "rule of a retry": (lambda g: _model(OSError("no"), "x") | {"retry": Retry(when=g.pass_through)}, "u", {}),
    "compaction, as it is read": (
        lambda g: _model("x") | {"compactor": lambda _: (g.pass_through() for _ in [1])},
        "u",
        {},
    ),
    "recall, as it is read": (
        lambda g: (
            _model("x") | {"memory": type("Memory", (), {"recall": lambda *_: (g.pass_through() for _ in [1])})()}
        ),
        "u",
        {},
    ),
    "asking for a stream": (lambda g: {"model": _Asking(g.pass_through)}, "u", {}),
    "value of a tool": (
        lambda g: _model(calls("shown", "quiet")),
        "uat",
        {"c1": "cancelled_unknown", "c2": "not_started"},
    ),
    "parked question": (lambda g: _model(calls("asked")) | {"ask": g.pass_through}, "u", {}),
}

#: how often the model had been asked when the stop came
REQUESTS = dict.fromkeys(("probe", "run start hook", "before step hook", "breaker of the host"), 0)
REQUESTS |= dict.fromkeys(("recall", "recall, as it is read", "compaction", "compaction, as it is read", "hand-off"), 0)
REQUESTS |= {"model of the second step": 2, "stream of the second step": 2}


def _made(phase: str, gate: Gate, **more: Any) -> AgentLoop:
    made, *_ = PHASES[phase]
    from turnctl.agent import Tool

    tools = [
        Tool(_quiet, name="quiet"),
        Tool(_failing, name="failing"),
        Tool(_quiet, name="asked", approval=True),
        Tool(lambda: _Shown(gate), name="shown"),
        Tool(_quiet, name="checked", approval=lambda _: bool(gate.pass_through())),
        Tool(gate.pass_through, name="gate", schema={"type": "object"}),
    ]
    options = {"retry": Retry(wait=0)} | made(gate) | more
    return AgentLoop(options.pop("model"), tools, **options)


@pytest.mark.parametrize("phase", PHASES)
def test_a_stop_in_this_phase(phase: str) -> None:
    """Cancelled at once, with cause and reason; the prompt is kept; no request follows; the next run is whole."""
    _, roles, expected = PHASES[phase]
    events: list[Event] = []
    with Gate() as gate:
        loop = _made(phase, gate, observers=[events.append])
        stopped = stop_inside(loop, gate)
        result = stopped.result
        requests = len(loop.model.requests)

        assert REQUESTS.get(phase, 1) == requests
        with pytest.raises(CancelledError, match="stopped by the test"):
            result.unwrap()
        assert "accepted" == stopped.answer.kind
        assert ("cancelled", "user", "stopped by the test") == (
            result.stop_reason,
            result.cause,
            result.record.reason,
        )
        assert stopped.took_s < PROMPT_S
        assert (roles, expected) == ("".join(one.role[0] for one in loop.history.feed), statuses(loop))
        feed_is_strict(loop)
        assert ["run_started", "run_ended"] == [events[0].kind, events[-1].kind]
        assert 1 == gate.count
    started, ended = ([one for one in events if one.kind == kind] for kind in ("step_started", "step_ended"))
    assert len(started) == len(ended)
    if ended and phase not in ("after step hook", "consolidation"):
        assert (False, 0) == (ended[-1].ok, ended[-1].usage.total_tokens if ended[-1].usage else None)
    assert requests == len(loop.model.requests)

    if phase == "checkpoint":
        assert "was left behind with the one before" in "".join(result.record.notes)
    if phase in ("parked question", "telling a desk"):
        assert ["cancelled"] == [one.kind for one in result.record.gates]
    loop.compactor = loop.memory = loop.breaker = loop.checkpoint = None
    loop.model.replies[:] = [] if hasattr(loop.model, "stream") and phase != "stand-in for a stream" else ["fine"]
    if not loop.model.replies:
        loop.model.replies[:] = [["fi", "ne"]]
    following = loop.run("again")
    assert ("completed", "fine") == (following.stop_reason, following.text)
    assert ["please", "again"] == [one.text for one in loop.model.requests[-1] if one.role == "user"]


def test_before_any_step_nothing_is_sent() -> None:
    """A run that was stopped before it began asks no model, whole or as a stream, and keeps its prompt."""
    for model in (Played("x"), Writing(["x"])):
        heard = Heard()
        loop = AgentLoop(model, hooks=heard)
        assert "armed" == loop.cancel("early").kind
        result = loop.run("please")

        assert ("cancelled", "early", ()) == (result.stop_reason, result.record.reason, result.record.steps)
        assert [] == model.requests
        assert ["please"] == [one.text for one in loop.history.feed]
        assert ["end cancelled"] == heard.hooks
        assert "completed" == loop.run("again").stop_reason


def test_a_partial_reply_is_kept_and_not_fed() -> None:
    """Of a stream that was cut the text is in the transcript, marked with the stop, and in no request."""
    with Gate() as gate:
        loop = _made("stream, between events", gate)
        result = stop_inside(loop, gate).result
    kept = [one for one in loop.history.transcript if one.is_partial]

    assert "partial" == result.partial
    assert [("partial", "user", "tester")] == [(one.text, one.marks[0].cause, one.marks[0].by) for one in kept]
    assert ["please"] == [one.text for one in loop.history.feed]


def test_a_stop_while_a_retry_waits() -> None:
    """The back-off wakes at once, and no further attempt is made."""
    loop = AgentLoop(Played(OSError("overloaded"), "x"), retry=Retry(wait=60, longest=60, when=lambda _: True))
    waiting = Gate()
    loop.observers = (lambda event: event.kind == "retry" and waiting.reached.set(),)
    stopped = stop_inside(loop, waiting)

    assert "cancelled" == stopped.result.stop_reason
    assert stopped.took_s < PROMPT_S
    assert 1 == len(loop.model.requests)
    assert 1 == stopped.result.record.retries


def test_a_stop_is_no_failure() -> None:
    """Breaker, retry counter and failure hook do not hear of a stop, also where the model raises because of it."""
    heard, breaker = Heard(), Breaker(limit=1)
    with Gate() as gate:

        def fails_when_stopped() -> str:
            gate.reached.set()
            while not loop.cancel_signal.is_cancelled():
                time.sleep(0.001)
            raise ConnectionError("closed under me")

        loop = AgentLoop(Played(fails_when_stopped), hooks=heard, breaker=breaker, patience=5)
        result = stop_inside(loop, gate).result

    assert ("cancelled", 0, 0) == (result.stop_reason, result.record.retries, breaker.failures)
    assert ["end cancelled"] == heard.hooks


def test_a_stop_before_an_error_is_counted_is_no_failure() -> None:
    """The error was there first, and the stop before anybody was told of it: cancelled, and no failure."""
    heard, breaker = Heard(), Breaker(limit=1)
    loop = AgentLoop(Played(ConnectionError("gone"), "x"), hooks=heard, breaker=breaker, retry=Retry(wait=0))
    with call_at("run.failing", lambda: loop.cancel("just now")):
        result = loop.run("please")

    assert ("cancelled", 0, 0) == (result.stop_reason, result.record.retries, breaker.failures)
    assert ["end cancelled"] == heard.hooks


def test_a_failure_is_one() -> None:
    """What may pass is tried again, and told; then the run fails with the error, and its record says so."""
    heard, breaker = Heard(), Breaker(limit=5)
    loop = AgentLoop(Played(*[ConnectionError("gone")] * 3), hooks=heard, breaker=breaker, retry=Retry(3, wait=0))
    result = loop.run("please")

    assert ("failed", "ConnectionError: gone", 2, 3) == (
        result.stop_reason,
        result.record.error,
        result.record.retries,
        breaker.failures,
    )
    assert ["failure gone"] * 3 + ["end failed"] == heard.hooks
    with pytest.raises(ConnectionError):
        result.unwrap()
    assert ["please"] == [one.text for one in loop.history.feed]


def test_an_open_breaker_lets_the_model_rest() -> None:
    """After so many failures the model is not asked, and the run fails and says why."""
    loop = AgentLoop(Played(ConnectionError("gone"), "x"), breaker=Breaker(1, rest=60), retry=Retry(1))
    loop.run("please")
    result = loop.run("again")

    assert "CircuitOpen" in (result.record.error or "")
    assert 1 == len(loop.model.requests)


def test_before_without_after_means_cancelled() -> None:
    """A tool that was cut had its before, and has no after; nor a tool_ended event."""
    heard, events = Heard(), []
    with Gate() as gate:
        loop = _made("first tool", gate, hooks=heard, observers=[events.append])
        stop_inside(loop, gate)

    assert ["before c1", "end cancelled"] == heard.hooks
    assert [["c1"], []] == [
        [one.call.id for one in events if one.kind == kind and one.call] for kind in ("tool_started", "tool_ended")
    ]


def test_the_model_is_not_asked_again_after_a_stop() -> None:
    """A tool that ignores the stop and comes back: its result is kept, and no request follows."""
    with Gate() as gate:

        def slow() -> str:
            """Comes back some time after the stop."""
            gate.reached.set()
            while not loop.cancel_signal.is_cancelled():
                time.sleep(0.001)
            time.sleep(0.05)
            return "finished all the same"

        loop = AgentLoop(Played(calls("slow"), "never"), [slow], patience=5)
        result = stop_inside(loop, gate).result

    assert "cancelled" == result.stop_reason
    assert 1 == len(loop.model.requests)
    assert {"c1": "completed"} == statuses(loop)
    assert "finished all the same" == loop.history.feed[-1].results[0].text


def test_three_steps_and_a_stop() -> None:
    """What was finished before the stop is in the first request of the next run."""
    with Gate() as gate:
        loop = AgentLoop(Played(calls("quiet"), calls("quiet"), calls("quiet"), gate.pass_through), {"quiet": _quiet})
        stop_inside(loop, gate)
    loop.model.replies[:] = ["fine"]
    loop.run("again")
    request = loop.model.requests[-1]

    assert "uatatatu" == "".join(one.role[0] for one in request)
    assert ["word"] * 3 == [result.text for one in request for result in one.results]


def test_a_landed_compaction_outlives_the_stop() -> None:
    """A run that is cancelled after a compaction keeps the compacted history; the transcript keeps all."""
    with Gate() as gate:
        compactor = _Compacting(lambda messages: [Message.user("in short")] if len(messages) > 3 else None)
        loop = AgentLoop(Played(gate.pass_through), history=["a", ("assistant", "b"), "c"], compactor=compactor)
        stop_inside(loop, gate)

    assert ["in short"] == [one.text for one in loop.history.feed]
    assert ["a", "b", "c", "please"] == [one.text for one in loop.history.transcript][:4]


def test_a_soft_stop_lets_the_step_finish() -> None:
    """The step in hand comes to its end with its tools; the run is cancelled, and asks no more."""
    with Gate() as gate:

        def works() -> str:
            """Is at work when the soft stop comes."""
            loop.cancel_signal.cancel("enough", level="soft")
            return "worked"

        loop = AgentLoop(Played(calls("works"), "never"), [works])
        result = loop.run("please")
        gate.open()

    assert ("cancelled", {"c1": "completed"}, 1) == (result.stop_reason, statuses(loop), len(loop.model.requests))


def test_budgets_are_stops_with_their_own_cause() -> None:
    """Too many steps, a step and a run that take too long: cancelled, and the record says by what."""
    with Gate() as gate:
        steps = AgentLoop(Played(*[calls("quiet")] * 3), {"quiet": _quiet}, max_steps=2).run("please")
        step = AgentLoop(Played(gate.pass_through), step_timeout="20ms").run("please")
        run = AgentLoop(Played(gate.pass_through), timeout="20ms").run("please")
    usage = Usage(90, 20, cost=0.5)
    dear = [Reply(calls("quiet"), "calls", usage)] * 3
    tokens = AgentLoop(Played(*dear), {"quiet": _quiet}, max_tokens=200).run("please")
    cost = AgentLoop(Played(*dear), {"quiet": _quiet}, max_cost=0.5).run("please")

    assert ["budget", "deadline", "deadline"] == [one.cause for one in (steps, step, run)]
    assert [("budget", 2), ("budget", 1)] == [(one.cause, len(one.record.steps)) for one in (tokens, cost)]
    assert ["it used 220 tokens of 200", "it cost 0.5 of 0.5"] == [one.record.reason for one in (tokens, cost)]
    spent = [one.record.by for one in (steps, step, run, tokens, cost)]
    assert ["max_steps", "step_timeout", None, "max_tokens", "max_cost"] == spent
    told = [one.report.stop for one in (steps, step, run, tokens, cost) if one.report is not None]
    assert spent == [stop.by for stop in told if stop is not None]
    assert "stopped by max_tokens (it used 220 tokens of 200)" in str(tokens.report)
    assert "2 steps" in (steps.record.reason or "")
    assert "step 1" in (step.record.reason or "")
    assert ["cancelled"] * 3 == [one.stop_reason for one in (steps, step, run)]


def test_a_reply_that_was_cut_is_a_failure() -> None:
    """What is known to be less than the whole is tried again: its text is kept, marked, and its calls are not made."""
    made: list[int] = []
    cut = Reply(Message.assistant("hal", [Call("c1", "made")]), "cut")
    loop = AgentLoop(Played(cut, "whole"), {"made": lambda: made.append(1)}, retry=Retry(wait=0))
    result = loop.run("please")

    assert ("completed", "whole", 1, []) == (result.stop_reason, result.text, result.record.retries, made)
    assert ["hal"] == [one.text for one in loop.history.transcript if one.is_partial]
    assert ["please", "whole"] == [one.text for one in loop.history.feed]


def test_a_stream_that_ends_within_a_call_is_a_failure() -> None:
    """Without its reply such a stream has no call that could be carried out."""
    loop = AgentLoop(Writing(["let me ", CallDelta(0, "c1", "made", '{"a')], ["whole"]), retry=Retry(wait=0))

    assert "whole" == loop.run("please").unwrap()
    assert ["let me "] == [one.text for one in loop.history.transcript if one.is_partial]


def test_an_empty_reply_ends_the_run() -> None:
    """It says nothing, is in no history, and the run is completed."""
    loop = AgentLoop(Played("", "fine"))

    assert ("completed", "") == (loop.run("please").stop_reason, loop.runs[0].output)
    assert ["please"] == [one.text for one in loop.history.feed]
    assert "fine" == loop.run("again").text


def test_a_reply_with_usage_is_counted() -> None:
    """The usage of replies adds up in the record."""
    replies = [Reply(calls("quiet"), "calls", Usage(10, 2)), Reply(Message.assistant("done"), "end", Usage(20, 3))]
    result = AgentLoop(Played(*replies), {"quiet": _quiet}).run("please")

    assert (30, 5) == (result.record.usage.input_tokens, result.record.usage.output_tokens)
    assert [12, 23] == [one.usage.total_tokens for one in result.record.steps]
