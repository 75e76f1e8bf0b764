"""A server of MCP whose tools are plain functions: each request is a turn, served on a thread, stopped by its cancel.

It knows ``initialize`` (up to 2025-11-25) and requests that stand for themselves (2026-07-28), ``ping`` and tools;
any other method is a handler of the host's. What decides about a request is in ``serving``; the transports are in
``stdio`` and ``http``. Nothing is sent but responses: no progress, no requests to the client.

May block: ``run`` and ``serve``, until the client is gone, ``shutdown()``, or the stop of the caller's turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar, overload

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument, TurnctlError
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import (
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Bad,
    Call,
    Message,
    Note,
    encode,
    error_message,
    parse,
    result_message,
)
from turnctl.integrations.mcp.pool import Pool
from turnctl.integrations.mcp.protocol import CANCELLED, STATELESS, TASKS, UNCANCELLABLE, VERSIONS, with_stateless
from turnctl.integrations.mcp.revisions import finish, version_of, wants_task
from turnctl.integrations.mcp.serving import Entry, Peer, Request, in_work_message
from turnctl.integrations.mcp.stdio import Lines, standard_streams
from turnctl.integrations.mcp.tasks import TASK_METHODS, Tasks
from turnctl.integrations.mcp.tools import Tool, made_of
from turnctl.tokens.callables import check_plain
from turnctl.tokens.ids import check_name

if TYPE_CHECKING:
    from turnctl.integrations.mcp.http import HttpEdge
    from turnctl.records.mcp import CancelReceived, Transport
    from turnctl.records.report import TurnReport

__all__ = ["Server", "Stopper"]

F = TypeVar("F", bound=Callable[..., Any])
Handler = Callable[[dict[str, Any]], dict[str, Any]]
Answer = Callable[[dict[str, Any]], None]

_KEPT = 1000  # cancels that are remembered
_REST_S = 10.0  # more than the end of a turn takes after its grace
_log = logging.getLogger("turnctl.mcp")


class Stopper:
    """What ``shutdown`` ends: a transport that is being served."""

    def close(self) -> None:
        """Have it end soon. Never blocks; signal-safe."""


class Server:
    """Plain functions as tools of MCP, each call of one in a turn of its own.

    ``timeout`` and ``grace`` are those of each request's turn. ``threads`` is how many requests are served at one time;
    more wait. ``on_report`` is called with the report of each request's turn, on its thread. Thread-safe.
    """

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        instructions: str | None = None,
        timeout: float | str | None = None,
        grace: float | str = "5s",
        threads: int = 64,
        on_report: Callable[[TurnReport], None] | None = None,
    ) -> None:
        if not check_name(name):
            raise BadArgument(f"a server needs a name, a non-empty str, not {name!r}")
        if type(threads) is not int or threads < 1:
            raise BadArgument(f"threads is a whole number of at least 1, not {threads!r}")
        self.name = name
        self.version = version
        self.instructions = instructions
        self.threads = threads
        self.timeout = parse_duration(timeout, what="timeout", none=True)
        self.grace = parse_duration(grace, what="grace", zero=True) or 0.0
        self.on_report = on_report
        self.tools: dict[str, Tool] = {}
        self._handlers: dict[str, Handler] = {}
        self._tasks = Tasks()
        self._received: deque[CancelReceived] = deque(maxlen=_KEPT)
        self.serving: list[Stopper | Lines] = []
        self._why: str | None = None

    # -- what it serves ---------------------------------------------------------------------------------------

    @overload
    def tool(self, fn: F, /) -> F: ...
    @overload
    def tool(
        self,
        fn: None = ...,
        /,
        *,
        name: str | None = ...,
        description: str | None = ...,
        schema: Mapping[str, Any] | None = ...,
        task: bool = ...,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        fn: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        task: bool = False,
    ) -> F | Callable[[F], F]:
        """Make a plain function a tool: ``@server.tool``, or with options ``@server.tool(name="grep")``.

        A ``Tool`` of the agent loop is served as it is, with its schema, effect and timeout; not if it asks first.

        It is called with the arguments by name. What it returns is the result: text, a result of MCP with ``content``,
        or anything that JSON has. An exception is a result with ``isError``; ``Refused`` is an error of the protocol.
        ``schema`` is that of the arguments; without it, one is made from plain annotations. With ``task=True`` a client
        that speaks of tasks can have it run as one.
        """

        def add(fn: F) -> F:
            made = made_of(fn, name, description, schema, task=task)
            if made.name in self.tools:
                raise BadArgument(f"server {self.name} has a tool {made.name!r} already; give another name")
            self.tools[made.name] = made
            return fn

        return add if fn is None else add(fn)

    def handle(self, method: str, fn: Handler) -> None:
        """Have requests of ``method`` served by ``fn``, each in a turn: it is called with the params and returns the
        result, both dicts."""
        if not check_name(method) or method in _BUILT_IN:
            raise BadArgument(f"{method!r} is no method that a handler can be given for")
        check_plain("handle()", fn)
        self._handlers[method] = fn

    @property
    def received(self) -> tuple[CancelReceived, ...]:
        """The cancels that came, the last thousand of them, oldest first, and what became of each."""
        return tuple(self._received)

    # -- one message ------------------------------------------------------------------------------------------

    def new_peer(self, pool: Pool, transport: Transport) -> Peer:
        """A client, which has nothing in work yet."""
        return Peer(
            pool,
            transport,
            timeout=self.timeout,
            grace=self.grace,
            note=self._received.append,
            failed=_log_failure,
            on_over=self._report,
            context=copy_context(),
        )

    def _report(self, report: Callable[[], TurnReport]) -> None:
        if self.on_report is not None:
            self.on_report(report())

    def new_pool(self) -> Pool:
        """Threads for requests, none started yet."""
        return Pool(f"mcp-{self.name}", self.threads)

    def take(self, peer: Peer, message: Message, answer: Answer, over: Callable[[], None]) -> None:
        """Do what ``message`` says. ``answer`` is called once or never, ``over`` once; never blocks but in ``answer``.

        Both may be called here and now, or on the thread that serves the request.
        """
        if isinstance(message, Call | Bad) and message.id is not None and peer.has_in_work(message.id):
            answer(in_work_message(message.id))
            over()
            return
        if isinstance(message, Call):
            self._take_call(peer, message, answer, over)
            return
        if isinstance(message, Bad):
            answer(error_message(message.id, message.code, message.message))
        elif isinstance(message, Note) and message.method == CANCELLED:
            params = message.params if isinstance(message.params, dict) else {}
            stateless = peer.transport == "http" and with_stateless(peer.version)
            ignored = "wrong dialect: there the response stream is closed instead" if stateless else None
            peer.cancel(params.get("requestId"), params.get("reason"), CANCELLED, ignored=ignored)
        over()

    def _take_call(self, peer: Peer, call: Call, answer: Answer, over: Callable[[], None]) -> None:
        version = version_of(call)
        if version is not None and version != STATELESS:
            text = f"version {version} is not spoken here"
            data = {"supported": [*VERSIONS, STATELESS], "requested": version}
            answer(error_message(call.id, -32022, text, data))
            over()
            return
        stateless = version is not None
        version = version or peer.version

        def send(message: dict[str, Any]) -> None:
            answer(finish(message, call.method) if stateless else message)

        try:
            result = self._answer_now(peer, call, version, stateless=stateless)
            work = self._work_of(peer, call) if result is None else None
        except Refused as error:
            answer(error_message(call.id, error.code, str(error), error.data))
            over()
            return
        except Exception as error:  # noqa: BLE001 - what is wrong with one request does not end the others
            _log.warning("request %r (%s)", call.id, call.method, exc_info=error)
            answer(error_message(call.id, INTERNAL, f"{type(error).__name__}: {error}"))
            over()
            return
        if work is not None:
            peer.admit(call, work, send, over, version)
            return
        send(result_message(call.id, result or {}))
        over()

    def _answer_now(self, peer: Peer, call: Call, version: str | None, *, stateless: bool) -> dict[str, Any] | None:
        """What is answered on the spot; None for what is served in a turn."""
        built_in = _BUILT_IN.get(call.method)
        if built_in is not None:
            if call.method in UNCANCELLABLE:
                peer.remember_opening(call.id)
            return built_in(self, peer, call)
        if call.method in TASK_METHODS and self.has_tasks and (call.method != "tasks/result" or stateless):
            return self._tasks.answer(peer.home, call, stateless=stateless)
        if call.method == "tools/call":
            tool = self._tool_of(call)
            if wants_task(call, tool, version, any_task=self.has_tasks, stateless=stateless):
                return self._tasks.make(peer.home, call, tool, version, stateless=stateless)
        return None

    def _work_of(self, peer: Peer, call: Call) -> Callable[[Request], dict[str, Any]]:
        if call.method == "tools/call":
            return self._tool_of(call)
        if call.method == "tasks/result" and self.has_tasks:
            return lambda request: self._tasks.result(peer.home, request)
        handler = self._handlers.get(call.method)
        if handler is None:
            raise Refused(f"no method {call.method!r} here", code=METHOD_NOT_FOUND)
        return lambda request: handler(request.params)

    def _tool_of(self, call: Call) -> Tool:
        name = call.params.get("name")
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise Refused(f"no tool {name!r} here", code=INVALID_PARAMS)
        return tool

    @property
    def has_tasks(self) -> bool:
        """Whether there is a tool that may be a task."""
        return any(tool.may_be_task for tool in self.tools.values())

    # -- built in ---------------------------------------------------------------------------------------------

    def _initialize(self, peer: Peer, call: Call) -> dict[str, Any]:
        wanted = call.params.get("protocolVersion")
        peer.version = wanted if wanted in VERSIONS else VERSIONS[-1]
        about = self._about()
        if self.has_tasks and peer.version == VERSIONS[-1]:
            about["capabilities"]["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"protocolVersion": peer.version, "serverInfo": self._info(), **about}

    def _discover(self, peer: Peer, call: Call) -> dict[str, Any]:  # noqa: ARG002 - all of these are called alike
        about = self._about()
        if self.has_tasks:
            about["capabilities"]["extensions"] = {TASKS: {}}
        return {"supportedVersions": [*VERSIONS, STATELESS], **about}

    def _list_tools(self, peer: Peer, call: Call) -> dict[str, Any]:  # noqa: ARG002
        return {"tools": [tool.as_dict() for tool in self.tools.values()]}

    def _ping(self, peer: Peer, call: Call) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def _info(self) -> dict[str, str]:
        return {"name": self.name, "version": self.version}

    def _about(self) -> dict[str, Any]:
        said: dict[str, Any] = {"capabilities": {"tools": {}} if self.tools else {}}
        if self.instructions is not None:
            said["instructions"] = self.instructions
        return said

    # -- serving ----------------------------------------------------------------------------------------------

    def run(self) -> tuple[str, ...]:
        """Serve the client at stdin and stdout until it is gone; see ``serve``.

        While it runs, stdin is empty and what is printed goes to stderr. Run it on the main thread, as the only user of
        the two.
        """
        with standard_streams() as (read_fd, write_fd):
            return self.serve(read_fd, write_fd)

    def serve(self, read_fd: int, write_fd: int) -> tuple[str, ...]:
        """Serve one client, a message per line, until the input ends, ``shutdown()``, or a stop of the caller's turn.

        Then every request in work is stopped and waited for within its grace; the names of those that did not come back
        are returned. A checkpoint. Blocks. The descriptors stay open. Requests are turns below the caller's turn, if
        there is one.
        """
        lines = Lines(read_fd, write_fd)
        pool = self.new_pool()
        peer = self.new_peer(pool, "stdio")
        self.serving.append(lines)
        why = "the client closed the connection"
        try:
            if self._why is not None:  # then read the wish
                lines.close()
            for line in lines.lines():
                for message in parse(line):
                    self.take(peer, message, lambda reply: lines.send(encode(reply)), _nothing)
            why = self._why or lines.broken or why
            if lines.is_too_long:
                _log.warning("server %s ends: %s", self.name, why)
                lines.send(encode(error_message(None, INVALID_REQUEST, why)))
        except BaseException:
            why = "its server was stopped"
            raise
        finally:
            self.serving.remove(lines)
            lines.close()  # before anything is stopped: from now on nothing is written
            peer.close(why, "shutdown" if self._why is not None else "closed")
            left = pool.close(self.grace + _REST_S)
            lines.release()
        return left

    def http(
        self, host: str = "127.0.0.1", port: int = 0, *, path: str = "/mcp", origins: tuple[str, ...] = ()
    ) -> HttpEdge:
        """A port of this machine at which clients are served by streamable HTTP; port 0 takes a free one.

        ``with server.http() as edge`` serves on a thread and has the address in ``edge.url``; ``edge.serve()`` serves
        on the caller's, as ``serve`` does. Requests with an ``Origin`` that is neither local nor in ``origins`` are
        refused. No TLS and no authorisation: put it behind something that has both before others can reach it.
        """
        from turnctl.integrations.mcp.http import HttpEdge

        return HttpEdge(self, host, port, path, origins)

    def shutdown(self, reason: str = "the server was shut down") -> None:
        """Have what is being served end: all in work is stopped, nothing more is answered, ``serve`` returns.

        Never blocks; from any thread or signal handler. A server that was shut down serves nobody any more.
        """
        self._why = self._why or reason
        for one in list(self.serving):
            one.close()

    @property
    def reason(self) -> str | None:
        """Why it was shut down; None if it was not."""
        return self._why


def _nothing() -> None:
    """Nothing is to be done when a request is over."""


def _log_failure(entry: Entry, error: BaseException) -> None:
    """What went wrong around a request, and nobody else can be told."""
    known = isinstance(error, TurnctlError)
    _log.warning("%s: %s: %s", entry.name, type(error).__name__, error, exc_info=None if known else error)


_BUILT_IN: dict[str, Callable[[Server, Peer, Call], dict[str, Any]]] = {
    "initialize": Server._initialize,
    "ping": Server._ping,
    "server/discover": Server._discover,
    "tools/list": Server._list_tools,
}
