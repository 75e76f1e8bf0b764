"""The shield: a stretch of clean-up in which checkpoints do not raise, for a bounded time.

A shield belongs to the context that entered it: other threads of the turn go on raising. ``kill`` passes through. Who
waits for a function on another thread sees its shields in whatever context they were entered there, such as in a task
of a loop of asyncio's that the function runs.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Self

from turnctl.clock import monotonic, parse_duration
from turnctl.errors import CancelledError
from turnctl.tokens.event import release_all
from turnctl.tokens.tree import is_under

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.tokens.token import CancelToken

__all__ = ["Shield", "is_shielded", "shield_over", "shielded_until", "shields"]

#: those that are entered now, anywhere; adding and removing are one step each
_entered: list[Shield] = []

shields: ContextVar[tuple[Shield, ...]] = ContextVar("turnctl_shields", default=())


class Shield:
    """``with token.shield(max="5s")``: checkpoints inside do not raise; a stop that came is raised at the end.

    At the end it raises ``CancelledError`` if the token was stopped and the body raised nothing; an exception of
    the body passes out with a note. The limit counts from entry: once it has passed, checkpoints raise again.
    A stop of level ``kill`` passes through. Shields nest; one object serves one ``with`` at a time.
    """

    __slots__ = ("_ident", "_outer", "ends_at", "left_at", "max_s", "token")

    def __init__(self, token: CancelToken, limit: float | str) -> None:
        self.token = token
        seconds = parse_duration(limit, what="max")
        assert seconds is not None
        self.max_s = seconds
        self.ends_at = 0.0
        #: when its ``with`` was left, for who waits for what runs in it; None until then
        self.left_at: float | None = None
        self._outer: tuple[Shield, ...] = ()
        self._ident = 0

    def __enter__(self) -> Self:
        self.left_at, self.ends_at = None, monotonic() + self.max_s
        self._outer = shields.get()
        self._ident = get_ident()
        _entered.append(self)
        shields.set((*self._outer, self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shields.set(self._outer)
        self.left_at = monotonic()
        if self in _entered:
            _entered.remove(self)
        if not self.token.cancelled:
            return
        release_all(self.token._grow().waiters)  # who waits for the body has no reason to do so any more
        if is_shielded(self.token):
            return
        if error is None:
            raise self.token._raised(after_work=False)
        if not isinstance(error, CancelledError):
            error.add_note(f"{self.token!r} was stopped while this ran under its shield")


def shield_over(token: CancelToken, ident: int | None = None) -> Shield | None:
    """The shield of this context that holds a stop of ``token`` back, the longest of several; None if none does.

    With ``ident`` those count as well that were entered on that thread.
    """
    found = shields.get()
    if ident is not None and _entered:
        found = (*found, *(one for one in _entered.copy() if one._ident == ident))
    if not found or token.level == "kill":
        return None
    now = monotonic()
    over = [one for one in found if one.ends_at > now and is_under(token, one.token)]
    return max(over, key=lambda one: one.ends_at, default=None)


def shielded_until(token: CancelToken) -> float | None:
    """Monotonic seconds until which a stop of ``token`` is held back in this context; None if it is not."""
    if not shields.get():
        return None
    shield = shield_over(token)
    return None if shield is None else shield.ends_at


def _forget_the_others() -> None:
    _entered[:] = [one for one in _entered if one._ident == get_ident()]


os.register_at_fork(after_in_child=_forget_the_others)  # their threads are the parent's, and numbers come again


def is_shielded(token: CancelToken) -> bool:
    """Whether a stop of ``token`` is held back in this context."""
    return bool(shields.get()) and shielded_until(token) is not None
