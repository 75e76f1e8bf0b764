"""The files of a command's output whose reads are checkpoints: real files with a descriptor, text or bytes.

Blocks as the file would, but for a stop of the command's owner, which ends the wait and is raised; what is in the pipe
stays there. A file whose descriptor does not block behaves as it did.
"""

from __future__ import annotations

import io
import os
import select
from typing import IO, Any

from turnctl.processes.attending import Attending
from turnctl.processes.output import CHUNK

__all__ = ["CheckedReader", "checked", "is_untouched", "take_rest"]

_SETTINGS = ("encoding", "errors", "line_buffering", "write_through")


class CheckedReader(io.RawIOBase):
    """A raw file that looks at the stop before each read."""

    def __init__(self, raw: io.FileIO, attending: Attending) -> None:
        super().__init__()
        self._raw = raw
        self._attending = attending
        #: what was read by a ``readall`` that was interrupted
        self._pending = b""
        #: whether nobody has read from it by now
        self.is_untouched = True
        self._ready = select.poll()
        self._ready.register(raw.fileno(), select.POLLIN)
        self.name = raw.name
        self.mode = raw.mode

    def readinto(self, into: Any) -> int | None:
        self.is_untouched = False
        if self._pending:
            part, self._pending = self._pending[: len(into)], self._pending[len(into) :]
            into[: len(part)] = part
            return len(part)
        self._attending.before_reading(self._raw.fileno(), self._ready)
        return self._raw.readinto(into)

    def readall(self) -> bytes:
        parts = []
        try:
            while part := self.read(CHUNK):
                parts.append(part)
        except BaseException:
            self._pending = b"".join(parts) + self._pending
            raise
        if part is None and not parts:
            return part  # type: ignore[return-value] # a file that does not block has nothing yet
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._raw.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name!r} mode={self.mode!r}>"


def checked(file: Any, attending: Attending) -> Any:
    """The same file with checkpoints. Takes over what ``subprocess.Popen`` has made and nobody has read yet."""
    if isinstance(file, io.TextIOWrapper):
        settings: dict[str, Any] = {name: getattr(file, name) for name in _SETTINGS}
        return io.TextIOWrapper(checked(file.detach(), attending), **settings)
    if isinstance(file, io.BufferedReader):
        return io.BufferedReader(checked(file.detach(), attending), CHUNK)
    return CheckedReader(file, attending)


def is_untouched(file: Any) -> bool:
    """Whether nothing of the file can be in a buffer: it is one of ours, and nobody has read from it."""
    raw = getattr(getattr(file, "buffer", file), "raw", getattr(file, "buffer", file))
    return isinstance(raw, CheckedReader) and raw.is_untouched


def take_rest(file: IO[Any]) -> bytes:
    """What is in the pipe at this moment, without waiting."""
    parts = []
    fd = file.fileno()
    os.set_blocking(fd, False)
    try:
        while part := os.read(fd, CHUNK):
            parts.append(part)
    except BlockingIOError:
        pass
    finally:
        os.set_blocking(fd, True)
    return b"".join(parts)
