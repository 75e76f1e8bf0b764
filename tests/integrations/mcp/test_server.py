"""A server over two pipes: what it says, what stops its tools, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from commands import alive, nap
from mcping import RawClient, Served, Stage, request, served, server_program
from standins import BOUND, until

import turnctl
from turnctl import BadArgument, BadDuration
from turnctl.integrations.mcp import Refused, Server


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested", "1.2", instructions="use it well")

    @made.tool
    def echo(text: str, times: int = 1) -> str:
        """Say it again."""
        return text * times

    @made.tool
    def wait(what: str = "it") -> str:
        stage.enter(what)
        turnctl.sleep(60)
        return "slept"

    @made.tool
    def spin() -> str:
        stage.enter("spin")
        while True:
            turnctl.check()

    @made.tool
    def hold(what: str = "it") -> str:
        stage.enter(what)
        assert stage.go.wait(BOUND)
        return what

    return made


@pytest.fixture
def at(server: Server) -> Iterator[Served]:
    with served(server) as found:
        yield found


def opened(at: Served, version: str = "2025-06-18") -> dict[str, Any]:
    at.client.send(request(0, "initialize", protocolVersion=version, capabilities={}))
    answer: dict[str, Any] = at.client.read()["result"]
    return answer


@pytest.mark.parametrize(
    ("spoken", "wanted"),
    [
        *((version, version) for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")),
        ("2025-11-25", "1999-01-01"),
        ("2025-11-25", 7),
    ],
)
def test_versions_that_begin_with_initialize(at: Served, spoken: str, wanted: Any) -> None:
    """A version that is known is spoken; for any other the newest one is offered."""
    answer = opened(at, wanted)

    assert spoken == answer["protocolVersion"]
    assert {"name": "tested", "version": "1.2"} == answer["serverInfo"]
    assert ("use it well", {"tools": {}}) == (answer["instructions"], answer["capabilities"])


def test_requests_that_speak_for_themselves(at: Served) -> None:
    """From 2026-07-28 on each request names its version, and results have what that asks for."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    at.client.send(request(1, "server/discover", _meta=meta))
    discovered = at.client.read()["result"]
    at.client.send(request(2, "tools/call", name="echo", arguments={"text": "a"}, _meta=meta))
    called = at.client.read()["result"]
    at.client.send(request(3, "tools/list", _meta={**meta, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}))
    refused = at.client.read()["error"]

    assert "2026-07-28" in discovered["supportedVersions"]
    assert ("complete", 0, "private") == (discovered["resultType"], discovered["ttlMs"], discovered["cacheScope"])
    assert "complete" == called["resultType"]
    assert (-32022, "2031-01-01") == (refused["code"], refused["data"]["requested"])


def test_tools_are_listed_with_their_schema(at: Served) -> None:
    """The schema of the arguments is made from plain annotations."""
    at.client.send(request(1, "tools/list"))
    tools = {tool["name"]: tool for tool in at.client.read()["result"]["tools"]}

    assert {"echo", "wait", "spin", "hold"} == set(tools)
    assert "Say it again." == tools["echo"]["description"]
    assert {
        "type": "object",
        "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["text"],
    } == tools["echo"]["inputSchema"]


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, str),
        ({"type": "boolean"}, bool),
        ({"type": "array", "items": {"type": "integer"}}, list[int]),
        ({"type": "array"}, list),
        ({"type": "object"}, dict[str, int]),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, float | None),
        ({"enum": ["a", 1]}, Literal["a", 1]),
        ({}, object),
    ],
)
def test_schema_of_annotations(schema: dict[str, Any], annotation: Any) -> None:
    """Plain annotations are told, others take anything."""

    def fn(x) -> None: ...  # type: ignore[no-untyped-def]

    fn.__annotations__["x"] = annotation
    server = Server("s")
    server.tool(fn)

    assert schema == server.tools["fn"].schema["properties"]["x"]


