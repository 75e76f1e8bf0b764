"""Only an error that says that the messages do not fit is taken for that one; text is asked last, and carefully."""

from __future__ import annotations

from typing import Any

import pytest

from turnctl.agent.windows import ERROR_KINDS, is_window, kind_of
from turnctl.errors import BadArgument, CancelledError, WindowExceeded


def error(name: str, text: str = "no", base: type[BaseException] = Exception, **attributes: Any) -> BaseException:
    """An error of a class by that name, with those attributes, as clients make them."""
    made = type(name, (base,), {})(text)
    for attribute, value in attributes.items():
        setattr(made, attribute, value)
    return made


def openai(status: int, code: str | None = None, type: str = "invalid_request_error", message: str = "no") -> Any:
    body = {"message": message, "type": type, "param": None, "code": code}
    return error(
        "BadRequestError", f"Error code: {status} - {body}", status_code=status, body=body, code=code, type=type
    )


def anthropic(status: int, type: str, message: str = "no") -> Any:
    body = {"type": "error", "error": {"type": type, "message": message}}
    return error("APIStatusError", f"Error code: {status} - {body}", status_code=status, body=body)


LONG = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
TOO_LONG = "prompt is too long: 208310 tokens > 200000 maximum"


@pytest.mark.parametrize(
    "found",
    [
        openai(400, "context_length_exceeded"),
        openai(400, None, message=LONG),
        anthropic(400, "invalid_request_error", TOO_LONG),
        anthropic(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
        anthropic(413, "request_too_large"),
        error("ContextWindowExceededError", "x", type("BadRequestError", (Exception,), {}), status_code=400),
        error("APIError", LONG, body={"message": LONG, "code": "context_length_exceeded"}),
        error("BadRequestError", "x", status_code=400, body={"error": {"type": "exceed_context_size_error"}}),
        error("HTTPStatusError", LONG, status_code=400),
        error("ApiError", "x", status_code=413),
        ValueError("Requested tokens (1200) exceed context window of 512"),
        WindowExceeded("the run does not fit"),
        error("APIStatusError", status_code=200, body={"error": {"type": "request_too_large"}}),
    ],
    ids=str,
)
def test_window_is_told(found: BaseException) -> None:
    """Class, code, type, status or the provider's words: any of them says that the messages do not fit."""

    assert is_window(found)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("timeout", error("APITimeoutError", "context deadline exceeded")),
        ("timeout", error("DeadlineExceeded", "504 context deadline exceeded", code=504)),
        ("timeout", openai(504, None, message="context deadline exceeded")),
        ("timeout", error("ReadTimeout", "maximum context length", type("TimeoutException", (Exception,), {}))),
        ("timeout", TimeoutError("maximum context length")),
        ("timeout", error("APITimeoutError", "no", body={"code": "context_length_exceeded"})),
        ("other", RuntimeError("context deadline exceeded")),
        ("other", RuntimeError(LONG)),
        ("invalid", openai(400, None, message="context deadline exceeded")),
        ("invalid", openai(400, "string_above_max_length", message="string too long: maximum context length")),
        ("server", openai(500, None, message=LONG)),
        ("connection", error("APIConnectionError", LONG)),
        ("connection", ConnectionResetError("reset")),
        ("rate_limit", openai(413, "rate_limit_exceeded", "tokens", "Request too large for model, tokens per minute")),
        ("rate_limit", openai(429, "rate_limit_exceeded", "requests")),
        ("rate_limit", anthropic(429, "rate_limit_error")),
        ("auth", openai(429, "insufficient_quota", "insufficient_quota")),
        ("auth", anthropic(401, "authentication_error")),
        ("overloaded", anthropic(529, "overloaded_error")),
        ("overloaded", error("APIStatusError", status_code=200, body={"error": {"type": "overloaded_error"}})),
        ("overloaded", error("InternalServerError", status_code=503)),
        ("filtered", error("ContentPolicyViolationError", LONG, status_code=400)),
        ("filtered", openai(400, "content_filter")),
        ("invalid", anthropic(400, "invalid_request_error", "messages.1: tool_use ids were found without tool_result")),
        ("invalid", openai(404, "model_not_found")),
        ("cancelled", CancelledError("prompt is too long")),
        ("other", KeyError("x")),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_what_is_not_the_window(kind: str, found: BaseException) -> None:
    """A time-out of a transport, a limit on the rate, a filter: whatever its text says, it is not the window."""

    assert kind == kind_of(found)
    assert kind in ERROR_KINDS


def test_echo_of_the_request_is_not_read() -> None:
    """A client that puts the request into the text of its error makes no window of it."""
    found = error(
        "BadRequestError",
        f"Error code: 400 - request was: {LONG}",
        status_code=400,
        body={"error": {"message": "temperature is at most 2", "type": "invalid_request_error"}},
    )

    assert "invalid" == kind_of(found)


def test_cause_is_asked_where_an_error_says_nothing() -> None:
    """What a host raises from an error of its client is of the same kind; what merely came after another is not."""

    def raised(*, linked: bool) -> BaseException:
        try:
            try:
                raise openai(400, "context_length_exceeded")
            except Exception as inner:
                if linked:
                    raise RuntimeError("the model failed") from inner
                raise RuntimeError("something else broke")  # noqa: B904 - that is the case
        except RuntimeError as outer:
            return outer

    assert "window" == kind_of(raised(linked=True))
    assert "other" == kind_of(raised(linked=False))


@pytest.mark.parametrize(
    "words",
    [
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "the request exceeds the available context size, try increasing it",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 130000 exceeds the limit of 128000",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
        "Input is too long for requested model.",
    ],
)
def test_words_of_many_providers(words: str) -> None:
    """How those say it who have no code for it; and the same words from a failing server prove nothing."""

    assert "window" == kind_of(openai(400, None, message=words))
    assert "server" == kind_of(openai(500, None, message=words))


class Nasty(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no response was set")

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_error_that_cannot_be_read_is_of_no_kind() -> None:
    """Attributes and texts that raise are nothing that could be read, and no second failure."""

    assert "other" == kind_of(Nasty())
    assert "invalid" == kind_of(error("Odd", "x", Nasty, status_code=400))


def test_circle_of_causes_ends() -> None:
    """Errors that cause each other are of no kind, and reading them ends."""
    one, other = RuntimeError("a"), RuntimeError("b")
    one.__cause__, other.__cause__ = other, one

    assert "other" == kind_of(one)


def test_what_is_no_error_is_refused() -> None:
    """A value that is no exception has no kind."""
    with pytest.raises(BadArgument, match="an exception has a kind"):
        kind_of("prompt is too long")  # type: ignore[arg-type]
