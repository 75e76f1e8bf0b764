"""Requests against their cancels: each row of the server's table in docs/guarantees.md, forced at race points."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import Call
from turnctl.integrations.mcp.pool import Pool
from turnctl.integrations.mcp.serving import Entry, Peer, Request, current_request
from turnctl.records.mcp import CancelReceived
from turnctl.records.report import TurnReport
from turnctl.testing import pause_at


class Desk:
    """A peer, and all that comes of its requests."""

    def __init__(self, *, threads: int = 4, **options: Any) -> None:
        self.pool = Pool("desk", threads)
        self.noted: list[CancelReceived] = []
        self.reports: list[TurnReport] = []
        self.failures: list[BaseException] = []
        self.answers: list[dict[str, Any]] = []
        self.over: list[Any] = []
        self.peer = Peer(
            self.pool,
            "stdio",
            note=self.noted.append,
            failed=lambda _, error: self.failures.append(error),
            on_over=lambda report: self.reports.append(report()),
            **options,
        )

    def ask(self, request_id: Any, work: Callable[[Request], Any], method: str = "tools/call") -> bool:
        """Have ``work`` done for a request of that id."""
        call = Call(request_id, method, {"name": "tool"})
        return self.peer.admit(call, work, self.answers.append, lambda: self.over.append(request_id), "2025-06-18")

    def cancel(self, request_id: Any, reason: Any = "enough") -> CancelReceived:
        return self.peer.cancel(request_id, reason, "notifications/cancelled")

    def wait_over(self, count: int = 1) -> None:
        assert until(lambda: len(self.over) >= count)

    def told(self) -> list[tuple[bool, str | None]]:
        return [(one.applied, one.why) for one in self.noted]


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.peer.close("the test is over")
    assert () == made.pool.close(BOUND)
    assert [] == made.failures


def result(_: Request) -> dict[str, Any]:
    return {"content": []}


class Sleeper:
    """Work that sleeps at a checkpoint until it is stopped."""

    def __init__(self) -> None:
        self.began = threading.Event()

    def __call__(self, _: Request) -> dict[str, Any]:
        self.began.set()
        turnctl.sleep(60)
        return {"content": []}


def test_request_is_answered_once(desk: Desk) -> None:
    """What the work returns is the answer; afterwards its turn is over and its report says what it was."""
    desk.ask(1, result)
    desk.wait_over()

    assert [{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}] == desk.answers
    assert "completed" == desk.reports[0].outcome
    assert ["tools/call tool, request 1"] == [a.name for a in desk.reports[0].activities]


def test_cancel_stops_the_tool(desk: Desk) -> None:
    """The turn of the request is cancelled with the client's reason; nothing is answered."""
    work = Sleeper()
    desk.ask(1, work)
    assert work.began.wait(BOUND)
    received = desk.cancel(1, "user pressed Stop")
    desk.wait_over()

    assert [] == desk.answers
    assert (True, "notifications/cancelled", "user pressed Stop") == (
        received.applied,
        received.dialect,
        received.reason,
    )
    [report] = desk.reports
    assert report.stop is not None
    assert ("cancelled", "user", "user pressed Stop", "the client") == (
        report.outcome,
        report.stop.cause,
        report.stop.reason,
        report.stop.by,
    )
    assert received.turn_id == report.turn_id


@pytest.mark.parametrize("point", ["mcp.server.begin", "mcp.server.begun"])
def test_cancel_before_the_tool_begins(desk: Desk, point: str) -> None:
    """A cancel that comes before the thread has begun, or before the tool has, never lets the tool run."""
    ran: list[int] = []
    with pause_at(point) as held:
        desk.ask(1, lambda _: ran.append(1))
        assert held.reached.wait(BOUND)
        received = desk.cancel(1)
    desk.wait_over()

    assert received.applied
    assert ([], []) == (ran, desk.answers)
    assert ["cancelled"] == [report.outcome for report in desk.reports]


