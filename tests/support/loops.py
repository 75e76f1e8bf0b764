"""Models and tools that are played, and threads that stand where a test wants them: none of them knows of turnctl."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from turnctl.agent import AgentLoop, Call, Message, Result, RunResult, to_anthropic, to_openai, validate_history
from turnctl.agent.history import closed

__all__ = ["Gate", "Played", "Stopped", "Writing", "calls", "feed_is_strict", "is_strict", "statuses", "stop_inside"]


class Gate:
    """A place where whoever comes is held: ``reached`` when somebody stands there, until ``open()``."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.count = 0
        self._opened = threading.Event()

    def pass_through(self, *_: Any, **__: Any) -> str:
        self.count += 1
        self.reached.set()
        assert self._opened.wait(30)
        return "late"

    def open(self) -> None:
        self._opened.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()


def calls(*names: str, **arguments: Any) -> Message:
    """A reply that calls these tools, by the ids c1, c2 and so on."""
    return Message.assistant("", [Call(f"c{n}", name, dict(arguments)) for n, name in enumerate(names, 1)])


class Played:
    """A model with its replies written before: a message, a text, an exception to raise, or a function to call."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[list[Message]] = []

    def complete(self, messages: list[Message], _tools: list[Any]) -> Any:
        self.requests.append(messages)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply() if callable(reply) else reply


class Writing(Played):
    """The same, read while it writes: each reply is what its stream gives; functions are called in between."""

    def stream(self, messages: list[Message], _tools: list[Any]) -> Iterable[Any]:
        self.requests.append(messages)
        for piece in self.replies.pop(0):
            if isinstance(piece, BaseException):
                raise piece
            if callable(piece):
                piece()
            else:
                yield piece


class Stopped:
    """What came of a run that was stopped while it stood at a gate."""

    def __init__(self, result: RunResult, took_s: float, answer: Any) -> None:
        self.result = result
        self.took_s = took_s
        self.answer = answer


def stop_inside(loop: AgentLoop, gate: Gate, *, stop: Callable[[], Any] | None = None) -> Stopped:
    """Run ``loop`` on this thread, and stop it from another as soon as somebody stands at ``gate``."""
    import time

    stopped_at: list[float] = []
    answers: list[Any] = []

    def canceller() -> None:
        assert gate.reached.wait(10)
        stopped_at.append(time.monotonic())
        answers.append((stop or (lambda: loop.cancel("stopped by the test", by="tester")))())

    thread = threading.Thread(target=canceller)
    thread.start()
    result = loop.run("please")
    took = time.monotonic()
    thread.join()
    return Stopped(result, took - stopped_at[0], answers[0])


def statuses(loop: AgentLoop) -> dict[str, str]:
    """What the feed says of each call."""
    return {result.call_id: result.status for message in loop.history.feed for result in message.results}


def feed_is_strict(loop: AgentLoop) -> None:
    """Raise unless each call of the feed has one result, in order, right behind it, and both wires would take it."""
    is_strict(loop.history.feed)


def is_strict(feed: Sequence[Message]) -> None:
    """The same of any messages."""
    for n, message in enumerate(feed):
        if message.calls:
            behind = feed[n + 1] if n + 1 < len(feed) else None
            assert behind is not None
            assert [one.id for one in message.calls] == [one.call_id for one in behind.results]
        if message.results:
            assert n > 0
            assert feed[n - 1].calls
        assert message.parts
    assert not any(isinstance(part, Result) for message in feed for part in message.parts if message.role != "tool")
    assert list(feed) == closed(feed)  # so what follows owes nothing to a repair on the way out
    validate_history(to_openai(feed), shape="openai")
    validate_history(to_anthropic(feed)[1], shape="anthropic")
