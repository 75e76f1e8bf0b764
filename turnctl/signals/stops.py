"""The handlers: which turns a signal stops, how far, and what was there before.

| press | what it does to a turn |
|---|---|
| first | stop, cause ``signal``; the grace runs |
| second | kill: no more grace |
| third | the previous handler, as if ours were not there |

Presses are counted for each turn, so a new turn starts at zero; a turn inside another one counts with that. With
nothing to stop, the previous handler runs. How a press is counted once, and by whom, stands in ``signals.ear``.

Invariants
  H1  ``_stack`` holds what is in place, the latest last; only the main thread changes it. A press goes to the latest
      that handles its number and from there down, until one stops something.
  H2  Nothing is raised but by the Python handler, on the main thread, into user code: where that stands in a frame of
      ours, the checkpoint there raises by itself. Raising is needed all the same, since a ``time.sleep(60)`` or an
      ``input()`` in the user's code goes on after a handler that returns.
  H3  What is taken out of the middle is closed over: nobody passes on to a handler that is gone.
  H4  While a run of a handler counts, a run that nests in it on the same thread only notes that it was: the outer one
      goes on with it, and raises or passes on when it has counted them all. So a storm of signals piles up no runs.

Not promised: that the previous handler of a third press runs while the main thread is in C code.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Literal, Self

from turnctl import points
from turnctl.errors import BadArgument
from turnctl.signals.ear import Ear, Placed
from turnctl.signals.holding import with_signals_held
from turnctl.tokens import registry
from turnctl.tokens.current import bound
from turnctl.tokens.frames import may_raise_into
from turnctl.tokens.shielding import is_shielded
from turnctl.tokens.turn import TurnCore

__all__ = ["SignalStops", "changed", "handle_signals", "lend_unread", "stopped_by"]

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

_stack: list[SignalStops] = []
_ears: list[Ear] = []  # one while anything is in place
_runs: dict[int, list[tuple[SignalStops, int]]] = {}  # by thread: runs of a handler that are to be counted (H4)
_accounting: dict[int, None] = {}
_counters: dict[str, Iterator[int]] = {}  # by turn id; ``next`` is atomic, so handlers may nest
_warned: list[None] = []
_warned_taken: list[None] = []
#: called on the main thread when other signals, or none, stop a turn from now on
changed: list[Callable[[], None]] = []
#: whose handlers do nothing themselves and leave all to who reads the wake-up descriptor
_DEAF = ("asyncio.unix_events",)


class _Press:
    """One numbered press: what it asks of which turn. Told once, carried out by whoever meets it."""

    def __init__(self, stops: SignalStops, reason: str, asks: list[tuple[TurnCore, Literal["cancel", "kill"]]]) -> None:
        self._stops = [stops]
        self._reason = reason
        self._asks = asks

    def carry_out(self) -> None:
        try:
            stops = self._stops.pop()
        except IndexError:
            pass
        else:
            stops._told([level for _, level in self._asks])
        for turn, level in self._asks:
            turn.cancel(self._reason, cause="signal", level=level)


class SignalStops:
    """The handlers that are in place; ``restore()``, or leaving the ``with``, puts the earlier ones back.

    A handler that the host has put in the place of ours since stays where it is. A signal that was ignored before
    stays ignored.
    """

    def __init__(self, turn: TurnCore | None = None, *, raises: bool = True) -> None:
        self._turn = turn
        self._raises = raises
        self._before: dict[int, Handler] = {}
        self._pid = os.getpid()
        if _is_kernel():
            return
        if threading.current_thread() is not threading.main_thread():
            _warn()
            return
        for name in _NAMES:
            number = getattr(signal, name, None)
            before = signal.SIG_IGN if number is None else signal.getsignal(number)
            # None was set by C code: there is no way to chain to it or to put it back
            if number is not None and before not in (signal.SIG_IGN, None):
                self._before[number] = before
        if self._before:
            self._install()

    def _install(self) -> None:
        _stack.append(self)
        try:
            if not _ears:
                _ears.append(Ear(_place))
                registry.on_begin.append(_look_again)
            for number in self._before:
                signal.signal(number, self._handle)
        except ValueError:
            # what threading takes for the main thread is that of a sub-interpreter
            self.restore()
            self._before.clear()
            _warn()
        except BaseException:
            self.restore()
            raise
        else:
            _ears[0].rearm()
            _tell_changed()

    @property
    def signals(self) -> tuple[signal.Signals, ...]:
        """The signals that are handled here."""
        return tuple(signal.Signals(n) for n in self._before) if self in _stack else ()

    def restore(self) -> None:
        """Put the earlier handlers back; main thread only. May be called twice.

        The last one blocks until our thread has gone, at most a second.
        """
        if self not in _stack:
            return
        ours = {n: before for n, before in self._before.items() if signal.getsignal(n) == self._handle}
        with_signals_held(ours, self._take_out)
        _tell_changed()

    def _take_out(self) -> None:
        for number, before in self._before.items():
            for other in _stack:
                if other._before.get(number) == self._handle:
                    other._before[number] = before  # H3
        _stack.remove(self)
        if not _stack:
            while _ears:
                ear = _ears.pop()
                registry.on_begin.remove(_look_again)
                ear.close()
            _counters.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            try:
                self.restore()
            except BaseException:
                self.restore()  # struck in its first line: nothing was done yet, or all
                raise

    # -- a press ----------------------------------------------------------------------------------------------

    def _targets(self) -> list[TurnCore]:
        if self._turn is None:
            return registry.all_turns()
        return [] if self._turn.is_over or self._turn._token is None else [self._turn]

    def _below(self, number: int) -> SignalStops | None:
        owner = getattr(self._before.get(number), "__self__", None)
        return owner if isinstance(owner, SignalStops) else None

    def _place(self, number: int) -> Placed:
        """Number one press. Under the ear's lock: no input, no output, nobody is called."""
        asks: list[tuple[TurnCore, Literal["cancel", "kill"]]] = []
        for turn, press in _count(self._targets()):
            if press <= 2:
                asks.append((turn, "cancel" if press == 1 else "kill"))
        if asks:
            reason = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            return Placed([_Press(self, reason, asks)], passes_on=False)
        below = self._below(number)
        return Placed((), passes_on=True) if below is None else below._place(number)

    def _told(self, levels: list[Literal["cancel", "kill"]]) -> None:
        """Called once for each press that stops something, before it does; on any thread, under no lock."""

    def _handle(self, number: int, frame: FrameType | None) -> None:
        me = threading.get_ident()
        runs = _runs.setdefault(me, [])
        runs.append((self, number))
        points.reach("signals.handler.running")
        passed_on: list[tuple[SignalStops, int]] = []
        met: dict[int, SignalStops] = {}
        while runs:
            if me in _accounting:
                return  # H4: the run below this one goes on with it
            _accounting[me] = None
            try:
                while runs:
                    stops, signum = runs.pop(0)
                    ear = _ears[0] if _ears and stops in _stack else None
                    if ear is None or ear.account(signum, stops._place):
                        passed_on.append((stops, signum))
                    else:
                        met[signum] = stops
            finally:
                _accounting.pop(me, None)
        _runs.pop(me, None)
        for stops, signum in passed_on:
            stops.pass_on(signum, frame)
        for signum, stops in met.items():
            stops._raise_into(signum, frame)

    def _raise_into(self, number: int, frame: FrameType | None) -> None:
        token = bound.get()
        if token is None or not token.cancelled or is_shielded(token) or not may_raise_into(frame):
            return
        stops: SignalStops | None = self
        while stops is not None:
            turn = registry.enclosing(token)
            while turn is not None and stops._turn not in (None, turn):
                turn = turn._outer
            if turn is not None and stops._raises:
                raise token._raised()
            stops = stops._below(number)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Do what would have been done without us; on the main thread."""
        before = self._before.get(number)
        below = self._below(number)
        if below is not None:
            below.pass_on(number, frame)
        elif callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            # the default of these four is to die of the signal; do that, so that the parent sees it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _place(number: int) -> Placed | None:
    for stops in reversed(_stack):  # H1
        if number in stops._before:
            return stops._place(number)
    return None


def lend_unread() -> int:
    """A copy of the socket in which signals wait until this process reads them, to be closed; -1 for none."""
    try:
        return _ears[0].lend()
    except IndexError:
        return -1


def stopped_by(turn_id: str) -> tuple[int, ...]:
    """The signals that stop the turn, as of now: with each handler and each turn that comes or goes it may change."""
    turn = registry.live.get(turn_id)
    if turn is None or not _stack:
        return ()
    above = [turn]
    while above[-1]._inherit and above[-1]._outer is not None:
        above.append(above[-1]._outer)
    numbers = dict.fromkeys(number for stops in list(_stack) for number in stops._before)
    return tuple(int(number) for number in numbers if _reaches(number, above))


def _reaches(number: int, turns: list[TurnCore]) -> bool:
    for stops in reversed(_stack):  # H1
        if number in stops._before:
            targets = stops._targets()
            if targets:
                return any(turn in targets for turn in turns)
    return False


def _tell_changed() -> None:
    for tell in changed:
        tell()


def _look_again() -> None:
    """Set our descriptor if none is set, and say so if signals have been taken from us. For ``registry.on_begin``."""
    for ear in _ears:
        if not ear.rearm() and threading.current_thread() is threading.main_thread():
            _warn_if_taken()


def _warn_if_taken() -> None:
    if _warned_taken:
        return
    taken = []
    for number in dict.fromkeys(n for stops in _stack for n in stops._before):
        now = signal.getsignal(number)
        if not isinstance(getattr(now, "__self__", None), SignalStops) and getattr(now, "__module__", "") in _DEAF:
            taken.append(signal.Signals(number).name)
    if taken:
        _warned_taken.append(None)
        warnings.warn(
            f"{' and '.join(taken)} went to an event loop after turnctl.handle_signals(), with the wake-up descriptor: "
            "no turn is stopped by it any more; call turn.cancel() in the handler that was given to the loop, or use "
            "turn.bridge_asyncio() and leave the signal to handle_signals()",
            RuntimeWarning,
            stacklevel=2,
        )


def _count(targets: list[TurnCore]) -> Iterator[tuple[TurnCore, int]]:
    ids = {turn.turn_id for turn in targets}
    live = {turn.turn_id for turn in registry.all_turns()}
    for turn_id in [one for one in list(_counters) if one not in live]:
        _counters.pop(turn_id, None)
    presses: dict[str, int] = {}
    for turn in targets:
        root = turn.turn_id
        outer = turn
        # a turn that follows another one is stopped with it, and begins where that has got to
        while outer._inherit and outer._outer is not None:
            outer = outer._outer
            if outer.turn_id in ids:
                root = outer.turn_id
        if root not in presses:
            presses[root] = next(_counters.setdefault(root, itertools.count(1)))
        yield turn, presses[root]


def _is_kernel() -> bool:
    """Whether this process is a Jupyter kernel, which turns its interrupts into KeyboardInterrupt by itself."""
    app = getattr(sys.modules.get("ipykernel.kernelapp"), "IPKernelApp", None)
    return app is not None and bool(app.initialized())


def _warn() -> None:
    if _warned:
        return
    _warned.append(None)
    warnings.warn(
        "signal handlers can only be set by the main thread of the main interpreter; signals will not stop the turns "
        "of this process (call turnctl.handle_signals() there)",
        RuntimeWarning,
        stacklevel=4,
    )


def handle_signals(turn: TurnCore | None = None, *, raises: bool = True) -> SignalStops:
    """Have SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the turns of this process, or only ``turn``.

    First press: stop; second: kill; third: the previous behaviour. Use it with ``with``, or keep the result and
    call ``restore()``. The stop is made at once by a thread of ours, also while the main thread is in C code that
    lets other threads run; where other C code holds the interpreter, when that returns. Where the main thread is in
    the user's own code and bound to a stopped turn, the handler raises ``CancelledError`` there, with the same risk
    to a foreign ``with lock`` as Python's own Ctrl-C; ``raises=False`` turns that off. An event loop that sets a
    wake-up descriptor of its own keeps it; until the next turn begins on the main thread after that, the stop is
    made when the main thread next executes Python code. One that sets a *handler* as well, as asyncio's
    ``loop.add_signal_handler`` does, has that signal for itself: no turn is stopped by it, unless that handler calls
    ``turn.cancel()``; the next turn that begins there, and ``bridge_asyncio``, warn of it once. An asyncio
    loop logs a ``CancelledError`` that the handler raises into one of its callbacks as "Exception in callback", and
    goes on: the turn is stopped all the same, so have the loop wait for ``turn.bridge_asyncio()``, or give
    ``raises=False``. Off the main thread it warns once and does nothing; in a
    Jupyter kernel it does nothing, the kernel's interrupt stops the turn. May be nested. Never blocks.
    """
    if turn is not None and not isinstance(turn, TurnCore):
        raise BadArgument(f"handle_signals() takes a turn, or nothing for all of them, not {turn!r}")
    if raises is not True and raises is not False:
        raise BadArgument(f"raises of handle_signals() is True or False, not {raises!r}")
    return SignalStops(turn, raises=raises)


def _before_fork() -> None:
    for ear in _ears:
        ear.before_fork()


def _after_fork() -> None:
    for ear in _ears:
        ear.after_fork()


def _in_child() -> None:
    _counters.clear()
    for ear in _ears:
        ear.in_child()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
