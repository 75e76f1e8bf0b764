"""Requests of one client: each is a turn, which its cancel stops and no other; each is answered once or never.

Invariants
  Q1  A request is in ``_entries`` before its thread can run, under an id that no other request there has.
  Q2  A cancel notes itself (``marks``), *then* asks whether the turn has begun; the thread begins the turn, *then*
      reads the marks. So a cancel stops the turn at any moment, and one that came first never lets the tool run.
  Q3  The turn decides (promise 3): a turn that ended ``cancelled`` is not answered with what it came to. Whether it is
      answered at all is decided by the first mark: a cancel, or the thread's own that it answers.
  Q4  ``answer`` is called once or never, ``over`` once, after it; both on the thread of the request. It is no longer
      in ``_entries`` then.
  Q5  Once the client is gone nothing is answered; what has not begun never does.

The lock is held for operations of a dict. May block: nothing here; the tool, its turn's end and ``answer`` do, on the
thread of the request. Not promised: that a tool which never comes to a checkpoint ends; its answer is dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from turnctl import points
from turnctl.clock import wall
from turnctl.errors import CancelledError, TurnctlError
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import (
    INTERNAL,
    INVALID_REQUEST,
    STOPPED,
    Call,
    error_message,
    result_message,
)
from turnctl.integrations.mcp.protocol import UNCANCELLABLE, key_of, twin_of
from turnctl.records.mcp import CancelReceived, Dialect, RequestId, Transport
from turnctl.turns import Turn

if TYPE_CHECKING:
    from contextvars import Context

    from turnctl.integrations.mcp.pool import Pool
    from turnctl.records.report import TurnReport
    from turnctl.records.stops import Cause
    from turnctl.tokens.activities import Activity

__all__ = ["Entry", "Mark", "Peer", "Request", "current_request", "in_work_message"]

Answer = Callable[[dict[str, Any]], None]
Work = Callable[["Request"], dict[str, Any]]
Key = tuple[str, RequestId]

_REMEMBERED = 512  # requests that are over, and cancels that came: to tell "finished" from "unknown"


class Request(NamedTuple):
    """What a tool may know of the request that it serves (``current_request``)."""

    id: RequestId
    method: str
    params: dict[str, Any]
    transport: Transport
    version: str | None

    @property
    def title(self) -> str:
        """The method, and the tool where it is a call of one."""
        name = self.params.get("name")
        return f"{self.method} {name}" if isinstance(name, str) else self.method


_current: ContextVar[Request | None] = ContextVar("turnctl_mcp_request", default=None)


def current_request() -> Request | None:
    """The request that this code serves, or None. Never blocks, not a checkpoint."""
    return _current.get()


class Mark(NamedTuple):
    """Who wants to decide about the answer; ``kind`` is "answer", "cancel" or "gone"."""

    kind: str
    reason: str | None
    cause: Cause
    by: str | None


_ANSWER = Mark("answer", None, "user", None)


class Entry:
    """One request, from its admission until it is over; a job of the pool."""

    __slots__ = (
        "_peer",
        "activity",
        "answer",
        "has_begun",
        "is_dropped",
        "key",
        "marks",
        "over",
        "request",
        "turn",
        "work",
    )

    def __init__(self, peer: Peer, key: Key, request: Request, work: Work, answer: Answer, over: Callable[[], None]):
        self._peer = peer
        self.key = key
        self.request = request
        self.work = work
        self.answer = answer
        self.over = over
        self.turn = Turn(reason=f"mcp request {request.id!r}: {request.title}", timeout=peer.timeout, grace=peer.grace)
        self.marks: list[Mark] = []
        self.has_begun = False
        self.is_dropped = False
        self.activity: Activity | None = None

    @property
    def name(self) -> str:
        """What it is called where it has to be named."""
        return f"request {self.request.id!r} ({self.request.title})"

    # -- on its thread ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve it; never raises."""
        self._peer.context.copy().run(self._serve)

    def _serve(self) -> None:
        points.reach("mcp.server.begin")
        if self.is_dropped:
            return
        try:
            if self._peer.is_closed:
                return  # Q5
            message = self._outcome()
            may_answer = self._may_answer()
            self._peer.forget(self)  # first: who has the answer may use the id again
            if may_answer:
                points.reach("mcp.server.answering")
                self.answer(message)
            if self.has_begun:
                self._peer.on_over(lambda: self.turn.report)
        except Exception as error:  # noqa: BLE001 - the thread serves others too
            self._peer.failed(self, error)
        finally:
            self._peer.forget(self)
            self.over()

    def _outcome(self) -> dict[str, Any]:
        """What it comes to, as the message that says so."""
        request, turn = self.request, self.turn
        _current.set(request)
        result: dict[str, Any] | None = None
        failure: BaseException | None = None
        try:
            with turn, turn.activity("mcp", f"{request.title}, request {request.id!r}") as self.activity:
                self.has_begun = True
                points.reach("mcp.server.begun")
                for mark in list(self.marks):  # Q2
                    self._stop(mark)
                turn.check()
                result = self.work(request)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the client is told
            failure = error
        points.reach("mcp.server.deciding")
        if self.has_begun and turn.outcome == "cancelled":
            return self._stopped_message()
        if failure is not None:
            return _told(request, failure)
        return result_message(request.id, {} if result is None else result)

    def _stopped_message(self) -> dict[str, Any]:
        record = self.turn.token.record
        why = "it was stopped" if record is None else record.reason or f"it was stopped ({record.cause})"
        data = None if record is None else {"cause": record.cause}
        return error_message(self.request.id, STOPPED, why, data)

    def _may_answer(self) -> bool:
        if self._peer.is_closed:
            return False  # Q5
        if not self.has_begun or self.turn.outcome == "cancelled":
            self.marks.append(_ANSWER)
            return self.marks[0] is _ANSWER  # Q3
        return True

    def _stop(self, mark: Mark) -> bool:
        """Carry a mark out; whether the turn is or will be cancelled."""
        answer = self.turn.cancel(mark.reason, by=mark.by, cause=mark.cause)
        return bool(answer) or answer.outcome == "cancelled"

    # -- on others --------------------------------------------------------------------------------------------

    def want_stop(self, mark: Mark) -> str | None:
        """Stop it; None if ``mark`` is what stops it, else why not."""
        self.marks.append(mark)
        points.reach("mcp.server.cancelling")
        if self.has_begun and not self._stop(mark):  # Q2
            return "finished"
        first = self.marks[0]
        if first is mark:
            return None
        return "finished" if first is _ANSWER else "already cancelled"


