"""Runs of a loop as a whole: one after the other, inside other turns, beside other loops; what each leaves."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, Writing, calls, feed_is_strict, statuses, stop_inside
from standins import ctrl_c_once

import turnctl
from turnctl.agent import AgentLoop, Call, History, Message, Reply, Retry, RunCheckpoint, Tool, Usage, WindowExceeded
from turnctl.testing import call_at, stop_everywhere


def _word(**_: Any) -> str:
    return "word"


WORD = Tool(_word, name="word", schema={"type": "object"})


def test_a_run_comes_to_its_text() -> None:
    """The whole way: model, tool, model; text, history, record and report."""
    loop = AgentLoop(Played(calls("word"), Reply(Message.assistant("all done"), usage=Usage(7, 3))), [WORD])
    result = loop.run("please")

    assert ("completed", "all done", "all done", None) == (
        result.stop_reason,
        result.text,
        result.unwrap(),
        result.cause,
    )
    assert ["user", "assistant", "tool", "assistant"] == [one.role for one in loop.history.feed]
    assert ("completed", 2, "all done", loop.session_id) == (
        result.record.stop_reason,
        len(result.record.steps),
        result.record.output,
        result.record.session_id,
    )
    assert result.record.started_at <= result.record.ended_at
    assert ["please"] == [one.text for one in result.record.input]
    assert {"max_steps": 50, "tools": ["word"], "model": "Played"}.items() <= result.record.configuration.items()
    assert "completed" == result.report.outcome
    assert result.report.turn_id == result.run_id
    result.report.validate()


def test_why_the_model_stopped_is_told() -> None:
    """The result has it of the last reply, the record of each, also of a resumed run; a failed step has none."""
    replies = [Reply(calls("word"), "calls"), Reply(Message.assistant("so far"), "length")]
    kept: list[RunCheckpoint] = []
    result = AgentLoop(Played(*replies), [WORD], checkpoint=kept.append).run("please")
    resumed = AgentLoop(Played(replies[1]), [WORD]).resume(kept[1].as_dict())
    failed = AgentLoop(Played(ValueError("no")), retry=Retry(1)).run("please")

    assert ("completed", "length", None) == (result.stop_reason, result.reply_stop, failed.reply_stop)
    assert ["calls", "length"] == [one.reply_stop for one in result.record.steps]
    assert ["calls", "length"] == [one.reply_stop for one in resumed.record.steps]
    assert "length" == result.record.as_dict()["steps"][1]["reply_stop"]


def test_a_model_is_any_function() -> None:
    """A function of messages and tools is a model; text, a message and a reply are replies."""
    for reply in ("hello", Message.assistant("hello"), Reply(Message.assistant("hello"))):
        assert "hello" == AgentLoop(lambda messages, tools: reply).run("please").unwrap()  # noqa: B023


def test_each_run_leaves_a_record() -> None:
    """Ids of runs are fresh, the session stays; failed and cancelled ones are there as well."""
    loop = AgentLoop(Played("one", ValueError("no"), "two"), retry=Retry(1))
    loop.run("a")
    loop.run("b")
    loop.cancel("early")
    loop.run("c")
    loop.run("d")

    assert ["completed", "failed", "cancelled", "completed"] == [one.stop_reason for one in loop.runs]
    assert 4 == len({one.run_id for one in loop.runs})
    assert 1 == len({one.session_id for one in loop.runs})
    assert all(one.as_dict()["run_id"] for one in loop.runs)


def test_start_stop_start_twenty_times() -> None:
    """One loop object is stopped and used again, over and over."""
    loop = AgentLoop(Played())
    for n in range(20):
        with Gate() as gate:
            loop.model.replies[:] = [gate.pass_through]
            assert "cancelled" == stop_inside(loop, gate).result.stop_reason
        loop.model.replies[:] = ["fine"]
        assert "fine" == loop.run(f"again {n}").text
    assert ["cancelled", "completed"] * 20 == [one.stop_reason for one in loop.runs]
    feed_is_strict(loop)


def test_a_stop_that_names_a_run_that_is_over() -> None:
    """Refused; it neither waits for the next run nor touches it."""
    loop = AgentLoop(Played("one", "two"))
    over = loop.run("a").run_id

    assert "refused" == loop.cancel_signal.cancel(run_id=over).kind
    assert "completed" == loop.run("b").stop_reason


def _about_the_end(times: int) -> None:
    """Whole runs, with stops that are fired at random about their end."""
    chance = random.Random(5)
    loop = AgentLoop(lambda messages, tools: "done")
    for n in range(times):
        answers: list[Any] = []
        stopper = threading.Timer(chance.random() * 0.004, lambda: answers.append(loop.cancel()))  # noqa: B023
        stopper.start()
        results = [loop.run(f"{n} a"), loop.run(f"{n} b")]
        stopper.join()
        results.append(loop.run(f"{n} c"))
        results.append(loop.run(f"{n} d"))
        cancelled = [one.run_id for one in results if one.cancelled]

        assert not loop.cancel_signal.is_cancelled()
        assert (0 if answers[0].kind == "already_ended" else 1) == len(cancelled), answers
        if answers[0].kind == "accepted":
            assert cancelled == [answers[0].turn_id]
        loop = AgentLoop(lambda messages, tools: "done") if n % 50 == 0 else loop


def test_each_stop_about_the_end_of_whole_runs_has_one_run() -> None:
    """One stop, one cancelled run, unless it was told that its run had ended."""
    _about_the_end(60)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_ten_thousand_stops_about_the_end_of_whole_runs() -> None:
    """The same, ten thousand times."""
    _about_the_end(10_000)


def test_a_stop_from_a_signal_handler() -> None:
    """A handler on the thread of the run fires it, and the run ends."""
    with Gate() as gate:
        loop = AgentLoop(Played(gate.pass_through))
        before = signal.signal(signal.SIGUSR1, lambda *_: loop.cancel("from a handler"))
        try:
            sender = threading.Thread(target=lambda: gate.reached.wait(10) and os.kill(os.getpid(), signal.SIGUSR1))
            sender.start()
            result = loop.run("please")
            sender.join()
        finally:
            signal.signal(signal.SIGUSR1, before)

    assert ("cancelled", "from a handler") == (result.stop_reason, result.record.reason)


def test_a_history_that_fails_does_not_hold_the_end_up() -> None:
    """The record is there, the end is told, and the loop is free, also where the history cannot be made coherent."""

    class Broken(History):
        def salvage(self, **_: Any) -> None:
            raise RuntimeError("no")

    ends: list[str] = []
    host = type("Host", (), {"on_run_end": lambda self, record: ends.append(record.stop_reason)})()
    loop = AgentLoop(Played("one", "two"), history=Broken(), hooks=host)

    assert "could not be made coherent" in loop.run("a").record.notes[0]
    assert "completed" == loop.run("b").stop_reason
    assert ["completed"] * 2 == ends


@pytest.mark.parametrize(
    ("at", "kind", "outcomes"),
    [
        ("turn.end.deciding", "accepted", ["cancelled", "completed"]),
        ("turn.end.decided", "already_ended", ["completed", "completed"]),
        ("turn.end.leaving", "already_ended", ["completed", "completed"]),
        ("signal.closing", "already_ended", ["completed", "completed"]),
        ("signal.closed", "armed", ["completed", "cancelled"]),
    ],
)
def test_a_stop_in_the_closing_window_of_a_run(at: str, kind: str, outcomes: list[str]) -> None:
    """Behind the last checkpoint a stop is this run's until it is decided; then it is told so; then it waits."""
    loop = AgentLoop(Played("one", "two", "three"))
    answers: list[Any] = []
    with call_at(at, lambda: answers.append(loop.cancel("late"))):
        loop.run("a")
    loop.run("b")
    loop.run("c")

    assert [kind] == [one.kind for one in answers]
    assert [*outcomes, "completed"] == [one.stop_reason for one in loop.runs]
    if kind == "accepted":
        assert "one" == loop.runs[0].output  # it was whole, and stays
        assert "one" == loop.history.feed[1].text


