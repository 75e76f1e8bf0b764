"""The public names of ``turnctl.agent`` as a host uses them, for a type checker. Read by mypy strictly, never run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

import turnctl
from turnctl.agent import (
    Acts,
    AgentLoop,
    AnthropicMessages,
    Approval,
    Assembly,
    BadCall,
    BadHistory,
    Breaker,
    Call,
    CallDelta,
    CallRecord,
    CancelSignal,
    CircuitOpen,
    Decision,
    Desk,
    Event,
    GateRecord,
    History,
    Image,
    Mark,
    Message,
    Opaque,
    OpenAIChat,
    PendingCall,
    Reply,
    Result,
    Retry,
    RunCheckpoint,
    RunRecord,
    RunResult,
    RunStream,
    StepRecord,
    Text,
    TextDelta,
    ThinkingDelta,
    Tool,
    Usage,
    WindowExceeded,
    close_calls,
    from_anthropic,
    from_openai,
    history_problems,
    is_window,
    kind_of,
    to_anthropic,
    to_openai,
    tool,
    validate_history,
)


@tool
def search(text: str) -> list[str]:
    return [text]


@tool(effect=Acts("mail.send", key=lambda arguments: str(arguments["to"])), parallel=False, timeout="5s")
def send(to: str, effect: turnctl.TurnEffect) -> str:
    effect.complete("250 ok")
    return to


def runs(client: Any, seen: list[Event]) -> str:
    assert_type(search, Tool)
    loop = AgentLoop(
        OpenAIChat(client, "m", temperature=0),
        [search, send, len],
        history=["hello"],
        ask=lambda question: Decision(True, "she said so", by="ann"),
        retry=Retry(attempts=3, wait="500ms"),
        breaker=Breaker(limit=5, rest="30s"),
        observers=seen.append,
    )
    assert_type(loop.cancel_signal, CancelSignal)
    assert_type(loop.history, History)
    assert_type(loop.runs, tuple[RunRecord, ...])
    result = loop.run("go")
    assert_type(result, RunResult)
    if result.reply_stop == "length":
        loop.run("go on")
    with loop.stream(Message.user(["see", Image(url="http://x/1")])) as events:
        assert_type(events, RunStream)
        for event in events:
            assert_type(event, Event)
    return result.unwrap()


def records(record: RunRecord, desk: Desk, approval: Approval) -> str:
    assert_type(record.steps, tuple[StepRecord, ...])
    assert_type(record.steps[0].calls, tuple[CallRecord, ...])
    assert_type(record.gates, tuple[GateRecord, ...])
    return f"{desk!r} {approval}"


def resumes(result: RunResult, client: Any, kept: list[RunCheckpoint]) -> RunResult:
    loop = AgentLoop(OpenAIChat(client, "m"), checkpoint=kept.append)
    assert_type(result.checkpoint, RunCheckpoint | None)
    checkpoint = RunCheckpoint.from_dict(kept[-1].as_dict())
    assert_type(checkpoint.pending, tuple[PendingCall, ...])
    assert_type(result.record.resumes, str | None)
    loop.resume(checkpoint.as_dict(), timeout="5s")
    with loop.resume_stream(checkpoint.as_dict(), timeout="5s") as events:
        assert_type(events, RunStream)
        assert_type(events.result, RunResult | None)
    return loop.resume(checkpoint)


def histories(mine: Sequence[dict[str, Any]]) -> list[str]:
    closed = close_calls(mine, shape="openai", statuses={"a": "not_started"}, open_as="unknown")
    assert_type(closed, list[Any])
    validate_history(closed, alternate=True)
    assert_type(from_openai(closed), list[Message])
    assert_type(from_anthropic(closed, system="be brief"), list[Message])
    assert_type(to_openai([Message.system("s")]), list[dict[str, Any]])
    assert_type(to_anthropic([Message.user("u")]), tuple[str, list[dict[str, Any]]])
    history = History([("system", "be brief"), "go"])
    history.salvage(mark=Mark("closing", "user", by="ann"), results=[Result("a", "x")])
    assert_type(history.feed, tuple[Message, ...])
    assert_type(history.transcript[0].calls, tuple[Call, ...])
    return history_problems(closed)


def model(messages: list[Message], tools: list[Any]) -> Reply:
    thought = Opaque("anthropic", {"type": "thinking"})
    said = Message.assistant([thought, Text("so"), Call("a", "search", {"text": "x"})])
    return Reply(said, "calls", Usage(5, 2, cost=0.1))


def streams(claude: AnthropicMessages) -> Message | None:
    assembly = Assembly()
    for item in claude.stream([Message.user("go")], [search]):
        assert_type(item, TextDelta | ThinkingDelta | CallDelta | Reply)
        assembly.add(item)
    assert_type(assembly.reply(), Reply)
    return assembly.partial()


def errors(error: Exception) -> str:
    if isinstance(error, (BadHistory, BadCall)):
        assert_type(error.problems, tuple[str, ...])
    return f"{kind_of(error)} {is_window(error)} {isinstance(error, (CircuitOpen, WindowExceeded))}"
