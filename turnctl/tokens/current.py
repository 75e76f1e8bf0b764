"""Which token a frame checks: the one bound to its context first, else its session's running turn, else none.

Where nothing is bound and ``turnctl.install(single_turn=True)`` asked for it, the only turn of the process is found.

``check()`` here is the ambient checkpoint. It reads one context variable and one slot, so it can stand in an inner
loop; with nothing bound it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from turnctl.tokens import registry

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["bound", "check", "current_token", "session_name"]

bound: ContextVar[CancelToken | None] = ContextVar("turnctl_token", default=None)
session_name: ContextVar[str | None] = ContextVar("turnctl_session", default=None)

#: finds a token for code that nothing is bound for; set by ``turnctl.install(single_turn=True)`` alone
adopter: Callable[[], CancelToken | None] | None = None

_get_bound = bound.get
_get_session = session_name.get
_sessions = registry.sessions


def current_token() -> CancelToken | None:
    """The token that this frame has to obey, or None. Never blocks, not a checkpoint."""
    token = _get_bound()
    if token is not None:
        return current_token() if token._due and _is_stranded() else token
    name = _get_session()
    if name is None:
        return None if adopter is None else adopter()
    turn = _sessions.get(name)
    return None if turn is None else turn.token


def check() -> None:
    """Raise ``CancelledError`` if the current turn was asked to stop; do nothing outside any turn.

    A checkpoint. Blocks only while the turn is paused. Obeys the token bound to this context, else the running turn of
    the session named by ``turnctl.session``.
    """
    token = _get_bound()
    if token is None:
        name = _get_session()
        if name is not None:
            turn = _sessions.get(name)
            if turn is None:
                return
            token = turn.token
        else:
            if adopter is None:
                return
            token = adopter()
            if token is None:
                return
    if token._due:
        if _is_stranded():
            check()
        else:
            token._attend()


def _is_stranded() -> bool:
    """Whether what was bound here belonged to a ``with`` that has been left in another context; it is then unbound.

    A stopped turn would go on raising in this one, although no frame of it is here any more.
    """
    from turnctl.tokens.scope import forget_stranded

    return forget_stranded()
