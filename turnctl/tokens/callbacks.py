"""Callbacks of a stop: each runs at most once, in the context it was registered in, under no lock.

Invariant C1: who takes a registration off the token's list runs it; ``dict.pop`` is atomic, so that is one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.tokens.event import TurnEvent

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["Registration"]


class Registration:
    """One ``on_cancel`` callback; ``unregister()`` takes it back.

    ``error`` is the exception it raised, if it did; that is reported and never reaches the canceller.
    """

    __slots__ = ("_context", "_done", "_fn", "_runner", "_token", "error", "inline")

    def __init__(self, token: CancelToken, fn: Callable[[], object], *, inline: bool) -> None:
        self.inline = inline
        self.error: BaseException | None = None
        self._token = token
        self._fn = fn
        self._context = copy_context()
        self._done = TurnEvent()
        self._runner: int | None = None

    def _run_once(self) -> bool:
        """Run it unless somebody else has or it was taken back; whether this call ran it."""
        parts = self._token._grow()
        if parts.calls.pop(self, self) is None:  # C1: the value of a listed one is None
            points.reach("token.callback.claimed")
            self._runner = threading.get_ident()
            try:
                # a context can be entered once at a time; this one is ours alone
                self._context.run(self._fn)
            except BaseException as error:
                # kept for the report: a callback's failure is not the canceller's
                self.error = error
                self._token._note_failure(self, error)
            finally:
                self._done.set()
                self._token._release_pin()
            return True
        return False

    def unregister(self, wait: bool | float = False) -> bool:
        """Take the callback back; True if it had not begun and now never will.

        With ``wait`` (True, or seconds) a callback that is running is waited for, except from inside itself.
        Not a checkpoint. Blocks only with ``wait``.
        """
        if self._token._grow().calls.pop(self, self) is None:
            self._done.set()
            self._token._release_pin()
            return True
        if wait and self._runner != threading.get_ident():
            self._done.wait(None if wait is True else float(wait))
        return False

    def __enter__(self) -> Registration:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def __repr__(self) -> str:
        name = getattr(self._fn, "__qualname__", repr(self._fn))
        return f"<Registration of {name} on {self._token!r}>"