def test_cancel_between_noting_and_stopping(desk: Desk) -> None:
    """The cancel is noted and held; the thread that begins meanwhile carries it out."""
    ran: list[int] = []
    with pause_at("mcp.server.begin") as beginning, pause_at("mcp.server.cancelling") as cancelling:
        desk.ask(1, lambda _: ran.append(1))
        assert beginning.reached.wait(BOUND)
        canceller = Background(desk.cancel, 1)
        assert cancelling.reached.wait(BOUND)
        beginning.release()
        desk.wait_over()
        cancelling.release()
        received = canceller.result()

    assert received.applied
    assert ([], []) == (ran, desk.answers)


@pytest.mark.parametrize("point", ["mcp.server.deciding", "mcp.server.answering"])
def test_completed_then_cancel(desk: Desk, point: str) -> None:
    """A turn that has completed is answered, whatever cancel comes before the answer is written."""
    with pause_at(point) as held:
        desk.ask(1, result)
        assert held.reached.wait(BOUND)
        received = desk.cancel(1)
    desk.wait_over()

    assert (False, "finished") == (received.applied, received.why)
    assert [1] == [answer["id"] for answer in desk.answers]
    assert ["completed"] == [report.outcome for report in desk.reports]
    late = "it had come to its end" if point == "mcp.server.deciding" else "it was over"
    assert f"a cancel came when {late}" == desk.reports[0].activities[0].late


def test_cancel_held_while_the_tool_completes(desk: Desk) -> None:
    """The cancel is noted first but carried out after the turn has completed: the turn decides, and it is answered."""
    go = threading.Event()
    with pause_at("mcp.server.cancelling") as cancelling:
        desk.ask(1, lambda _: go.wait(BOUND) and None)
        assert until(lambda: desk.peer.in_work and desk.peer.in_work[0].has_begun)
        canceller = Background(desk.cancel, 1)
        assert cancelling.reached.wait(BOUND)
        go.set()
        desk.wait_over()
        cancelling.release()
        received = canceller.result()

    assert (False, "finished") == (received.applied, received.why)
    assert [{"jsonrpc": "2.0", "id": 1, "result": {}}] == desk.answers


@pytest.mark.parametrize("ending", ["returns", "raises"])
def test_tool_that_ignores_the_cancel(desk: Desk, ending: str) -> None:
    """What comes after the stop is dropped: the boundary asks the token, not the tool (P6)."""
    began, go = threading.Event(), threading.Event()

    def work(_: Request) -> dict[str, Any]:
        began.set()
        assert go.wait(BOUND)
        if ending == "raises":
            raise OSError("broken")
        return {"content": []}

    desk.ask(1, work)
    assert began.wait(BOUND)
    desk.cancel(1)
    go.set()
    desk.wait_over()

    assert [] == desk.answers
    assert "cancelled" == desk.reports[0].outcome


def test_two_cancels(desk: Desk) -> None:
    """The first one counts, with its reason; the second is ignored."""
    work = Sleeper()
    desk.ask(1, work)
    assert work.began.wait(BOUND)
    with pause_at("mcp.server.deciding") as held:
        desk.cancel(1, "first")
        assert held.reached.wait(BOUND)
        desk.cancel(1, "second")
    desk.wait_over()

    assert [(True, None), (False, "already cancelled")] == desk.told()
    assert desk.reports[0].stop is not None
    assert "first" == desk.reports[0].stop.reason
    assert [] == desk.answers


def test_cancel_when_it_is_over(desk: Desk) -> None:
    """A cancel of a request that is over changes nothing, and is told from one that was never there."""
    desk.ask(1, result)
    desk.wait_over()
    desk.cancel(1)
    desk.cancel(2)

    assert [(False, "finished"), (False, "unknown")] == desk.told()
    assert [1] == [answer["id"] for answer in desk.answers]


def test_cancel_stops_that_request_and_no_other(desk: Desk) -> None:
    """Of requests in work at one time, ``"7"`` and ``7`` among them, exactly the one that was named is stopped (P2)."""
    work = [Sleeper() for _ in range(3)]
    for request_id, one in zip([7, "7", 8], work, strict=True):
        desk.ask(request_id, one)
        assert one.began.wait(BOUND)
    desk.cancel("7")
    desk.wait_over()

    assert ["7"] == desk.over
    assert [7, 8] == [entry.request.id for entry in desk.peer.in_work]
    assert not any(entry.turn.cancelled for entry in desk.peer.in_work)


