"""Editing a line with the readline library, one key at a time, so that the wait between two keys can be woken.

``input()`` edits with readline once that module has been imported, inside one call that nothing but a signal ends. The
library has a second interface for programs that wait by themselves: keys are handed in as they come. It is used here by
way of ``ctypes``, where the library shows it; history, completion and key bindings are those of ``readline``.

What has been typed when the wait ends without a line is kept, and stands in the next line that is edited. The terminal
is put back to how it was on every way out. One line at a time (``waiting.lines``). Blocks only in the ``wait`` it is
given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["edit", "is_possible"]

_NEEDED = ("rl_callback_handler_install", "rl_callback_read_char", "rl_callback_handler_remove", "rl_insert_text")
_kept = ""


def _library() -> Any:
    import ctypes
    import readline

    try:
        # PyDLL: the library calls back into Python, for completion and hooks, and other threads use it as well
        library = ctypes.PyDLL(readline.__file__)
        if all(hasattr(library, name) for name in _NEEDED):
            return library
    except (OSError, TypeError, AttributeError):
        pass  # built into the interpreter, or linked so that it shows nothing
    return None


def is_possible(fd: int) -> bool:
    """Whether ``input()`` would edit with readline here, and this can as well."""
    if "readline" not in sys.modules or fd != 0 or sys.stdout is None:
        return False
    try:
        if sys.stdout.fileno() != 1 or not (sys.stdin.isatty() and sys.stdout.isatty()):
            return False
    except (OSError, ValueError):
        return False
    return _library() is not None


def edit(prompt: bytes, wait: Callable[[], None]) -> bytes | None:
    """Edit a line and return it without its end; None for the end of the input. ``wait`` blocks until a key is there.

    What ``wait`` raises passes out, and what was typed is kept for the next call.
    """
    global _kept
    import ctypes
    import readline

    library = _library()
    lines: list[bytes | None] = []
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def take(line: int | None) -> None:
        library.rl_callback_handler_remove()  # before another prompt is shown
        lines.append(None if line is None else ctypes.string_at(line))
        if line is not None:
            free(line)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(take)
    _set(library, "rl_catch_signals", 0)  # they are Python's
    library.rl_callback_handler_install(ctypes.c_char_p(prompt), callback)
    try:
        if _kept:
            readline.insert_text(_kept)
            readline.redisplay()
            _kept = ""
        while not lines:
            wait()
            library.rl_callback_read_char()
    finally:
        if not lines:
            _kept = readline.get_line_buffer()
            for name in ("rl_free_line_state", "rl_callback_sigcleanup", "rl_cleanup_after_signal"):
                if hasattr(library, name):
                    getattr(library, name)()
            library.rl_callback_handler_remove()
    line = lines[0]
    if line:
        _remember(line.decode(sys.stdin.encoding, sys.stdin.errors or "strict"))
    return line


def _set(library: Any, name: str, value: int) -> None:
    import ctypes

    try:
        ctypes.c_int.in_dll(library, name).value = value
    except ValueError:
        pass  # an older library, or another


def _remember(line: str) -> None:
    """Into the history, as ``input()`` does: unless it is the last one again."""
    import readline

    count = readline.get_current_history_length()
    if count == 0 or readline.get_history_item(count) != line:
        readline.add_history(line)
