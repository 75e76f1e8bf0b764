"""Errors that nobody expected: one line that a person can pass on, and where it arose if that is asked for."""

from __future__ import annotations

from turnctl.cli.problems import of_fault
from turnctl.cli.talk import say

__all__ = ["tell_of_fault"]

#: set by ``--debug``
show_traceback = False


def tell_of_fault(error: Exception) -> None:
    """Say that turnctl itself has failed."""
    if show_traceback:
        import traceback

        say(*"".join(traceback.format_exception(error)).splitlines())
    problem = of_fault(error)
    say(problem.message, f"hint: {problem.hint}")
