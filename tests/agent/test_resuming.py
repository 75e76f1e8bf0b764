"""A run goes on from a checkpoint, here or in another process, and nothing that was pending is carried out again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agent_lives import keeper
from loops import Gate, Played, calls, feed_is_strict, is_strict, statuses, stop_inside
from standins import until

import turnctl
from turnctl.agent import Acts, AgentLoop, Call, Message, Reply, RunCheckpoint, Tool, Usage
from turnctl.errors import BadArgument, LedgerRefused

SUPPORT = Path(__file__).resolve().parents[1] / "support"
ANY = {"type": "object"}


def moved(checkpoint: RunCheckpoint | None) -> dict[str, Any]:
    """As it comes out of a file."""
    assert checkpoint is not None
    found: dict[str, Any] = json.loads(json.dumps(checkpoint.as_dict()))
    return found


class Counted:
    """Tools that count how often each was called."""

    def __init__(self, *names: str, effect: bool = False, **instead: Any) -> None:
        self.called: Counter[str] = Counter()
        self.tools = [self._tool(name, instead.get(name), effect) for name in names]

    def _tool(self, name: str, instead: Any, effect: bool) -> Tool:
        def fn(**_: Any) -> Any:
            self.called[name] += 1
            return f"{name} is done" if instead is None else instead()

        acts = Acts(f"{name}.sent", key=lambda arguments: str(arguments["to"])) if effect else None
        return Tool(fn, name=name, schema={**ANY, "properties": {"to": {"type": "string"}}}, effect=acts)


# -- without a ledger -------------------------------------------------------------------------------------------------


def test_a_stopped_run_goes_on_elsewhere() -> None:
    """A run that was stopped goes on in another loop: history, step count, usage and time; and its record says so."""
    with Gate() as gate:
        first = Counted("a", "b", "c", b=gate.pass_through)
        reply = Reply(calls("a", "b", "c"), usage=Usage(5, 2))
        stopped = stop_inside(AgentLoop(Played(reply), first.tools), gate).result
    second, model = Counted("a", "b", "c"), Played(Reply(Message.assistant("so"), usage=Usage(1, 1)))
    loop = AgentLoop(model, second.tools)
    result = loop.resume(moved(stopped.checkpoint))

    assert ("completed", "so", stopped.run_id) == (result.stop_reason, result.text, result.record.resumes)
    assert {"c1": "completed", "c2": "cancelled_unknown", "c3": "not_started"} == statuses(loop)
    assert [1, 2] == [one.number for one in result.record.steps]
    assert Usage(6, 3) == result.record.usage
    assert (stopped.record.input, "please") == (result.record.input, model.requests[0][0].text)
    assert not second.called
    assert "is not known" in result.record.notes[0]
    assert result.checkpoint is not None
    assert result.checkpoint.elapsed_s > stopped.checkpoint.elapsed_s  # type: ignore[union-attr]
    feed_is_strict(loop)


def test_what_was_noted_before_is_kept() -> None:
    """The record of the resumed run has the notes of the one that it goes on from, before its own."""

    class Host:
        def before_step(self, number: int) -> None:
            raise OSError("no paper")

    with Gate() as gate:
        stopped = stop_inside(AgentLoop(Played(gate.pass_through), hooks=Host()), gate).result
    result = AgentLoop(Played("so")).resume(moved(stopped.checkpoint))

    assert "completed" == result.stop_reason
    assert "before_step of Host failed: OSError: no paper" == result.record.notes[0]
    assert "is not known" in result.record.notes[1]


def test_pending_calls_are_seen_and_dropped() -> None:
    """A checkpoint between tools shows what is pending; resumed, none is carried out, and each is told honestly."""
    kept: list[RunCheckpoint] = []
    loop = AgentLoop(Played(calls("a", "b", "c"), "end"), Counted("a", "b", "c").tools, checkpoint=kept.append)
    loop.run("go")
    half = kept[1]  # before the second call
    second = Counted("a", "b", "c")
    other = AgentLoop(Played("end"), second.tools)
    result = other.resume(moved(half))

    assert [("a", True), ("b", False), ("c", False)] == [(one.call.name, bool(one.result)) for one in half.pending]
    assert {"c1": "completed", "c2": "unknown", "c3": "unknown"} == statuses(other)
    assert "a is done" == other.history.feed[2].results[0].text
    assert ("completed", 0) == (result.stop_reason, second.called.total())
    assert [("failed", 3), ("completed", 0)] == [(one.outcome, len(one.calls)) for one in result.record.steps]
    feed_is_strict(other)


def test_every_checkpoint_can_be_resumed() -> None:
    """Of a run with three steps, each checkpoint leads to the same end, and no call of it is made twice."""
    kept: list[RunCheckpoint] = []
    script = [calls("a", "b"), calls("b"), "end"]
    loop = AgentLoop(Played(*script), Counted("a", "b").tools, checkpoint=kept.append)
    assert "completed" == loop.run("go").stop_reason
    *open_ones, last = kept

    assert "completed" == last.stop_reason
    assert [1, 1, 1, 2, 2, 3] == [one.step for one in open_ones]
    for one in open_ones:
        tools, requests = Counted("a", "b"), Played(*script[one.step :])
        other = AgentLoop(requests, tools.tools)
        result = other.resume(moved(one))

        assert ("completed", "end") == (result.stop_reason, result.text)
        assert sum(len(reply.calls) for reply in script[one.step :] if isinstance(reply, Message)) == (
            tools.called.total()
        )
        for request in requests.requests:
            is_strict(request)
        feed_is_strict(other)


def test_nothing_is_asked_after_the_last_reply() -> None:
    """A checkpoint behind the last reply needs no model: the resumed run completes with what was said."""
    kept: list[RunCheckpoint] = []
    AgentLoop(Played("that is all"), checkpoint=kept.append).run("go")
    result = AgentLoop(Played(), max_steps=1).resume(moved(kept[0]))

    assert (True, None) == (kept[0].is_done, kept[0].stop_reason)
    assert ("completed", "that is all") == (result.stop_reason, result.text)


def test_a_run_goes_on_in_its_own_loop() -> None:
    """A loop resumes what was stopped in it, and the next run begins behind that."""
    with Gate() as gate:
        loop = AgentLoop(Played(calls("a"), gate.pass_through, "two", "three"), Counted("a").tools)
        stopped = stop_inside(loop, gate).result
        assert stopped.checkpoint is not None
        resumed = loop.resume(stopped.checkpoint)

    assert ("two", "three") == (resumed.text, loop.run("more").text)
    assert ["user", "assistant", "tool", "assistant", "user", "assistant"] == [one.role for one in loop.history.feed]
    assert 3 == len(loop.runs)


def test_a_compaction_comes_along() -> None:
    """What stood in the feed for an older part still does, and the transcript has all of it."""
    kept: list[RunCheckpoint] = []
    once = iter([[Message.user("short")]])
    loop = AgentLoop(Played(calls("a"), "end"), Counted("a").tools, compactor=lambda _: next(once, None))
    loop.history.add("long", Message.assistant("ago"))
    loop.checkpoint = kept.append
    loop.run("go")
    model = Played("end")
    other = AgentLoop(model, Counted("a").tools)
    other.resume(moved(kept[1]))

    assert ["short", "", "", "end"] == [one.text for one in other.history.feed]
    assert loop.history.transcript == other.history.transcript


@pytest.mark.parametrize(
    ("limits", "cause"), [({"max_steps": 1}, "budget"), ({"max_tokens": 7}, "budget"), ({"timeout": "1s"}, "deadline")]
)
def test_budgets_go_on_from_where_they_were(limits: dict[str, Any], cause: str) -> None:
    """What the run had used up by then counts, and the model is not asked again."""
    kept: list[RunCheckpoint] = []
    replies = Reply(calls("a"), usage=Usage(5, 2)), "end"
    AgentLoop(Played(*replies), Counted("a").tools, checkpoint=kept.append).run("go")
    model = Played("never")
    loop = AgentLoop(model, Counted("a").tools, **limits)
    result = loop.resume({**moved(kept[1]), "elapsed_s": 2.0})

    assert ("cancelled", cause, []) == (result.stop_reason, result.cause, model.requests)
    feed_is_strict(loop)


def test_a_stop_before_and_during_a_resume() -> None:
    """A stop that waits cancels the resumed run before its first request; one that comes later, where it stands."""
    kept: list[RunCheckpoint] = []
    AgentLoop(Played(calls("a"), "end"), Counted("a").tools, checkpoint=kept.append).run("go")
    model = Played("never")
    loop = AgentLoop(model, Counted("a").tools)
    loop.cancel("not now")
    armed = loop.resume(moved(kept[0]))
    with Gate() as gate:
        other = AgentLoop(Played(gate.pass_through), Counted("a").tools)
        other.run = lambda _: other.resume(moved(kept[0]))  # type: ignore[method-assign,assignment]
        during = stop_inside(other, gate).result

    assert ("cancelled", "not now", []) == (armed.stop_reason, armed.record.reason, model.requests)
    assert ("cancelled", "unknown") == (during.stop_reason, statuses(other)["c1"])
    assert ["unknown"] == list(statuses(loop).values())
    feed_is_strict(loop)
    feed_is_strict(other)
    assert "end" == AgentLoop(Played("end"), Counted("a").tools).resume(moved(during.checkpoint)).text


def test_what_cannot_be_resumed_is_refused() -> None:
    """Completed, without its tools, over another history, by another schema: refused, and nothing is changed."""
    kept: list[RunCheckpoint] = []
    AgentLoop(Played(calls("a", "b"), "end"), Counted("a", "b").tools, checkpoint=kept.append).run("go")
    model = Played("never")
    loop = AgentLoop(model, Counted("b", "c").tools)
    with pytest.raises(BadArgument, match="is completed, so there is nothing to resume"):
        loop.resume(kept[-1])
    with pytest.raises(BadArgument, match="had tools that this loop has not: a; give it those"):
        loop.resume(kept[0])
    with pytest.raises(BadArgument, match="its schema is 'turnctl.checkpoint/9'"):
        loop.resume({**moved(kept[0]), "schema": "turnctl.checkpoint/9"})
    with pytest.raises(BadArgument, match="worked on task acme/t1 .i1.; give the loop its ledger"):
        AgentLoop(model, Counted("a", "b").tools).resume(
            {**moved(kept[0]), "inc": "i1", "tenant": "acme", "task_id": "t1"}
        )
    other = AgentLoop(model, Counted("a", "b").tools, history=["something else"])
    with pytest.raises(BadArgument, match="has 1 messages that are not the beginning of run"):
        other.resume(kept[0])

    assert ((), [], 1) == (loop.runs, model.requests, len(other.history))


def test_a_keeper_that_fails_or_hangs_holds_nothing_up() -> None:
    """What it raises is noted and the run goes on; at the end it has the grace."""
    with Gate() as gate:

        def keep(checkpoint: RunCheckpoint) -> None:
            if checkpoint.stop_reason is None:
                raise OSError("disk full")
            gate.pass_through()

        result = AgentLoop(Played("end"), checkpoint=keep, grace="50ms").run("go")
        gate.open()

    assert "completed" == result.stop_reason
    assert ["a checkpoint could not be kept: OSError: disk full"] == list(result.record.notes[:1])
    assert result.record.notes[1].startswith("checkpoint was left behind")
    with pytest.raises(BadArgument, match="checkpoint is a function that keeps one, or None, not 7"):
        AgentLoop(Played(), checkpoint=7)  # type: ignore[arg-type]


# -- with a ledger ----------------------------------------------------------------------------------------------------


@contextmanager
def held(ledger: turnctl.Ledger, *, hooks: Any = ()) -> Iterator[RunCheckpoint]:
    """A run that stands in the second of three calls, and its checkpoint from before the first."""
    kept: list[RunCheckpoint] = []
    with Gate() as gate:
        tools = Counted("a", "b", "c", effect=True, b=gate.pass_through)
        loop = AgentLoop(
            Played(calls("a", "b", "c", to="ann"), "end"),
            tools.tools,
            ledger=ledger,
            checkpoint=kept.append,
            hooks=hooks,
        )
        thread = threading.Thread(target=loop.run, args=("go",))
        thread.start()
        assert gate.reached.wait(10)
        yield kept[0]
        gate.open()
        thread.join()


def test_effects_are_looked_up_and_not_repeated() -> None:
    """What was admitted after the checkpoint is told as the ledger has it: done, unknown, not begun; none is redone."""
    again = Message.assistant("", [Call("d1", "a", {"to": "ann"}), Call("d2", "b", {"to": "ann"})])
    with turnctl.open_ledger("memory:") as ledger, held(ledger) as half:
        tools = Counted("a", "b", "c", effect=True)
        loop = AgentLoop(Played(again, "end"), tools.tools, ledger=ledger)
        task = ledger.incarnation(str(half.inc))
        assert task is not None
        result = loop.resume(moved(half), task=task.take_over())

        assert ("completed", half.run_id) == (result.stop_reason, half.task_id)
        told = {"c1": "completed", "c2": "unknown", "c3": "not_started", "d1": "completed", "d2": "unknown"}
        assert told == statuses(loop)
        assert "it was done before the run was resumed, and is not done again; its receipt: a is done" == (
            loop.history.feed[2].results[0].text
        )
        assert (0, ()) == (tools.called.total(), result.record.notes)
        assert "completed" == task.state
        feed_is_strict(loop)


def test_what_a_hook_may_have_changed_is_unknown() -> None:
    """Where a hook may change arguments, an effect that is not on record may have been made by other ones."""

    class Hook:
        def before_tool(self, _: Call) -> None:
            return None

    with turnctl.open_ledger("memory:") as ledger, held(ledger, hooks=Hook()) as half:
        loop = AgentLoop(Played("end"), Counted("a", "b", "c", effect=True).tools, ledger=ledger)
        task = ledger.incarnation(str(half.inc))
        assert task is not None
        loop.resume(moved(half), task=task.take_over())

        assert ["completed", "unknown", "unknown"] == list(statuses(loop).values())


def test_a_run_that_still_runs_is_not_resumed() -> None:
    """Its lease says so; when it is over, its task says that. Nothing is changed, and the loop is good for a run."""
    with turnctl.open_ledger("memory:") as ledger:
        model = Played("fresh")
        loop = AgentLoop(model, Counted("a", "b", "c", effect=True).tools, ledger=ledger)
        with held(ledger) as half:
            with pytest.raises(LedgerRefused) as refused:
                loop.resume(moved(half))
        with pytest.raises(LedgerRefused) as over:
            loop.resume(moved(half))
        with pytest.raises(LedgerRefused) as elsewhere:
            loop.resume({**moved(half), "inc": "i-none"})
        with pytest.raises(BadArgument, match="worked on task .*, not on"):
            loop.resume(moved(half), task=ledger.submit("acme", "other"))

        assert ("held", "ended", "no_such_task") == (refused.value.code, over.value.code, elsewhere.value.code)
        assert (0, ()) == (len(loop.history), loop.runs)
        assert "fresh" == loop.run("go").text


def test_a_cancelled_task_is_not_resumed() -> None:
    """The resumed run is born cancelled, with who and why of the cancellation; the model is not asked."""
    with turnctl.open_ledger("memory:") as ledger:
        with Gate() as gate:
            first = AgentLoop(Played(calls("a"), gate.pass_through), Counted("a").tools, ledger=ledger)
            stopped = stop_inside(first, gate).result
        task = ledger.task("agent", stopped.run_id)
        assert task is not None
        assert until(lambda: task.state == "cancelled_settled")  # what was left behind holds the lease until it is back
        model = Played("never")
        loop = AgentLoop(model, Counted("a").tools, ledger=ledger)
        result = loop.resume(moved(stopped.checkpoint))

        assert ("cancelled", "stopped by the test", []) == (result.stop_reason, result.record.reason, model.requests)
        assert stopped.run_id == result.record.resumes
        assert first.history.feed == loop.history.feed


def _shut_down(ledger: turnctl.Ledger, loop: AgentLoop, gate: Gate) -> None:
    """Have a run end so that its task is for the next worker."""
    stop_inside(loop, gate, stop=lambda: loop.cancel_signal.cancel("bye", cause="shutdown"))
    gate.open()
    task = ledger.task("agent", loop.runs[0].run_id)
    assert task is not None
    assert until(lambda: ledger.report(task).task.execution == "idle")


def _keyed(key: Any) -> Tool:
    def fails(**_: Any) -> str:
        raise AssertionError("carried out again")

    return Tool(fails, name="a", schema=ANY, effect=Acts("a.sent", key=key))


def test_a_stop_while_a_key_is_looked_up() -> None:
    """What the host says of an effect that was pending is raced as well: the history is whole, the call unknown."""
    kept: list[RunCheckpoint] = []
    with turnctl.open_ledger("memory:") as ledger, Gate() as gate, Gate() as asked:
        hooks = type("Host", (), {"before_tool": gate.pass_through})()
        script, tools = Played(calls("a", to="ann")), Counted("a", effect=True).tools
        _shut_down(ledger, AgentLoop(script, tools, ledger=ledger, checkpoint=kept.append, hooks=hooks), gate)
        other = AgentLoop(Played("fine"), [_keyed(asked.pass_through)], ledger=ledger)
        stopper = threading.Thread(target=lambda: asked.reached.wait(10) and other.cancel("enough"))
        stopper.start()
        before = time.monotonic()
        result = other.resume(moved(kept[0]))
        took = time.monotonic() - before
        stopper.join()

        assert ("cancelled", "enough", 0) == (result.stop_reason, result.record.reason, len(other.model.requests))
        assert took < 2
        assert {"c1": "unknown"} == statuses(other)
        assert ["user", "assistant", "tool"] == [one.role for one in other.history.feed]
        feed_is_strict(other)
        assert "fine" == other.run("again").text


def test_a_key_that_fails_is_noted() -> None:
    """Why an effect could not be looked up is in the record of the resumed run."""
    kept: list[RunCheckpoint] = []

    def fails(_: Any) -> str:
        raise LookupError("no such mailbox")

    with turnctl.open_ledger("memory:") as ledger, Gate() as gate:
        script, tools = Played(calls("a", to="ann"), gate.pass_through), Counted("a", effect=True).tools
        _shut_down(ledger, AgentLoop(script, tools, ledger=ledger, checkpoint=kept.append), gate)
        result = AgentLoop(Played("fine"), [_keyed(fails)], ledger=ledger).resume(moved(kept[0]))

    assert "fine" == result.text
    assert any("could not be looked up" in one for one in result.record.notes)


# -- other processes --------------------------------------------------------------------------------------------------

ELSEWHERE = """
import json, sys
from loops import Played, feed_is_strict, statuses
from turnctl.agent import AgentLoop, Tool