def test_two_loops_have_nothing_in_common() -> None:
    """Two loops in two threads: stopping one leaves the other alone."""
    with Gate() as held, Gate() as free:
        stopped, going = AgentLoop(Played(held.pass_through)), AgentLoop(Played(free.pass_through))
        results: list[Any] = []
        other = threading.Thread(target=lambda: results.append(going.run("please")))
        other.start()
        assert free.reached.wait(10)
        assert "cancelled" == stop_inside(stopped, held).result.stop_reason
        assert not going.cancel_signal.is_cancelled()
        free.open()
        other.join()

    assert ["completed"] == [one.stop_reason for one in results]


def test_one_run_at_a_time() -> None:
    """A second run of the same loop is refused, from another thread or from a tool, and changes nothing."""
    refused: list[BaseException] = []

    def again(**_: Any) -> str:
        with pytest.raises(turnctl.SessionBusy) as caught:
            loop.run("inside")
        refused.append(caught.value)
        return "refused"

    loop = AgentLoop(Played(calls("again"), "done"), [Tool(again, name="again", schema={"type": "object"})])

    assert "done" == loop.run("please").unwrap()
    assert 1 == len(refused)
    assert 1 == len(loop.runs)
    assert ["please"] == [one.text for one in loop.history.feed if one.role == "user"]


