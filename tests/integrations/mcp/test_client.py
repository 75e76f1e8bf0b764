"""The client of plain code against a server that is only the standard library: what it sends, and what it says."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcping import fake_server, lines_of, methods_of
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnctlError, TurnOver
from turnctl.testing import call_at, pause_at

pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from turnctl.integrations.mcp import CancelSent, Client, ConnectionLost, Refused


class Talk:
    """A client, its server, and what that has read."""

    def __init__(self, folder: Path) -> None:
        argv, self.log = fake_server(folder)
        self.client = Client.stdio(argv)

    def methods(self) -> list[str]:
        return methods_of(self.log)

    def wait_for(self, method: str, count: int = 1) -> None:
        assert until(lambda: self.methods().count(method) >= count), self.methods()

    def wait_called(self, count: int = 1) -> None:
        self.wait_for("tools/call", count)

    def cancelled(self) -> list[dict[str, Any]]:
        return [line["params"] for line in lines_of(self.log) if line.get("method") == "notifications/cancelled"]

    def called(self) -> list[Any]:
        return [line["id"] for line in lines_of(self.log) if line.get("method") == "tools/call"]

    @property
    def evidence(self) -> CancelSent:
        [found] = self.client.evidence
        return found

    @property
    def loop_thread(self) -> threading.Thread:
        thread = self.client._connection.thread
        assert thread is not None
        return thread


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fake")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    made = Talk(tmp_path)
    with made.client:
        yield made


def stopped(talk: Talk, tool: str, *, session: str = "s") -> tuple[CancelledError, turnctl.TurnReport]:
    """A call that is stopped when the server has it; what its caller got, and the report."""

    def body() -> tuple[CancelledError, turnctl.TurnReport]:
        with turnctl.turn(session) as turn:
            with pytest.raises(CancelledError) as caught:
                talk.client.call_tool(tool)
            error = caught.value
        return error, turn.report

    before = len(talk.called())
    calling = Background(body)
    talk.wait_called(before + 1)
    turnctl.stop(session, reason="user pressed Stop")
    return calling.result()


def test_result_of_a_tool(talk: Talk) -> None:
    """Inside a turn and outside of one; the report has the call."""
    outside = talk.client.call_tool("echo", {"text": "a"})
    with turnctl.turn() as turn:
        inside = talk.client.call_tool("echo", {"text": "b"})

    assert ["a", "b"] == [result.content[0].text for result in (outside, inside)]
    assert "2024-11-05" <= str(talk.client.protocol_version) <= "2025-06-18"
    activity = turn.report.activities[0]
    assert ("mcp", "tools/call echo", "completed") == (activity.kind, activity.name, activity.state)
    assert ([], ()) == (talk.cancelled(), talk.client.evidence)


def test_stop_sends_one_notification(talk: Talk) -> None:
    """The caller gets ``CancelledError`` with its reason; the server one notification with it, after the request."""
    error, report = stopped(talk, "never")
    talk.wait_for("notifications/cancelled")

    assert "user pressed Stop" == error.reason
    assert [{"requestId": talk.called()[0], "reason": "user pressed Stop"}] == talk.cancelled()
    assert talk.methods().index("tools/call") < talk.methods().index("notifications/cancelled")
    evidence = talk.evidence
    assert ("notifications/cancelled", "signal_queued", talk.client.protocol_version, "stdio", "never") == (
        evidence.dialect,
        evidence.evidence_class,
        evidence.protocol_version,
        evidence.transport,
        evidence.name,
    )
    assert evidence.sent_at is not None
    [activity] = report.activities
    assert "unknown" == activity.state
    assert "signal_queued: notifications/cancelled for request" in str(activity.detail)
    assert "is not known" in str(activity.detail)


def test_report_never_says_stopped_of_the_tool(talk: Talk) -> None:
    """What runs at the server is not claimed to be stopped, ended or killed, in no word of the report's activities."""
    _, report = stopped(talk, "never")
    said = str([activity.as_dict() for activity in report.activities])

    assert not [word for word in ("stopped", "ended'", "terminated", "killed") if word in said]


