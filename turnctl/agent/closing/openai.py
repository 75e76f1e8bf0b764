"""A history in the shape of OpenAI's chat, closed: ``tool_calls`` with ``role: tool``, and the older ``function_call``.

``content`` may be empty beside calls, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnctl.agent.closing.matching import Calls, Place, ResultAt, is_made_up, match
from turnctl.agent.closing.shapes import Item, blocks_of, is_blank, plain, without_none
from turnctl.agent.naming import LONGEST_ID, fresh, short
from turnctl.errors import BadHistory
from turnctl.records.messages import STATUS_WORDS, ResultStatus

__all__ = ["ROLES", "calls_of", "close", "is_empty"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_RESULTS = ("tool", "function")
_LONGEST = LONGEST_ID["openai"]
Key = tuple[str, str]


def calls_of(item: Item, where: str) -> list[Item]:
    """The ``tool_calls`` of an item, each as a dict. Raises ``BadHistory`` for what is none."""
    given = item.get("tool_calls")
    if given is None:
        return []
    if isinstance(given, (str, Mapping)) or not hasattr(given, "__iter__"):
        raise BadHistory(f"{where}.tool_calls is not a list: {given!r}")
    found = []
    for n, one in enumerate(given):
        place = f"{where}.tool_calls[{n}]"
        call = plain(one, place)
        inner = call.get("custom" if call.get("type") == "custom" else "function")
        told = None if inner is None else plain(inner, f"{place}.function")
        if told is None or is_blank(told.get("name")):
            raise BadHistory(f"{place} does not name the function that is called: {call!r}")
        if call.get("type") != "custom" and not isinstance(told.get("arguments"), str):
            raise BadHistory(f"{place} has arguments that are not JSON text: {told.get('arguments')!r}")
        found.append(call)
    return found


def _function_of(item: Item, where: str) -> str | None:
    given = item.get("function_call")
    if given is None:
        return None
    name = plain(given, f"{where}.function_call").get("name")
    if is_blank(name):
        raise BadHistory(f"{where}.function_call does not name the function that is called: {given!r}")
    return str(name)


def is_empty(item: Item, where: str) -> bool:
    """Whether the content of an item says nothing, be it text or parts."""
    content = item.get("content")
    if content is None or isinstance(content, str):
        return is_blank(content)
    return all(_says_nothing(block) for block in blocks_of(item, where))


def _says_nothing(block: Item) -> bool:
    return block.get("type") in ("text", "refusal") and is_blank(block.get(block["type"]))


def _key_of(item: Item) -> Key:
    if item["role"] == "function":
        return ("function", str(item.get("name") or ""))
    return ("tool", str(item.get("tool_call_id") or ""))


def close(given: list[Any], items: list[Item], told: Mapping[str, ResultStatus], open_as: ResultStatus) -> list[Any]:
    """The history with one result for each call, directly after its message and in its order."""
    events: list[Calls | ResultAt] = []
    calls: dict[int, list[Item]] = {}
    functions: dict[int, str] = {}
    for n, item in enumerate(items):
        where, role = f"messages[{n}]", item.get("role")
        if role not in ROLES:
            raise BadHistory(f"{where} has the role {role!r}; use {', '.join(ROLES)}")
        if role in _RESULTS:
            events.append(ResultAt(Place(n, 0), _key_of(item), is_made_up(item.get("content"))))
            blocks_of(item, where)
            continue
        found, function = calls_of(item, where), _function_of(item, where)
        if (found or function) and role != "assistant":
            raise BadHistory(f"{where} has calls and the role {role!r}; those are the assistant's")
        if found and function:
            raise BadHistory(f"{where} has tool_calls and function_call; a message has one or the other")
        if function is not None:
            functions[n] = function
            events.append(Calls(n, (("function", function),)))
        elif found:
            calls[n] = found
            events.append(Calls(n, tuple(("tool", str(call.get("id") or "")) for call in found)))
    pairs = match(events)
    closed: list[Any] = []
    for n, item in enumerate(items):
        if item["role"] in _RESULTS:
            continue
        if n in calls:
            closed.extend(_with_results(n, given, items, calls[n], pairs, told, open_as))
            continue
        whole = _without_blanks(item, given[n], n in functions, f"messages[{n}]")
        if whole is not None:
            closed.append(whole)
        if n in functions:
            name = functions[n]
            at = pairs.get(Place(n, 0))
            made = {"role": "function", "name": name, "content": STATUS_WORDS[told.get(name, open_as)]}
            closed.append(made if at is None else _filled(given[at.item], items[at.item], f"messages[{at.item}]"))
    return closed


def _with_results(
    n: int,
    given: list[Any],
    items: list[Item],
    calls: list[Item],
    pairs: Mapping[Place, Place],
    told: Mapping[str, ResultStatus],
    open_as: ResultStatus,
) -> list[Any]:
    taken: set[str] = set()
    ids = [fresh(short(str(call.get("id") or "") or "call", _LONGEST), taken, _LONGEST) for call in calls]
    whole = _without_blanks(items[n], given[n], True, f"messages[{n}]")
    if ids != [call.get("id") for call in calls]:
        named = [{**call, "id": one} for call, one in zip(calls, ids, strict=True)]
        whole = {**_as_item(whole, items[n]), "tool_calls": named}
    found: list[Any] = [whole]
    for k, one in enumerate(ids):
        at = pairs.get(Place(n, k))
        if at is None:
            status = told.get(one, told.get(str(calls[k].get("id")), open_as))
            found.append({"role": "tool", "tool_call_id": one, "content": STATUS_WORDS[status]})
            continue
        result = _filled(given[at.item], items[at.item], f"messages[{at.item}]")
        if items[at.item].get("tool_call_id") != one:
            result = {**_as_item(result, items[at.item]), "tool_call_id": one}
        found.append(result)
    return found


def _as_item(whole: Any, item: Item) -> Item:
    return dict(whole) if isinstance(whole, Mapping) else without_none(item)


def _filled(given: Any, item: Item, where: str) -> Any:
    """A result as it was given, unless it says nothing."""
    if not is_empty(item, where):
        return _without_blanks(item, given, False, where)
    return {**item, "content": STATUS_WORDS["completed"]}


def _without_blanks(item: Item, given: Any, has_calls: bool, where: str) -> Any:
    """The item as it was given, without parts that say nothing; None if nothing of it is left."""
    changed = dict(item)
    if "tool_calls" in item and item["tool_calls"] is not None and not list(item["tool_calls"]):
        del changed["tool_calls"]
    if is_empty(item, where):
        speaks = not is_blank(item.get("refusal")) or item.get("audio") is not None
        if not has_calls and not speaks:
            return None
        if item.get("content") is not None:
            changed["content"] = None
    elif not isinstance(item["content"], str):
        blocks = blocks_of(item, where)
        if any(_says_nothing(block) for block in blocks):
            changed["content"] = [block for block in blocks if not _says_nothing(block)]
    return given if changed == item else changed
