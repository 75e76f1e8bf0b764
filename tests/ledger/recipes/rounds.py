"""Runs the barrier loop of a recipe, and holds that both orders came."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from scene import Stage

__all__ = ["both_orders"]

#: each loop goes on in lots of so many rounds until both orders have come, but not for ever
_MOST_LOTS = 5


def both_orders(stage: Stage, deed: str, *, rounds: int, **how: Any) -> list[dict[str, Any]]:
    """What the worker's side tells of each round (``duel.works``); fails where one order never came."""
    worker, canceller = stage.pair()
    found: list[dict[str, Any]] = []
    for lot in range(_MOST_LOTS):
        canceller.tell("duel:cancels", rounds=rounds)
        worker.tell("duel:works", deed=deed, rounds=rounds, seed=lot, **how)
        found += worker.hear(within=500)
        canceller.hear()
        if len(Counter(one["first"] for one in found)) == 2:
            break
    else:
        pytest.fail(f"{deed}: one order never came in {len(found)} rounds")
    worker.end()
    canceller.end()
    return found
