"""The handle of a running command: its lines, its stdin, waiting for it and ending it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Self

from turnctl import points
from turnctl.clock import parse_duration
from turnctl.errors import TurnctlError
from turnctl.processes.output import CHUNK, Source
from turnctl.processes.recording import recorded
from turnctl.processes.scoped import scoped, watching
from turnctl.processes.spec import Spec
from turnctl.processes.supervise import Supervision
from turnctl.processes.tapping import Tap
from turnctl.processes.text import Coding, Lines
from turnctl.processes.ttys import read_size
from turnctl.processes.unowned import Unowned
from turnctl.records.process import ProcessOutcome
from turnctl.tokens.activities import Owner

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Process"]


class Process:
    """A command that runs while the program goes on; made by ``turn.popen``.

    It ends with its owner at the latest, or when its ``with`` is left. ``for line in process`` gives the
    lines of its stdout as they come. Methods may be called from any thread, but each stream has one reader.
    Iterating, ``wait`` and ``write`` are checkpoints: a stop wakes and raises at once, while the command is
    still being ended; the end of the turn waits for that. A token below the turn (``turn.child(timeout=...)``) stops
    the command if it was bound where that was started, and the checkpoints where it is bound now.
    """

    def __init__(self, spec: Spec, owner: Owner, coding: Coding | None, tap: Tap, *, is_fed: bool = True) -> None:
        self._owner = owner
        self._coding = coding
        self._changed = threading.Condition()
        self._source = Source(closing=not is_fed, changed=self._notify) if spec.stdin == "pipe" else None
        #: the lines of each stream, None where it is not captured
        self.stdout = self._lines(tap) if tap.keeps(spec, "stdout") else None
        self.stderr = self._lines(tap) if tap.keeps(spec, "stderr") else None
        sinks, tee = tap.make(spec, coding, (self.stdout, self.stderr))
        out, err = recorded(owner, spec, sinks)
        self._supervision = Supervision(
            spec,
            scoped(owner),
            stdout=out,
            stderr=err,
            stdin=self._source,
            keeps_leftovers=not isinstance(owner, Unowned),
            tee=tee,
            changed=self._notify,
        )
        self._supervision.on_moved = self._go_to
        self._supervision.launch()
        first = self._supervision.outcome()
        assert first is not None
        if first.pid is None:
            self._supervision.end(monotonic)
            left = "nothing is known of it" if self._supervision.account.survivors else "nothing of it is left"
            raise ChildProcessError(
                f"{spec.title}: its warden was killed or stopped at the moment of the start, so it may have run; {left}"
            )
        self.args = spec.given
        self.pid: int = first.pid

    def _lines(self, tap: Tap) -> Lines:
        return Lines(self._changed, self._owner, self._make_room, self._coding, keeps=tap.max_output)

    def _go_to(self, owner: Owner) -> None:
        """Obey ``owner`` from now on, whose it has become."""
        self._owner = owner
        for lines in (self.stdout, self.stderr):
            if lines is not None:
                lines.owner = owner

    def _make_room(self) -> None:
        self._supervision.wake()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- what is known ---------------------------------------------------------------------------------------

    @property
    def returncode(self) -> int | None:
        """The status of the main process, minus N for signal N; None before its end, or where it is not
        known.
        """
        return self.outcome().returncode

    def poll(self) -> int | None:
        """The status of the main process, or None while it runs, as ``subprocess`` has it.

        Never blocks, not a checkpoint. None as well where the status of a process that has ended is not known: ask
        ``outcome().exited``.
        """
        return self.returncode

    def outcome(self) -> ProcessOutcome:
        """What is known now. Never blocks, not a checkpoint."""
        found = self._supervision.outcome()
        assert found is not None
        return found

    @property
    def _is_over(self) -> bool:
        return self._supervision.phase in ("left", "over")

    # -- lines -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self._need_stdout())

    def chunks(self) -> Iterator[str | bytes]:
        """The stdout in pieces of any size, as soon as each is there; otherwise as the lines."""
        return self._need_stdout().chunks()

    def _need_stdout(self) -> Lines:
        if self.stdout is None:
            raise TurnctlError(f"{self!r} has no lines to read: its stdout was not captured")
        return self.stdout

    # -- stdin -----------------------------------------------------------------------------------------------

    def write(self, data: bytes | str) -> None:
        """Hand ``data`` over to the command's stdin. A checkpoint.

        Blocks while the command takes it too slowly. Raises ``BrokenPipeError`` if the command reads no more.
        """
        source = self._need_stdin()
        if isinstance(data, str):
            if self._coding is None:
                raise TypeError("write() was given a str; give bytes, or start the command with text=True")
            data = self._coding.encode(data)
        elif self._coding is not None:
            raise TypeError(f"write() was given {type(data).__name__}; with text=True give a str")
        owner = scoped(self._owner)
        owner.check()
        if source.closing:
            raise TurnctlError(f"the stdin of {self!r} has been closed; nothing more can be written to it")
        is_lost = source.is_broken
        if not is_lost:
            with self._changed:
                source.feed(data)
            self._supervision.wake()
            self._wait_until(lambda: source.is_broken or source.size <= CHUNK, None)
            is_lost = source.is_broken and source.size > 0  # one that took it all may be gone by now
        if is_lost:
            owner.check()  # it may read no more since it is being stopped
            raise BrokenPipeError(f"{self!r} reads no more of its stdin")

    def close_stdin(self) -> None:
        """Tell the command that no more input comes, once it has taken what was written. Never blocks."""
        self._need_stdin().closing = True
        self._supervision.wake()

    def _need_stdin(self) -> Source:
        self._refuse_in_fork()
        if self._source is None:
            raise TurnctlError(f'{self!r} has no stdin to write to; start it with stdin="pipe"')
        return self._source

    # -- its terminal ----------------------------------------------------------------------------------------

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal another size; what has the foreground there is told by SIGWINCH. Never blocks.

        For a command that was started with ``tty="new"``, else ``TurnctlError``; nothing once it is over. Any thread.
        """
        size = read_size((rows, columns), "the size of a terminal")
        self._refuse_in_fork()
        pty = self._supervision.pty
        if pty is None:
            raise TurnctlError(f'{self!r} has no terminal of its own to resize; start it with tty="new"')
        pty.resize(*size)

    # -- the end ---------------------------------------------------------------------------------------------

    def wait(self, timeout: float | str | None = None) -> int | None:
        """Block until the command has ended and its output is in, and return its status. A checkpoint at both ends.

        ``timeout`` is seconds or "30s"; when it passes ``subprocess.TimeoutExpired`` is raised and the
        command goes on. Reads nothing: a command whose captured output nobody reads waits at 8 MiB.
        """
        seconds = parse_duration(timeout, what="timeout", zero=True, none=True)
        self._refuse_in_fork()
        scoped(self._owner).check()
        points.reach("process.waiting")
        if not self._wait_until(lambda: self._is_over, seconds):
            raise subprocess.TimeoutExpired(self._cmd, seconds or 0.0)
        scoped(self._owner).check()  # or a command that the stop has ended looks like one that failed by itself
        return self.returncode

    def stop(self, grace: float | str | None = None) -> ProcessOutcome:
        """End the command and everything it started, wait for that, and return what is known. Not a
        checkpoint.

        ``grace`` (seconds or "3s", by default the command's or its owner's) is the time between asking and
        killing; a repeated stop can only shorten it. Blocks for the grace and 5 s at most.
        """
        seconds = parse_duration(grace, what="grace", zero=True, none=True)
        self._refuse_in_fork()
        if seconds is not None:
            self._supervision.hurry(seconds)
        self._supervision.end(lambda: float("inf"))
        return self.outcome()

    def kill(self) -> None:
        """Have the command and everything it started killed, without any grace. Does not wait, never
        blocks.
        """
        self._refuse_in_fork()
        self._supervision.hurry(0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the command if it still runs; in a forked child do nothing."""
        if not self._supervision.is_foreign:
            self.stop()

    # -- inside ----------------------------------------------------------------------------------------------

    def _wait_until(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Block until ``done()``, a stop, or the end of the time; whether it is done."""
        ends_at = None if timeout is None else monotonic() + timeout
        with watching(self._owner, self._notify) as owner, self._changed:
            while not done():
                owner.check()
                left = None if ends_at is None else ends_at - monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _refuse_in_fork(self) -> None:
        if self._supervision.is_foreign:
            raise TurnctlError(f"{self!r} belongs to the process that started it, not to its forked child")

    @property
    def _cmd(self) -> list[str] | str:
        return self.args if isinstance(self.args, str) else list(self.args)

    def __repr__(self) -> str:
        supervision = self._supervision
        return f"<Process {self.pid} {supervision.name!r} {supervision.phase}>"
