"""Messages and replies as the loop, its models and its tools speak them; how plain values become such.

Pure: nothing here blocks, and no function is a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turnctl.agent.counting import counted
from turnctl.agent.encodable import is_sendable, well_formed
from turnctl.agent.naming import fresh
from turnctl.records.messages import (
    RESULT_STATUSES,
    ROLES,
    STATUS_WORDS,
    Call,
    Image,
    Mark,
    MarkKind,
    Message,
    Opaque,
    Part,
    Result,
    ResultStatus,
    Role,
    Text,
)
from turnctl.records.replies import STOPS, CallDelta, Delta, Reply, ReplyStop, TextDelta, ThinkingDelta, Usage

__all__ = [
    "RESULT_STATUSES",
    "ROLES",
    "STATUS_WORDS",
    "STOPS",
    "Call",
    "CallDelta",
    "Delta",
    "Image",
    "Mark",
    "MarkKind",
    "Message",
    "Opaque",
    "Part",
    "Reply",
    "ReplyStop",
    "Result",
    "ResultStatus",
    "Role",
    "Text",
    "TextDelta",
    "ThinkingDelta",
    "Usage",
    "message_of",
    "messages_of",
    "reply_of",
]


def message_of(given: Any) -> Message:
    """``given`` as a message: one already, a text (of the user), a tuple (role, text), or what ``as_dict`` gave."""
    if isinstance(given, Message):
        return given
    if isinstance(given, str):
        return Message.user(given)
    if isinstance(given, tuple) and len(given) == 2:
        return Message(given[0], given[1])
    if isinstance(given, Mapping) and "parts" in given:
        return Message.from_dict({"marks": (), **given})
    raise TypeError(
        f"a message is a Message, a text or (role, text), not {given!r}; a history in the shape of a provider is read "
        "by turnctl.agent.wires"
    )


def messages_of(given: Iterable[Any] | Mapping[str, Any] | str | Message | None) -> list[Message]:
    """``given`` as messages: several, one, or none. A tuple of (role, text) by itself is two texts."""
    if given is None:
        return []
    if isinstance(given, (str, Message, Mapping)):
        return [message_of(given)]
    if not isinstance(given, Iterable):
        raise TypeError(f"a message is a Message, a text or (role, text), or several in a list, not {given!r}")
    return [message_of(one) for one in given]


def reply_of(given: Any) -> Reply:
    """What a model gave, as a reply: one already, a message, a text, or a ``Call`` or several.

    Each call can be told, sent and kept afterwards: it has an id of its own, made new where it is missing or comes
    twice, a name that is text, and arguments that JSON has; others stay as the text that shows them, in ``raw``. Its
    usage can be added up (``agent.counting``).
    """
    if isinstance(given, Reply):
        held: Any = given.message
        if isinstance(held, Message) and held.role == "assistant":
            return _sound(given, held.calls)
    if not isinstance(given, Message):
        pieces = given if isinstance(given, (list, tuple)) else [given]
        if pieces and all(isinstance(one, (str, Call)) for one in pieces):
            given = Message.assistant(pieces)
    if not isinstance(given, Message) or given.role != "assistant":
        raise TypeError(
            "a model gives a Reply, a Message of the assistant, a text or calls, not "
            f"{given!r}; wrap a client of a provider with turnctl.agent.wires"
        )
    calls = given.calls
    return _sound(Reply(given, stop="calls" if calls else "end"), calls)


def _sound(reply: Reply, calls: tuple[Call, ...]) -> Reply:
    reply = counted(reply)
    if not calls:
        return reply
    ids: list[Any] = [call.id for call in calls]
    if len({one for one in ids if isinstance(one, str) and one}) == len(calls) and all(map(_is_sound, calls)):
        return reply
    message, taken = reply.message, set[str]()
    parts = [_mended(part, taken) if isinstance(part, Call) else part for part in message.parts]
    made = Message(message.role, parts, message.marks)
    return Reply(made, reply.stop, reply.usage, reply.model, reply.id, reply.raw_stop, reply.notes)


def _is_sound(call: Call) -> bool:
    return is_sendable(call.arguments) and isinstance(call.name, str)


def _mended(call: Call, taken: set[str]) -> Call:
    call_id = fresh(str(call.id) if call.id else "call", taken)
    given: Any = call.name
    name = given if isinstance(given, str) else ""
    if _is_sound(Call(call_id, name, call.arguments)):
        return Call(call_id, name, call.arguments, call.raw)
    return Call(call_id, name, {}, call.raw or _shown(call.arguments))


def _shown(arguments: Mapping[str, Any]) -> str:
    try:
        return well_formed(repr(arguments))
    except Exception:  # noqa: BLE001 - a value that cannot be shown either
        return "(what cannot be shown)"