@pytest.mark.parametrize("tool", ["late", "twice"])
def test_late_response_is_evidence(talk: Talk, tool: str) -> None:
    """It is given to nobody, kept once, and told in the report; the connection goes on."""
    error, report = stopped(talk, tool)
    assert error.late is not None
    assert error.late.wait(BOUND)
    after = talk.client.call_tool("echo", {"text": "a"})

    assert "a" == after.content[0].text
    late = talk.evidence.late_response
    assert late is not None
    assert "signal_queued" == talk.evidence.evidence_class
    if tool == "late":
        assert "late" == error.late.value["content"][0]["text"]
        assert error.late.error is None
        assert talk.called()[0] == late["id"]
    else:
        assert error.late.value is None
        assert isinstance(error.late.error, Refused)
        assert -32001 == error.late.error.code
    assert "unknown" == report.activities[0].state


def test_late_response_is_in_the_report(talk: Talk) -> None:
    """The report takes in what comes after the turn was over."""
    with turnctl.turn("s") as turn:
        Background(lambda: (talk.wait_called(), turnctl.stop("s")))
        talk.client.call_tool("late")

    assert until(lambda: turn.report.activities[0].late)
    assert "its response came after the stop, with a result, and was given to nobody" == turn.report.activities[0].late


def test_stopped_turn_sends_nothing(talk: Talk) -> None:
    """The stop is looked at before the call."""
    with turnctl.turn("s") as turn:
        turnctl.stop("s")
        talk.client.call_tool("never")

    assert ([], ()) == (talk.called(), turn.report.activities)


@pytest.mark.parametrize("point", ["mcp.client.queued", "mcp.client.writing"])
def test_stop_before_and_while_it_is_written(talk: Talk, point: str) -> None:
    """Held before the write, the request is sent whole all the same, and one signal after it: never one without it."""
    with pause_at(point, thread=talk.loop_thread) as held:
        calling = Background(lambda: turnctl.run_turn(talk.client.call_tool, "never", options={"session_id": "s"}))
        assert held.reached.wait(BOUND)
        turnctl.stop("s")
        held.release()
        result = calling.result()
    talk.wait_for("notifications/cancelled")

    assert result.cancelled
    assert 1 == len(talk.called())
    assert talk.called() == [one["requestId"] for one in talk.cancelled()]
    assert "signal_queued" == talk.evidence.evidence_class


def test_stop_before_the_call_has_begun(talk: Talk) -> None:
    """The connection is busy when the call comes: stopped before its turn comes, nothing is sent."""
    client = talk.client
    entered, go = threading.Event(), threading.Event()

    async def block(_: Any) -> None:
        entered.set()
        go.wait(BOUND)

    blocking = Background(client.call, block)
    assert entered.wait(BOUND)
    calling = Background(
        lambda: turnctl.run_turn(client.call_tool, "never", options={"session_id": "s", "grace": "100ms"})
    )
    assert until(lambda: turnctl.stop("s"))
    result = calling.result()
    go.set()
    blocking.result()
    client.call_tool("echo", {"text": "a"})

    assert result.cancelled
    assert (1, []) == (len(talk.called()), talk.cancelled())


def test_response_arrives_first(talk: Talk) -> None:
    """The response is on the wire when the stop comes: it is handled first, nothing is signalled, the value is kept."""
    with pause_at("mcp.client.response", thread=talk.loop_thread) as held:
        calling = Background(
            lambda: turnctl.run_turn(talk.client.call_tool, "echo", {"text": "a"}, options={"session_id": "s"})
        )
        assert held.reached.wait(BOUND)
        turnctl.stop("s")
        held.release()
        result = calling.result()
    talk.client.call_tool("echo", {"text": "b"})

    assert result.cancelled
    assert ([], ()) == (talk.cancelled(), talk.client.evidence)
    assert "completed" == result.report.activities[0].state


def test_value_that_was_not_given_is_in_late(talk: Talk) -> None:
    """The response and the stop are both there when the caller looks: the stop wins, and the value is evidence."""
    caller: list[threading.Thread] = []

    def body() -> tuple[CancelledError, turnctl.TurnReport]:
        caller.append(threading.current_thread())
        with turnctl.turn("s") as turn:
            with pytest.raises(CancelledError) as caught:
                talk.client.call_tool("never")
            error = caught.value
        return error, turn.report

    with pause_at("waiting.woken") as held:
        calling = Background(body)
        talk.wait_called()
        connection = talk.client._connection
        [asked] = connection._asked.values()
        flight = asked.flights[0]
        wire = connection.wire
        assert wire is not None
        wire.post(lambda: wire.traffic.passes(_Response(flight.call.request_id)))
        wire.post(lambda: asked._take(_Done("value")))  # type: ignore[arg-type]
        assert held.reached.wait(BOUND)
        turnctl.stop("s")
        held.release()
        error, report = calling.result()

    assert error.late is not None
    assert (True, "value") == (error.late.is_done, error.late.value)
    assert "its response came together with the stop and was not given" == report.activities[0].late
    assert [] == talk.cancelled()


