"""M5: a worker dies, hangs or comes late; its task is cancelled; the queue delivers it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import delivery
import pytest
from scene import HERE, Player, Process, Stage

import turnctl


class Queue(Process):
    """The queue, and what it has written down."""

    def __init__(self, folder: Path) -> None:
        super().__init__([sys.executable, "-I", "-S", str(HERE / "delivery.py"), str(folder)])
        self.folder = folder
        self.port = int(self.line())

    def put(self, inc: str) -> None:
        assert "ok" == delivery.ask(self.port, f"put {inc}")

    def delete(self, inc: str) -> None:
        assert "ok" == delivery.ask(self.port, f"delete {inc}")

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def queue(quick: Path) -> Iterator[Queue]:
    folder = quick / "queue"
    folder.mkdir()
    found = Queue(folder)
    yield found
    found.kill()


def consume(player: Player, queue: Queue, *keys: str, **how: Any) -> Any:
    return player.do("consuming:consume", queue=queue.port, keys=keys, **how)


def events(stage: Stage, inc: str, *kinds: str) -> list[str]:
    """The lines of its log that are of these kinds."""
    found = stage.ledger.store.read(lambda books: books.events(inc))
    return [one.kind for one in found if one.kind in kinds]


def killed_sending(stage: Stage, inc: str, point: str) -> None:
    """A worker of generation 1 that sends E1 and is killed at ``point``."""
    worker = stage.player(f"{point}=pause")
    worker.do("work", inc=inc)
    worker.tell("effect", key="1", payload="letter 1")
    assert point == worker.reached()
    worker.kill()


@pytest.mark.parametrize("point", ["send.before_receipt", "send.after_bytes", "send.after_claim"])
def test_replacement_gets_the_stop_and_not_the_work(stage: Stage, queue: Queue, point: str) -> None:
    """The worker is killed, nobody is there, the task is cancelled and delivered again: nothing is admitted, E1 is
    looked up under its own id, and the message is acknowledged."""
    inc = stage.submit()
    queue.put(inc)
    killed_sending(stage, inc, point)
    with stage.ledger:
        pass  # nobody has it open, and the store alone decides
    stage.ledger = stage._all.enter_context(turnctl.open_ledger(stage.url))
    accepted = stage.ledger.cancel(inc, by="alice", tenant="acme")
    queue.delete(inc)
    taken = consume(stage.player(), queue, "1", "2")
    unresolved = stage.ledger.report(inc).task.state
    looked_up = stage.player(credential="read").do("reconcile")
    arrived = len(stage.receiver.journal())

    assert accepted
    assert {"inc": inc, "outcome": "cancelled", "done": []} == taken
    assert ["lease.taken"] * 2 == events(stage, inc, "lease.taken")
    assert ["effect.admitted", "cancel.accepted"] == events(stage, inc, "effect.admitted", "cancel.accepted")
    assert [inc] == queue.lines("acked")
    assert (0 if point == "send.after_claim" else 1) == arrived
    assert "stopped_unresolved" == unresolved
    assert (["completed"] if arrived else ["unknown"]) == [one for _, one, _ in looked_up]
    assert ("cancelled_settled" if arrived else unresolved) == stage.ledger.report(inc).task.state
    assert {"GET"} == {one["method"] for one in stage.receiver.asked(who="read")}


def test_worker_that_goes_on_answers_for_what_it_sent(stage: Stage, queue: Queue) -> None:
    """Released, not killed: its receipt is taken, and the message that comes again finds a task that has settled."""
    inc = stage.submit()
    queue.put(inc)
    worker = stage.player("send.before_receipt=pause")
    worker.do("work", inc=inc)
    worker.tell("effect", key="1")
    worker.reached()
    second = stage.player()
    second.do("cancel", inc=inc)
    held = consume(second, queue, "2")
    worker.release()
    worker.hear()
    refused = worker.fails("effect", key="2")
    ended = worker.do("end")
    taken = consume(second, queue, "2")

    assert "held" == held["outcome"]
    assert "CancelledError" == refused[0]
    assert ("cancelled", {"1": "completed"}) == (ended["outcome"], ended["effects"])
    assert ("cancelled", []) == (taken["outcome"], taken["done"])
    assert "cancelled_settled" == stage.ledger.report(inc).task.state
    assert 1 == len(stage.receiver.journal())


def test_cancelled_before_any_worker_came(stage: Stage, queue: Queue) -> None:
    """With no worker in the world the acceptance settles it; who starts up later does nothing but acknowledge."""
    inc = stage.submit()
    queue.put(inc)
    stage.ledger.cancel(inc, by="alice", tenant="acme")
    settled = stage.ledger.report(inc).task.state
    queue.delete(inc)
    taken = consume(stage.player(), queue, "1")

    assert "cancelled_settled" == settled
    assert {"inc": inc, "outcome": "cancelled", "done": []} == taken
    assert ([inc], [inc]) == (queue.lines("delivered"), queue.lines("acked"))
    assert [] == stage.receiver.asked()


def test_canceller_that_is_killed_too(stage: Stage, queue: Queue) -> None:
    """All of them are dead, the canceller as well, right after its commit: the store alone tells the next one."""
    inc = stage.submit()
    queue.put(inc)
    killed_sending(stage, inc, "send.before_receipt")
    canceller = stage.player("cancel.after_commit=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.kill()
    taken = consume(stage.player(), queue, "1", "2")

    assert {"inc": inc, "outcome": "cancelled", "done": []} == taken
    assert "stopped_unresolved" == stage.ledger.report(inc).task.state


@pytest.mark.parametrize("cancels", [False, True])
def test_zombie_is_fenced_by_its_generation(stage: Stage, queue: Queue, cancels: bool) -> None:
    """A worker that is stopped is replaced by force; let go, its gate refuses it, and nothing of it is believed."""
    inc = stage.submit()
    queue.put(inc)
    zombie = stage.player("gate.before_begin=pause:2")
    zombie.do("work", inc=inc)
    zombie.do("effect", key="1", payload="letter 1")
    zombie.tell("effect", key="2", payload="letter 2")
    zombie.reached()
    zombie.stop()
    second = stage.player()
    if cancels:
        second.do("cancel", inc=inc)
    held = consume(second, queue, "2", "3")
    taken = consume(second, queue, "1", "2", "3", force=True)
    before = stage.ledger.report(inc).task
    zombie.go_on()
    zombie.release()
    refused = zombie.answer()
    ended = zombie.do("end")

    assert "held" == held["outcome"]
    assert (["cancelled", []] if cancels else ["completed", ["2", "3"]]) == [taken["outcome"], taken["done"]]
    assert (("CancelledError", None) if cancels else ("LedgerRefused", "ended")) == (refused["error"], refused["code"])
    assert ("cancelled" if cancels else "superseded") == ended["outcome"]
    assert ("cancelled_settled" if cancels else "completed") == before.state
    assert before == stage.ledger.report(inc).task
    assert (1 if cancels else 3) == len(stage.receiver.journal())


def test_zombie_that_was_replaced_meets_its_generation(stage: Stage) -> None:
    """While the other one is at work the old one is told that it was fenced, and its end touches nothing of it."""
    inc = stage.submit()
    zombie = stage.player("gate.before_begin=pause")
    zombie.do("work", inc=inc)
    zombie.tell("effect", key="1")
    zombie.reached()
    zombie.stop()
    second = stage.player()
    second.do("work", inc=inc, force=True)
    child = second.do("child", task_id="below", spawn=False)
    zombie.go_on()
    zombie.release()
    refused = zombie.answer()
    zombie_ended = zombie.do("end")
    left = stage.ledger.report(child).task.state
    sent = second.do("effect", key="1")
    ended = second.do("end")

    assert "stale_generation" == refused["code"]
    assert "running" == left
    assert ("superseded", "completed") == (zombie_ended["outcome"], ended["outcome"])
    assert [sent] == [one["effect_id"] for one in stage.receiver.journal()]
    assert ["gate.rejected"] == events(stage, inc, "gate.rejected")


def test_same_name_again_is_not_reached_by_an_old_stop(stage: Stage, queue: Queue) -> None:
    """A cancellation that was under way while its task ended, and was made anew, is stale: the new one works on."""
    old = stage.submit()
    queue.put(old)
    canceller = stage.player("cancel.before_begin=pause")
    canceller.tell("cancel", inc=old)
    canceller.reached()
    worker = stage.player()
    first = consume(worker, queue, "1")
    new = stage.submit()
    queue.put(old)  # and the old message comes once more
    canceller.release()
    told = canceller.hear()
    again = consume(worker, queue, "2")
    queue.put(new)
    second = consume(worker, queue, "2")

    assert ("completed", "completed") == (first["outcome"], second["outcome"])
    assert {"refused": "stale_incarnation"} == told
    assert (old, "ended", []) == (again["inc"], again["outcome"], again["done"])
    assert (None, "completed") == (stage.ledger.report(new).cancellation, stage.ledger.report(new).task.state)
    assert 2 == len(stage.receiver.journal())
