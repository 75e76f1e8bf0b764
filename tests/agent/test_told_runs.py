"""A run that was killed when its task had ended, and before its last checkpoint was kept: it is told, not redone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_lives import keeper
from loops import Gate, Played, calls, feed_is_strict, stop_inside
from standins import until

import turnctl
from turnctl.agent import AgentLoop, Message, Reply, RunCheckpoint, Tool, Usage
from turnctl.errors import LedgerRefused

SUPPORT = Path(__file__).parent.parent / "support"
LOOK = Tool(lambda **_: "seen", name="look", schema={"type": "object"})


def _tasks(ledger: turnctl.Ledger) -> list[Any]:
    return ledger.store.read(lambda books: list(books.incarnations()))


class Watching:
    """All of a host that hears of a run, or could do something in it."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.requests: list[Any] = []

    def complete(self, *_: Any) -> str:
        raise AssertionError("it was asked")

    def __getattr__(self, name: str) -> Any:
        if name not in ("probe", "consolidate", "on_run_start", "before_step", "on_run_end"):
            raise AttributeError(name)
        return lambda *_: self.heard.append(name)


def _last(kept: list[RunCheckpoint]) -> RunCheckpoint:
    """The one of before the end, as the killed process has left it."""
    found = kept[-2]
    assert (True, None, "completed") == (found.is_done, found.stop_reason, kept[-1].stop_reason)
    return RunCheckpoint.from_dict(json.loads(json.dumps(found.as_dict())))


def _completed(ledger: turnctl.Ledger) -> RunCheckpoint:
    kept: list[RunCheckpoint] = []
    model = Played(calls("look"), Reply(Message.assistant("so it is"), usage=Usage(5, 2)))
    AgentLoop(model, [LOOK], ledger=ledger, checkpoint=kept.append).run("go")
    return _last(kept)


def test_a_run_that_its_task_says_is_completed_is_told() -> None:
    """Its answer, history, steps and usage are there; nobody is asked, nothing is done twice, no task is made."""
    with turnctl.open_ledger("memory:") as ledger:
        half = _completed(ledger)
        watching, kept = Watching(), list[RunCheckpoint]()
        loop = AgentLoop(
            watching, [LOOK], ledger=ledger, memory=watching, hooks=watching, checkpoint=kept.append, timeout=0.0001
        )
        result = loop.resume(half)
        tasks = _tasks(ledger)

        assert ("completed", "so it is", half.run_id) == (result.stop_reason, result.unwrap(), result.record.resumes)
        assert (2, Usage(5, 2), "end") == (len(result.record.steps), result.record.usage, result.reply_stop)
        assert ["on_run_start", "on_run_end"] == watching.heard
        assert half.transcript == loop.history.transcript
        (note,) = result.record.notes
        assert f"it was completed by run {half.run_id}, as its task says" in note
        assert [half.task_id] == [one.task_id for one in tasks]
        assert [("completed", half.inc)] == [(one.stop_reason, one.inc) for one in kept]
        feed_is_strict(loop)


def test_it_is_told_event_by_event_too() -> None:
    """``resume_stream`` gives the beginning and the end, and the same result."""
    with turnctl.open_ledger("memory:") as ledger:
        half = _completed(ledger)
        with AgentLoop(Watching(), [LOOK], ledger=ledger).resume_stream(half) as events:
            kinds = [event.kind for event in events]

        assert events.result is not None
        assert (["run_started", "run_ended"], "so it is") == (kinds, events.result.unwrap())


