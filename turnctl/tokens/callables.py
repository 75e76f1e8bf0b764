"""Functions that are to be called: what cannot work is refused before anything is started."""

from __future__ import annotations

from turnctl.errors import BadArgument

__all__ = ["check_plain"]

# of code objects, as in ``inspect``, which is not worth loading for it
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def check_plain(what: str, fn: object, *, for_generators: str = "turn.iterate(generator)") -> None:
    """Raise ``BadArgument`` unless ``fn`` can be called and its body runs when it is; ``what`` names who asks."""
    if not callable(fn):
        raise BadArgument(f"{what} needs a function to call, not {fn!r}")
    inner = getattr(fn, "func", fn)  # functools.partial
    flags = getattr(getattr(inner, "__code__", None), "co_flags", 0)
    if flags & (_COROUTINE | _ASYNC_GENERATOR):
        raise BadArgument(
            f"{what} needs a plain function: calling {fn!r} only makes a coroutine; use turnctl.run_coroutine(coro)"
        )
    if flags & _GENERATOR:
        raise BadArgument(f"{what} needs a plain function: calling {fn!r} only makes a generator; use {for_generators}")
