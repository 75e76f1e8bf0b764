"""Commands that answer from the state directory: their common options, and how they fail.

Each gives its data on stdout and everything else on stderr. With ``--json`` that is one document, also where it fails:
then the document says why, and the same stands on stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from turnctl.cli.codes import Code
from turnctl.cli.command import Command
from turnctl.cli.common import option, quiet_option, state_dir_option
from turnctl.cli.ending import Ending
from turnctl.cli.faults import tell_of_fault
from turnctl.cli.problems import Problem, of_fault, of_store, of_system
from turnctl.cli.stdout import put_document
from turnctl.cli.talk import complain
from turnctl.errors import StoreError

__all__ = ["Answering", "answering"]

F = TypeVar("F", bound=Callable[..., Any])


class Answering(Command):
    """A command whose options may stand anywhere, and whose problems are told in its own form."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.allow_interspersed_args = True

    def invoke(self, ctx: click.Context) -> Ending:
        if ctx.params.get("as_json") and ctx.params.get("as_lines"):
            raise click.UsageError("--json is one document and --jsonl a line for each; give one of them", ctx)
        try:
            result = super().invoke(ctx)
            return result if isinstance(result, Ending) else Ending(int(result or Code.OK))
        except BrokenPipeError:
            from signal import SIGPIPE

            return Ending.by(SIGPIPE)  # whoever read it has seen enough
        except StoreError as error:
            return self._tell(ctx, of_store(error))
        except Problem as problem:
            return self._tell(ctx, problem)
        except OSError as error:
            return self._tell(ctx, of_system(error))
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, a program gets its document
            self._document(ctx, of_fault(error))
            tell_of_fault(error)
            return Ending(Code.BUG)

    def _tell(self, ctx: click.Context, problem: Problem) -> Ending:
        self._document(ctx, problem)
        complain(problem.message, problem.hint)
        return Ending(problem.status)

    def _document(self, ctx: click.Context, problem: Problem) -> None:
        """Where JSON was asked for."""
        if (ctx.params.get("as_json") or ctx.params.get("as_lines")) and problem.word != "stdout_lost":
            try:
                put_document(problem.as_dict())
            except (Problem, BrokenPipeError):
                pass  # it stands on stderr


def answering(*, lines: bool = False) -> Callable[[F], F]:
    """The options that all of these commands have; ``lines`` for those that give one object after another."""

    def add(fn: F) -> F:
        found = [
            option("--json", "as_json", is_flag=True, group="output", help="Answer with one JSON document."),
            *(
                [option("--jsonl", "as_lines", is_flag=True, group="output", help="Answer with a JSON object a line.")]
                * lines
            ),
            state_dir_option(),
            quiet_option(),
        ]
        for one in reversed(found):
            fn = one(fn)
        return fn

    return add
