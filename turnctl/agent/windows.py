"""What kind of failure an error of a model's client is, and above all: is it that the window cannot hold the messages.

The answer decides what becomes of a conversation, so it is read from what is meant for programs first: the class, the
code or type that the provider gave, the HTTP status. Text comes last, only of errors that a provider gave for a bad
request, and only the provider's own message: "context deadline exceeded" is a time-out of a transport and nothing else.

Pure, by attributes: no client is imported. Reads an error as OpenAI's, Anthropic's and litellm's clients, httpx,
requests and the standard library raise it, and what such an error was raised ``from``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from turnctl.errors import BadArgument, CancelledError, WindowExceeded

__all__ = ["ERROR_KINDS", "ErrorKind", "is_window", "kind_of"]

#: ``window``: the messages do not fit; ``rate_limit``, ``overloaded``, ``server``, ``timeout``, ``connection``: it may
#: pass by itself; ``auth``, ``invalid``, ``filtered``: it will not; ``cancelled``: a stop; ``other``: not known.
ErrorKind = Literal[
    "window",
    "rate_limit",
    "overloaded",
    "server",
    "timeout",
    "connection",
    "auth",
    "invalid",
    "filtered",
    "cancelled",
    "other",
]
ERROR_KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)

#: classes by name, so that no package is imported; the most exact one in the order of the class decides
_CLASSES: dict[str, ErrorKind] = {
    "ContextWindowExceededError": "window",  # litellm, whose other bases say less
    "ContextOverflowError": "window",
    "ContentPolicyViolationError": "filtered",
    "ContentFilterFinishReasonError": "filtered",
    "RateLimitError": "rate_limit",
    "OverloadedError": "overloaded",
    "APITimeoutError": "timeout",
    "DeadlineExceededError": "timeout",
    "DeadlineExceeded": "timeout",
    "TimeoutException": "timeout",
    "Timeout": "timeout",
    "TimeoutError": "timeout",
    "APIConnectionError": "connection",
    "ChunkedEncodingError": "connection",
    "IncompleteRead": "connection",
    "ProtocolError": "connection",
    "gaierror": "connection",
    "TransportError": "connection",
    "ConnectionError": "connection",
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
}
#: what providers and servers of models write into ``code`` or ``type``
_CODES: dict[str, ErrorKind] = {
    "context_length_exceeded": "window",
    "model_context_window_exceeded": "window",
    "exceed_context_size_error": "window",
    "request_too_large": "window",
    "string_above_max_length": "invalid",  # of another field
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "insufficient_quota": "auth",
    "billing_error": "auth",
    "overloaded_error": "overloaded",
    "api_error": "server",
    "server_error": "server",
    "timeout_error": "timeout",
    "content_filter": "filtered",
    "content_policy_violation": "filtered",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
}
_STATUSES: dict[int, ErrorKind] = {
    401: "auth",
    402: "auth",
    403: "auth",
    408: "timeout",
    413: "window",  # a provider takes no more at once, be it in bytes
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
#: statuses with which a provider may tell in words that the messages do not fit; none: an event within a stream
_TOLD_IN_WORDS = (None, 400, 422)
_WINDOW = re.compile(
    r"maximum context length|max(imum)? context limit|exceeds? (the )?(model'?s? )?(maximum )?context "
    r"(length|window|limit|size)|exceeds? the available context size|longer than the model'?s context length"
    r"|prompt is too long|input is too long for (the )?requested model|input (is )?too long: .*tokens"
    r"|exceeds the maximum number of (input )?tokens|input tokens exceed|context_length_exceeded"
    r"|maximum input length is .*tokens|current length is .* while limit is|maximum prompt length is"
    r"|greater than the context length|longer than the maximum model length|context window exceeds limit"
    r"|exceeded model token limit|prompt token count of .* exceeds the limit|reduce the length of the messages"
    r"|`inputs` tokens \+ `max_new_tokens` must be",
    re.IGNORECASE | re.DOTALL,
)
#: llama-cpp-python, which is no service and has neither status nor code
_LOCAL = re.compile(r"Requested tokens \(\d+\) exceed context window of \d+")
#: how far back an error is followed that was raised from another
_DEPTH = 8
#: how much of a message is read: some say it all again
_READ = 4000


def kind_of(error: BaseException) -> ErrorKind:
    """What kind of failure ``error`` is. Where it tells nothing itself, what it was raised ``from`` is asked."""
    if not isinstance(error, BaseException):
        raise BadArgument(f"an exception has a kind, not {error!r}")
    found: BaseException | None = error
    for _ in range(_DEPTH):
        if found is None:
            break
        kind = _own_kind(found)
        if kind != "other":
            return kind
        found = found.__cause__
    return "other"


def is_window(error: BaseException) -> bool:
    """Whether ``error`` says that the window cannot hold the messages. In doubt it does not."""
    return kind_of(error) == "window"


def _own_kind(error: BaseException) -> ErrorKind:
    if isinstance(error, CancelledError):
        return "cancelled"
    if isinstance(error, WindowExceeded):
        return "window"
    by_class = next((kind for one in type(error).__mro__ if (kind := _CLASSES.get(one.__name__))), None)
    if by_class in ("window", "filtered", "timeout", "connection"):
        return by_class
    for word in _codes_of(error):
        if word in _CODES:
            return _CODES[word]
    status = _status_of(error)
    if by_class is None and _says_window(error, status):
        return "window"
    if by_class is not None:
        return by_class
    if status in _STATUSES:
        return _STATUSES[status]
    if status is not None and status >= 500:
        return "server"
    return "other" if status is None else "invalid"


def _status_of(error: BaseException) -> int | None:
    """The HTTP status of the failure; None for one of 2xx, whose failure came within its stream."""
    for given in (_of(error, "status_code"), _of(_of(error, "response"), "status_code")):
        if isinstance(given, int) and not isinstance(given, bool):
            return given if given >= 400 else None
    return None


def _bodies_of(error: BaseException) -> list[Mapping[str, Any]]:
    """What the provider sent, the inner object first: ``{"error": {...}}`` is what most wrap it in."""
    body = _of(error, "body")
    if not isinstance(body, Mapping):
        return []
    inner = body.get("error")
    return [inner, body] if isinstance(inner, Mapping) else [body]


def _codes_of(error: BaseException) -> list[str]:
    bodies = _bodies_of(error)
    given = [*(body.get("code") for body in bodies), *(body.get("type") for body in bodies)]
    given += [_of(error, "code"), _of(error, "type")]
    return [one for one in given if isinstance(one, str)]


def _says_window(error: BaseException, status: int | None) -> bool:
    if isinstance(error, ValueError) and _LOCAL.match(_words_of(error)):
        return True
    # a provider told it, and not a library that never got through to one
    is_told = status is not None or bool(_bodies_of(error)) or _of(error, "status_code") is not None
    return is_told and status in _TOLD_IN_WORDS and _WINDOW.search(_words_of(error)) is not None


def _words_of(error: BaseException) -> str:
    """The provider's own message, without what a client puts around it, such as the request."""
    for body in _bodies_of(error):
        if isinstance(body.get("message"), str):
            return str(body["message"])[:_READ]
    try:
        return str(_of(error, "message") or error)[:_READ]
    except Exception:  # noqa: BLE001 - an error that cannot be shown says nothing
        return ""


def _of(given: object, name: str) -> Any:
    """An attribute; None where it is not there, or is one that raises."""
    try:
        return getattr(given, name, None)
    except Exception:  # noqa: BLE001 - the same
        return None
