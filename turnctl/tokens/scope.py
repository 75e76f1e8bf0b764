"""The tree: how a token joins its parents, leaves them, and is bound for the length of a ``with``."""

from __future__ import annotations

import weakref
from _thread import get_ident
from contextvars import ContextVar
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.tokens.current import bound
from turnctl.tokens.entries import derive
from turnctl.tokens.tree import parents_of

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore
    from turnctl.tokens.token import CancelToken

__all__ = ["Binding", "bind", "forget_stranded", "join", "pin", "unbind", "unlink", "unpin"]


def join(kid: TokenCore, parent: TokenCore) -> None:
    """Put ``kid`` on the parent's list, *then* read the parent's log (T5 of ``tokens.token``)."""
    parts = parent._grow()
    parts.kids[weakref.ref(kid, parts.forget)] = None
    points.reach("token.child.listed")
    if parent._due:
        kid._due = True  # it may be paused or traced, which is found out at the first checkpoint
    derived = derive(parent._log, parent._source())
    if kid._follow(derived):
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
    if parts is None or parts.calls or any(held is not None for held in list(parts.kids.values())):
        return
    unpin(token)


class Binding:
    """One token bound to a context, and what was bound there before."""

    __slots__ = ("before", "is_live", "is_loose", "is_stranded", "thread", "token")

    def __init__(self, token: CancelToken, before: Binding | None, *, is_loose: bool) -> None:
        self.token = token
        self.before = before
        self.is_live = True
        # no ``with`` undoes it: it may be left behind
        self.is_loose = is_loose
        # its ``with`` was left in another context, so that it could not be taken back in its own
        self.is_stranded = False
        self.thread = get_ident()

    @property
    def is_gone(self) -> bool:
        return not self.is_live or (self.is_loose and self.token.retired)


_innermost: ContextVar[Binding | None] = ContextVar("turnctl_binding", default=None)


def _living(binding: Binding | None) -> Binding | None:
    while binding is not None and binding.is_gone:
        binding = binding.before
    return binding


def bind(token: CancelToken, *, is_loose: bool = False) -> Binding:
    """Make ``token`` the one that this context checks; ``unbind`` what is returned."""
    binding = Binding(token, _living(_innermost.get()), is_loose=is_loose)
    try:
        _innermost.set(binding)
        bound.set(token)
        return binding
    except BaseException:  # a Ctrl-C in between: nobody else has the binding, to undo it
        unbind(binding)
        raise


def unbind(binding: Binding) -> None:
    """Undo ``bind``: what was bound before it and still is becomes the one to check.

    Bindings may be undone in any order, as interleaved generators do, and in another context than their own, as
    frameworks do that run each step of a generator in a fresh one: such a context is left as it is.
    """
    binding.is_live = False
    if _innermost.get() is binding:
        _go_back(binding)
    else:
        binding.is_stranded = not binding.is_loose


def _go_back(binding: Binding) -> None:
    before = _living(binding.before)
    bound.set(None if before is None else before.token)
    _innermost.set(before)  # last: after a strike in between it is done again


def forget_stranded() -> bool:
    """Take back a binding whose ``with`` was left in another context; whether there was one.

    Only on the thread that bound it: copies of its context, on threads of the turn, obey the token to their end. What
    a loose one binds stays as well: frames of a turn that somebody else ended may still run here.
    """
    binding = _innermost.get()
    if binding is None or not binding.is_stranded or binding.thread != get_ident():
        return False
    _go_back(binding)
    return True