# -- inside other turns -----------------------------------------------------------------------------------------------


def test_the_stop_of_a_turn_around_it_is_raised_at_the_end() -> None:
    """The enclosing turn is stopped: the run ends, cause parent, with record, history and hooks; then it is raised."""
    ends: list[str] = []
    host = type("Host", (), {"on_run_end": lambda self, record: ends.append(record.cause)})()
    with Gate() as gate:
        loop = AgentLoop(Played(calls("word"), gate.pass_through), [WORD], hooks=host)
        after: list[int] = []
        with turnctl.turn() as outer:
            stopper = threading.Thread(target=lambda: gate.reached.wait(10) and outer.cancel("outer", by="ann"))
            stopper.start()
            loop.run("please")
            after.append(1)
        stopper.join()

        assert ([], ["parent"]) == (after, ends)
        assert ("cancelled", "parent", "outer", "ann") == (
            loop.runs[0].stop_reason,
            loop.runs[0].cause,
            loop.runs[0].reason,
            loop.runs[0].by,
        )
        assert {"c1": "completed"} == statuses(loop)
        assert ("cancelled", "user") == (outer.outcome, outer.cause)


def test_a_run_in_a_turn_that_was_stopped_is_not_made() -> None:
    """Nothing is begun, and a stop that waits for the next run goes on waiting."""
    loop = AgentLoop(Played("x"))
    loop.cancel("for the next one")
    with turnctl.turn() as outer:
        outer.cancel("outer")
        loop.run("please")

    assert ((), 0) == (loop.runs, len(loop.history))
    assert loop.cancel_signal.is_cancelled()
    assert "for the next one" == loop.run("please").record.reason


def test_a_loop_inside_a_tool_of_a_loop() -> None:
    """The outer run is stopped: child and grandchild end, cause parent; a sibling loop elsewhere does not."""
    with Gate() as gate:
        grandchild = AgentLoop(Played(gate.pass_through))
        child = AgentLoop(
            Played(calls("delegate")),
            [Tool(lambda **_: grandchild.run("deepest").text, name="delegate", schema={"type": "object"})],
        )
        parent = AgentLoop(
            Played(calls("delegate")),
            [Tool(lambda **_: child.run("deeper").text, name="delegate", schema={"type": "object"})],
        )
        result = stop_inside(parent, gate).result

        assert ("cancelled", "user") == (result.stop_reason, result.cause)
        assert [("cancelled", "parent")] * 2 == [
            (one.runs[0].stop_reason, one.runs[0].cause) for one in (child, grandchild)
        ]
        assert ["cancelled_unknown"] * 2 == [statuses(one)["c1"] for one in (parent, child)]
        ended = [one.runs[0].ended_at for one in (grandchild, child, parent)]
        assert sorted(ended) == ended  # the parent is settled after its last child


def test_ctrl_c_in_a_run() -> None:
    """Without a handler of turnctl's it passes out of ``run``; the run is cancelled, cause signal, and on record."""

    def pressed() -> Any:
        raise KeyboardInterrupt

    loop = AgentLoop(Played(calls("word"), pressed), [WORD])
    with pytest.raises(KeyboardInterrupt):
        loop.run("please")

    assert ("cancelled", "signal") == (loop.runs[0].stop_reason, loop.runs[0].cause)
    assert {"c1": "completed"} == statuses(loop)
    loop.model.replies[:] = ["fine"]
    assert "fine" == loop.run("again").text


def test_ctrl_c_while_a_model_hangs() -> None:
    """The thread that waits for the run is struck: the model has the patience, and then the interrupt passes out."""
    with Gate() as gate:
        loop = AgentLoop(Played(gate.pass_through, "fine"), grace="60s")
        with pytest.raises(KeyboardInterrupt), ctrl_c_once(gate.reached):
            loop.run("please")

        assert ("cancelled", "signal") == (loop.runs[0].stop_reason, loop.runs[0].cause)
        assert "fine" == loop.run("again").text