def _told(request: Request, failure: BaseException) -> dict[str, Any]:
    """What a client is told of a failure; that of a tool is a result, which the model is to read."""
    if isinstance(failure, Refused):
        return error_message(request.id, failure.code, str(failure), failure.data)
    if isinstance(failure, CancelledError):
        return error_message(request.id, INTERNAL, f"stopped by another turn than its own: {failure}")
    text = f"{type(failure).__name__}: {failure}"
    if request.method == "tools/call" and isinstance(failure, Exception) and not isinstance(failure, TurnctlError):
        return result_message(request.id, {"content": [{"type": "text", "text": text}], "isError": True})
    return error_message(request.id, INTERNAL, text)


def in_work_message(request_id: RequestId) -> dict[str, Any]:
    """What a second request is answered with, whose id is in work: no id, since one with it would answer the first."""
    return error_message(None, INVALID_REQUEST, f"request {request_id!r} is in work; a client uses each id once")


class Peer:
    """What one client has in work. Thread-safe; ``cancel`` and ``close`` never block."""

    def __init__(
        self,
        pool: Pool,
        transport: Transport,
        *,
        timeout: float | str | None = None,
        grace: float | str = "5s",
        note: Callable[[CancelReceived], None],
        failed: Callable[[Entry, BaseException], None],
        on_over: Callable[[Callable[[], TurnReport]], object],
        context: Context | None = None,
    ) -> None:
        self.transport: Transport = transport
        self.timeout = timeout
        self.grace = grace
        self.version: str | None = None
        #: whose tasks it sees: its own, but for a client of one request
        self.home: Peer = self
        self.failed = failed
        self.on_over = on_over
        self.context = copy_context() if context is None else context
        self.is_closed = False
        self._pool = pool
        self._note = note
        self._lock = threading.Lock()
        self._entries: dict[Key, Entry] = {}
        self._finished: OrderedDict[Key, tuple[str | None, Activity | None]] = OrderedDict()
        self._uncancellable: deque[Key] = deque(maxlen=_REMEMBERED)

    @property
    def in_work(self) -> list[Entry]:
        """A snapshot of what is in work."""
        with self._lock:
            return list(self._entries.values())

    def has_in_work(self, request_id: RequestId) -> bool:
        """Whether a request of that id is in work."""
        key = key_of(request_id)
        with self._lock:
            return key in self._entries

    def admit(
        self,
        call: Call,
        work: Work,
        answer: Answer,
        over: Callable[[], None],
        version: str | None,
        *,
        key: Key | None = None,
    ) -> bool:
        """Have ``call`` served on a thread; False, and nothing but ``over``, if the client is gone.

        A request whose id is in work is not served (``in_work_message``). ``key`` is what it goes by instead of its id.
        """
        key = key or key_of(call.id)
        assert key is not None
        entry = Entry(
            self, key, Request(call.id, call.method, call.params, self.transport, version), work, answer, over
        )
        with self._lock:
            is_closed = self.is_closed
            other = self._entries.get(key)
            if other is None and not is_closed:
                self._entries[key] = entry  # Q1
        if is_closed:
            over()
            return False
        if other is not None:
            answer(in_work_message(call.id))
            over()
            return False
        points.reach("mcp.server.admitted")
        try:
            if self._pool.submit(entry):
                return True
        except OSError as error:  # no thread is to be had
            entry.is_dropped = True  # it is still in the queue
            answer(error_message(call.id, INTERNAL, str(error)))
        self.forget(entry)
        over()
        return False

    def remember_opening(self, request_id: RequestId) -> None:
        """That request was answered on the spot, and can never be cancelled."""
        key = key_of(request_id)
        assert key is not None
        self._uncancellable.append(key)

    def remember_task(self, request_id: RequestId) -> None:
        """That request was answered with a task."""
        key = key_of(request_id)
        assert key is not None
        with self._lock:
            self._remember(key, None, None)

    def forget(self, entry: Entry) -> None:
        """It is over."""
        with self._lock:
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
                self._remember(entry.key, entry.turn.turn_id, entry.activity)

    def _remember(self, key: Key, turn_id: str | None, activity: Activity | None) -> None:
        self._finished[key] = (turn_id, activity)
        while len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)

    # -- stopping ---------------------------------------------------------------------------------------------

    def cancel(
        self,
        request_id: Any,
        reason: Any,
        dialect: Dialect,
        *,
        ignored: str | None = None,
        key: Key | None = None,
    ) -> CancelReceived:
        """Stop the request of that id and no other, and say what became of that; it is noted as well.

        ``ignored`` says why this cancel is not to stop anything; ``key`` is what the request goes by, if not by its id.
        """
        text = reason if isinstance(reason, str) else None
        key = key or key_of(request_id)
        turn_id: str | None = None
        why = ignored
        if why is None:
            why, turn_id = ("malformed: it names no request", None) if key is None else self._cancel(key, text)
        received = CancelReceived(request_id, dialect, why is None, wall(), why, text, turn_id)
        self._note(received)
        return received

    def _cancel(self, key: Key, reason: str | None) -> tuple[str | None, str | None]:
        with self._lock:
            entry = self._entries.get(key)
            finished = self._finished.get(key)
            other = self._entries.get(twin_of(key))
        if entry is not None:
            if entry.request.method in UNCANCELLABLE:
                return f"{entry.request.method} cannot be cancelled", entry.turn.turn_id
            why = entry.want_stop(Mark("cancel", reason, "user", "the client"))
            if why == "finished" and entry.activity is not None:
                entry.activity.note_late("a cancel came when it had come to its end")
            return why, entry.turn.turn_id
        if finished is not None:
            turn_id, activity = finished
            if activity is not None:
                activity.note_late("a cancel came when it was over")
            return "finished", turn_id
        if key in self._uncancellable:
            return "it opened the connection, which cannot be cancelled", None
        if other is not None:
            return f"unknown: {key[1]!r} is not {other.request.id!r}, which is in work", None
        return "unknown", None

    def close(self, reason: str, cause: Cause = "closed") -> list[Entry]:
        """The client is gone: stop all that is in work, answer nothing any more; what was in work is returned."""
        with self._lock:
            self.is_closed = True
            entries = list(self._entries.values())
        mark = Mark("gone", reason, cause, "the end of its connection" if cause == "closed" else None)
        for entry in entries:
            entry.want_stop(mark)
        return entries