@pytest.mark.parametrize(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "a"}], "isError": False}, "a"),
        ({"content": [], "isError": False}, None),
        ({"content": [{"type": "text", "text": "[1, 2]"}], "isError": False}, [1, 2]),
        (
            {"content": [{"type": "text", "text": '{"a": 1}'}], "isError": False, "structuredContent": {"a": 1}},
            {"a": 1},
        ),
        ({"content": [{"type": "image"}], "isError": True}, {"content": [{"type": "image"}], "isError": True}),
    ],
)
def test_values_as_results(at: Served, result: dict[str, Any], value: Any) -> None:
    """Text is text, a result is itself, anything else is JSON."""

    @at.server.tool
    def give() -> Any:
        return value

    at.client.call(1, "give")

    assert result == at.client.read()["result"]


@pytest.mark.parametrize(
    ("code", "method", "params"),
    [
        (-32601, "no/such", {}),
        (-32602, "tools/call", {"name": "no_such"}),
        (-32602, "tools/call", {}),
        (-32602, "tools/call", {"name": "echo", "arguments": [1]}),
        (-32602, "tools/call", {"name": "echo", "arguments": {}}),
        (-32602, "tools/call", {"name": "echo", "arguments": {"text": "a", "more": 1}}),
        (-32601, "tasks/get", {"taskId": "t"}),
    ],
)
def test_requests_that_cannot_be_served(at: Served, code: int, method: str, params: dict[str, Any]) -> None:
    """Each is answered with one error, and the server goes on."""
    at.client.send(request(1, method, **params), request(2, "ping"))
    answers = {answer["id"]: answer for answer in (at.client.read(), at.client.read())}

    assert code == answers[1]["error"]["code"]
    assert {} == answers[2]["result"]


def test_faulty_lines_are_answered_without_an_id(at: Served) -> None:
    """What is no message is told to be that, and the next one is served; a reply to nothing is passed over."""
    at.client.send("nonsense", '{"jsonrpc": "2.0", "id": 5, "result": {}}', request(1, "ping"))

    assert (None, -32700) == ((first := at.client.read())["id"], first["error"]["code"])
    assert 1 == at.client.read()["id"]


@pytest.mark.parametrize("tool", ["wait", "spin"])
def test_cancel_stops_the_tool(at: Served, stage: Stage, tool: str) -> None:
    """A sleep wakes, a loop that checks ends; there is no answer, and the server goes on."""
    opened(at)
    at.client.call(1, tool)
    stage.wait_entered()
    at.client.cancel(1, reason="enough")
    assert until(lambda: at.server.received)
    at.client.call(2, "echo", text="a")
    answer = at.client.read()

    assert 2 == answer["id"]
    assert [(1, True, "enough")] == [(one.request_id, one.applied, one.reason) for one in at.server.received]


def test_requests_are_served_beside_each_other(at: Served, stage: Stage) -> None:
    """Five wait in their tools at one time; one is stopped, and the others are answered."""
    for number in range(5):
        at.client.call(number, "hold", what=str(number))
    stage.wait_entered(5)
    at.client.cancel(3)
    assert until(lambda: at.server.received)
    stage.go.set()
    answers = [at.client.read() for _ in range(4)]
    at.client.hang_up()

    assert {0, 1, 2, 4} == {answer["id"] for answer in answers}
    assert 4 == len(at.client.rest())


def test_no_more_at_once_than_threads(stage: Stage) -> None:
    """A request beyond the limit waits; cancelled while it waits, its tool never runs."""
    server = Server("narrow", threads=1)

    @server.tool
    def hold(what: str) -> str:
        stage.enter(what)
        assert stage.go.wait(BOUND)
        return what

    with served(server) as at:
        at.client.call(1, "hold", what="1")
        stage.wait_entered()
        at.client.call(2, "hold", what="2")
        at.client.call(3, "hold", what="3")
        at.client.cancel(2)
        assert until(lambda: server.received)
        stage.go.set()
        answers = [at.client.read()["id"], at.client.read()["id"]]

    assert [1, 3] == answers
    assert ["1", "3"] == stage.entered
    assert server.received[0].applied


def test_end_of_the_input_stops_all(at: Served, stage: Stage) -> None:
    """Every request in work is stopped, nothing more is written, and ``serve`` returns."""
    for number in range(3):
        at.client.call(number, "wait")
    stage.wait_entered(3)
    at.client.hang_up()

    assert () == at.serving.result()
    assert [] == at.client.rest()


