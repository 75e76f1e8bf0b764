"""Something that has to be done whole, also where a Ctrl-C strikes the one who has it done.

Python raises ``KeyboardInterrupt`` between any two lines of the main thread, and nowhere else. So what must not be cut
there is done by a thread beside it, and the main thread only waits.

Invariants
  U1  What is to be done is begun once and runs to its end, however often the caller is struck.
  U2  The first exception that struck is given back, never lost; each one is told to ``hurry``.

May block: as long as what is done. Not promised: anything in the few instructions around it, but for who calls it once
more then (``begun``); nor U1 where the system has no thread left: then the caller does it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from turnctl.tokens.threads import has_no_thread
from turnctl.waiting.aborting import unbound_context
from turnctl.waiting.worker import Worker

__all__ = ["Unstruck", "unstruck"]

T = TypeVar("T")


class Unstruck(Generic[T]):
    """What it came to, and what struck meanwhile."""

    def __init__(self, value: T, by: BaseException | None) -> None:
        self.value = value
        self.by = by


def unstruck(
    fn: Callable[[], T], *, name: str, hurry: Callable[[], object], begun: list[Worker] | None = None
) -> Unstruck[T]:
    """Call ``fn`` to its end, on a thread beside the main one if this is that. Raises what ``fn`` raises.

    Called again with the same list ``begun``, which was empty, it goes on with what was begun: for who is struck in the
    few instructions around this.
    """
    workers: list[Worker] = [] if begun is None else begun
    is_here = threading.current_thread() is not threading.main_thread()
    context = unbound_context()  # a turn around it that was stopped stops none of this
    by: BaseException | None = None
    while not (workers and workers[-1].is_begun and workers[-1].has_ended):
        try:
            if not workers or not workers[-1].is_begun:
                workers.append(Worker(None, fn, (), {}, name=name, context=context))
                if is_here:
                    workers[-1].run_here()
                else:
                    workers[-1].start()
            workers[-1].wait()
        except BaseException as struck:  # noqa: BLE001 - U2
            if has_no_thread(struck):
                is_here = True  # then it may be cut, and is not left out
                continue
            by = by or struck
            hurry()
    worker = workers[-1]
    if worker.error is not None:
        raise worker.error
    if worker.thread is not None and worker.thread is not threading.current_thread():
        worker.thread.join()  # it has nothing left to do
    value: Any = worker.result
    return Unstruck(value, by)
