"""The barrier loop: two processes that live on meet again and again, and one of each pair of deeds comes first.

The worker's side prepares a task, meets the canceller's, and acts; the canceller's cancels. After each round the head
start moves a random step against the side that came first, so that both orders come, whatever the machine is doing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from actor import Actor

import turnctl

__all__ = ["cancels", "works"]

#: no step of the head start is longer: a few times what a deed takes
_STEP_US = 120


def _spin(us: float) -> None:
    end = time.perf_counter_ns() + us * 1000
    while time.perf_counter_ns() < end:
        pass


def cancels(me: Actor, rounds: int) -> None:
    """The canceller's side."""
    for _ in range(rounds):
        inc, _, wait = me.meet().partition(" ")
        _spin(float(wait))
        answer = me.ledger.cancel(inc, by="alice", tenant="acme", reason="enough")
        me.meet("accepted" if answer else answer.code)


def works(me: Actor, deed: str, rounds: int, seed: int, **how: Any) -> list[dict[str, Any]]:
    """The worker's side; of each round the incarnation, whether it came first and did it, and the answers."""
    chance = random.Random(seed)
    act = DEEDS[deed]
    head, found = 0.0, []
    for n in range(rounds):
        task = me.ledger.submit("acme", f"{deed}-{n}", **how)
        told: dict[str, Any] = {"inc": task.inc, "first": False, "did": False}
        turn = turnctl.turn(task=task)
        with suppress(turnctl.CancelledError), turn:
            for _ in act(me, turn, told):  # each deed yields once, where it is ready
                me.meet(f"{task.inc} {max(0.0, -head)}")
                _spin(max(0.0, head))
        told |= {"canceller": me.meet(), "outcome": turn.outcome}
        found.append(told)
        head += chance.uniform(0, _STEP_US) * (1 if told["first"] else -1)
    return found


def gate(me: Actor, turn: Any, told: dict[str, Any]) -> Any:
    """The whole of an effect."""
    yield
    with turn.effect("mail.send", key="k", payload="hello") as sent:
        told |= {"first": True, "did": True}
        sent.complete(me.receiver.post(sent.effect_id, sent.payload))


def claim(me: Actor, turn: Any, told: dict[str, Any]) -> Any:
    """The claim of one that was admitted, and what follows."""
    effect = turn.effect("mail.send", key="k", payload="hello").admit()
    yield
    with suppress(turnctl.LedgerRefused), effect as sent:
        told |= {"first": not sent.record.after_cutoff, "did": True}
        sent.complete(me.receiver.post(sent.effect_id, sent.payload))


def children(me: Actor, turn: Any, told: dict[str, Any]) -> Any:
    """A child, which works, and one of its own."""
    told["registered"] = []
    yield
    with suppress(turnctl.LedgerRefused):
        child = me.ledger.submit("acme", f"child of {told['inc']}", parent=turn)
        told["registered"].append(child.inc)
        with turnctl.turn(task=child) as below:
            grandchild = me.ledger.submit("acme", f"grandchild of {told['inc']}", parent=below)
            told["registered"].append(grandchild.inc)
            told |= {"first": True, "did": True}


DEEDS: dict[str, Callable[[Actor, Any, dict[str, Any]], Any]] = {"gate": gate, "claim": claim, "children": children}