@pytest.mark.parametrize("by", ["signal handler", "model"])
def test_a_run_that_is_cut_by_an_exit_is_not_completed(by: str) -> None:
    """``sys.exit(0)`` ends the program, and the run: cancelled and on record, also where its code says success."""
    handler = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
    try:
        with Gate() as gate:
            loop = AgentLoop(Played(gate.pass_through if by == "signal handler" else SystemExit(0)))

            over = threading.Event()

            def strike() -> None:
                assert gate.reached.wait(10)
                while not over.is_set():  # again: one that comes right before the wait is seen when that is over
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
                    over.wait(0.5)

            striking = threading.Thread(target=strike)
            if by == "signal handler":
                striking.start()
            with pytest.raises(SystemExit):
                loop.run("please")
            over.set()
            if by == "signal handler":
                striking.join()
    finally:
        signal.signal(signal.SIGUSR1, handler)

    assert ("cancelled", "closed") == (loop.runs[0].stop_reason, loop.runs[0].cause)
    assert "SystemExit" in str(loop.runs[0].reason)


def test_an_alarm_that_raises_ends_the_run() -> None:
    """The usual way of old code to bound a call, a handler that raises: it passes out, and the run is on record."""

    def rings(*_: object) -> None:
        raise TimeoutError("too long")

    handler = signal.signal(signal.SIGALRM, rings)
    try:
        with Gate() as gate:
            loop = AgentLoop(Played(gate.pass_through))
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(TimeoutError, match="too long"):
                loop.run("please")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)

    assert ("cancelled", "closed") == (loop.runs[0].stop_reason, loop.runs[0].cause)


def test_a_session_is_stopped_by_its_name() -> None:
    """``turnctl.stop(session)`` reaches the run that is running, and nothing when none is."""
    with Gate() as gate:
        loop = AgentLoop(Played(gate.pass_through, "x"), session_id="chat-42")
        stopped = stop_inside(loop, gate, stop=lambda: turnctl.stop("chat-42", reason="by name"))

    assert ("accepted", "by name") == (stopped.answer.kind, stopped.result.record.reason)
    assert "refused" == turnctl.stop("chat-42").kind
    assert "completed" == loop.run("again").stop_reason


# -- with a ledger ----------------------------------------------------------------------------------------------------


def test_each_run_is_a_task_of_the_ledger() -> None:
    """With a ledger a run is a task that ends as the run does, and effects of its tools are on record, once."""
    sent: list[str] = []

    def mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "250 ok"

    call = Message.assistant("", [Call("c1", "mail", {"to": "ann"})])
    again = Message.assistant("", [Call("c2", "mail", {"to": "ann"})])
    with turnctl.open_ledger("memory:") as ledger:
        loop = AgentLoop(Played(call, again, "done"), [Tool(mail, effect="mail.send")], ledger=ledger, tenant="acme")
        result = loop.run("please")
        task = ledger.task("acme", result.run_id)
        assert task is not None
        report = ledger.report(task)

        assert ("completed", ["ann"]) == (result.stop_reason, sent)
        assert ["completed"] == [one.disposition for one in report.effects]
        assert ["completed", "completed"] == list(statuses(loop).values())
        assert "not done again" in loop.history.feed[-2].results[0].text


def test_a_task_of_a_run_that_cannot_begin_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused run leaves no task that waits for a worker; an unused stream leaves none at all."""
    with turnctl.open_ledger("memory:") as ledger:

        def again(**_: Any) -> str:
            thread = threading.Thread(target=beside)  # which has no turn around it
            thread.start()
            thread.join()
            return "refused"

        def beside() -> None:
            with pytest.raises(turnctl.SessionBusy):
                loop.run("beside")

        tool = Tool(again, name="again", schema={"type": "object"})
        loop = AgentLoop(Played(calls("again"), "done"), [tool], ledger=ledger)
        made: list[Any] = []
        submit = ledger.submit
        monkeypatch.setattr(ledger, "submit", lambda *names: made.append(submit(*names)) or made[-1])
        loop.stream("never asked for")
        loop.run("please")

        assert ["completed", "cancelled, settled"] == [ledger.report(task).state for task in made]


def test_a_run_that_was_struck_as_it_began_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C before the run has begun passes out, and its task does not wait for a worker."""
    with turnctl.open_ledger("memory:") as ledger:
        transact = type(ledger.store).transact

        def struck(store: Any, fn: Any, **how: Any) -> Any:
            if how.get("point") == "lease":
                raise KeyboardInterrupt
            return transact(store, fn, **how)

        loop = AgentLoop(Played("fine"), ledger=ledger)
        with monkeypatch.context() as patched:
            patched.setattr(type(ledger.store), "transact", struck)
            with pytest.raises(KeyboardInterrupt):
                loop.run("please")

        assert ["cancelled_settled"] == [one.state for one in ledger.store.read(lambda books: [*books.incarnations()])]
        assert (0, "fine") == (len(loop.runs), loop.run("again").text)


