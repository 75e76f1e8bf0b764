"""The end of a process that a function of the host forked and came back in: what called it is the other one's."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from types import TracebackType
from typing import NoReturn

from turnctl.tokens import eras

__all__ = ["EndsForks", "end_the_fork"]


class EndsForks:
    """Whoever leaves its ``with`` in another process than entered it ends there, as ``end_the_fork`` says."""

    __slots__ = ("_era",)

    def __enter__(self) -> None:
        self._era = eras.era

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._era is not eras.era:
            end_the_fork(error)


def end_the_fork(error: BaseException | None) -> NoReturn:
    """End this process as Python ends one; what was registered for the exit is the parent's, and is not run."""
    status = 0
    if isinstance(error, SystemExit):
        code = error.code
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
        status = code if isinstance(code, int) else int(code is not None)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)
