"""Tools of the agent loop, served: the same tool, with all that is declared of it, stopped with the request."""

from __future__ import annotations

import asyncio
import base64
import inspect
import itertools
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from mcping import Served, Stage, request, served
from standins import BOUND, until

import turnctl
from turnctl import BadArgument, Turn, TurnEffect
from turnctl.agent import Acts, AgentLoop, Call, Image, Result, Tool, tool
from turnctl.integrations.mcp import Server, in_turn
from turnctl.records.report import TurnReport


@pytest.fixture
def stage() -> Stage:
    return Stage()


@tool
def read_file(path: Annotated[str, "where it is"], lines: int = 3) -> str:
    """Read a file.

    From its beginning.
    """
    return f"{lines} lines of {path}"


@tool(effect=Acts("mail.send", key=lambda arguments: arguments["to"]))
def send_mail(to: str, effect: TurnEffect, turn: Turn) -> str:
    """Send one."""
    assert turnctl.current_turn() is turn
    return f"sent to {to} as {bool(effect.effect_id)}"


@tool
def picture() -> Result:
    """Draw."""
    return Result("", ["here", Image(base64.b64encode(b"png").decode())])


@pytest.fixture
def reports() -> list[TurnReport]:
    return []


@pytest.fixture
def at(stage: Stage, reports: list[TurnReport]) -> Iterator[Served]:
    server = Server("tested", on_report=reports.append)
    for one in (read_file, send_mail, picture):
        server.tool(one)

    @server.tool
    @tool
    def build() -> str:
        """Build it."""
        stage.enter("build")
        turnctl.sleep(60)
        return "built"

    @server.tool
    @tool(timeout="20ms")
    def slow() -> str:
        """Take long."""
        stage.go.wait(BOUND)
        return "late"

    with served(server) as found:
        found.client.send(request(0, "initialize", protocolVersion="2025-06-18", capabilities={}))
        found.client.read()
        yield found
        stage.go.set()


numbers = itertools.count(1)


def called(at: Served, name: str, **arguments: Any) -> dict[str, Any]:
    at.client.call(next(numbers), name, **arguments)
    answer: dict[str, Any] = at.client.read()
    return answer["result"] if "result" in answer else answer["error"]


def test_tool_is_listed_as_the_model_would_see_it(at: Served) -> None:
    """Name, description and schema are those of the tool."""
    at.client.send(request("list", "tools/list"))
    found = {one["name"]: one for one in at.client.read()["result"]["tools"]}["read_file"]

    assert (read_file.description, read_file.schema) == (found["description"], found["inputSchema"])


def test_what_it_gives_is_the_result(at: Served) -> None:
    """A text, or parts; the loop gets the same from it."""
    said = called(at, "read_file", path="notes.txt")
    drawn = called(at, "picture")
    loop = AgentLoop(
        lambda messages, _: (
            messages[-1].results[0].text if messages[-1].results else Call("1", "read_file", {"path": "a"})
        ),
        [read_file],
    )

    assert {"content": [{"type": "text", "text": "3 lines of notes.txt"}], "isError": False} == said
    assert [{"type": "text", "text": "here"}, {"type": "image", "data": "cG5n", "mimeType": "image/png"}] == (
        drawn["content"]
    )
    assert "3 lines of a" == loop.run("go").text


def test_arguments_that_do_not_fit_are_told(at: Served) -> None:
    """In the words that a model gets, and nothing is called."""
    said = called(at, "read_file", path="a", lines="many")

    assert said["isError"]
    assert "read_file was not called" in said["content"][0]["text"]


def test_effect_passes_the_gate_of_its_request(at: Served, reports: list[TurnReport]) -> None:
    """What the tool does to the world is in the report of that request's turn."""
    said = called(at, "send_mail", to="ann")
    assert until(lambda: reports)
    (effect,) = reports[0].effects

    assert "sent to ann as True" == said["content"][0]["text"]
    assert ("mail.send", "ann", "completed") == (effect.kind, effect.key, effect.disposition)


def test_cancel_of_the_request_stops_it(at: Served, stage: Stage, reports: list[TurnReport]) -> None:
    """Its checkpoints raise, and a request that was cancelled is not answered."""
    at.client.call("b", "build")
    stage.wait_entered()
    at.client.cancel("b")
    assert until(lambda: reports)
    said = called(at, "read_file", path="a")

    assert "cancelled" == reports[0].outcome
    assert not said["isError"]


def test_own_timeout_of_the_tool_holds(at: Served) -> None:
    """The client is told that the outcome is unknown, not that it failed or went well."""
    said = called(at, "slow")

    assert said["isError"]
    assert "slow took longer than 20ms and was stopped; its outcome is unknown" == said["content"][0]["text"]


def test_tool_that_asks_first_is_not_served() -> None:
    """A server has nobody to ask, and does not call it unasked."""
    server = Server("tested")
    with pytest.raises(BadArgument, match="a server has nobody to ask"):
        server.tool(Tool(lambda path: path, name="remove", schema={"type": "object"}, approval=True))
    with pytest.raises(BadArgument, match="has a schema of its own"):
        server.tool(schema={"type": "object"})(read_file)

    assert {} == server.tools


def test_tool_in_the_server_of_the_sdk_keeps_its_face() -> None:
    """Wrapped by ``in_turn`` it has the name, text and parameters that the SDK reads, and runs in a turn."""

    @tool(timeout="20ms")
    def look(path: str, lines: int = 3) -> str:
        """Look at it."""
        turn = turnctl.current_turn()
        return f"{lines} lines of {path}, {turn is not None and turn.deadline is not None}"

    hosted = in_turn(look)

    assert ("look", "Look at it.", ["path", "lines"]) == (
        *(hosted.__name__, hosted.__doc__, list(inspect.signature(hosted).parameters)),
    )
    assert "3 lines of a, True" == asyncio.run(hosted("a"))


@pytest.mark.parametrize("options", [{"approval": True}, {"effect": "mail.send"}])
def test_gate_of_a_tool_is_not_passed_by(options: dict[str, Any]) -> None:
    """Taken as a function it would ask nobody and admit nothing, so it is refused."""
    with pytest.raises(BadArgument, match="passes a gate or asks first"):
        in_turn(Tool(print, name="send", schema={"type": "object"}, **options))
