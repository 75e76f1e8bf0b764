"""Looking up the tree of tokens: who follows whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore

__all__ = ["all_above", "all_below", "is_under", "parents_of"]


def parents_of(token: TokenCore) -> tuple[TokenCore, ...]:
    """The tokens that ``token`` follows directly."""
    parent = token._parent
    if parent is None:
        return ()
    return parent if isinstance(parent, tuple) else (parent,)


def is_under(token: TokenCore, other: TokenCore) -> bool:
    """Whether ``token`` is ``other`` or follows it."""
    return any(one is other for one in all_above(token))


def all_above(token: TokenCore) -> Iterator[TokenCore]:
    """``token`` and what it follows, the nearest first. A loop: trees may be deeper than the stack."""
    found = [token]
    for one in found:
        yield one
        found.extend(parents_of(one))


def all_below(token: TokenCore) -> Iterator[TokenCore]:
    """``token`` and what follows it now. Who joins later has to look up by itself (``tokens.scope``)."""
    found = [token]
    for one in found:
        yield one
        parts = one._parts_now()
        if parts is not None:
            found.extend(kid for ref in list(parts.kids) if (kid := ref()) is not None)
