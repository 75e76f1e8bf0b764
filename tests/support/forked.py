"""A turnctl of its own without the start of one: a fork of this process, which has loaded what it needs.

What matters about a process is as in one that was started: descriptors 0 to 2, the streams that Python makes of them,
its signals, its environment, its folder, its user, its limits; and it ends as ``main`` ends.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sqlite3
import sys
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from launch import Ended, clean_environment

from turnctl.cli.main import main

__all__ = ["Forked", "forked", "holding", "ran", "waited"]

BOUND_S = 20.0


class Forked:
    """A turnctl that runs; ``ended`` waits for it."""

    def __init__(self, pid: int, fds: tuple[int, int]) -> None:
        self.pid = pid
        self._fds = list(fds)
        self._texts = [b"", b""]

    def ended(self) -> Ended:
        """How it ended, with what it wrote; minus N for signal N. One that does not end is killed."""
        until = time.monotonic() + BOUND_S
        while any(fd >= 0 for fd in self._fds):
            self._read(until - time.monotonic())
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, *(text.decode("utf-8", "backslashreplace") for text in self._texts))

    def said(self, text: str) -> None:
        """Wait until it has said that on stderr."""
        until = time.monotonic() + BOUND_S
        while text.encode() not in self._texts[1]:
            assert self._fds[1] >= 0, f"it ended without saying {text!r}: {self._texts}"
            self._read(until - time.monotonic())

    def _read(self, seconds: float) -> None:
        ready = select.select([fd for fd in self._fds if fd >= 0], [], [], max(0.0, seconds))[0]
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            for fd in self._fds:
                if fd >= 0:
                    os.close(fd)
            raise AssertionError(f"it did not end within {BOUND_S:g} s; it wrote {self._texts}")
        for n, fd in enumerate(self._fds):
            if fd in ready:
                data = os.read(fd, 65536)
                self._texts[n] += data
                if not data:
                    os.close(fd)
                    self._fds[n] = -1


def forked(
    *args: str,
    stdin: int | None = None,
    stdout: int | str | None = None,
    before: Callable[[], object] = lambda: None,
    env: dict[str, str | None] | None = None,
) -> Forked:
    """Start it. ``stdout`` is a descriptor, or "closed"; ``before`` runs in it first; None in ``env`` takes away."""
    out, err = os.pipe(), os.pipe()
    pid = _fork()
    if pid == 0:
        _be(args, stdin, out[1] if stdout is None else stdout, err[1], before, env or {})
    os.close(out[1])
    os.close(err[1])
    return Forked(pid, (out[0], err[0]))


def _fork() -> int:
    with warnings.catch_warnings():  # from 3.12 on of threads, of which the watchdog of the tests is one
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def waited(*args: str, **options: Any) -> Ended:
    """Run it to its end."""
    return forked(*args, **options).ended()


def ran(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Ended:
    """What ``launch.call`` gives, without the start of a Python: for what it runs, not for how it starts itself."""
    clean = clean_environment(**(env or {}))
    gone = dict.fromkeys(os.environ.keys() - clean.keys())
    return waited(*args, before=lambda: cwd is None or os.chdir(cwd), env={**gone, **clean})


@contextmanager
def holding(path: Path, *statements: str) -> Iterator[int]:
    """Another process has the database open, and has run ``statements``; its number."""
    ready, told = os.pipe()
    wait, done = os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(done)
        try:
            connection = sqlite3.connect(path, isolation_level=None)
            for statement in ("SELECT * FROM meta", *statements):
                connection.execute(statement).fetchall()
            os.write(told, b".")
            os.read(wait, 1)
        finally:
            os._exit(0)
    try:
        assert b"." == os.read(ready, 1)
        yield pid
    finally:
        for fd in (done, wait, ready, told):
            os.close(fd)
        os.waitpid(pid, 0)


def _be(
    args: tuple[str, ...],
    stdin: int | None,
    stdout: int | str,
    stderr: int,
    before: Callable[[], object],
    env: dict[str, str | None],
) -> NoReturn:
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null if stdin is None else stdin, 0)
        os.dup2(stderr, 2)
        if isinstance(stdout, int):
            os.dup2(stdout, 1)
        else:
            os.close(1)
        os.closerange(3, 4096)
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False), "utf-8")
        sys.stderr = sys.__stderr__ = _stream(2)
        sys.stdout = sys.__stdout__ = _stream(1) if isinstance(stdout, int) else None  # type: ignore[misc,assignment]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.setsid()
        weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # what is to be taken away is the parent's
        for name, value in env.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        before()
        try:
            main(args)
        except SystemExit as ending:
            os._exit(ending.code if isinstance(ending.code, int) else 1)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(99)


def _stream(fd: int) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), "utf-8", errors="backslashreplace", write_through=True)
