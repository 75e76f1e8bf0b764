"""Workers, cancellers and reconcilers over one store, run in a random order of their transactions, killed anywhere.

Each is a generator that yields between two things that it does, so that a schedule is a list of whose turn it is. What
got out stands in the receiver's own journal, which knows nothing of the store.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

from desk import CANCELLER, KERNEL, OPERATOR, RECONCILER

from turnctl.ledger import dealings
from turnctl.ledger.rows import verify_chain
from turnctl.ledger.store import Store
from turnctl.records.changes import By, Refusal
from turnctl.records.effects import DEFINITIVE, Effect, Receipt
from turnctl.records.tasks import Cancellation, Holder, Task

__all__ = ["Crew"]

Script = Generator[None, None, None]
ORDER = ["running", "cancel_requested", "draining", "stopped_unresolved", "cancelled_settled"]


class Crew:
    """One schedule of one seed: run it, then ask what is wrong."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.seed = seed
        self.random = random.Random(seed)
        self.journal: list[tuple[str, str]] = []  # the receiver's: effect and payload, as they came in
        self.names = 0
        self.seen: list[tuple[str, Cancellation]] = []
        self.path: dict[str, list[str]] = {}
        self.top = self.name("i")
        self.deal(dealings.submit, By("w0", "worker"), self.top, "acme", self.top, policy=self.policy())
        self.running: dict[str, Script] = {}
        self.holds: dict[str, tuple[str, int]] = {}  # which worker holds what
        for n in range(2):
            self.start(f"w{n}", self.top)
        for n in range(self.random.choice([0, 1, 1, 2])):
            self.running[f"c{n}"] = self.canceller()
        self.running["k"] = self.reconciler()

    def policy(self) -> str:
        return self.random.choice(["suppress", "suppress", "deliver"])

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.seed}-{self.names}"

    def deal(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.store.transact(lambda books: fn(books, *args, **kwargs), urgent=fn is dealings.cancel)

    def start(self, who: str, inc: str) -> None:
        self.running[who] = self.worker(who, inc)

    # -- who there is ----------------------------------------------------------------

    def worker(self, who: str, inc: str) -> Script:
        by = By(who, "worker")
        lease = self.deal(dealings.take_lease, by, inc, Holder("b", "n", 1, 1), force=self.random.random() < 0.2)
        if isinstance(lease, Refusal):
            return
        self.holds[who] = (inc, lease.gen)
        yield
        for n in range(self.random.choice([1, 2, 3])):
            yield from self.act(by, inc, lease.gen, f"k{n}")
            if self.random.random() < 0.2:
                yield from self.bear(by, inc, lease.gen)
        yield
        done = self.deal(dealings.complete, by, inc, lease.gen, "completed")
        if isinstance(done, Refusal):
            yield
            self.deal(dealings.acknowledge, by, inc, lease.gen)
            yield
            self.deal(dealings.give_back, by, inc, lease.gen)
        del self.holds[who]

    def act(self, by: By, inc: str, gen: int, key: str) -> Script:
        payload = f"{inc} {key}"
        wanted = Effect(self.name("e"), inc, key, "mail.send", payload, 0, gen)
        effect = self.deal(dealings.admit, by, wanted, gen, payload.encode())
        if isinstance(effect, Refusal):
            return
        yield
        if self.random.random() < 0.1:
            self.deal(dealings.suppress, by, effect.effect_id, why="not wanted", gen=gen)
            return
        claimed = self.deal(dealings.claim, by, effect.effect_id, gen, by.actor)
        if isinstance(claimed, Refusal):
            return
        yield
        sent = self.store.read(lambda books: books.payload(effect.effect_id))
        assert sent is not None
        if self.random.random() < 0.9:  # or it is lost on its way
            self.journal.append((effect.effect_id, sent.decode()))
        yield
        if self.random.random() < 0.7:
            self.tell(by, effect.effect_id, gen)
        elif self.random.random() < 0.5:
            self.deal(dealings.close, by, effect.effect_id, "unknown", gen=gen)

    def tell(self, by: By, effect_id: str, gen: int | None) -> None:
        """What the receiver says, by the original name alone: it has it, or it cannot tell."""
        if any(one == effect_id for one, _ in self.journal):
            receipt = Receipt(effect_id, "receiver", self.name("r"), "ok", "completed")
            self.deal(dealings.close, by, effect_id, "completed", receipt=receipt, gen=gen)

    def bear(self, by: By, inc: str, gen: int) -> Script:
        child = self.name("i")
        made = self.deal(dealings.register_child, by, inc, gen, child, child)
        yield
        if not isinstance(made, Refusal):
            self.path[child] = []
            if self.random.random() < 0.8:
                self.start(f"w of {child}", child)
            else:
                self.deal(dealings.child_became, by, inc, child, "never_started")

    def canceller(self) -> Script:
        for _ in range(self.random.choice([0, 1, 3, 6, 10])):
            yield
        at = self.random.choice([task.inc for task in self.tasks()])
        scope = "self" if self.random.random() < 0.2 else "subtree"
        self.deal(dealings.cancel, CANCELLER, at, lambda: self.name("cr"), scope=scope)

    def reconciler(self) -> Script:
        for _ in range(8):
            yield
            for effect in self.effects():
                if effect.disposition == "unknown" and self.random.random() < 0.5:
                    self.tell(RECONCILER, effect.effect_id, None)

    # -- the schedule ----------------------------------------------------------------

    def step(self) -> None:
        """One of them goes on; or one dies, and later that is seen."""
        who = self.random.choice(list(self.running))
        if who.startswith("w") and self.random.random() < 0.05:
            del self.running[who]
            if who in self.holds:
                self.running[f"death of {who}"] = self.death(who)
            return
        try:
            next(self.running[who])
        except StopIteration:
            self.running.pop(who, None)

    def death(self, who: str) -> Script:
        yield
        inc, gen = self.holds.pop(who)
        self.deal(dealings.observe_gone, KERNEL, inc, gen, evidence="pidfd")
        if self.random.random() < 0.5:
            yield
            self.start(f"w after {who}", inc)

    def run(self) -> list[str]:
        """Go through it to its end; what is wrong, with the seed."""
        wrong: list[str] = []
        while self.running and not wrong:
            self.step()
            wrong = self.look()
        if not wrong:
            self.resolve()
            wrong = self.look() + self.look_at_the_end()
        return [f"seed {self.seed}: {one}" for one in wrong]

    def resolve(self) -> None:
        """An operator closes what nobody will know, and cancels what nobody works on."""
        if self.random.random() < 0.5:
            self.deal(dealings.cancel, OPERATOR, self.top, lambda: self.name("cr"))
        for effect in self.effects():
            if effect.disposition == "unknown" and effect.closed_by is None:
                self.deal(dealings.close_unknown, OPERATOR, effect.effect_id, reason="nobody will know")

    # -- the invariants ----------------------------------------------------------------

    def tasks(self) -> list[Task]:
        return [task for task in self.store.read(lambda books: list(books.incarnations())) if self.mine(task.inc)]

    def mine(self, inc: str) -> bool:
        return inc.startswith(f"i{self.seed}-")

    def effects(self) -> list[Effect]:
        return [one for task in self.tasks() for one in self.store.read(lambda books, t=task: books.effects_of(t.inc))]

    def crs(self) -> dict[str, Cancellation]:
        found = {}
        for task in self.tasks():
            view = self.store.read(lambda books, t=task: books.at_gate(t.inc))
            if view is not None and view.cr is not None:
                found[task.inc] = view.cr
        return found

    def look(self) -> list[str]:
        """What may be asked at any moment: one cancellation (I5), and a legal path (I6)."""
        wrong = []
        crs = self.crs()
        for inc, was in self.seen:
            now = crs.get(inc)
            if now is None or (now.cr, now.accepted_rev, now.reason, now.scope) != (
                *(was.cr, was.accepted_rev, was.reason, was.scope),
            ):
                wrong.append(f"I5 the cancellation of {inc} changed")
        known = {inc for inc, _ in self.seen}
        self.seen += [(inc, cr) for inc, cr in crs.items() if inc not in known]
        for task in self.tasks():
            path = self.path.setdefault(task.inc, [])
            if not path or path[-1] != task.state:
                path.append(task.state)
            if task.state in ORDER and [ORDER.index(one) for one in path] != sorted(ORDER.index(one) for one in path):
                wrong.append(f"I6 {task.inc} went {path}")
            if task.state in ("completed", "failed") and path[:-1] not in ([], ["running"]):
                wrong.append(f"I6 {task.inc} went {path}")
        return wrong

    def look_at_the_end(self) -> list[str]:
        wrong = []
        crs, effects = self.crs(), {one.effect_id: one for one in self.effects()}
        for one in effects.values():
            cr = crs.get(one.inc)
            if cr is not None and one.admitted_rev >= cr.accepted_rev:
                wrong.append(f"I1 {one.effect_id} was admitted after the cancellation")
            receipts = self.store.read(lambda books, name=one.effect_id: books.receipts(name))
            if one.disposition in DEFINITIVE and one.receipt_sha not in [found.body_sha for found in receipts]:
                wrong.append(f"I4 {one.effect_id} is {one.disposition} without a receipt")
            if (
                one.disposition == "unknown"
                and [
                    *(e for e in effects.values() if (e.inc, e.intent_key) == (one.inc, one.intent_key)),
                ][-1]
                is not one
            ):
                wrong.append(f"I2 {one.effect_id} is unknown, and was tried again")
        for effect_id, times in Counter(one for one, _ in self.journal).items():
            if times > 1:
                wrong.append(f"I2 {effect_id} arrived {times} times")
        for effect_id, payload in self.journal:
            effect = effects.get(effect_id)
            if effect is None or effect.payload_sha != payload:
                wrong.append(f"I2 {effect_id} arrived and was not admitted so")
            elif effect.disposition in ("rejected", "suppressed") or effect.phase == "admitted":
                wrong.append(f"I3 {effect_id} is {effect.disposition}, and arrived")
        wrong += self.look_at_children(crs)
        for task in self.tasks():
            events = self.store.read(lambda books, t=task: books.events(t.inc))
            found = verify_chain(events)
            if found is not None:
                wrong.append(f"I8 {found}")
        return wrong

    def look_at_children(self, crs: dict[str, Cancellation]) -> list[str]:
        """A child is reached by its parent's cancellation, or was refused; what settled is settled below (I7)."""
        wrong = []
        for task in self.tasks():
            cr = crs.get(task.parent_inc or "")
            if cr is None or (cr.scope != "subtree" and cr.covered_by is None):
                continue
            mine = crs.get(task.inc)
            if task.state != "completed" and task.outcome_ref != "never started" and mine is None:
                wrong.append(f"I7 {task.inc} escaped the cancellation of its parent")
            parent = next(one for one in self.tasks() if one.inc == task.parent_inc)
            if parent.state == "cancelled_settled" and not task.is_over:
                wrong.append(f"I7 {parent.inc} has settled over {task.inc}, which is {task.state}")
        return wrong
