"""What a user of ``turnctl.agent`` writes, with hints on all of it. Read by mypy strictly, never run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

import turnctl
from turnctl.agent import (
    Acts,
    AgentLoop,
    Approval,
    Breaker,
    Call,
    CallDelta,
    Decision,
    Desk,
    Event,
    Message,
    Reply,
    Result,
    Retry,
    RunCheckpoint,
    RunRecord,
    RunResult,
    TextDelta,
    Tool,
    Usage,
    tool,
)


@dataclass
class Hit:
    path: str
    line: int


def grep(
    pattern: Annotated[str, "a regular expression"], where: Literal["src", "docs"] = "src", *, most: int = 10
) -> list[Hit]:
    """Look for a pattern."""
    return [Hit("a.py", 1)][:most]


@tool
def today() -> str:
    """The day."""
    return "2026-01-01"


@tool(
    effect=Acts("mail.send", key=lambda arguments: str(arguments["to"])),
    approval=lambda arguments: arguments["to"] != "me",
)
def send(to: str, text: str) -> str:
    """Send a mail."""
    return "250 ok"


class Shop:
    def __init__(self, path: Path) -> None:
        self.path = path

    def price(self, item: str, turn: turnctl.Turn) -> float:
        """What it costs."""
        turn.check()
        return 1.0


class Model(Protocol):
    def complete(self, messages: list[Message], tools: list[Tool]) -> Reply: ...


class Claude:
    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, messages: list[Message], tools: list[Tool]) -> Reply:
        names = [one.name for one in tools]
        calls = [Call("1", names[0], {"pattern": "x"})] if len(messages) < 2 else []
        return Reply(Message.assistant("so", calls), usage=Usage(1, 2))

    def stream(self, messages: list[Message], tools: list[Tool]) -> Iterator[TextDelta | CallDelta | Reply]:
        yield TextDelta("so")
        yield self.complete(messages, tools)

    def abort(self) -> None:
        pass


class Memory(Protocol):
    def recall(self, messages: Sequence[Message]) -> Iterable[Message]: ...
    def store(self, call: Call, result: Result) -> None: ...


class Sqlite:
    def __init__(self, path: str) -> None:
        self.path = path

    def recall(self, messages: Sequence[Message]) -> list[Message]:
        with sqlite3.connect(self.path) as db:
            rows = db.execute("select text from notes").fetchall()
        return [Message.user(str(text)) for (text,) in rows]

    def store(self, call: Call, result: Result) -> None:
        pass


class Hooks:
    def before_tool(self, call: Call) -> Result | dict[str, object] | None:
        if call.name == "rm":
            return Result(call.id, "not here", "denied")
        return {**call.arguments, "where": "src"} if call.name == "grep" else None

    def after_tool(self, call: Call, result: Result) -> Result | None:
        return Result(result.call_id, result.text[:100], result.status) if len(result.text) > 100 else None

    def on_run_end(self, record: RunRecord) -> None:
        print(record.stop_reason, record.usage.total_tokens)


def watch(event: Event) -> None:
    match event.kind:
        case "delta":
            if isinstance(event.delta, TextDelta):
                print(event.delta.text, end="")
        case "tool_ended":
            assert event.result is not None
            print(event.result.status)
        case _:
            pass


def shorten(messages: tuple[Message, ...]) -> list[Message] | None:
    return list(messages[-4:]) if len(messages) > 100 else None


def ask(approval: Approval) -> Decision:
    return Decision(approval.tool == "send", reason="no", by="policy")


def on_question(question: turnctl.Question) -> None:
    prompt = question.prompt
    assert isinstance(prompt, Approval)
    print(prompt.arguments)


def keep(checkpoint: RunCheckpoint) -> None:
    Path("c.json").write_text(json.dumps(checkpoint.as_dict()))


def made(model: Model, memory: Memory, desk: Desk | None = None) -> AgentLoop:
    shop = Shop(Path("."))
    return AgentLoop(
        model,
        [grep, today, send, Tool(shop.price, timeout="5s"), Tool(grep, name="look", parallel=False)],
        history=[("system", "be brief")],
        compactor=shorten,
        ask=desk or ask,
        ask_timeout=30,
        retry=Retry(attempts=5, when=lambda error: isinstance(error, OSError)),
        breaker=Breaker(),
        memory=memory,
        hooks=[Hooks()],
        observers=[watch],
        checkpoint=keep,
        ledger=turnctl.open_ledger("memory:"),
        parallel=4,
        max_cost=1.5,
    )


def main() -> int:
    desk = Desk(on_question)
    loop = made(Claude("c"), Sqlite(":memory:"), desk)
    by_name = AgentLoop(lambda messages, tools: "hello", {"grep": grep, "day": today})
    by_name.run(["one", Message.user("two")])
    result: RunResult = loop.run("go", timeout="5m")
    with loop.stream("again") as events:
        for event in events:
            watch(event)
    if events.result is not None and events.result.cancelled and events.result.checkpoint is not None:
        loop.resume(events.result.checkpoint)
    for question in desk.pending:
        if not desk.answer(question.id, True):
            print("too late")
    answer = loop.cancel("enough", by="ann")
    if not answer:
        print(answer.kind)
    loop.cancel_signal.wait(0.1)
    return 0 if result.stop_reason == "completed" else 1