class _Response:
    """A response as the SDK has it."""

    def __init__(self, request_id: Any) -> None:
        self.id = request_id
        self.result: dict[str, Any] = {}


class _Done:
    """A task that has its value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self.value


def test_two_stops_one_signal(talk: Talk) -> None:
    """A second stop, of another level, while the signal is being sent."""
    with pause_at("mcp.client.signalling", thread=talk.loop_thread) as held:
        calling = Background(lambda: turnctl.run_turn(talk.client.call_tool, "never", options={"session_id": "s"}))
        talk.wait_called()
        turnctl.stop("s", reason="first")
        assert held.reached.wait(BOUND)
        turnctl.stop("s", reason="second", grace=0)
        held.release()
        calling.result()
    talk.wait_for("notifications/cancelled")
    talk.client.call_tool("echo", {"text": "a"})

    assert ["first"] == [one["reason"] for one in talk.cancelled()]


def test_timeout_of_the_call(talk: Talk) -> None:
    """Its own time passes: ``TimeoutError``, one signal that says so, and the turn goes on."""
    with turnctl.turn() as turn:
        with pytest.raises(TimeoutError, match="tool never had no response in 300ms"):
            talk.client.call_tool("never", timeout="300ms")
        assert "a" == talk.client.call_tool("echo", {"text": "a"}).content[0].text

    assert ["it took more than 300ms"] == [one["reason"] for one in talk.cancelled()]
    assert "completed" == turn.outcome
    assert "signal_queued" == talk.evidence.evidence_class


def test_child_token_is_obeyed(talk: Talk) -> None:
    """The stop of a token below the turn's ends the call made under it, and the turn goes on."""
    with turnctl.turn() as turn:
        with turn.child() as child:
            stopping = Background(lambda: (talk.wait_called(), child.cancel("enough")))
            talk.client.call_tool("never")
        stopping.result()
        talk.client.call_tool("echo", {"text": "a"})

    assert ("completed", True) == (turn.outcome, child.cancelled)
    assert ["enough"] == [one["reason"] for one in talk.cancelled()]


def test_shield_holds_the_signal_back(talk: Talk) -> None:
    """Under a shield the call goes on after the stop; its response is given, and nothing is signalled."""
    with turnctl.turn("s") as turn:
        with pytest.raises(CancelledError), turn.shield("5s"):
            turnctl.stop("s")
            value = talk.client.call_tool("echo", {"text": "a"})
        turn.token  # noqa: B018

    assert "a" == value.content[0].text
    assert [] == talk.cancelled()


def test_shield_that_ends_lets_the_stop_through(talk: Talk) -> None:
    """When the shield's time is over the call is stopped and signalled."""
    with turnctl.turn("s"):
        with pytest.raises(CancelledError), turnctl.shield("300ms"):
            turnctl.stop("s")
            talk.client.call_tool("never")
    talk.wait_for("notifications/cancelled")

    assert 1 == len(talk.cancelled())


def test_turn_that_ends_on_another_thread(talk: Talk) -> None:
    """The caller is told that its turn is over; the server is signalled."""
    turn = turnctl.Turn("s")
    turn.begin()

    def call() -> None:
        with turnctl.session("s"):
            talk.client.call_tool("never")

    calling = Background(call)
    talk.wait_called()
    turn.end()
    error = calling.error()

    talk.wait_for("notifications/cancelled")

    assert isinstance(error, TurnOver)
    assert ["its turn has ended"] == [one["reason"] for one in talk.cancelled()]
    assert "unknown" == turn.report.activities[0].state


