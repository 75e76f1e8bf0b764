"""What is proven of the things of a dead worker, what cannot be, and who may close that (O1 to O4, G1 to G3)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from desk import HOLDER, KERNEL, OPERATOR, SECOND, WORKER, Desk
from hypothesis import given, settings
from hypothesis import strategies as st
from standins import until

from turnctl.ledger import dealings
from turnctl.ledger.accounts import report_on
from turnctl.ledger.deaths import deaths_in, observe_deaths
from turnctl.ledger.identity import identity_of, members_of, not_yet, proof_of_end, this_process
from turnctl.ledger.owned import Seen, Step, close_activity, keep
from turnctl.records.changes import evolve
from turnctl.records.tasks import Holder, OwnedActivity

GONE = "there is no process 100"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, with another one in that session."""
    process = subprocess.Popen(["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.stdout.close()
    if process.poll() is None:
        os.killpg(process.pid, 9)
        process.wait()


def dead_worker() -> Holder:
    """A process of this boot that is gone."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return evolve(this_process(), pid=process.pid, started=1)


def owning(desk: Desk, ref: str, kind: str, process: Holder | None, name: str = "make") -> OwnedActivity:
    row = OwnedActivity("i1", ref, kind, name, 1, process=process)
    return desk.deal(dealings.own, WORKER, row, 1)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A task whose worker is dead, which nobody has noted yet."""
    monkeypatch.setattr("desk.HOLDER", dead_worker())
    return Desk()


def row(desk: Desk, ref: str) -> OwnedActivity:
    found = desk.store.read(lambda books: books.activity("i1", ref))
    assert found is not None
    return found


# -- deaths -------------------------------------------------------------------------------------------------------


def test_dead_worker_takes_with_it_what_ran_in_it(desk: Desk) -> None:
    """What lived in its process has stopped, our end of a request is severed, and the cancelled task settles."""
    worker = desk.lease().holder
    owning(desk, "a1", "call", worker)
    owning(desk, "a2", "http", worker)
    desk.cancel()
    assert ["i1"] == observe_deaths(desk.store)

    assert ((True, False), (False, True)) == tuple(
        (one.stopped, one.severed) for one in (row(desk, "a1"), row(desk, "a2"))
    )
    assert ("cancelled_settled", "stop_observed") == (desk.state(), desk.task().execution)
    assert {"the kernel"} == {
        event.actor for event in desk.store.read(lambda books: books.events("i1")) if event.kind == "activity.gone"
    }


def test_process_of_a_dead_worker_is_named_until_it_is_gone(desk: Desk, sleeper: subprocess.Popen[bytes]) -> None:
    """A process that lives keeps the task draining, unproven, by its name; so does one that it left in its session."""
    owning(desk, "a1", "process", identity_of(sleeper.pid))
    desk.cancel()
    observe_deaths(desk.store)
    alive = (desk.task().execution, desk.state())
    missing = report_on(desk.store, "i1").missing
    sleeper.kill()
    sleeper.wait()
    observe_deaths(desk.store)
    left = desk.task().execution
    os.killpg(sleeper.pid, 9)
    assert until(lambda: not members_of(sleeper.pid))
    observe_deaths(desk.store)

    assert ("unproven", "draining") == alive
    assert f"process make (pid {sleeper.pid}) is not known to have stopped" in missing
    assert ("unproven", "stop_observed", "cancelled_settled") == (left, desk.task().execution, desk.state())
    assert "nor one of its session or group" in (row(desk, "a1").detail or "")


def test_process_without_a_number_is_for_an_operator(desk: Desk) -> None:
    """Where the host was killed before its number was on record nothing is said of it, until somebody closes it."""
    owning(desk, "a1", "process", not_yet())
    desk.cancel()
    observe_deaths(desk.store)
    before = desk.task().execution
    refused = desk.deal(close_activity, WORKER, "i1", "a1", reason="tired")
    closed = desk.deal(close_activity, OPERATOR, "i1", "a1", reason="looked at ps")

    assert ("unproven", "not_authorised") == (before, refused.code)
    assert (False, True, "closed by bob, without proof: looked at ps") == (
        *(closed.stopped, closed.severed, closed.detail),
    )
    assert ("cancelled_settled", "stop_observed") == (desk.state(), desk.task().execution)


def test_another_boot_proves_it_gone(desk: Desk) -> None:
    """Nothing outlives the machine."""
    owning(desk, "a1", "process", evolve(not_yet(), boot_id="the boot before"))
    observe_deaths(desk.store)

    assert "found to be gone: the machine was started again" == row(desk, "a1").detail


def test_next_worker_proves_it_before_it_begins(desk: Desk) -> None:
    """Who takes the lease closes the rows of the dead one in the same transaction, and they name who has seen it."""
    owning(desk, "a1", "call", desk.lease().holder)
    deaths = deaths_in(desk.store, "i1")

    def take(books: object) -> object:
        deaths.into(books, 5.0)  # type: ignore[arg-type]
        return dealings.take_lease(books, SECOND, "i1", HOLDER)  # type: ignore[arg-type]

    desk.store.transact(take)

    assert (True, 2, "active") == (row(desk, "a1").stopped, desk.lease().gen, desk.task().execution)


def test_things_of_a_worker_that_lives_are_its_own_to_tell_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a process has ended is no proof for others while its worker is there and has not told."""
    monkeypatch.setattr("desk.HOLDER", this_process())
    desk = Desk()
    owning(desk, "a1", "process", dead_worker())
    refused = desk.deal(close_activity, OPERATOR, "i1", "a1", reason="x")

    assert (False, "held") == (bool(deaths_in(desk.store, "i1")), refused.code)


def test_process_is_told_by_more_than_its_number(sleeper: subprocess.Popen[bytes]) -> None:
    """Another start time is another process; one that lives is proven by nothing."""
    holder = identity_of(sleeper.pid)
    assert holder is not None

    assert None is proof_of_end(holder)
    assert None is proof_of_end(evolve(holder, started=holder.started - 1))  # its session is there
    assert None is proof_of_end(not_yet())
    assert None is proof_of_end(evolve(holder, pid_ns="another"))


# -- what a worker saw --------------------------------------------------------------------------------------------


def seen(*words: str) -> Seen:
    row, steps = OwnedActivity("i1", "a1", "call", "f", 1), []
    for word in words:
        change = {"signalled": {"signal": "stop"}, "stopped": {"stopped": True}}.get(word, {})
        row = evolve(row, **change)
        steps.append(Step(word, row))
    return Seen("a1", tuple(steps))


def test_what_was_seen_is_written_once() -> None:
    """Each state has its line, in order; told again, or told late, nothing is written twice (O2)."""
    desk = Desk()
    desk.deal(keep, WORKER, "i1", 1, [seen("registered")])
    desk.deal(keep, WORKER, "i1", 1, [seen("registered", "signalled", "stopped")])
    desk.deal(keep, WORKER, "i1", 1, [seen("registered", "signalled", "stopped")])
    desk.deal(keep, WORKER, "i1", 1, [seen("registered")])

    assert ["activity.registered", "activity.signalled", "activity.stopped"] == [
        one for one in desk.kinds() if one.startswith("activity.")
    ]


@settings(max_examples=50, deadline=None)
@given(
    tells=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    proof_at=st.one_of(st.none(), st.integers(0, 5)),
    twice=st.booleans(),
)
def test_any_order_of_writers_comes_to_the_same(tells: list[int], proof_at: int | None, twice: bool) -> None:
    """However often, and however late, whoever writes: each state has one line, in order, up to a proof (O2)."""
    words = ("registered", "identified", "signalled", "signalled", "left", "stopped")
    whole, desk = chain(words), Desk()
    for n, count in enumerate(tells):
        if n == proof_at:
            desk.deal(dealings.observe_activities, KERNEL, "i1", {"a1": GONE})
        for _ in range(1 + twice):
            desk.deal(keep, WORKER, "i1", 1, [Seen("a1", whole.steps[:count])])
    lines = [one.removeprefix("activity.") for one in desk.kinds() if one.startswith("activity.")]
    told = [one for one in lines if one != "gone"]

    assert told == list(words[: len(told)])
    assert lines.count("gone") <= 1
    assert "gone" not in lines or "gone" == lines[-1]
    if "gone" not in lines:
        assert whole.steps[max(tells) - 1].row == row(desk, "a1")


def chain(words: tuple[str, ...]) -> Seen:
    """States of one activity, each another one."""
    row, steps = OwnedActivity("i1", "a1", "process", "make", 1), []
    for n, word in enumerate(words):
        row = evolve(row, detail=f"{n}", stopped=word == "stopped")
        steps.append(Step(word, row))
    return Seen("a1", tuple(steps))


def test_what_began_unheard_is_on_record_all_the_same() -> None:
    """A call that began before its worker heard of the cancellation is there, and its line says so (O1)."""
    desk = Desk()
    desk.cancel()
    desk.deal(keep, WORKER, "i1", 1, [seen("registered")])
    events = desk.store.read(lambda books: books.events("i1"))

    assert any(one.kind == "activity.registered" and "before its worker heard" in one.body for one in events)
    assert "call f was not signalled" in report_on(desk.store, "i1").missing


def test_word_of_a_fenced_worker_is_not_taken() -> None:
    """What it says of its own changes nothing (O3)."""
    desk = Desk()
    desk.deal(keep, WORKER, "i1", 1, [seen("registered")])
    desk.deal(dealings.take_lease, SECOND, "i1", HOLDER, force=True)
    told = desk.deal(keep, WORKER, "i1", 1, [seen("registered", "stopped")])

    assert ("stale_generation", False) == (told.code, row(desk, "a1").stopped)


def test_what_was_proven_gone_stays_so() -> None:
    """A word of its worker that comes after the proof changes nothing."""
    desk = Desk()
    desk.deal(keep, WORKER, "i1", 1, [seen("registered")])
    desk.deal(dealings.observe_activities, KERNEL, "i1", {"a1": GONE})
    desk.deal(keep, WORKER, "i1", 1, [seen("registered", "signalled")])

    assert (f"found to be gone: {GONE}", None) == (row(desk, "a1").detail, row(desk, "a1").signal)


def test_severed_request_does_not_hold_the_lease() -> None:
    """A task that completed keeps its lease while something of it may act, and not for what nobody hears any more."""
    desk = Desk()
    row = OwnedActivity("i1", "a1", "http", "GET /", 1)
    desk.deal(
        keep, WORKER, "i1", 1, [Seen("a1", (Step("registered", row), Step("severed", evolve(row, severed=True))))]
    )
    desk.complete()

    assert ("completed", "stop_observed", False) == (desk.state(), desk.task().execution, desk.lease().live)