# -- what the window cannot hold --------------------------------------------------------------------------------------


def test_a_run_that_the_window_cannot_hold_is_discarded() -> None:
    """Its messages leave the feed and stay in the transcript; the next run begins where it began."""
    loop = AgentLoop(Played("one", calls("word"), WindowExceeded("too long"), "two"), [WORD])
    loop.run("a")
    result = loop.run("b")

    assert "failed" == result.stop_reason
    assert ["a", "one"] == [one.text for one in loop.history.feed]
    assert ["a", "one", "b"] == [one.text for one in loop.history.transcript][:3]
    loop.run("c")
    assert ["a", "one", "c"] == [one.text for one in loop.model.requests[-1]]


def test_a_transport_that_exceeds_a_deadline_discards_nothing() -> None:
    """'context deadline exceeded' is a time-out: a failed run keeps what was done."""
    loop = AgentLoop(Played(calls("word"), TimeoutError("context deadline exceeded")), [WORD], retry=Retry(1))
    result = loop.run("please")

    assert "failed" == result.stop_reason
    assert ["user", "assistant", "tool"] == [one.role for one in loop.history.feed]


def test_a_compactor_is_asked_when_the_window_is_full() -> None:
    """It makes room, and the request is sent again."""

    class Compactor:
        def __init__(self) -> None:
            self.full = False
            self.demoted: list[str] = []

        def compact(self, messages: tuple[Message, ...]) -> Any:
            return [Message.user("in short"), messages[-1]] if self.full else None

        def demote(self, messages: tuple[Message, ...]) -> None:
            self.demoted.extend(one.text for one in messages)

    compactor = Compactor()

    def full() -> Any:
        compactor.full = True
        raise WindowExceeded("too long")

    loop = AgentLoop(Played(full, "fits"), history=["a", ("assistant", "b")], compactor=compactor)
    result = loop.run("please")

    assert "fits" == result.unwrap()
    assert ["in short", "please"] == [one.text for one in loop.model.requests[-1]]
    assert ["a", "b"] == compactor.demoted
    assert 0 == result.record.retries


@pytest.mark.parametrize("what", ["raises", "open call", "sink raises", "no messages"])
def test_a_compactor_that_fails_is_noted(what: str) -> None:
    """The history stays as it was, and the run goes on."""

    class Compactor:
        def compact(self, messages: tuple[Message, ...]) -> Any:
            if what == "raises":
                raise ValueError("no room")
            return {"open call": [calls("word")], "no messages": [3]}.get(what, [Message.user("short")])

        def demote(self, messages: tuple[Message, ...]) -> None:
            raise ValueError("no room")

    loop = AgentLoop(Played("done"), compactor=Compactor())
    result = loop.run("please")

    assert "done" == result.unwrap()
    assert ["please", "done"] == [one.text for one in loop.history.feed]
    assert "compaction failed" in result.record.notes[0]


# -- stopped everywhere -----------------------------------------------------------------------------------------------


def _long(model: type[Played] = Played) -> AgentLoop:
    one = Message.assistant("", [Call("c1", "word", {}), Call("c2", "word", {})])
    replies: list[Any] = [one, ConnectionError("gone"), calls("asked"), "done"]
    if model is Writing:
        replies = [[reply] if isinstance(reply, (Message, BaseException)) else ["do", "ne"] for reply in replies]
    memory = type("Memory", (), {"recall": lambda *_: None, "store": lambda *_: None, "consolidate": lambda *_: None})()
    hooks = type("Host", (), {"before_tool": lambda *_: None, "on_failure": lambda *_: None})()
    asked = Tool(_word, name="asked", schema={"type": "object"}, approval=True)
    return AgentLoop(
        model(*replies),
        [WORD, asked],
        ask=lambda _: True,
        compactor=lambda _: None,
        memory=memory,
        hooks=hooks,
        retry=Retry(wait=0),
        grace="1s",
    )


