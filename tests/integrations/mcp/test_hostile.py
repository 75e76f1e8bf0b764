"""What must not hurt a server: answers that are no JSON, ids used twice, and clients that say what nobody expects."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from mcping import Served, Stage, request, served
from standins import BOUND, until

import turnctl
from turnctl import BadArgument
from turnctl.integrations.mcp import Refused, Server

INTERNAL, INVALID_PARAMS, INVALID_REQUEST = -32603, -32602, -32600


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested")

    @made.tool(task=True)
    def echo(text: str = "") -> str:
        return text

    @made.tool
    def hold() -> str:
        stage.enter("hold")
        assert stage.go.wait(BOUND)
        return "held"

    return made


@pytest.fixture
def at(server: Server) -> Iterator[Served]:
    with served(server) as found:
        found.client.send(request(0, "initialize", protocolVersion="2025-11-25", capabilities={}))
        found.client.read()
        yield found


def still_answers(at: Served) -> bool:
    at.client.call("next", "echo", text="x")
    return bool("next" == at.client.read()["id"])


@pytest.mark.parametrize(
    "value", [{"x": {1}}, {"content": [{"type": "text", "text": b"x"}]}, {"content": [float("nan")]}], ids=str
)
def test_results_that_are_no_json_are_answered(at: Served, value: Any) -> None:
    """A client never waits for ever for what cannot be written: it gets an error, or a result that is one."""

    @at.server.tool
    def give() -> Any:
        return value

    at.client.call(1, "give")
    answer = at.client.read()

    assert 1 == answer["id"]
    assert answer["result"]["isError"] if "result" in answer else INTERNAL == answer["error"]["code"]
    assert still_answers(at)


def test_not_a_number_in_a_structured_result(at: Served) -> None:
    """JSON has no NaN: the tool's result is an error that the model can read."""

    @at.server.tool
    def give() -> Any:
        return {"x": float("nan")}

    at.client.call(1, "give")

    assert at.client.read()["result"]["isError"]


def test_error_data_that_is_no_json(at: Served) -> None:
    """The data of ``Refused`` and what a handler returns are looked after in the same way."""

    @at.server.tool
    def refuse() -> None:
        raise Refused("no", data={1})

    at.server.handle("x/odd", lambda _: {"a": {1}})
    at.client.call(1, "refuse")
    first = at.client.read()
    at.client.send(request(2, "x/odd"))
    second = at.client.read()

    assert [(1, INTERNAL), (2, INTERNAL)] == [(one["id"], one["error"]["code"]) for one in (first, second)]


@pytest.mark.parametrize(
    ("told", "text"), [("\ufffd.txt", "\udc80.txt"), ("\U0001f600", "\ud83d\ude00"), ("\ufffda", "\ud83da")], ids=ascii
)
def test_names_that_are_no_unicode(at: Served, told: str, text: str) -> None:
    """Half of a pair of surrogates, as in names of files, is replaced: readers of JSON refuse all of it otherwise."""

    @at.server.tool
    def give() -> Any:
        return {"name": text}

    at.client.call(1, "give")

    assert {"name": told} == at.client.read()["result"]["structuredContent"]


def test_id_that_cannot_be_sent_back(at: Served) -> None:
    """A request with half of a pair in its id is refused without an id."""
    at.client.send('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}')
    answer = at.client.read()

    assert (None, INVALID_REQUEST) == (answer["id"], answer["error"]["code"])
    assert still_answers(at)


