"""Stores and forks: each store of this process is told before a fork, after it, and in the child."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakSet

__all__ = ["FORK_S", "each"]

T = TypeVar("T")
#: how long a fork waits for transactions that are under way
FORK_S = 5.0


def each(open_ones: WeakSet[T], step: Callable[[T], object]) -> Callable[[], None]:
    """What does ``step`` for all of them, though it fails for some; the interpreter tells of those, and goes on."""

    def run() -> None:
        faults = []
        for store in list(open_ones):
            try:
                step(store)
            except Exception as fault:  # noqa: BLE001 - one store's, and the next has to be seen to as well
                faults.append(fault)
        if faults:
            raise ExceptionGroup("a ledger was not made ready for a fork", faults)

    return run
