"""What a model or a tool should not give: it is told, it is kept, and it never makes a conversation unusable."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from loops import Played, Writing, calls, is_strict

import turnctl
from turnctl.agent import AgentLoop, Call, Desk, Message, OpenAIChat, Reply, Retry, Tool, to_anthropic, to_openai
from turnctl.errors import BadArgument

ANY: dict[str, Any] = {"type": "object"}
CYCLE: dict[str, Any] = {}
CYCLE["x"] = CYCLE
DEEP: dict[str, Any] = {}
for _ in range(5000):
    DEEP = {"x": DEEP}


class Mute:
    """A value, or an error, that raises when it is asked what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no word")

    __repr__ = __str__


class MuteError(Exception):
    __str__ = __repr__ = Mute.__str__


def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.mark.parametrize("name", ["", None, 5, "functions.add now!", "x" * 300, "a\ud800"])
def test_call_by_a_name_of_no_tool_can_be_sent(name: Any) -> None:
    """Whatever name the model calls by, the next request is one that a provider takes."""
    loop = AgentLoop(Played([Call("a", name)], "done"), [add])
    result = loop.run("go")

    assert "completed" == result.stop_reason
    is_strict(loop.history.feed)
    (call,) = to_openai(loop.history.feed)[1]["tool_calls"]
    assert call["function"]["name"].replace("_", "").replace("-", "").isascii()
    assert 0 < len(call["function"]["name"]) <= 64
    assert 0 < len(to_anthropic(loop.history.feed)[1][1]["content"][0]["name"]) <= 128


@pytest.mark.parametrize(
    "arguments", [CYCLE, DEEP, {"a": 10**5000}, {"a": Mute()}, {"a": float("nan")}, {"a": b"x"}], ids=lambda _: ""
)
def test_arguments_that_json_has_not_can_be_kept(arguments: Any) -> None:
    """They are told to the model as no JSON object, the tool is not called, and the checkpoint is plain JSON."""
    loop = AgentLoop(Played([Call("a", "add", arguments)], "done"), [add])
    result = loop.run("go")

    assert "completed" == result.stop_reason
    assert result.checkpoint is not None
    assert "turnctl.checkpoint/1" == json.loads(json.dumps(result.checkpoint.as_dict()))["schema"]
    assert "add was not called: its arguments are not a JSON object" in loop.history.feed[2].results[0].text
    is_strict(loop.history.feed)


@pytest.mark.parametrize("reply", [Reply(None), Reply(Message.user("hi")), [Call("a", "add"), 3]])  # type: ignore[arg-type]
def test_reply_that_is_none_is_told(reply: Any) -> None:
    """A reply without a message of the assistant fails the run in words that say what a model gives."""
    result = AgentLoop(Played(reply), [add]).run("go")

    assert "failed" == result.stop_reason
    assert str(result.record.error).startswith("TypeError: a model gives a Reply")


@pytest.mark.parametrize("prompt", ["", " \n", ["", " "], Message.assistant("hi"), ["hi", Message.assistant("x")]])
def test_prompt_that_says_nothing_is_refused(prompt: Any) -> None:
    """A run begins with a message of the user that says something: a provider would refuse the request."""
    model = Played("done")
    with pytest.raises(BadArgument, match="a run begins with a message"):
        AgentLoop(model).run(prompt)

    assert [] == model.requests


async def _coroutine() -> str:
    return "never"


@pytest.mark.parametrize(
    ("give", "told"),
    [
        (lambda: _coroutine(), "it gave a coroutine, which nobody awaits"),
        (lambda: (one for one in "ab"), "it gave a generator, whose items nobody asks for"),
        (lambda: map(str, "ab"), "it gave a map, whose items nobody asks for"),
    ],
)
def test_what_only_would_come_to_a_value_is_none(give: Callable[[], Any], told: str) -> None:
    """A tool that gives a coroutine or an iterator has done nothing yet, and the model is not told that it has."""
    result = Tool(give, name="t", schema={"type": "object"}).invoke(Call("a", "t")).result

    assert "failed" == result.status
    assert told in result.text


def test_error_that_cannot_say_what_it_is_hangs_nothing() -> None:
    """A call that raises it is over, and raises it; its activity names the class."""

    def fails() -> None:
        raise MuteError

    with turnctl.turn() as turn, pytest.raises(MuteError):
        turn.call(fails)

    assert ["raised MuteError"] == [one.detail for one in turn.report.activities]


def test_content_in_blocks_is_read() -> None:
    """Some servers give the text of a reply as a list of blocks."""
    answer = {
        "choices": [{"finish_reason": "stop", "message": {"content": [{"type": "text", "text": "a"}, {"type": "x"}]}}]
    }
    model = OpenAIChat(lambda **_: answer, "m")

    assert "a" == model.complete([Message.user("hi")]).message.text


