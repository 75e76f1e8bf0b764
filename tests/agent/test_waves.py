"""The calls of a reply, one after the other and side by side: started once or not at all, and what is known of each."""

from __future__ import annotations

import threading
import time
from types import MappingProxyType
from typing import Any

import pytest
from loops import Gate, Played, calls, feed_is_strict, is_strict, statuses, stop_inside
from standins import until

import turnctl
from turnctl.agent import AgentLoop, Call, Message, Result, Tool
from turnctl.testing import pause_at
from turnctl.waiting import abandoned


def _plain(fn: Any, name: str, **options: Any) -> Tool:
    return Tool(fn, name=name, schema={"type": "object"}, **options)


def _word(**_: Any) -> str:
    return "word"


def test_calls_are_carried_out_in_order() -> None:
    """Without ``parallel`` one call is over before the next one is started."""
    log: list[str] = []

    def logs(n: int) -> int:
        """Logs."""
        log.append(f"in {n}")
        time.sleep(0.005)
        log.append(f"out {n}")
        return n

    reply = Message.assistant("", [Call("a", "logs", {"n": 1}), Call("b", "logs", {"n": 2})])
    loop = AgentLoop(Played(reply, "done"), [logs])

    assert "done" == loop.run("please").unwrap()
    assert ["in 1", "out 1", "in 2", "out 2"] == log
    assert ["1", "2"] == [one.text for one in loop.history.feed[2].results]


def test_neighbours_run_side_by_side() -> None:
    """With ``parallel`` calls of tools that allow it run at the same time; results stand in the order of the calls."""
    meeting = threading.Barrier(3, timeout=10)

    def meets(n: int) -> int:
        """Waits for the others."""
        meeting.wait()
        return n

    reply = Message.assistant("", [Call(f"c{n}", "meets", {"n": n}) for n in range(3)])
    loop = AgentLoop(Played(reply, "done"), [meets], parallel=3)

    assert "done" == loop.run("please").unwrap()
    assert ["0", "1", "2"] == [one.text for one in loop.history.feed[2].results]


def test_a_wave_ends_at_a_tool_that_wants_to_be_alone() -> None:
    """One that is not for parallel runs alone, between what is before and after it."""
    running: list[int] = []
    most: list[int] = []

    def counted(**_: Any) -> str:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()
        return "x"

    tools = [_plain(counted, "beside"), _plain(counted, "alone", parallel=False)]
    loop = AgentLoop(Played(calls("beside", "alone", "beside", "alone"), "done"), tools, parallel=4)

    assert "done" == loop.run("please").unwrap()
    assert 1 == max(most)


def test_a_sibling_that_cannot_be_stopped_is_left_behind() -> None:
    """A wave is answered when each call is back or was left behind, all at once; what had finished is kept."""
    with Gate() as gate:
        done = threading.Event()

        def quick(**_: Any) -> str:
            done.set()
            return "finished"

        def held(**_: Any) -> str:
            assert done.wait(10)
            return gate.pass_through()

        tools = [_plain(quick, "quick"), _plain(held, "held")]
        loop = AgentLoop(Played(calls("quick", "held", "held", "held", "quick")), tools, parallel=4)

        def stop() -> Any:
            while gate.count < 3 or _quick_ones_back(loop) < 1:
                time.sleep(0.001)
            return loop.cancel("stopped by the test")

        stopped = stop_inside(loop, gate, stop=stop)
        found = statuses(loop)

        assert stopped.took_s < 1
        assert {
            "c2": "cancelled_unknown",
            "c3": "cancelled_unknown",
            "c4": "cancelled_unknown",
            "c5": "not_started",
        } == {name: status for name, status in found.items() if name != "c1"}
        assert "completed" == found["c1"]
        feed_is_strict(loop)
        assert any("held" in name for name in stopped.result.report.alive)


def _turn(loop: AgentLoop) -> turnctl.Turn:
    found = turnctl.session(loop.session_id).turn
    assert isinstance(found, turnctl.Turn)
    return found


def _quick_ones_back(loop: AgentLoop) -> int:
    return sum(one.name == "quick" and one.state == "completed" for one in _turn(loop).report.activities)


def test_a_tool_with_an_effect_is_given_the_grace() -> None:
    """One that acts on the world may come back within the grace: then it is known what happened, and recorded."""
    with Gate() as gate:

        def sends(**_: Any) -> str:
            gate.reached.set()
            while not loop.cancel_signal.is_cancelled():
                time.sleep(0.001)
            time.sleep(0.15)  # longer than the patience
            return "250 ok"

        loop = AgentLoop(Played(calls("sends")), [_plain(sends, "sends", effect="mail.send")])
        stopped = stop_inside(loop, gate)

    assert {"c1": "completed"} == statuses(loop)
    assert [("mail.send", "completed")] == [(one.kind, one.disposition) for one in stopped.result.report.effects]


def test_an_effect_that_was_left_is_unknown() -> None:
    """One that does not come back within the grace leaves an unknown effect, and the model is told so."""
    with Gate() as gate:
        tools = [_plain(gate.pass_through, "sends", effect="mail.send")]
        loop = AgentLoop(Played(calls("sends")), tools, grace="50ms")
        stopped = stop_inside(loop, gate)

        assert {"c1": "cancelled_unknown"} == statuses(loop)
        assert 1 == stopped.result.report.effects_unresolved