def test_id_of_the_other_type_is_unknown(desk: Desk) -> None:
    """A cancel of ``"7"`` leaves request ``7`` alone, and the evidence says that it is there."""
    work = Sleeper()
    desk.ask(7, work)
    assert work.began.wait(BOUND)
    received = desk.cancel("7")

    assert (False, "unknown: '7' is not 7, which is in work") == (received.applied, received.why)
    assert not desk.peer.in_work[0].turn.cancelled


@pytest.mark.parametrize("request_id", [None, True, 1.5, [], {"id": 1}])
def test_malformed_cancel(desk: Desk, request_id: Any) -> None:
    """A cancel that names no request is ignored, and kept as it was."""
    received = desk.cancel(request_id)

    assert (False, "malformed: it names no request", request_id) == (
        received.applied,
        received.why,
        received.request_id,
    )


def test_reason_that_is_no_text(desk: Desk) -> None:
    """A reason of another kind is dropped; the cancel counts."""
    work = Sleeper()
    desk.ask(1, work)
    assert work.began.wait(BOUND)

    assert (True, None) == (desk.cancel(1, {"why": 3}).applied, desk.noted[0].reason)


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
def test_what_opens_is_not_cancelled(desk: Desk, method: str) -> None:
    """A cancel of what opens the connection is ignored, while it is in work and when it was answered on the spot."""
    go = threading.Event()
    desk.ask(1, lambda _: go.wait(BOUND) and None, method)
    desk.cancel(1)
    go.set()
    desk.wait_over()
    desk.peer.remember_opening(2)
    desk.cancel(2)

    assert [
        (False, f"{method} cannot be cancelled"),
        (False, "it opened the connection, which cannot be cancelled"),
    ] == desk.told()
    assert [1] == [answer["id"] for answer in desk.answers]


def test_stop_by_something_else_is_answered() -> None:
    """A request whose own deadline stops it is answered with an error that says so, since nobody has cancelled it."""
    desk = Desk(timeout=0.05)
    desk.ask(1, Sleeper())
    desk.wait_over()
    desk.pool.close(BOUND)
    [answer] = desk.answers

    assert (1, -32800, {"cause": "deadline"}) == (answer["id"], answer["error"]["code"], answer["error"]["data"])


@pytest.mark.parametrize("is_first", [True, False])
def test_deadline_then_cancel(is_first: bool) -> None:
    """A cancel that comes before the error is decided silences it; one that comes after is too late."""
    desk = Desk(timeout=0.05)
    with pause_at("mcp.server.deciding" if is_first else "mcp.server.answering") as held:
        desk.ask(1, Sleeper())
        assert held.reached.wait(BOUND)
        received = desk.cancel(1)
    desk.wait_over()
    desk.pool.close(BOUND)

    assert is_first is received.applied
    assert (0 if is_first else 1) == len(desk.answers)


def test_same_id_while_it_is_in_work(desk: Desk) -> None:
    """The second is not served, and told so without its id, which would answer the first."""
    work = Sleeper()
    desk.ask(1, work)
    assert work.began.wait(BOUND)

    assert not desk.ask(1, result)
    [answer] = desk.answers
    assert (None, -32600) == (answer["id"], answer["error"]["code"])
    assert [1] == [entry.request.id for entry in desk.peer.in_work]
    assert desk.cancel(1).applied


def test_id_may_come_again_when_it_is_over(desk: Desk) -> None:
    """A client that counts from the beginning again is served."""
    for count in (1, 2):
        desk.ask(1, result)
        desk.wait_over(count)

    assert [1, 1] == [answer["id"] for answer in desk.answers]


def test_id_may_come_again_as_soon_as_it_is_answered(desk: Desk) -> None:
    """Who has the answer may use the id again: the first is not in work any more when it is written."""
    with pause_at("mcp.server.answering") as held:
        desk.ask(1, result)
        assert held.reached.wait(BOUND)
        again = desk.ask(1, result)
    desk.wait_over(2)

    assert again
    assert [1, 1] == [answer["id"] for answer in desk.answers]


