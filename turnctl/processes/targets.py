"""Who is given output while a command runs: a function, a file, a path or a descriptor."""

from __future__ import annotations

import errno
import io
import os
import select
from collections.abc import Callable, Mapping
from typing import IO, Any

from turnctl.errors import BadArgument
from turnctl.processes.capture import Capture, Cut
from turnctl.processes.output import write_some
from turnctl.tokens.callables import check_plain

__all__ = ["Limited", "Target", "TeeTo", "ToDescriptor", "make_targets", "read_tee"]

One = Callable[[Any], object] | IO[Any] | str | bytes | os.PathLike[str] | os.PathLike[bytes] | int
TeeTo = One | Mapping[str, One]

_CHOICE = "give a function, an open file, a path or a descriptor, or a mapping of stdout and stderr to these"
_STREAMS = ("stdout", "stderr")


class Target:
    """Somebody who is given output, piece by piece."""

    #: whether it takes text even where whole lines were not asked for, and where they were
    takes_text = False
    takes_text_lines = False
    #: whether the command should be told when this one takes no more
    passes_end_on = False

    def __init__(self, name: str, fn: Callable[[Any], object]) -> None:
        self.name = name
        self._fn = fn

    def write(self, piece: Any) -> None:
        """May block, and may raise anything."""
        self._fn(piece)

    def check(self) -> None:
        """Raise what a write would, if nobody can read it any more. Does not block."""

    def finish(self) -> None:
        """Nothing more will come."""

    def close(self) -> None:
        """Let go of what was opened here."""

    @property
    def cut(self) -> Cut | None:
        return None


class _ToFunction(Target):
    takes_text_lines = True


class _ToFile(Target):
    """An open file, which stays the caller's; flushed after each piece, so that a reader sees it."""

    def __init__(self, file: Any) -> None:
        super().__init__(f"file {getattr(file, 'name', None) or type(file).__name__}", file.write)
        self.takes_text = self.takes_text_lines = isinstance(file, io.TextIOBase) or hasattr(file, "encoding")
        self._flush = getattr(file, "flush", None)

    def write(self, piece: Any) -> None:
        self._fn(piece)
        if self._flush is not None:
            self._flush()


class ToDescriptor(Target):
    """A descriptor; one that does not block is waited for."""

    def __init__(self, name: str, fd: int, *, is_ours: bool = False, passes_end_on: bool = False) -> None:
        super().__init__(name, self.write)
        self._fd = fd
        self._is_ours = is_ours
        self.passes_end_on = passes_end_on

    def write(self, piece: Any) -> None:
        left = memoryview(piece)
        while left:
            try:
                left = left[write_some(self._fd, left) :]
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._fd, select.POLLOUT)
                poll.poll()

    def check(self) -> None:
        poll = select.poll()
        poll.register(self._fd, 0)
        if any(happened & select.POLLERR for _, happened in poll.poll(0)):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def close(self) -> None:
        if self._is_ours:
            self._is_ours = False
            os.close(self._fd)


class Limited(Target):
    """Passes on the first half of ``limit`` bytes as they come, and the last half of it at the end."""

    def __init__(self, inner: Target, limit: int) -> None:
        super().__init__(inner.name, inner.write)
        self.passes_end_on = inner.passes_end_on
        self._inner = inner
        self._live = limit - limit // 2
        self._capture = Capture(limit)

    def write(self, piece: Any) -> None:
        self._capture.feed(bytes(piece))
        now, self._live = piece[: self._live], max(0, self._live - len(piece))
        if now:
            self._fn(now)
        else:
            self._inner.check()  # who writes on and on is told here that its reader has gone

    def finish(self) -> None:
        tail = self._capture.tail
        if tail:
            self._fn(tail)

    @property
    def cut(self) -> Cut | None:
        return self._capture.cut


def read_tee(tee: TeeTo | None) -> dict[str, One]:
    """What each stream goes to, checked as far as that is possible without opening anything."""
    if tee is None:
        return {}
    if isinstance(tee, Mapping):
        for name in tee:
            if name not in _STREAMS:
                raise BadArgument(f"tee has the key {name!r}; its keys are stdout and stderr")
        if not tee:
            raise BadArgument(f"tee is empty; {_CHOICE}")
        chosen = dict(tee)
    else:
        chosen = dict.fromkeys(_STREAMS, tee)
    for one in chosen.values():
        _check(one)
    return chosen


def _check(one: Any) -> None:
    if isinstance(one, bool) or not (isinstance(one, (int, str, bytes, os.PathLike, Target)) or _is_open_file(one)):
        if not callable(one):
            raise TypeError(f"tee is {one!r}, of type {type(one).__name__}; {_CHOICE}")
        check_plain("tee", one)
    elif isinstance(one, int):
        try:
            os.fstat(one)
        except (OSError, OverflowError):
            raise BadArgument(f"tee={one!r} is no open descriptor; {_CHOICE}") from None
    elif getattr(one, "closed", False):
        raise BadArgument(f"tee={one!r} is closed; {_CHOICE}")


def _is_open_file(one: Any) -> bool:
    return callable(getattr(one, "write", None))


def make_targets(chosen: dict[str, One]) -> dict[str, Target]:
    """The targets, paths opened; one that both streams go to is one. Raises ``OSError`` with nothing left open."""
    made: dict[object, Target] = {}
    try:
        for one in chosen.values():
            if _key(one) not in made:
                made[_key(one)] = _make(one)
    except BaseException:
        for target in made.values():
            target.close()
        raise
    return {name: made[_key(one)] for name, one in chosen.items()}


def _key(one: Any) -> object:
    if isinstance(one, (str, bytes, os.PathLike)):
        return os.fsencode(one)
    return one if isinstance(one, int) else ("object", id(one))


def _make(one: Any) -> Target:
    if isinstance(one, Target):
        return one
    if isinstance(one, int):
        return ToDescriptor(f"descriptor {one}", one)
    if isinstance(one, (str, bytes, os.PathLike)):
        # a FIFO that nobody reads is refused here, not waited for
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = os.open(one, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ENXIO:
                error.strerror = "nobody reads from it"
            raise
        os.set_blocking(fd, True)
        return ToDescriptor(f"file {os.fsdecode(one)}", fd, is_ours=True)
    if _is_open_file(one):
        return _ToFile(one)
    return _ToFunction(f"function {_name_of(one)}", one)


def _name_of(fn: object) -> str:
    inner = getattr(fn, "func", fn)  # functools.partial
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__).replace(".<locals>", "")
