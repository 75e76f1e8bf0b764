"""Handing a command's output on while it runs, on a thread of its own, so that no consumer can hold the command up.

Invariants
  E1  ``feed`` never blocks. The thread alone calls targets, and no lock is held meanwhile.
  E2  At most ``limit`` bytes wait to be handed on. What comes beyond that is left out and counted; with backpressure
      it is not read from the pipe, so that the command waits.
  E3  The first failure of a target is kept and told, and that target is given nothing more. The command, and what is
      captured, go on.
  E4  After ``give_up`` nothing is begun any more. A target that has not come back is named as long as that is so.
  E5  Each byte that a stream gave is handed on, or counted in ``lost``.

Lock: the condition, innermost; targets and ``changed`` are called without it. May block: ``join``, on a thread that
has nothing more to do. Not promised: the order between two streams, beyond that in which they were read.
"""

from __future__ import annotations

import contextvars
import signal
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl import log
from turnctl.processes.output import CHUNK
from turnctl.processes.splitting import Splitter

if TYPE_CHECKING:
    from turnctl.processes.capture import Cut
    from turnctl.processes.output import Sink
    from turnctl.processes.targets import Target
    from turnctl.processes.text import Coding

__all__ = ["TEE_LIMIT", "Lane", "Tee", "Teed"]

#: what may wait to be handed on
TEE_LIMIT = 8 * 1024 * 1024
#: what one entry of the queue costs besides its bytes
_ENTRY = 200


class Lane:
    """One stream on its way to its target."""

    __slots__ = ("error", "gap", "is_over", "name", "splitter", "target", "tee")

    def __init__(self, tee: Tee, name: str, target: Target, splitter: Splitter | None) -> None:
        self.tee = tee
        self.name = name
        self.target = target
        self.splitter = splitter
        self.error: BaseException | None = None
        self.gap = False
        self.is_over = False

    @property
    def is_full(self) -> bool:
        return self.tee.is_full and self.error is None

    @property
    def is_gone(self) -> bool:
        return self.error is not None and self.target.passes_end_on


class _Entry:
    __slots__ = ("data", "gap", "lane")

    def __init__(self, lane: Lane, data: bytearray | None, gap: bool) -> None:
        self.lane = lane
        #: None: the stream is over
        self.data = data
        self.gap = gap


