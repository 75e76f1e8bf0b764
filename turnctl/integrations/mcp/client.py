"""A client of MCP for plain code: the official SDK on a thread of its own, and calls that a stop of the turn ends.

Invariants
  K1  One thread holds the connection, from ``open`` until ``close``; the session is used there and nowhere else.
  K2  The stop is looked at before a call: what was stopped sends nothing. Response and stop are looked at in one
      place, by the caller, the stop first; a response that is not given is in ``CancelledError.late``.
  K3  A caller that leaves early (a stop, its ``timeout``, a Ctrl-C) first waits until the signal was handed over, at
      most for the grace.
  K4  A call never outlasts its connection: when that is lost, all that is under way raises ``ConnectionLost``.
  K5  A connection that was opened in a turn belongs to it, and is closed at its end at the latest.

May block: ``open``, ``close``, and each call. The calls are checkpoints, as is ``open``. Thread-safe. Not promised:
anything about what runs at the server after a stop (``CancelSent``).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar
from urllib.parse import urlsplit

from turnctl import clock
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.integrations.mcp import sdk
from turnctl.integrations.mcp.calls import Asked
from turnctl.integrations.mcp.connection import Connection
from turnctl.integrations.mcp.endings import watch_responses
from turnctl.integrations.mcp.flights import reason_of
from turnctl.tokens import registry
from turnctl.tokens.current import current_token
from turnctl.waiting.late import LateResult
from turnctl.waiting.parking import end_of, grace_end, wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.integrations.mcp.wire import Wire
    from turnctl.records.mcp import CancelSent
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Client"]

T = TypeVar("T")

_PROTOCOLS = ("initialize", "discover")
_CONNECTION_CLOSED = -32000
_LEAVE_S = 1.0  # what a signal has to go out where no grace says otherwise


class Client:
    """A connection to one server, for ``with``; made by ``Client.stdio`` or ``Client.http``.

    ``protocol`` is ``"initialize"`` (the revisions up to 2025-11-25), or ``"discover"`` (2026-07-28; needs version 2 of
    the SDK). ``session_options`` go to the SDK's ``ClientSession``. Opened in a turn the connection is that turn's;
    open it outside of turns to use it in many.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    def stdio(
        cls,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        errlog: Any = None,
        protocol: str = "initialize",
        session_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """A server that is started with ``argv`` and spoken to by its stdin and stdout.

        The SDK starts and ends it: ``env`` None gives it a few variables only; ``errlog`` is a file for its stderr.
        """
        words = [] if isinstance(argv, str) else [os.fspath(word) for word in argv]
        if not words:
            raise BadArgument(f"Client.stdio() needs the words of a command, as a list, not {argv!r}")
        folder = None if cwd is None else os.fspath(cwd)
        return cls(
            Connection(
                lambda *_: sdk.stdio_streams(words, env, folder, errlog),
                "stdio",
                " ".join(os.path.basename(word) for word in words)[:60],
                _checked(protocol),
                session_options or {},
            )
        )

    @classmethod
    def http(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        protocol: str = "initialize",
        session_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """A server at ``url``, spoken to by streamable HTTP."""
        if not str(url).startswith(("http://", "https://")):
            raise BadArgument(f"Client.http() needs the address of an endpoint, http://... or https://..., not {url!r}")
        return cls(
            Connection(
                lambda ended, begun: sdk.http_streams(url, headers, watch_responses(ended, begun)),
                "http",
                _place(url),
                _checked(protocol),
                session_options or {},
            )
        )

    # -- life -------------------------------------------------------------------------------------------------

    def open(self, timeout: float | str | None = "30s") -> Self:
        """Open the connection and agree on a version; ``with`` does so.

        A checkpoint; blocks. A stop closes it without a signal: what opens a connection cannot be cancelled. What the
        server or the SDK has to say against it is raised as it is.
        """
        if self._connection.thread is not None:
            raise BadArgument("a Client is opened once; make a new one for a new connection")
        _refuse_loop("open()")
        self._connection.open(end_of(timeout))
        return self

    def close(self) -> bool:
        """Close the connection, and end a server that was started for it; whether its thread has ended.

        Signals that are under way go out first; calls that are under way raise ``ConnectionLost``. Blocks for seconds
        at most, more than the SDK takes to end a server that does not want to. Not a checkpoint; may be called twice.
        """
        return self._connection.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def protocol_version(self) -> str | None:
        """The version that was agreed on; None before that."""
        return self._connection.version

    @property
    def evidence(self) -> tuple[CancelSent, ...]:
        """Every stop that was wanted for a call on this connection, oldest first, and what is known of it."""
        wire = self._connection.wire
        return () if wire is None else wire.evidence

    # -- calls ------------------------------------------------------------------------------------------------

    def call(
        self,
        fn: Callable[[Any], Coroutine[Any, Any, T]],
        *,
        name: str | None = None,
        timeout: float | str | None = None,
    ) -> T:
        """The value of ``fn(session)``, a coroutine of the SDK's ``ClientSession``, raced with the stop.

        ``client.call(lambda session: session.list_tools())``. A checkpoint. Blocks. A stop of the turn sends one signal
        for each request that is under way, waits until it is handed over (at most for the grace), and raises
        ``CancelledError``; its ``late`` has the response, should one come all the same. When ``timeout`` (seconds or
        "5s") has passed the same is done, and ``TimeoutError`` raised. Exceptions of the SDK pass out as they are;
        ``ConnectionLost`` when the connection is lost. Raises ``BadArgument`` on a thread that runs an event loop.
        """
        if not callable(fn):
            raise BadArgument(f"call() needs a function that takes the session, not {fn!r}")
        _refuse_loop("call()")
        ends_at = end_of(timeout)
        token = current_token()
        turn = registry.enclosing(token)
        if token is not None:
            token.check()  # K2
        asked = Asked(fn, name or str(getattr(fn, "__qualname__", "call")))
        try:
            if not self._wait(asked, turn, token, ends_at):
                self._leave(asked, turn, token, f"it took more than {timeout}")
                raise TimeoutError(f"{asked.name} had no response in {timeout}, and was stopped; give it longer")
            return self._give(asked, turn, token)
        finally:
            self._connection.forget(asked)

    def _wait(self, asked: Asked[Any], turn: TurnCore | None, token: CancelToken | None, ends_at: float | None) -> bool:
        try:
            self._connection.begin(asked)  # in here, since a Ctrl-C may strike as soon as it is begun
            return wait_until(token, lambda: asked.has_come, ends_at, asked.waiters)
        except BaseException as error:
            self._leave(asked, turn, token, None)
            if isinstance(error, CancelledError) and error.token is token:
                _note_loser(asked)
                error.late = error.late or LateResult(asked)
            raise

    def _give(self, asked: Asked[T], turn: TurnCore | None, token: CancelToken | None) -> T:
        failure = asked.failure
        if failure is None:
            return asked.value  # type: ignore[return-value]
        try:
            if asked.is_abandoned and isinstance(failure, asyncio.CancelledError):
                self._raise_end(asked, turn, token)
            if asked.is_unanswered and _says_closed(failure):
                raise self._connection.lost_error() from failure
            raise failure
        finally:
            del failure  # its traceback holds this frame

    def _raise_end(self, asked: Asked[Any], turn: TurnCore | None, token: CancelToken | None) -> NoReturn:
        """It was stopped under its caller's hands."""
        if token is not None:
            token.check()
        if turn is None or not turn.token.retired:
            raise self._connection.lost_error()
        raise TurnOver(
            f"turn {turn.turn_id} ended while its call of {asked.name} was under way; end a turn when its calls are "
            "back",
            turn_id=turn.turn_id,
        )

    def _leave(self, asked: Asked[Any], turn: TurnCore | None, token: CancelToken | None, reason: str | None) -> None:
        """K3."""
        at_most = clock.monotonic() + _LEAVE_S
        if turn is None or token is None or not token.cancelled:
            self._connection.leave(asked, reason or "its caller has left", lambda: at_most)
            return
        lists = (turn._hurry_waiters, turn.token._grow().waiters, token._grow().waiters)
        self._connection.leave(asked, reason or reason_of(token), lambda: grace_end(turn, token), *lists)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, timeout: float | str | None = None
    ) -> Any:
        """The SDK's ``CallToolResult`` of a tool; see ``call``."""
        given = dict(arguments or {})
        return self.call(lambda session: session.call_tool(name, given), name=f"tool {name}", timeout=timeout)

    def list_tools(self, *, timeout: float | str | None = None) -> Any:
        """The SDK's ``ListToolsResult``; see ``call``."""
        return self.call(lambda session: session.list_tools(), name="tools/list", timeout=timeout)

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | str | None = None
    ) -> dict[str, Any]:
        """The result of any request, as it was on the wire, whether the SDK knows of it or not; see ``call``.

        Raises ``Refused`` when it was answered with an error.
        """
        given = dict(params or {})
        return self.call(lambda _: self._wire().request(method, given), name=method, timeout=timeout)

    def _wire(self) -> Wire:
        wire = self._connection.wire
        assert wire is not None
        return wire

    def run_task(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: float | str | None = None,
        timeout: float | str | None = None,
    ) -> dict[str, Any]:
        """Call a tool as a task, and wait for the task's result, as it was on the wire; see ``tasked``.

        ``ttl`` is how long the server is asked to keep the task. A stop sends ``tasks/cancel``, which the server
        answers (``CancelSent.answer``); so does the passing of ``timeout``, with ``TimeoutError``. A server that
        answers at once has its result returned. Raises ``Refused`` for a task that failed or was cancelled by the
        server. A checkpoint; blocks.
        """
        from turnctl.integrations.mcp.tasked import run_task

        return run_task(self, name, dict(arguments or {}), ttl, end_of(timeout))

    def stop_task(self, task_id: str, reason: str | None = None) -> None:
        """Have ``tasks/cancel`` sent for a task that was made on this connection; not waited for. Not a checkpoint."""

        def stop() -> None:
            flight = self._wire().traffic.task(task_id)
            if flight is not None:
                self._wire().stop(flight, reason)

        self._connection.post(stop)

    def __repr__(self) -> str:
        connection = self._connection
        state = "closed" if connection.has_ended else "open" if connection.is_ready else "not open"
        return f"<Client of {connection.name}: {state}>"


def _place(url: str) -> str:
    """Where an address leads, without the user, password and query that may stand in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _says_closed(failure: BaseException) -> bool:
    """Whether it is how the SDK says that the connection was closed."""
    return getattr(getattr(failure, "error", None), "code", None) == _CONNECTION_CLOSED


def _checked(protocol: str) -> str:
    if protocol not in _PROTOCOLS:
        raise BadArgument(f"unknown protocol {protocol!r}; use initialize or discover")
    return protocol


def _refuse_loop(what: str) -> None:
    if asyncio._get_running_loop() is not None:
        raise BadArgument(
            f"{what} would block the event loop that runs on this thread; use the SDK's session there, on the streams "
            "of turnctl.integrations.mcp.Wire"
        )


def _note_loser(asked: Asked[Any]) -> None:
    """A response was there when the stop was seen: what it brought is kept, and said."""
    for flight in asked.flights[-1:]:
        if flight.call.phase == "answered":
            flight.note_late("its response came together with the stop and was not given")
