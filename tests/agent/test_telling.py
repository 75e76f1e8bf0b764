"""Who is told of a run: in order, apart from it, and without a way to hold it up."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, Writing, calls, stop_inside
from standins import until

import turnctl
from turnctl.agent import AgentLoop, Event, RunRecord, Tool
from turnctl.agent import telling as room
from turnctl.agent.streaming import RunStream
from turnctl.tokens.event import release_all


def _word(**_: Any) -> str:
    return "word"


def _loop(*replies: Any, **options: Any) -> AgentLoop:
    return AgentLoop(Played(*replies), [Tool(_word, name="word", schema={"type": "object"})], **options)


STORY = "run_started step_started reply tool_started tool_ended step_ended step_started reply step_ended run_ended"


def test_observers_hear_all_in_order() -> None:
    """Each observer hears every event, in the order they happened, before ``run`` returns."""
    first: list[Event] = []
    second: list[Event] = []
    loop = _loop(calls("word"), "done", observers=[first.append, second.append])
    result = loop.run("please")

    assert STORY.split() == [one.kind for one in first]
    assert first == second
    assert {result.run_id} == {one.run_id for one in first}
    assert [1, 1, 1, 1, 1] == [one.step for one in first[1:6]]
    assert result.record.run_id == first[-1].record.run_id  # type: ignore[union-attr]


def test_an_observer_that_hangs_is_left_behind() -> None:
    """The run does not wait for it: it is noted, and the others hear everything."""
    heard: list[str] = []
    with Gate() as gate:
        loop = _loop("done", observers=[gate.pass_through, lambda event: heard.append(event.kind)])
        result = loop.run("please")

        assert "completed" == result.stop_reason
        assert ["run_started", "run_ended"] == [heard[0], heard[-1]]
        assert "was left behind" in result.record.notes[0]


def test_an_observer_that_raises_hears_the_next() -> None:
    """Its first error is noted once, with the event; the run and the others know nothing of it."""
    heard: list[str] = []

    def raises(event: Event) -> None:
        heard.append(event.kind)
        raise RuntimeError("cannot draw")

    result = _loop("done", observers=raises).run("please")

    assert 5 == len(heard)
    assert [
        "observer test_an_observer_that_raises_hears_the_next.raises failed at run_started: RuntimeError: cannot draw"
    ] == list(result.record.notes)


def test_an_observer_that_is_behind_loses_pieces_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past a limit it loses pieces of replies, is told how many, and nothing else."""
    monkeypatch.setattr(room, "LIMIT", 5)
    heard: list[str] = []
    begun = threading.Event()

    def slow(event: Event) -> None:
        heard.append(event.kind)
        if event.kind == "run_started":
            assert begun.wait(10)

    # it is held until the whole reply has been told
    host = type("Host", (), {"after_step": lambda self, number: begun.set()})()
    result = AgentLoop(Writing(["x"] * 50), observers=slow, hooks=host).run("please")

    assert heard.count("delta") < 50
    assert ["run_started", "step_started"] == heard[:2]
    assert ["reply", "step_ended", "run_ended"] == heard[-3:]
    assert f"did not hear {50 - heard.count('delta')} pieces" in result.record.notes[0]


def test_an_observer_is_bound_to_no_turn() -> None:
    """What it calls is not cut short by the stop that it is told of."""
    seen: list[object] = []

    def looks(event: Event) -> None:
        if event.kind == "run_ended":
            turnctl.check()
            seen.append(turnctl.current_turn())

    loop = _loop("done", observers=looks)
    loop.cancel("early")
    loop.run("please")

    assert [None] == seen


@pytest.mark.parametrize("where", ["observer", "hook", "tool", "finalizer", "model"])
def test_a_stop_may_be_fired_from_anywhere(where: str) -> None:
    """From an observer, a hook, a tool, a finalizer or the model itself: the next checkpoint, and no further step."""
    loop: AgentLoop

    class Host:
        def before_step(self, number: int) -> None:
            if where == "hook":
                loop.cancel("from a hook")

    class Dying:
        def __del__(self) -> None:
            loop.cancel("from a finalizer")

    heard = threading.Event()

    def observer(event: Event) -> None:
        if where == "observer" and event.kind == "tool_started":
            loop.cancel("from an observer")
            heard.set()

    def tool(**_: Any) -> str:
        if where == "tool":
            loop.cancel("from a tool")
        if where == "finalizer":
            Dying()
            gc.collect()
        if where == "observer":
            assert heard.wait(10)
        return "x"

    def model() -> Any:
        if where == "model":
            loop.cancel("from a model")
        return calls("tool")

    tools = [Tool(tool, name="tool", schema={"type": "object"})]
    loop = AgentLoop(Played(model, "never"), tools, observers=observer, hooks=Host())
    result = loop.run("please")

    assert ("cancelled", f"from a{'n' if where[0] == 'o' else ''} {where}") == (
        result.stop_reason,
        result.record.reason,
    )
    assert ["never"] == loop.model.replies[-1:]


# -- hooks of the end -------------------------------------------------------------------------------------------------


class Ends:
    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.records: list[RunRecord] = []
        self.then = then

    def on_run_end(self, record: RunRecord) -> None:
        self.records.append(record)
        self.then()