def test_ctrl_c_leaves_the_call(talk: Talk) -> None:
    """An exception that strikes the waiting caller passes out, and the server is signalled."""
    thread = threading.current_thread()

    def press() -> None:
        talk.wait_called()
        signal.pthread_kill(thread.ident or 0, signal.SIGINT)

    pressing = Background(press)
    with pytest.raises(KeyboardInterrupt):
        talk.client.call_tool("never")
    pressing.result()
    talk.wait_for("notifications/cancelled")

    assert ["its caller has left"] == [one["reason"] for one in talk.cancelled()]


def test_ctrl_c_as_the_call_begins(talk: Talk) -> None:
    """It strikes when the request is out and the caller does not wait yet: the server is signalled all the same."""

    def strike() -> None:
        talk.wait_called()
        raise KeyboardInterrupt

    with call_at("waiting.asked", strike, thread=threading.current_thread()), pytest.raises(KeyboardInterrupt):
        talk.client.call_tool("never")
    talk.wait_for("notifications/cancelled")

    assert ["its caller has left"] == [one["reason"] for one in talk.cancelled()]
    assert {} == talk.client._connection._asked


def test_two_calls_one_is_stopped(talk: Talk) -> None:
    """Of two turns on one connection the stop of one signals its request alone (P2)."""
    calls = {
        name: Background(
            lambda name=name: turnctl.run_turn(talk.client.call_tool, "never", options={"session_id": name})
        )
        for name in ("a", "b")
    }
    talk.wait_called(2)
    turnctl.stop("a", reason="a")
    calls["a"].result()
    talk.wait_for("notifications/cancelled")
    running = calls["b"].is_running
    turnctl.stop("b", reason="b")
    calls["b"].result()
    talk.wait_for("notifications/cancelled", 2)

    assert running
    assert ["a", "b"] == [one["reason"] for one in talk.cancelled()]
    assert 2 == len({one["requestId"] for one in talk.cancelled()})


def test_server_that_is_killed(talk: Talk) -> None:
    """SIGKILL in the middle of a call: a clear error and no hang; the next call fails the same way."""
    with turnctl.turn() as turn:
        with pytest.raises(ConnectionLost, match="the server closed the connection, or is gone"):
            talk.client.call_tool("die")
        with pytest.raises(ConnectionLost, match="open a new one"):
            talk.client.call_tool("echo", {"text": "a"})

    [activity, *_] = turn.report.activities
    assert ("unknown", ()) == (activity.state, talk.client.evidence)
    assert "before its response; what the server did is not known" in str(activity.detail)


def test_server_that_does_not_read(talk: Talk) -> None:
    """A transport that takes nothing any more delays the stop by the grace at most, and nothing is claimed."""
    pid = int(Path(f"{talk.log}.pid").read_text())
    text = "x" * (1 << 20)
    with turnctl.turn("s", grace="100ms") as turn:
        filling = Background(
            lambda: turnctl.run_turn(talk.client.call_tool, "deaf", {"text": text}, options={"session_id": "first"})
        )
        talk.wait_called()
        full = Background(
            lambda: turnctl.run_turn(
                talk.client.call_tool, "echo", {"text": text}, options={"session_id": "t", "grace": "100ms"}
            )
        )
        assert until(lambda: len(talk.client._connection._asked) == 2)
        assert until(lambda: all(asked.flights for asked in talk.client._connection._asked.values()))
        turnctl.stop("t")
        result = full.result()
    told = result.report.activities[0]
    os.kill(pid, signal.SIGCONT)
    turnctl.stop("first")
    filling.result()

    assert turn.outcome == "completed"
    assert "unknown" == told.state
    assert "signal_queued" not in str(told.detail)


def test_error_of_the_server(talk: Talk) -> None:
    """It is the SDK's exception, as it is; the report says that the call failed."""
    with turnctl.turn() as turn, pytest.raises(Exception, match="not today") as caught:
        talk.client.call_tool("error")

    assert "mcp" == type(caught.value).__module__.partition(".")[0]
    assert ("failed", "error -32001: not today") == (
        turn.report.activities[0].state,
        turn.report.activities[0].detail,
    )


def test_raw_request(talk: Talk) -> None:
    """A request that the SDK knows nothing of; its error is ``Refused``."""
    result = talk.client.request("tools/call", {"name": "echo", "arguments": {"text": "a"}})

    assert "a" == result["content"][0]["text"]
    with pytest.raises(Refused, match="not today") as caught:
        talk.client.request("tools/call", {"name": "error"})
    assert -32001 == caught.value.code


