"""What the objects of a provider's client say, be they of its SDK or plain dicts.

Pure. No client is imported anywhere in here: an object is known by what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from turnctl.errors import BadArgument
from turnctl.records.messages import STATUS_WORDS, ResultStatus

__all__ = ["closing", "spec_of", "status_of"]

_STATUS_OF = {words: status for status, words in STATUS_WORDS.items()}


def status_of(text: str, *, is_error: bool = False) -> ResultStatus:
    """What a result says of its call: by turnctl's own words, or as the wire marks it."""
    return _STATUS_OF.get(text, "failed" if is_error else "completed")


@contextmanager
def closing(source: Any) -> Iterator[Any]:
    """A stream that is closed however it is left: what it holds of a connection goes with it."""
    try:
        yield source
    finally:
        close = getattr(source, "close", None)
        if callable(close):
            close()


def spec_of(tool: Any) -> tuple[str, str, dict[str, Any]] | None:
    """Name, description and schema of a ``Tool`` or of what has these; None for a dict, which is passed on as it is."""
    if isinstance(tool, Mapping):
        return None
    name, schema = getattr(tool, "name", None), getattr(tool, "schema", None)
    if not isinstance(name, str) or not isinstance(schema, Mapping):
        raise BadArgument(f"a tool has a name and a schema, as turnctl.agent.Tool does, or is a dict, not {tool!r}")
    return name, str(getattr(tool, "description", "") or ""), dict(schema)