class Tee:
    """All that is handed on of one command."""

    def __init__(
        self,
        targets: dict[str, Target],
        *,
        lines: bool = False,
        coding: Coding | None = None,
        backpressure: bool = False,
        limit: int = TEE_LIMIT,
        patience_s: float | None = 5.0,
    ) -> None:
        self._changed: Callable[[], None] = lambda: None
        self._backpressure = backpressure
        self._limit = limit
        #: what it may take after the command has ended by itself; None for no limit
        self.patience_s = patience_s
        self._ready = threading.Condition(threading.Lock())
        self._queue: deque[_Entry] = deque()
        self._size = 0
        self.is_given_up = False
        self._thread: threading.Thread | None = None
        self._busy: Lane | None = None
        self._unfinished = ""
        self.is_done = False
        self.lost = 0
        self._targets = list({id(one): one for one in targets.values()}.values())
        self.lanes = {
            name: Lane(self, name, target, _splitter(target, coding, lines)) for name, target in targets.items()
        }

    # -- the loop's side --------------------------------------------------------------------------------------

    def begin(self, changed: Callable[[], None]) -> None:
        """Start the thread; it calls ``changed`` when there is room again, when a target fails, and at its end."""
        self._changed = changed
        thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name="turnctl-tee", daemon=True
        )
        thread.start()
        self._thread = thread

    @property
    def is_full(self) -> bool:
        return self._backpressure and self._size >= self._limit and not self.is_given_up

    def feed(self, lane: Lane, data: bytes) -> None:
        with self._ready:
            if (
                lane.error is not None
                or lane.is_over
                or self.is_given_up
                or (self._size >= self._limit and not self._backpressure)
            ):
                self.lost += len(data)
                lane.gap = True
                return
            last = self._queue[-1] if self._queue else None
            joined = last is not None and last.lane is lane and last.data is not None and not lane.gap
            if joined and last is not None and last.data is not None and len(last.data) + len(data) <= CHUNK:
                last.data += data
            else:
                self._queue.append(_Entry(lane, bytearray(data), lane.gap))
                self._size += _ENTRY
                lane.gap = False
            self._size += len(data)
            self._ready.notify()

    def finish_all(self) -> None:
        """Nothing more will come. May be called again."""
        with self._ready:
            for lane in self.lanes.values():
                if not lane.is_over:
                    lane.is_over = True
                    self._queue.append(_Entry(lane, None, lane.gap))
            self._ready.notify()

    def give_up(self) -> None:
        """Hand on nothing more, not even what waits; lets go of what was opened if no thread is left to do so."""
        with self._ready:
            self.is_given_up = True
            self.lost += sum(len(entry.data) for entry in self._queue if entry.data)
            self._queue.clear()
            self._ready.notify()
        busy = self._busy
        if self._thread is None:
            self._close()
        elif busy is not None and not self.is_done:
            self._unfinished = busy.target.name

    def join(self) -> None:
        """Wait for the thread, which is at its end unless it was left behind. Blocks for a moment only."""
        if self._thread is not None and not self._unfinished:
            self._thread.join()

    # -- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        # a terminal may stop those in the background who write to it, which would be all of this program
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            while (entry := self._next()) is not None:
                lane = self._busy = entry.lane
                try:
                    self._hand_on(lane, entry)
                except BaseException as error:  # noqa: BLE001 - kept and told (E3)
                    self._fail(lane, error)
                self._busy = None
        finally:
            self._close()
            self.is_done = True
            self._changed()

    def _next(self) -> _Entry | None:
        with self._ready:
            while not (self._queue or self.is_given_up or all(lane.is_over for lane in self.lanes.values())):
                self._ready.wait()
            if not self._queue:
                return None
            was_full = self.is_full
            entry = self._queue.popleft()
            if entry.data is not None:
                self._size -= len(entry.data) + _ENTRY
            has_room = was_full and not self.is_full
        if has_room:
            self._changed()
        return entry

    def _hand_on(self, lane: Lane, entry: _Entry) -> None:
        data = b"" if entry.data is None else bytes(entry.data)
        if lane.error is not None:
            self._lose(len(data))
            return
        final = entry.data is None
        pieces: list[str | bytes] = []
        if lane.splitter is None:
            pieces = [data] if data else []
        else:
            if entry.gap:
                pieces = lane.splitter.flush()
            pieces += lane.splitter.feed(data, final=final)
        left = deque(pieces)
        while left:
            if self.is_given_up:
                break
            try:
                lane.target.write(left[0])
            except BaseException:
                self._lose(_bytes_in(left))
                raise
            left.popleft()
        self._lose(_bytes_in(left))
        if final and not self.is_given_up:
            lane.target.finish()

    def _lose(self, count: int) -> None:
        if count:
            with self._ready:
                self.lost += count

    def _fail(self, lane: Lane, error: BaseException) -> None:
        for one in self.lanes.values():
            if one.target is lane.target:
                one.error = error
        log.warning("tee.failed", stream=lane.name, target=lane.target.name, error=f"{type(error).__name__}: {error}")
        self._changed()

    def _close(self) -> None:
        for target in self._targets:
            try:
                target.close()
            except OSError as error:
                for lane in self.lanes.values():
                    if lane.target is target and lane.error is None:
                        lane.error = error

    @property
    def is_unfinished(self) -> bool:
        """Whether it was given up while a target had not come back."""
        return bool(self._unfinished)

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def failures(self) -> tuple[str, ...]:
        """What went wrong with a target, each once, in words."""
        failed = {id(lane.target): lane for lane in self.lanes.values() if lane.error is not None}
        return tuple(f"{lane.target.name}: {_in_words(lane.error)}" for lane in failed.values())

    def notes(self) -> list[str]:
        """What a person has to know of it."""
        found = [f"output was handed on no further: {text}" for text in self.failures]
        if self._unfinished:
            late = "" if self.is_done else ", and has not"
            found.append(f"tee: {self._unfinished} had not come back when it was waited for no longer{late}")
        if self.lost:
            found.append(f"tee: {self.lost} byte{'' if self.lost == 1 else 's'} of the output were not handed on")
        return found

    def alive(self) -> tuple[str, ...]:
        """The thread that was left behind in a target, while it is."""
        return (f"thread turnctl-tee (in {self._unfinished})",) if self._unfinished and not self.is_done else ()


class Teed:
    """A sink that hands on what it is fed, and keeps it in ``inner`` where there is one."""

    __slots__ = ("_inner", "_lane")

    def __init__(self, inner: Sink | None, lane: Lane) -> None:
        self._inner = inner
        self._lane = lane

    @property
    def is_full(self) -> bool:
        return self._lane.is_full or (self._inner is not None and self._inner.is_full)

    @property
    def is_gone(self) -> bool:
        return self._lane.is_gone if self._inner is None else self._inner.is_gone

    @property
    def cut(self) -> Cut | None:
        return self._lane.target.cut if self._inner is None else self._inner.cut

    def feed(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.feed(data)
        self._lane.tee.feed(self._lane, data)

    def finish(self) -> None:
        # what is handed on comes to its end with the command: something may be read after this as well
        if self._inner is not None:
            self._inner.finish()


def _splitter(target: Target, coding: Coding | None, lines: bool) -> Splitter | None:
    is_text = target.takes_text_lines if lines else target.takes_text
    return Splitter(coding if is_text else None, lines=lines, limit=TEE_LIMIT) if lines or is_text else None


def _bytes_in(pieces: deque[str | bytes]) -> int:
    return sum(len(one) if isinstance(one, bytes) else len(one.encode("utf-8", "surrogatepass")) for one in pieces)


def _in_words(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"
