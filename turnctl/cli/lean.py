"""Loading click and attrs without what nothing here uses of them: a good part of the time until a command begins.

click imports ``inspect``, with the parser of Python behind it, to take the indentation out of help texts; and ``uuid``,
which until Python 3.13 has ``platform`` find out by regular expressions what system this is. It has its texts
translated by ``gettext``, with ``locale`` behind it, and looks by ``difflib`` what a short option could have been meant
for before it takes it as one. Python 3.11 makes all classes of ``datetime`` before it takes those of ``_datetime``.
attrs, which most commands load, makes a dozen classes of validators, and asks ``platform`` what Python this is; it
keeps texts for ``linecache``, which has the words of Python behind it, for when it reads a file. ``subprocess`` asks
``locale`` how text is written where it is given text.

So these modules are put off: in the place of each stands one that loads it when anything of it is asked for, and gives
that. What a stand-in answers itself is what the module would: the text of one line that ``inspect.cleandoc`` is given,
the two words of ``platform``, a text that there is no translation of, that words of too different lengths are not
close, and the classes of ``_datetime``.

What is loaded already stays as it is; from Python 3.12 on ``typing`` asks for ``inspect`` itself. Thread-safe; a
library that is imported later sees no difference.
"""

from __future__ import annotations

import gc
import os
import sys
from _thread import allocate_lock
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["leave", "load_click", "loaded", "loading"]


#: what is looked into by name alone: nothing of it is used on the way
_UNANSWERED = ("attr.validators", "attrs.validators", "locale", "tokenize", "unicodedata")


class _Later(ModuleType):
    """A module, once somebody wants it; ``answers`` are what it can do without."""

    def __init__(self, name: str, **answers: Any) -> None:
        super().__init__(name)
        self.__dict__.update(answers)
        self.__spec__ = ModuleSpec(name, None)  # who asks whether there is such a module is told so
        self._lock = allocate_lock()

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # which ``from ... import`` looks for, and only packages have
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
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


def _gettext() -> _Later:
    later = _Later("gettext")

    def is_put_off() -> bool:
        # nobody has named a domain then, and the files of the one that is meant without a name are of no program
        if sys.modules.get("gettext") is not later:
            return False
        folder = os.path.join(sys.base_prefix, "share", "locale")
        try:
            names = os.listdir(folder)
        except OSError:  # it is not there, or not for this user
            return True
        return not any(os.path.exists(f"{folder}/{name}/LC_MESSAGES/messages.mo") for name in names)

    def gettext(message: str) -> str:
        """As ``gettext.gettext``: the same where there is no translation at all."""
        return message if is_put_off() else str(later.real().gettext(message))

    def ngettext(msgid1: str, msgid2: str, n: int) -> str:
        """As ``gettext.ngettext``: the first for one, the second for another number."""
        if is_put_off():
            return msgid1 if n == 1 else msgid2
        return str(later.real().ngettext(msgid1, msgid2, n))

    later.__dict__.update(gettext=gettext, ngettext=ngettext)
    return later


def _difflib() -> _Later:
    later = _Later("difflib")

    def get_close_matches(word: str, possibilities: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
        """As ``difflib.get_close_matches``: none where no letter could be amiss, and it is too little all the same."""
        known = list(possibilities)
        if n > 0 and 0.0 < cutoff <= 1.0 and all(_most_alike(word, one) < cutoff for one in known):
            return []
        return list(later.real().get_close_matches(word, known, n, cutoff))

    later.__dict__.update(get_close_matches=get_close_matches)
    return later


def _most_alike(one: str, other: str) -> float:
    """What ``difflib.SequenceMatcher`` can give at most for two of their lengths."""
    length = len(one) + len(other)
    return 2.0 * min(len(one), len(other)) / length if length else 1.0


def _datetime() -> _Later | None:
    """For the Pythons that make the classes twice."""
    if sys.version_info >= (3, 12):
        return None
    try:
        made = import_module("_datetime")
    except ImportError:
        return None
    return _Later("datetime", **{name: value for name, value in vars(made).items() if not name.startswith("__")})


def _laters() -> list[_Later]:
    found = [_inspect(), _gettext(), _difflib(), *(_Later(name) for name in _UNANSWERED)]
    dates = _datetime()
    if dates is not None:
        found.append(dates)
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


@contextmanager
def loading() -> Iterator[None]:
    """In the block more is loaded, and nobody looks for garbage either."""
    gc.disable()
    try:
        yield
    finally:
        loaded()


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
