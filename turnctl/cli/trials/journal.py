"""What a program tells of its checkpoints while it runs, read from a pipe as it comes; see ``waiting.trialled``."""

from __future__ import annotations

import fcntl
import json
import os
import select
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from turnctl.cli.trials.places import Checkpoint

__all__ = ["Journal"]

_ROOM = 1 << 20
#: checkpoints that are remembered of one run
_MOST = 100_000


class Journal:
    """The journal of one run. Read on a thread of its own; use it with ``with``."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.pipe, self.claim = os.path.join(folder, "pipe"), os.path.join(folder, "claim")
        self.seen: list[Checkpoint] = []
        self.after: list[Checkpoint] = []
        self.stopped_at: float | None = None
        #: of the turn that was stopped
        self.over: dict[str, Any] | None = None
        self.is_armed = self.is_too_long = False
        #: there is a stop; the turn that was stopped is over
        self.has_stopped, self.is_over = threading.Event(), threading.Event()
        self._stopped_turn: str | None = None
        self._thread = threading.Thread(target=self._run, name="turnctl-trial-journal", daemon=True)

    def variable(self, stop: Checkpoint | None) -> str:
        """What the program is armed with."""
        return json.dumps({"pipe": self.pipe, "claim": self.claim, "stop": stop})

    def __enter__(self) -> Self:
        os.mkfifo(self.pipe, 0o600)
        # for both, so that it has a reader and a writer as long as this lasts
        self._fd = os.open(self.pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError, AttributeError):  # as much as this user may have
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _ROOM)
        self._end, self._end_there = os.pipe()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._end_there, b"!")
        self._thread.join()
        for fd in (self._fd, self._end, self._end_there):
            os.close(fd)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        rest = b""
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._fd in ready:
                rest = self._take(rest + os.read(self._fd, 1 << 16))
            elif self._end in ready:
                return

    def _take(self, data: bytes) -> bytes:
        *lines, rest = data.split(b"\n")
        for line in lines:
            with suppress(ValueError):
                self._note(json.loads(line))
        return rest

    def _note(self, told: dict[str, Any]) -> None:
        kind = told["kind"]
        if kind == "begun":
            self.is_armed = True
        elif kind == "over":
            if told["turn"] == self._stopped_turn:
                self.over = told
                self.is_over.set()
        else:
            self._arrived(Checkpoint(*told["at"]), told)

    def _arrived(self, at: Checkpoint, told: dict[str, Any]) -> None:
        if told["kind"] == "stopped":
            self.stopped_at, self._stopped_turn = told["t"], told["turn"]
            self.has_stopped.set()
        elif told["turn"] == self._stopped_turn:
            self.after.append(at)
        if len(self.seen) < _MOST:
            self.seen.append(at)
        else:
            self.is_too_long = True
