"""The values of a conversation: where parts may stand, what is fed to the model, and that they survive being stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnctl.agent.messages import (
    STATUS_WORDS,
    Call,
    Image,
    Mark,
    Message,
    Opaque,
    Reply,
    Result,
    Text,
    Usage,
    message_of,
    messages_of,
    reply_of,
)
from turnctl.errors import BadArgument

CALL = Call("c1", "look", {"path": "."})


def test_parts_keep_their_order() -> None:
    """A reply that speaks between its calls is kept as it spoke."""
    said = Message.assistant(["first", CALL, "then", Call("c2", "go")])

    assert ["first", CALL, "then"] == [getattr(one, "text", one) for one in said.parts[:3]]
    assert "firstthen" == said.text
    assert ("c1", "c2") == tuple(call.id for call in said.calls)


@pytest.mark.parametrize(
    ("role", "part"),
    [("user", CALL), ("tool", Text("x")), ("assistant", Result("c1")), ("user", Result("c1")), ("system", CALL)],
)
def test_part_in_the_wrong_place_is_refused(role: Any, part: Any) -> None:
    """Calls belong to the assistant, results to the tool, and to nobody else."""
    with pytest.raises(BadArgument, match="message"):
        Message(role, [part])


def test_wrong_values_are_refused() -> None:
    """A role, a status, an image or a part that does not exist is told at once."""
    with pytest.raises(ValueError, match="role"):
        Message("robot", "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="status"):
        Result("c1", "x", "maybe")  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="not both"):
        Image(data="aa", url="http://x/y.png")
    with pytest.raises(TypeError, match="a part of a message is"):
        Message("user", [3])  # type: ignore[list-item]


@pytest.mark.parametrize("given", [{"a": 1}, b"x", bytearray(b"x"), 3, None])
def test_values_are_no_parts(given: Any) -> None:
    """A dict is not taken for its keys, nor bytes for numbers; arguments in JSON are read before."""
    with pytest.raises(TypeError, match="is text or parts in a list, not "):
        Message.user(given)
    if given is not None:  # nothing to say
        with pytest.raises(TypeError, match="is text or parts in a list, not "):
            Result("a", given)
    for wrong in ('{"a": 1}', None, 3, [1]):
        with pytest.raises(TypeError, match="the arguments of a call are a dict, not "):
            Call("a", "look", wrong)


def test_result_is_never_empty() -> None:
    """A result without content tells what its status says."""

    assert STATUS_WORDS["cancelled_unknown"] == Result("c1", status="cancelled_unknown").text
    assert "done, with no output" == Result("c1", "").text
    assert STATUS_WORDS["cancelled_unknown"].startswith("cancelled, outcome unknown")
    assert STATUS_WORDS["not_started"].startswith("stopped before it started")
    assert [False, True] == [Result("c1", "x", status).is_error for status in ("completed", "denied")]


def test_marks_decide_what_is_fed() -> None:
    """A partial, an unanswered and a discarded message are in no feed; the others are."""
    said = Message.assistant("half")
    kinds: list[Any] = ["partial", "unanswered", "discarded", "closing", "compacted"]

    assert [False, False, False, True, True] == [said.marked(Mark(kind)).is_fed for kind in kinds]
    assert said.marked(Mark("partial")) == said.marked(Mark("partial")).marked(Mark("partial"))
    assert said.is_fed


def test_message_survives_being_stored() -> None:
    """Through JSON and back it is the same message, with every kind of part and mark."""
    said = [
        Message("user", ["see", Image(data="aGk=")], [Mark("partial", "user", "ann", "enough", "r1")]),
        Message.assistant([Opaque("anthropic", {"type": "thinking", "signature": "s"}), "so", Call("c", "t", {}, "{")]),
        Message.tool(Result("c", ["seen", Image(url="http://x/1")], "failed", "t"), Result("d")),
    ]
    stored = json.loads(json.dumps([one.as_dict() for one in said]))

    assert said == [Message.from_dict(one) for one in stored]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"role": "user"},
        {"role": "user", "parts": [{"kind": "film"}], "marks": []},
        {"role": "user", "parts": [3], "marks": []},
        {"role": "user", "parts": [{"kind": "text"}], "marks": [{"kind": "partial", "colour": 1}]},
    ],
)
def test_stored_nonsense_is_refused(given: Any) -> None:
    """What as_dict never made is no message, and the error says so."""
    with pytest.raises(BadArgument, match="no message as as_dict makes it"):
        Message.from_dict(given)


def test_plain_values_become_messages() -> None:
    """A text is the user's; a pair has its role; a message stays itself; a provider's dict is not guessed at."""

    assert Message.user("hi") == message_of("hi")
    assert [Message.system("be brief"), Message.user("hi")] == messages_of([("system", "be brief"), "hi"])
    assert [] == messages_of(None)
    assert [Message.user("hi")] == messages_of("hi")
    assert Message.user("hi") == message_of(Message.user("hi").as_dict())
    with pytest.raises(TypeError, match=r"turnctl\.agent\.wires"):
        message_of({"role": "user", "content": "hi"})


def test_plain_values_become_replies() -> None:
    """A text, a call or several are a reply; its stop says whether it wants something done."""
    reply = Reply(Message.assistant("x"), "length")

    assert reply is reply_of(reply)
    assert Reply(Message.assistant("done")) == reply_of("done")
    assert "calls" == reply_of(CALL).stop
    assert Message.assistant("so", [CALL]) == reply_of(["so", CALL]).message
    for wrong in (Message.user("x"), {"role": "assistant"}, None, []):
        with pytest.raises(TypeError, match="a model gives"):
            reply_of(wrong)


def test_calls_of_a_reply_have_ids_of_their_own() -> None:
    """A model that gives one id twice, or none, gets its calls told apart; one that does well is not touched."""
    reply = Reply(Message.assistant(["so", CALL, CALL, Call("", "look")]), "calls", Usage(1, 2), "m")
    found = reply_of(reply)

    assert ["c1", "c1-2", "call"] == [call.id for call in found.message.calls]
    assert ("so", "calls", Usage(1, 2), "m") == (found.message.text, found.stop, found.usage, found.model)
    assert found is reply_of(found)


def test_usage_adds_up() -> None:
    """Tokens add; a cost that is not known stays so, and one that is known is kept."""

    assert Usage(3, 5, 1) == Usage(1, 2, 1) + Usage(2, 3)
    assert 0.5 == (Usage(cost=0.5) + Usage(1, 1)).cost
    assert 8 == Usage(3, 5).total_tokens