@pytest.mark.parametrize("choice", [None, {"finish_reason": "stop"}])
def test_answer_without_a_message_is_told(choice: Any) -> None:
    """It is an error of the server, and not an empty reply."""
    with pytest.raises(turnctl.TurnctlError, match="has no message"):
        OpenAIChat(lambda **_: {"choices": [choice]}, "m").complete([Message.user("hi")])


def test_tool_may_run_an_event_loop_of_its_own() -> None:
    """A tool of a host that is written with asyncio runs it within itself."""

    def ask() -> str:
        """Ask."""
        return asyncio.run(_coroutine())

    loop = AgentLoop(Played([Call("a", "ask")], "done"), [ask])
    loop.run("go")

    assert "never" == loop.history.feed[2].results[0].text


class Panic(BaseException):
    """What some extensions raise when they fail."""


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (turnctl.CancelledError("own"), "a stop of something else ended it (CancelledError: own)"),
        (asyncio.CancelledError("own"), "a stop of something else ended it (CancelledError: own)"),
        (BaseExceptionGroup("g", [asyncio.CancelledError()]), "a stop of something else ended it (BaseExceptionGroup:"),
        (Panic("at 1:2"), "it raised what is no Exception (Panic: at 1:2)"),
        (GeneratorExit(), "it raised what is no Exception (GeneratorExit)"),
    ],
    ids=["ours", "asyncio", "group", "panic", "exit"],
)
@pytest.mark.parametrize("streams", [False, True])
def test_stop_of_something_else_is_a_failure(stop: BaseException, said: str, streams: bool) -> None:
    """It ends the tool, the hook or the request that it struck, and is not raised by a run that was not stopped."""

    def raises(*_: Any) -> str:
        raise stop

    def writes() -> Any:
        raise stop

    first: Any = [calls("plain", "acts", "look")]
    model = Writing(first, ["do", "ne"], [writes]) if streams else Played(*first, "done", raises)
    hooks = type("Host", (), {"after_tool": raises})()
    tools = [Tool(raises, name="plain", schema=ANY), Tool(raises, name="acts", schema=ANY, effect="x.y")]
    loop = AgentLoop(
        model, [*tools, Tool(lambda: "seen", name="look", schema=ANY)], hooks=hooks, retry=Retry(attempts=1)
    )
    result = loop.run("go")

    assert "done" == result.unwrap()
    assert ["failed", "unknown", "completed"] == [one.status for one in loop.history.feed[2].results]
    assert said in loop.history.feed[2].results[0].text
    assert ["after_tool of Host failed" in note for note in result.record.notes] == [True] * 3
    assert "failed" == loop.run("more").stop_reason
    is_strict(loop.history.feed)


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize(("ends", "status"), [(lambda: "x", 0), (lambda: sys.exit(3), 3), (lambda: int("x"), 1)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_of_a_tool_ends_as_a_program(
    ends: Callable[[], Any], status: int, parallel: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its status is what the tool comes to there, also beside others, and the effect is the parent's to tell."""
    here = os.getpid()

    def forks() -> str:
        pid = os.fork()
        return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) if pid else ends()

    fork = Tool(forks, name="fork", schema=ANY, effect="x.y")
    loop = AgentLoop(Played(calls("fork", "look"), "done"), [fork, Tool(lambda: "seen", name="look", schema=ANY)])
    loop.parallel = parallel
    result = loop.run("go")
    assert here == os.getpid(), os._exit(9)

    assert "done" == result.unwrap()
    assert [("completed", str(status)), ("completed", "seen")] == [
        (one.status, one.text) for one in loop.history.feed[2].results
    ]
    assert ("ValueError" in capfd.readouterr().err) == (status == 1)


def test_check_that_cannot_say_why_denies() -> None:
    """A hook before a tool whose error has no text denies the call, and the run goes on."""

    class Host:
        def before_tool(self, call: Any) -> None:
            raise MuteError

    loop = AgentLoop(Played(calls("word"), "done"), {"word": lambda: "word"}, hooks=Host())

    assert "done" == loop.run("please").unwrap()
    assert ["denied: a check of it failed (MuteError)"] == [one.text for one in loop.history.feed[2].results]


def test_source_that_cannot_say_why_is_noted() -> None:
    """A desk of the host's whose ``withdraw`` raises an error without a text holds no stop up; its class is noted."""

    class Rude(Desk):
        def withdraw(self, question: Any) -> object:
            raise MuteError

    asked = threading.Event()
    tool = Tool(lambda **_: "sent", name="send", schema={"type": "object"}, approval=True)
    loop = AgentLoop(Played(calls("send")), [tool], ask=Rude(lambda _: asked.set()))
    stopping = threading.Thread(target=lambda: asked.wait(10) and loop.cancel("enough"))
    stopping.start()
    result = loop.run("please")
    stopping.join()

    assert "cancelled" == result.stop_reason
    assert any(note.startswith("withdrawing") and note.endswith("failed: MuteError") for note in result.report.notes)
