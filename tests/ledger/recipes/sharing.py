"""What an actor does with shared work: interest in it, taken and let go of, and cancellations at a barrier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actor import Actor

if TYPE_CHECKING:
    from worker import Worker

__all__ = ["cancel_all", "end", "leave", "share", "state"]


def share(me: Actor, of: Worker, turn: Any, *, key: str) -> str:
    """Be interested in it until ``leave``."""
    entered = turn.share(key)
    of.effects[f"share {key}"] = entered, entered.__enter__()
    return state(me, of, turn, key=key)


def state(me: Actor, of: Worker, turn: Any, *, key: str) -> str:
    return str(of.effects[f"share {key}"][1].state)


def end(me: Actor, of: Worker, turn: Any, *, key: str) -> str:
    of.effects[f"share {key}"][1].end()
    return state(me, of, turn, key=key)


def leave(me: Actor, of: Worker, turn: Any, *, key: str) -> str:
    of.effects[f"share {key}"][0].__exit__(None, None, None)
    return state(me, of, turn, key=key)


def cancel_all(me: Actor, *, incs: list[str]) -> int:
    """Cancel one after the other, each together with the other process."""
    done = 0
    for inc in incs:
        task = me.task(inc)
        me.meet()
        done += bool(me.ledger.cancel(task, by="alice"))
    return done
