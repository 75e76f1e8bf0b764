"""Doing something at every place where a thread may be interrupted, one place after the other.

A signal handler, a finalizer and an exception thrown from another thread all strike between two instructions. Under
a trace function a test can strike there on purpose: at the first instruction of turnctl, at the second, and so on
until the operation is through before its turn comes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import turnctl

HOME = str(Path(turnctl.__file__).parent)


class Interruption:
    """Runs ``fn`` and calls ``strike`` before the instruction of that number; what ``strike`` raises strikes.

    With ``within`` only the instructions of these functions are places; with ``below`` only the entries of functions
    that this one calls, directly or not.
    """

    def __init__(
        self,
        number: int,
        strike: Callable[[], object],
        *,
        within: tuple[CodeType, ...] | None = None,
        below: CodeType | None = None,
    ) -> None:
        self.left = number
        self._within = within
        self._below = below
        self.happened = False
        self.struck_in = ""
        self._strike = strike

    def run(self, fn: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return fn()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if self._below is not None:
            if self._is_below(frame):
                self._count(frame)
            return None
        if self._within is not None and frame.f_code not in self._within:
            return None
        frame.f_trace = self._step  # before the next line, which has no effect in 3.13 without it
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._count(frame)  # the entry of a function is such a place as well
        return self._step

    def _is_below(self, frame: FrameType) -> bool:
        above = frame.f_back
        while above is not None and above.f_code is not self._below:
            above = above.f_back
        return above is not None

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode":
            self._count(frame)
        return self._step

    def _count(self, frame: FrameType) -> None:
        self.left -= 1
        if self.left == 0:
            self.happened = True
            self.struck_in = f"{frame.f_code.co_qualname}, line {frame.f_lineno}, instruction {frame.f_lasti}"
            sys.settrace(None)  # what comes after it is of no interest, and tracing is slow
            self._strike()


def every_place(strike: Callable[[], object], *, step: int = 1, **where: Any) -> Iterator[Interruption]:
    """One interruption after the other, each ``step`` places further on, until one comes too late to happen."""
    number = 1 - step
    while True:
        number += step
        made = Interruption(number, strike, **where)
        yield made
        if not made.happened:
            return
