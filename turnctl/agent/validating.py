"""Whether a provider would take a history, strictly: what the tests of a host may ask of every history it ever keeps.

Stricter than the providers are where they differ or have changed: each call of the assistant has exactly one result, in
order, before anything else; no content is blank; ids, names and arguments are of the kind that each wants. It shares
nothing with what repairs histories but the reading of dicts and objects of the SDKs, and how long an id may be. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from turnctl.agent.closing.shapes import Item, Shape, blocks_of, is_blank, items_of, plain, shape_among
from turnctl.agent.naming import LONGEST_ID, is_too_long
from turnctl.errors import BadHistory

__all__ = ["history_problems", "validate_history"]

_ROLES = {
    "openai": ("system", "developer", "user", "assistant", "tool", "function"),
    "anthropic": ("user", "assistant"),
    "responses": ("system", "developer", "user", "assistant"),
}
_OUTPUT_OF = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")


def validate_history(messages: Iterable[Any], *, shape: Shape | None = None, alternate: bool = False) -> None:
    """Raise ``BadHistory`` unless ``messages`` are such that their provider would take them; it lists every problem.

    ``shape`` says which provider's they are where only text would have to tell. With ``alternate`` the user begins,
    and roles take turns, as some that serve Anthropic's models want; the wires of ``turnctl.agent`` do not promise it.
    """
    if problems := history_problems(messages, shape=shape, alternate=alternate):
        raise BadHistory(f"this history would not be taken: {'; '.join(problems)}", problems=tuple(problems))


def history_problems(messages: Iterable[Any], *, shape: Shape | None = None, alternate: bool = False) -> list[str]:
    """A line for each place that ``validate_history`` would raise for; none if all is well."""
    try:
        _, items = items_of(messages)
        found = shape_among(items, shape) or "openai"
        problems = list(_CHECKS[found](items))
    except BadHistory as error:
        return list(error.problems)
    if alternate:
        roles = [str(item.get("role")) for item in items]
        problems += [f"messages[0] is of the {roles[0]}; the user begins"] if roles and roles[0] != "user" else []
        problems += [f"messages[{n}] is of the {b} again" for n, (a, b) in enumerate(pairwise(roles), 1) if a == b]
    return problems


def _common(item: Item, where: str, shape: Shape) -> Iterable[str]:
    if item.get("role") not in _ROLES[shape]:
        yield f"{where} has the role {item.get('role')!r}"


# -- OpenAI's chat ------------------------------------------------------------------------------------------------


def _openai(items: list[Item]) -> Iterable[str]:
    wanted: list[tuple[str, str]] = []  # what has to come next, in order: (role, id or name)
    for n, item in enumerate(items):
        where, role = f"messages[{n}]", item.get("role")
        yield from _common(item, where, "openai")
        if role in ("tool", "function"):
            told = (str(role), str(item.get("tool_call_id" if role == "tool" else "name")))
            if not wanted:
                yield f"{where} is a result of {told[1]!r}, which nothing before it is waiting for"
            elif told != wanted.pop(0):
                yield f"{where} is a result of {told[1]!r}, where another call comes first"
            if not _speaks(item, where):
                yield f"{where} is a result without content"
            continue
        for _, missing in wanted:
            yield f"{where} comes before the result of {missing!r}"
        wanted = []
        if item.get("tool_calls") is not None:
            wanted = yield from _openai_calls(item, where)
        elif item.get("function_call") is not None:
            wanted = [("function", str(plain(item["function_call"], where).get("name")))]
        if wanted and role != "assistant":
            yield f"{where} has calls and is not of the assistant"
        if wanted and item.get("content") is not None and not _speaks(item, where):
            yield f"{where} has content that is blank"
        speaks = _speaks(item, where) or not is_blank(item.get("refusal")) or item.get("audio") is not None
        if not wanted and not speaks:
            yield f"{where} has no content"
    for _, missing in wanted:
        yield f"the history ends before the result of {missing!r}"


def _openai_calls(item: Item, where: str) -> Any:
    calls = [plain(one, f"{where}.tool_calls") for one in item["tool_calls"]]
    if not calls:
        yield f"{where} has an empty list of tool_calls"
    ids = [call.get("id") for call in calls]
    for n, call in enumerate(calls):
        if not isinstance(ids[n], str) or not ids[n] or ids.index(ids[n]) != n:
            yield f"{where}.tool_calls[{n}] has no id of its own"
        elif is_too_long(str(ids[n]), LONGEST_ID["openai"]):
            yield f"{where}.tool_calls[{n}] has an id of {len(str(ids[n]))} characters, where 40 are taken"
        told = plain(call.get("function") or call.get("custom") or {}, where)
        if is_blank(told.get("name")):
            yield f"{where}.tool_calls[{n}] names no function"
        if not isinstance(told.get("arguments", told.get("input")), str):
            yield f"{where}.tool_calls[{n}] has arguments that are no text"
    return [("tool", str(one)) for one in ids]


def _speaks(item: Item, where: str) -> bool:
    """Whether the content is text, or blocks each of which says something."""
    if isinstance(item.get("content"), str):
        return not is_blank(item["content"])
    blocks = blocks_of(item, where)
    return bool(blocks) and all("text" not in block or not is_blank(block["text"]) for block in blocks)


# -- Anthropic's messages -----------------------------------------------------------------------------------------


def _anthropic(items: list[Item]) -> Iterable[str]:
    seen: set[str] = set()
    wanted: list[str] = []
    for n, item in enumerate(items):
        where, role = f"messages[{n}]", item.get("role")
        yield from _common(item, where, "anthropic")
        blocks = blocks_of(item, where)
        if not _speaks(item, where):
            yield f"{where} has content that is blank"
        results = [k for k, block in enumerate(blocks) if block.get("type") == "tool_result"]
        told = [str(blocks[k].get("tool_use_id")) for k in results]
        if told != wanted:
            yield f"{where} has results of {told}, where {wanted} are called"
        if results and (role != "user" or results != list(range(len(results)))):
            yield f"{where} has results that are not the first in a message of the user"
        for k in results:
            content = blocks[k].get("content")
            if is_blank(content) if content is None or isinstance(content, str) else not _speaks(blocks[k], where):
                yield f"{where}.content[{k}] is a result without content"
        uses = [(k, block) for k, block in enumerate(blocks) if block.get("type") == "tool_use"]
        wanted = [str(block.get("id")) for _, block in uses]
        if wanted and role != "assistant":
            yield f"{where} has calls and is not of the assistant"
        for k, block in uses:
            use = block.get("id")
            if not isinstance(use, str) or not _USE_ID.fullmatch(use) or use in seen:
                yield f"{where}.content[{k}] has no id of its own"
            elif is_too_long(use, LONGEST_ID["anthropic"], signed=False):
                yield f"{where}.content[{k}] has an id of {len(use)} characters, where 64 are taken everywhere"
            seen.add(str(use))
            if is_blank(block.get("name")) or not isinstance(block.get("input"), Mapping):
                yield f"{where}.content[{k}] has no name, or an input that is no object"
    if wanted:
        yield f"the history ends before the results of {wanted}"


# -- OpenAI's responses -------------------------------------------------------------------------------------------


def _responses(items: list[Item]) -> Iterable[str]:
    open_calls: list[tuple[str, str]] = []  # of the reply that is being read
    is_answering = False
    seen: set[str] = set()
    for n, item in enumerate(items):
        where, kind = f"messages[{n}]", str(item.get("type") or "message")
        if kind.endswith("_output"):
            told = (kind, str(item.get("call_id")))
            is_answering = True
            if not open_calls or open_calls.pop(0) != told:
                yield f"{where} is an output of {told[1]!r}, which is not the one to come"
            output = item.get("output")
            if is_blank(output) if output is None or isinstance(output, str) else not output:
                yield f"{where} is an output without content"
            continue
        is_reply = item.get("role") == "assistant" if kind == "message" else True
        if open_calls and (is_answering or not is_reply):
            yield f"{where} comes before the output of {open_calls[0][1]!r}"
            open_calls = []
        is_answering = False
        if kind == "message":
            yield from _common(item, where, "responses")
            if not _speaks(item, where):
                yield f"{where} has content that is blank"
        if kind.endswith("_call") and (kind in _OUTPUT_OF or "call_id" in item):
            call_id = item.get("call_id")
            if not isinstance(call_id, str) or not call_id or call_id in seen:
                yield f"{where} has no call_id of its own"
            elif is_too_long(call_id, LONGEST_ID["responses"]):
                yield f"{where} has a call_id of {len(call_id)} characters, where 64 are taken"
            seen.add(str(call_id))
            open_calls.append((f"{kind}_output", str(call_id)))
            if kind in _OUTPUT_OF and is_blank(item.get("name")):
                yield f"{where} names no function"
    for _, missing in open_calls:
        yield f"the history ends before the output of {missing!r}"


_CHECKS = {"openai": _openai, "anthropic": _anthropic, "responses": _responses}
