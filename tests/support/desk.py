"""A ledger with one task that a worker holds, and the few dealings that every test of the ledger begins with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from turnctl.ledger import dealings
from turnctl.ledger.memory import MemoryStore
from turnctl.ledger.store import Store
from turnctl.records.changes import By
from turnctl.records.effects import Effect, Receipt
from turnctl.records.tasks import Cancellation, Holder, Lease, Task

WORKER, SECOND, CANCELLER = By("w1", "worker"), By("w2", "worker"), By("alice", "canceller")
RECONCILER, OPERATOR = By("k", "reconciler"), By("bob", "operator")
KERNEL, COMPENSATOR = By("kernel", "system"), By("bob", "compensator")
HOLDER, OTHER = Holder("boot", "ns", 100, 1), Holder("boot", "ns", 101, 2)


class Desk:
    """Task ``job`` of tenant ``acme``, incarnation ``i1``, held by ``WORKER`` under generation 1."""

    #: the store where none is given; what makes it closes it
    made: Callable[..., Store] = MemoryStore

    def __init__(self, store: Store | None = None, **submitted: Any) -> None:
        self.store = store or self.made()
        self.count = itertools.count(1)
        self.deal(dealings.submit, WORKER, "i1", "acme", "job", **submitted)
        self.deal(dealings.take_lease, WORKER, "i1", HOLDER)

    def deal(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.store.transact(lambda books: fn(books, *args, **kwargs))

    def another(self, inc: str, task_id: str) -> None:
        """One more task, held by ``WORKER``."""
        self.deal(dealings.submit, WORKER, inc, "acme", task_id)
        self.deal(dealings.take_lease, WORKER, inc, HOLDER)

    def child(self, parent: str, inc: str) -> None:
        """A child of ``parent``, started, and held by ``SECOND``."""
        self.deal(dealings.register_child, WORKER, parent, 1, inc, f"task {inc}")
        self.deal(dealings.take_lease, SECOND, inc, OTHER)

    def admit(
        self, effect_id: str, *, key: str = "k", sha: str = "s", gen: int = 1, by: By = WORKER, **more: Any
    ) -> Any:
        wanted = Effect(effect_id, "i1", key, more.pop("kind", "mail.send"), sha, 0, gen, **more)
        return self.deal(dealings.admit, by, wanted, gen, b"payload")

    def claim(self, effect_id: str, gen: int = 1, *, by: By = WORKER) -> Any:
        return self.deal(dealings.claim, by, effect_id, gen, by.actor)

    def claimed(self, effect_id: str = "e1", **how: Any) -> Any:
        """An effect that was admitted and claimed."""
        self.admit(effect_id, **how)
        return self.claim(effect_id)

    def cancel(self, inc: str = "i1", **how: Any) -> Any:
        return self.deal(dealings.cancel, CANCELLER, inc, lambda: f"c{next(self.count)}", **how)

    def complete(self, outcome: str = "completed", *, inc: str = "i1", gen: int = 1, **how: Any) -> Any:
        return self.deal(dealings.complete, WORKER, inc, gen, outcome, **how)

    def give_back(self, inc: str = "i1", *, by: By = WORKER, gen: int = 1) -> Any:
        return self.deal(dealings.give_back, by, inc, gen)

    def gone(self, inc: str = "i1", gen: int = 1) -> Any:
        """The worker is proven to be dead."""
        return self.deal(dealings.observe_gone, KERNEL, inc, gen, evidence="pidfd")

    def close(self, effect_id: str, disposition: str, *, by: By = WORKER, gen: int | None = 1) -> Any:
        receipt = Receipt(effect_id, "provider", f"r {disposition}", "ok", disposition)  # type: ignore[arg-type]
        return self.deal(dealings.close, by, effect_id, disposition, receipt=receipt, gen=gen)

    def task(self, inc: str = "i1") -> Task:
        found = self.store.read(lambda books: books.task(inc))
        assert found is not None
        return found

    def state(self, inc: str = "i1") -> str:
        return self.task(inc).state

    def cr(self, inc: str = "i1") -> Cancellation | None:
        found = self.store.read(lambda books: books.at_gate(inc))
        assert found is not None
        return found.cr

    def lease(self, inc: str = "i1") -> Lease | None:
        found = self.store.read(lambda books: books.at_gate(inc))
        assert found is not None
        return found.lease

    def effect(self, effect_id: str) -> Effect:
        found = self.store.read(lambda books: books.effect(effect_id))
        assert found is not None
        return found

    def kinds(self, inc: str = "i1") -> list[str]:
        return [event.kind for event in self.store.read(lambda books: books.events(inc))]
