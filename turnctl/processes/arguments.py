"""The options of ``run`` and ``popen``, in one place: their defaults, and what they are checked and made into.

Nothing here starts or opens anything. Bad input raises ``TypeError`` or ``BadArgument``, a turn that was stopped what
its checkpoint raises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from turnctl.errors import BadArgument
from turnctl.processes.containment import Choice, Require
from turnctl.processes.hygiene import compose_env, read_hygiene
from turnctl.processes.output import Source
from turnctl.processes.request import Leftovers
from turnctl.processes.scoped import scoped
from turnctl.processes.spec import Args, Spec, Stream, Tty, make_spec, read_stream
from turnctl.processes.tapping import Tap
from turnctl.processes.targets import TeeTo
from turnctl.processes.tee import Tee
from turnctl.processes.text import Coding
from turnctl.processes.ttys import refuse_streams
from turnctl.tokens.activities import Owner

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["Asked", "read_options"]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Asked(NamedTuple):
    """What a call asks for."""

    spec: Spec
    coding: Coding | None
    tap: Tap
    #: what is to be written to the command's stdin, where the call itself does that
    source: Source | None


def read_options(
    function: Literal["run", "popen"],
    holder: Owner,
    args: Args,
    data: bytes | str | None,
    *,
    shell: bool = False,
    cwd: Path | None = None,
    env: Mapping[Any, Any] | None = None,
    stdin: Stream = None,
    capture: bool = True,
    merge_stderr: bool = False,
    stdout: Stream = None,
    stderr: Stream = None,
    text: bool = False,
    encoding: str | None = None,
    errors: str | None = None,
    timeout: float | str | None = None,
    grace: float | str | None = None,
    stop_signal: int | str = "TERM",
    tty: Tty | None = None,
    tty_size: tuple[int, int] | None = None,
    tty_echo: bool = False,
    close_fds: bool = True,
    on_start: Callable[[int], None] | None = None,
    before_exec: Callable[[], None] | None = None,
    containment: Choice | None = None,
    require: Require | None = None,
    leftovers: Leftovers = "end",
    owner: object | None = None,
    max_output: int | str | None = None,
    idle_timeout: float | str | None = None,
    tee: TeeTo | Tee | None = None,
    tee_lines: bool = False,
    tee_backpressure: bool = False,
    env_extra: Mapping[Any, Any] | None = None,
    env_unset: Iterable[str] | None = None,
    pass_fds: Iterable[int | IO[Any]] = (),
    umask: int | None = None,
    nice: int | None = None,
    limits: Mapping[str, int | float | str | None] | None = None,
    core_dumps: bool = True,
    shield: bool = False,
    **unknown: Any,
) -> Asked:
    """Check the options of a call of ``function``; ``data`` is its ``input``. A checkpoint."""
    is_run = function == "run"
    if unknown:
        from turnctl.processes.options import PopenOptions, RunOptions
        from turnctl.processes.unknown import refuse_unknown

        refuse_unknown(function, unknown, (RunOptions if is_run else PopenOptions).__annotations__)
    scoped(holder).check()
    coding = Coding(encoding, errors) if text or encoding or errors else None
    source = _input(data, stdin, coding)
    tap = Tap(
        capture=capture,
        stdout=stdout,
        stderr=stderr,
        max_output=max_output,
        tee=tee,
        tee_lines=tee_lines,
        tee_backpressure=tee_backpressure,
    )
    if tty == "new":
        is_fed = not is_run and stdin in ("pipe", -1)
        refuse_streams(capture or tee is not None, merge_stderr, stdout, stderr, None if is_fed else stdin)
        merge_stderr, stdin = True, "pipe"
        if is_run:
            source = source or Source(closing=True)
    spec = make_spec(
        args,
        shell=shell,
        cwd=cwd,
        env=compose_env(env, env_extra, env_unset),
        stdin="pipe" if source is not None else _stdin(stdin, is_run=is_run),
        stdout=read_stream(stdout, tap.default("stdout"), what="stdout", allowed=("pipe", "null", "inherit")),
        stderr=_stderr(stderr, tap.default("stderr"), merge_stderr),
        timeout=timeout,
        grace=grace,
        stop_signal=stop_signal,
        tty=tty,
        tty_size=tty_size,
        tty_echo=tty_echo,
        close_fds=close_fds,
        on_start=on_start,
        before_exec=before_exec,
        containment=containment,
        require=require,
        leftovers=leftovers,
        heir=_heir(leftovers, owner, holder),
        idle_timeout=idle_timeout,
        pass_fds=pass_fds,
        hygiene=read_hygiene(umask=umask, nice=nice, limits=limits, core_dumps=core_dumps, shield=shield),
    )
    tap.check(spec)
    return Asked(spec, coding, tap, source)


def _heir(leftovers: Leftovers, owner: object | None, holder: Owner) -> TurnCore | None:
    if leftovers != "detach" and owner is None:
        return None
    from turnctl.processes.detached import heir_of

    return heir_of(leftovers, owner, holder)


def _input(data: bytes | str | None, stdin: Stream, coding: Coding | None) -> Source | None:
    if data is None:
        return None
    if stdin is not None:
        raise BadArgument("stdin and input cannot both be given: input is written to the command's stdin")
    if isinstance(data, str):
        if coding is None:
            raise TypeError("input is a str; give bytes, or text=True")
        return Source(coding.encode(data), closing=True)
    if coding is not None:
        raise TypeError(f"input is of type {type(data).__name__}; with text=True give a str")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"input is {data!r}, of type {type(data).__name__}; give bytes, or a str with text=True")
    return Source(data, closing=True)


def _stdin(stdin: Stream, *, is_run: bool) -> int | str:
    allowed = ("null", "inherit") if is_run else ("null", "inherit", "pipe")
    return read_stream(stdin, "null", what="stdin", allowed=allowed)


def _stderr(stderr: Stream, default: str, merge: bool) -> int | str:
    if not merge:
        return read_stream(stderr, default, what="stderr", allowed=("pipe", "null", "inherit", "stdout"))
    if stderr is not None:
        raise BadArgument("stderr and merge_stderr cannot both be given; merge_stderr sends it to stdout")
    return "stdout"
