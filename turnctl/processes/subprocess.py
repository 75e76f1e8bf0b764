"""A stand-in for ``subprocess``: one import changes, and commands belong to the turn that is current.

    from turnctl.processes import subprocess

Every name, argument, result and error is that of the standard library. What is different, and why, stands in
``docs/processes.md``. ``run``, ``call``, ``check_call``, ``check_output``, ``getoutput`` and ``getstatusoutput`` are
checkpoints, as are the blocking methods of ``Popen``. With no turn nothing can stop them.
"""

from __future__ import annotations

from subprocess import (
    DEVNULL,
    PIPE,
    STDOUT,
    CalledProcessError,
    CompletedProcess,
    SubprocessError,
    TimeoutExpired,
    list2cmdline,
)
from typing import TYPE_CHECKING, Any

from turnctl.errors import CancelledError
from turnctl.processes.dropin import Popen as _Popen
from turnctl.processes.text import Coding
from turnctl.records.process import Completed

__all__ = [
    "DEVNULL",
    "PIPE",
    "STDOUT",
    "CalledProcessError",
    "CompletedProcess",
    "Popen",
    "SubprocessError",
    "TimeoutExpired",
    "call",
    "check_call",
    "check_output",
    "getoutput",
    "getstatusoutput",
    "list2cmdline",
    "run",
]


#: the command comes from the caller, who asks for a shell by calling this function
_SHELL = {"shell": True}


def _run(
    *popenargs: Any,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **kwargs: Any,
) -> Any:
    """Run a command to its end; a ``CompletedProcess``. A checkpoint.

    After ``timeout`` seconds the command is killed with all that it started, and ``TimeoutExpired`` raised. A stop
    ends it by asking, grace and KILL; ``CancelledError`` then has the output in ``partial``. Whatever else is raised
    here has it killed first.
    """
    if input is not None:
        if kwargs.get("stdin") is not None:
            raise ValueError("stdin and input arguments may not both be used.")
        kwargs["stdin"] = PIPE
    if capture_output:
        if kwargs.get("stdout") is not None or kwargs.get("stderr") is not None:
            raise ValueError("stdout and stderr arguments may not be used with capture_output.")
        kwargs["stdout"] = kwargs["stderr"] = PIPE
    process = _Popen(*popenargs, **kwargs)
    try:
        with process:
            try:
                out, err = process.communicate(input, timeout=timeout)
            except BaseException as error:
                if isinstance(error, CancelledError) and process._is_stopped():
                    process._await_end()
                    error.partial = _partial(process)
                else:
                    process._end_all()
                raise
    except CancelledError as error:
        error.partial = error.partial or _partial(process)
        raise
    process._settle()
    status = process.poll()
    if check and status:
        raise CalledProcessError(status, process.args, output=out, stderr=err)
    return CompletedProcess(process.args, status, out, err)


def _partial(process: Any) -> Completed | None:
    """What there is of a command that was stopped."""
    outcome = process.outcome()
    if outcome is None:
        return None
    streams: list[Any] = [process._taken(at) for at in (0, 1)]
    if process.text_mode:
        coding = Coding(process.encoding, process.errors)
        streams = [None if data is None else coding.decode_partial(data) for data in streams]
    return Completed(outcome.argv, outcome.returncode, streams[0], streams[1], outcome)


def _call(*popenargs: Any, timeout: float | None = None, **kwargs: Any) -> Any:
    """Run a command without capturing anything; its status. As ``run`` otherwise."""
    return _run(*popenargs, timeout=timeout, **kwargs).returncode


def _check_call(*popenargs: Any, **kwargs: Any) -> int:
    """As ``call``; raises ``CalledProcessError`` for a status other than 0."""
    status = _call(*popenargs, **kwargs)
    if status:
        cmd = kwargs.get("args")
        raise CalledProcessError(status, popenargs[0] if cmd is None else cmd)
    return 0


def _check_output(*popenargs: Any, timeout: float | None = None, **kwargs: Any) -> Any:
    """Run a command and return its stdout; ``CalledProcessError`` for a status other than 0. As ``run`` otherwise."""
    for name in ("stdout", "check"):
        if name in kwargs:
            raise ValueError(f"{name} argument not allowed, it will be overridden.")
    if "input" in kwargs and kwargs["input"] is None:
        # the standard library makes this an empty stdin, of the kind that the other arguments ask for
        text = kwargs.get("universal_newlines") or kwargs.get("text") or kwargs.get("encoding") or kwargs.get("errors")
        kwargs["input"] = "" if text else b""
    return _run(*popenargs, stdout=PIPE, timeout=timeout, check=True, **kwargs).stdout


def _getstatusoutput(cmd: Any, *, encoding: str | None = None, errors: str | None = None) -> tuple[int, str]:
    """The status and the output, stderr included and without the last newline, of a shell's command."""
    try:
        out = _check_output(cmd, **_SHELL, text=True, stderr=STDOUT, encoding=encoding, errors=errors)
        status = 0
    except CalledProcessError as error:
        out, status = error.output, error.returncode
    return status, out.removesuffix("\n")


def _getoutput(cmd: Any, *, encoding: str | None = None, errors: str | None = None) -> str:
    """The same without the status."""
    return _getstatusoutput(cmd, encoding=encoding, errors=errors)[1]


if TYPE_CHECKING:
    # to type checkers they are what they stand for
    from subprocess import Popen, call, check_call, check_output, getoutput, getstatusoutput, run
else:
    Popen, run, call, check_call, check_output = _Popen, _run, _call, _check_call, _check_output
    getoutput, getstatusoutput = _getoutput, _getstatusoutput
    for _name in ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"):
        globals()[_name].__name__ = globals()[_name].__qualname__ = _name
