"""Processes that do whatever a ledger is for, at random and for ever, until they are killed.

``python -c "from ledger_busy import crowd; crowd()"`` keeps them: it starts and kills them as stdin says.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from time import monotonic
from typing import Any, NoReturn

from ledger_lives import LOADED_ON_USE, Life, arrived

import turnctl
from turnctl.ledger import Answer

__all__ = ["Busy", "crowd", "too_late"]

#: how many open tasks there are to choose among
_OPEN = 10
_TENANTS = ("acme", "umbrella")


class Busy:
    """One of them."""

    def __init__(self, life: Life, seed: int) -> None:
        self.life = life
        self.random = random.Random(seed)
        self.name = f"p{seed}"
        self.count = 0
        self.ledger = life.open()

    def go_on(self) -> NoReturn:
        while True:
            done = self.random.choice([*[self.work] * 4, self.cancel, self.look_after, self.make_good])
            # what another one has or did meanwhile is refused, and that is all that may be
            with suppress(turnctl.LedgerRefused):
                done()

    def new(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"

    # -- what they do -------------------------------------------------------------------------------------------

    def open_tasks(self) -> list[turnctl.LedgerTask]:
        rows = self.ledger.store.read(lambda books: list(books.incarnations(is_open=True)))
        found = [self.ledger.incarnation(row.inc) for row in rows]
        return [one for one in found if one is not None]

    def work(self) -> None:
        tasks = self.open_tasks()
        if len(tasks) < _OPEN:
            policy = self.random.choice(["suppress", "deliver"])
            tenant = self.random.choice(_TENANTS)
            task = self.ledger.submit(tenant, self.new(), policy=policy)  # type: ignore[arg-type]
            self.life.tell("submitted", inc=task.inc, parent=None)
        else:
            task = self.random.choice(tasks)
            if self.random.random() < 0.1:
                task = task.take_over()
        with suppress(ValueError), turnctl.turn(self.name, task=task, grace=1) as turn:
            self.life.leased(turn)
            for _ in range(self.random.choice([1, 2, 3])):
                self.do_in(turn)

    def do_in(self, turn: turnctl.Turn) -> None:
        acts = [self.send, self.send, self.send, self.leave, self.below, self.give, self.share, self.admit, self.end]
        with suppress(turnctl.LedgerRefused):
            self.random.choice(acts)(turn)

    def effect(self, turn: turnctl.Turn) -> Any:
        """With a key that the one before may have used too, now and then."""
        key = self.random.choice(["0", "1", self.new()])
        return turn.effect("mail.send", key=key, payload=f"letter {key}")

    def send(self, turn: turnctl.Turn) -> None:
        begun = monotonic()
        with self.effect(turn) as effect:
            self.life.tell("claimed", effect=effect.effect_id, begun=begun)
            if self.random.random() < 0.1:
                return  # unknown
            receipt = self.life.receive(effect)
            if self.random.random() < 0.1:
                raise ValueError("lost on its way back")
            effect.complete(receipt)
            self.life.tell("closed", effect=effect.effect_id, disposition="completed", receipt=receipt)

    def admit(self, turn: turnctl.Turn) -> None:
        begun = monotonic()
        effect = self.effect(turn).admit()
        self.life.tell("admitted", effect=effect.effect_id, begun=begun)
        if self.random.random() < 0.5:
            effect.suppress()
            self.life.tell("suppressed", effect=effect.effect_id)

    def leave(self, turn: turnctl.Turn) -> None:
        if self.random.random() < 0.3:
            raise ValueError("failed")

    def below(self, turn: turnctl.Turn) -> None:
        with turnctl.turn(grace=1) as inner:
            self.life.leased(inner)
            self.do_in(inner)

    def give(self, turn: turnctl.Turn) -> None:
        inc = turn._ruling.inc  # type: ignore[union-attr]
        row = self.ledger.store.read(lambda books: books.task(inc))  # none where it was cancelled as it began
        task = self.ledger.submit("acme" if row is None else row.tenant, self.new(), parent=turn)
        self.life.tell("submitted", inc=task.inc, parent=inc)

    def share(self, turn: turnctl.Turn) -> None:
        with turn.share(self.random.choice("abcdefgh") + str(self.count % 50)) as shared:
            self.do_in(turn)
            if self.random.random() < 0.2:
                shared.end()

    def end(self, turn: turnctl.Turn) -> None:
        if self.random.random() < 0.3:
            turn.stop("enough", by=self.name)

    def cancel(self) -> None:
        task = self.random.choice(self.open_tasks() or [self.ledger.submit("acme", self.new())])
        record = self.ledger.cancel(task, by=self.name, scope=self.random.choice(["self", "subtree", "subtree"]))  # type: ignore[arg-type]
        if record:
            self.life.tell("cancelled", inc=task.inc, cr=record.cr, rev=record.accepted_rev, told=monotonic())

    def look_after(self) -> None:
        for found in self.ledger.reconcile({"mail.send": self.ask}):
            if found.is_resolved:
                self.life.tell("closed", effect=found.effect.effect_id, disposition=found.effect.disposition)

    def ask(self, effect: Any) -> Answer | None:
        """What the receiver says: that it has not come yet is no evidence, while one that was replaced may live."""
        answer = arrived(self.life.folder, effect.effect_id)
        return answer if answer.disposition == "completed" else None

    def make_good(self) -> None:
        """Compensate something that happened or may have, or decide that nobody will know."""
        known = ("completed", "unknown")
        rows = self.ledger.store.read(
            lambda books: [e for task in list(books.incarnations())[-30:] for e in books.effects_of(task.inc)]
        )
        rows = [one for one in rows if one.disposition in known and one.compensates is None]
        if not rows:
            return
        row = self.random.choice(rows)
        owner = self.ledger.store.read(lambda books: books.task(row.inc))
        assert owner is not None
        if row.disposition == "unknown" and self.random.random() < 0.3:
            self.ledger.close_unknown(row.effect_id, by=self.name, reason="nobody will know", tenant=owner.tenant)
            return
        how = {"by": self.name, "key": row.effect_id, "tenant": owner.tenant}
        with self.ledger.compensate(row.effect_id, "mail.send", payload="sorry", **how) as good:  # type: ignore[arg-type]
            self.life.tell("claimed", effect=good.effect_id)
            receipt = self.life.receive(good)
            good.complete(receipt)
            self.life.tell("closed", effect=good.effect_id, disposition="completed", receipt=receipt)


def too_late(ledger: turnctl.Ledger, lines: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Effects whose gate was entered when somebody had been told of the cancellation: by the clock that all share."""
    told = {more["cr"]: more["told"] for what, more in reversed(lines) if what == "cancelled"}
    wrong = []
    for what, more in lines:
        if what not in ("admitted", "claimed") or "begun" not in more:
            continue
        effect = ledger.store.read(lambda books, name=more["effect"]: books.effect(name))  # type: ignore[misc]
        view = effect and ledger.store.read(lambda books, inc=effect.inc: books.at_gate(inc))  # type: ignore[misc]
        cr = view and view.cr
        for one in (cr.cr, cr.covered_by) if cr else ():
            if told.get(one, more["begun"]) < more["begun"]:
                wrong.append(f"{what} {more} after {one} was told at {told[one]}")
    return wrong


# -- who keeps them -----------------------------------------------------------------------------------------------


def crowd() -> None:
    """Start a process for each line ``+FOLDER SEED``, saying its number; kill it for ``-NUMBER``, saying its status."""
    for module in LOADED_ON_USE:
        import_module(f"turnctl.{module}")
    for line in sys.stdin:
        if line[0] == "+":
            folder, seed = line[1:].rsplit(" ", 1)
            pid = os.fork()
            if not pid:
                _be_busy(folder, int(seed))
            print(pid, flush=True)
        else:
            pid = int(line[1:])
            os.kill(pid, 9)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _be_busy(folder: str, seed: int) -> NoReturn:
    try:
        Busy(Life(folder, lambda: None, str(seed)), seed).go_on()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
