"""M8: a worker that cannot be asked to stop is ended, and the ledger says no more than is known (R48 to R50)."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import alive
from scene import BOUND_S, Player, Stage

from turnctl.errors import StoreBusy
from turnctl.ledger.face import Ledger
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.rows import KINDS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux")

GRACE_S = 0.5
#: promised: grace + 1 s; asserted at ten times that
ENDED_S = 10 * (GRACE_S + 1)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.01)


def rows(stage: Stage, inc: str) -> dict[str, list[Any]]:
    """All that the file has of one incarnation."""
    owner = {"child": "parent_inc", "detached": "from_inc"}
    kinds = [one for one in KINDS if one not in ("shared", "receipt")]
    with closing(sqlite3.connect(f"file:{stage.url}?mode=ro", uri=True)) as connection:
        return {
            one: connection.execute(f"SELECT * FROM {one} WHERE {owner.get(one, 'inc')} = ?", (inc,)).fetchall()
            for one in (*kinds, "log", "head")
        }


@pytest.fixture
def folder(quick: Path) -> Iterator[Path]:
    """Where the worker leaves word; its path is in the arguments of each of its processes."""
    found = quick / "uncooperative"
    found.mkdir()
    yield found
    until(lambda: alive(str(found)) == [])


class Scene:
    """A supervisor, below it the worker that holds claimed E1, and the incarnations of the two."""

    def __init__(self, stage: Stage, folder: Path, failpoints: str = "") -> None:
        self.stage, self.folder = stage, folder
        self.top = stage.submit("top")
        self.supervisor = stage.player(failpoints)
        stage.receiver.mode("slow")
        self.supervisor.tell("uncooperative:supervise", inc=self.top, folder=str(folder), grace=GRACE_S)
        self.effect_id = stage.receiver.said().removeprefix("kept ")
        ((_, below),) = stage.ledger.report(self.top).children
        self.child = below.inc
        self.pids = alive(str(folder))

    def cancel(self) -> None:
        assert self.stage.ledger.cancel(self.top, by="alice", tenant="acme", reason="enough")

    def has_heard(self) -> bool:
        """Whether the worker has told the ledger that it begins nothing more, which is all that it can do."""
        view = self.stage.ledger.store.read(lambda books: books.at_gate(self.child))
        return view is not None and view.lease is not None and view.lease.acknowledged

    def states(self) -> list[str]:
        return [self.stage.ledger.report(inc).task.state for inc in (self.top, self.child)]

    def resolve(self, reader: Player, mode: str) -> Any:
        self.stage.receiver.mode(mode)
        return reader.do("reconcile")


def test_it_is_ended_and_its_effect_is_unknown(stage: Stage, folder: Path) -> None:
    """The whole tree is gone in time; its end changes nothing in the ledger; E1 is unknown until somebody asks."""
    scene = Scene(stage, folder)
    began = time.monotonic()
    scene.cancel()
    until(scene.has_heard)
    before = rows(stage, scene.child)
    ended = scene.supervisor.hear()
    took = time.monotonic() - began
    left = alive(str(folder))
    after = rows(stage, scene.child)
    draining = stage.ledger.report(scene.child)
    reader = stage.player(credential="read")
    untold = scene.resolve(reader, "cannot-tell")
    report, states = stage.ledger.report(scene.child), scene.states()
    told = scene.resolve(reader, "normal")

    assert (2, []) == (len(scene.pids), left)
    assert took < ENDED_S
    assert ("cancelled", "enough", True) == (ended["outcome"], ended["reason"], ended["proven"])
    assert ended["killed"] >= 2
    assert before == after
    assert ("draining", "pending") == (draining.task.state, draining.effects[0].disposition)
    assert [[scene.effect_id, "unknown", "notify"]] == untold
    assert ["stopped_unresolved", "stopped_unresolved"] == states
    assert rows(stage, scene.child)["log"][: len(before["log"])] == before["log"]
    assert (1, 1) == (report.effects_unresolved, len(report.decisions))
    assert 1 == str(report).count("mail.send '1'"), str(report)
    assert [[scene.effect_id, "completed", None]] == told
    assert ["cancelled_settled", "cancelled_settled"] == scene.states()
    assert 1 == len(stage.receiver.journal())


@pytest.mark.parametrize("kills", [False, True])
def test_supervisor_that_has_asked(stage: Stage, folder: Path, kills: bool) -> None:
    """Held or killed when it has asked with SIGTERM: the tree ends in time all the same, and nothing is settled."""
    scene = Scene(stage, folder, "escalate.after_term=pause")
    scene.cancel()
    assert "escalate.after_term" == scene.supervisor.reached()
    if kills:
        scene.supervisor.kill()
    until(lambda: alive(str(folder)) == [])
    if not kills:
        scene.supervisor.release()
        assert "cancelled" == scene.supervisor.hear()["outcome"]
    unsettled = scene.states()
    reader = stage.player(credential="read")
    untold = scene.resolve(reader, "cannot-tell")
    states = scene.states()
    scene.resolve(reader, "normal")

    assert set(unsettled) <= {"cancel_requested", "draining"}
    assert [[scene.effect_id, "unknown", "notify"]] == untold
    assert ["stopped_unresolved", "stopped_unresolved"] == states
    assert ["cancelled_settled", "cancelled_settled"] == scene.states()


@pytest.mark.parametrize("kills", [False, True])
def test_stopped_within_its_transaction(stage: Stage, kills: bool) -> None:
    """A worker that SIGSTOP holds in its transaction holds up the canceller, who is told in time which process it is;
    that one is ended by whoever owns it, or goes on, and then the cancellation is accepted."""
    inc = stage.submit()
    worker = stage.player("gate.before_commit=pause")
    worker.do("work", inc=inc)
    worker.tell("effect", key="1")
    worker.reached()
    worker.stop()
    with Ledger(open_sqlite(stage.url, busy_s=GRACE_S)) as canceller:
        began = time.monotonic()
        with pytest.raises(StoreBusy, match=f"process {worker.pid} ") as held:
            canceller.cancel(inc, by="alice", tenant="acme")
        waited = time.monotonic() - began
        still_there = worker.process.poll() is None
        before = stage.ledger.report(inc)
        if kills:
            worker.kill()
        else:
            worker.go_on()
            worker.release()
            worker.hear()
        began = time.monotonic()
        record = canceller.cancel(inc, by="alice", tenant="acme")
        took = time.monotonic() - began
    report = stage.ledger.report(inc)
    if not kills:
        assert "cancelled" == worker.do("end")["outcome"]

    assert (worker.pid, True) == (held.value.holder, still_there)
    assert waited < 10 * GRACE_S + 5.0  # a process is asked who it is
    assert took < 10
    assert (None, ()) == (before.cancellation, before.effects)
    assert report.cancellation == record
    assert ([] if kills else ["completed"]) == [one.disposition for one in report.effects]
