"""What a loop is made of, looked at before it is used: the wrong thing is told when the loop is made.

Pure: nothing here blocks, and nothing of the host's is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import getattr_static
from typing import Any

from turnctl.agent.history import History
from turnctl.agent.messages import messages_of
from turnctl.agent.retrying import Retry
from turnctl.agent.tools import Tool
from turnctl.errors import BadArgument
from turnctl.records.runs import Event
from turnctl.tokens.callables import check_plain
from turnctl.waiting.asks import Source

__all__ = [
    "HOOKS",
    "MEMORY",
    "check_model",
    "check_parts",
    "history_of",
    "hooks_of",
    "observers_of",
    "retry_of",
    "tools_of",
]

HOOKS = ("on_run_start", "before_step", "before_tool", "after_tool", "after_step", "on_failure", "on_run_end")
MEMORY = ("recall", "store", "reflect", "consolidate")
_BREAKER = ("allows", "failed", "succeeded")
_TOOLS = "tools are functions or Tools in a list, or a dict of functions by name"


def check_model(model: Any, *, streaming: bool) -> None:
    """Raise ``BadArgument`` for what cannot be asked, whole or, with ``streaming``, while it writes."""
    _not_a_class("a model is", model)
    for name in ("probe", "abort"):
        _plain_method("a model", model, name)
    if streaming:
        _plain_method("a model", model, "stream", may_yield=True)
    fn = getattr(model, "complete", model)
    if streaming and hasattr(model, "stream") and not callable(fn):
        return
    if not callable(fn):
        what = "has complete()" if streaming or not hasattr(model, "stream") else "has complete() where streaming=False"
        raise BadArgument(f"a model is a function of messages and tools, or {what}, not {model!r}")
    check_plain("AgentLoop()", fn)


def check_parts(*, memory: Any, compactor: Any, breaker: Any, ledger: Any, ask: Any, checkpoint: Any) -> None:
    """Raise ``BadArgument`` for what is not what it is given as, or would never run when it is called."""
    if memory is not None:
        _has_one_of("a memory is", memory, MEMORY)
        for name in MEMORY:
            _plain_method("a memory", memory, name, may_yield=name == "recall")
    if not (compactor is None or callable(compactor) or hasattr(compactor, "compact")):
        raise BadArgument(f"a compactor is a function of messages, or has compact(), not {compactor!r}")
    if compactor is not None:
        check_plain("a compactor", getattr(compactor, "compact", compactor), may_yield=True)
        _plain_method("a compactor", compactor, "demote")
    if breaker is not None and not all(hasattr(breaker, name) for name in _BREAKER):
        raise BadArgument(f"a breaker is a Breaker, or has allows(), failed() and succeeded(), not {breaker!r}")
    if breaker is not None:
        for name in _BREAKER:
            _plain_method("a breaker", breaker, name)
    if not (ask is None or ask == "terminal" or callable(ask) or isinstance(ask, Source)):
        raise BadArgument(f"ask is a function, a Desk, 'terminal' or None, not {ask!r}")
    if callable(ask) and not isinstance(ask, Source):
        check_plain("ask", ask)
    if not (checkpoint is None or callable(checkpoint)):
        raise BadArgument(f"checkpoint is a function that keeps one, or None, not {checkpoint!r}")
    if checkpoint is not None:
        check_plain("checkpoint", checkpoint)
    if ledger is not None and not hasattr(ledger, "submit"):
        raise BadArgument(f"ledger is what turnctl.open_ledger() gave, not {ledger!r}")


def _not_a_class(what: str, given: Any) -> None:
    if isinstance(given, type):
        raise BadArgument(f"{what} an object, not its class: give {given.__name__}(...)")


def _plain_method(what: str, given: Any, name: str, *, may_yield: bool = False) -> None:
    """Raise ``BadArgument`` if ``given`` has a method of that name whose body does not run when it is called."""
    fn = getattr_static(given, name, None)  # a property is the host's to run, and may take its time
    fn = fn.__func__ if isinstance(fn, (staticmethod, classmethod)) else fn
    if callable(fn):
        check_plain(f"{name}() of {what}", fn, may_yield=may_yield)


def _has_one_of(what: str, given: Any, names: tuple[str, ...]) -> None:
    _not_a_class(what, given)
    if not any(hasattr(given, name) for name in names):
        raise BadArgument(f"{what} an object with one or more of {', '.join(names)}, not {given!r}")


def tools_of(given: Any) -> dict[str, Tool]:
    """The tools by their names. Raises ``BadArgument``, also for two of one name."""
    if isinstance(given, Tool) or (callable(given) and not isinstance(given, Iterable)):
        name = given.name if isinstance(given, Tool) else getattr(given, "__name__", "it")
        raise BadArgument(f"tools are given in a list, also one: [{name}]")
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadArgument(f"{_TOOLS}, not {given!r}")
    named: Iterable[tuple[str | None, Any]] = (
        given.items() if isinstance(given, Mapping) else ((None, x) for x in given)
    )
    found: dict[str, Tool] = {}
    for name, one in named:
        made = (one if name is None else one.named(name)) if isinstance(one, Tool) else Tool(one, name=name)
        if made.name in found:
            raise BadArgument(f"two tools are named {made.name!r}; give one of them another name")
        found[made.name] = made
    return found


def hooks_of(given: Any) -> tuple[Any, ...]:
    """The hooks: an object with one of their names, or several such. Raises ``BadArgument`` for what has none."""
    found = tuple(given) if isinstance(given, (list, tuple, set, frozenset, Iterator)) else (given,)
    for one in found:
        _has_one_of("hooks are", one, HOOKS)
        for name in HOOKS:
            _plain_method("hooks", one, name)
    return found


def observers_of(given: Any) -> tuple[Callable[[Event], object], ...]:
    """The observers: a function, or several. Raises ``BadArgument`` for what is none."""
    several = not callable(given) and isinstance(given, Iterable)
    found = tuple(given) if several else (given,)
    for one in found:
        if not callable(one):
            raise BadArgument(f"observers are functions of an event, one or several, not {one!r}")
        check_plain("an observer", one)
    return found


def retry_of(given: Any) -> Any:
    """The retry, by default three attempts. Raises ``BadArgument`` for what is none."""
    if given is None:
        return Retry()
    if not hasattr(given, "delay_after"):
        raise BadArgument(f"retry is a Retry, or has delay_after(), not {given!r}")
    return given


def history_of(given: Any) -> History:
    """A history, or a new one of these messages. Raises ``BadArgument`` or ``TypeError`` for what is neither."""
    if isinstance(given, History):
        return given
    if given is not None and not isinstance(given, Iterable):
        raise BadArgument(f"a history is a History, or messages in a list, not {given!r}")
    return History(messages_of(given))