def test_commands_of_a_tool_are_ended_with_it() -> None:
    """A tool that runs a command is waited for while the command's tree is ended."""
    started = Gate()

    def shell(**_: Any) -> str:
        started.reached.set()
        return str(turnctl.run(["sleep", "60"]).returncode)

    loop = AgentLoop(Played(calls("shell")), [_plain(shell, "shell")])

    def stop() -> Any:
        while not any(process.pid for process in _turn(loop).report.processes):
            time.sleep(0.005)
        return loop.cancel("stopped by the test")

    stopped = stop_inside(loop, started, stop=stop)

    assert stopped.took_s < 4
    assert () == stopped.result.report.alive
    assert "cancelled" == stopped.result.stop_reason


def test_a_plain_tool_beside_one_with_a_command() -> None:
    """Each of a wave has its own bound: a plain one is left after the patience, though its sibling has the grace."""
    with Gate() as gate:

        def shell(**_: Any) -> str:
            return str(turnctl.run(["sleep", "60"]).returncode)

        tools = [_plain(shell, "shell"), _plain(gate.pass_through, "plain")]
        loop = AgentLoop(Played(calls("shell", "plain")), tools, parallel=2, grace="60s")

        def stop() -> Any:
            while not any(process.pid for process in _turn(loop).report.processes):
                time.sleep(0.005)
            return loop.cancel("stopped by the test")

        stopped = stop_inside(loop, gate, stop=stop)

        assert stopped.took_s < 10
        assert "cancelled" == stopped.result.stop_reason
        left = [one.name for one in stopped.result.report.activities if one.state == "abandoned"]
        assert ["plain"] == left


def test_a_tool_that_was_not_begun_in_time_never_begins() -> None:
    """A run that is stopped and closed before the thread came to its tool: not started, and it stays so."""
    done: list[int] = []
    loop = AgentLoop(Played(calls("adds")), [_plain(lambda **_: done.append(1), "adds")])
    with pause_at("tool.beginning") as pause:

        def stop() -> None:
            assert pause.reached.wait(10)
            loop.cancel("stopped by the test")

        stopping = threading.Thread(target=stop)
        stopping.start()
        result = loop.run("please")
        stopping.join()
        pause.release()

    assert ("cancelled", {}) == (result.stop_reason, statuses(loop))
    assert until(lambda: not abandoned.count())
    assert [] == done
    assert ["not_started"] == [call.status for step in result.record.steps for call in step.calls]


def test_a_tool_has_its_own_time() -> None:
    """One that takes too long is left, its outcome unknown, and the run goes on."""
    with Gate() as gate:
        tools = [_plain(gate.pass_through, "slow", timeout="20ms")]
        loop = AgentLoop(Played(calls("slow"), "done"), tools)
        result = loop.run("please")

        assert ("completed", {"c1": "unknown"}) == (result.stop_reason, statuses(loop))


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (calls("nothing"), "there is no tool 'nothing'"),
        (Message.assistant("", [Call("c1", "adds", raw="{broken")]), "not a JSON object"),
        (Message.assistant("", [Call("c1", "adds", {"n": "seven"})]), "adds was not called"),
        (Message.assistant("", [Call("c1", "adds", {"n": -1})]), "ValueError: too small"),
    ],
)
def test_what_cannot_be_called_is_told_to_the_model(reply: Message, words: str) -> None:
    """An unknown tool, arguments that do not fit, an exception: a failed result, and the run goes on."""

    def adds(n: int) -> int:
        """Adds one."""
        if n < 0:
            raise ValueError("too small")
        return n + 1

    loop = AgentLoop(Played(reply, "done"), [adds])

    assert "done" == loop.run("please").unwrap()
    assert {"c1": "failed"} == statuses(loop)
    assert words in loop.history.feed[2].results[0].text


def test_hooks_and_memory_see_each_call() -> None:
    """A hook may refuse a call or word its result; memory is told, and adds to a failure."""

    class Host:
        def before_tool(self, call: Call) -> Any:
            return Result(call.id, "not today", "denied") if call.name == "refused" else None

        def after_tool(self, call: Call, result: Result) -> Any:
            return Result(call.id, f"<{result.text}>", result.status) if call.name == "word" else None

    class Memory:
        def __init__(self) -> None:
            self.stored: list[tuple[str, str]] = []

        def store(self, call: Call, result: Result) -> None:
            self.stored.append((call.name, result.text))

        def reflect(self, call: Call, result: Result) -> str:
            return "try something else"

        def recall(self, messages: tuple[Message, ...]) -> list[Any]:
            return ["remember this"]

    def fails(**_: Any) -> str:
        raise OSError("broken")

    memory = Memory()
    tools = [_plain(_word, "word"), _plain(_word, "refused"), _plain(fails, "fails")]
    loop = AgentLoop(Played(calls("word", "refused", "fails"), "done"), tools, hooks=Host(), memory=memory)
    result = loop.run("please")

    assert "completed" == result.stop_reason
    assert ["<word>", "not today", "OSError: broken\n\ntry something else"] == [
        one.text for one in loop.history.feed[2].results
    ]
    assert ["word", "fails"] == [name for name, _ in memory.stored]
    assert ["remember this", "please"] == [one.text for one in loop.model.requests[0]]
    assert "remember this" not in [one.text for one in loop.history.transcript]
    for request in loop.model.requests:
        is_strict(request)