def test_shutdown_stops_all(at: Served, stage: Stage) -> None:
    """From any thread: the turns end with the reason, nothing more is written, and ``serve`` returns."""
    reports: list[Any] = []
    at.server.on_report = reports.append
    at.client.call(1, "wait")
    stage.wait_entered()
    at.server.shutdown("maintenance")

    assert () == at.serving.result()
    assert [] == at.client.rest()


def test_tool_may_shut_its_server_down(at: Served) -> None:
    """The request that does it is stopped like the others, and nothing waits for itself."""

    @at.server.tool
    def leave() -> None:
        at.server.shutdown()
        turnctl.sleep(60)

    at.client.call(1, "leave")

    assert () == at.serving.result()
    assert [] == at.client.rest()


def test_server_that_was_shut_down_serves_nobody(server: Server) -> None:
    """A shutdown that comes before ``serve`` is not lost."""
    server.shutdown()
    with served(server) as at:
        assert () == at.serving.result()


def test_stop_of_the_turn_around_ends_serving(server: Server, stage: Stage) -> None:
    """Served inside a turn, requests are turns below it: its stop ends them, and ``serve`` raises it."""
    theirs, ours = os.pipe()
    back, forth = os.pipe()
    reports: list[Any] = []
    server.on_report = reports.append
    client = RawClient(back, ours)

    def serve() -> turnctl.TurnReport:
        with turnctl.turn("host") as turn:
            server.serve(theirs, forth)
        return turn.report

    thread = threading.Thread(target=lambda: reports.append(serve()))
    thread.start()
    client.call(1, "wait")
    stage.wait_entered()
    turnctl.stop("host", reason="enough")
    thread.join(BOUND)
    for fd in (theirs, ours, back, forth):
        os.close(fd)

    assert ["cancelled", "cancelled"] == [report.outcome for report in reports]
    assert reports[0].stop.cause in ("parent", "closed")  # whichever comes to it first


def test_tool_that_does_not_come_back_is_named(stage: Stage) -> None:
    """``serve`` waits within the grace, and says which request is left."""
    server = Server("stuck", grace=0)

    @server.tool
    def hold() -> None:
        stage.enter(1)
        stage.go.wait(BOUND)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("turnctl.integrations.mcp.server._REST_S", 0.05)
        with served(server) as at:
            at.client.call(1, "hold")
            stage.wait_entered()
            at.client.hang_up()
            left = at.serving.result()
            stage.go.set()

    assert ("request 1 (tools/call hold)",) == left
    assert until(lambda: not [t for t in threading.enumerate() if t.name.startswith("turnctl-mcp-stuck")])


def test_report_of_each_request(at: Served) -> None:
    """``on_report`` is given the report of each request's turn, with the commands that it ran."""
    reports: list[turnctl.TurnReport] = []
    at.server.on_report = reports.append

    @at.server.tool
    def run() -> str:
        return str(turnctl.run(["echo", "hello"], text=True).stdout)

    at.client.call("r1", "run")
    answer = at.client.read()

    assert "hello\n" == answer["result"]["content"][0]["text"]
    assert until(lambda: reports)
    assert ["mcp", "process"] == [activity.kind for activity in reports[0].activities]


def test_handler_of_another_method(at: Served) -> None:
    """A method of the host's is served in a turn as well, and may refuse."""

    def read(params: dict[str, Any]) -> dict[str, Any]:
        if turnctl.current_turn() is None or params["uri"] != "a:b":
            raise Refused("no such thing", code=-32002, data={"uri": params["uri"]})
        return {"contents": []}

    at.server.handle("resources/read", read)
    at.client.send(request(1, "resources/read", uri="a:b"))
    first = at.client.read()
    at.client.send(request(2, "resources/read", uri="c"))
    second = at.client.read()

    assert {"contents": []} == first["result"]
    assert {"code": -32002, "message": "no such thing", "data": {"uri": "c"}} == second["error"]


def test_context_of_one_request_is_not_the_next_ones(at: Served) -> None:
    """Context variables that a tool sets are gone with its request, though the thread is used again."""
    import contextvars

    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=0)

    @at.server.tool
    def look() -> int:
        before = seen.get()
        seen.set(before + 1)
        return before

    found = []
    for number in range(3):
        at.client.call(number, "look")
        found.append(at.client.read()["result"]["content"][0]["text"])

    assert ["0", "0", "0"] == found


