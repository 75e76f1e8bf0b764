"""Any sequence of requests to a store comes to what a model of facts in dictionaries says, and its log verifies."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from desk import CANCELLER, COMPENSATOR, HOLDER, KERNEL, OPERATOR, RECONCILER, WORKER
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from ledger_model import DEFINITE, World

from turnctl.ledger import dealings
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.opening import init, open_sqlite
from turnctl.ledger.rows import verify_chain
from turnctl.ledger.store import Store
from turnctl.ledger.verify import verify
from turnctl.records.changes import Refusal
from turnctl.records.effects import Effect, Receipt
from turnctl.records.tasks import OwnedActivity

WHICH = st.integers(0, 59)  # of what is there
AGE = st.sampled_from([0, 0, 0, 0, 1])  # generations behind
SHARED = st.sampled_from(["d1", "d2"])
AUTHORITIES = {one.authority: one for one in (WORKER, CANCELLER, RECONCILER, OPERATOR, COMPENSATOR)}
TELLER = st.sampled_from(["worker", "worker", "reconciler", "operator", "compensator", "canceller"])
CLAIMANT = st.sampled_from(["worker", "worker", "worker", "compensator", "compensator", "reconciler"])


class Ledger(RuleBasedStateMachine):
    """A store and the model are asked the same; what they tell, and what is in them then, has to agree."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open()
        self.world = World()
        self.made = itertools.count(1)
        self.wakes = 0
        self.submit(deliver=False)
        self.take(0, "free")

    def open(self) -> Store:
        return MemoryStore()

    def teardown(self) -> None:
        for inc in self.world.tasks:
            events = self.store.read(lambda books, inc=inc: books.events(inc))

            assert None is verify_chain(events)
        self.store.close()

    def deal(self, fn: Any, *args: Any, **kwargs: Any) -> str:
        answer = self.store.transact(lambda books: fn(books, *args, **kwargs), urgent=fn is dealings.cancel)
        return answer.code if isinstance(answer, Refusal) else "ok"

    def task(self, which: int) -> tuple[str, int]:
        inc = list(self.world.tasks)[which % len(self.world.tasks)]
        return inc, self.world.tasks[inc]["gen"]

    def name(self, which: int) -> str | None:
        names = list(self.world.effects)
        return names[which % len(names)] if names else None

    def agree(self, expected: str, told: str) -> None:
        self.world.come_to_rest()

        assert expected == told

    # -- tasks ----------------------------------------------------------------

    @rule(deliver=st.booleans())
    def submit(self, deliver: bool) -> None:
        inc = f"i{next(self.made)}"
        policy = "deliver" if deliver else "suppress"
        told = self.deal(dealings.submit, WORKER, inc, "acme", f"task {inc}", policy=policy)
        self.agree(self.world.submit(inc, deliver=deliver), told)

    @rule(which=WHICH, how=st.sampled_from(["free", "free", "dead", "force"]))
    def take(self, which: int, how: str) -> None:
        inc, _ = self.task(which)
        told = self.deal(dealings.take_lease, WORKER, inc, HOLDER, is_gone=how == "dead", force=how == "force")
        self.agree(self.world.take(inc, dead=how == "dead", force=how == "force"), told)

    @rule(which=WHICH, age=AGE, how=st.sampled_from(["seen", "seen", "left", "gone", "unproven"]))
    def leave(self, which: int, age: int, how: str) -> None:
        inc, gen = self.task(which)
        gen -= age
        if how == "seen":
            self.agree(self.world.acknowledge(inc, gen), self.deal(dealings.acknowledge, WORKER, inc, gen))
        elif how == "unproven":
            told = self.deal(dealings.cannot_prove, OPERATOR, inc, gen, why="another user's")
            self.agree(self.world.unproven(inc, gen), told)
        elif how == "left":
            self.agree(self.world.leave(inc, gen, observed=False), self.deal(dealings.give_back, WORKER, inc, gen))
        else:
            told = self.deal(dealings.observe_gone, KERNEL, inc, gen, evidence="pidfd")
            self.agree(self.world.leave(inc, gen, observed=True), told)

    @rule(which=WHICH, age=AGE, outcome=st.sampled_from(["completed", "failed"]))
    def complete(self, which: int, age: int, outcome: str) -> None:
        inc, gen = self.task(which)
        told = self.deal(dealings.complete, WORKER, inc, gen - age, outcome)
        self.agree(self.world.complete(inc, gen - age, outcome), told)

    @rule(which=WHICH, subtree=st.booleans(), kill=st.sampled_from([False, False, True]))
    def cancel(self, which: int, subtree: bool, kill: bool) -> None:
        inc, _ = self.task(which)
        told = self.deal(
            dealings.cancel,
            CANCELLER,
            inc,
            lambda: f"c{next(self.made)}",
            scope="subtree" if subtree else "self",
            level="kill" if kill else "cancel",
        )
        self.agree(self.world.cancel(inc, subtree=subtree, kill=kill), told)

    # -- effects ----------------------------------------------------------------

    @rule(which=WHICH, age=AGE, key=st.sampled_from("kl"), sha=st.sampled_from(["s", "s", "s", "x"]))
    def admit(self, which: int, age: int, key: str, sha: str) -> None:
        inc, gen = self.task(which)
        name = f"e{next(self.made)}"
        wanted = Effect(name, inc, key, "mail.send", sha, 0, gen)
        told = self.deal(dealings.admit, WORKER, wanted, gen - age, sha.encode())
        self.agree(self.world.admit(inc, name, key, sha, gen - age)[0], told)

    @rule(which=WHICH, age=AGE, by=CLAIMANT)
    def claim(self, which: int, age: int, by: str) -> None:
        name = self.name(which)
        if name is not None:
            gen = self.world.tasks[self.world.effects[name]["inc"]]["gen"] - age
            told = self.deal(dealings.claim, AUTHORITIES[by], name, gen, "w")
            self.agree(self.world.claim(name, gen, by), told)

    @rule(which=WHICH, age=AGE, by=st.sampled_from(["worker", "worker", "reconciler"]))
    def claim_again(self, which: int, age: int, by: str) -> None:
        name = self.name(which)
        if name is not None:
            gen = self.world.tasks[self.world.effects[name]["inc"]]["gen"] - age
            told = self.deal(dealings.claim_again, AUTHORITIES[by], name, gen, "w", why="the receiver takes it once")
            self.agree(self.world.claim_again(name, gen, by), told)

    @rule(which=WHICH, age=AGE, by=st.sampled_from(["worker", "canceller"]))
    def suppress(self, which: int, age: int, by: str) -> None:
        name = self.name(which)
        if name is not None:
            gen = self.world.tasks[self.world.effects[name]["inc"]]["gen"] - age
            told = self.deal(dealings.suppress, AUTHORITIES[by], name, why="w", gen=gen)
            self.agree(self.world.suppress(name, gen, by), told)

    @rule(
        which=WHICH,
        age=AGE,
        said=st.sampled_from([*DEFINITE, "completed", "unknown", "unknown"]),
        by=TELLER,
        bare=st.sampled_from([False, False, False, True]),
    )
    def close(self, which: int, age: int, said: str, by: str, bare: bool) -> None:
        name = self.name(which)
        if name is not None:
            gen = self.world.tasks[self.world.effects[name]["inc"]]["gen"] - age
            receipt = None if bare else Receipt(name, "p", f"r{next(self.made)}", "b", said)  # type: ignore[arg-type]
            told = self.deal(dealings.close, AUTHORITIES[by], name, said, receipt=receipt, gen=gen)
            self.agree(self.world.close(name, said, gen, by, receipt=not bare), told)

    @rule(which=WHICH, by=st.sampled_from(["operator", "operator", "worker"]))
    def decide(self, which: int, by: str) -> None:
        name = self.name(which)
        if name is not None:
            told = self.deal(dealings.close_unknown, AUTHORITIES[by], name, reason="nobody will know")
            self.agree(self.world.decide(name, AUTHORITIES[by].actor, by), told)

    @rule(which=WHICH, allowed=st.sampled_from([True, True, False]), key=st.sampled_from("klmn"))
    def make_good(self, which: int, allowed: bool, key: str) -> None:
        original = self.name(which)
        if original is not None:
            name = f"e{next(self.made)}"
            wanted = Effect(name, "", key, "undo", "s", 0, 0)
            auth_ref = "ticket" if allowed else None
            told = self.deal(dealings.compensate, COMPENSATOR, original, wanted, b"", auth_ref=auth_ref)
            self.agree(self.world.make_good(original, name, key, allowed=allowed), told)

    # -- what else it owns ----------------------------------------------------------------

    @rule(which=WHICH, age=AGE)
    def register(self, which: int, age: int) -> None:
        parent, gen = self.task(which)
        inc = f"i{next(self.made)}"
        told = self.deal(dealings.register_child, WORKER, parent, gen - age, inc, f"task {inc}")
        self.agree(self.world.register(parent, inc, gen - age), told)
        if told == "ok":
            self.take(len(self.world.tasks) - 1, "free") if next(self.made) % 3 else None

    @rule(which=WHICH)
    def unborn(self, which: int) -> None:
        inc, _ = self.task(which)
        parent = self.world.tasks[inc]["parent"]
        if parent is not None:
            told = self.deal(dealings.child_became, WORKER, parent, inc, "never_started")
            self.agree(self.world.unborn(inc), told)

    @rule(which=WHICH, age=AGE, ref=st.sampled_from("ab"), how=st.sampled_from(["own", "signal", "stop", "detach"]))
    def thing(self, which: int, age: int, ref: str, how: str) -> None:
        inc, gen = self.task(which)
        gen -= age
        if how == "own":
            told = self.deal(dealings.own, WORKER, OwnedActivity(inc, ref, "process", "make", gen), gen)
            self.agree(self.world.own(inc, ref, gen), told)
        elif how == "signal":
            told = self.deal(dealings.signalled, WORKER, inc, ref, "TERM", "signal_queued")
            self.agree(self.world.tell(inc, ref, "signalled"), told)
        elif how == "stop":
            self.agree(self.world.tell(inc, ref, "stopped"), self.deal(dealings.stopped, WORKER, inc, ref))
        else:
            self.detach(inc, ref, gen)

    @rule(which=WHICH)
    def let_child_go(self, which: int) -> None:
        inc, _ = self.task(which)
        parent = self.world.tasks[inc]["parent"]
        if parent is not None:
            self.detach(parent, inc, self.world.tasks[parent]["gen"])

    def detach(self, inc: str, ref: str, gen: int) -> None:
        told = self.deal(dealings.detach, WORKER, inc, gen, ref, "nightly", "runs on")
        self.agree(self.world.detach(inc, ref, gen), told)

    @rule(which=WHICH, age=AGE, what=SHARED, how=st.sampled_from(["attach", "attach", "release", "end"]))
    def share(self, which: int, age: int, what: str, how: str) -> None:
        inc, gen = self.task(which)
        if how == "attach":
            told = self.deal(dealings.attach, WORKER, inc, gen - age, what)
            self.agree(self.world.attach(inc, what, gen - age), told)
        elif how == "release":
            self.agree(self.world.release(inc, what), self.deal(dealings.release, WORKER, inc, what))
        else:
            self.agree(self.world.end_shared(inc, what), self.deal(dealings.end_shared, WORKER, inc, what))

    # -- what is there ----------------------------------------------------------------

    @invariant()
    def store_and_model_are_one(self) -> None:
        expected, found = {}, {}
        for inc, task in self.world.tasks.items():
            cr = task["cr"]
            expected[inc] = (
                self.world.state(inc),
                task["doing"],
                task["gen"],
                task["live"],
                cr and ("kill" if cr["kill"] else "cancel", cr["covered"]),
            )
            view = self.store.read(lambda books, inc=inc: books.at_gate(inc))
            assert view is not None
            found[inc] = (
                view.task.state,
                view.task.execution,
                view.task.lease_gen,
                view.lease is not None and view.lease.live,
                view.cr and (view.cr.level, view.cr.covered_by is not None),
            )
        for name, one in self.world.effects.items():
            effect = self.store.read(lambda books, name=name: books.effect(name))
            assert effect is not None
            receipt = effect.receipt_sha is not None
            expected[name] = (one["phase"], one["what"], one["gen"], one["by"], one["late"], one["receipt"])
            found[name] = (
                *(effect.phase, effect.disposition, effect.gen),
                *(effect.closed_by, effect.after_cutoff, receipt),
            )
        for what, state in self.world.shared.items():
            work = self.store.read(lambda books, what=what: books.shared(what))
            expected[what], found[what] = state, work and work.state

        assert expected == found


