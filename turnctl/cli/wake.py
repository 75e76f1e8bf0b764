"""Waking the main thread at every signal, so that none waits for something else to happen.

Python runs a handler when the main thread next executes bytecode. A signal that comes in the moment before the thread
blocks in the kernel, or that another thread takes, does not interrupt that block: its handler would run when the
command ends. The wake-up descriptor is written to in the same moment whatever the thread is doing; here another
thread reads it and has the loop that supervises the command look up.

Invariant K1: the descriptor is written *after* the handler was marked as due; the loop is woken *after* it was read.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Self

from turnctl.turns import Turn

__all__ = ["Waker"]


class Waker:
    """In force for the length of a ``with``, which is the main thread's. One thread, which ends with it."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._before = -1
        self._read, self._write = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, name="turnctl-wake", daemon=True)

    def __enter__(self) -> Self:
        os.set_blocking(self._write, False)
        self._thread.start()
        self._before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _pass_on(self) -> None:
        while os.read(self._read, 512):
            self._turn._ring()