@pytest.mark.parametrize(
    "make",
    [
        lambda: Server(""),
        lambda: Server(None),  # type: ignore[arg-type]
        lambda: Server("s", threads=0),
        lambda: Server("s", threads=True),
        lambda: Server("s").tool(lambda: None),
        lambda: Server("s").tool(name="")(print),
        lambda: Server("s").tool(exec),
        lambda: Server("s").handle("ping", print),  # type: ignore[arg-type]
        lambda: Server("s").handle("", print),  # type: ignore[arg-type]
        lambda: Server("s").http(path="mcp"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], object]) -> None:
    """What cannot be served is refused before anything is."""
    with pytest.raises(BadArgument):
        make()


def test_other_bad_arguments_are_refused() -> None:
    """Two tools of a name, coroutine functions, and durations that are none."""
    server = Server("s")

    def plain() -> None: ...

    server.tool(name="a")(plain)

    async def later() -> None: ...

    with pytest.raises(BadArgument, match="has a tool 'a' already"):
        server.tool(name="a")(plain)
    with pytest.raises(BadArgument, match="called with names"):
        server.tool(len)
    with pytest.raises(BadArgument, match="cannot be read"):
        server.tool(str)
    with pytest.raises(BadArgument):
        server.tool(later)
    with pytest.raises(BadDuration):
        Server("s", timeout=0)


class Program:
    """A server that is a program of its own."""

    def __init__(self, argv: list[str]) -> None:
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.client = RawClient(self.process.stdout.fileno(), self.process.stdin.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.kill()
        self.process.wait(BOUND)


SHELL = """
@server.tool
def shell(command: str) -> str:
    return turnctl.run(command, shell=True, text=True).stdout
"""


def test_nothing_survives_a_cancel(tmp_path: Path) -> None:
    """A shell with children in sessions of their own: after the cancel none is left, counted from outside (P9)."""
    sleeper = nap()
    tag = sleeper.split()[1]
    with Program(server_program(tmp_path, SHELL)) as program:
        program.client.call(1, "shell", command=f"setsid {sleeper} & (trap '' TERM; {sleeper}; true) & {sleeper}")
        assert until(lambda: len(alive(tag)) >= 3)
        program.client.cancel(1, reason="enough")

        assert until(lambda: not alive(tag))
        program.client.call(2, "shell", command="echo still here")
        assert "still here\n" == program.client.read()["result"]["content"][0]["text"]
        assert [2] == [message["id"] for message in program.client.said]


@pytest.mark.parametrize("ending", ["closes the input", "SIGKILL"])
def test_nothing_survives_the_end(tmp_path: Path, ending: str) -> None:
    """The client hangs up, or the server is killed: its commands end, and it exits (P10)."""
    sleeper = nap()
    tag = sleeper.split()[1]
    with Program(server_program(tmp_path, SHELL)) as program:
        program.client.call(1, "shell", command=f"{sleeper} & {sleeper}")
        assert until(lambda: len(alive(tag)) >= 2)
        if ending == "closes the input":
            assert program.process.stdin is not None
            program.process.stdin.close()
        else:
            program.process.send_signal(getattr(signal, ending))
        status = program.process.wait(BOUND)

        assert until(lambda: not alive(tag))
        assert (0 if ending == "closes the input" else -getattr(signal, ending)) == status


def test_server_shut_down_by_a_signal(tmp_path: Path) -> None:
    """``shutdown`` may be called by a signal handler: all ends in order, and ``run`` returns."""
    body = (
        f"{SHELL}\nimport signal\nsignal.signal(signal.SIGTERM, lambda *_: server.shutdown('SIGTERM'))\n"
        "@server.tool\ndef print_stray() -> str:\n    print('a stray word')\n    return 'said'\n"
    )
    sleeper = nap()
    tag = sleeper.split()[1]
    argv = server_program(tmp_path, body, run="left = server.run()\nprint(left, server.received)")
    with Program(argv) as program:
        program.client.call(1, "print_stray")
        program.client.read()
        program.client.call(2, "shell", command=sleeper)
        assert until(lambda: alive(tag))
        program.process.send_signal(signal.SIGTERM)
        status = program.process.wait(BOUND)
        assert program.process.stdout is not None
        rest = program.process.stdout.read()

        assert (0, b"() ()\n") == (status, rest)
        assert [] == alive(tag)
