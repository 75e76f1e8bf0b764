"""A run in a turn that works on a task is a child of that task in the ledger: stopped with it, settled before it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import Gate, Played, calls, statuses, stop_inside
from standins import until

import turnctl
from turnctl.agent import AgentLoop, RunResult, Tool
from turnctl.errors import CancelledError, LedgerRefused
from turnctl.records.tasks import Task
from turnctl.testing import pause_at

ANY = {"type": "object"}


@pytest.fixture
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[turnctl.Ledger]:
    """A ledger in memory, or in a file where the test wants both."""
    kind = getattr(request, "param", "memory")
    with turnctl.open_ledger("memory:" if kind == "memory" else str(tmp_path / "l.db")) as opened:
        yield opened


both = pytest.mark.parametrize("ledger", ["memory", "sqlite"], indirect=True)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch, ledger: turnctl.Ledger) -> None:
    """Turns hear no bell of the store."""
    monkeypatch.setattr(type(ledger.store), "watch", lambda *_: lambda: None)


class Nest:
    """Loops in tools of loops: the run of each begins in the tool ``next`` of the one before."""

    def __init__(self, ledger: turnctl.Ledger, depth: int, innermost: Callable[[], object], **options: Any) -> None:
        self.ledger = ledger
        self.results: dict[int, RunResult] = {}
        self.raised: dict[int, BaseException] = {}
        self.loops: list[AgentLoop] = []
        fn: Callable[[], object] = innermost
        for level in range(depth, 0, -1):
            tool = Tool(self._called(fn), name="next", schema=ANY)
            loop = AgentLoop(Played(calls("next"), "end"), [tool], ledger=ledger, grace="300ms", **options)
            self.loops.insert(0, loop)
            fn = self._running(level, loop)
        self.outer = self.loops[0]

    @staticmethod
    def _called(fn: Callable[[], object]) -> Callable[..., str]:
        return lambda **_: str(fn())

    def _running(self, level: int, loop: AgentLoop) -> Callable[[], object]:
        def run() -> str:
            try:
                self.results[level] = loop.run(f"level {level}")
            except CancelledError as error:
                self.raised[level] = error
                raise
            return self.results[level].text

        return run

    def tasks(self) -> list[Task]:
        """The rows of their tasks, from the outermost to the innermost."""
        found = [self.ledger.task("agent", loop.runs[-1].run_id) for loop in self.loops if loop.runs]
        return [self.ledger.row_of(one) for one in found if one is not None]

    def kinds(self, row: Task) -> list[str]:
        """What is in the log of one of them."""
        return [one.kind for one in self.ledger.store.read(lambda books: books.events(row.inc))]


# -- registered -------------------------------------------------------------------------------------------------------


def test_a_run_in_a_tool_is_a_child_task(ledger: turnctl.Ledger) -> None:
    """A sub-agent's run is a task below that of the run around it, with its id as the task's; all three complete."""
    nest = Nest(ledger, 3, lambda: "deepest")
    result = nest.outer.run("go")
    outer, middle, inner = nest.tasks()

    assert ("completed", "end") == (result.stop_reason, nest.results[3].text)
    assert (None, outer.inc, middle.inc) == (outer.parent_inc, middle.parent_inc, inner.parent_inc)
    assert {outer.inc} == {outer.root_inc, middle.root_inc, inner.root_inc}
    assert ["completed"] * 3 == [one.state for one in (outer, middle, inner)]
    assert [("ended", inner.inc)] == [(one.status, its.inc) for one, its in ledger.report(middle.inc).children]
    assert nest.results[2].checkpoint is not None
    assert middle.inc == nest.results[2].checkpoint.inc


def test_a_child_promises_what_its_parent_does(ledger: turnctl.Ledger) -> None:
    """A run in any turn with a task is its child: of its tenant, with its promise and what a stop does to effects."""
    task = ledger.submit("acme", "job", promise="ask-provider", policy="deliver")
    loop = AgentLoop(Played("fine"), ledger=ledger)
    with turnctl.turn("elsewhere", task=task):
        result = loop.run("go")
    made = ledger.task("acme", result.run_id)
    assert made is not None
    row = ledger.row_of(made)

    assert (task.inc, "ask-provider", "deliver", "completed") == (row.parent_inc, row.promise, row.policy, row.state)


def test_a_run_of_another_tenant_is_no_child(ledger: turnctl.Ledger) -> None:
    """A task has no child of another tenant: such a run has a task of its own, and its record says so."""
    loop = AgentLoop(Played("fine"), ledger=ledger, tenant="other")
    with turnctl.turn(task=ledger.submit("acme", "job")):
        result = loop.run("go")
    made = ledger.task("other", result.run_id)

    assert made is not None
    assert None is ledger.row_of(made).parent_inc
    assert "tenant other, so it is no child of task job" in result.record.notes[0]


def test_the_nearest_task_of_the_same_ledger_counts(ledger: turnctl.Ledger) -> None:
    """A turn with a task of another ledger in between does not hide the one above; ``inherit=False`` does."""
    task = ledger.submit("agent", "job")
    with turnctl.open_ledger("memory:") as other, turnctl.turn(task=task):
        with turnctl.turn(task=other.submit("agent", "between")):
            below = AgentLoop(Played("fine"), ledger=ledger).run("go")
        with turnctl.turn(inherit=False):
            apart = AgentLoop(Played("fine"), ledger=ledger).run("go")
    parents = [ledger.row_of(one).parent_inc for r in (below, apart) if (one := ledger.task("agent", r.run_id))]

    assert [task.inc, None] == parents


def test_a_ledger_that_was_opened_twice_is_one(tmp_path: Path) -> None:
    """Two openings of one file are the same ledger: the run is a child all the same."""
    file = str(tmp_path / "l.db")
    with turnctl.open_ledger(file) as one, turnctl.open_ledger(file) as two:
        task = one.submit("agent", "job")
        with turnctl.turn(task=task):
            result = AgentLoop(Played("fine"), ledger=two).run("go")
        made = two.task("agent", result.run_id)
        assert made is not None

        assert (task.inc, "completed") == (two.row_of(made).parent_inc, task.state)


# -- reached by the stop ----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("way", ["the loop", "the ledger"])
def test_a_stop_of_the_parent_reaches_all_below(ledger: turnctl.Ledger, way: str) -> None:
    """Child and grandchild, in sessions of their own, end cancelled, cause ``parent``; a sibling goes on."""
    with Gate() as gate, Gate() as beside:
        nest = Nest(ledger, 3, gate.pass_through)
        sibling = AgentLoop(Played(beside.pass_through), ledger=ledger)
        done: list[RunResult] = []
        thread = threading.Thread(target=lambda: done.append(sibling.run("aside")))
        thread.start()
        assert beside.reached.wait(10)

        def stop() -> object:
            if way == "the loop":
                return nest.outer.cancel("enough", by="ana")
            row = next(iter(ledger.store.read(lambda books: [*books.incarnations(is_open=True)])[1:]))
            assert None is row.parent_inc
            return ledger.cancel(row.inc, by="ana", tenant="agent", reason="enough")

        result = stop_inside(nest.outer, gate, stop=stop).result
        beside.open()
        thread.join()
    rows = nest.tasks()
    outer, middle, inner = crs = [cr for row in rows if (cr := ledger.report(row.inc).cancellation)]

    assert ["user", "parent", "parent"] == [result.cause, nest.loops[1].runs[0].cause, nest.loops[2].runs[0].cause]
    assert ["cancelled"] * 3 == [loop.runs[0].stop_reason for loop in nest.loops]
    assert [2, 3] == sorted(nest.raised)
    assert 3 == len({loop.session_id for loop in nest.loops})
    assert [("ana", "enough")] * 3 == [(cr.requester, cr.reason) for cr in crs]
    assert (None, outer.cr) == (outer.covered_by, middle.covered_by)
    assert inner.covered_by in (outer.cr, middle.cr)
    assert until(lambda: ["cancelled_settled"] * 3 == [one.state for one in nest.tasks()])
    assert ["completed"] == [one.stop_reason for one in done]


@pytest.mark.parametrize("who", ["loop", "ledger"])
def test_a_stop_of_a_child_stays_below(ledger: turnctl.Ledger, who: str) -> None:
    """A sub-agent that is stopped by itself takes its own children along, and neither its parent nor its record."""
    with Gate() as gate:
        nest = Nest(ledger, 3, gate.pass_through)

        def stop() -> object:
            if who == "loop":
                return nest.loops[1].cancel("not this one")
            (row,) = ledger.store.read(lambda books: [one for one in books.incarnations() if one.parent_inc][:1])
            return ledger.cancel(row.inc, by="ana", tenant="agent")

        result = stop_inside(nest.outer, gate, stop=stop).result

    assert ("completed", ["c1"]) == (result.stop_reason, list(statuses(nest.outer)))
    assert ["user", "parent"] == [loop.runs[0].cause for loop in nest.loops[1:]]
    assert "completed" == nest.tasks()[0].state


def test_a_sub_agent_elsewhere_is_reached(tmp_path: Path) -> None:
    """One that was handed to another worker, by the id of its task, is stopped with its parent, and settles first."""
    file, results = str(tmp_path / "l.db"), list[RunResult]()
    with turnctl.open_ledger(file) as here, turnctl.open_ledger(file) as there, Gate() as gate:
        inner = AgentLoop(Played(gate.pass_through), ledger=there)

        def hand_over(**_: Any) -> str:
            turn = turnctl.current_turn()
            assert turn is not None
            part = here.submit("agent", "part", parent=turn)
            worker = threading.Thread(
                target=lambda: results.append(inner.run("go", task=there.incarnation(part.inc)))  # in no turn
            )
            worker.start()
            worker.join()
            return "through"

        outer = AgentLoop(Played(calls("next"), "end"), [Tool(hand_over, name="next", schema=ANY)], ledger=here)
        result = stop_inside(outer, gate).result
        task, part = here.task("agent", result.run_id), here.task("agent", "part")
        assert task is not None
        assert part is not None

        assert until(lambda: results)
        assert ("cancelled", "parent", "stopped by the test") == (
            results[0].stop_reason,
            results[0].cause,
            results[0].record.reason,
        )
        assert task.inc == here.row_of(part).parent_inc
        gate.open()
        assert until(lambda: ["cancelled_settled"] * 2 == [task.state, part.state])


# -- registering against the stop -------------------------------------------------------------------------------------


def test_no_child_after_the_stop(ledger: turnctl.Ledger, deaf: None) -> None:
    """Below a task that was cancelled no run begins, also where nobody has heard of it: refused, on record as that."""
    model = Played("never")
    below = AgentLoop(model, ledger=ledger)

    def go_below(**_: Any) -> str:
        (row,) = ledger.store.read(lambda books: [*books.incarnations()])
        ledger.cancel(row.inc, by="ana", tenant="agent")
        return below.run("too late").text

    outer = AgentLoop(Played(calls("next"), "end"), [Tool(go_below, name="next", schema=ANY)], ledger=ledger)
    result = outer.run("go")
    (row,) = ledger.store.read(lambda books: [*books.incarnations()])
    kinds = [one.kind for one in ledger.store.read(lambda books: books.events(row.inc))]

    assert ("cancelled", "user", []) == (result.stop_reason, result.cause, model.requests)
    assert ("cancelled", "parent") == (below.runs[0].stop_reason, below.runs[0].cause)
    assert kinds.index("task.cancel_requested") < kinds.index("child.rejected")
    assert "cancelled_settled" == row.state


@both
def test_a_stop_that_is_just_being_heard_refuses(ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is refused while another thread is about to trip its parent's token is born cancelled."""
    task, model = ledger.submit("agent", "job"), Played("never")
    transact = type(ledger.store).transact
    below = AgentLoop(model, ledger=ledger)
    canceller = threading.Thread(target=lambda: ledger.cancel(task, by="ana"))
    with pause_at("token.cancel.entering") as hearing, turnctl.turn(task=task):

        def beside(store: Any, fn: Any, **how: Any) -> Any:
            if how.get("point") == "child":
                canceller.start()
                hearing.reached.wait(10)
            return transact(store, fn, **how)

        monkeypatch.setattr(type(ledger.store), "transact", beside)
        below.run("go")
        hearing.release()
        canceller.join()

    assert ("cancelled", "parent", []) == (below.runs[0].stop_reason, below.runs[0].cause, model.requests)


