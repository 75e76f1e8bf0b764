"""The retries that are built into the clients of openai, anthropic and those that are generated as they are.

Their sleep between two attempts is ``time.sleep`` in a method, of up to 8 s, or as long as the server asks for. That
method is replaced, on one client (``stoppable_client``) or for the process (``changes``, for ``install(http=True)``).

Invariants
  Z1  The stop is looked at before a request, in each sleep and after it. So nothing is sent after a stop, and an error
      that a request ends with after one is its cause, not what the caller gets.
  Z2  Outside of turns a client behaves as ever.
  Z3  A client that does not sleep in a way that is known here is refused before anything is changed: ``ClientChanged``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from turnctl.errors import BadArgument, ClientChanged
from turnctl.integrations.retries.stops import go_on_as, look, nap
from turnctl.tokens.current import current_token
from turnctl.tokens.frames import calls_the_body
from turnctl.waiting.installing import Change

__all__ = ["PACKAGES", "changes", "has_retries", "stoppable_client"]

T = TypeVar("T")

#: whose clients ``install(http=True)`` reaches
PACKAGES = ("anthropic", "openai")
_SLEEP = ("_sleep_for_retry", frozenset({"retries_taken", "max_retries", "options", "response"}))
_DELAY = ("_calculate_retry_timeout", frozenset({"remaining_retries", "options", "response_headers"}))


def _sleeping(theirs: Any) -> type:
    """Their class, of clients that sleep in a method of their own."""

    class Client(theirs):  # type: ignore[misc]
        def request(self, *args: Any, **options: Any) -> Any:
            return _request(super().request, args, options)

        def _sleep_for_retry(self, **options: Any) -> None:
            _sleep(self, **options)

    return Client


def _delaying(theirs: Any) -> type:
    """Their class, of earlier clients, which ask a method how long, and then sleep."""

    class Client(theirs):  # type: ignore[misc]
        def request(self, *args: Any, **options: Any) -> Any:
            return _request(super().request, args, options)

        def _calculate_retry_timeout(self, *args: Any, **options: Any) -> float:
            return _delay(super()._calculate_retry_timeout, args, options)

    return Client


@calls_the_body
def _request(original: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    look()
    try:
        return original(*args, **options)
    except Exception as error:
        look(error)  # Z1
        raise


def _sleep(client: Any, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
    headers = None if response is None else response.headers
    seconds = client._calculate_retry_timeout(max_retries - retries_taken, options, headers)
    # as the original does, where those who read its log expect it
    log = logging.getLogger(_root_of(type(client)).__module__)
    log.info("Retrying request in %f seconds (retry %i of %s)", seconds, retries_taken + 1, max_retries)
    nap(seconds)


def _delay(original: Callable[..., float], args: tuple[Any, ...], options: dict[str, Any]) -> float:
    nap(original(*args, **options))
    return 0.0  # there is nothing left to sleep


def stoppable_client(client: T) -> T:
    """The same client, whose retries end with a stop of the current turn: no further attempt, ``CancelledError``.

    It is changed in place, and so are clients that it gives from then on by ``with_options()`` and ``copy()``. For the
    synchronous clients of openai and anthropic, and those that are generated in the same way. A stop does not wake a
    request that is under way: for that see ``turnctl.integrations.httpx``. Never blocks, not a checkpoint. Raises
    ``BadArgument`` for anything else, ``ClientChanged`` for a client whose internals are not known.
    """
    root = _root_of(type(client))
    if root is None:
        is_async = any(kind.__name__ == "AsyncAPIClient" for kind in type(client).__mro__)
        what = "its retries end with its task, see turn.run_coroutine()" if is_async else "give openai.OpenAI() or such"
        raise BadArgument(
            f"stoppable_client() is for synchronous clients of openai and anthropic, not {client!r}; {what}"
        )
    go_on_as(_sleeping if _sleeps(root) else _delaying, client)
    return client


def has_retries(client: object) -> bool:
    """Whether ``client`` is a synchronous client of openai or anthropic, or is generated in the same way."""
    return _root_of(type(client)) is not None


def _root_of(kind: type) -> Any:
    """The base that the clients of one package have in common."""
    for one in kind.__mro__:
        if one.__name__ == "SyncAPIClient" and one.__module__.endswith("._base_client"):
            return one
    return None


def _sleeps(root: type) -> bool:
    """Whether its clients sleep in a method of their own; ``ClientChanged`` if neither way is theirs (Z3)."""
    if callable(getattr(root, "request", None)) and _has(root, *_DELAY):
        if _has(root, *_SLEEP):
            return True
        if hasattr(root, "_retry_request"):
            return False
    package = root.__module__.partition(".")[0]
    version = getattr(sys.modules.get(package), "__version__", "unknown")
    missing = tuple(name for name, given in (("request", None), _DELAY, _SLEEP) if not _has(root, name, given))
    raise ClientChanged(
        f"{package} {version} does not sleep between its retries in a way that turnctl knows; give it max_retries=0, "
        "and retry with turnctl.integrations.retries.stoppable_retrying()",
        client=package,
        missing=missing,
    )


def _has(root: type, name: str, given: frozenset[str] | None) -> bool:
    method = getattr(root, name, None)
    if not callable(method):
        return False
    return given is None or given <= inspect.signature(method).parameters.keys()


# -- for the process ----------------------------------------------------------------------------------------------


def changes() -> tuple[Change, ...]:
    """What ``install(http=True)`` changes of the clients that are loaded. Raises ``ClientChanged``."""
    found: list[Change] = []
    for package in PACKAGES:
        if package not in sys.modules:
            continue
        root = importlib.import_module(f"{package}._base_client").SyncAPIClient
        found.append(_change(root, "request", _make_request))
        if _sleeps(root):
            found.append(_change(root, "_sleep_for_retry", _make_sleep))
        else:
            owner = next(kind for kind in root.__mro__ if "_calculate_retry_timeout" in kind.__dict__)
            found.append(_change(owner, "_calculate_retry_timeout", _make_delay))
    return tuple(found)


_changes: dict[tuple[type, str], Change] = {}


def _change(owner: type, name: str, make: Callable[[Change], Callable[..., Any]]) -> Change:
    """The one change of that name, whose count all installs share."""
    return _changes.setdefault((owner, name), Change(lambda: owner, name, make))


def _is_on(change: Change) -> bool:
    return change.count > 0 and current_token() is not None  # Z2


def _make_request(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    @functools.wraps(original)
    def request(self: Any, *args: Any, **options: Any) -> Any:
        if not _is_on(change):
            return original(self, *args, **options)
        return _request(original.__get__(self), args, options)

    return request


def _make_sleep(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    @functools.wraps(original)  # a second install looks at its signature
    def sleep_for_retry(self: Any, **options: Any) -> None:
        if _is_on(change):
            _sleep(self, **options)
        else:
            original(self, **options)

    return sleep_for_retry


def _make_delay(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    @functools.wraps(original)
    def calculate_retry_timeout(self: Any, *args: Any, **options: Any) -> Any:
        # asynchronous clients ask the same method, and sleep on their loop
        if _is_on(change) and _root_of(type(self)) is not None:
            return _delay(original.__get__(self), args, options)
        return original(self, *args, **options)

    return calculate_retry_timeout
