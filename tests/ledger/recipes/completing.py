"""A worker and a canceller that meet at the end of each of many turns."""

from __future__ import annotations

import random
import time

from actor import Actor

import turnctl

__all__ = ["cancel_each", "end_each"]


def end_each(me: Actor, *, incs: list[str]) -> list[str | None]:
    """Work on one after the other, and come to the end of it together with the other process; how each came out."""
    outcomes = []
    for n, inc in enumerate(incs):
        with turnctl.turn(task=me.task(inc), grace=1) as turn, turn.effect("mail.send", key="1") as sent:
            if n % 2:
                me.meet()
            sent.complete(f"got {sent.effect_id}")
            if not n % 2:
                me.meet()
        outcomes.append(turn.outcome)
    return outcomes


def cancel_each(me: Actor, *, incs: list[str], seed: int) -> list[str]:
    """Cancel one after the other, each a little after the other process has come to the end of it; what was said."""
    chance = random.Random(seed)
    said = []
    for inc in incs:
        task = me.task(inc)
        me.meet()
        end = time.monotonic() + chance.random() * chance.choice([0.0, 0.001, 0.004])
        while time.monotonic() < end:
            pass
        found = me.ledger.cancel(task, by="alice", reason="enough")
        said.append("accepted" if found else found.code)
    return said
