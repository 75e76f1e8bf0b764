"""Tools that run as tasks: made, asked about, cancelled by a request that is answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from mcping import Served, Stage, request, served
from standins import BOUND, until

import turnctl
from turnctl.integrations.mcp import Server
from turnctl.testing import pause_at

EXTENSION = "io.modelcontextprotocol/tasks"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
}


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Server:
    made = Server("tested")

    @made.tool(task=True)
    def wait() -> str:
        stage.enter("wait")
        turnctl.sleep(60)
        return "slept"

    @made.tool(task=True)
    def hold(fails: bool = False) -> str:
        stage.enter("hold")
        assert stage.go.wait(BOUND)
        if fails:
            raise ValueError("no luck")
        return "held"

    @made.tool
    def plain() -> str:
        return "plain"

    return made


class Talk:
    """A client that speaks of tasks, in either revision."""

    def __init__(self, at: Served, stateless: bool) -> None:
        self.at = at
        self.stateless = stateless
        self.count = 0
        self.ask("server/discover" if stateless else "initialize", protocolVersion="2025-11-25")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        meta = {"_meta": META} if self.stateless else {}
        self.at.client.send(request(self.count, method, **params, **meta))
        answer = self.at.client.read()
        assert self.count == answer["id"]
        return answer

    def start(self, tool: str, **arguments: Any) -> dict[str, Any]:
        more = {} if self.stateless else {"task": {"ttl": 60_000}}
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments, **more)["result"]
        task: dict[str, Any] = result if self.stateless else result["task"]
        return task


@pytest.fixture
def at(server: Server) -> Iterator[Served]:
    with served(server) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["2025-11-25", "2026-07-28"])
def talk(at: Served, request: pytest.FixtureRequest) -> Talk:
    return Talk(at, request.param)


def test_capabilities_are_told(at: Served) -> None:
    """The server says that it knows tasks, in the way of the revision, and which tools may be one."""
    at.client.send(request(1, "initialize", protocolVersion="2025-11-25"))
    legacy = at.client.read()["result"]["capabilities"]
    at.client.send(request(2, "initialize", protocolVersion="2025-06-18"))
    before = at.client.read()["result"]["capabilities"]
    at.client.send(request(3, "server/discover", _meta=META))
    modern = at.client.read()["result"]["capabilities"]
    at.client.send(request(4, "tools/list"))
    tools = {tool["name"]: tool.get("execution") for tool in at.client.read()["result"]["tools"]}

    assert {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}} == legacy["tasks"]
    assert "tasks" not in before
    assert {EXTENSION: {}} == modern["extensions"]
    assert {"wait": {"taskSupport": "optional"}, "hold": {"taskSupport": "optional"}, "plain": None} == tools


def test_task_that_completes(talk: Talk, stage: Stage) -> None:
    """The request is answered at once; later the task has what the tool returned."""
    task = talk.start("hold")
    first = talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]
    stage.go.set()
    assert until(lambda: talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"] == "completed")
    if talk.stateless:
        result = talk.ask("tasks/get", taskId=task["taskId"])["result"]["result"]
    else:
        result = talk.ask("tasks/result", taskId=task["taskId"])["result"]
        assert {"taskId": task["taskId"]} == result["_meta"]["io.modelcontextprotocol/related-task"]

    assert ("working", "working") == (task["status"], first)
    assert "held" == result["content"][0]["text"]


def test_tool_that_fails_as_a_task(talk: Talk, stage: Stage) -> None:
    """A result that says it is an error has failed in the one revision, and completed in the other."""
    stage.go.set()
    task = talk.start("hold", fails=True)
    assert until(lambda: talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"] != "working")

    status = talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]
    assert ("completed" if talk.stateless else "failed") == status


def test_cancel_of_a_task(talk: Talk, stage: Stage) -> None:
    """``tasks/cancel`` stops the tool; it is answered, and the task stays cancelled."""
    reports: list[turnctl.TurnReport] = []
    talk.at.server.on_report = reports.append
    task = talk.start("wait")
    stage.wait_entered()
    answer = talk.ask("tasks/cancel", taskId=task["taskId"])["result"]

    assert until(lambda: reports)
    assert "cancelled" == reports[0].outcome
    assert ({"resultType": "complete"} if talk.stateless else "cancelled") == (
        answer if talk.stateless else answer["status"]
    )
    after = talk.ask("tasks/get", taskId=task["taskId"])["result"]
    assert ("cancelled", "it was asked to stop") == (after["status"], after["statusMessage"])
    [received] = talk.at.server.received
    assert (True, "tasks/cancel", task["taskId"]) == (received.applied, received.dialect, received.request_id)


def test_tool_that_returns_after_the_cancel(talk: Talk, stage: Stage) -> None:
    """Once cancelled it stays cancelled, whatever the tool comes to."""
    task = talk.start("hold")
    stage.wait_entered()
    talk.ask("tasks/cancel", taskId=task["taskId"])
    stage.go.set()
    assert until(lambda: not talk.at.server._tasks._tasks[task["taskId"]].home.in_work)

    assert "cancelled" == talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]


def test_cancel_of_a_task_that_has_ended(talk: Talk, stage: Stage) -> None:
    """It changes nothing: an error in the one revision, an acknowledgement in the other; both are noted as ignored."""
    stage.go.set()
    task = talk.start("hold")
    assert until(lambda: talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"] == "completed")
    answer = talk.ask("tasks/cancel", taskId=task["taskId"])

    assert ("result" if talk.stateless else "error") in answer
    assert "completed" == talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]
    assert [(False, "finished")] == [(one.applied, one.why) for one in talk.at.server.received]


def test_cancel_as_the_task_completes(talk: Talk, stage: Stage) -> None:
    """The turn has decided when the cancel comes: the task completes."""
    with pause_at("mcp.server.deciding") as held:
        stage.go.set()
        task = talk.start("hold")
        assert held.reached.wait(BOUND)
        talk.ask("tasks/cancel", taskId=task["taskId"])
    assert until(lambda: talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"] != "working")

    assert "completed" == talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]
    assert [(False, "finished")] == [(one.applied, one.why) for one in talk.at.server.received]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
@pytest.mark.parametrize("task_id", ["none", 7, None])
def test_task_that_is_not_there(talk: Talk, method: str, task_id: Any) -> None:
    """An unknown task is an error; a cancel of one is noted."""
    assert -32602 == talk.ask(method, taskId=task_id)["error"]["code"]
    assert (["unknown"] if method == "tasks/cancel" else []) == [one.why for one in talk.at.server.received]


def test_notification_is_no_cancel_of_a_task(talk: Talk, stage: Stage) -> None:
    """The request that became a task is finished, and the task's id is no request's: neither stops it."""
    task = talk.start("wait")
    stage.wait_entered()
    for number in (talk.count, task["taskId"]):
        talk.at.client.cancel(number)
    assert until(lambda: len(talk.at.server.received) == 2)

    assert [(False, "finished"), (False, "unknown")] == [(one.applied, one.why) for one in talk.at.server.received]
    assert "working" == talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"]


def test_result_waits_and_can_be_cancelled(at: Served, stage: Stage) -> None:
    """``tasks/result`` waits for the task; cancelling that request leaves the task alone."""
    talk = Talk(at, stateless=False)
    task = talk.start("hold")
    at.client.send(request("r", "tasks/result", taskId=task["taskId"]))
    at.client.cancel("r")
    assert until(lambda: at.server.received)
    at.client.send(request("s", "tasks/result", taskId=task["taskId"]))
    stage.go.set()
    answer = at.client.read()

    assert ("s", "held") == (answer["id"], answer["result"]["content"][0]["text"])
    assert [True] == [one.applied for one in at.server.received]


def test_result_of_a_cancelled_task(at: Served, stage: Stage) -> None:
    """It is an error, that the task was stopped."""
    talk = Talk(at, stateless=False)
    task = talk.start("wait")
    talk.ask("tasks/cancel", taskId=task["taskId"])

    assert -32800 == talk.ask("tasks/result", taskId=task["taskId"])["error"]["code"]


def test_tasks_are_listed(at: Served, stage: Stage) -> None:
    """Those of the client, with how they stand."""
    talk = Talk(at, stateless=False)
    made = [talk.start("wait")["taskId"] for _ in range(2)]
    talk.ask("tasks/cancel", taskId=made[0])

    listed = talk.ask("tasks/list")["result"]["tasks"]
    assert [(made[0], "cancelled"), (made[1], "working")] == [(one["taskId"], one["status"]) for one in listed]


def test_task_ends_with_its_client(server: Server, stage: Stage) -> None:
    """A client that hangs up takes its tasks with it."""
    reports: list[turnctl.TurnReport] = []
    server.on_report = reports.append
    with served(server) as at:
        Talk(at, stateless=False).start("wait")
        stage.wait_entered()
        at.client.hang_up()
        assert () == at.serving.result()

    assert ["cancelled"] == [report.outcome for report in reports]


def test_who_gets_no_task(at: Served) -> None:
    """A tool that is none refuses to be asked for one; without the wish or the extension the call is plain."""
    legacy = Talk(at, stateless=False)
    refused = legacy.ask("tools/call", name="plain", arguments={}, task={})
    plain = legacy.ask("tools/call", name="plain", arguments={})
    at.client.send(request("m", "tools/call", name="plain", arguments={}, _meta=META))
    modern = at.client.read()

    assert -32601 == refused["error"]["code"]
    assert ["plain", "plain"] == [answer["result"]["content"][0]["text"] for answer in (plain, modern)]


def test_old_tasks_make_room(at: Served, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tasks that have ended a number is kept; those that work are never dropped."""
    monkeypatch.setattr("turnctl.integrations.mcp.tasks._KEPT", 2)
    talk = Talk(at, stateless=False)
    working = talk.start("wait")["taskId"]
    stage.go.set()
    ended = []
    for _ in range(4):
        ended.append(talk.start("hold")["taskId"])
        assert until(lambda: talk.ask("tasks/get", taskId=ended[-1])["result"]["status"] == "completed")
    talk.start("wait")
    listed = [one["taskId"] for one in talk.ask("tasks/list")["result"]["tasks"]]

    assert [working, *ended[-2:]] == listed[:-1]


def test_task_of_its_own_deadline(stage: Stage) -> None:
    """A task whose turn stops by itself is cancelled, and says why."""
    server = Server("tested", timeout=0.05)

    @server.tool(task=True)
    def wait() -> None:
        threading.Event()
        turnctl.sleep(60)

    with served(server) as at:
        talk = Talk(at, stateless=False)
        task = talk.start("wait")
        assert until(lambda: talk.ask("tasks/get", taskId=task["taskId"])["result"]["status"] == "cancelled")

        assert "timeout" in talk.ask("tasks/get", taskId=task["taskId"])["result"]["statusMessage"]