@pytest.mark.parametrize("given", [3, [3], (one for one in [{"role": "robot"}])], ids=["number", "list", "read"])
def test_a_memory_that_recalls_nonsense_is_noted(given: Any) -> None:
    """What it adds is no message: the request is sent without it, and the record says so."""
    memory = type("Memory", (), {"recall": lambda self, messages: given})()
    loop = AgentLoop(Played("done"), memory=memory)
    result = loop.run("please")

    assert "done" == result.unwrap()
    assert ["please"] == [one.text for one in loop.model.requests[0]]
    assert any("recall" in one for one in result.record.notes)


@pytest.mark.parametrize("first", [Result("c1", "no", "denied"), RuntimeError("no rules")])
def test_a_later_hook_cannot_allow_what_one_refused(first: Any) -> None:
    """Of several hooks the first that refuses, or fails, decides."""
    done: list[Any] = []

    class Refuses:
        def before_tool(self, call: Call) -> Any:
            if isinstance(first, Exception):
                raise first
            return first

    class Changes:
        def before_tool(self, call: Call) -> Any:
            return {"to": "bob"}

    tool = _plain(lambda **arguments: done.append(arguments), "send")
    loop = AgentLoop(Played(calls("send", to="ann"), "done"), [tool], hooks=[Refuses(), Changes()])

    assert "done" == loop.run("please").unwrap()
    assert ([], {"c1": "denied"}) == (done, statuses(loop))


def test_a_check_that_fails_lets_nothing_through() -> None:
    """A hook that raises before a tool denies it; one that raises elsewhere is noted, and the run goes on."""

    class Host:
        def before_tool(self, call: Call) -> None:
            raise RuntimeError("no rules")

        def before_step(self, number: int) -> None:
            raise RuntimeError("no paper")

    loop = AgentLoop(Played(calls("word"), "done"), [_plain(_word, "word")], hooks=Host())
    result = loop.run("please")

    assert ("completed", {"c1": "denied"}) == (result.stop_reason, statuses(loop))
    assert 3 == len(result.record.notes)
    assert "before_step of Host failed: RuntimeError: no paper" in result.record.notes


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit("bye"), LookupError("no")])
def test_a_tool_that_raises_ends_nothing_but_itself(error: BaseException) -> None:
    """Whatever a tool raises, also ``sys.exit()``, is a failed result, and the run goes on."""

    def raises(**_: Any) -> str:
        raise error

    loop = AgentLoop(Played(calls("raises"), "done"), [_plain(raises, "raises")])

    assert "done" == loop.run("please").unwrap()
    assert {"c1": "failed"} == statuses(loop)


def test_a_rule_for_approval_that_fails_denies() -> None:
    """Where it cannot be told whether somebody has to be asked, the call is not carried out."""
    done: list[int] = []

    def rule(_: Any) -> bool:
        raise KeyError("to")

    tool = _plain(lambda **_: done.append(1), "send", approval=rule)
    loop = AgentLoop(Played(calls("send"), "done"), [tool], ask=lambda _: True)

    assert "done" == loop.run("please").unwrap()
    assert ({"c1": "denied"}, []) == (statuses(loop), done)


def test_each_call_has_its_record() -> None:
    """The record of a step names each call, its status, and when it was started, if it was."""
    with Gate() as gate:
        tools = [_plain(_word, "word"), _plain(gate.pass_through, "gate")]
        loop = AgentLoop(Played(calls("word", "gate", "word")), tools)
        record = stop_inside(loop, gate).result.record
    found = record.steps[0].calls

    assert ["completed", "cancelled_unknown", "not_started"] == [one.status for one in found]
    assert [True, True, False] == [one.started_at is not None for one in found]
    assert record.as_dict()["steps"][0]["calls"][2]["status"] == "not_started"


@pytest.mark.parametrize("second", [None, True, {"n": 3}])
def test_a_hook_that_says_false_refuses(second: Any) -> None:
    """It is a veto, whatever a hook behind it says; the model is told."""
    ran: list[int] = []

    def act(n: int) -> None:
        """Act."""
        ran.append(n)

    says: Any = lambda said: type("Hook", (), {"before_tool": lambda *_: said})()  # noqa: E731
    loop = AgentLoop(Played(calls("act", n=1), "end"), [act], hooks=[says(None), says(False), says(second)])
    loop.run("go")
    changing = AgentLoop(Played(calls("act", n=1), "end"), [act], hooks=says(MappingProxyType({"n": 7})))
    changing.run("go")

    assert (["denied"], [7]) == ([one.status for one in loop.history.feed[2].results], ran)
    assert "denied: a check of it did not allow it" == loop.history.feed[2].results[0].text
