"""Sleeping, and waiting for a token or a thing. All of it wakes in one hop when the token trips."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.tokens.event import TurnEvent, park
from turnctl.waiting.conditions import Bell, listen, wait_for
from turnctl.waiting.exits import is_process, wait_for_exit
from turnctl.waiting.futures import is_future, wait_for_future
from turnctl.waiting.parking import end_of, wait_until
from turnctl.waiting.slices import in_slices, kind_of

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["sleep", "wait", "wait_cancelled"]


def sleep(token: CancelToken | None, duration: float | str) -> None:
    """Block for ``duration`` (seconds or "1m30s"), or raise ``CancelledError`` as soon as ``token`` trips.

    A checkpoint at both ends, also for 0. Under a shield it sleeps on until the shield's limit. With no token it
    is a plain sleep.
    """
    seconds = parse_duration(duration, what="sleep", zero=True)
    if token is None:
        assert seconds is not None
        time.sleep(seconds)
        return
    wait_until(token, lambda: False, end_of(seconds))


def wait_cancelled(token: CancelToken, timeout: float | str | None = None) -> bool:
    """Block until ``token`` trips or is retired, or ``timeout`` has passed; whether it has tripped.

    Not a checkpoint: it returns the stop instead of raising it.
    """
    seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
    waiters = token._grow().waiters
    park(lambda: token.cancelled or token.retired, seconds, waiters)
    return token.cancelled


def wait(
    token: CancelToken | None,
    thing: object,
    timeout: float | str | None = None,
    *,
    on: threading.Condition | None = None,
) -> bool:
    """Block until ``thing`` is done, or raise ``CancelledError`` as soon as ``token`` trips; whether it is done.

    False when ``timeout`` (seconds or "5s") has passed. ``thing`` is one of

    - a ``threading.Event`` or ``TurnEvent``: until it is set (one that was retired unset can never be: False at once,
      if no timeout was given);
    - a predicate with its condition, ``wait(predicate, on=condition)``: until ``predicate()`` is true. As with
      ``Condition.wait_for`` the condition is held when this is called, while the predicate runs and afterwards, also
      after an exception, and let go in between;
    - a ``concurrent.futures.Future``: until it has a result, an exception or was cancelled;
    - a thread of a turn: until its function has come back;
    - a process (``subprocess.Popen``, ``multiprocessing.Process``, a ``turnctl.Process``): until it has ended. Its
      output may still be on its way; ``Process.wait`` of a command waits for that as well;
    - a plain ``threading.Thread``: until it has ended. Nothing can wake such a wait, so it goes by slices of 50 ms,
      which the turn's report says.

    Anything else is refused with ``BadArgument``. A checkpoint at both ends; blocks, without polling but for the last
    kind. Where the thing and the stop are both there, it raises. With no token it is a plain wait.
    """
    if on is not None:
        return wait_for(token, on, thing, timeout)  # type: ignore[arg-type] # it is asked there
    ends_at = end_of(timeout)
    if isinstance(thing, type):
        raise BadArgument(f"cannot wait for the class {thing.__qualname__}; make one and give that")
    if isinstance(thing, TurnEvent):
        is_over = thing._is_settled if ends_at is None else thing.is_set
        return wait_until(token, is_over, ends_at, thing._waiters) and thing.is_set()
    if isinstance(thing, threading.Event):
        return _wait_for_event(token, thing, ends_at)
    waiters = getattr(thing, "waiters", None)
    if isinstance(waiters, list) and hasattr(thing, "has_ended"):  # of ours
        return wait_until(token, lambda: bool(thing.has_ended), ends_at, waiters)
    if isinstance(thing, threading.Thread):
        return _wait_for_thread(token, thing, ends_at)
    if is_future(thing):
        return wait_for_future(token, thing, ends_at)
    if is_process(thing):
        return wait_for_exit(token, thing, ends_at)
    raise BadArgument(_refusal(thing))


def _wait_for_event(token: CancelToken | None, event: threading.Event, ends_at: float | None) -> bool:
    bell = Bell()
    undo = listen(getattr(event, "_cond", None), bell)
    if undo is None:
        raise BadArgument(f"{event!r} has no queue of waiters to join; use a threading.Event or a TurnEvent")
    try:
        # an event that is set and cleared at once has been set all the same
        return wait_until(token, lambda: bell.is_rung or event.is_set(), ends_at, bell.waiters)
    finally:
        undo()


def _wait_for_thread(token: CancelToken | None, thread: threading.Thread, ends_at: float | None) -> bool:
    if thread is threading.current_thread():
        raise RuntimeError("cannot wait for the current thread: it would never end")
    if thread.ident is None:
        raise RuntimeError(f"{thread!r} has not been started, so it cannot end; start it before waiting for it")

    def attempt(seconds: float | None) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    return in_slices(token, attempt, ends_at, kind_of(thread))


def _refusal(thing: object) -> str:
    if isinstance(thing, threading.Condition):
        return "a Condition alone is never done; give what you wait for: wait(predicate, on=condition)"
    if callable(thing):
        return f"{thing!r} is a function: give the condition that it belongs to, wait(predicate, on=condition)"
    if hasattr(thing, "get_loop"):
        return f"{kind_of(thing)} belongs to an event loop; wait for asyncio.run_coroutine_threadsafe(...) instead"
    return (
        f"cannot wait for {kind_of(thing)}; give an Event, a Future, a thread, a process, or a predicate with on=, "
        "and run the wait of anything else with turn.call()"
    )
