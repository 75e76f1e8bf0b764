"""Where a thread that is being interrupted may be struck, told from its stack.

An exception that falls out of the sky does no harm in code of the user's own that does not expect it, but that of its
``finally`` blocks. It does in two other places:

- In Python code of the standard library. ``Condition.__enter__`` that is struck between its lock and its return leaves
  the lock held for good, and everybody who comes later hangs. So the innermost frame must not be one of those. Frames
  of the standard library further out are no hindrance: they have called the user's code, which may raise anyway.
- In a finalizer: ``__del__``, the ``finally`` of a generator that was dropped, the callback of a weak reference. The
  interpreter runs these between two steps of whatever code is running, and an exception ends there without a word.

A finalizer is not marked on the stack. Told are: ``__del__`` by its name, ``weakref.finalize`` by its module, a
generator that is being closed by the ``GeneratorExit`` that it handles, and any other by the step at which the frame
around it stands, if that is one that calls nothing, such as ``del x``. Not told is one that runs within a call, as the
locals of a function go that returns; ``waiting.inject`` notices when a throw was lost there.

Nothing here blocks or runs code of the user's.
"""

from __future__ import annotations

import opcode
import os
import threading
import weakref
from types import CodeType, FrameType

from turnctl.tokens.frames import may_raise_into

__all__ = ["why_not_into"]

_LIBRARY = os.path.dirname(os.path.abspath(threading.__file__)) + os.sep
_PACKAGES = (os.path.join(_LIBRARY, "site-packages") + os.sep, os.path.join(_LIBRARY, "dist-packages") + os.sep)
_FINALIZERS = weakref.__file__
_CHAIN = 100  # how many exceptions handled one inside the other are looked at

# steps that call nothing, so that what stands above one is a finalizer
_QUIET_BEGINNINGS = ("STORE_FAST", "LOAD_FAST", "LOAD_CONST", "DELETE_FAST", "POP_", "RETURN_", "JUMP_", "SWAP", "COPY")
_QUIET_NAMES = (
    *("STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "DELETE_NAME", "DELETE_GLOBAL", "DELETE_DEREF", "LOAD_DEREF"),
    *(
        "END_FOR",
        "END_SEND",
        "PUSH_NULL",
        "PUSH_EXC_INFO",
        "RESUME",
        "NOP",
        "BUILD_LIST",
        "BUILD_TUPLE",
        "CLEANUP_THROW",
    ),
)
_QUIET = frozenset(
    number
    for name, number in opcode.opmap.items()
    if name in _QUIET_NAMES or (name.startswith(_QUIET_BEGINNINGS) and "_IF_" not in name)
)


def why_not_into(frame: FrameType, outer: FrameType, handled: BaseException | None) -> str | None:
    """Why a thread that stands in ``frame`` must not be struck, which ``outer`` has called; None if it may be.

    ``handled`` is the exception that the thread handles now. The answer may be outdated when it is given.
    """
    if is_library(frame.f_code):
        return "it stood in code of the standard library, which must not be interrupted"
    if not may_raise_into(frame):
        return "it stood in code that turnctl had called, or in turnctl itself"
    if _closes_generator(handled):
        return "it was closing a generator"
    one: FrameType | None = frame
    while one is not None and one is not outer:
        back = one.f_back
        if one.f_code.co_name == "__del__" or one.f_code.co_filename == _FINALIZERS or _is_quiet(back):
            return "it stood in a finalizer"
        one = back
    # not another call on the same thread, nor another thread with its ident
    return None if one is outer else "it was on its way in or out"


def is_library(code: CodeType) -> bool:
    """Whether it is Python code of the standard library."""
    name = code.co_filename
    return name.startswith("<frozen ") or (name.startswith(_LIBRARY) and not name.startswith(_PACKAGES))


def _closes_generator(handled: BaseException | None) -> bool:
    for _ in range(_CHAIN):
        if handled is None:
            return False
        if isinstance(handled, GeneratorExit):
            return True
        handled = handled.__context__
    return True  # not to be told


def _is_quiet(frame: FrameType | None) -> bool:
    """Whether the step at which ``frame`` stands calls nothing."""
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    while at > 0 and code[at] == 0:  # the room behind a step, in which 3.11 and 3.12 may stand
        at -= 2
    return at >= 0 and code[at] in _QUIET
