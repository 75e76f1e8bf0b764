"""A canceller that is killed, at whichever of its points, has changed nothing or everything."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from desk import SECOND, WORKER
from ledger_points import failpoints
from ledger_recovery import lost, recovered, told_lines
from stores import SHA, finish, line, program

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.identity import this_process
from turnctl.ledger.rows import KINDS
from turnctl.ledger.verify import verify
from turnctl.records.effects import Effect
from turnctl.records.tasks import OwnedActivity

#: those that a canceller comes to, and whether all of it is there when it is killed there
POINTS = {
    "cancel.before_begin": False,
    "cancel.before_commit": False,
    "commit.before_mark": True,
    "commit.before_bell": True,
    "cancel.after_commit": True,
}
#: promised: a ring that got lost is found within a second
HEARD_S = 10.0


@pytest.fixture
def nursery() -> Iterator[subprocess.Popen[str]]:
    """A process that bears the cancellers."""
    process = program("from ledger_lives import nursery; nursery()", Path("none"))
    yield process
    finish(process)


@pytest.fixture
def world(quick: Path) -> Iterator[turnctl.Ledger]:
    """A task that this process works on, with some of everything that a cancellation of it reaches."""
    (quick / "target").write_text("top")
    with turnctl.open_ledger(str(quick / "ledger.db")) as ledger:
        store, holder = ledger.store, this_process()

        def deal(fn: Any, *args: Any, **more: Any) -> None:
            found = store.transact(lambda books: fn(books, *args, **more))
            assert found, found

        for inc, name in (("top", "job"), ("other", "other job")):
            deal(dealings.submit, WORKER, inc, "acme", name)
            deal(dealings.take_lease, WORKER, inc, holder)
            deal(dealings.attach, WORKER, inc, 1, "shared")
        deal(dealings.register_child, WORKER, "top", 1, "child", "child")
        deal(dealings.take_lease, SECOND, "child", holder)
        deal(dealings.register_child, SECOND, "child", 1, "grandchild", "grandchild")
        deal(dealings.own, WORKER, OwnedActivity("top", "a1", "process", "make", 1), 1)
        for inc, by in (("top", WORKER), ("child", SECOND)):
            for n in "12":
                wanted = Effect(f"{inc} {n}", inc, n, "mail.send", SHA, 0, 1)
                deal(dealings.admit, by, wanted, 1, b"payload")
            deal(dealings.claim, by, f"{inc} 2", 1, by.actor)
        yield ledger


def rows(folder: Path) -> dict[str, list[Any]]:
    """All that is in the file."""
    with closing(sqlite3.connect(f"file:{folder}/ledger.db?mode=ro", uri=True)) as connection:
        return {one: connection.execute(f"SELECT * FROM {one}").fetchall() for one in (*KINDS, "log", "head")}


def everything(ledger: turnctl.Ledger) -> dict[str, Any]:
    """What a cancellation of ``top`` makes of the world."""
    store = ledger.store
    incs = ("top", "child", "grandchild", "other")
    views = {inc: store.read(lambda books, inc=inc: books.at_gate(inc)) for inc in incs}  # type: ignore[misc]
    crs = {inc: view.cr for inc, view in views.items()}
    effects = [f"{inc} {n}" for inc in ("top", "child") for n in "12"]
    return {
        "states": [view.task.state for view in views.values()],
        "covered": [crs[inc].covered_by == crs["top"].cr for inc in ("child", "grandchild")],
        "phases": [store.read(lambda books, name=name: books.effect(name).phase) for name in effects],  # type: ignore[misc]
        "interested": [one.inc for one in store.read(lambda books: books.interests_in("shared"))],
        "inventory": json.loads(next(one for one in log(ledger, "top") if one.kind == "cancel.accepted").body)[
            "inventory"
        ],
    }


def log(ledger: turnctl.Ledger, inc: str) -> list[Any]:
    return ledger.store.read(lambda books: books.events(inc))


def test_points_of_a_canceller_are_all_tried(
    world: turnctl.Ledger, quick: Path, nursery: subprocess.Popen[str]
) -> None:
    """The table above names each failpoint that a canceller comes to."""
    assert 0 == live(nursery, quick, None)
    reached = [one for one in (quick / "reached").read_text().split() if one in failpoints()]

    assert list(POINTS) == reached


def live(nursery: subprocess.Popen[str], folder: Path, armed: str | None) -> int:
    assert nursery.stdin is not None
    nursery.stdin.write(json.dumps(["cancel", str(folder), armed]) + "\n")
    nursery.stdin.flush()
    return int(line(nursery))


@pytest.mark.parametrize(("point", "done"), POINTS.items())
def test_killed_canceller_changes_nothing_or_everything(
    world: turnctl.Ledger, quick: Path, nursery: subprocess.Popen[str], point: str, done: bool
) -> None:
    """Not one row is other than before; or record, states, inventory, interests and all below are there."""
    heard = threading.Event()
    forget = world.store.watch("top", heard.set)
    before = rows(quick)
    status = live(nursery, quick, f"{point}=kill")
    after = rows(quick)

    assert -9 == status
    assert [] == lost(world, told_lines(quick))
    assert verify(quick / "ledger.db")
    if done:
        assert heard.wait(HEARD_S)
    else:
        assert before == after
        assert world.cancel("top", by="bob", tenant="acme")
    forget()
    assert {
        "states": ["cancel_requested", "cancel_requested", "cancelled_settled", "running"],
        "covered": [True, True],
        "phases": ["suppressed", "claimed", "suppressed", "claimed"],
        "interested": ["other"],
        "inventory": {
            "effects": ["top 1", "top 2"],
            "activities": ["a1"],
            "children": ["child"],
            "interests": ["shared"],
        },
    } == everything(world)
    record = world.cancel("top", by="carol", tenant="acme", reason="another")
    assert ("alice" if done else "bob") == getattr(record, "requester", record)


def test_drain_goes_on_where_a_canceller_died(
    world: turnctl.Ledger, quick: Path, nursery: subprocess.Popen[str]
) -> None:
    """A shutdown that nobody drives any more is carried on by whoever comes: nothing hangs on the canceller."""
    assert -9 == live(nursery, quick, "cancel.after_commit=kill")
    for inc, by in (("top", WORKER), ("child", SECOND), ("other", WORKER)):
        world.store.transact(lambda books, inc=inc, by=by: dealings.acknowledge(books, by, inc, 1))  # type: ignore[misc]
        world.store.transact(lambda books, inc=inc, by=by: dealings.give_back(books, by, inc, 1))  # type: ignore[misc]
    world.store.transact(lambda books: dealings.signalled(books, WORKER, "top", "a1", "TERM", "handler_stopped"))
    world.store.transact(lambda books: dealings.stopped(books, WORKER, "top", "a1"))

    state = world.report("top").task.state
    world.close()

    assert "stopped_unresolved" == state
    assert [] == recovered(str(quick / "ledger.db"), quick)
