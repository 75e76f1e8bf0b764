"""The calls of a reply as a model writes them: pieces of JSON that come one after the other, or a text that is none.

Pure, but for ``Calling``, which is for one thread.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from turnctl.agent.encodable import sendable, well_formed
from turnctl.agent.naming import fresh
from turnctl.records.messages import Call
from turnctl.records.replies import CallDelta

__all__ = ["Calling", "arguments_of", "call_of"]


def call_of(call_id: str, name: str, arguments: Any) -> Call:
    """A call with its arguments read; what is no JSON object, or none that can be sent, stays as the text it was."""
    given = dict(arguments) if isinstance(arguments, Mapping) else str(arguments or "")
    try:
        found = sendable(json.loads(given or "{}") if isinstance(given, str) else given)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return Call(call_id, name, found)
    return Call(call_id, name, {}, well_formed(given if isinstance(given, str) else repr(given)))


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments of a call as they can be sent; empty where they cannot, as those are that were no JSON object."""
    try:
        found: dict[str, Any] = sendable(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return found


class Calling:
    """The calls of a reply that comes in pieces, in the order in which they began.

    Servers differ: some give the id with each piece, some give every call the same index, some give no id.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._names: list[str] = []
        self._texts: list[list[str]] = []
        self._at: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, key: Any, call_id: str | None, name: str | None, arguments: str) -> CallDelta:
        """One piece; ``key`` is what the wire tells calls apart by. What is new in it, for whoever watches."""
        n = self._at.get(key)
        if n is None or (call_id and self._ids[n] and call_id != self._ids[n]):
            n = self._at[key] = len(self._ids)
            self._ids.append("")
            self._names.append("")
            self._texts.append([])
        new_id = call_id if call_id and not self._ids[n] else None
        new_name = name if name and not self._names[n] else None
        self._ids[n] = self._ids[n] or call_id or ""
        self._names[n] = self._names[n] or name or ""
        self._texts[n].append(arguments)
        return CallDelta(n, new_id, new_name, arguments)

    def calls(self) -> list[Call]:
        """All of them as they stand, each with an id of its own."""
        taken: set[str] = set()
        read = zip(self._ids, self._names, self._texts, strict=True)
        return [call_of(fresh(one or "call", taken), name, "".join(texts)) for one, name, texts in read]