def fails(**_):
    raise AssertionError("carried out again")

tools = [Tool(fails, name=name, schema={"type": "object"}) for name in "ab"]
loop = AgentLoop(Played("end"), tools)
result = loop.resume(json.load(open(sys.argv[1])))
feed_is_strict(loop)
print(json.dumps([result.text, result.record.resumes, statuses(loop)]))
"""


def program(*args: object) -> str:
    env = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run(
        [sys.executable, *map(str, args)], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert (0, "") == (ended.returncode, ended.stderr)
    return ended.stdout


def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    """A checkpoint from the middle of the tools is resumed in a process that knows nothing else."""
    kept: list[RunCheckpoint] = []
    loop = AgentLoop(Played(calls("a", "b"), "end"), Counted("a", "b").tools, checkpoint=kept.append)
    run = loop.run("go")
    keeper(tmp_path / "checkpoint.json")(kept[1])
    told = json.loads(program("-c", ELSEWHERE, tmp_path / "checkpoint.json"))

    assert ["end", run.run_id, {"c1": "completed", "c2": "unknown"}] == told


SHUT_DOWN = """
import sys
from pathlib import Path
import turnctl
from agent_lives import keeper
from loops import Gate, Played, calls, stop_inside
from turnctl.agent import AgentLoop, Tool