def test_end_of_the_client_stops_all(desk: Desk) -> None:
    """All in work is stopped with the reason, what waits for a thread never begins, and nothing is answered."""
    lone = Desk(threads=1)
    work = Sleeper()
    ran: list[int] = []
    lone.ask(1, work)
    assert work.began.wait(BOUND)
    lone.ask(2, lambda _: ran.append(1))
    lone.peer.close("the client is gone")
    lone.wait_over(2)
    lone.pool.close(BOUND)

    assert ([], []) == (lone.answers, ran)
    assert ["cancelled"] == [report.outcome for report in lone.reports]
    assert lone.reports[0].stop is not None
    assert ("closed", "the client is gone") == (lone.reports[0].stop.cause, lone.reports[0].stop.reason)
    assert not lone.ask(3, result)


def test_completed_as_the_client_goes(desk: Desk) -> None:
    """A request that has completed when its client goes is not answered, and stays completed."""
    with pause_at("mcp.server.deciding") as held:
        desk.ask(1, result)
        assert held.reached.wait(BOUND)
        desk.peer.close("the client is gone")
    desk.wait_over()

    assert [] == desk.answers
    assert ["completed"] == [report.outcome for report in desk.reports]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (-32602, Refused("no such file", code=-32602)),
        (-32603, SystemExit(3)),
        (-32603, turnctl.TurnOver("late")),
        (-32800, KeyboardInterrupt()),
    ],
)
def test_failures_are_told(desk: Desk, code: int, error: BaseException) -> None:
    """An error of the protocol, and whatever else must not end the thread, is answered with one error."""

    def work(_: Request) -> dict[str, Any]:
        raise error

    desk.ask(1, work)
    desk.wait_over()

    assert [code] == [answer["error"]["code"] for answer in desk.answers]


def test_failure_of_a_tool_is_a_result(desk: Desk) -> None:
    """The model is to read it; the turn has failed."""

    def work(_: Request) -> dict[str, Any]:
        raise ValueError("no such file")

    desk.ask(1, work)
    desk.wait_over()
    [answer] = desk.answers

    assert answer["result"]["isError"] is True
    assert "ValueError: no such file" == answer["result"]["content"][0]["text"]
    assert "failed" == desk.reports[0].outcome


def test_tool_knows_its_request(desk: Desk) -> None:
    """The request is found by ``current_request`` in the tool, and nowhere else; nothing is left on the thread."""
    seen: list[Any] = []
    desk.ask(1, lambda _: seen.append(current_request()))
    desk.wait_over()

    assert [Request(1, "tools/call", {"name": "tool"}, "stdio", "2025-06-18")] == seen
    assert current_request() is None


def test_shut_down_process_serves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the program begins no more turns, a request is told so, and its tool never runs."""
    ran: list[int] = []

    def refuse() -> None:
        raise turnctl.ShuttingDown("no more turns")

    monkeypatch.setattr("turnctl.tokens.registry.refuse_if_shutting_down", refuse)
    desk.ask(1, lambda _: ran.append(1))
    desk.wait_over()

    assert ([], [1]) == (ran, [answer["id"] for answer in desk.answers])
    assert "no more turns" in desk.answers[0]["error"]["message"]


def test_answer_that_fails_is_told_once() -> None:
    """An answer that cannot be written is somebody else's news; the request is over all the same."""
    desk = Desk()

    def answer(_: dict[str, Any]) -> None:
        raise BrokenPipeError

    desk.peer.admit(Call(1, "m", {}), result, answer, lambda: desk.over.append(1), None)
    desk.wait_over()
    desk.pool.close(BOUND)

    assert [BrokenPipeError] == [type(error) for error in desk.failures]
    assert [] == desk.peer.in_work


def test_no_thread_for_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started the request is told so, and never served later by another one."""
    desk = Desk(threads=1)
    ran: list[int] = []

    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        assert not desk.ask(1, lambda _: ran.append(1))
    desk.ask(2, result)
    desk.wait_over(2)
    desk.pool.close(BOUND)

    assert ([1, 2], []) == (desk.over, ran)
    assert [(1, True), (2, False)] == [(answer["id"], "error" in answer) for answer in desk.answers]


def test_entry_says_what_it_is(desk: Desk) -> None:
    """What did not come back is named by its request."""
    entry = Entry(desk.peer, ("number", 1), Request(1, "x", {}, "stdio", None), result, print, print)

    assert "request 1 (x)" == entry.name
