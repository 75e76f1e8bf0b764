"""Running a command for an owner: ``run`` to its end, ``popen`` for a handle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Unpack

from turnctl.errors import BadArgument, CancelledError
from turnctl.processes.arguments import read_options
from turnctl.processes.capture import Capture, Cut
from turnctl.processes.recording import recorded
from turnctl.processes.scoped import scoped
from turnctl.processes.sizes import format_size
from turnctl.processes.spec import Args, Spec
from turnctl.processes.supervise import Supervision
from turnctl.processes.tapping import STREAMS
from turnctl.processes.text import Coding
from turnctl.processes.unowned import Unowned
from turnctl.records.process import Completed
from turnctl.tokens.activities import Owner

if TYPE_CHECKING:
    from turnctl.processes.options import PopenOptions
    from turnctl.processes.process import Process

__all__ = ["Unowned", "popen", "run"]


def run(
    holder: Owner,
    args: Args,
    *,
    input: bytes | str | None = None,
    check: bool = False,
    mark_cut: bool = False,
    on_stop: Literal["raise", "return"] = "raise",
    **options: Unpack[PopenOptions],
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
    stream for so long; unlike ``timeout`` it is not held while this program itself is stopped.

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
    if check:
        import turnctl.processes.failed  # noqa: F401 - while there is a descriptor to be had
    spec, coding, tap, source = read_options("run", holder, args, input, **options)
    if on_stop not in ("raise", "return"):
        raise BadArgument(f"unknown on_stop {on_stop!r}; use raise or return")
    here = scoped(holder)
    kept = [Capture(tap.max_output) if tap.keeps(spec, name) else None for name in STREAMS]
    sinks, its_tee = tap.make(spec, coding, kept)
    sinks = recorded(holder, spec, sinks)
    supervision = Supervision(
        spec,
        here,
        stdout=sinks[0],
        stderr=sinks[1],
        stdin=source,
        keeps_leftovers=not isinstance(holder, Unowned),
        tee=its_tee,
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


def popen(holder: Owner, args: Args, **options: Unpack[PopenOptions]) -> Process:
    """Start a command and return a handle to it; it is ended with its owner at the latest. A checkpoint.

    Arguments are those of ``run``; with ``stdin="pipe"`` the handle's ``write`` feeds it. The command is
    supervised on a thread of its own, so a stop and the timeout reach it whatever the caller does. Blocks
    until it has been loaded. Raises as ``run`` does where it cannot be started.
    """
    from turnctl.processes.process import Process

    spec, coding, tap, _ = read_options("popen", holder, args, None, **options)
    return Process(spec, holder, coding, tap, is_fed=options.get("stdin") is not None)


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
