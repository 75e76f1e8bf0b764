"""What a function of the host raises that is none of ``Exception``: that function has failed, no more.

A stop of something else, such as a task of asyncio's that a tool awaits, or what a library has for its own ends (the
panic of an extension, the failure of a test) would pass out of ``run`` as a stop of the run does. What is meant for the
program passes: ``KeyboardInterrupt`` and ``SystemExit``, also in a group.
"""

from __future__ import annotations

import sys

from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens.current import current_token
from turnctl.waiting.driving import Left
from turnctl.waiting.parking import must_raise

__all__ = ["refuse_elsewhere"]


def refuse_elsewhere(error: BaseException) -> None:
    """Raise ``RuntimeError`` from what is none of ``Exception``, and nobody else's to hear of.

    That is a stop that is not of the current turn, nor of one around it, and all but what ends the program.
    """
    if isinstance(error, Exception):
        return
    token = current_token()
    if token is None or _has(error, (KeyboardInterrupt, SystemExit, Left)):
        return  # without a turn it is whoever called's to say
    if not _has(error, _stops()):
        raise RuntimeError(f"it raised what is no Exception ({described(error)})") from error
    if not must_raise(token):
        raise RuntimeError(f"a stop of something else ended it ({described(error)})") from error


def _has(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether it is one of these, or a group with one."""
    return isinstance(error, kinds) or (isinstance(error, BaseExceptionGroup) and error.subgroup(kinds) is not None)


def _stops() -> tuple[type[BaseException], ...]:
    asyncio = sys.modules.get("asyncio.exceptions")  # without it there is none of its errors
    return (CancelledError,) if asyncio is None else (CancelledError, asyncio.CancelledError)
