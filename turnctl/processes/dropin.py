"""``Popen`` as ``subprocess`` has it, for a command that turnctl supervises.

A subclass, so that arguments, pipes, files and their errors are the standard library's own. What is replaced is the
start, the waiting, the sending of signals and the exchange with the pipes: the command is no child of this process.

Invariants
  P1  The command is admitted by its owner before it is started; a start that fails leaves no process and no pipe.
  P2  ``wait``, ``communicate``, reads of ``stdout`` and ``stderr`` and the end of a ``with`` are checkpoints. ``poll``,
      ``send_signal``, ``terminate`` and ``kill`` are none and never block.
  P3  A stop ends the command with all that it started, whoever waits; a handle that is dropped changes nothing.
  P4  A signal is sent by who holds the command, to the main process, and only while that has not ended.
  P5  An object that was made plain (``_is_plain``) is the standard library's in every respect.

May block: the checkpoints, until the command, its pipes, the time or the stop. Thread-safe as ``subprocess`` is; each
pipe has one reader. Not promised: that a write to ``stdin`` is a checkpoint. It ends when the stop has ended the
command, as nobody reads any more.
"""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping
from errno import EBADF, EINVAL
from time import monotonic
from typing import TYPE_CHECKING, Any

from turnctl.errors import BadArgument, CancelledError, TurnctlError
from turnctl.processes.attending import Attending
from turnctl.processes.containment import read_wish
from turnctl.processes.exchange import Exchange
from turnctl.processes.hygiene import Hygiene
from turnctl.processes.kept import keep, look_through
from turnctl.processes.reading import checked, is_untouched
from turnctl.processes.scoped import scoped
from turnctl.processes.spec import Details, Spec
from turnctl.processes.supervise import Supervision
from turnctl.processes.unowned import Unowned
from turnctl.records.process import ProcessOutcome
from turnctl.tokens import registry
from turnctl.tokens.activities import Owner
from turnctl.tokens.current import current_token
from turnctl.tokens.turn import TurnCore

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Popen"]

_Original: Any = subprocess.Popen
_code = _Original._execute_child.__code__
#: what the start is given, by name, whatever the order is in this version
_GIVEN = _code.co_varnames[1 : _code.co_argcount]
_INHERITED = -1
_GREATEST_ID = 2**32 - 1


