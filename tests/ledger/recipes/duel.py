"""The barrier loop: two processes that live on meet again and again, and one of each pair of deeds comes first.

The worker's side prepares a task, meets the canceller's, and acts; the canceller's cancels. After each round the head
start moves a random step against the side that came first, a longer one each time that it is the same side again, so
that both orders come, whatever the machine is doing.
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

#: the first step of the head start, and the longest one
_STEP_US, _LONGEST_US = 120.0, 3000.0


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


class _HeadStart:
    """How long the worker's side waits (or the other one, below zero) for its deed to come first every other time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._step, self._was = chance, _STEP_US, False
        self.us = 0.0

    def came(self, first: bool) -> None:
        self._step = min(1.5 * self._step, _LONGEST_US) if first is self._was else _STEP_US
        self._was = first
        self.us += self._chance.uniform(0, self._step) * (1 if first else -1)


def works(me: Actor, deed: str, rounds: int, seed: int, **how: Any) -> list[dict[str, Any]]:
    """The worker's side; of each round the incarnation, whether it came first and did it, and the answers."""
    act = DEEDS[deed]
    heads = [_HeadStart(random.Random(seed + n)) for n in range(2)]  # two, for a deed that is over in two steps
    found: list[dict[str, Any]] = []
    for n in range(rounds):
        head = heads[n % 2]
        task = me.ledger.submit("acme", f"{deed}-{n}", **how)
        told: dict[str, Any] = {"inc": task.inc, "first": False, "did": False, "round": n}
        turn = turnctl.turn(task=task)
        with suppress(turnctl.CancelledError), turn:
            for _ in act(me, turn, told):  # each deed yields once, where it is ready
                me.meet(f"{task.inc} {max(0.0, -head.us)}")
                _spin(max(0.0, head.us))
        told |= {"canceller": me.meet(), "outcome": turn.outcome}
        found.append(told)
        head.came(told["first"])
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
    """A child, which works, and one of its own. In every other round it came first with the first of them."""
    registered = told["registered"] = []
    yield
    with suppress(turnctl.LedgerRefused):
        try:
            child = me.ledger.submit("acme", f"child of {told['inc']}", parent=turn)
            registered.append(child.inc)
            with turnctl.turn(task=child) as below:
                registered.append(me.ledger.submit("acme", f"grandchild of {told['inc']}", parent=below).inc)
        finally:
            told |= {"first": len(registered) > told["round"] % 2, "did": len(registered) == 2}


DEEDS: dict[str, Callable[[Actor, Any, dict[str, Any]], Any]] = {"gate": gate, "claim": claim, "children": children}
