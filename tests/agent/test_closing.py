"""A history is closed: one result for each call, in its place, and nothing else changed, in each provider's shape."""

from __future__ import annotations

import copy
import random
from typing import Any

import histories
import pytest

from turnctl.agent.closing import close_calls
from turnctl.agent.messages import STATUS_WORDS, Call, Message, Result
from turnctl.agent.validating import history_problems, validate_history
from turnctl.errors import BadArgument, BadHistory

UNKNOWN = STATUS_WORDS["cancelled_unknown"]
#: ids that no provider takes, one as litellm makes them for Gemini, and what is sent in their place
LONG, SIGNED = "gateway-" + "0123456789" * 9, "call_1__thought__" + "A+/=" * 200
SHORT, BARE = "call_ee3cc325ea5d5d005dd4618bf4dd89f7", "call_d4a658f3c802178fce6d364fc4e5f63d"
ASKED = {"role": "user", "content": "go"}


def call(*ids: Any, text: str | None = None) -> dict[str, Any]:
    """A message of OpenAI's shape that calls."""
    calls = [{"id": one, "type": "function", "function": {"name": "do", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def told(one: Any, content: Any = None) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": f"did {one}" if content is None else content}


def use(*ids: Any, text: str = "") -> dict[str, Any]:
    """The same in Anthropic's shape."""
    said = [{"type": "text", "text": text}] if text else []
    uses = [{"type": "tool_use", "id": one, "name": "do", "input": {}} for one in ids]
    return {"role": "assistant", "content": [*said, *uses]}


def used(one: Any, content: Any = None) -> dict[str, Any]:
    content = f"did {one}" if content is None else content
    return {"type": "tool_result", "tool_use_id": one, "content": content}


def made(one: str, status: Any = "cancelled_unknown") -> dict[str, Any]:
    return {**used(one, STATUS_WORDS[status]), "is_error": True}


def user(*blocks: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks],
    }


def wants(one: Any, name: str = "do") -> dict[str, Any]:
    """The same as an item of responses."""
    return {"type": "function_call", "call_id": one, "name": name, "arguments": "{}"}


def output(one: Any, text: Any = None) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": one, "output": f"did {one}" if text is None else text}


REASONED = {"type": "reasoning", "id": "r1", "summary": []}
CUSTOM = {"type": "custom", "custom": {"name": "sh", "input": "ls"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}

CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "empty": ([], []),
    "text alone": ([ASKED, {"role": "assistant", "content": "yes"}], [ASKED, {"role": "assistant", "content": "yes"}]),
    # OpenAI
    "open at the end": ([ASKED, call("a")], [ASKED, call("a"), told("a", UNKNOWN)]),
    "open in the middle": ([call("a"), ASKED], [call("a"), told("a", UNKNOWN), ASKED]),
    "one of two": ([call("a", "b"), told("b")], [call("a", "b"), told("a", UNKNOWN), told("b")]),
    "other order": ([call("a", "b"), told("b"), told("a")], [call("a", "b"), told("a"), told("b")]),
    "orphan": ([ASKED, told("x"), call("a"), told("a")], [ASKED, call("a"), told("a")]),
    "twice": ([call("a"), told("a", "1"), told("a", "2")], [call("a"), told("a", "1")]),
    "late": ([call("a"), ASKED, told("a")], [call("a"), told("a"), ASKED]),
    "after the next": ([call("a"), call("b"), told("b"), told("a")], [call("a"), told("a"), call("b"), told("b")]),
    "before its call": ([told("a"), call("a")], [call("a"), told("a", UNKNOWN)]),
    "late evidence": ([call("a"), told("a", UNKNOWN), told("a", "in the end")], [call("a"), told("a", "in the end")]),
    "id again": ([call("a"), told("a", "1"), call("a")], [call("a"), told("a", "1"), call("a"), told("a", UNKNOWN)]),
    "one id twice": (
        [call("a", "a"), told("a", "1"), told("a", "2")],
        [call("a", "a-2"), told("a", "1"), told("a-2", "2")],
    ),
    "no id": ([call(None), told(None, "1")], [call("call"), told("call", "1")]),
    "blank result": ([call("a"), told("a", "")], [call("a"), told("a", STATUS_WORDS["completed"])]),
    "blank messages": (
        [
            {"role": "system", "content": ""},
            ASKED,
            {"role": "assistant", "content": " "},
            {"role": "user", "content": []},
        ],
        [ASKED],
    ),
    "blank beside calls": ([call("a", text=""), told("a")], [call("a"), told("a")]),
    "no calls in the list": ([call(text="yes")], [{"role": "assistant", "content": "yes"}]),
    "blank part": (
        [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    ),
    "refusal": (
        [ASKED, {"role": "assistant", "content": None, "refusal": "no"}],
        [ASKED, {"role": "assistant", "content": None, "refusal": "no"}],
    ),
    "custom tool": (
        [{"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]}],
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
            },
            told("a", UNKNOWN),
        ],
    ),
    "thinking of another provider": (
        [{**call("a"), "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "so"}]}],
        [
            {**call("a"), "content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "so"}]},
            told("a", UNKNOWN),
        ],
    ),
    "function_call": (
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            ASKED,
            {"role": "function", "name": "g", "content": "x"},
        ],
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": UNKNOWN},
            ASKED,
        ],
    ),
    # Anthropic
    "use at the end": ([ASKED, use("a")], [ASKED, use("a"), user(made("a"))]),
    "use before a prompt": ([use("a"), ASKED], [use("a"), user(made("a")), ASKED]),
    "use before blocks": ([use("a"), user("go")], [use("a"), user(made("a")), user("go")]),
    "parallel in two messages": (
        [use("a", "b"), user(used("a")), user(used("b"))],
        [use("a", "b"), user(used("a"), used("b"))],
    ),
    "parallel, one open": ([use("a", "b"), user(used("b"), "go")], [use("a", "b"), user(made("a"), used("b"), "go")]),
    "text before results": ([use("a"), user("go", used("a"))], [use("a"), user(used("a"), "go")]),
    "orphan result": ([user(used("x"), "go"), use("a"), user(used("a"))], [user("go"), use("a"), user(used("a"))]),
    "results of two replies": (
        [use("a"), use("b"), user(used("a"), used("b"))],
        [use("a"), user(used("a")), use("b"), user(used("b"))],
    ),
    "result in the assistant's": (
        [{"role": "assistant", "content": [*use("a")["content"], used("a")]}],
        [use("a"), user(used("a"))],
    ),
    "use id again": (
        [use("a"), user(used("a", "1")), use("a"), user(used("a", "2"))],
        [use("a"), user(used("a", "1")), use("a-2"), user(used("a-2", "2"))],
    ),
    "use id that is not taken": ([use("a b"), user(used("a b", "1"))], [use("a_b"), user(used("a_b", "1"))]),
    "thinking": (
        [ASKED, {"role": "assistant", "content": [THOUGHT, *use("a", text="so")["content"]]}],
        [ASKED, {"role": "assistant", "content": [THOUGHT, *use("a", text="so")["content"]]}, user(made("a"))],
    ),
    "thinking alone": (
        [ASKED, {"role": "assistant", "content": [THOUGHT]}],
        [ASKED, {"role": "assistant", "content": [THOUGHT]}],
    ),
    "server tool": (
        [{"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}],
        [{"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}],
    ),
    "empty results": (
        [use("a", "b"), user(used("a", []), {**used("b", ""), "is_error": True})],
        [
            use("a", "b"),
            user(used("a", STATUS_WORDS["completed"]), {**used("b", STATUS_WORDS["failed"]), "is_error": True}),
        ],
    ),
    "late evidence of a use": ([use("a"), user(made("a")), user(used("a"))], [use("a"), user(used("a"))]),
    "id too long": ([call(LONG), told(LONG)], [call(SHORT), told(SHORT, f"did {LONG}")]),
    "id as long as may be, again": (
        [call("m" * 40, "m" * 40), told("m" * 40, "1"), told("m" * 40, "2")],
        [call("m" * 40, f"{'m' * 38}-2"), told("m" * 40, "1"), told(f"{'m' * 38}-2", "2")],
    ),
    "id with a signature": ([call(SIGNED), told(SIGNED)], [call(SIGNED), told(SIGNED)]),
    "use too long": ([use(LONG), user(used(LONG, "1"))], [use(SHORT), user(used(SHORT, "1"))]),
    "use with a signature": ([use(SIGNED), user(used(SIGNED, "1"))], [use(BARE), user(used(BARE, "1"))]),
    # responses
    "call_id too long": ([wants(LONG), output(LONG, "1")], [wants(SHORT), output(SHORT, "1")]),
    "call item": ([ASKED, wants("a")], [ASKED, wants("a"), output("a", UNKNOWN)]),
    "reasoning stays with its call": (
        [REASONED, wants("a"), wants("b"), output("b"), output("a")],
        [REASONED, wants("a"), wants("b"), output("a"), output("b")],
    ),
    "output too late": ([wants("a"), ASKED, output("a")], [wants("a"), output("a"), ASKED]),
    "orphan output": ([output("x"), wants("a"), output("a"), output("a", "2")], [wants("a"), output("a")]),
    "call_id again": (
        [wants("a"), output("a", "1"), wants("a"), output("a", "2")],
        [wants("a"), output("a", "1"), wants("a-2"), output("a-2", "2")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_history_is_closed(name: str) -> None:
    """Each way that a history can be broken: put right, accepted, the input as it was, and a second pass alike."""
    given, expected = CASES[name]
    before = copy.deepcopy(given)
    found = close_calls(given)

    assert expected == found
    assert before == given
    assert [] == history_problems(found)
    assert found == close_calls(found)


@pytest.mark.parametrize("name", [name for name, (given, expected) in CASES.items() if given == expected])
def test_right_items_are_the_same_objects(name: str) -> None:
    """Where there is nothing to put right, the items themselves come back."""
    given, _ = CASES[name]

    assert all(one is other for one, other in zip(given, close_calls(given), strict=True))


def test_open_call_says_what_is_known() -> None:
    """What is known of a call is told by its id; the others are told as what the caller says."""
    given = [call("a", "b", "c")]
    found = close_calls(given, statuses={"b": "not_started"}, open_as="unknown")

    assert [
        "outcome unknown",
        "stopped before it started",
        "outcome unknown",
    ] == [one["content"].partition(":")[0] for one in found[1:]]
    assert [user(made("a", "not_started"))] == close_calls([use("a")], open_as="not_started")[1:]
    with pytest.raises(BadArgument, match="unknown status 'gone'"):
        close_calls(given, open_as="gone")  # type: ignore[arg-type]


def test_messages_of_the_loop_are_closed_too() -> None:
    """Messages of ``turnctl.agent`` are a shape as well; a mixture is refused."""
    said = Message.assistant("", [Call("a", "do")])
    found = close_calls([said], statuses={"a": "not_started"})

    assert [Result("a", (), "not_started", "do")] == list(found[1].results)
    assert found == close_calls((one for one in [said]), statuses={"a": "not_started"})
    with pytest.raises(BadHistory, match="mixes messages of"):
        close_calls([said, ASKED])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("text", "a history is a list of messages"),
        ({"role": "user"}, "a history is a list of messages"),
        ([3], "messages[0] is neither a dict nor an object of an SDK, but int: 3"),
        ([{"content": "x"}], "messages[0] has neither a role nor a type"),
        ([ASKED, {"role": "robot", "content": "x"}], "messages[1] has the role 'robot'; use system"),
        ([{"role": "user", "content": 3}], "messages[0] has content that is neither text nor a list"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0] is neither a dict"),
        ([{**call("a"), "role": "user"}], "messages[0] has calls and the role 'user'; those are the assistant's"),
        ([{**call("a"), "tool_calls": "a"}], "messages[0].tool_calls is not a list"),
        ([{**call("a"), "tool_calls": [{"id": "a"}]}], "messages[0].tool_calls[0] does not name the function"),
        (
            [{**call(), "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {}}}]}],
            "messages[0].tool_calls[0] has arguments that are not JSON text: {}",
        ),
        ([{**call("a"), "function_call": {"name": "f"}}], "has tool_calls and function_call"),
        ([{"role": "assistant", "function_call": {}}], "messages[0].function_call does not name"),
        (
            [call("a"), use("a")],
            "mixes the shapes of more than one provider (openai: messages[0] has tool_calls; anthropic",
        ),
        ([user(use("a")["content"][0])], "messages[0].content[0] is a tool_use in a message of the user"),
        ([{**use("a"), "role": "system"}], "the system prompt is a parameter of its own"),
        (
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": "{}"}]}],
            "has an input that is not an object: '{}'",
        ),
        ([{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "input": {}}]}], "does not name the tool"),
        ([use("a"), user(used("a", 3))], "messages[1].content[0] has content that is neither"),
        ([{"type": "computer_call", "call_id": "a"}], "is a computer_call without its computer_call_output"),
        ([{"type": "item_reference", "id": "m"}], "stands for an item that only the provider has"),
        ([wants("a", "")], "messages[0] does not name the function"),
    ],
)
def test_what_cannot_be_read_is_refused(given: Any, said: str) -> None:
    """A history that makes no sense raises an error that names the place and says what is wrong."""
    with pytest.raises(BadHistory) as raised:
        close_calls(given)

    assert said in str(raised.value)


def test_unknown_shape_is_refused() -> None:
    """A shape that there is not is told, with those that there are."""
    with pytest.raises(BadHistory, match="use openai, anthropic, responses"):
        close_calls([ASKED], shape="gemini")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", histories.SHAPES)
def test_any_history_is_accepted_when_closed(shape: Any) -> None:
    """1,000 random histories of each shape: accepted by the strict check, a second pass alike, input untouched."""
    chance = random.Random(f"{shape} 8")
    broken = 0
    for _ in range(1000):
        given = histories.SHAPES[shape](chance)
        before = copy.deepcopy(given)
        found = close_calls(given, shape=shape)
        broken += bool(history_problems(given, shape=shape))

        assert [] == history_problems(found, shape=shape), given
        assert found == close_calls(found, shape=shape), given
        assert before == given
        assert _kept(found, shape) == [one for one in _kept(given, shape) if one.strip()], given
    assert broken > 500


def _kept(history: list[Any], shape: str) -> list[str]:
    """What was said, in order: all that is no call and no result."""
    said: list[str] = []
    for item in history:
        if item.get("role") in ("tool", "function") or "output" in item:
            continue
        content = item.get("content") or []
        blocks = [{"text": content}] if isinstance(content, str) else content
        said += [str(block.get("signature") or block["text"]) for block in blocks if {"text", "signature"} & set(block)]
        said += [item["id"]] if item.get("type") == "reasoning" else []
    return said


def test_every_result_that_fits_is_kept() -> None:
    """In 500 random histories with ids of their own, each result after its call comes through with its words."""
    chance = random.Random(3)
    for _ in range(500):
        ids = [f"c{n}" for n in range(6)]
        given: list[Any] = []
        asked: list[str] = []
        expected: dict[str, str] = {}
        while ids or chance.randrange(2):
            if ids and chance.randrange(2):
                batch, ids = ids[: chance.randrange(1, 3)], ids[2:]
                asked += batch
                given.append(call(*batch))
            elif asked:
                one = chance.choice(asked)
                given.append(told(one, f"{one} {len(given)}"))
                expected.setdefault(one, f"{one} {len(given) - 1}")
            if not ids and not asked:
                break
        found = {item["tool_call_id"]: item["content"] for item in close_calls(given) if item["role"] == "tool"}

        assert {**dict.fromkeys(asked, UNKNOWN), **expected} == found


# -- the strict check ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([call("a")], "the history ends before the result of 'a'"),
        ([call("a", "b"), told("b"), told("a")], "messages[1] is a result of 'b', where another call comes first"),
        ([told("a")], "messages[0] is a result of 'a', which nothing before it is waiting for"),
        ([call("a"), ASKED, told("a")], "messages[1] comes before the result of 'a'"),
        ([call("a"), told("a", " ")], "messages[1] is a result without content"),
        ([call("a", "a"), told("a"), told("a")], "messages[0].tool_calls[1] has no id of its own"),
        ([call(text="x")], "messages[0] has an empty list of tool_calls"),
        ([call("a", text=""), told("a")], "messages[0] has content that is blank"),
        ([{"role": "user", "content": ""}], "messages[0] has no content"),
        ([{"role": "assistant", "function_call": {"name": "f"}}], "the history ends before the result of 'f'"),
        ([use("a"), ASKED], "messages[1] has results of [], where ['a'] are called"),
        ([use("a"), user("x", used("a"))], "messages[1] has results that are not the first"),
        ([use("a"), user(used("a")), use("a"), user(used("a"))], "messages[2].content[0] has no id of its own"),
        ([use("a b"), user(used("a b"))], "messages[0].content[0] has no id of its own"),
        ([use("a"), user(used("a", ""))], "messages[1].content[0] is a result without content"),
        ([call("a" * 41), told("a" * 41)], "messages[0].tool_calls[0] has an id of 41 characters, where 40 are taken"),
        (
            [use("a" * 65), user(used("a" * 65))],
            "messages[0].content[0] has an id of 65 characters, where 64 are taken",
        ),
        ([wants("a" * 65), output("a" * 65)], "messages[0] has a call_id of 65 characters, where 64 are taken"),
        ([use("a")], "the history ends before the results of ['a']"),
        ([use("a"), user(used("a"), " ")], "messages[1] has content that is blank"),
        ([wants("a")], "the history ends before the output of 'a'"),
        ([wants("a"), ASKED], "messages[1] comes before the output of 'a'"),
        ([output("a")], "messages[0] is an output of 'a', which is not the one to come"),
        ([wants("a"), output("a", "")], "messages[1] is an output without content"),
        ([wants("a"), wants("b"), output("a"), wants("c"), output("c")], "comes before the output of 'b'"),
        ([call("a"), told("a"), told("a")], "messages[2] is a result of 'a', which nothing before it is waiting for"),
        ([call("a"), told("b")], "messages[1] is a result of 'b', where another call comes first"),
        ([call("a"), call("b"), told("a"), told("b")], "messages[1] comes before the result of 'a'"),
        ([call("a", "b"), told("a"), call("c"), told("c")], "messages[2] comes before the result of 'b'"),
        ([{"role": "user", "content": []}], "messages[0] has no content"),
        ([{"role": "assistant", "content": None}], "messages[0] has no content"),
        ([{"role": "robot", "content": "x"}], "messages[0] has the role 'robot'"),
        ([use("a"), user(used("a"), used("a"))], "messages[1] has results of ['a', 'a'], where ['a'] are called"),
        ([use("a", "b"), user(used("b"), used("a"))], "messages[1] has results of ['b', 'a'], where ['a', 'b']"),
        ([use("a"), use("b"), user(used("a"), used("b"))], "messages[1] has results of [], where ['a'] are called"),
        ([user(used("a"))], "messages[0] has results of ['a'], where [] are called"),
        ([3], "messages[0] is neither a dict"),
    ],
)
def test_strict_check_finds_it(given: Any, said: str) -> None:
    """Each thing that a provider might refuse has a line that names its place."""
    with pytest.raises(BadHistory) as raised:
        validate_history(given)

    assert said in str(raised.value)
    assert any(said in one for one in raised.value.problems)


def test_turns_of_roles_where_they_are_required() -> None:
    """With ``alternate`` the user begins and nobody speaks twice; without it that is no problem."""
    history = [{"role": "assistant", "content": "hi"}, ASKED, ASKED]

    assert [] == history_problems(history)
    assert ["messages[0] is of the assistant; the user begins", "messages[2] is of the user again"] == history_problems(
        history, alternate=True
    )


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"role": "robot", "content": "x"}, "has the role 'robot'"),
        ({"role": 0, "content": "x"}, "has a role that is no text"),
        ({"type": {"a": 1}, "call_id": "b"}, "has a type that is no text"),
        ({"role": "user", "content": [{"type": 1.5}]}, "has a type that is no text"),
        ({"role": "user", "content": [{"type": "text", "text": b"x"}]}, "has a text that is none"),
    ],
)
def test_item_of_no_shape_is_refused(item: Any, told: str) -> None:
    """What has a role or a type that no provider has is told with its place, in the shape of the responses as well."""
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    with pytest.raises(BadHistory, match=rf"^messages\[1\].*{told}"):
        close_calls([call, item])


def test_block_unknown_here_is_no_word_for_anthropic() -> None:
    """A history with a message of the system is not one of Anthropic's, whatever its blocks are, closed or not."""
    history = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "hologram"}]}]

    assert history == close_calls(history)
    assert [] == history_problems(history)
