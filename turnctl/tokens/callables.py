"""Functions that are to be called: what cannot work is refused before anything is started."""

from __future__ import annotations

from functools import partial
from typing import Any

from turnctl.errors import BadArgument

__all__ = ["check_plain"]

# of code objects, as in ``inspect``, which is not worth loading for it
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def check_plain(
    what: str, fn: object, *, for_generators: str = "turn.iterate(generator)", may_yield: bool = False
) -> None:
    """Raise ``BadArgument`` unless ``fn`` can be called and its body runs when it is; ``what`` names who asks.

    With ``may_yield`` a generator function is taken too, where what it yields is read.
    """
    if not callable(fn):
        raise BadArgument(f"{what} needs a function to call, not {fn!r}")
    flags = _flags(fn)
    if flags & (_COROUTINE | _ASYNC_GENERATOR):
        raise BadArgument(
            f"{what} needs a plain function: calling {fn!r} only makes a coroutine; use turnctl.run_coroutine(coro)"
        )
    if flags & _GENERATOR and not may_yield:
        raise BadArgument(f"{what} needs a plain function: calling {fn!r} only makes a generator; use {for_generators}")


def _flags(fn: Any) -> int:
    """The flags of the code that a call of ``fn`` runs; 0 where that cannot be told."""
    while isinstance(fn, partial):
        fn = fn.func
    code = getattr(fn, "__code__", None)  # of a function or a bound method
    if code is None:
        code = getattr(getattr(type(fn), "__call__", None), "__code__", None)  # noqa: B004 - its code is wanted
    flags = getattr(code, "co_flags", 0)
    return flags if isinstance(flags, int) else 0
