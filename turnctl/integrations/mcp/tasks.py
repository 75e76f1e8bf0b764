"""Tools that are called as tasks: the request is answered with a task at once, and the turn runs on behind it.

Up to 2025-11-25 the client asks for a task; from 2026-07-28 on whoever announces the extension is given one, for tools
that may be tasks. A stop is ``tasks/cancel``, a request with an answer: that it was asked for, not that all has ended.

Invariants
  M1  A task's turn is an entry of its client like any other (``serving``), under a key that no request has.
  M2  A state that is final stays. ``cancelled`` is one as soon as the cancel was accepted, whatever the tool comes to.

The lock is held for operations of a dict. May block: ``result``, in the turn of the request that asks for it. Tasks are
kept in memory: they end with their client's connection or session, without one with the server.
"""

from __future__ import annotations

import secrets
import threading
from _thread import LockType
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from turnctl.clock import wall
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.incoming import INVALID_PARAMS, STOPPED, Call
from turnctl.integrations.mcp.protocol import FINAL, TASK_CANCEL, TASKS
from turnctl.tokens.current import current_token
from turnctl.tokens.event import release_all
from turnctl.waiting.parking import wait_until

if TYPE_CHECKING:
    from turnctl.integrations.mcp.serving import Peer, Request

__all__ = ["TASK_METHODS", "Tasks"]

TASK_METHODS = frozenset(("tasks/get", "tasks/list", "tasks/cancel", "tasks/result"))
_KEPT = 256  # tasks that have ended
_LONGEST_MS = 1 << 53
_PAUSE_MS = 500  # between two questions of a client


class _Task:
    """One task and how it stands."""

    def __init__(self, home: Peer, name: str, ttl_ms: int | None) -> None:
        self.id = secrets.token_hex(16)
        self.home = home
        self.name = name
        self.ttl_ms = ttl_ms
        self.status = "working"
        self.said: str | None = None
        self.message: dict[str, Any] | None = None
        self.created_at = self.updated_at = wall()
        self.waiters: list[LockType] = []

    @property
    def has_ended(self) -> bool:
        return self.status in FINAL

    def end(self, status: str, said: str | None = None) -> None:
        if self.has_ended:
            return  # M2
        self.said = said
        self.updated_at = wall()
        self.status = status
        release_all(self.waiters)

    def answer(self, message: dict[str, Any]) -> None:
        """What its tool came to, as a response."""
        if self.has_ended:
            return
        self.message = message
        error = message.get("error")
        if error is None:
            self.end("completed")
        elif error.get("code") == STOPPED:
            self.end("cancelled", error.get("message"))
        else:
            self.end("failed", error.get("message"))

    def over(self) -> None:
        """Its turn is over; a task that was not answered was stopped."""
        self.end("cancelled", "it was stopped")

    def as_dict(self, *, stateless: bool) -> dict[str, Any]:
        suffix = "Ms" if stateless else ""
        shown: dict[str, Any] = {
            "taskId": self.id,
            "status": self._status(stateless=stateless),
            "createdAt": _stamp(self.created_at),
            "lastUpdatedAt": _stamp(self.updated_at),
            f"ttl{suffix}": self.ttl_ms,
            f"pollInterval{suffix}": _PAUSE_MS,
        }
        if self.said is not None:
            shown["statusMessage"] = self.said
        if stateless and self.message is not None:
            shown.update({key: self.message[key] for key in ("result", "error") if key in self.message})
        return shown

    def _status(self, *, stateless: bool) -> str:
        result = None if self.message is None else self.message.get("result")
        is_error = isinstance(result, dict) and result.get("isError") is True
        return "failed" if is_error and not stateless and self.status == "completed" else self.status


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _ttl_of(wanted: Any) -> int | None:
    """How long a client wants its task to be kept, in milliseconds; ``Refused`` if it does not say that."""
    if isinstance(wanted, dict):
        ttl = wanted.get("ttl")
        if ttl is None:
            return None
        if isinstance(ttl, int | float) and not isinstance(ttl, bool) and 0 <= ttl < _LONGEST_MS:
            return int(ttl)
    raise Refused("the task of tools/call is an object; its ttl is milliseconds, or null", code=INVALID_PARAMS)


class Tasks:
    """The tasks of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: OrderedDict[str, _Task] = OrderedDict()

    def make(
        self, home: Peer, call: Call, work: Callable[[Request], dict[str, Any]], version: str | None, *, stateless: bool
    ) -> dict[str, Any]:
        """Have ``call`` served as a task of ``home``; what its request is answered with."""
        ttl_ms = None if stateless else _ttl_of(call.params.get("task"))
        task = _Task(home, str(call.params.get("name")), ttl_ms)
        with self._lock:
            self._tidy()
            self._tasks[task.id] = task
        if not home.admit(call, work, task.answer, task.over, version, key=("task", task.id)):
            raise Refused("the server is closed")
        home.remember_task(call.id)
        made = task.as_dict(stateless=stateless)
        return {"resultType": "task", **made} if stateless else {"task": made}

    def _tidy(self) -> None:
        now = wall()
        ended = [task for task in self._tasks.values() if task.has_ended]
        surplus = max(len(ended) - _KEPT, 0)
        for number, task in enumerate(ended):
            is_old = task.ttl_ms is not None and now > task.created_at + task.ttl_ms / 1000
            if is_old or number < surplus:
                self._tasks.pop(task.id, None)

    def _find(self, home: Peer, params: dict[str, Any]) -> _Task:
        task_id = params.get("taskId")
        with self._lock:
            task = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if task is None or task.home is not home:
            raise Refused(f"no task {task_id!r} here", code=INVALID_PARAMS)
        return task

    def answer(self, home: Peer, call: Call, *, stateless: bool) -> dict[str, Any]:
        """The result of ``tasks/get``, ``tasks/list`` or ``tasks/cancel``. Never blocks."""
        if call.method == "tasks/list":
            with self._lock:
                found = [task for task in self._tasks.values() if task.home is home]
            return {"tasks": [task.as_dict(stateless=stateless) for task in found]}
        if call.method == TASK_CANCEL:
            return self._cancel(home, call.params, stateless=stateless)
        return self._find(home, call.params).as_dict(stateless=stateless)

    def _cancel(self, home: Peer, params: dict[str, Any], *, stateless: bool) -> dict[str, Any]:
        try:
            task = self._find(home, params)
        except Refused:
            home.cancel(params.get("taskId"), None, TASK_CANCEL, ignored="unknown")
            raise
        done = "finished" if task.has_ended else None
        received = home.cancel(task.id, None, TASK_CANCEL, ignored=done, key=("task", task.id))
        if received.applied:
            task.end("cancelled", "it was asked to stop")
        elif not stateless:
            raise Refused(f"task {task.id} has ended or is being cancelled already", code=INVALID_PARAMS)
        return {} if stateless else task.as_dict(stateless=False)

    def result(self, home: Peer, request: Request) -> dict[str, Any]:
        """The result of ``tasks/result``: what the task comes to. A checkpoint; blocks until it has ended."""
        task = self._find(home, request.params)
        wait_until(current_token(), lambda: task.has_ended, None, task.waiters)
        message = task.message
        if message is None:
            raise Refused(task.said or "the task was cancelled", code=STOPPED)
        if "error" in message:
            error = message["error"]
            raise Refused(error["message"], code=error["code"], data=error.get("data"))
        about = {f"{TASKS.partition('/')[0]}/related-task": {"taskId": task.id}}
        result: dict[str, Any] = message["result"]
        return {**result, "_meta": {**result.get("_meta", {}), **about}}