def test_a_task_that_another_run_completed_is_refused() -> None:
    """What that one came to is not in this checkpoint."""
    kept: list[RunCheckpoint] = []
    with turnctl.open_ledger("memory:") as ledger:
        with Gate() as gate:
            memory = type("Memory", (), {"consolidate": gate.pass_through})()
            first = AgentLoop(Played(calls("look"), "so"), [LOOK], ledger=ledger, memory=memory, checkpoint=kept.append)
            stop_inside(first, gate, stop=lambda: first.cancel_signal.cancel("bye", cause="shutdown"))
        task = ledger.task("agent", first.runs[0].run_id)
        assert task is not None
        assert until(lambda: ledger.report(task).task.execution == "idle")
        early, done = kept[1], kept[2]
        assert [(False, None), (True, None)] == [(one.is_done, one.stop_reason) for one in (early, done)]
        other = AgentLoop(Played("another answer"), [LOOK], ledger=ledger).resume(early)
        with pytest.raises(LedgerRefused) as refused:
            AgentLoop(Watching(), [LOOK], ledger=ledger).resume(done)

        assert ("another answer", "ended") == (other.text, refused.value.code)


def test_a_task_that_failed_is_refused() -> None:
    """Why it failed is on record, and not in the checkpoint."""
    kept: list[RunCheckpoint] = []
    with turnctl.open_ledger("memory:") as ledger:
        model = Played(calls("look"), ValueError("no"))
        AgentLoop(model, [LOOK], ledger=ledger, checkpoint=kept.append).run("go")
        with pytest.raises(LedgerRefused) as refused:
            AgentLoop(Watching(), [LOOK], ledger=ledger).resume(kept[-2])

        assert "ended" == refused.value.code


def test_one_that_only_completed_another_is_told_as_well() -> None:
    """A resumed run that has no more to do keeps a checkpoint of its own before it completes its task."""
    kept: list[RunCheckpoint] = []
    with turnctl.open_ledger("memory:") as ledger:
        with Gate() as gate:
            memory = type("Memory", (), {"consolidate": gate.pass_through})()
            first = AgentLoop(Played("so"), ledger=ledger, memory=memory, checkpoint=kept.append)
            stop_inside(first, gate, stop=lambda: first.cancel_signal.cancel("bye", cause="shutdown"))
        task = ledger.task("agent", first.runs[0].run_id)
        assert task is not None
        assert until(lambda: ledger.report(task).task.execution == "idle")
        second = AgentLoop(Watching(), ledger=ledger, checkpoint=kept.append).resume(kept[0])
        third = AgentLoop(Watching(), ledger=ledger).resume(_last(kept))

        assert ("so", second.run_id) == (third.unwrap(), third.record.resumes)


def test_a_stop_of_the_telling_stops_that_alone() -> None:
    """The run that tells is cancelled, its task is what it was, and the checkpoint is good for another time."""
    with turnctl.open_ledger("memory:") as ledger:
        half = _completed(ledger)
        loop = AgentLoop(Watching(), [LOOK], ledger=ledger)
        loop.cancel("not now")

        assert "cancelled" == loop.resume(half).stop_reason
        assert ["completed"] == [one.state for one in _tasks(ledger)]
        assert "so it is" == loop.resume(half).unwrap()


KILLED = """
import sys
from pathlib import Path
import turnctl
from agent_lives import keeper
from loops import Played
from turnctl.agent import AgentLoop

folder = Path(sys.argv[1])
with turnctl.open_ledger(str(folder / "ledger.db")) as ledger:
    AgentLoop(Played("so it is"), ledger=ledger, checkpoint=keeper(folder / "checkpoint.json")).run("go")
"""


def test_the_answer_of_a_killed_run_is_not_lost(tmp_path: Path) -> None:
    """kill -9 right after the task was completed: what resumes has the answer."""
    folder = tmp_path / "killed"
    folder.mkdir(mode=0o700)
    env = {**os.environ, "TURNCTL_LEDGER_FAILPOINT": "complete.after_commit=kill"}
    env["PYTHONPATH"] = f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=env, timeout=60, check=False)
    assert -signal.SIGKILL == ended.returncode

    with turnctl.open_ledger(str(folder / "ledger.db")) as ledger:
        keep = keeper(folder / "checkpoint.json")
        result = AgentLoop(Watching(), ledger=ledger, checkpoint=keep).resume(
            json.loads((folder / "checkpoint.json").read_text())
        )

    assert ("completed", "so it is") == (result.stop_reason, result.unwrap())
    assert "completed" == json.loads((folder / "checkpoint.json").read_text())["stop_reason"]
