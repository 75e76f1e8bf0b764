"""M6: work that two tasks wait for; one of them is cancelled, then the other, or both at once."""

from __future__ import annotations

from typing import Any

import pytest
from scene import Player, Stage

from turnctl.ledger import dealings
from turnctl.ledger.identity import this_process
from turnctl.ledger.store import Books
from turnctl.records.changes import By

WORKER = By("w", "worker")
KEY, SHARED = "index", "acme/index"


def interested(stage: Stage, name: str, failpoints: str = "") -> tuple[str, Player]:
    """A task whose worker is interested in the work."""
    inc, worker = stage.submit(name), stage.player(failpoints)
    worker.do("work", inc=inc)
    assert "running" == worker.do("sharing:share", key=KEY)
    return inc, worker


def work(stage: Stage, shared: str = SHARED) -> tuple[str, list[str]]:
    """The state of the work, and who is interested."""

    def look(books: Books) -> tuple[str, list[str]]:
        found = books.shared(shared)
        assert found is not None
        return found.state, [one.inc for one in books.interests_in(shared)]

    return stage.ledger.store.read(look)


def lines(stage: Stage, inc: str, kind: str) -> list[Any]:
    found = stage.ledger.store.read(lambda books: books.events(inc))
    return [one for one in found if one.kind == kind]


def test_one_of_two_is_cancelled(stage: Stage) -> None:
    """Its interest is released and nothing else: the other one gets the result, of one call."""
    first, one = interested(stage, "t1")
    second, two = interested(stage, "t2")
    stage.ledger.cancel(first, by="alice", tenant="acme")
    running = work(stage)
    two.do("effect", key=KEY)
    ended = two.do("sharing:end", key=KEY)
    two.do("sharing:leave", key=KEY)
    outcomes = [one.do("end")["outcome"], two.do("end")["outcome"]]

    assert ("running", [second]) == running
    assert "ended" == ended
    assert ["cancelled", "completed"] == outcomes
    assert 1 == len(stage.receiver.journal())
    assert [] == lines(stage, first, "shared.cancel_requested") + lines(stage, second, "shared.cancel_requested")


def test_the_last_one_takes_the_work_with_it(stage: Stage) -> None:
    """With the second cancellation nobody wants it: it is cancelled once, and nobody becomes interested after that."""
    first, one = interested(stage, "t1")
    second, two = interested(stage, "t2")
    for inc in (first, second, first, second):
        stage.ledger.cancel(inc, by="alice", tenant="acme")
    found = work(stage)
    one.do("end")
    two.do("end")
    one.do("work", inc=stage.submit("t3"))
    refused = one.fails("sharing:share", key=KEY)
    one.do("end")

    assert ("cancel_requested", []) == found
    assert ("LedgerRefused", "ended") == refused
    assert [0, 1] == [len(lines(stage, inc, "shared.cancel_requested")) for inc in (first, second)]
    assert [] == stage.receiver.journal()


@pytest.mark.parametrize("kills", [False, True])
def test_killed_or_released_on_its_way_out(stage: Stage, kills: bool) -> None:
    """A worker that is killed as it lets go has changed nothing; its interest goes with its task."""
    inc, worker = interested(stage, "t1", "release.before_commit=pause")
    worker.tell("sharing:leave", key=KEY)
    worker.reached()
    if kills:
        worker.kill()
        before = work(stage)
    else:
        worker.release()
        worker.hear()
        before = work(stage)
        worker.do("end")
    stage.ledger.cancel(inc, by="alice", tenant="acme")

    assert (("running", [inc]) if kills else ("cancel_requested", [])) == before
    assert ("cancel_requested", []) == work(stage)
    assert 1 == len(lines(stage, inc, "shared.cancel_requested"))


def test_killed_canceller_leaves_the_interest(stage: Stage) -> None:
    """A canceller that is killed before its commit has released nothing."""
    inc, worker = interested(stage, "t1")
    canceller = stage.player("cancel.before_commit=pause")
    canceller.tell("cancel", inc=inc)
    canceller.reached()
    canceller.kill()
    before = work(stage)
    left = worker.do("sharing:leave", key=KEY)
    worker.do("end")

    assert (("running", [inc]), "cancel_requested") == (before, left)


def test_both_at_once(stage: Stage) -> None:
    """Three hundred times: exactly one of the two has it cancelled, whichever comes last, and none leaks."""
    rounds = range(300)
    sides = [[f"{side}{n}" for n in rounds] for side in "ab"]
    holder = this_process()

    def set_up(books: Books) -> None:
        for inc in (*sides[0], *sides[1]):
            dealings.submit(books, WORKER, inc, "acme", inc)
            dealings.take_lease(books, WORKER, inc, holder)
            assert dealings.attach(books, WORKER, inc, 1, f"acme/{inc[1:]}")

    stage.ledger.store.transact(set_up)
    pair = stage.pair()
    for player, incs in zip(pair, sides, strict=True):
        player.tell("sharing:cancel_all", incs=incs)
    done = [player.hear(120) for player in pair]
    last = [[len(lines(stage, inc, "shared.cancel_requested")) for inc in incs] for incs in sides]

    assert [300, 300] == done
    assert {("cancel_requested", ())} == {
        (state, tuple(who)) for state, who in (work(stage, f"acme/{n}") for n in rounds)
    }
    assert {1} == {a + b for a, b in zip(*last, strict=True)}
    assert 0 < sum(last[0]) < 300, "only one of the two orders came about"
