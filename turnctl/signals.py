"""Signals to stops: SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the turns of the process, or one turn.

| press | what it does to a turn |
|---|---|
| first | stop, cause ``signal``; the grace runs |
| second | kill: no more grace |
| third | the previous handler, as if ours were not there |

Presses are counted for each turn, so a new turn starts at zero. With nothing to stop, the previous handler runs.

The handler stores and wakes; it takes no lock. It raises ``CancelledError`` only into user code: where the main
thread stands in a frame of ours, the checkpoint there raises by itself. Raising is needed all the same, since a
``time.sleep(60)`` or an ``input()`` in the user's code goes on after a handler that returns.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from turnctl.errors import BadArgument
from turnctl.tokens import registry
from turnctl.tokens.current import bound
from turnctl.tokens.frames import may_raise_into
from turnctl.tokens.turn import TurnCore

__all__ = ["SignalStops", "handle_signals"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class _Ear:
    """Hears every signal by the wake-up descriptor, on a thread of its own, and calls ``heard``.

    Python runs a handler when the main thread next executes bytecode. A signal that comes in the moment before that
    thread blocks, or that another thread takes, does not cut the block short; the descriptor is written to in either
    case. A descriptor that the host has set (an asyncio loop does) stays, and this hears nothing.
    """

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._thread: threading.Thread | None = None
        before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            return
        self._thread = threading.Thread(target=self._listen, name="turnctl-signals", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while os.read(self._read, 512):
            self._heard()

    def close(self) -> None:
        """Hear no more; main thread only."""
        if self._thread is not None:
            now = signal.set_wakeup_fd(-1)
            if now not in (self._write, -1):
                signal.set_wakeup_fd(now)  # the host has set one in the meantime
        os.close(self._write)
        if self._thread is not None:
            self._thread.join()
        os.close(self._read)


class SignalStops:
    """The handlers that are in place; ``restore()``, or leaving the ``with``, puts the earlier ones back.

    A handler that the host has put in ours's place since stays where it is. A signal that was ignored before
    stays ignored.
    """

    def __init__(self, turn: TurnCore | None = None, *, raises: bool = True) -> None:
        self._turn = turn
        self._raises = raises
        self._before: dict[int, Handler] = {}
        self._presses: dict[str, list[object]] = {}
        self._pid = os.getpid()
        self._ear: _Ear | None = None
        if threading.current_thread() is not threading.main_thread():
            warnings.warn(
                "signal handlers can only be set by the main thread; signals will not stop the turns of this "
                "process (call turnctl.handle_signals() in the main thread)",
                RuntimeWarning,
                stacklevel=3,
            )
            return
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:
                continue
            before = signal.getsignal(number)
            if before is None:
                continue  # set by C code: there is no way to chain to it or to put it back
            self._before[number] = before
            signal.signal(number, self._handle)
        self._ear = _Ear(self._look_up) if self._before else None

    def _look_up(self) -> None:
        for turn in self._targets():
            turn._nudge()

    @property
    def signals(self) -> tuple[signal.Signals, ...]:
        """The signals that are handled here."""
        return tuple(signal.Signals(n) for n in self._before)

    def restore(self) -> None:
        """Put the earlier handlers back; main thread only. May be called twice."""
        for number, before in list(self._before.items()):
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)
            self._before.pop(number, None)
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            self.restore()

    def _targets(self) -> list[TurnCore]:
        if self._turn is None:
            return registry.all_turns()
        return [] if self._turn.is_over or self._turn._token is None else [self._turn]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            self.pass_on(number, frame)  # a forked child has no live turn of ours
            return
        pressed = False
        targets = self._targets()
        for turn_id in set(self._presses).difference(t.turn_id for t in targets):
            self._presses.pop(turn_id, None)
        for turn in targets:
            # the place in a list that only grows: a press that interrupts this one takes a place of its own
            mine = object()
            places = self._presses.setdefault(turn.turn_id, [])
            places.append(mine)
            press = places.index(mine) + 1
            if press <= 2:
                pressed = True
                turn.cancel(
                    "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name,
                    cause="signal",
                    level="cancel" if press == 1 else "kill",
                )
        if not pressed:
            self.pass_on(number, frame)
        elif self._raises:
            self._raise_into(frame, targets)

    def _raise_into(self, frame: FrameType | None, targets: list[TurnCore]) -> None:
        token = bound.get()
        turn = registry.enclosing(token)
        while turn is not None and turn not in targets:
            turn = turn._outer
        if token is not None and turn is not None and may_raise_into(frame):
            token.check()

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Do what would have been done without us."""
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            # the default of these four is to die of the signal; do that, so that the parent sees it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def handle_signals(turn: TurnCore | None = None, *, raises: bool = True) -> SignalStops:
    """Have SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the turns of this process, or only ``turn``.

    First press: stop; second: kill; third: the previous behaviour. Use it with ``with``, or keep the result and
    call ``restore()``. Where the main thread is in the user's own code and bound to a stopped turn, the handler
    raises ``CancelledError`` there, with the same risk to a foreign ``with lock`` as Python's own Ctrl-C;
    ``raises=False`` turns that off. Off the main thread it warns and does nothing. Never blocks.
    """
    if turn is not None and not isinstance(turn, TurnCore):
        raise BadArgument(f"handle_signals() takes a turn, or nothing for all of them, not {turn!r}")
    return SignalStops(turn, raises=raises)
