"""The tree: how a token joins its parents, leaves them, and is bound for the length of a ``with``."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.tokens.current import bound
from turnctl.tokens.entries import derive, read
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from contextvars import Token as ResetToken

    from turnctl.tokens.core import TokenCore
    from turnctl.tokens.token import CancelToken

__all__ = ["join", "pin", "rebind", "unbind", "unlink", "unpin"]


def join(kid: TokenCore, parent: TokenCore) -> None:
    """Put ``kid`` on the parent's list, *then* read the parent's log (T5 of ``tokens.token``)."""
    parts = parent._grow()
    parts.kids[weakref.ref(kid, parts.forget)] = None
    points.reach("token.child.listed")
    first, level, grace, _ = read(parent._log)
    if first is not None and kid._follow(derive(first, level, grace, parent._source())):
        kid._settle()


def unlink(kid: TokenCore) -> None:
    """Take ``kid`` off its parents' lists; it still knows them. May be called twice."""
    me = weakref.ref(kid)
    for parent in parents_of(kid):
        parts = parent._parts_now()
        if parts is not None:
            parts.kids.pop(me, None)
        _unpin_if_idle(parent)


def pin(kid: TokenCore) -> None:
    """Have the parents hold ``kid``, and theirs hold them: it has callbacks, which must be able to fire."""
    found = [kid]
    for one in found:
        me = weakref.ref(one)
        for parent in parents_of(one):
            parts = parent._parts_now()
            if parts is not None and me in parts.kids:
                # assigning to an equal key keeps the key with the clean-up that was put there first
                parts.kids[me] = one
                found.append(parent)


def unpin(kid: TokenCore) -> None:
    """Have the parents hold ``kid`` weakly again, and so on up, where nothing else needs holding."""
    me = weakref.ref(kid)
    for parent in parents_of(kid):
        parts = parent._parts_now()
        if parts is not None and parts.kids.get(me) is not None:
            parts.kids[me] = None
            _unpin_if_idle(parent)


def _unpin_if_idle(token: TokenCore) -> None:
    parts = token._parts_now()
    if parents_of(token) and parts is not None and not parts.calls:
        if not any(held is not None for held in list(parts.kids.values())):
            unpin(token)


def rebind(token: CancelToken) -> ResetToken[CancelToken | None]:
    """Make ``token`` the one that this context checks."""
    return bound.set(token)


def unbind(reset: ResetToken[CancelToken | None], token: CancelToken) -> None:
    """Undo ``rebind``. In another context than the one that bound it, leave that context alone.

    Generators driven by a web framework run each step in a context of its own: leaving there must not raise,
    and the binding went with the context that it was made in.
    """
    try:
        bound.reset(reset)
    except ValueError:
        if bound.get() is token:
            bound.set(reset.old_value if reset.old_value is not reset.MISSING else None)
