"""One exchange with the model: asked whole or as a stream, tried again where that may help, and ended by a stop.

Invariants
  X1  The stop is looked at before each attempt: a model is not asked once the run was stopped.
  X2  A stop is looked at before an error is counted: breaker, retry counter and failure hook hear of failures alone.
  X3  A reply counts as a whole or not at all. Of one that was cut the text is kept for the transcript (``Cut``).

May block: ``exchange``, as the model does; after a stop for the patience.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from turnctl import clock
from turnctl.agent.messages import reply_of
from turnctl.errors import CancelledError, CircuitOpen, TurnctlError
from turnctl.records.messages import Message
from turnctl.records.replies import CallDelta, Reply, TextDelta
from turnctl.waiting.call import call
from turnctl.waiting.stream import stream

if TYPE_CHECKING:
    from turnctl.records.replies import Delta
    from turnctl.tokens.turn import TurnCore
    from turnctl.waiting.helper import Helper

__all__ = ["Completes", "Source", "Streams", "ask_whole", "ask_written", "check_open"]


@runtime_checkable
class Completes(Protocol):
    """A model: ``complete(messages, tools)`` blocks and gives a reply; it may also have ``stream`` and ``abort``."""

    def complete(self, messages: list[Message], tools: list[Any]) -> Any: ...


@runtime_checkable
class Streams(Protocol):
    """A model that can be read while it writes: deltas or pieces of text, and last a ``Reply``, if it has one."""

    def stream(self, messages: list[Message], tools: list[Any]) -> Iterable[Any]: ...


def check_open(breaker: Any) -> None:
    """Raise ``CircuitOpen`` where the breaker lets the model rest."""
    if breaker is not None and not breaker.allows():
        raise CircuitOpen(f"the model has failed {breaker.failures} times in a row and is not asked now ({breaker!r})")


def ask_whole(
    turn: TurnCore,
    model: Any,
    messages: list[Message],
    tools: list[Any],
    patience: Callable[[], float | None],
    helper: Helper | None,
) -> Reply:
    """The reply of a model that gives it as a whole. A checkpoint."""
    fn = model.complete if hasattr(model, "complete") else model
    abort = getattr(model, "abort", None)
    return reply_of(call(turn, fn, (messages, tools), {}, abort=abort, patience=patience, helper=helper))


class Source:
    """What a model's ``stream`` gives, entered on the thread that reads it: to ask for it may block as well."""

    def __init__(self, model: Any, messages: list[Message], tools: list[Any]) -> None:
        self._model = model
        self._arguments = (messages, tools)
        self._manager: Any = None

    def __enter__(self) -> Iterable[Any]:
        got = self._model.stream(*self._arguments)
        if not hasattr(type(got), "__iter__") and hasattr(type(got), "__enter__"):
            self._manager = got
            got = type(got).__enter__(got)
        return got  # type: ignore[no-any-return]

    def __exit__(self, *what: object) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            type(manager).__exit__(manager, *what)


class Unsupported(TurnctlError):
    """The model has a ``stream`` and says that it cannot: it is asked as a whole instead."""


def ask_written(
    turn: TurnCore,
    model: Any,
    messages: list[Message],
    tools: list[Any],
    *,
    patience: float,
    tell: Callable[[Delta], object],
    keep: Callable[[str], object],
) -> Reply:
    """The reply of a model that is read while it writes. A checkpoint before each piece.

    ``keep`` gets the text of a reply that was cut. Raises ``Unsupported`` where the model says ``NotImplementedError``
    before its first piece.
    """
    abort = getattr(model, "abort", None)
    aborting = None if abort is None else turn.token.on_cancel(abort)
    parts = stream(turn, Source(model, messages, tools), name=f"{type(model).__name__}.stream")
    whole: Reply | None = None
    in_call = False
    try:
        try:
            for piece in parts:
                delta = TextDelta(piece) if isinstance(piece, str) else piece
                if isinstance(delta, (Reply, Message)):
                    whole = reply_of(delta)
                    continue
                in_call = in_call or isinstance(delta, CallDelta)
                tell(delta)
        except NotImplementedError as error:
            if not parts.received:
                raise Unsupported(str(error)) from error
            raise
        if whole is not None:
            return whole
        return _as_text(parts.received, in_call=in_call)
    except BaseException as error:
        if whole is None and (text := _text_of(parts.received)):
            keep(text)  # X3
        if isinstance(error, CancelledError):
            _leave(parts, patience)
        raise
    finally:
        if not parts.is_given_up:
            parts.close()
        if aborting is not None:
            aborting.unregister()


def _as_text(received: list[Any], *, in_call: bool) -> Reply:
    """The reply of a stream that gave pieces and no ``Reply``: its text, unless it had begun a call."""
    if in_call:
        raise ConnectionError("the model's stream ended within a call, without its reply")
    return Reply(Message.assistant(_text_of(received)))


def _text_of(received: Iterable[object]) -> str:
    return "".join(
        piece if isinstance(piece, str) else piece.text for piece in received if isinstance(piece, (str, TextDelta))
    )


def _leave(parts: Any, patience: float) -> None:
    """A source that does not come back is given the patience, not the grace: there is nothing to find out from it."""
    ends_at = clock.monotonic() + patience
    parts.give_up(lambda: ends_at)
