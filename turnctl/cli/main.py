"""The entry point of the command line: errors become one line and a hint, and endings become how we end."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # ``signal`` makes enumerations; what only looks uses none
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from turnctl.cli.ending import Ending

__all__ = ["die_of", "main"]

# nothing else is loaded up here: until ``main`` runs, Ctrl-C would show where it struck


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line on ``args`` (default: those of this process), and end the process accordingly."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # die of it, as of the others, until a command says otherwise
    given = list(sys.argv[1:] if args is None else args)
    if given[:1] == ["__complete"]:
        from turnctl.cli.completing.answer import answer

        sys.exit(answer(given[1:]))
    if os.environ.get("_TURNCTL_COMPLETE") == "powershell_complete":
        from turnctl.cli.completing import forclick

        sys.exit(forclick.answer())
    ending = _ending_of(given)
    _end_by(ending)


def _ending_of(args: list[str]) -> Ending:
    from contextlib import redirect_stdout
    from io import StringIO

    from turnctl.cli.lean import load_click

    load_click()
    import click

    from turnctl.cli.ending import Ending, ExitStatus
    from turnctl.cli.group import cli

    said = StringIO()  # what we say on stdout, help and version, and not what a command writes there
    try:
        with redirect_stdout(said):
            result: Any = cli.main(args, prog_name="turnctl", standalone_mode=False)
    except click.UsageError as error:
        from turnctl.cli.misuse import tell_of_misuse

        tell_of_misuse(error, args)
        return Ending(ExitStatus.USAGE)
    except click.ClickException as error:
        from turnctl.cli.talk import complain

        complain(error.format_message())
        return Ending(error.exit_code)
    except OSError as error:
        # what the machine refuses (no descriptor, no space, a folder that is gone) is no fault of ours
        from turnctl.cli.talk import complain
        from turnctl.spelling import in_words

        complain(in_words(error), "nothing was run; see turnctl run --help for what is needed")
        return Ending(ExitStatus.FAILED)
    except Exception as error:  # noqa: BLE001 - whatever it is, a person gets a line they can pass on
        from turnctl.cli.faults import tell_of_fault

        tell_of_fault(error)
        return Ending(ExitStatus.BUG)
    ending = result if isinstance(result, Ending) else Ending(int(result or 0))
    return (_print(said.getvalue()) or ending) if said.tell() else ending


def _print(text: str) -> Ending | None:
    """Write to stdout; None, or how to end where that is not possible."""
    from turnctl.cli.ending import Ending

    if sys.stdout is None:
        return _lost("it is closed")  # the number may by now be another file's
    try:
        data = memoryview(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return Ending(1)  # the reader of a help text has seen enough
    except OSError as error:
        return _lost(error.strerror)
    return None


def _lost(why: str | None) -> Ending:
    from turnctl.cli.ending import Ending, ExitStatus
    from turnctl.cli.talk import complain

    complain(f"could not write to stdout: {why}", "this text goes there; give it a place, such as a pager")
    return Ending(ExitStatus.FAILED)


def _end_by(ending: Ending) -> NoReturn:
    if ending.signal is not None:
        die_of(ending.signal)
    from turnctl.cli.lean import leave

    leave(int(ending.status))
    sys.exit(ending.status)


def die_of(signum: int) -> None:
    """Die of the signal, so that whoever waits for us sees it; returns only where the kernel does not let us."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, or nobody reads it
    import resource
    import signal

    # QUIT, ABRT and others would leave a core file of us, not of the command
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    signal.raise_signal(signum)  # process 1 lives on: the kernel keeps it from dying by signals


if __name__ == "__main__":
    main()
