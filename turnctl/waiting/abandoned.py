"""Threads that were left behind because they are blocked in foreign code: counted, named and limited.

Python cannot end a thread that does not come back to it. turnctl stops waiting for such a thread, names it in the
report of its turn, and counts it here until it ends by itself. Half way to the limit each new call warns; at the
limit it is refused with ``TooManyAbandoned``, since a program that leaves threads behind without bound dies of them.

Invariant B1: a thread counts from ``add`` until its function has come back. That sets ``has_ended``, *then* takes it
off; ``add`` puts it on, *then* looks: so nothing is held, with all that it refers to, for a function that is back.

Nothing here blocks or takes a lock. A forked child begins at zero: these threads do not exist there.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from turnctl import log
from turnctl.errors import BadArgument, TooManyAbandoned

if TYPE_CHECKING:
    from turnctl.waiting.worker import Worker

__all__ = ["DEFAULT_LIMIT", "add", "admit", "count", "limit", "names", "set_limit", "settle"]

DEFAULT_LIMIT = 100
_limit: int | None = DEFAULT_LIMIT
_left: dict[Worker, None] = {}


def limit() -> int | None:
    """How many threads may be left behind before new calls are refused; None for no limit."""
    return _limit


def set_limit(number: int | None) -> int | None:
    """Set that limit for the whole process, None for none; the one before is returned. Thread-safe, never blocks."""
    global _limit
    if number is not None and (type(number) is not int or number < 1):
        raise BadArgument(f"a limit of abandoned threads is a whole number of 1 or more, or None, not {number!r}")
    before, _limit = _limit, number
    return before


def count() -> int:
    """How many threads were left behind and still run."""
    return len(_running())


def names() -> tuple[str, ...]:
    """What they are, each with the line it stands at."""
    return tuple(name for worker in _running() for name in worker.alive())


def _running() -> list[Worker]:
    if not _left:
        return []
    for worker in [one for one in list(_left) if one.has_ended]:
        _left.pop(worker, None)
    return list(_left)


def add(worker: Worker, turn_id: str | None = None) -> None:
    """Count ``worker`` from now until its function comes back, and tell the log, with the turn it worked for."""
    if worker in _left:
        return
    _left[worker] = None
    if worker.has_ended:
        settle(worker)  # B1
        return
    if worker.turn is not None:
        turn_id = worker.turn.turn_id
    log.warning("thread.abandoned", turn=turn_id, thread=worker.name, at=worker.where().strip(), count=count())


def settle(worker: Worker) -> None:
    """Its function has come back."""
    if _left:
        _left.pop(worker, None)


def admit(name: str) -> None:
    """See that one more call may begin: ``TooManyAbandoned`` at the limit, a ``RuntimeWarning`` from half of it on."""
    most = _limit
    if not _left or most is None:
        return
    found = count()
    if found >= most:
        raise TooManyAbandoned(
            f"call of {name} is not started: {found} calls that were stopped have not come back (the limit is {most}); "
            "give call() an abort= that unblocks them, or raise the limit with turnctl.waiting.abandoned.set_limit(); "
            f"one of them is {(*names(), 'gone by now')[0]}",
            count=found,
            limit=most,
        )
    if 2 * found >= most and found:
        # here and not where one is left behind: under -W error it must not replace the stop that is being carried out
        warnings.warn(
            f"{found} calls that were stopped have not come back; at {most} no new call is started "
            "(see turnctl.waiting.abandoned)",
            RuntimeWarning,
            stacklevel=4,
        )


os.register_at_fork(after_in_child=_left.clear)