QUIET = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


class TestLedger(Ledger.TestCase):
    """Some sequences in the ordinary run."""

    settings = QUIET


class SqliteLedger(Ledger):
    """The same over SQLite, whose rows are read again from its tables, and whose whole is verified at the end."""

    def open(self) -> Store:
        memory = Path("/dev/shm")
        self.folder = tempfile.mkdtemp(prefix="turnctl-test-", dir=memory if memory.is_dir() else None)
        init(f"{self.folder}/ledger.db")
        return open_sqlite(f"{self.folder}/ledger.db")

    def teardown(self) -> None:
        try:
            super().teardown()
            self.store.close()

            assert () == verify(f"{self.folder}/ledger.db").findings
        finally:
            self.store.close()
            shutil.rmtree(self.folder)


class TestSqliteLedger(SqliteLedger.TestCase):
    """Some sequences in the ordinary run."""

    settings = settings(QUIET, max_examples=5)


@pytest.mark.stress
class TestSqliteLedgerLong(SqliteLedger.TestCase):
    """Many with --stress."""

    settings = settings(QUIET, max_examples=300)


@pytest.mark.stress
class TestLedgerLong(Ledger.TestCase):
    """Many long ones with --stress."""

    settings = settings(QUIET, max_examples=1_000, stateful_step_count=50)