def _is_sound(loop: AgentLoop) -> None:
    """The feed is strict, the record is there, and it says what was in force."""
    feed_is_strict(loop)
    assert bool(loop.runs) == bool(len(loop.history))
    loop.model.replies[:] = [["fine"]] if isinstance(loop.model, Writing) else ["fine"]
    assert "fine" == loop.run("again").text


@pytest.mark.parametrize("model", [Played, Writing])
def test_a_run_can_be_stopped_at_each_of_its_checkpoints(model: type[Played]) -> None:
    """Stopped everywhere, by the turn around it: no stop is late, swallowed, leaking, or leaves a broken history."""
    found = stop_everywhere(
        lambda turn, loop: loop.run("please"), setup=lambda: _long(model), check=_is_sound, limit=60
    )

    assert [] == [str(one) for one in found.problems]
    assert found.stops >= 10


def _counting(started: Counter[str], chance: random.Random) -> Callable[..., str]:
    def counted(name: str) -> str:
        started[name] += 1
        time.sleep(chance.random() * 0.002)
        return name

    return counted


def _stop_at_random(times: int) -> None:
    chance = random.Random(11)
    for _ in range(times):
        started: Counter[str] = Counter()
        tool = Tool(_counting(started, chance), name="counted", schema={"type": "object"})

        replies = [
            Message.assistant("", [Call(f"{step}-{n}", "counted", {"name": f"{step}-{n}"}) for n in range(3)])
            for step in range(4)
        ]
        loop = AgentLoop(Played(*replies, "done"), [tool], parallel=chance.choice([1, 3]), grace="1s")
        stopper = threading.Timer(chance.random() * 0.03, loop.cancel, ("at random",))
        stopper.start()
        first = loop.run("please")
        stopper.join()
        feed_is_strict(loop)
        told = statuses(loop)
        assert {1} >= set(started.values())  # no call is carried out twice
        assert {name: int(said != "not_started") for name, said in told.items()} == {
            name: started[name] for name in told
        }
        if first.stop_reason == "cancelled":
            assert "at random" == first.record.reason
            assert not loop.cancel_signal.is_cancelled()
        loop.model.replies[:] = ["fine"]
        following = loop.run("again")
        armed = first.stop_reason == "completed" and following.stop_reason == "cancelled"
        assert armed or "fine" == following.text


def test_random_stops_over_a_conversation() -> None:
    """Wherever a stop lands: the history is strict, no call is carried out twice, what is said of each is true."""
    _stop_at_random(30)


@pytest.mark.stress
@pytest.mark.timeout(300)
def test_a_thousand_random_stops() -> None:
    """The same, a thousand times."""
    _stop_at_random(1000)


# -- misuse -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": 3}, "a model is"),
        ({"max_steps": 0}, "max_steps"),
        ({"parallel": True}, "parallel"),
        ({"session_id": ""}, "session_id"),
        ({"grace": "soon"}, "soon"),
        ({"ask": 3}, "ask is a function"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_cost": True}, "max_cost"),
        ({"step_timeout": 0}, "step_timeout"),
        ({"tools": [WORD, WORD]}, "two tools are named 'word'"),
    ],
)
def test_misuse_is_told_before_anything_is_started(options: dict[str, Any], words: str) -> None:
    """What a loop cannot be made of is refused, and the message says what it takes."""
    with pytest.raises(turnctl.TurnctlError, match=words):
        AgentLoop(options.pop("model", Played()), options.pop("tools", ()), **options)


def test_an_empty_prompt_is_refused() -> None:
    """A run begins with a message."""
    with pytest.raises(turnctl.BadArgument, match="begins with a message"):
        AgentLoop(Played("x")).run([])


def test_a_history_goes_on_in_another_loop() -> None:
    """A loop begins with the history that it is given, its own object or messages."""
    history = History(["earlier", ("assistant", "said")])
    loop = AgentLoop(Played("x"), history=history)
    loop.run("now")

    assert loop.history is history
    assert ["earlier", "said", "now"] == [one.text for one in loop.model.requests[0]]
