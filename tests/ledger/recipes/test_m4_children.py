"""M4: a child against the acceptance of its parent's cancellation, over three levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from looks import children_of, cr_of, events_of, inventory_of, task_of
from rounds import both_orders
from scene import Player, Stage


class Family:
    """A tree of one branch, each with a process of its own; the lowest one is about to have a child, at ``point``."""

    def __init__(self, stage: Stage, point: str, folder: Path, *, above: int = 0) -> None:
        self.stage = stage
        self.pid_file = folder / "pid"
        self.chain = [stage.submit("root")]
        self.workers: list[Player] = []
        for n in range(above):
            self._works(stage.player())
            self.chain.append(self.workers[-1].do("child", task_id=f"child {n}", spawn=False))
        self.worker = stage.player(f"{point}=pause")
        self._works(self.worker)
        self.worker.tell("child", task_id="late", pid_file=str(self.pid_file))
        assert point == self.worker.reached()

    def _works(self, player: Player) -> None:
        assert "at work" == player.do("work", inc=self.chain[-1])
        self.workers.append(player)

    @property
    def inc(self) -> str:
        """The incarnation that has the child, or would have."""
        return self.chain[-1]

    def end(self) -> None:
        """All that live come to their end, from the lowest one up."""
        for worker in reversed(self.workers):
            if worker.process.poll() is None:
                worker.do("end")
                worker.end()

    def states(self) -> list[str]:
        return [task_of(self.stage, inc).state for inc in self.chain]


def rejections(stage: Stage, inc: str) -> list[tuple[str, str]]:
    return [(one["code"], one["cr"]) for one in events_of(stage, inc, "child.rejected")]


@pytest.mark.parametrize("above", [0, 1, 2])
def test_cancelled_before_registration(stage: Stage, quick: Path, above: int) -> None:
    """A child that comes after a cancellation at the root is refused at any level, and no process of it is started."""
    family = Family(stage, "child.before_begin", quick, above=above)
    accepted = stage.player().do("cancel", inc=family.chain[0])
    family.worker.release()
    refused = family.worker.answer()
    family.end()

    cr = cr_of(stage, family.inc)
    assert ("LedgerRefused", "cancelled") == (refused["error"], refused["code"])
    assert [("cancelled", cr.cr)] == rejections(stage, family.inc)
    assert accepted["cr"] in (cr.cr, cr.covered_by)
    assert (False, []) == (family.pid_file.exists(), children_of(stage, family.inc))
    assert None is stage.ledger.task("acme", "late")
    assert {"cancelled_settled"} == set(family.states())


@pytest.mark.parametrize("last", ["root", "child"])
def test_registered_before_cancellation(stage: Stage, last: str) -> None:
    """What is below is stopped with its parent, each by a record of its own, and can have no children any more."""
    inc = stage.submit("root")
    worker, canceller = stage.player(), stage.player()
    worker.do("work", inc=inc)
    child = worker.do("child", task_id="child")
    below = {"do": "child", "task_id": "grandchild"}
    grandchild = worker.do("below", who="child", say=below)["ok"]
    accepted = canceller.do("cancel", inc=inc, reason="enough")
    deeper = {"do": "child", "task_id": "late"}
    if last == "root":
        refused = [worker.do("below", who="child", say=deeper)]
    else:
        refused = [worker.do("below", who="child", say={"do": "below", "who": "grandchild", "say": deeper})["ok"]]
    effects = [
        worker.do("below", who="child", say={"do": "effect", "key": "a"}),
        worker.do("below", who="child", say={"do": "below", "who": "grandchild", "say": {"do": "effect"}})["ok"],
    ]
    worker.do("end")
    worker.end()
    canceller.end()

    crs = [cr_of(stage, one) for one in (inc, child, grandchild)]
    assert 2 * [accepted["cr"]] == [one.covered_by for one in crs[1:]]
    assert 3 * ["enough"] == [one.reason for one in crs]
    assert ([child], [grandchild]) == tuple(inventory_of(stage, one)["children"] for one in (inc, child))
    assert ["cancelled"] == [one["code"] for one in refused]
    assert 2 * ["CancelledError"] == [one["error"] for one in effects]
    assert 3 * ["cancelled_settled"] == [task_of(stage, one).state for one in (inc, child, grandchild)]
    assert None is stage.ledger.task("acme", "late")


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("point", ["child.before_begin", "child.before_commit"])
def test_killed_before_registration(stage: Stage, quick: Path, point: str, above: int) -> None:
    """A parent that is killed before its child is registered has none."""
    family = Family(stage, point, quick, above=above)
    family.worker.kill()
    canceller = stage.player()
    canceller.do("cancel", inc=family.chain[0])
    family.end()
    canceller.do("reconcile")
    canceller.end()

    assert (False, []) == (family.pid_file.exists(), children_of(stage, family.inc))
    assert {"cancelled_settled"} == set(family.states())


@pytest.mark.parametrize("above", [0, 1])
def test_cancellation_waits_for_a_registration(stage: Stage, quick: Path, above: int) -> None:
    """A canceller that comes while a child is being registered waits, and has it in its inventory."""
    family = Family(stage, "child.before_commit", quick, above=above)
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=family.chain[0])
    canceller.reached()
    canceller.release()
    waits = cr_of(stage, family.inc) is None
    family.worker.release()
    accepted = canceller.hear()
    child = family.worker.hear()
    stopped = family.worker.do("below", who="late", say={"do": "effect"})
    family.end()
    canceller.end()

    assert waits
    assert [child] == inventory_of(stage, family.inc)["children"]
    assert accepted["cr"] == cr_of(stage, child).covered_by
    assert "CancelledError" == stopped["error"]
    assert {"cancelled_settled"} == {*family.states(), task_of(stage, child).state}


@pytest.mark.parametrize("above", [0, 1])
def test_started_after_the_cancellation(stage: Stage, quick: Path, above: int) -> None:
    """A child that was registered before the cut-off, and is started after it, is born stopped and does nothing."""
    family = Family(stage, "child.before_spawn", quick, above=above)
    stage.player().do("cancel", inc=family.chain[0])
    family.worker.release()
    child = family.worker.hear()
    stopped = family.worker.do("below", who="late", say={"do": "effect"})
    family.end()

    assert family.pid_file.exists()
    assert ("CancelledError", "cancelled_settled") == (stopped["error"], task_of(stage, child).state)
    assert ["never_started"] == [one.status for one in children_of(stage, family.inc)]
    assert {"cancelled_settled"} == set(family.states())


@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("cancelled", ["before", "after"])
def test_killed_before_the_child_is_started(stage: Stage, quick: Path, cancelled: str, above: int) -> None:
    """A child that was registered, and whose parent died before it was started, is closed as never started."""
    family = Family(stage, "child.before_spawn", quick, above=above)
    canceller = stage.player()
    if cancelled == "before":
        canceller.do("cancel", inc=family.chain[0])
    family.worker.kill()
    if cancelled == "after":
        canceller.do("cancel", inc=family.chain[0])
    family.end()
    canceller.do("reconcile")
    child = stage.ledger.task("acme", "late").inc
    born = canceller.do("work", inc=child)
    canceller.do("end")
    canceller.end()

    assert not family.pid_file.exists()
    assert [(child, "never_started")] == [(one.child_inc, one.status) for one in children_of(stage, family.inc)]
    assert "stopped" == born
    assert {"cancelled_settled"} == {*family.states(), task_of(stage, child).state}


@pytest.mark.parametrize(("point", "reaches"), [("before_commit", False), ("after_commit", True)])
def test_killed_canceller_reaches_all_or_none(stage: Stage, quick: Path, point: str, reaches: bool) -> None:
    """A canceller that is killed has cancelled the whole tree, or nothing of it, which is then for another one."""
    family = Family(stage, "child.before_begin", quick, above=2)
    canceller = stage.player(f"cancel.{point}=pause")
    canceller.tell("cancel", inc=family.chain[0], by="first")
    canceller.reached()
    canceller.kill()
    reached = [cr_of(stage, inc) is not None for inc in family.chain]
    second = stage.player()
    second.do("cancel", inc=family.chain[0], by="second")
    family.worker.release()
    refused = family.worker.answer()
    family.end()
    second.end()

    assert 3 * [reaches] == reached
    assert 3 * ["first" if reaches else "second"] == [cr_of(stage, inc).requester for inc in family.chain]
    assert "cancelled" == refused["code"]
    assert {"cancelled_settled"} == set(family.states())


@pytest.mark.timeout(600)
def test_either_comes_first(stage: Stage, rounds: int) -> None:
    """Whatever was registered when the tree was cancelled is stopped with it, and nothing that comes later is there."""
    told = both_orders(stage, "children", rounds=min(rounds, 200))
    for one in told:
        inc, registered = one["inc"], one["registered"]
        chain = [inc, *registered]
        states = [task_of(stage, member).state for member in chain]
        found = [[child.child_inc for child in children_of(stage, member)] for member in chain]

        assert [[member] for member in registered] + [[]] == found
        assert one["canceller"] in ("accepted", "already_completed")
        assert set(states) <= {"cancelled_settled", "completed"}
        if one["canceller"] == "accepted":
            assert "cancelled_settled" == states[0]
    counts = {len(one["registered"]) for one in told}
    assert {0, 2} <= counts
