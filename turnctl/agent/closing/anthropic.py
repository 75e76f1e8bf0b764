"""A history in the shape of Anthropic's messages, closed: ``tool_use`` blocks, and ``tool_result`` in what follows.

All results of a message stand in the one message of the user that follows it, before anything else in there. Blocks of
other kinds, thinking with its signature above all, stay as they are: also server tools, whose results are their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from turnctl.agent.closing.matching import Calls, Place, ResultAt, is_made_up, match
from turnctl.agent.closing.shapes import Item, blocks_of, is_blank
from turnctl.agent.naming import LONGEST_ID, fresh, short
from turnctl.errors import BadHistory
from turnctl.records.messages import STATUS_WORDS, ResultStatus

__all__ = ["close", "is_empty_result"]

_LONGEST = LONGEST_ID["anthropic"]
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")


def close(given: list[Any], items: list[Item], told: Mapping[str, ResultStatus], open_as: ResultStatus) -> list[Any]:
    """The history with one result for each call, in the message after it and in its order."""
    contents = [_read(n, item) for n, item in enumerate(items)]
    events: list[Calls | ResultAt] = []
    for n, blocks in enumerate(contents):
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        if uses:
            events.append(Calls(n, tuple(str(block.get("id") or "") for block in uses)))
        events.extend(
            ResultAt(Place(n, k), str(block.get("tool_use_id") or ""), _tells_nothing(block))
            for k, block in enumerate(blocks)
            if block.get("type") == "tool_result"
        )
    pairs = match(events)
    taken: set[str] = set()
    closed: list[Any] = []
    waiting: list[Item] = []  # results that are to stand at the head of the next message
    for n, (item, blocks) in enumerate(zip(items, contents, strict=True)):
        rest, ids = _renamed([block for block in blocks if not _goes(block)], taken)
        is_host = item["role"] == "user" and any(block.get("type") == "tool_result" for block in blocks)
        if waiting and not is_host:
            closed.append({"role": "user", "content": waiting})
            waiting = []
        whole = _whole(given[n], item, blocks, [*waiting, *rest])
        waiting = []
        if whole is not None:
            closed.append(whole)
        for k, (new, old) in enumerate(ids):
            at = pairs.get(Place(n, k))
            if at is None:
                waiting.append(_made(new, told.get(old, told.get(new, open_as))))
            else:
                waiting.append(_filled(contents[at.item][at.n], new))
    if waiting:
        closed.append({"role": "user", "content": waiting})
    return closed


def _read(n: int, item: Item) -> list[Item]:
    where, role = f"messages[{n}]", item.get("role")
    if role not in ("user", "assistant"):
        more = "; the system prompt is a parameter of its own" if role == "system" else ""
        raise BadHistory(f"{where} has the role {role!r}; use user or assistant{more}")
    blocks = blocks_of(item, where)
    for k, block in enumerate(blocks):
        place = f"{where}.content[{k}]"
        if block.get("type") == "tool_use":
            if role != "assistant":
                raise BadHistory(f"{place} is a tool_use in a message of the user; those are the assistant's")
            if is_blank(block.get("name")):
                raise BadHistory(f"{place} does not name the tool that is used: {block!r}")
            if not isinstance(block.get("input"), Mapping):
                raise BadHistory(f"{place} has an input that is not an object: {block.get('input')!r}")
        if block.get("type") == "tool_result":
            inner = block.get("content")
            if inner is not None and not isinstance(inner, (str, list, tuple)):
                raise BadHistory(f"{place} has content that is neither text nor a list of blocks: {inner!r}")
    return blocks


def _goes(block: Item) -> bool:
    """Whether it does not stay where it is: a result, or text that says nothing."""
    return block.get("type") == "tool_result" or (block.get("type") == "text" and is_blank(block.get("text")))


def _renamed(blocks: list[Item], taken: set[str]) -> tuple[list[Item], list[tuple[str, str]]]:
    """The blocks with ids that the provider takes, each once, and for each use its id and the one that it had."""
    found, ids = [], []
    for block in blocks:
        if block.get("type") != "tool_use":
            found.append(block)
            continue
        old = str(block.get("id") or "")
        new = fresh(_NOT_IN_IDS.sub("_", short(old, _LONGEST, signed=False)) or "call", taken, _LONGEST)
        ids.append((new, old))
        found.append(block if new == block.get("id") else {**block, "id": new})
    return found, ids


def _whole(given: Any, item: Item, before: list[Item], after: list[Item]) -> Any:
    """The message with these blocks: as it was given where they are the same, None where nothing is left."""
    content = item.get("content")
    if content is None or isinstance(content, str):
        if not after:
            return None if is_blank(content) else _as_given(given, item)
        return {**item, "content": [*after, *([] if is_blank(content) else [{"type": "text", "text": content}])]}
    if not after:
        return None
    return _as_given(given, item) if after == before else {**item, "content": after}


def _as_given(given: Any, item: Item) -> Any:
    """A dict as it is; of an SDK's whole message what the provider takes back, which is its role and its content."""
    return given if isinstance(given, Mapping) else {"role": item["role"], "content": item["content"]}


def is_empty_result(block: Item) -> bool:
    """Whether the content of a result says nothing."""
    content = block.get("content")
    if content is None or isinstance(content, str):
        return is_blank(content)
    return all(one.get("type") == "text" and is_blank(one.get("text")) for one in blocks_of(block, "a tool_result"))


def _tells_nothing(block: Item) -> bool:
    content = block.get("content")
    if isinstance(content, str) or content is None:
        return is_made_up(content)
    inner = blocks_of(block, "a tool_result")
    return len(inner) == 1 and is_made_up(inner[0].get("text"))


def _filled(block: Item, use: str) -> Item:
    found = dict(block)
    if block.get("tool_use_id") != use:
        found["tool_use_id"] = use
    if is_empty_result(block):
        found["content"] = STATUS_WORDS["failed" if block.get("is_error") else "completed"]
    elif not isinstance(block["content"], str):
        inner = blocks_of(block, "a tool_result")
        if any(_goes(one) for one in inner):
            found["content"] = [one for one in inner if not _goes(one)]
    return found


def _made(use: str, status: ResultStatus) -> Item:
    is_error = status != "completed"
    return {"type": "tool_result", "tool_use_id": use, "content": STATUS_WORDS[status], "is_error": is_error}
