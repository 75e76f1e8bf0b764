"""The names of ``subprocess`` as ``turnctl.install(subprocess=True)`` replaces them.

Invariants
  R1  A call from turnctl's own code or from ``asyncio`` gets the standard library's. asyncio learns of the end of a
      child by ``waitpid``, which only a parent can.
  R2  Once it is taken back, what stays below a replacement of somebody else passes every call on unchanged.
  R3  Objects made before, and those of R1, are instances of the replaced class; those made by it stay what they are.

Never blocks. Not reached: names that were imported before, ``os.system``, ``os.spawn*``, ``os.posix_spawn``,
``os.fork``, ``pty.spawn``, ``multiprocessing``, and what is started in C.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.processes import subprocess as ours
from turnctl.processes.dropin import Popen
from turnctl.tokens.sites import is_ours
from turnctl.waiting.installing import Change

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["changes"]

_FUNCTIONS = ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
_PASSED_OVER = ("subprocess", "os", ours.__name__)


def changes() -> tuple[Change, ...]:
    """The replacements, each of which counts who asked for it. The same ones each time."""
    return _changes


def _is_spared(frame: FrameType | None) -> bool:
    """Whether a call by this frame is to be the standard library's (R1)."""
    while frame is not None and frame.f_globals.get("__name__") in _PASSED_OVER:
        frame = frame.f_back
    if frame is None:
        return False
    name = str(frame.f_globals.get("__name__"))
    return name == "asyncio" or name.startswith("asyncio.") or is_ours(frame.f_code.co_filename)


def _function(name: str) -> Callable[[Change], Callable[..., Any]]:
    def make(change: Change) -> Callable[..., Any]:
        original: Any = change.original
        stand_in = getattr(ours, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if change.count <= 0 or _is_spared(sys._getframe(1)):
                return original(*args, **kwargs)
            return stand_in(*args, **kwargs)

        return call

    return make


def _popen(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    class Either(type(original)):  # type: ignore[misc] # whatever makes the class that was found
        """Knows the instances of the class that was replaced as its own (R3)."""

        def __instancecheck__(cls, thing: object) -> bool:
            return isinstance(thing, original) if cls is made else super().__instancecheck__(thing)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, original) if cls is made else super().__subclasscheck__(kind)

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is made and (change.count <= 0 or _is_spared(sys._getframe(1))):
            return original(*args, **kwargs)
        return object.__new__(cls)

    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        # as said by ``new``, or of a class that was derived from this one
        self._is_plain = change.count <= 0 or _is_spared(sys._getframe(1))
        Popen.__init__(self, *args, **kwargs)

    for fn in (new, begin):
        functools.update_wrapper(fn, original.__init__)  # the signature
    names = {"__new__": new, "__init__": begin, "__module__": "subprocess", "__doc__": original.__doc__}
    made: Any = Either("Popen", (Popen,), names)
    return made  # type: ignore[no-any-return]


def _subprocess() -> Any:
    return subprocess


_changes = (
    Change(_subprocess, "Popen", _popen),
    *(Change(_subprocess, name, _function(name)) for name in _FUNCTIONS),
)
