"""One call to a server, as its turn owns it: followed by the stop, ended with the turn, accounted for.

A flight belongs to the thread of its connection (``wire``), which alone moves its ``call`` on. Other threads post to
that thread, and wait for ``is_settled``: nothing more will be sent for it then.

May block: ``end``, within the grace. Not promised: anything about what runs at the server.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from turnctl import clock
from turnctl.integrations.mcp.protocol import told
from turnctl.tokens.event import park, release_all
from turnctl.tokens.shielding import shielded_until
from turnctl.waiting.coroutines import StopEvent, bridge_asyncio

if TYPE_CHECKING:
    from turnctl.records.mcp import Outgoing
    from turnctl.records.report import ActivityState
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.callbacks import Registration
    from turnctl.tokens.token import CancelToken
    from turnctl.tokens.turn import TurnCore

__all__ = ["Flight", "Tower", "reason_of"]


class Tower(Protocol):
    """What a flight needs of its connection."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def post(self, fn: Callable[[], object]) -> bool:
        """Have ``fn`` called on the connection's thread; False if that is not to be any more."""

    def stop(self, flight: Flight, reason: str | None) -> None:
        """Stop it, once; on the connection's thread."""


def reason_of(token: CancelToken) -> str | None:
    """What a server is told of why."""
    record = token.record
    return None if record is None else record.reason or f"stopped ({record.cause})"


class Flight:
    """One request to a server (``tokens.activities.Owned``)."""

    kind = "mcp"

    __slots__ = (
        "_bell",
        "_registration",
        "_tower",
        "_watching",
        "activity",
        "arrived",
        "call",
        "is_cut",
        "is_settled",
        "name",
        "signal",
        "token",
        "turn",
        "waiters",
        "written",
        "written_at",
    )

    def __init__(self, tower: Tower, call: Outgoing, turn: TurnCore | None, token: CancelToken | None) -> None:
        self.call = call
        self.turn = turn
        self.token = token
        self.name = call.method if call.name is None else f"{call.method} {call.name}"
        self.activity: Activity | None = None
        self.written = asyncio.Event()  # its write is through, whatever came of it
        self.written_at = 0.0  # on the clock of its loop
        self.arrived = asyncio.Event()  # its server has begun to respond; told only by HTTP
        self.signal: asyncio.Task[None] | None = None
        self.is_settled = False
        self.is_cut = False  # what would bring its response has ended
        self.waiters: list[LockType] = []
        self._tower = tower
        self._bell: StopEvent | None = None
        self._watching: asyncio.Task[None] | None = None
        self._registration: Registration | None = None

    # -- following the stop, on the connection's thread -------------------------------------------------------

    def follow(self) -> None:
        """Have a stop of its turn, or of the token that its caller obeys, reach it. ``TurnOver`` once that is over."""
        turn, token, loop = self.turn, self.token, self._tower.loop
        if turn is None or token is None:
            return
        bell = self._bell = bridge_asyncio(turn, loop)
        if token is not turn.token:
            self._registration = token.on_cancel(lambda: self._tower.post(bell.set))
        self._watching = loop.create_task(self._watch(bell, token))

    async def _watch(self, bell: StopEvent, token: CancelToken) -> None:
        await bell.wait()
        while (until := shielded_until(token)) is not None:  # noqa: ASYNC110 - it ends at a time, and nobody tells
            await asyncio.sleep(max(until - clock.monotonic(), 0.001))
        self._tower.stop(self, reason_of(token))

    def unfollow(self) -> None:
        """It needs no stop any more."""
        watching, bell, registration = self._watching, self._bell, self._registration
        self._watching = self._bell = self._registration = None
        if watching is not None and watching is not asyncio.current_task():
            watching.cancel()
        if bell is not None:
            bell.release()
        if registration is not None:
            registration.unregister()

    def settle(self, state: ActivityState, detail: str | None = None) -> None:
        """Nothing more will be sent for it: close its activity with what is known, and wake who waits for that."""
        self.unfollow()
        if self.activity is not None:
            self.activity.close(state, detail)
        self.is_settled = True
        self.turn = None  # what is kept as evidence must not keep the turn
        release_all(self.waiters)

    def note_late(self, text: str) -> None:
        """Add to the report what came after that."""
        if self.activity is not None:
            self.activity.note_late(text)

    # -- on other threads -------------------------------------------------------------------------------------

    def wait_settled(self, kill_at: Callable[[], float]) -> bool:
        """Block until it is settled, or the time has come; whether it is. Not a checkpoint."""
        turn = self.turn
        hurry = [] if turn is None else [turn._hurry_waiters, turn.token._grow().waiters]
        while not self.is_settled:
            at = kill_at()
            left = at - clock.monotonic()
            if left <= 0:
                return False
            park(lambda: self.is_settled or kill_at() < at, left, self.waiters, *hurry)  # noqa: B023
        return True

    # -- being owned (tokens.activities.Owned) ----------------------------------------------------------------

    def ask(self) -> None:
        """Its turn ends. A task that the server works on goes on, unless the turn was stopped."""
        self._tower.post(self._part)

    def _part(self) -> None:
        assert self.token is not None
        if self.call.phase == "task" and not self.token.cancelled:
            self.settle("detached", f"task {self.call.task_id} goes on at the server, and was not cancelled")
        else:
            self._tower.stop(self, reason_of(self.token) or "its turn has ended")

    def end(self, kill_at: Callable[[], float]) -> None:
        """Wait until the signal has been handed over, within the grace."""
        if threading.current_thread() is self._tower.thread or self.wait_settled(kill_at):
            return
        if self.activity is not None:
            self.activity.close("unknown", f"the signal was not handed over within the grace; {told(self.call)}")

    def alive(self) -> tuple[str, ...]:
        """Nothing of this process."""
        return ()

    def outcome(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"<Flight {self.name}, request {self.call.request_id!r}: {self.call.phase}>"
