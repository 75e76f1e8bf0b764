"""Which calls are under way on a connection, and what becomes of each message that comes for one of them.

Invariant G4 of ``wire``. A response goes to the session, to whoever sent the request without one (``asked``), or to the
evidence. All of it happens on the thread of the connection; nothing here blocks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl import points
from turnctl.clock import wall
from turnctl.integrations.mcp import sdk
from turnctl.integrations.mcp.faults import ConnectionLost, Refused
from turnctl.integrations.mcp.protocol import (
    answer_cancel,
    end_task,
    evidence_of,
    is_final,
    key_of,
    lose,
    take_response,
    told,
)
from turnctl.tokens.event import release_all

if TYPE_CHECKING:
    from turnctl.integrations.mcp.flights import Flight
    from turnctl.records.mcp import CancelSent, Outgoing, RequestId
    from turnctl.records.report import ActivityState

__all__ = ["Traffic"]

_KEPT = 1000  # calls that were stopped, whose responses may still come
Key = tuple[str, "RequestId"]


class Traffic:
    """The flights of one connection."""

    def __init__(self) -> None:
        #: the version that was agreed on, once it is known
        self.version: str | None = None
        #: who is told of a flight that can have no response any more
        self.on_gone: list[Callable[[Flight, str], object]] = []
        #: who is told of a task that was made for a flight which had been stopped
        self.on_task: Callable[[Flight], object] = lambda _: None
        self.open: dict[Key, Flight] = {}
        #: requests that no session has sent, by id: who waits for the result
        self.asked: dict[str, asyncio.Future[dict[str, Any]]] = {}
        #: by the id of the ``tasks/cancel`` that was sent for it
        self.cancels: dict[str, Flight] = {}
        self.evidence: deque[Flight] = deque(maxlen=_KEPT)
        self._stopped: OrderedDict[Key, Flight] = OrderedDict()

    def sent(self) -> tuple[CancelSent, ...]:
        """Every stop that was wanted for a call, oldest first. Any thread may ask."""
        found = [evidence_of(flight.call) for flight in list(self.evidence)]
        return tuple(one for one in found if one is not None)

    def add(self, flight: Flight) -> None:
        """It is under way from now on."""
        key = key_of(flight.call.request_id)
        assert key is not None
        self.open[key] = flight

    def find(self, request_id: Any) -> Flight | None:
        """The flight of that id that is under way; a server may give a number back as a string."""
        return _find(self.open, request_id)

    # -- what comes in ----------------------------------------------------------------------------------------

    def passes(self, message: Any) -> bool:
        """Take note of a message that came; whether the session is to have it."""
        if getattr(message, "method", None) is not None:
            self._see_task(getattr(message, "params", None))
            return True
        request_id = getattr(message, "id", None)
        cancelling = self.cancels.pop(request_id, None) if isinstance(request_id, str) else None
        if cancelling is not None:
            self._take_answer(cancelling, sdk.plain(message))
            return False
        flight = self.find(request_id) or _find(self._stopped, request_id)
        if flight is None or flight.is_cut:
            return True  # none of ours, or one that the SDK has made up for a response that cannot come
        return self._take_response(flight, message) and not self._was_asked(request_id, message)

    def _was_asked(self, request_id: Any, message: Any) -> bool:
        future = self.asked.pop(request_id, None) if isinstance(request_id, str) else None
        if future is None:
            return False
        error = getattr(message, "error", None)
        if future.done():
            pass  # who asked has left
        elif error is None:
            future.set_result(message.result)
        else:
            future.set_exception(Refused(str(error.message), code=error.code, data=error.data))
        return True

    def _take_response(self, flight: Flight, message: Any) -> bool:
        points.reach("mcp.client.response")
        result = getattr(message, "result", None)
        error = getattr(message, "error", None)
        shown = {"result": result} if flight.call.phase in ("queued", "written") else sdk.plain(message)
        flight.call, passes = take_response(flight.call, shown, wall())
        call = flight.call
        if not passes:
            self._note_late(flight, shown)
            if call.phase == "signalling" and call.task_id is not None:
                self.on_task(flight)
        elif call.phase == "answered":
            self._learn(call, result)
            if error is None:
                self.settle(flight, "completed")
            else:
                self.settle(flight, "failed", f"error {error.code}: {error.message}")
        return passes

    def _learn(self, call: Outgoing, result: Any) -> None:
        if not isinstance(result, dict):
            return
        version = result.get("protocolVersion")
        if call.method == "initialize" and isinstance(version, str):
            self.version = version
        if call.method == "tasks/result":
            self._see_task({"taskId": call.name, "status": "completed"})  # it is sent when the task has ended
        elif call.method.startswith("tasks/"):
            self._see_task(result)

    def _see_task(self, told_of: Any) -> None:
        """The server has said how a task stands; one that has ended needs no stop."""
        if not isinstance(told_of, dict) or not is_final(told_of.get("status")):
            return
        flight = self.task(told_of.get("taskId"))
        if flight is not None:
            flight.call = end_task(flight.call)
            self.settle(flight, "completed", f"task {flight.call.task_id}: {told_of['status']}")

    def task(self, task_id: Any) -> Flight | None:
        """The call that has become that task, which is still worked on as far as is known."""
        for flight in self.open.values():
            if flight.call.phase == "task" and flight.call.task_id == task_id:
                return flight
        return None

    def _note_late(self, flight: Flight, response: dict[str, Any]) -> None:
        what = "an error" if "error" in response else "a result"
        flight.note_late(f"its response came after the stop, with {what}, and was given to nobody")
        release_all(flight.waiters)
        key = key_of(flight.call.request_id)
        if flight.is_settled and key is not None:
            self._stopped.pop(key, None)

    def _take_answer(self, flight: Flight, answer: dict[str, Any]) -> None:
        flight.call = answer_cancel(flight.call, answer, wall())
        if "error" in answer:
            text = f"the server refused to cancel the task: {answer['error'].get('message')}"
        else:
            text = f"the server answered the cancel: status {answer.get('result', {}).get('status', 'not told')}"
        flight.note_late(text)
        release_all(flight.waiters)

    # -- the end of a flight ----------------------------------------------------------------------------------

    def settle(self, flight: Flight, state: ActivityState | None = None, detail: str | None = None) -> None:
        """Nothing more will be sent for it; without ``state`` it ends as its phase says."""
        key = key_of(flight.call.request_id)
        assert key is not None
        if self.open.get(key) is flight:
            del self.open[key]
        call = flight.call
        if state is not None:
            flight.settle(state, detail)
        else:
            flight.settle("cancelled" if call.phase == "withdrawn" else "unknown", told(call))
        if call.phase in ("signalled", "silent") and call.late_response is None and not flight.is_cut:
            self._stopped[key] = flight
            while len(self._stopped) > _KEPT:
                self._stopped.popitem(last=False)

    def lose(self, flight: Flight, why: str) -> None:
        """No response can come for ``flight`` any more."""
        flight.call = lose(flight.call, why)
        future = self.asked.pop(str(flight.call.request_id), None)
        if future is not None and not future.done():
            future.set_exception(ConnectionLost(f"{why}; what the server did is not known"))
            future.exception()  # who waits for it has it; where nobody does, nobody is to be told
        if flight.call.phase == "lost":
            self.settle(flight, "unknown", f"{why}, before its response; what the server did is not known")
            for tell in self.on_gone:
                tell(flight, why)
        elif flight.call.phase == "silent":
            self.settle(flight)

    def stream_ended(self, request_id: Any) -> None:
        """The response stream of that request has ended; a response that comes all the same is the SDK's own."""
        flight = self.find(request_id) or _find(self._stopped, request_id)
        if flight is None:
            return
        flight.is_cut = True
        if flight.call.phase == "written":
            self.lose(flight, "the response stream ended without one, or the server is gone")


def _find(among: dict[Key, Flight], request_id: Any) -> Flight | None:
    key = key_of(request_id)
    if key is None:
        return None
    found = among.get(key)
    if found is None and isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 20:
        found = among.get(("number", int(request_id)))
    return found
