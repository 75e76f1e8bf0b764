"""Named places where a test may hold a thread, so that each row of an outcome table can be forced.

In production ``hook`` is None and a point costs one global read. ``turnctl.testing`` sets it, and ``ledger.failpoints``
where its environment names such a place; nothing else may.
Points stand on paths that decide a race, never in ``check()``.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["hook", "reach"]

hook: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Tell the test's hook, if there is one, that this thread is at ``name``."""
    if hook is not None:
        hook(name)
