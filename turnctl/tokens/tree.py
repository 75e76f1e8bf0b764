"""Looking up the tree of tokens: who follows whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore

__all__ = ["is_under", "parents_of"]


def parents_of(token: TokenCore) -> tuple[TokenCore, ...]:
    """The tokens that ``token`` follows directly."""
    parent = token._parent
    if parent is None:
        return ()
    return parent if isinstance(parent, tuple) else (parent,)


def is_under(token: TokenCore, other: TokenCore) -> bool:
    """Whether ``token`` is ``other`` or follows it."""
    found = [token]
    for one in found:
        if one is other:
            return True
        found.extend(parents_of(one))
    return False
