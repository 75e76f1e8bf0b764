"""What a loop cannot be made of is told when it is made: by its name, and with what it ought to be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from loops import Played, calls

from turnctl.agent import AgentLoop, Breaker, Message, RunRecord, Tool
from turnctl.errors import BadArgument


def read_file(path: str) -> str:
    """Read a file."""
    return path


class Ends:
    """Hooks that hear of the end."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_run_end(self, record: RunRecord) -> None:
        self.heard.append(record.stop_reason)


class Later(Played):
    async def complete(self, *_: Any) -> str:  # type: ignore[override]
        return "never"


class Wrote:
    def stream(self, *_: Any) -> Iterator[str]:
        yield "hel"
        yield "lo"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": 7}, "a model is a function of messages and tools, or has complete(), not 7"),
        ({"model": Wrote(), "streaming": False}, "messages and tools, or has complete() where streaming=False, not <"),
        ({"model": Played}, "a model is an object, not its class: give Played(...)"),
        ({"model": Later()}, "AgentLoop() needs a plain function: calling <bound method Later.complete"),
        ({"tools": read_file}, "tools are given in a list, also one: [read_file]"),
        ({"tools": Tool(read_file)}, "tools are given in a list, also one: [read_file]"),
        (
            {"tools": "read_file"},
            "tools are functions or Tools in a list, or a dict of functions by name, not 'read",
        ),
        ({"tools": 7}, "tools are functions or Tools in a list, or a dict of functions by name, not 7"),
        ({"tools": [read_file, Tool(read_file)]}, "two tools are named 'read_file'; give one of them another name"),
        (
            {"hooks": print},
            "hooks are an object with one or more of on_run_start, before_step, before_tool",
        ),
        ({"hooks": [Ends(), 7]}, "hooks are an object with one or more of on_run_start, before_step, before_tool"),
        ({"hooks": Ends}, "hooks are an object, not its class: give Ends(...)"),
        ({"memory": 7}, "a memory is an object with one or more of recall, store, reflect, consolidate, not 7"),
        ({"compactor": 7}, "a compactor is a function of messages, or has compact(), not 7"),
        ({"retry": 3}, "retry is a Retry, or has delay_after(), not 3"),
        ({"breaker": True}, "a breaker is a Breaker, or has allows(), failed() and succeeded(), not True"),
        ({"observers": 7}, "observers are functions of an event, one or several, not 7"),
        ({"observers": [print, 7]}, "observers are functions of an event, one or several, not 7"),
        ({"ledger": "memory:"}, "ledger is what turnctl.open_ledger() gave, not 'memory:'"),
        ({"max_cost": "3"}, "max_cost is a number above 0, or None, not '3'"),
        ({"max_cost": float("nan")}, "max_cost is a number above 0, or None, not nan"),
        ({"history": {"role": "user", "content": "go"}}, "a message is a Message, a text or (role, text), not {"),
        ({"history": 7}, "a history is a History, or messages in a list, not 7"),
    ],
)
def test_what_a_loop_cannot_be_made_of_is_refused(given: dict[str, Any], said: str) -> None:
    """Before anything is started, and not by the first failure that would have needed it."""
    with pytest.raises((BadArgument, TypeError), match=re.escape(said)):
        AgentLoop(**{"model": Played(), **given})


@pytest.mark.parametrize("many", [list, tuple, set, frozenset, iter])
def test_hooks_come_one_or_several(many: Any) -> None:
    """An object, or several of them in whatever holds them."""
    one, other = Ends(), Ends()
    AgentLoop(Played("x"), hooks=one).run("go")
    AgentLoop(Played("x"), hooks=many([one, other])).run("go")

    assert (["completed"] * 2, ["completed"]) == (one.heard, other.heard)


def test_tools_by_name_have_that_name() -> None:
    """Also one that has a name of its own, which stays as it is by itself."""
    mine = Tool(read_file)
    loop = AgentLoop(Played(calls("look", path="x"), "end"), {"look": mine, "see": read_file})
    loop.run("go")

    assert (["look", "see"], "read_file") == ([one.name for one in loop.tools.values()], mine.name)
    assert ("x", "look") == (loop.history.feed[2].results[0].text, loop.history.feed[2].results[0].name)
    with pytest.raises(BadArgument, match="a tool's name is 1 to 64 letters, digits, _ and -, not 'a b'"):
        AgentLoop(Played(), {"a b": mine})


def test_a_model_may_have_a_stream_alone() -> None:
    """What can be read while it writes need not be asked as a whole; the record names its class."""
    result = AgentLoop(Wrote()).run("go")

    assert ("hello", "Wrote") == (result.text, result.record.configuration["model"])


def test_parts_of_the_hosts_own_are_taken() -> None:
    """What has the functions is one: a breaker, a retry, a compactor."""

    class Mine(Breaker):
        def delay_after(self, attempt: int, _: Exception) -> float | None:
            return None if attempt > 1 else 0.0

        def compact(self, messages: tuple[Message, ...]) -> None:
            assert messages

    mine = Mine(1, rest=0)
    loop = AgentLoop(Played(OSError("no"), "x"), breaker=mine, retry=mine, compactor=mine)

    assert ("x", 1) == (loop.run("go").text, loop.runs[0].retries)


def test_a_message_in_plain_values_is_one_message() -> None:
    """What ``as_dict`` gave is one; a dict of a provider is refused, and not taken for its keys."""
    loop = AgentLoop(Played("x", calls()))
    checkpoint: Any = loop.run(Message.user("hello").as_dict()).checkpoint

    assert ["hello", "x"] == [one.text for one in loop.history.feed]
    with pytest.raises(TypeError, match="a history in the shape of a provider is read by"):
        loop.run({"role": "user", "content": "hello"})
    with pytest.raises(TypeError, match="a message is a Message, a text or .role, text., or several in a list, not 7"):
        loop.run(7)  # type: ignore[arg-type]
    for one in (checkpoint, checkpoint.as_dict()):
        with pytest.raises(BadArgument, match="a checkpoint and no message; go on from it by resume"):
            loop.run(one)
    assert 2 == len(loop.history)
