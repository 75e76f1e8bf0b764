"""The pipes between this process and one command, and what each of its standard streams is connected to."""

from __future__ import annotations

import os

from turnctl.processes.spec import Spec

__all__ = ["Pipes"]


class Pipes:
    """Made open. Whoever takes our ends over sets ``ours`` to empty; ``close_theirs`` is due once it has started."""

    __slots__ = ("ends", "ours", "theirs")

    def __init__(self, spec: Spec) -> None:
        #: our ends by the name of the stream
        self.ours: dict[str, int] = {}
        self.theirs: list[int] = []
        #: for each stream a descriptor, or "inherit", "null" or "stdout"
        self.ends: dict[str, int | str] = {}
        try:
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

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def close_ours(self) -> None:
        while self.ours:
            os.close(self.ours.popitem()[1])
