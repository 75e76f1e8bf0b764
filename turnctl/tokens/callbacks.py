"""Callbacks of a stop: each runs at most once, in the context it was registered in, under no lock.

Invariants
  C1  Who takes a registration off the token's list runs it; ``dict.pop`` is atomic, so that is one thread.
  C2  Who sees it on the list stores of which process he is, and *then* takes it off. So in a fork that was made while
      it ran it is known to run in the other process, where nobody can wait for it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Self

from turnctl import points
from turnctl.clock import parse_duration
from turnctl.tokens import eras
from turnctl.tokens.event import TurnEvent

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["Registration"]

_order = itertools.count()


class Registration:
    """One ``on_cancel`` callback; ``unregister()`` takes it back.

    ``error`` is the exception it raised, if it did; that is reported and never reaches the canceller.
    """

    __slots__ = ("_context", "_done", "_era", "_fn", "_runner", "_token", "error", "inline", "order")

    def __init__(self, token: CancelToken, fn: Callable[[], object], *, inline: bool) -> None:
        self.inline = inline
        self.order = next(_order)
        self.error: BaseException | None = None
        self._token = token
        self._fn = fn
        self._context = copy_context()
        self._done = TurnEvent()
        self._era: object = None
        self._runner: int | None = None

    def _run_once(self) -> bool:
        """Run it unless somebody else has or it was taken back; whether this call ran it."""
        parts = self._token._grow()
        if self in parts.calls:
            self._era = eras.era
        if parts.calls.pop(self, self) is None:  # C1: the value of a listed one is None
            points.reach("token.callback.claimed")
            self._runner = threading.get_ident()
            try:
                # a context can be entered once at a time; this one is ours alone
                self._context.run(self._fn)
            except BaseException as error:  # noqa: BLE001 - kept for the report, it is not the canceller's
                self.error = error
                self._token._note_failure(self, error)
            finally:
                self._done.set()
                self._token._release_pin()
            return True
        return False

    def unregister(self, wait: bool | float | str = False) -> bool:
        """Take the callback back; True if it had not begun and now never will.

        With ``wait`` (True, seconds or "5s") a callback that is running is waited for, except from inside itself, and
        in a fork that was made while it ran.
        Not a checkpoint. Blocks only with ``wait``.
        """
        limit = None if isinstance(wait, bool) else parse_duration(wait, what="wait", zero=True)
        if self._token._grow().calls.pop(self, self) is None:
            self._done.set()
            self._token._release_pin()
            return True
        if wait is not False and self._runner != threading.get_ident() and self._era is eras.era:  # C2
            self._done.wait(limit)
        return False

    def _drop(self) -> None:
        """It will never run: its token ended untripped."""
        self._done.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def __repr__(self) -> str:
        name = getattr(self._fn, "__qualname__", repr(self._fn))
        return f"<Registration of {name} on {self._token!r}>"
