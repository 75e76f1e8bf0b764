"""Loading click without what nothing here uses of it: more than a third of the time until a command begins.

click imports ``inspect``, with the parser of Python behind it, to take the indentation out of help texts; and ``uuid``,
which until Python 3.13 has ``platform`` find out by regular expressions what system this is.

- ``inspect`` is put off: in its place stands a module that loads it when anything of it is asked for, and gives that.
  What it answers itself, for a text of one line, is what ``inspect.cleandoc`` would.
- ``platform`` is stood in for while ``uuid`` is loaded, by the one word that it asks for.

Where any of them is loaded already, nothing is done; from Python 3.12 on ``typing`` asks for ``inspect`` itself.
Thread-safe; a library that is imported later sees no difference.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock
from types import ModuleType
from typing import Any

__all__ = ["leave", "load_click", "loaded"]


class _Later(ModuleType):
    """``inspect``, once somebody wants it."""

    def __init__(self) -> None:
        super().__init__("inspect")
        self._lock = allocate_lock()

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        with self._lock:
            if sys.modules.get("inspect") is self:
                del sys.modules["inspect"]
            return getattr(import_module("inspect"), name)

    def cleandoc(self, doc: str) -> str:
        """As ``inspect.cleandoc``: of one line that is its beginning without blanks."""
        if "\n" not in doc and "\t" not in doc:
            return doc.lstrip()
        cleaned: str = self.__getattr__("cleandoc")(doc)
        return cleaned


def load_click() -> None:
    """Have click loaded when this returns. Until ``loaded`` is called nobody looks for garbage: there is none."""
    gc.disable()
    if "inspect" not in sys.modules:
        sys.modules["inspect"] = _Later()
    if sys.version_info < (3, 13) and not {"platform", "uuid"} & set(sys.modules):
        stand_in = ModuleType("platform")
        stand_in.system = lambda: os.uname().sysname  # type: ignore[attr-defined]
        sys.modules["platform"] = stand_in
        try:
            import uuid  # noqa: F401 - it keeps what it was told
        finally:
            del sys.modules["platform"]
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