@both
@pytest.mark.parametrize("first", ["the stop", "the child"])
def test_a_child_is_refused_or_in_the_inventory(
    ledger: turnctl.Ledger, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A stop beside the registration of a child comes before it or behind it: nothing of it, or a record of both."""
    task, model = ledger.submit("agent", "job"), Played("never")
    transact = type(ledger.store).transact

    def beside(store: Any, fn: Any, **how: Any) -> Any:
        if how.get("point") != "child":
            return transact(store, fn, **how)
        if first == "the stop":
            ledger.cancel(task, by="ana")
        found = transact(store, fn, **how)
        if first == "the child":
            ledger.cancel(task, by="ana")
        return found

    monkeypatch.setattr(type(ledger.store), "transact", beside)
    below = AgentLoop(model, ledger=ledger)
    with turnctl.turn(task=task) as turn:
        below.run("go")
    children = ledger.report(task).children

    assert ("cancelled", "cancelled", []) == (turn.outcome, below.runs[0].stop_reason, model.requests)
    assert ("parent", "cancelled_settled") == (below.runs[0].cause, task.state)
    expected = [("ended", "cancelled_settled")] if first == "the child" else []
    assert expected == [(one.status, its.state) for one, its in children]


def test_nothing_is_left_of_a_run_that_cannot_begin(ledger: turnctl.Ledger) -> None:
    """A circle of loops ends at the first that runs already: refused, told to the model, and in no inventory."""
    refused: list[BaseException] = []

    def round_again() -> str:
        try:
            return nest.outer.run("again").text
        except turnctl.SessionBusy as error:
            refused.append(error)
            return "it runs already"

    nest = Nest(ledger, 2, round_again)
    result = nest.outer.run("go")

    assert ("completed", 1, 1) == (result.stop_reason, len(refused), len(nest.outer.runs))
    assert 2 == len(ledger.store.read(lambda books: [*books.incarnations()]))
    assert "it runs already" == nest.loops[1].history.feed[2].results[0].text


def test_a_shield_begins_no_child(ledger: turnctl.Ledger) -> None:
    """A run under a shield, in a turn that had no task any more since its parent was cancelled, gets none either."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task):
        ledger.cancel(task, by="ana")
        with turnctl.turn() as child, child.shield():
            AgentLoop(Played("fine"), ledger=ledger).run("go")

    assert [task.inc] == [one.inc for one in ledger.store.read(lambda books: [*books.incarnations()])]


def test_a_task_is_not_below_itself(ledger: turnctl.Ledger) -> None:
    """A run that is given the task of the turn around it is refused, and that turn goes on."""
    task = ledger.submit("agent", "job")
    loop = AgentLoop(Played("never"), ledger=ledger)
    with turnctl.turn(task=task), pytest.raises(LedgerRefused) as caught:
        loop.run("go", task=task)

    assert ("held", "completed", ()) == (caught.value.code, task.state, ledger.report(task).children)


# -- settled ----------------------------------------------------------------------------------------------------------


def test_a_parent_settles_after_its_last_child(ledger: turnctl.Ledger) -> None:
    """What a sub-agent had to leave behind keeps its task, and those above it, draining until it has come back."""
    with Gate() as gate:
        nest = Nest(ledger, 3, gate.pass_through, patience="20ms")
        stopped = stop_inside(nest.outer, gate).result
        middle, inner = (ledger.report(row.inc) for row in nest.tasks()[1:])
        before = [one.state for one in nest.tasks()]

        assert "cancelled" == stopped.stop_reason
        assert ["draining"] * 3 == before
        assert any("call next" in one for one in inner.missing)
        assert [f"child {inner.task.inc} is draining"] == [one for one in middle.missing if one.startswith("child")]
    settled = until(lambda: "cancelled_settled" == nest.tasks()[0].state)
    outer, middle_row, inner_row = nest.tasks()

    assert settled
    assert (outer.ended_at or 0) >= (middle_row.ended_at or 0) >= (inner_row.ended_at or 1e12) > 0


def test_a_parent_that_ends_ends_its_children(ledger: turnctl.Ledger) -> None:
    """A run that was left behind in a tool with a time of its own is cancelled with the tool, and is not carried on."""
    with Gate() as gate:
        inner = AgentLoop(Played(gate.pass_through), ledger=ledger, patience="20ms")
        tool = Tool(lambda: inner.run("go").text, name="next", schema=ANY, timeout="100ms")
        outer = AgentLoop(Played(calls("next"), "end"), [tool], ledger=ledger, grace="300ms")
        result = outer.run("go")

        assert ("completed", {"c1": "unknown"}) == (result.stop_reason, statuses(outer))
        assert ("cancelled", "parent") == (inner.runs[0].stop_reason, inner.runs[0].cause)
        assert until(lambda: ["call"] == [one.kind for one in ledger.report(_below(ledger)).activities][:1])


def test_a_resumed_run_leaves_no_child_open(ledger: turnctl.Ledger) -> None:
    """A sub-agent that a shutdown took along is not carried on: its task is cancelled when the resumed run ends."""
    with Gate() as gate:
        nest = Nest(ledger, 2, gate.pass_through, patience="20ms")
        shut = stop_inside(nest.outer, gate, stop=lambda: nest.outer.cancel_signal.cancel("bye", cause="shutdown"))
    assert until(lambda: ["idle"] * 2 == [one.execution for one in nest.tasks()])
    before = [one.state for one in nest.tasks()]
    again = AgentLoop(Played("end"), nest.outer.tools.values(), ledger=ledger)
    assert shut.result.checkpoint is not None
    result = again.resume(shut.result.checkpoint)
    cr = ledger.report(_below(ledger)).cancellation

    assert ("completed", ["running"] * 2) == (result.stop_reason, before)
    assert ["completed", "cancelled_settled"] == [one.state for one in nest.tasks()]
    assert cr is not None
    assert "its parent has ended" == cr.reason


def _below(ledger: turnctl.Ledger) -> str:
    (row,) = ledger.store.read(lambda books: [one for one in books.incarnations() if one.parent_inc])
    return row.inc


def test_a_stop_of_a_child_leaves_its_sibling(ledger: turnctl.Ledger) -> None:
    """Of two sub-agents side by side one is stopped: the other completes, and the run around them is told of both."""
    with Gate() as gate, Gate() as beside:
        left = AgentLoop(Played(gate.pass_through), ledger=ledger)
        right = AgentLoop(Played(beside.pass_through), ledger=ledger)
        tools = [Tool(lambda **_: left.run("a").stop_reason, name="left", schema=ANY)]
        tools += [Tool(lambda **_: right.run("b").stop_reason, name="right", schema=ANY)]
        outer = AgentLoop(Played(calls("left", "right"), "end"), tools, ledger=ledger, parallel=2)

        def stop() -> object:
            assert beside.reached.wait(10)
            said = left.cancel("not this one")
            assert until(lambda: left.runs)
            beside.open()
            return said

        result = stop_inside(outer, gate, stop=stop).result

    assert ("completed", "user", "completed") == (result.stop_reason, left.runs[0].cause, right.runs[0].stop_reason)
    assert ["cancelled", "completed"] == [one.text for one in outer.history.feed[2].results]
    made = [ledger.task("agent", loop.runs[0].run_id) for loop in (outer, left, right)]
    assert until(lambda: ["completed", "cancelled_settled", "completed"] == [one.state for one in made if one])
