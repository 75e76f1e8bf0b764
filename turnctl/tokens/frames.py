"""Which frames on a stack are ours, so that a signal handler knows whether it may raise.

An exception raised into one of our frames could leave a half-done change. Our checkpoints raise by themselves, so
nothing is lost. A function of ours that calls the user's code is marked with ``calls_the_body``: above it the stack
is the user's again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

__all__ = ["calls_the_body", "may_raise_into"]

F = TypeVar("F", bound=Callable[..., Any])

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_callers: set[CodeType] = set()


def calls_the_body(fn: F) -> F:
    """Mark a function of ours whose callee is the user's own code."""
    _callers.add(fn.__code__)
    return fn


def may_raise_into(frame: FrameType | None) -> bool:
    """Whether no frame of ours is between the top of the stack and the user's code below it."""
    while frame is not None:
        code = frame.f_code
        if code in _callers:
            return True
        if code.co_filename.startswith(_HOME):
            return False
        frame = frame.f_back
    return True
