"""What is called is a plain function: one whose body would not run, so that a check is skipped, is refused at once."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import pytest
from loops import Played, calls

from turnctl.agent import Acts, AgentLoop, Call, Desk, Message, Retry, Tool
from turnctl.agent.parts import HOOKS, MEMORY
from turnctl.errors import BadArgument


async def later(*_: Any) -> None: ...


def yields(*_: Any) -> Iterator[int]:
    yield 1


async def streams(*_: Any) -> AsyncIterator[str]:
    yield "x"


class Called:
    async def __call__(self, *_: Any) -> None: ...


def having(*names: str, fn: Any = later) -> Any:
    """An object with methods of these names."""
    return type("Host", (Played,), dict.fromkeys(names, fn))()


def read_file(path: str) -> str:
    """Read a file."""
    return path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(({"hooks": having(name)}, rf"{name}\(\) of hooks") for name in HOOKS),
        *(({"hooks": having(name, fn=yields)}, rf"{name}\(\) of hooks .* makes a generator") for name in HOOKS),
        *(({"memory": having(name)}, rf"{name}\(\) of a memory") for name in MEMORY),
        ({"model": Called()}, r"AgentLoop\(\)"),
        ({"model": functools.partial(functools.partial(later), 1)}, r"AgentLoop\(\)"),
        *(({"model": having(name)}, rf"{name}\(\) of a model") for name in ("stream", "probe", "abort")),
        ({"model": having("stream", fn=streams)}, r"stream\(\) of a model"),
        ({"compactor": later}, "a compactor"),
        ({"compactor": having("compact")}, "a compactor"),
        ({"compactor": having("compact", "demote", fn=yields)}, r"demote\(\) of a compactor"),
        ({"breaker": having("allows", "failed", "succeeded")}, r"allows\(\) of a breaker"),
        ({"ask": later}, "ask"),
        ({"ask": Called()}, "ask"),
        ({"checkpoint": later}, "checkpoint"),
        ({"observers": [print, Called()]}, "an observer"),
        ({"observers": yields}, "an observer .* makes a generator"),
    ],
)
def test_a_part_that_would_not_run_is_refused(given: dict[str, Any], said: str) -> None:
    """A coroutine function does nothing when it is called: it is refused when the loop is made, by its name."""
    with pytest.raises(BadArgument, match=rf"^{said} ?.*" if "makes" in said else f"^{said} needs a plain function"):
        AgentLoop(**{"model": Played(), **given})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tool(read_file, approval=later), "approval of tool read_file"),  # type: ignore[arg-type]
        (lambda: Acts("mail.send", key=later), "key of effect mail.send"),  # type: ignore[arg-type]
        (lambda: Acts("mail.send", payload=later), "payload of effect mail.send"),
        (lambda: Acts("mail.send", receipt=yields), "receipt of effect mail.send"),
        (lambda: Retry(when=later), "when of a Retry"),  # type: ignore[arg-type]
        (lambda: Desk(on_question=Called()), "on_question of a Desk"),
    ],
)
def test_what_decides_is_a_plain_function(make: Callable[[], object], said: str) -> None:
    """A coroutine is true, whatever it would have come to."""
    with pytest.raises(BadArgument, match=f"^{said} needs a plain function"):
        make()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"approval": "no"}, "approval of tool read_file is True, False or a function of the arguments, not 'no'"),
        ({"approval": None}, "approval of tool read_file is True, False or a function of the arguments, not None"),
        ({"parallel": "no"}, "parallel of tool read_file is True or False, not 'no'"),
        ({"description": 3}, "the description of tool read_file is text, not 3"),
        ({"schema": []}, r"the schema of tool read_file is a dict, not \[\]"),
        ({"schema": {"type": "object", "properties": ["path"]}}, "the schema of tool read_file has properties, a dict"),
        ({"schema": {"type": "object", "required": "path"}}, "and required, a list of their names"),
    ],
)
def test_what_is_said_of_a_tool_is_looked_at(options: dict[str, Any], said: str) -> None:
    """Where it is defined, and not by what it would have meant: "no" is true."""
    with pytest.raises(BadArgument, match=said):
        Tool(read_file, **options)


def test_generators_are_taken_where_they_are_read() -> None:
    """A compactor and a memory may yield their messages, and a model what it writes."""

    class Yields(Played):
        def stream(self, *_: Any) -> Iterator[str]:
            yield "done"

        def recall(self, *_: Any) -> Iterator[Message]:
            yield Message.user("known")

        def compact(self, messages: tuple[Message, ...]) -> Iterator[Message]:
            yield from messages

    one = Yields()

    assert "done" == AgentLoop(one, memory=one, compactor=one).run("go").text


def test_a_check_that_only_makes_a_coroutine_denies() -> None:
    """It has not looked at the call, so the call is not made; what else such a hook or memory did is noted."""

    class Host:
        def before_tool(self, *told: Any) -> Any:
            return later(*told)

        store = before_tool

    loop = AgentLoop(Played(calls("read_file", path="x"), "end"), [read_file], hooks=Host())
    loop.run("go")
    other = AgentLoop(Played(calls("read_file", path="x"), "end"), [read_file], memory=Host()).run("go")

    assert "denied" == loop.history.feed[2].results[0].status
    assert "it gave a coroutine, which nobody awaits" in loop.history.feed[2].results[0].text
    assert ["store of Host failed: TypeError: it gave a coroutine"] == [
        note.partition(",")[0] for note in other.record.notes
    ]


def test_choices_of_one_and_true_are_two() -> None:
    """Each gives itself, also where Python has them equal."""

    def choose(which: Literal["a", 1, True, 0, False] | None) -> str:
        return repr(which)

    def chosen(which: Any) -> str:
        return Tool(choose).invoke(Call("c", "choose", {"which": which})).result.text

    assert ["'a'", "1", "True", "0", "False", "None"] == [chosen(one) for one in ("a", 1, True, 0, False, None)]
