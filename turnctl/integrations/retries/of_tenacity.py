"""The retries of tenacity, and of stamina, which is built on it.

Whatever is to be tried again, its loop comes through one method, ``iter``, before each attempt and after it. That is
where the turn is asked: of one object (``stoppable_retrying``) or for the process (``changes``).

Invariants
  V1  The stop is looked at before each attempt, and after each that failed, *then* the policy is asked. So what a
      policy retries, a limit that is reached and ``RetryError`` make no difference: the caller gets ``CancelledError``.
  V2  A result is given, however late it comes.
  V3  A sleep of the host's own stays; the usual one is raced with the stop.
  V4  Outside of turns a loop behaves as ever.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from turnctl.errors import BadArgument, ClientChanged
from turnctl.integrations.retries.stops import go_on_as, look, nap
from turnctl.tokens.current import current_token
from turnctl.waiting.installing import Change

__all__ = ["changes", "stoppable_retrying"]

T = TypeVar("T")

_WHAT = (
    "stoppable_retrying() is for a tenacity.Retrying, a function that tenacity.retry made, and stamina.retry_context()"
)


def _asking(theirs: Any) -> type:
    """Their class, which asks the turn as well."""

    class Retrying(theirs):  # type: ignore[misc]
        def iter(self, retry_state: Any) -> Any:
            _look_at(retry_state)
            return super().iter(retry_state)

    return Retrying


def _look_at(retry_state: Any) -> None:
    outcome = retry_state.outcome
    if outcome is None:
        look()
    elif outcome.failed:
        look(outcome.exception())  # V1


def stoppable_retrying(retrying: T) -> T:
    """The same retries, which end with a stop of the current turn: no further attempt, no ``RetryError``.

    Takes a ``tenacity.Retrying``, a function that ``tenacity.retry`` has made, or a ``stamina.retry_context()``, and
    gives another one; what was given stays as it is. For ``stamina.retry`` and its callers there is
    ``turnctl.install(http=True)``. Never blocks, not a checkpoint. Raises ``BadArgument`` for anything else, and
    ``ClientChanged`` for a version whose internals are not known.
    """
    thing: Any = retrying
    if _is_loop(type(thing)):
        return _of_loop(thing)  # type: ignore[no-any-return]
    inner = getattr(thing, "retry", None)
    if callable(thing) and _is_loop(type(inner)) and hasattr(thing, "__wrapped__"):
        return _of_loop(inner).wraps(thing.__wrapped__)  # type: ignore[no-any-return]
    if type(thing).__module__.partition(".")[0] == "stamina" and dataclasses.is_dataclass(thing):
        return _of_stamina(thing)  # type: ignore[no-any-return]
    raise BadArgument(f"{_WHAT}, not {retrying!r}")


def _is_loop(kind: type) -> bool:
    return any(one.__name__ == "BaseRetrying" and one.__module__ == "tenacity" for one in kind.__mro__)


def _is_synchronous(kind: type) -> bool:
    return not hasattr(kind, "__aiter__") and not inspect.iscoroutinefunction(kind.__call__)


def _of_loop(found: Any) -> Any:
    if not _is_synchronous(type(found)):
        raise BadArgument(f"{_WHAT}, not {found!r}: it is asynchronous, and ends with its task")
    _refuse_if_changed(type(found))
    made = found.copy()
    if _is_usual(made.sleep):
        made.sleep = nap
    go_on_as(_asking, made)
    return made


def _is_usual(sleep: Any) -> bool:
    """Whether that is the sleep which nobody chose."""
    return sleep is time.sleep or (
        getattr(sleep, "__module__", None) == "tenacity.nap" and getattr(sleep, "__name__", None) == "sleep"
    )


def _refuse_if_changed(kind: Any) -> None:
    try:
        known = "retry_state" in inspect.signature(kind.iter).parameters
    except (AttributeError, TypeError, ValueError):
        known = False
    if not known or not callable(getattr(kind, "copy", None)):
        version = getattr(sys.modules.get("tenacity"), "__version__", "unknown")
        raise ClientChanged(
            f"tenacity {version} does not retry in a way that turnctl knows; give it sleep=turnctl.sleep",
            client="tenacity",
            missing=("BaseRetrying.iter",),
        )


def _of_stamina(found: Any) -> Any:
    options = getattr(found, "_t_kw", None)
    if type(options) is not dict or not hasattr(type(found), "__iter__"):
        raise ClientChanged(
            "this stamina does not make its retries in a way that turnctl knows; use tenacity, or have its backoff "
            "hook sleep: on=lambda error: turnctl.sleep(1) or 0.0",
            client="stamina",
            missing=("retry_context()._t_kw",),
        )
    return dataclasses.replace(found, _t_kw={**options, "sleep": nap})


# -- for the process ----------------------------------------------------------------------------------------------

_change: Change | None = None


def changes() -> tuple[Change, ...]:
    """What ``install(http=True)`` changes: ``iter`` of all that retries by tenacity. Raises ``ClientChanged``."""
    global _change
    if _change is None:
        if importlib.util.find_spec("tenacity") is None:
            return ()
        base = importlib.import_module("tenacity").BaseRetrying
        _refuse_if_changed(base)
        _change = Change(lambda: base, "iter", _make_iter)
    return (_change,)


def _make_iter(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def iter(self: Any, retry_state: Any) -> Any:  # noqa: A001 - the name of what it stands for
        if change.count <= 0 or current_token() is None or not _is_synchronous(type(self)):
            return original(self, retry_state)
        _look_at(retry_state)
        found = original(self, retry_state)
        if type(found).__name__ == "DoSleep" and _is_usual(self.sleep):
            nap(found)
            return type(found)(0)  # there is nothing left to sleep
        return found

    return iter
