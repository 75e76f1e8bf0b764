"""Any history made such that its provider takes it: each call has one result, at the place where it is looked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from turnctl.agent.closing import anthropic, openai, responses
from turnctl.agent.closing.shapes import Shape, items_of, shape_among
from turnctl.agent.history import closed
from turnctl.errors import BadArgument, BadHistory
from turnctl.records.messages import RESULT_STATUSES, Message, ResultStatus

__all__ = ["close_calls"]

_CLOSERS = {"openai": openai.close, "anthropic": anthropic.close, "responses": responses.close}


def close_calls(
    messages: Iterable[Any],
    *,
    shape: Shape | None = None,
    statuses: Mapping[str, ResultStatus] | None = None,
    open_as: ResultStatus = "cancelled_unknown",
) -> list[Any]:
    """``messages`` with exactly one result for each call of the assistant, in order, before its next message.

    Takes the shape of OpenAI's chat (``tool_calls``, the older ``function_call``), of Anthropic's messages and of
    OpenAI's responses, as dicts or objects of the SDKs, and messages of ``turnctl.agent``; ``shape`` says which where
    only text would have to tell. A call without a result gets one that says what ``statuses`` knows of it by its id,
    or else ``open_as``: "cancelled, outcome unknown", "stopped before it started". A result that answers nothing, or
    a second time, is dropped; one in another place is moved; blank text and messages of nothing else are dropped, and
    a blank result says that there was no output. Ids that are missing, or that the provider would not take twice, are
    made new, with those of their results. All else stays, in its order: items that are right are the same objects.

    Pure: what is given is not changed. A second pass changes nothing. What cannot be read, or cannot be closed
    honestly, raises ``BadHistory``, which names the place. It does not look at what the texts say.
    """
    told = dict(statuses or {})
    for status in (*told.values(), open_as):
        if status not in RESULT_STATUSES:
            raise BadArgument(f"unknown status {status!r}; use {', '.join(RESULT_STATUSES)}")
    given: Any = messages
    if hasattr(messages, "__iter__") and not isinstance(messages, (str, bytes, Mapping)):
        given = list(messages)
    if isinstance(given, list) and any(isinstance(one, Message) for one in given):
        if not all(isinstance(one, Message) for one in given):
            raise BadHistory("this history mixes messages of turnctl.agent with a provider's; make them of one kind")
        return list(closed(given, statuses=told, open_as=open_as))
    items_given, items = items_of(given)
    return _CLOSERS[shape_among(items, shape) or "openai"](items_given, items, told, open_as)
