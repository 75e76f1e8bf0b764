"""Tracing the checkpoints of a token: somebody is told of each one, before it raises.

A checkpoint reads one slot, ``_due``. Tracing a token raises that slot in its whole tree, so that every checkpoint
takes the long way and ends up here; a token that nobody traces pays nothing. Used by ``turnctl.testing`` and by
``turn.diagnose``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl.tokens.tree import all_above, all_below

if TYPE_CHECKING:
    from turnctl.tokens.core import TokenCore

__all__ = ["Tracer", "add_tracer", "trace", "traced"]

Tracer = Callable[["TokenCore"], object]
#: holds one entry once a token of this process has been traced
traced: list[object] = []


def add_tracer(token: TokenCore, tracer: Tracer) -> Callable[[], None]:
    """Call ``tracer(asked)`` at each later checkpoint of ``token`` and of what follows it; returns the undo.

    It runs on the thread that is at the checkpoint; what it raises comes out of the checkpoint.
    """
    cells = token._grow().cells
    tracers: dict[object, Tracer] = cells.setdefault("tracers", {})
    key = object()
    tracers[key] = tracer
    if not traced:
        traced.append(key)
    for one in all_below(token):
        one._due = True
    return lambda: tracers.pop(key, None) and None


def trace(token: TokenCore) -> None:
    """Tell the tracers of ``token`` and of those above it that it is at a checkpoint."""
    for one in all_above(token):
        parts = one._parts_now()
        if parts is not None:
            for tracer in list(parts.cells.get("tracers", {}).values()):
                tracer(token)
