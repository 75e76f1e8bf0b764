"""M4: a child against the acceptance of its parent's cancellation, over three levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from looks import children_of, cr_of, events_of, inventory_of, task_of
from rounds import both_orders
from stage import Player, Stage


def family(stage: Stage, point: str, pid_file: Path, *, levels: int = 1) -> tuple[Player, str, list[str]]:
    """A worker whose lowest child of ``levels`` is about to be registered; the root, and who is above it from there on.

    With two the child is at work already, and it is the worker of the root that registers another one.
    """
    inc = stage.submit("root")
    worker = stage.player(f"{point}=pause:{levels}")
    worker.do("work", inc=inc)
    above = [worker.do("child", task_id=f"child {n}") for n in range(1, levels)]
    worker.tell("child", task_id="late", pid_file=str(pid_file))
    assert point == worker.reached()
    return worker, inc, above


def rejections(stage: Stage, inc: str) -> list[tuple[str, str]]:
    return [(one["code"], one["cr"]) for one in events_of(stage, inc, "child.rejected")]


def test_cancelled_before_registration(stage: Stage, quick: Path) -> None:
    """A child that comes after its parent's cancellation is refused, and no process of it is ever started."""
    pid_file = quick / "pid"
    worker, inc, _ = family(stage, "child.before_begin", pid_file)
    accepted = stage.player().do("cancel", inc=inc)
    worker.release()
    refused = worker.answer()
    worker.do("end")
    worker.end()

    assert ("LedgerRefused", "cancelled") == (refused["error"], refused["code"])
    assert [("cancelled", accepted["cr"])] == rejections(stage, inc)
    assert (False, []) == (pid_file.exists(), children_of(stage, inc))
    assert None is stage.ledger.task("acme", "late")
    assert "cancelled_settled" == task_of(stage, inc).state


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


@pytest.mark.parametrize("point", ["child.before_begin", "child.before_commit"])
def test_killed_before_registration(stage: Stage, quick: Path, point: str) -> None:
    """A parent that is killed before its child is registered has none."""
    pid_file = quick / "pid"
    worker, inc, _ = family(stage, point, pid_file)
    worker.kill()
    canceller = stage.player()
    canceller.do("cancel", inc=inc)
    canceller.do("reconcile")
    canceller.end()

    assert (False, []) == (pid_file.exists(), children_of(stage, inc))
    assert "cancelled_settled" == task_of(stage, inc).state


def test_cancellation_waits_for_a_registration(stage: Stage, quick: Path) -> None:
    """A canceller that comes while a child is being registered waits, and has it in its inventory."""
    worker, inc, _ = family(stage, "child.before_commit", quick / "pid")
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.release()
    waits = cr_of(stage, inc) is None
    worker.release()
    accepted = canceller.hear()
    child = worker.hear()
    stopped = worker.do("below", who="late", say={"do": "effect"})
    worker.do("end")
    worker.end()
    canceller.end()

    assert waits
    assert [child] == inventory_of(stage, inc)["children"]
    assert accepted["cr"] == cr_of(stage, child).covered_by
    assert "CancelledError" == stopped["error"]
    assert 2 * ["cancelled_settled"] == [task_of(stage, one).state for one in (inc, child)]


@pytest.mark.parametrize("cancelled", ["before", "after"])
def test_killed_before_the_child_is_started(stage: Stage, quick: Path, cancelled: str) -> None:
    """A child that was registered, and whose parent died before it was started, is closed as never started."""
    pid_file = quick / "pid"
    worker, inc, _ = family(stage, "child.before_spawn", pid_file)
    canceller = stage.player()
    if cancelled == "before":
        canceller.do("cancel", inc=inc)
    worker.kill()
    if cancelled == "after":
        canceller.do("cancel", inc=inc)
    canceller.do("reconcile")
    child = stage.ledger.task("acme", "late").inc
    born = canceller.do("work", inc=child)
    canceller.do("end")
    canceller.end()

    assert not pid_file.exists()
    assert [(child, "never_started")] == [(one.child_inc, one.status) for one in children_of(stage, inc)]
    assert "stopped" == born
    assert 2 * ["cancelled_settled"] == [task_of(stage, one).state for one in (inc, child)]


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
