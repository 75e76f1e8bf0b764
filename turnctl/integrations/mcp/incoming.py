"""What a client has sent, told apart: requests, notifications, replies, and what is none of them. Pure."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, NoReturn

from turnctl.integrations.mcp.protocol import key_of
from turnctl.records.mcp import RequestId

__all__ = [
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE",
    "STOPPED",
    "Bad",
    "Call",
    "Message",
    "Note",
    "Reply",
    "encode",
    "error_message",
    "parse",
    "result_message",
    "tell_apart",
]

PARSE, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
#: a request that was stopped by something else than a cancel of its client; the number is that of the like in LSP
STOPPED = -32800


class Call(NamedTuple):
    """A request."""

    id: RequestId
    method: str
    params: dict[str, Any]


class Note(NamedTuple):
    """A notification; its params may be anything."""

    method: str
    params: Any


class Reply(NamedTuple):
    """A response to a request of ours, of which there are none."""

    id: Any


class Bad(NamedTuple):
    """What is to be answered with an error; ``id`` is None where none could be made out."""

    code: int
    message: str
    id: RequestId | None = None


Message = Call | Note | Reply | Bad


def parse(data: bytes) -> list[Message]:
    """The messages of one line or body; a batch is taken as its messages."""
    try:
        found = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return [Bad(PARSE, f"not JSON: {error}")]
    if isinstance(found, list):
        return [tell_apart(one) for one in found] or [Bad(INVALID_REQUEST, "an empty batch")]
    return [tell_apart(found)]


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def tell_apart(found: Any) -> Message:
    """One message, from what its JSON says."""
    if not isinstance(found, dict):
        return Bad(INVALID_REQUEST, f"a message is an object, not {_kind(found)}")
    method = found.get("method")
    if method is None and ("result" in found or "error" in found):
        return Reply(found.get("id"))
    key = key_of(found.get("id"))
    if not isinstance(method, str):
        return Bad(INVALID_REQUEST, "a request needs a method, which is a string", None if key is None else key[1])
    if "id" not in found:
        return Note(method, found.get("params"))
    if key is None:
        return Bad(INVALID_REQUEST, f"the id of a request is a string or a whole number, not {_kind(found['id'])}")
    if _has_half(found["id"]):
        return Bad(INVALID_REQUEST, "the id of a request has half of a pair of surrogates, which cannot be sent back")
    params = found.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return Bad(INVALID_PARAMS, f"params of {method} are an object, not {_kind(params)}", key[1])
    return Call(key[1], method, params)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def result_message(request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    """The response to a request that came to something."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(
    request_id: RequestId | None, code: int, message: str, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The response to one that did not."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def _has_half(value: Any) -> bool:
    """Whether ``value`` is a text with half of a pair of surrogates, which UTF-8 has no bytes for."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


def encode(message: dict[str, Any]) -> bytes:
    """The message as one line, without its end; never raises.

    A message that JSON has no words for becomes an error with its id: whoever waits for it is told. Half of a pair of
    surrogates, as in the name of a file that is no UTF-8, becomes U+FFFD: readers refuse the whole line otherwise.
    """
    try:
        return _line(message)
    except (TypeError, ValueError, RecursionError) as error:
        text = f"what it came to is nothing that JSON has: {type(error).__name__}: {error}"
        return _line(error_message(message.get("id"), INTERNAL, text))


def _line(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
