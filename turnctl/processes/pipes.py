"""The pipes between this process and one command, and what each of its standard streams is connected to."""

from __future__ import annotations

import os

from turnctl.processes.pty import Pty
from turnctl.processes.spec import Spec
from turnctl.processes.ttys import NewTty

__all__ = ["Pipes"]


class Pipes:
    """Made open. Whoever takes our ends over sets ``ours`` to empty; ``close_theirs`` is due once it has started."""

    __slots__ = ("ends", "ours", "pty", "theirs")

    def __init__(self, spec: Spec) -> None:
        #: our ends by the name of the stream
        self.ours: dict[str, int] = {}
        self.theirs: list[int] = []
        #: for each stream a descriptor, or "inherit", "null" or "stdout"
        self.ends: dict[str, int | str] = {}
        #: the terminal that was made for it
        self.pty: Pty | None = None
        try:
            if spec.new_tty is not None:
                self._make_terminal(spec.new_tty)
                return
            for name in ("stdin", "stdout", "stderr"):
                target = getattr(spec, name)
                if target == "pipe":
                    read, write = os.pipe()  # neither end is inherited unless it is handed over
                    self.ours[name], target = (write, read) if name == "stdin" else (read, write)
                    self.theirs.append(target)
                self.ends[name] = target
        except BaseException:
            self.close_theirs()
            self.close_ours()
            raise

    def _make_terminal(self, wanted: NewTty) -> None:
        pty = self.pty = Pty(wanted)
        self.theirs.append(pty.end)
        self.ends = dict.fromkeys(("stdin", "stdout", "stderr"), pty.end)
        for name in ("stdout", "stdin"):
            self.ours[name] = pty.open()

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def close_ours(self) -> None:
        while self.ours:
            os.close(self.ours.popitem()[1])
        if self.pty is not None:
            self.pty.close()
