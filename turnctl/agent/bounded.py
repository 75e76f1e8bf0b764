"""A function of the host that is told something when the outcome stands, and must not hold up what comes behind it.

Invariants
  T1  It is called once, on a thread of its own, with no turn bound: its checkpoints raise nothing.
  T2  Whatever becomes of it is a line for the record and never an error: it failed, it was left behind, or no thread
      was to be had, so that nothing would have bounded it and it was not called.

May block: ``tell_bounded``, for the seconds given; once it is hurried, for a moment. Not a checkpoint.
"""

from __future__ import annotations

from _thread import LockType
from collections.abc import Callable
from typing import Any

from turnctl.clock import format_duration
from turnctl.spelling import described
from turnctl.tokens.event import park
from turnctl.waiting import abandoned
from turnctl.waiting.aborting import unbound_context
from turnctl.waiting.worker import Worker

__all__ = ["tell_bounded"]

_HURRIED_S = 0.05  # what it has when nobody waits for it any more


def tell_bounded(
    name: str,
    fn: Callable[[Any], object],
    told: object,
    seconds: float,
    *,
    turn_id: str,
    is_hurried: Callable[[], bool] = bool,
    hurry_waiters: list[LockType] | None = None,
) -> list[str]:
    """Call ``fn`` with ``told`` and wait for it, at most ``seconds``; what is to be noted of it, if anything.

    Who sets what ``is_hurried`` reads, and then releases ``hurry_waiters``, ends the wait.
    """
    worker = Worker(None, fn, (told,), {}, name=name, context=unbound_context())
    try:
        worker.start()
    except (RuntimeError, BlockingIOError) as error:
        return [f"{name} was not called: {described(error)}"]
    lists = [worker.waiters] if hurry_waiters is None else [worker.waiters, hurry_waiters]
    came = park(lambda: worker.has_ended or is_hurried(), seconds, *lists)
    if not came or not worker.wait(_HURRIED_S if is_hurried() else 0):
        abandoned.add(worker, turn_id)
        why = "nobody waits any more" if is_hurried() else f"it did not come back within {format_duration(seconds)}"
        return [f"{name} was left behind{worker.where()}: {why}"]
    if worker.thread is not None:
        worker.thread.join()  # it has nothing left to do
    return [] if worker.error is None else [f"{name} failed: {described(worker.error)}"]
