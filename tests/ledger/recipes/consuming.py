"""A worker that a queue feeds: it takes a message up, does what that asks, and acknowledges it when it is through."""

from __future__ import annotations

from typing import Any

from actor import Actor
from delivery import ask

import turnctl

__all__ = ["consume"]


def consume(me: Actor, *, queue: int, keys: list[str], force: bool = False) -> dict[str, Any]:
    """One message: an effect for each of ``keys``. How it came out; the message is acknowledged, whatever that was,
    unless the task is with somebody else."""
    inc = ask(queue, "take")
    done: list[str] = []
    outcome: str | None = None
    try:
        task = me.task(inc)
        turn = turnctl.turn(task=task.take_over() if force else task)
        with turn:
            for key in keys:
                _send(me, turn, key, done)
        outcome = turn.outcome
    except turnctl.LedgerRefused as refused:
        outcome = refused.code
        if outcome == "held":
            return {"inc": inc, "outcome": outcome, "done": done}
    ask(queue, f"ack {inc}")
    return {"inc": inc, "outcome": outcome, "done": done}


def _send(me: Actor, turn: turnctl.Turn, key: str, done: list[str]) -> None:
    try:
        with turn.effect("mail.send", key=key, payload=f"letter {key}") as sent:
            sent.complete(me.receiver.post(sent.effect_id, sent.payload))
            done.append(key)
    except turnctl.EffectCompleted:
        pass
    except turnctl.LedgerRefused as refused:
        done.append(f"{key}: {refused.code}")
