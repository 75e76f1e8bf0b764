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

from turnctl import clock, points
from turnctl.agent.compacting import compact
from turnctl.agent.elsewhere import refuse_elsewhere
from turnctl.agent.history import closed
from turnctl.agent.messages import messages_of, reply_of
from turnctl.agent.retrying import Breaker, Retry
from turnctl.agent.windows import is_window
from turnctl.clock import format_duration
from turnctl.errors import CancelledError, CircuitOpen, TurnctlError
from turnctl.records.messages import Message
from turnctl.records.replies import CallDelta, Reply, TextDelta, ThinkingDelta
from turnctl.spelling import described
from turnctl.waiting.aborting import Abort
from turnctl.waiting.stream import stream

if TYPE_CHECKING:
    from turnctl.agent.running import Run

__all__ = ["Completes", "Source", "Streams", "check_open", "exchange"]


_DELTAS = (TextDelta, ThinkingDelta, CallDelta)


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


def exchange(run: Run) -> Reply:
    """A reply of the model, after as many attempts as it takes. A checkpoint before each (X1)."""
    loop, turn = run.loop, run.turn
    has_compacted = False
    attempt = 0
    while True:
        turn.check()
        if loop.breaker is not None:
            _beside(run, check_open, loop.breaker)
        messages = _request(run)
        attempt += 1
        run.attempts += 1
        try:
            reply = _ask(run, messages)
        except Exception as error:
            points.reach("run.failing")
            turn.check()  # X2
            if is_window(error):
                if has_compacted or not compact(run):
                    run.window_failed = True
                    raise
                has_compacted = True
                continue
            if loop.breaker is not None:
                _beside(run, loop.breaker.failed, error)
            run.hook("on_failure", error)
            delay = _delay(run, attempt, error)
            if delay is None:
                raise
            run.change(lambda state: {"retries": state.retries + 1})
            text = described(error)
            run.tell("retry", False, detail=text)
            turn.sleep(delay)
            continue
        turn.check()
        if loop.breaker is not None:
            _beside(run, loop.breaker.succeeded)
        _note(run, reply)
        return reply


def _note(run: Run, reply: Reply) -> None:
    """What is odd about a reply, once: also a budget that cannot be kept to, since nobody knows what was used."""
    loop, usage, notes = run.loop, reply.usage, list(reply.notes)
    if loop.max_tokens is not None and usage is None:
        notes.append("there is a max_tokens, and a reply did not tell what it used: it counts for nothing")
    if loop.max_cost is not None and (usage is None or usage.cost is None):
        notes.append("there is a max_cost, and what a reply cost is not known: it counts for nothing")
    for text in notes:
        if text not in run.state.notes:
            run.note(text)


def _beside(run: Run, fn: Callable[..., Any], *args: Any) -> Any:
    """What a breaker says. One of the host's own may block."""
    return fn(*args) if type(run.loop.breaker) is Breaker else run.raced(fn, *args)


def _delay(run: Run, attempt: int, error: Exception) -> float | None:
    """What the retry says; a rule of the host's own may block."""
    retry = run.loop.retry
    if type(retry) is Retry and not retry._asks_host:
        return retry.delay_after(attempt, error)
    delay: float | None = run.raced(retry.delay_after, attempt, error)
    return delay


def _request(run: Run) -> list[Message]:
    messages = run.loop.history._fed.copy()
    if run.loop.memory is None:
        return messages
    try:
        found = closed(messages_of(run.remember("recall", tuple(messages))), open_as="unknown")
    except Exception as error:  # noqa: BLE001 - the host's own addition does not end the run
        run.note(f"recall gave what is no message: {described(error)}")
        return messages
    # before the prompt: nothing may come between a call and its result
    at = max((n for n, one in enumerate(messages) if one.role == "user"), default=0)
    messages[at:at] = found
    return messages


def _ask(run: Run, messages: list[Message]) -> Reply:
    tools = list(run.loop.tools.values())
    if run.loop.is_streaming:
        try:
            return _whole(run, _ask_written(run, messages, tools))
        except Unsupported:
            run.turn.check()
        except BaseException as error:
            refuse_elsewhere(error)
            raise
    model = run.loop.model
    fn, abort = getattr(model, "complete", model), getattr(model, "abort", None)
    return _whole(run, reply_of(run.raced(fn, messages, tools, abort=abort)))


def _whole(run: Run, reply: Reply) -> Reply:
    """``reply``, unless it was cut: what is less than the whole is a failure, and its calls are not made."""
    if reply.stop != "cut" and not reply.message.is_partial:
        return reply
    if reply.message.text:
        run.keep_partial(reply.message.text)
    raise ConnectionError("the model's reply was cut before its end")


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


def _ask_written(run: Run, messages: list[Message], tools: list[Any]) -> Reply:
    """The reply of a model that is read while it writes. A checkpoint before each piece.

    The text of a reply that was cut is kept. Raises ``TypeError`` for a piece that is none, and ``Unsupported`` where
    the model says ``NotImplementedError`` before its first one.
    """
    turn, model = run.turn, run.loop.model
    name = f"{type(model).__name__}.stream"
    abort = Abort(turn, name, getattr(model, "abort", None))
    parts = stream(turn, Source(model, messages, tools), name=name)
    whole: Reply | None = None
    in_call = False
    try:
        try:
            for piece in parts:
                delta = TextDelta(piece) if isinstance(piece, str) else piece
                if not isinstance(delta, _DELTAS):
                    whole = reply_of(delta)
                    continue
                in_call = in_call or isinstance(delta, CallDelta)
                run.tell("delta", delta=delta)
        except NotImplementedError as error:
            if not parts.received:
                raise Unsupported(str(error)) from error
            raise
        if whole is not None:
            return whole
        return _as_text(parts.received, in_call=in_call)
    except BaseException as error:
        if whole is None and (text := _text_of(parts.received)):
            run.keep_partial(text)  # X3
        if isinstance(error, CancelledError):
            _leave(parts, abort, run.loop.patience_s)
        raise
    finally:
        if not parts.is_given_up:
            parts.close()


def _as_text(received: list[Any], *, in_call: bool) -> Reply:
    """The reply of a stream that gave pieces and no ``Reply``: its text, unless it had begun a call."""
    if in_call:
        raise ConnectionError("the model's stream ended within a call, without its reply")
    return Reply(Message.assistant(_text_of(received)))


def _text_of(received: Iterable[object]) -> str:
    return "".join(
        piece if isinstance(piece, str) else piece.text for piece in received if isinstance(piece, (str, TextDelta))
    )


def _leave(parts: Any, abort: Abort, patience: float) -> None:
    """A source that does not come back is given the patience, not the grace: there is nothing to find out from it."""
    ends_at = clock.monotonic() + patience
    abort.see_to()
    parts.give_up(lambda: ends_at, format_duration(patience))
    for one in abort.running():
        if not one.wait(max(ends_at - clock.monotonic(), 0.0)):
            abort.leave(one)
