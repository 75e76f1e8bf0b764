"""What may stand at the end of a command line: from the commands' own options and operands, nothing of it converted.

The words before are read as click would, but nothing is checked and no callback runs: a line that is being written is
rarely right. Only the modules of the commands that it names are loaded.
"""

from __future__ import annotations

from typing import NamedTuple

import click

from turnctl.cli.pages.reading import context_of

__all__ = ["Place", "place_in"]


class Place(NamedTuple):
    """Where the last word stands."""

    command: click.Command
    name: str
    #: what is being written: an option or an operand; None for the name of an option, or of a command
    param: click.Parameter | None
    #: the beginning of what is being written, without ``before``
    start: str
    #: what of the word stays as it is: "--state="
    before: str
    #: the operands before it
    operands: tuple[str, ...]
    #: the values of options that were given, by the name of their parameter
    given: dict[str, str]
    #: whether options have ended
    is_ended: bool
    #: where a command line of its own begins (``turnctl run``): the index of its first word
    inner: int | None = None


def place_in(command: click.Command, name: str, words: list[str], last: str) -> Place | None:
    """The place of ``last`` after ``words`` (both without the program); None where a word before it is no command."""
    return _Reader(command, name).read(words, last)


class _Reader:
    """Goes through the words once."""

    def __init__(self, command: click.Command, name: str) -> None:
        self._enter(command, name)
        self._given: dict[str, str] = {}

    def _enter(self, command: click.Command, name: str) -> None:
        self._command = command
        self._name = name
        self._ctx = context_of(command, name)
        self._params = command.get_params(self._ctx)
        self._operands: list[str] = []
        self._is_ended = False  # whether options have ended
        self._open: click.Option | None = None  # the option whose value comes next

    def read(self, words: list[str], last: str) -> Place | None:
        for n, word in enumerate(words):
            if self._open is not None:
                self._give(self._open, word)
                self._open = None
            elif not self._is_ended and word == "--":
                self._is_ended = True
            elif not self._is_ended and len(word) > 1 and word.startswith("-"):
                self._option(word)
            elif isinstance(self._command, click.Group):
                found = self._command.get_command(self._ctx, word)
                if found is None:
                    return None
                self._enter(found, f"{self._name} {word}")
            elif self._is_inner():
                return self._place(None, last, inner=n)
            else:
                self._operands.append(word)
        return self._last(words, last)

    def _last(self, words: list[str], last: str) -> Place:
        if self._open is not None:
            return self._place(self._open, last)
        if not self._is_ended and last.startswith("-"):
            name, mark, start = last.partition("=")
            option = self._named(name) if mark and last.startswith("--") else None
            if option is not None:
                return self._place(option, start, before=f"{name}=")
            return self._place(None, last)
        if isinstance(self._command, click.Group):
            return self._place(None, last)
        if self._is_inner():
            return self._place(None, last, inner=len(words))
        return self._place(self._operand(), last)

    def _is_inner(self) -> bool:
        """Whether what comes is a command line of its own, which click does not look into."""
        operand = self._operand()
        return operand is not None and operand.type is click.UNPROCESSED and not self._command.allow_interspersed_args

    def _operand(self) -> click.Parameter | None:
        arguments = [one for one in self._params if isinstance(one, click.Argument)]
        for n, one in enumerate(arguments):
            if one.nargs == -1 or n == len(self._operands):
                return one
        return None

    def _option(self, word: str) -> None:
        if word.startswith("--"):
            name, mark, value = word.partition("=")
            option = self._named(name)
            if option is not None and _takes_value(option):
                if mark:
                    self._give(option, value)
                else:
                    self._open = option
            return
        for n, letter in enumerate(word[1:], 2):
            option = self._named(f"-{letter}")
            if option is not None and _takes_value(option):
                if word[n:]:
                    self._give(option, word[n:])
                else:
                    self._open = option
                return

    def _named(self, name: str) -> click.Option | None:
        found = (one for one in self._params if isinstance(one, click.Option) and name in one.opts)
        return next(found, None)

    def _give(self, option: click.Option, value: str) -> None:
        self._given[option.name or ""] = value

    def _place(self, param: click.Parameter | None, start: str, *, before: str = "", inner: int | None = None) -> Place:
        return Place(
            self._command, self._name, param, start, before, tuple(self._operands), self._given, self._is_ended, inner
        )


def _takes_value(option: click.Option) -> bool:
    return not (option.is_flag or option.count)
