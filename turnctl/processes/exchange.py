"""What ``communicate`` moves between memory and the three pipes of a command, and can go on with after a timeout.

Blocks in ``go_on`` alone, as a checkpoint; never reads more than is there nor writes more than a pipe takes at once.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable, Iterable
from typing import IO, Any

from turnctl.processes.attending import Attending
from turnctl.processes.output import CHUNK
from turnctl.processes.reading import take_rest

__all__ = ["Exchange"]

#: what a pipe that can be written to takes without blocking
_AT_ONCE = select.PIPE_BUF


class Exchange:
    """The state of one ``communicate``, which may be called again."""

    def __init__(self, stdin: IO[Any] | None, outputs: Iterable[IO[Any] | None], data: Any) -> None:
        self._stdin = stdin
        self._outputs = tuple(outputs)
        self._got: dict[IO[Any], list[bytes]] = {file: [] for file in self._outputs if file is not None}
        self._data = memoryview(b"")
        if stdin is not None and not stdin.closed:
            _ignoring_broken(stdin.flush)  # may block, if the user has written to it in an uncontrolled fashion
            if data:
                self._data = memoryview(_encoded(data, stdin)).cast("B")
            else:
                _ignoring_broken(stdin.close)

    def _masks(self) -> dict[int, int]:
        masks = {file.fileno(): select.POLLIN for file in self._got if not file.closed}
        if self._stdin is not None and not self._stdin.closed and len(self._data):
            masks[self._stdin.fileno()] = select.POLLOUT
        return masks

    def go_on(self, attending: Attending, ends_at: float | None, is_late: Callable[[], bool]) -> bool:
        """Move until every pipe is at its end; False if the time has passed before. A checkpoint."""
        while masks := self._masks():
            if is_late():
                return False
            ready = attending.until(lambda: False, ends_at, masks)
            for file in self._got:
                if not file.closed and file.fileno() in ready:
                    self._read(file)
            stdin = self._stdin
            if stdin is not None and not stdin.closed and stdin.fileno() in ready:
                self._write(stdin)
        return True

    def _read(self, file: IO[Any]) -> None:
        data = os.read(file.fileno(), CHUNK)
        if data:
            self._got[file].append(data)
        else:
            file.close()

    def _write(self, stdin: IO[Any]) -> None:
        try:
            self._data = self._data[os.write(stdin.fileno(), self._data[:_AT_ONCE]) :]
        except BrokenPipeError:
            self._data = self._data[:0]
        if not len(self._data):
            _ignoring_broken(stdin.close)

    def take_rest(self) -> None:
        """Take what is in the pipes at this moment. Never blocks."""
        for file, got in self._got.items():
            if not file.closed:
                got.append(take_rest(file))

    def value(self, at: int) -> bytes | None:
        """What came out of one stream so far; None if it is no pipe."""
        file = self._outputs[at]
        return None if file is None else b"".join(self._got[file])


def _encoded(data: Any, stdin: Any) -> Any:
    if not isinstance(stdin, io.TextIOBase):
        return data
    if not isinstance(data, str):
        raise TypeError(f"input is of type {type(data).__name__}; a command with a text stdin takes a str")
    return data.encode(stdin.encoding or "utf-8", stdin.errors or "strict")


def _ignoring_broken(fn: Callable[[], object]) -> None:
    try:
        fn()
    except BrokenPipeError:
        pass  # the command reads no more, which is its right