class Popen(_Original):  # type: ignore[misc] # its generic form is for type checkers, which see that class itself
    """A command with the interface of ``subprocess.Popen``, supervised under the turn that is current when it is made.

    With no turn it is not stoppable, and ends with this program at the latest.
    """

    #: told before the start: leave this one to the standard library
    _is_plain = False
    _supervision: Supervision | None = None
    _attending: Attending
    _exchange: Exchange | None = None
    stdout: Any
    stderr: Any
    returncode: int | None

    # -- starting --------------------------------------------------------------------------------------------

    def _execute_child(self, *given: Any) -> None:
        if self._is_plain:
            super()._execute_child(*given)
            return
        asked = dict(zip(_GIVEN, given, strict=True))
        spec = _spec(asked)
        look_through()
        owner = _owner()
        self._attending = Attending(owner)
        self._attending.check()
        supervision = Supervision(
            spec,
            scoped(owner),
            stdout=None,
            stderr=None,
            stdin=None,
            keeps_leftovers=True,
            changed=self._attending.ring,
        )
        supervision.on_moved = self._attending.go_to
        supervision.launch()
        pid = supervision.outcome().pid  # type: ignore[union-attr] # it has been started
        if pid is None:
            supervision.end(lambda: 0.0)
            raise ChildProcessError(
                f"{spec.title}: its warden was killed at the moment of the start, so it may have run"
            )
        if isinstance(owner, Unowned):
            keep(supervision)
        self._supervision = supervision
        self.pid = pid
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in _PIPES))
        self.stdout, self.stderr = (
            None if file is None else checked(file, self._attending) for file in (self.stdout, self.stderr)
        )

    def __del__(self, *given: Any, _warn: Any = warnings.warn) -> None:
        supervision = self._supervision
        if supervision is None:
            super().__del__(*given)
        elif self.returncode is None and not supervision.is_foreign and isinstance(self._attending.owner, Unowned):
            # a turn's is ended by the turn, and reported there
            _warn(f"subprocess {self.pid} is still running", ResourceWarning, source=self)

    # -- what is known ---------------------------------------------------------------------------------------

    def outcome(self) -> ProcessOutcome | None:
        """What is known of the command now; None for one that turnctl does not supervise. Never blocks."""
        return None if self._supervision is None else self._supervision.outcome()

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        supervision = self._supervision
        if supervision is None:
            return super()._internal_poll(*given, **named)  # type: ignore[no-any-return]
        if self.returncode is None and not supervision.is_foreign:
            self.returncode = supervision.status()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        supervision = self._supervision
        if supervision is None:
            return super()._wait(timeout)  # type: ignore[no-any-return]
        if supervision.is_foreign and self.returncode is None:
            raise TurnctlError(f"{self!r} belongs to the process that started it, not to its forked child")
        if not self._has_ended_by(None if timeout is None else monotonic() + timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode  # type: ignore[return-value]

    def _has_ended_by(self, ends_at: float | None) -> bool:
        """Block until the main process has ended or ``ends_at``; whether it has. A checkpoint."""
        self._attending.check()
        if self._internal_poll() is None:
            self._attending.until(lambda: self._internal_poll() is not None, ends_at)
        return self.returncode is not None

    # -- signals ---------------------------------------------------------------------------------------------

    def send_signal(self, sig: int) -> None:
        """Have it sent to the main process, unless that has ended. Never blocks."""
        supervision = self._supervision
        if supervision is None:
            super().send_signal(sig)
            return
        number = operator.index(sig)
        if self.poll() is not None or supervision.is_foreign:
            return
        if number and number not in signal.valid_signals():
            raise OSError(EINVAL, os.strerror(EINVAL))
        if number:
            supervision.send(number)

    def _end_all(self) -> None:
        """Have the command and all that it started killed, and wait until that is done. Bounded; no checkpoint."""
        supervision = self._supervision
        if supervision is None:
            self.kill()
        elif supervision.phase != "over" and not supervision.is_foreign:
            supervision.hurry(0.0)
            self._await_end()

    def _await_end(self) -> None:
        """Wait until the stop has been carried out, the grace included. No checkpoint."""
        assert self._supervision is not None
        self._supervision.end(lambda: float("inf"))
        self._internal_poll()

    def _settle(self) -> None:
        """Wait until it is known what the command left behind, a tenth of a second at most. No checkpoint."""
        if self._supervision is not None:
            self._supervision.join()

    def _is_stopped(self) -> bool:
        """Whether a stop of its owner is ending it, or has."""
        return self._supervision is not None and self._supervision.is_stopped()

    # -- the pipes -------------------------------------------------------------------------------------------

    def _stdin_write(self, data: Any) -> None:
        if self._supervision is None:
            super()._stdin_write(data)
        else:
            Exchange(self.stdin, (), data).go_on(self._attending, None, lambda: False)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Give ``input`` to stdin, and read stdout and stderr to their ends; both, and ``returncode`` is set.

        ``TimeoutExpired`` after ``timeout`` seconds, with what there is so far; may be called again then. A checkpoint.
        """
        outputs = [file for file in (self.stdout, self.stderr) if file is not None]
        if self._supervision is not None and self.stdin is None and outputs and all(map(is_untouched, outputs)):
            # never by one read to the end, which a stop would interrupt with all that it has
            self._communication_started = True
            return super().communicate(None, timeout)  # type: ignore[no-any-return]
        return super().communicate(input, timeout)  # type: ignore[no-any-return]

    def _communicate(self, data: Any, endtime: float | None, orig_timeout: float | None) -> tuple[Any, Any]:
        if self._supervision is None:
            return super()._communicate(data, endtime, orig_timeout)  # type: ignore[no-any-return]
        if self._exchange is None:
            self._exchange = Exchange(self.stdin, (self.stdout, self.stderr), data)
        exchange = self._exchange

        def is_late() -> bool:
            return endtime is not None and monotonic() >= endtime

        self._attending.check()
        if not exchange.go_on(self._attending, endtime, is_late) or not self._has_ended_by(endtime):
            got = [exchange.value(at) or None for at in (0, 1)]
            raise subprocess.TimeoutExpired(self.args, orig_timeout or 0, output=got[0], stderr=got[1])
        return self._read_so_far(0), self._read_so_far(1)

    def _read_so_far(self, at: int) -> Any:
        data = self._exchange.value(at) if self._exchange is not None else None
        file: Any = (self.stdout, self.stderr)[at]
        if data is None or not self.text_mode:
            return data
        return self._translate_newlines(data, file.encoding, file.errors)

    def _taken(self, at: int) -> bytes | None:
        """All that one stream has given to ``communicate``, and what is in its pipe now. Never blocks."""
        if self._exchange is None:
            self._exchange = Exchange(None, (self.stdout, self.stderr), None)
        self._exchange.take_rest()
        return self._exchange.value(at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pipes and wait for the command; one that is being stopped until that is done."""
        try:
            super().__exit__(kind, error, trace)
        except CancelledError:
            if self._is_stopped():
                self._await_end()
            if not isinstance(error, CancelledError):
                raise


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def _owner() -> Owner:
    found = registry.enclosing(current_token())
    return found if isinstance(found, TurnCore) else Unowned()


def _spec(asked: Mapping[str, Any]) -> Spec:
    """The command as it will be started, checked as ``subprocess`` checks it: the same errors, before any process."""
    given, shell, executable = asked["args"], asked["shell"], asked["executable"]
    if isinstance(given, os.PathLike) and shell:
        raise TypeError("path-like args is not allowed when shell is true")
    args: list[Any] = [given] if isinstance(given, (str, bytes, os.PathLike)) else list(given)
    if shell:
        args = [executable or "/bin/sh", "-c", *args]
    program = args[0] if executable is None else executable
    sys.audit("subprocess.Popen", program, args, asked["cwd"], asked["env"])
    for one in (*args, program, *(() if asked["cwd"] is None else (asked["cwd"],))):
        _refuse_nul(os.fsencode(one))
    _check_environment(asked["env"])
    groups = asked["gids"]
    for name in ("uid", "gid"):
        if asked[name] is not None and asked[name] > _GREATEST_ID:
            raise OverflowError(f"{name} is greater than maximum")
    if any(one > _GREATEST_ID for one in groups or ()):
        raise ValueError("invalid group id")
    umask = operator.index(asked["umask"])
    return Spec(
        given=tuple(os.fsdecode(one) for one in args),
        args=args,
        argv=tuple(os.fsdecode(one) for one in args),
        shell=False,
        cwd=asked["cwd"],
        env=asked["env"],
        stdin=_end(asked["p2cread"]),
        stdout=_end(asked["c2pwrite"]),
        stderr=_end(asked["errwrite"]),
        timeout_s=None,
        grace_s=None,
        stop_signal=signal.SIGTERM,
        tty=None,
        terminal=_terminal(asked["process_group"], asked["start_new_session"]),
        close_fds=bool(asked["close_fds"]),
        on_start=None,
        before_exec=asked["preexec_fn"],
        wish=read_wish(None, None),
        pass_fds=_descriptors(asked["pass_fds"]),
        hygiene=Hygiene(umask=None if umask < 0 else umask),
        details=Details(
            executable=executable,
            user=asked["uid"],
            group=asked["gid"],
            extra_groups=None if groups is None else tuple(groups),
            restore_signals=bool(asked["restore_signals"]),
        ),
    )


def _end(fd: int) -> int | str:
    if fd < _INHERITED:
        raise OSError(EBADF, os.strerror(EBADF))
    return "inherit" if fd == _INHERITED else fd


def _terminal(group: int, session: bool) -> Any:
    if group > 0:
        raise BadArgument(
            f"process_group={group} would have the command join a group that turnctl does not hold; "
            "use 0 for a group of its own, or the Popen of subprocess"
        )
    return "group" if group == 0 and not session else "session"


def _check_environment(env: Mapping[Any, Any] | None) -> None:
    for name, value in () if env is None else env.items():
        encoded = os.fsencode(name)
        if b"=" in encoded:
            raise ValueError("illegal environment variable name")
        _refuse_nul(encoded)
        _refuse_nul(os.fsencode(value))


def _refuse_nul(text: bytes) -> None:
    if b"\0" in text:
        raise ValueError("embedded null byte")


def _descriptors(given: Any) -> tuple[int, ...]:
    found = tuple(sorted(set(map(int, given))))
    if any(fd < 0 for fd in found):
        raise ValueError("bad value(s) in fds_to_keep")
    return found