def test_raw_request_on_a_connection_that_is_lost(talk: Talk) -> None:
    """It ends with the connection as any other call does."""
    with pytest.raises(ConnectionLost):
        talk.client.request("tools/call", {"name": "die"})


def test_closing_ends_calls(tmp_path: Path) -> None:
    """A connection that is closed under a call's hands: ``ConnectionLost``, and the signal went out first."""
    talk = Talk(tmp_path)
    talk.client.open()
    calling = Background(talk.client.call_tool, "never")
    talk.wait_called()
    talk.client.close()

    assert isinstance(calling.error(), ConnectionLost)
    assert ("signal_queued", "the connection is closed") == (talk.evidence.evidence_class, talk.evidence.reason)
    assert talk.client.close()


def test_connection_of_a_turn_ends_with_it(tmp_path: Path) -> None:
    """Opened in a turn it is that turn's: closed at its end, its server gone, nothing left."""
    talk = Talk(tmp_path)
    with turnctl.turn("s") as turn:
        talk.client.open()
        Background(lambda: (talk.wait_called(), turnctl.stop("s", reason="enough")))
        talk.client.call_tool("never")

    assert [("mcp connection", "completed")] == [(a.kind, a.state) for a in turn.report.activities[:1]]
    assert ["enough"] == [one["reason"] for one in talk.cancelled()]
    assert "ended" == turn.report.execution
    with pytest.raises(ConnectionLost):
        talk.client.call_tool("echo", {"text": "a"})


def test_stop_while_it_opens(tmp_path: Path) -> None:
    """A server that does not answer: the stop ends the wait, the connection is closed, nothing is signalled."""
    argv, log = fake_server(tmp_path)
    client = Client.stdio([*argv, "silent"])

    def body() -> turnctl.TurnReport:
        with turnctl.turn("s") as turn:
            client.open()
        return turn.report

    opening = Background(body)
    assert until(lambda: "initialize" in methods_of(log))
    turnctl.stop("s", reason="enough")
    report = opening.result()

    assert "cancelled" == report.outcome
    assert ["initialize"] == methods_of(log)
    [evidence] = client.evidence
    assert ("none", "initialize cannot be cancelled", None) == (
        evidence.evidence_class,
        evidence.not_sent,
        evidence.dialect,
    )


def test_server_that_does_not_answer_in_time(tmp_path: Path) -> None:
    """Opening has a time of its own."""
    argv, _ = fake_server(tmp_path)
    client = Client.stdio([*argv, "silent"])

    with pytest.raises(TimeoutError):
        client.open("50ms")


def test_server_that_cannot_be_started() -> None:
    """What the SDK has to say is raised as it is; one that ends at once is told to have."""
    with pytest.raises(FileNotFoundError):
        Client.stdio(["/no/such/program"]).open()
    with pytest.raises(ConnectionLost, match="closed the connection before it was open"):
        Client.stdio([sys.executable, "-I", "-S", "-c", "0"]).open()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Client.stdio([]),
        lambda: Client.stdio("python server.py"),
        lambda: Client.stdio(["x"], protocol="newest"),
        lambda: Client.http("localhost:80"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], object]) -> None:
    """Nothing is started for what cannot work."""
    with pytest.raises(BadArgument):
        make()


def test_misuse_is_told(talk: Talk) -> None:
    """Not open yet, opened twice, on a thread with a loop, and a function that makes no coroutine."""
    import asyncio

    async def inside() -> None:
        talk.client.call_tool("echo", {"text": "a"})

    with pytest.raises(TurnctlError, match="not open"):
        Client.stdio(["x"]).call_tool("a")
    with pytest.raises(BadArgument, match="once"):
        talk.client.open()
    with pytest.raises(BadArgument, match="event loop"):
        asyncio.run(inside())
    with pytest.raises(TypeError):
        talk.client.call(lambda _: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(BadArgument, match="takes the session"):
        talk.client.call(None)  # type: ignore[arg-type]


def test_what_a_client_says_of_itself(tmp_path: Path) -> None:
    """Its server, and how it stands."""
    talk = Talk(tmp_path)
    before = repr(talk.client)
    with talk.client:
        inside = repr(talk.client)

    assert ["not open", "open", "closed"] == [
        one.rpartition(": ")[2].rstrip(">") for one in (before, inside, repr(talk.client))
    ]
    assert "fake_server.py" in before