@pytest.mark.parametrize(
    "second",
    [
        request(1, "ping"),
        request(1, "tools/list"),
        request(1, "tasks/list"),
        request(1, "initialize", protocolVersion="2025-06-18"),
        request(1, "no/such"),
        request(1, "tools/call", name="none"),
        request(1, "tools/call", name="echo"),
        request(1, "tools/call", name="echo", task={}),
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": [1]},
        {"jsonrpc": "2.0", "id": 1},
        request(1.0, "ping"),
    ],
    ids=lambda one: json.dumps(one)[27:90],
)
@pytest.mark.parametrize("cancelled", [False, True])
def test_id_in_work_is_never_answered_twice(at: Served, stage: Stage, second: dict[str, Any], cancelled: bool) -> None:
    """Whatever comes with the id of a request in work: it is not served, and told so without an id."""
    at.client.call(1, "hold")
    stage.wait_entered()
    if cancelled:
        at.client.cancel(1)
    at.client.send(second)
    answer = at.client.read()
    stage.go.set()
    if not cancelled:
        assert "held" == at.client.read()["result"]["content"][0]["text"]

    assert (None, INVALID_REQUEST) == (answer["id"], answer["error"]["code"])
    assert "is in work" in answer["error"]["message"]
    assert still_answers(at)


@pytest.mark.parametrize(
    "task", ["5", '"x"', "[]", "true", '{"ttl": "x"}', '{"ttl": 1e400}', '{"ttl": -1}', '{"ttl": true}']
)
def test_tasks_that_are_asked_for_wrongly(at: Served, task: str) -> None:
    """A ``task`` that is none is refused; it makes no task, and ends no server."""
    params = f'{{"name": "echo", "arguments": {{}}, "task": {task}}}'
    at.client.send(f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}')
    answer = at.client.read()

    assert (1, INVALID_PARAMS) == (answer["id"], answer["error"]["code"])
    assert still_answers(at)


def test_fault_in_taking_a_request(at: Served, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """What goes wrong with one request is answered and logged, and the others are served on."""

    def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by chance")

    monkeypatch.setattr("turnctl.integrations.mcp.server.wants_task", fail)
    at.client.call(1, "echo")
    answer = at.client.read()
    monkeypatch.undo()

    assert (1, INTERNAL, "ZeroDivisionError: by chance") == (answer["id"], *answer["error"].values())
    assert ["request 1 (tools/call)"] == [one.message for one in caplog.records]
    assert still_answers(at)


def test_schema_that_is_no_json_is_refused() -> None:
    """What ``tools/list`` could not say is refused where the tool is made."""

    with pytest.raises(BadArgument, match="schema of tool 'give'"):

        @Server("tested").tool(schema={"type": object()})
        def give() -> None: ...


def test_report_names_the_end_of_the_connection(stage: Stage) -> None:
    """A tool that is stopped since its client has gone has a report that says so."""
    reports: list[turnctl.TurnReport] = []
    made = Server("tested", on_report=reports.append)

    @made.tool
    def wait() -> None:
        stage.enter("wait")
        turnctl.sleep(60)

    with served(made) as at:
        at.client.call(1, "wait")
        stage.wait_entered()
        at.client.hang_up()
        at.serving.result()

    [report] = reports
    assert str(report).startswith("stopped by the end of its connection (the client closed the connection)")


def test_line_without_an_end_is_told(at: Served, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """A client whose line is too long is told so before the connection ends, and the log has it."""
    monkeypatch.setattr("turnctl.integrations.mcp.stdio._LONGEST", 1000)
    os.write(at.client.write_fd, b"x" * 2000)
    answer = at.client.read()
    at.serving.result()

    assert (None, INVALID_REQUEST, "a line of more than 1000 bytes") == (answer["id"], *answer["error"].values())
    assert ["server tested ends: a line of more than 1000 bytes"] == [one.message for one in caplog.records]


def test_cancel_behind_answers_that_nobody_reads(server: Server, stage: Stage) -> None:
    """A client that does not read its answers can stop its tool all the same."""

    @server.tool
    def wait() -> None:
        stage.enter("wait")
        turnctl.sleep(60)

    def narrow(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)

    with served(server, write_end=narrow) as at:
        at.client.call(1, "wait")
        stage.wait_entered()
        for number in range(300):
            at.client.send(request(1000 + number, "ping"))
        at.client.cancel(1)

        assert until(lambda: [True] == [one.applied for one in server.received])
        assert list(range(1000, 1300)) == [at.client.read()["id"] for _ in range(300)]
