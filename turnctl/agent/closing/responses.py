"""A history of items in the shape of OpenAI's responses, closed: ``function_call`` and ``function_call_output``.

What the model gave at once (reasoning, messages, calls) stays together, and the outputs of its calls follow it, in the
order of the calls. Calls whose output nobody can make up, such as one for a picture of the screen, are refused if they
are open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnctl.agent.closing.matching import Calls, Place, ResultAt, is_made_up, match
from turnctl.agent.closing.shapes import Item, blocks_of, is_blank, without_none
from turnctl.agent.naming import LONGEST_ID, fresh, short
from turnctl.errors import BadHistory
from turnctl.records.messages import STATUS_WORDS, ResultStatus

__all__ = ["CALLS", "close", "is_of_the_model", "says_nothing"]

#: the type of output that each type of call wants
CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
_ROLES = ("user", "assistant", "system", "developer")
_CAN_BE_MADE = ("function_call", "custom_tool_call")
_LONGEST = LONGEST_ID["responses"]
_OUTPUTS = {output: call for call, output in CALLS.items()}


def is_of_the_model(item: Item) -> bool:
    """Whether the model gave it: what comes at once is one reply."""
    kind = item.get("type") or "message"
    if kind == "message":
        return item.get("role") == "assistant"
    return kind not in _OUTPUTS and kind != "mcp_approval_response"


def says_nothing(item: Item, where: str) -> bool:
    """Whether it is a message without content; other items are what they are."""
    if (item.get("type") or "message") != "message":
        return False
    content = item.get("content")
    if content is None or isinstance(content, str):
        return is_blank(content)
    return all("text" in block and is_blank(block["text"]) for block in blocks_of(item, where))


def close(given: list[Any], items: list[Item], told: Mapping[str, ResultStatus], open_as: ResultStatus) -> list[Any]:
    """The items with one output for each call, after the reply that the call is in and in its order."""
    events: list[Calls | ResultAt] = []
    replies = _replies(items)
    for reply in replies:
        keys = tuple((str(items[n]["type"]), str(items[n].get("call_id") or "")) for n in reply if _is_call(items[n]))
        if keys:
            events.append(Calls(reply[0], keys))
        for n in reply:
            kind = str(items[n].get("type"))
            if kind in _OUTPUTS:
                key = (_OUTPUTS[kind], str(items[n].get("call_id") or ""))
                events.append(ResultAt(Place(n, 0), key, is_made_up(items[n].get("output"))))
    pairs = match(events)
    taken: set[str] = set()
    closed: list[Any] = []
    for reply in replies:
        outputs: list[Any] = []
        for n in reply:
            item = items[n]
            if item.get("type") in _OUTPUTS or says_nothing(item, f"messages[{n}]"):
                continue
            if not _is_call(item):
                closed.append(given[n])
                continue
            old = str(item.get("call_id") or "")
            new = fresh(short(old or "call", _LONGEST), taken, _LONGEST)
            closed.append(given[n] if new == item.get("call_id") else {**item, "call_id": new})
            at = pairs.get(Place(reply[0], len(outputs)))
            if at is None:
                outputs.append(_made(item, new, told.get(old, told.get(new, open_as)), n))
            else:
                outputs.append(_filled(given[at.item], items[at.item], new))
        closed.extend(outputs)
    return closed


def _is_call(item: Item) -> bool:
    return item.get("type") in CALLS


def _replies(items: list[Item]) -> list[list[int]]:
    """The numbers of items, those that the model gave at once together and each other by itself."""
    found: list[list[int]] = []
    goes_on = False
    for n, item in enumerate(items):
        if _is_call(item) and item["type"] in _CAN_BE_MADE and is_blank(item.get("name")):
            raise BadHistory(f"messages[{n}] does not name the function that is called: {item!r}")
        if item.get("type", "message") == "message" and item.get("role") not in _ROLES:
            raise BadHistory(f"messages[{n}] has the role {item.get('role')!r}; use {', '.join(_ROLES)}")
        if item.get("type") == "item_reference":
            raise BadHistory(
                f"messages[{n}] stands for an item that only the provider has, so its calls cannot be seen; put the "
                "items themselves into the history"
            )
        is_ours = is_of_the_model(item)
        if is_ours and goes_on:
            found[-1].append(n)
        elif not (goes_on and says_nothing(item, f"messages[{n}]")):
            found.append([n])
            goes_on = is_ours
    return found


def _made(item: Item, call_id: str, status: ResultStatus, n: int) -> Item:
    kind = item["type"]
    if kind not in _CAN_BE_MADE:
        raise BadHistory(
            f"messages[{n}] is a {kind} without its {CALLS[kind]}, and none can be made up; answer it, or leave it out "
            "together with what the model said in that reply"
        )
    return {"type": CALLS[kind], "call_id": call_id, "output": STATUS_WORDS[status]}


def _filled(given: Any, item: Item, call_id: str) -> Any:
    output = item.get("output")
    is_empty = is_blank(output) if output is None or isinstance(output, str) else not output
    changed = {**item, "call_id": call_id, **({"output": STATUS_WORDS["completed"]} if is_empty else {})}
    return given if changed == item else without_none(changed)
