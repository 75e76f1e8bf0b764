"""Plain functions as tools of the official SDK's server: each call is a turn on a thread, stopped with its request.

The SDK runs a plain function where it cannot be cancelled. ``in_turn`` makes it a coroutine function that can: the SDK
cancels that when the client does, by whichever dialect, and the turn is stopped.

Invariants
  N1  A call that was cancelled before its turn began never runs the function.
  N2  The coroutine ends after its turn, or when the grace has passed: then the thread is left to itself, and logged.

May block: nothing in the loop. The loop must be asyncio's.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar, overload

from turnctl import points
from turnctl.clock import parse_duration
from turnctl.errors import TurnctlError
from turnctl.integrations.mcp import sdk
from turnctl.integrations.mcp.tools import is_of_a_loop
from turnctl.tokens.callables import check_plain
from turnctl.tokens.threads import needing_threads
from turnctl.turns import Turn
from turnctl.waiting.worker import name_of

__all__ = ["in_turn"]

T = TypeVar("T")
Plain = Callable[..., T]
Hosted = Callable[..., Coroutine[Any, Any, T]]

_REST_S = 5.0  # more than the end of a turn takes after its grace
_log = logging.getLogger("turnctl.mcp")


@overload
def in_turn(fn: Plain[T], /) -> Hosted[T]: ...
@overload
def in_turn(
    fn: None = ..., /, *, timeout: float | str | None = ..., grace: float | str = ...
) -> Callable[[Plain[T]], Hosted[T]]: ...
def in_turn(
    fn: Plain[T] | None = None, /, *, timeout: float | str | None = None, grace: float | str = "5s"
) -> Hosted[T] | Callable[[Plain[T]], Hosted[T]]:
    """A plain function as an ``async`` one with the same parameters, for the server of the official SDK.

    ``@server.tool()`` above ``@mcp.in_turn``. Each call runs the function in a turn of its own, on a thread of its own;
    ``turnctl.check()``, ``turnctl.sleep()``, ``turnctl.run()`` in it end when the client cancels the request. A turn
    that was stopped by something else, such as its ``timeout``, is told to the client as an error of the tool. A plain
    ``Tool`` of the agent loop is taken as its function.
    """
    seconds = parse_duration(timeout, what="timeout", none=True)
    grace_s = parse_duration(grace, what="grace", zero=True) or 0.0

    def wrap(fn: Plain[T]) -> Hosted[T]:
        limit = seconds
        if is_of_a_loop(fn):
            from turnctl.integrations.mcp.agents import plain_function_of

            tool: Any = fn
            fn, limit = plain_function_of(tool), tool.timeout_s if seconds is None else seconds
        check_plain("in_turn()", fn)

        @functools.wraps(fn)
        async def hosted(*args: Any, **kwargs: Any) -> T:
            call = _Call(Turn(reason=f"mcp tool {name_of(fn)}", timeout=limit, grace=grace_s), fn, args, kwargs)
            value: T = await call.come(grace_s)
            return value

        return hosted

    return wrap if fn is None else wrap(fn)


class _Call:
    """One call, on its thread."""

    def __init__(self, turn: Turn, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.turn = turn
        self.value: Any = None
        self.failure: BaseException | None = None
        self._call = (fn, args, kwargs)
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._wish: list[str] = []
        self._has_begun = False

    async def come(self, grace_s: float) -> Any:
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(self._run,), name="turnctl-mcp-tool", daemon=True)
        with needing_threads(thread.name):
            thread.start()
        try:
            await self._over.wait()
        except asyncio.CancelledError:
            self._cancel("the request was cancelled")
            with sdk.shielded(grace_s + _REST_S):
                await self._over.wait()
            if not self._over.is_set():
                _log.warning("turn %s was stopped, and its tool has not come back", self.turn.turn_id)
            raise
        if self.failure is not None:
            raise self.failure
        if self.turn.outcome == "cancelled":
            record = self.turn.token.record
            raise sdk.tool_error("stopped" if record is None else f"stopped: {record.reason or record.cause}")
        return self.value

    def _cancel(self, reason: str) -> None:
        self._wish.append(reason)
        if self._has_begun:  # read after the wish was noted
            self.turn.cancel(reason, by="the client")

    def _run(self) -> None:
        fn, args, kwargs = self._call
        points.reach("mcp.tool.begin")
        try:
            with self.turn:
                self._has_begun = True
                for reason in list(self._wish):  # read after it has begun (N1)
                    self.turn.cancel(reason, by="the client")
                self.turn.check()
                self.value = fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the SDK tells the client
            self.failure = error
        except BaseException as error:  # noqa: BLE001 - it must not end the loop of the server
            self.failure = TurnctlError(f"the tool raised {type(error).__name__}: {error}")
        finally:
            try:
                self._loop.call_soon_threadsafe(self._over.set)
            except RuntimeError:
                pass  # the loop is closed, and nobody waits