folder = Path(sys.argv[1])
with turnctl.open_ledger(str(folder / "ledger.db")) as ledger, Gate() as gate:
    tool = Tool(lambda **_: "done", name="a", schema={"type": "object"})
    model = Played(calls("a"), gate.pass_through)
    loop = AgentLoop(model, [tool], ledger=ledger, checkpoint=keeper(folder / "checkpoint.json"))
    print(stop_inside(loop, gate, stop=turnctl.shutdown).result.cause)
"""


def test_a_run_that_a_shutdown_ended_goes_on(tmp_path: Path) -> None:
    """A shutdown leaves the task to the next process, which resumes the run on it."""
    folder = tmp_path / "shut"
    folder.mkdir(mode=0o700)
    said = program("-c", SHUT_DOWN, folder).strip()
    with turnctl.open_ledger(str(folder / "ledger.db")) as ledger:
        loop = AgentLoop(Played("end"), Counted("a").tools, ledger=ledger)
        result = loop.resume(json.loads((folder / "checkpoint.json").read_text()))
        task = ledger.task("agent", str(result.record.resumes))

        assert ("shutdown", "end") == (said, result.text)
        assert task is not None
        assert "completed" == task.state


def lives(folder: Path, seed: int, kills: int) -> int:
    """Kill an agent that often, at points that chance has chosen, and look at what came of it; how often it was."""
    folder.mkdir(mode=0o700)
    code, killed = map(int, program(SUPPORT / "agent_lives.py", folder, seed, kills).split())
    sent = Counter((folder / "journal").read_text().split())
    told = json.loads((folder / "result.json").read_text())
    feed = [Message.from_dict(one) for one in told["feed"]]
    wanted = {call.id: str(call.arguments["to"]) for one in feed for call in one.calls}
    results = [result for one in feed for result in one.results]

    assert (0, "completed") == (code, told["stop_reason"]), (seed, told["error"])
    assert [] == [to for to, count in sent.items() if count > 1], seed
    assert set() == {wanted[one.call_id] for one in results if one.status == "completed"} - set(sent), seed
    known = {wanted[one.call_id] for one in results if one.status in ("completed", "unknown")}
    assert set() == set(sent) - known, seed
    is_strict(feed)
    return killed


def test_no_effect_is_repeated_after_kill_9(tmp_path: Path) -> None:
    """An agent that is killed at two points goes on to its end: no effect twice, each told as what is known."""
    assert 2 == lives(tmp_path / "life", 3, 2)


@pytest.mark.stress
@pytest.mark.timeout(900)
def test_no_effect_is_repeated_after_100_kills(tmp_path: Path) -> None:
    """The same, a hundred deaths in as many lives as that takes."""
    killed = seed = 0
    while killed < 100:
        seed += 1
        killed += lives(tmp_path / f"life-{seed}", seed, 8)
