"""Taking handlers away while a signal comes: it waits until nothing is left half done."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

import pytest

import turnctl
from turnctl.signals.ear import Ear


def test_ctrl_c_while_handlers_are_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The earlier handlers are back, thread and descriptors are gone, and then the earlier handler hears of it."""
    close = Ear.close

    def struck(ear: Ear) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        close(ear)

    monkeypatch.setattr(Ear, "close", struck)
    heard: list[int] = []

    def hears(number: int, _frame: FrameType | None) -> None:
        heard.append(number)

    earlier = signal.signal(signal.SIGTERM, hears)
    try:
        fds, threads = os.listdir("/proc/self/fd"), threading.active_count()
        with pytest.raises(KeyboardInterrupt), turnctl.handle_signals():
            pass

        assert signal.default_int_handler == signal.getsignal(signal.SIGINT)
        assert hears == signal.getsignal(signal.SIGTERM)
        assert (len(fds), threads) == (len(os.listdir("/proc/self/fd")), threading.active_count())
    finally:
        signal.signal(signal.SIGTERM, earlier)
