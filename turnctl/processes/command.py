"""Running a command for an owner: ``run`` to its end, ``popen`` for a handle."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

from turnctl.errors import BadArgument, CancelledError
from turnctl.processes.capture import Capture, Cut
from turnctl.processes.containment import Choice, Require
from turnctl.processes.hygiene import compose_env, read_hygiene
from turnctl.processes.output import Source
from turnctl.processes.request import Leftovers
from turnctl.processes.scoped import scoped
from turnctl.processes.sizes import format_size
from turnctl.processes.spec import Args, Spec, Stream, Tty, make_spec, read_stream
from turnctl.processes.supervise import Supervision
from turnctl.processes.tapping import STREAMS, Tap
from turnctl.processes.targets import TeeTo
from turnctl.processes.tee import Tee
from turnctl.processes.text import Coding
from turnctl.processes.ttys import refuse_streams
from turnctl.processes.unknown import refuse_unknown
from turnctl.processes.unowned import Unowned
from turnctl.records.process import Completed
from turnctl.tokens.activities import Owner

if TYPE_CHECKING:
    from turnctl.processes.process import Process
    from turnctl.tokens.turn import TurnCore

__all__ = ["Unowned", "popen", "run"]

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def run(
    holder: Owner,
    args: Args,
    *,
    shell: bool = False,
    cwd: Path | None = None,
    env: Mapping[Any, Any] | None = None,
    input: bytes | str | None = None,
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
    check: bool = False,
    mark_cut: bool = False,
    on_stop: Literal["raise", "return"] = "raise",
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
) -> Completed:
    """Run a command to its end and return what it wrote and how it ended. A checkpoint, also before the
    start.

    Arguments mean what they mean to ``subprocess.run`` where they have its names. Differences: both streams
    are captured unless ``capture=False`` (then they are inherited) or ``stdout``/``stderr`` say otherwise;
    stdin is the null device unless ``input`` or ``stdin`` says otherwise; ``timeout`` is a result,
    ``outcome.timed_out``, and an exception only with ``check=True``. ``timeout`` and ``grace`` are seconds or
    "1m30s". ``tty`` is None (a session of its own, without a terminal), ``inherit`` (the foreground of our terminal
    while it runs) or ``new`` (a terminal of its own of ``tty_size`` rows and columns, whose output is ``stdout``, with
    input echoed if ``tty_echo``); ``on_start`` is called with the pid. ``close_fds=False`` hands on what this
    program has open and inheritable; ``before_exec`` is called in the child, for a program without threads.
    ``containment`` names what is to hold it (``namespace``, ``cgroup``, ``warden``, ``group``), else
    ``TURNCTL_CONTAINMENT`` does, else it is ``auto``; ``require="complete"`` wants its end to be proved, ``"atomic"``
    one act of the kernel that ends all of it. What is not to be had raises ``ContainmentUnavailable``.

    ``max_output`` (bytes, or "10MiB") keeps the first and the last half of so much of each stream; ``Completed.cut``
    says what is missing, and with ``mark_cut=True`` a line in its place. ``tee`` is given the output as it comes: a
    function, an open file, a path, a descriptor, or a mapping of ``stdout`` and ``stderr`` to these; as bytes, or with
    ``tee_lines=True`` as lines of text. It runs on a thread of its own and never holds the command up; what it is more
    than 8 MiB behind with is not handed on, and counted in ``outcome.tee_lost``, unless ``tee_backpressure=True`` has
    the command wait. ``idle_timeout`` ends the command as ``timeout`` does when nothing came on a captured or handed on
    stream for so long.

    ``env`` is the whole environment, this program's if None; ``env_unset`` takes out of it what its patterns match,
    and ``env_extra`` adds to it. ``pass_fds`` are handed on under their numbers. ``umask`` and ``nice`` (which is added
    to this program's) are the command's alone, and so are ``limits``: ``cpu``, ``memory``, ``nofile``, ``processes``,
    ``file_size``, ``stack``, ``data``, ``core``, ``locked_memory``, never above this program's hard limit.
    ``core_dumps=False`` has none written. ``shield=True`` keeps it from sending signals to what it did not start. Where
    an option cannot be had, as without a warden, ``ContainmentUnavailable`` is raised and nothing started.

    On a stop of the turn or the timeout the whole tree is sent ``stop_signal``, and after the grace KILL
    until nothing of it is found. A stop then raises ``CancelledError`` with ``partial``, or with
    ``on_stop="return"`` returns the same ``Completed``. Blocks at most until the command ends, or grace and 5 s after a
    stop or timeout, and 5 s for a slow ``tee`` (1 s after a stop or timeout); a process that holds the output open
    after the command has ended delays it by 0.2 s of silence, 1 s in all. What the command left running when it ended
    by itself is in ``outcome.leftovers``, and ``leftovers`` says what becomes of it: ``end`` (with the turn, at once
    where there is none), ``end-now`` (before the call returns), ``wait`` (the call returns when all of it has ended,
    bounded by the timeout and a stop) or ``detach`` (it becomes that of the live turn that is given as ``owner``, which
    ends and reports it). A process that goes on writing to captured output has to wait when the pipe is full, except
    with ``wait``.

    Raises what ``subprocess.run`` raises where a command cannot be started, ``BadArgument`` (a
    ``ValueError``) for one that could never be, ``CommandFailed`` and ``CommandTimedOut`` with
    ``check=True``. May be called from any thread; runs on the caller's.

    A token below the owner's turn that is bound here, such as ``turn.child(timeout=...)``, stops it as well.
    """
    if unknown:
        from turnctl.processes.options import RunOptions

        refuse_unknown("run", unknown, RunOptions.__annotations__)
    if check:
        import turnctl.processes.failed  # noqa: F401 - while there is a descriptor to be had
    keeps_leftovers = not isinstance(holder, Unowned)
    here = scoped(holder)
    here.check()
    if on_stop not in ("raise", "return"):
        raise BadArgument(f"unknown on_stop {on_stop!r}; use raise or return")
    coding = _coding(text, encoding, errors)
    source = _input(input, stdin, coding)
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
        refuse_streams(capture or tee is not None, merge_stderr, stdout, stderr, stdin)
        merge_stderr = True
        source = source or Source(closing=True)
    spec = make_spec(
        args,
        shell=shell,
        cwd=cwd,
        env=compose_env(env, env_extra, env_unset),
        stdin="pipe" if source is not None else read_stream(stdin, "null", what="stdin", allowed=("null", "inherit")),
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
    kept = [Capture(tap.max_output) if tap.keeps(spec, name) else None for name in STREAMS]
    sinks, its_tee = tap.make(spec, coding, kept)
    supervision = Supervision(
        spec, here, stdout=sinks[0], stderr=sinks[1], stdin=source, keeps_leftovers=keeps_leftovers, tee=its_tee
    )
    supervision.run()
    completed = _completed(supervision, kept, coding, mark_cut=mark_cut)
    if supervision.interrupted:
        if on_stop == "raise":
            try:
                here.check()
            except CancelledError as error:
                error.partial = completed
                raise
        return completed
    if check:
        _check(completed, spec)
    return completed


def popen(
    holder: Owner,
    args: Args,
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
) -> Process:
    """Start a command and return a handle to it; it is ended with its owner at the latest. A checkpoint.

    Arguments are those of ``run``; with ``stdin="pipe"`` the handle's ``write`` feeds it. The command is
    supervised on a thread of its own, so a stop and the timeout reach it whatever the caller does. Blocks
    until it has been loaded. Raises as ``run`` does where it cannot be started.
    """
    if unknown:
        from turnctl.processes.options import PopenOptions

        refuse_unknown("popen", unknown, PopenOptions.__annotations__)
    from turnctl.processes.process import Process

    scoped(holder).check()
    coding = _coding(text, encoding, errors)
    tap = Tap(
        capture=capture,
        stdout=stdout,
        stderr=stderr,
        max_output=max_output,
        tee=tee,
        tee_lines=tee_lines,
        tee_backpressure=tee_backpressure,
    )
    is_fed = stdin is not None
    if tty == "new":
        refuse_streams(
            capture or tee is not None, merge_stderr, stdout, stderr, None if stdin in ("pipe", -1) else stdin
        )
        merge_stderr, stdin = True, "pipe"
    spec = make_spec(
        args,
        shell=shell,
        cwd=cwd,
        env=compose_env(env, env_extra, env_unset),
        stdin=read_stream(stdin, "null", what="stdin", allowed=("null", "inherit", "pipe")),
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
    return Process(spec, holder, coding, tap, is_fed=is_fed)


def _heir(leftovers: Leftovers, owner: object | None, holder: Owner) -> TurnCore | None:
    if leftovers != "detach" and owner is None:
        return None
    from turnctl.processes.detached import heir_of

    return heir_of(leftovers, owner, holder)


def _coding(text: bool, encoding: str | None, errors: str | None) -> Coding | None:
    return Coding(encoding, errors) if text or encoding or errors else None


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


def _stderr(stderr: Stream, default: str, merge: bool) -> int | str:
    if not merge:
        return read_stream(stderr, default, what="stderr", allowed=("pipe", "null", "inherit", "stdout"))
    if stderr is not None:
        raise BadArgument("stderr and merge_stderr cannot both be given; merge_stderr sends it to stdout")
    return "stdout"


def _completed(
    supervision: Supervision, kept: Sequence[Capture | None], coding: Coding | None, *, mark_cut: bool
) -> Completed:
    is_partial = supervision.interrupted or supervision.account.timed_out
    streams: list[bytes | str | None] = [None, None]
    for at, capture in enumerate(kept):
        if capture is not None:
            marker = _marker(capture.cut) if mark_cut else ""
            if coding is None:
                streams[at] = capture.value(marker.encode())
            elif capture.cut is not None:
                streams[at] = coding.decode_cut(capture, marker)
            else:
                data = capture.value()
                streams[at] = coding.decode_partial(data) if is_partial else coding.decode(data)
    # after that: in text a little more may have been left out
    outcome = supervision.handed or supervision.outcome()
    assert outcome is not None
    return Completed(supervision.spec.given, outcome.returncode, streams[0], streams[1], outcome)


def _marker(cut: Cut | None) -> str:
    return "" if cut is None else f"\n[{format_size(cut.left_out)} left out]\n"


def _check(completed: Completed, spec: Spec) -> None:
    from turnctl.processes.failed import CommandFailed, CommandTimedOut

    if completed.outcome.timed_out:
        limit_s = spec.idle_s if completed.outcome.timed_out_by == "idle" else spec.timeout_s
        assert limit_s is not None
        raise CommandTimedOut(completed, limit_s)
    if completed.returncode != 0:
        raise CommandFailed(completed)
