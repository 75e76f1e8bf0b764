"""Stand-ins for what a turn owns, threads whose exception is not lost, and bounded waits."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import turnctl
    from turnctl.tokens.activities import Activity

T = TypeVar("T")

BOUND = 10.0
"""Seconds after which a wait of a test is given up; nothing is expected to take that long."""


def until(condition: Callable[[], object], *, within: float = BOUND) -> bool:
    """Wait until ``condition()`` is true, for a bounded time; whether it became true."""
    give_up_at = time.monotonic() + within
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.001)
    return True


class Background(Generic[T]):
    """A thread that is running; ``result()`` waits for it, bounded, and gives or raises what came out."""

    def __init__(self, fn: Callable[..., T], *args: Any) -> None:
        self._value: T | None = None
        self._error: BaseException | None = None
        self.started_at = time.monotonic()
        self.ended_at: float | None = None
        self.thread = threading.Thread(target=self._run, args=(fn, args), daemon=True)
        self.thread.start()

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...]) -> None:
        try:
            self._value = fn(*args)
        except BaseException as error:
            self._error = error
        self.ended_at = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self.thread.is_alive()

    def error(self, within: float = BOUND) -> BaseException | None:
        """What it raised."""
        self.thread.join(within)
        assert not self.thread.is_alive(), "the thread is still running"
        return self._error

    def result(self, within: float = BOUND) -> T:
        """What it returned; raises what it raised."""
        error = self.error(within)
        if error is not None:
            raise error
        return self._value  # type: ignore[return-value]


@contextmanager
def ctrl_c_once(ready: threading.Event) -> Iterator[None]:
    """Once ``ready`` is set, one ``KeyboardInterrupt`` in the main thread, which is in the block by then."""
    main = threading.get_ident()
    presses: list[int] = []

    def heard(*_: object) -> None:
        presses.append(1)
        if len(presses) == 1:
            raise KeyboardInterrupt

    def press() -> None:
        # Python does not cut a block short for a signal that came just before it: press until it is heard
        assert ready.wait(BOUND)
        while not presses:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.001)

    before = signal.signal(signal.SIGINT, heard)
    try:
        pressing = Background(press)
        yield
        pressing.result()
    finally:
        signal.signal(signal.SIGINT, before)


def is_parked(waiters: list[Any], threads: int = 1) -> bool:
    """Whether that many threads stand on a list of waiters, within bounds."""
    return until(lambda: len(waiters) >= threads)


class Thing:
    """Something that a turn owns. It ends when asked, when killed, or never."""

    kind = "thing"

    def __init__(self, name: str = "it", *, ends: str = "asked", outcome: object = None) -> None:
        self.name = name
        self.ends = ends
        self.log: list[str] = []
        self.kill_times: list[float] = []
        self.in_end = threading.Event()
        self.ended = threading.Event()
        self._outcome = outcome
        self._look = threading.Condition()
        self._looks = 0

    def ask(self) -> None:
        self.log.append("asked")
        if self.ends == "asked":
            self.finish()

    def finish(self) -> None:
        """It ends now, by itself."""
        self.ended.set()
        self.wake()

    def end(self, kill_at: Callable[[], float]) -> None:
        self.in_end.set()
        while not self.ended.is_set():
            looks = self._looks
            at = kill_at()
            self.kill_times.append(at)
            left = at - time.monotonic()
            if left <= 0:
                self.log.append("killed")
                if self.ends != "never":
                    self.ended.set()
                return
            with self._look:
                self._look.wait_for(lambda looks=looks: looks != self._looks, left)  # type: ignore[misc]

    def wake(self) -> None:
        with self._look:
            self._looks += 1
            self._look.notify_all()

    def alive(self) -> tuple[str, ...]:
        return () if self.ended.is_set() else (f"{self.kind} {self.name}",)

    def outcome(self) -> Any:
        return self._outcome


def own(turn: turnctl.Turn, thing: Thing) -> Activity:
    """Have ``turn`` own ``thing``, as a room does it: registered first, then told of every change."""
    activity = turn.admit(thing)
    turn.watch(thing.wake)
    return activity