@pytest.mark.parametrize("way", ["completed", "failed", "cancelled", "armed", "interrupted"])
def test_the_end_is_told_on_every_way_out(way: str) -> None:
    """``on_run_end`` hears of each run once, with its record, however it ended; also if an earlier one raises."""

    def fails() -> None:
        raise RuntimeError("no disk")

    def interrupts() -> Any:
        raise KeyboardInterrupt

    first, second = Ends(fails), Ends()
    replies = {"completed": "done", "failed": ValueError("no"), "interrupted": interrupts}
    loop = _loop(replies.get(way, lambda: loop.cancel("now") and "x"), hooks=[first, second])
    if way == "armed":
        loop.cancel("early")
    if way == "interrupted":
        with pytest.raises(KeyboardInterrupt):
            loop.run("please")
    else:
        result = loop.run("please")
        assert "on_run_end of Ends failed: RuntimeError: no disk" in result.record.notes
    expected = {"armed": "cancelled", "interrupted": "cancelled"}.get(way, way)

    assert [expected] == [one.stop_reason for one in second.records]
    assert [expected] == [one.stop_reason for one in loop.runs]
    assert 1 == len(first.records)


def test_a_hook_of_the_end_has_the_grace() -> None:
    """One that hangs is left behind after the grace, and noted."""
    with Gate() as gate:
        result = _loop("done", hooks=Ends(gate.pass_through), grace="50ms").run("please")

        assert "completed" == result.stop_reason
        assert "left behind" in result.record.notes[0]


# -- the events as a stream -------------------------------------------------------------------------------------------


def test_a_stream_gives_the_events_and_the_result() -> None:
    """All events in order; afterwards the result is there."""
    loop = _loop(calls("word"), "done")
    with loop.stream("please") as events:
        assert events.result is None
        kinds = [one.kind for one in events]

    assert STORY.split() == kinds
    assert events.result is not None
    assert ("completed", "done") == (events.result.stop_reason, events.result.text)
    assert loop.runs[-1].run_id == events.run_id


def test_a_stream_goes_on_when_the_next_is_asked_for() -> None:
    """Between two events nothing is done behind the consumer's back, and its code is in no turn."""
    loop = _loop(calls("word"), "done")
    events = loop.stream("please")
    for event in events:
        if event.kind == "step_ended":
            break
        assert turnctl.current_turn() is None
    assert 1 == len(loop.model.requests)
    assert "reply" != next(events).kind
    events.close()

    assert 1 == len(loop.model.requests)
    assert ("cancelled", "closed") == (loop.runs[-1].stop_reason, loop.runs[-1].cause)


@pytest.mark.parametrize("how", ["break", "close", "with", "forget", "raise", "never asked"])
def test_leaving_a_stream_early_ends_the_run(how: str) -> None:
    """It raises nothing, runs no further step, and leaves no thread; the loop is free."""
    loop = _loop(calls("word"), "never", "fine")
    events = loop.stream("please")
    if how == "break":
        for _ in events:
            break
        del events, _
    elif how == "close":
        next(events)
        events.close()
        events.close()
    elif how == "with":
        with events:
            next(events)
    elif how == "forget":
        next(events)
        del events
    elif how == "raise":
        with pytest.raises(LookupError), events:
            next(events)
            raise LookupError
    gc.collect()

    assert [] == loop.model.requests
    assert (0 if how == "never asked" else 1) == len(loop.runs)
    loop.model.replies[:] = ["fine"]
    assert "fine" == loop.run("again").text


def test_a_stream_may_be_collected_by_its_own_run() -> None:
    """One that the collector finds in a thread of the run itself ends the run, which waits for nothing of itself."""
    collected: list[str] = []

    class Model(Played):
        @property
        def probe(self) -> None:
            gc.collect()  # the loop looks for it on the thread that does the work
            collected.append(threading.current_thread().name)

    class Forgotten:
        events: RunStream
        me: object

    gc.disable()
    try:
        one = Forgotten()
        one.me = one
        one.events = AgentLoop(Model("never")).stream("please")
        next(one.events)
        feed = one.events._feed
        del one
        feed.wanted += 1  # as if the next one had been asked for
        release_all(feed.waiters)
        is_over = until(lambda: feed.is_over)
    finally:
        gc.enable()

    assert is_over
    assert [f"turnctl-run-{feed.run.run_id}"] == collected
    assert feed.result is not None
    assert ("cancelled", "closed") == (feed.result.stop_reason, feed.result.cause)


def test_a_wave_is_told_in_step_too() -> None:
    """Calls that run side by side are told one event at a time, and none is lost."""
    loop = _loop(calls(*["word"] * 8), "done", parallel=8)
    kinds = [one.kind for one in loop.stream("please")]

    assert (8, 8) == (kinds.count("tool_started"), kinds.count("tool_ended"))
    assert "run_ended" == kinds[-1]


def test_a_stop_while_a_consumer_holds_the_stream() -> None:
    """A run that waits for its consumer ends with the stop; the consumer is given the end and raises nothing."""
    loop = _loop(calls("word"), "never")
    with loop.stream("please") as events:
        assert "run_started" == next(events).kind
        loop.cancel("now")
        rest = [one.kind for one in events]

    assert "run_ended" == rest[-1]
    assert [] == loop.model.requests
    assert events.result is not None
    assert "cancelled" == events.result.stop_reason


def test_a_stream_is_a_checkpoint_of_the_turn_around_it() -> None:
    """The enclosing turn is stopped: the consumer gets that stop, and the run is cancelled by its parent."""
    with Gate() as gate:
        loop = _loop(gate.pass_through)
        kinds: list[str] = []
        with turnctl.turn() as outer:
            stopper = threading.Thread(target=lambda: gate.reached.wait(10) and outer.cancel("outer"))
            stopper.start()
            with loop.stream("please") as events:
                kinds.extend(one.kind for one in events)
        stopper.join()

        assert outer.cancelled
        assert ("cancelled", "parent") == (loop.runs[-1].stop_reason, loop.runs[-1].cause)


def test_stop_inside_helper_sees_a_run() -> None:
    """The helper of these tests stops where it says."""
    with Gate() as gate:
        assert "cancelled" == stop_inside(_loop(gate.pass_through), gate).result.stop_reason
