"""A stop of something else, such as a task of asyncio's that a tool awaits: that function has failed, no more.

Such an exception is none of ``Exception``, as a stop of the run is not, and would pass out of ``run`` like one.
"""

from __future__ import annotations

import sys
from types import TracebackType

from turnctl.errors import CancelledError
from turnctl.spelling import described
from turnctl.tokens.current import current_token
from turnctl.waiting.parking import must_raise

__all__ = ["Elsewhere"]


class Elsewhere:
    """In its ``with`` a stop that is not of the current turn, nor of one around it, is raised as ``RuntimeError``."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or isinstance(error, Exception) or not _is_stop(error):
            return
        token = current_token()
        if token is None or must_raise(token):  # without a turn it is whoever called's to say
            return
        raise RuntimeError(f"a stop of something else ended it ({described(error)})") from error


def _is_stop(error: BaseException) -> bool:
    asyncio = sys.modules.get("asyncio.exceptions")  # without it there is none of its errors
    return isinstance(error, CancelledError) or (asyncio is not None and isinstance(error, asyncio.CancelledError))
