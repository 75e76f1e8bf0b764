"""Loading click and attrs without what nothing here uses of them: a good part of the time until a command begins.

click imports ``inspect``, with the parser of Python behind it, to take the indentation out of help texts; and ``uuid``,
which until Python 3.13 has ``platform`` find out by regular expressions what system this is. attrs, which most commands
load, makes a dozen classes of validators, and asks ``platform`` what Python this is.

So these modules are put off: in the place of each stands one that loads it when anything of it is asked for, and gives
that. What a stand-in answers itself is what the module would: the text of one line that ``inspect.cleandoc`` is given,
and the two words of ``platform``.

What is loaded already stays as it is; from Python 3.12 on ``typing`` asks for ``inspect`` itself. Thread-safe; a
library that is imported later sees no difference.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["leave", "load_click", "loaded"]


class _Later(ModuleType):
    """A module, once somebody wants it; ``answers`` are what it can do without."""

    def __init__(self, name: str, **answers: Any) -> None:
        super().__init__(name)
        self.__dict__.update(answers)
        self._lock = allocate_lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real(), name)

    def real(self) -> ModuleType:
        """The module itself, which stands in its own place from now on."""
        with self._lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            return import_module(self.__name__)


def _inspect() -> _Later:
    later = _Later("inspect")

    def cleandoc(doc: str) -> str:
        """As ``inspect.cleandoc``: of one line that is its beginning without blanks."""
        if "\n" not in doc and "\t" not in doc:
            return doc.lstrip()
        cleaned: str = later.real().cleandoc(doc)
        return cleaned

    later.cleandoc = cleandoc  # type: ignore[attr-defined]
    return later


def _laters() -> list[_Later]:
    found = [_inspect(), _Later("attr.validators"), _Later("attrs.validators")]
    if sys.implementation.name == "cpython":
        answers = {"system": lambda: os.uname().sysname, "python_implementation": lambda: "CPython"}
        found.append(_Later("platform", **answers))
    return found


def load_click() -> None:
    """Have click loaded when this returns. Until ``loaded`` is called nobody looks for garbage: there is none."""
    gc.disable()
    for later in _laters():
        sys.modules.setdefault(later.__name__, later)
    import click  # noqa: F401


def loaded() -> None:
    """The command is loaded, and begins; what was loaded for it stays, and is not looked through any more."""
    gc.freeze()
    gc.enable()


def leave(status: int) -> None:
    """End the process without the interpreter taking itself apart first, where nothing is left that would notice.

    What is registered at exit has run, and what was written is out. Returns where threads go on, which are waited for,
    or where something cannot be written, which Python tells.
    """
    import threading

    # what is to be done when threads end is done by the interpreter alone
    if threading.active_count() > 1 or getattr(threading, "_threading_atexits", None):
        return
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                return
    os._exit(status)
