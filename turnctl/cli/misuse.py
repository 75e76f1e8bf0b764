"""What is said of a command line that cannot be understood: which word, on which command, and what is near it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from turnctl.cli.codes import Code
from turnctl.cli.common import variables_of
from turnctl.cli.problems import Problem
from turnctl.cli.stdout import put_document
from turnctl.cli.talk import complain

__all__ = ["tell_of_misuse"]


def tell_of_misuse(error: click.UsageError, args: Sequence[str]) -> None:
    """Say it on stderr; and on stdout as a document too where JSON was asked for."""
    path = "turnctl" if error.ctx is None else error.ctx.command_path
    message = _message(error).rstrip(".")
    if message[1:2].islower():  # else it begins with a name
        message = message[:1].lower() + message[1:]
    hint = getattr(error, "hint", None) or f"{path} --help shows how it is used"
    problem = Problem("usage", message, hint, Code.USAGE)
    if _wants_json(error.ctx, args):
        try:
            put_document(problem.as_dict())
        except (Problem, BrokenPipeError):
            pass  # it stands on stderr
    complain(problem.message, problem.hint)


def _message(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        from difflib import get_close_matches

        possible = list(error.possibilities or ())
        close = get_close_matches(error.option_name, possible, cutoff=0.8)
        close = close or [one for one in possible if one.startswith(error.option_name)]
        near = f"; did you mean {' or '.join(sorted(close))}?" if close else ""
        return f"there is no option {error.option_name}{near}"
    if isinstance(error, click.MissingParameter):
        return error.format_message()
    if isinstance(error, click.BadParameter) and error.param is not None:
        option = error.param.opts[-1]
        text = error.message.rstrip(".")
        message = text if text.startswith(option) else f"{option}: {text}"
        source = None if error.ctx is None else error.ctx.get_parameter_source(error.param.name or "")
        if source is click.core.ParameterSource.ENVIRONMENT:
            name = next((one for one in variables_of(error.param) if os.environ.get(one)), "")
            message += f" (it comes from the environment: {name})"
        elif source is click.core.ParameterSource.DEFAULT_MAP and error.ctx is not None:
            from turnctl.cli.settings.taking import taken_of

            found = taken_of(error.ctx).settings.get(error.param.name or "")
            message += "" if found is None else f" (it comes from {found.where})"
        return message
    return error.format_message()


def _wants_json(ctx: click.Context | None, args: Sequence[str]) -> bool:
    """Whether the answer was to be JSON. What was understood before the error is not known, so the words are read."""
    if ctx is None:
        return False
    words = list(args)
    if "--" in words:
        words = words[: words.index("--")]
    return any(
        set(param.opts) & set(words) or any(os.environ.get(name) for name in variables_of(param))
        for param in ctx.command.params
        if param.name in ("as_json", "as_lines")
    )
