"""The words of MCP: ids, versions, the three ways to say stop, and how a call moves from one phase to the next.

All of it is pure: functions from records to records, without I/O, clocks or threads. Who calls them (``wire`` for what
is sent to a server, ``serving`` for what comes from a client) sees to the order.

The three ways, of which each call has exactly one:
  ``notifications/cancelled``  a notification that names the request; on stdio in every version, on HTTP up to
                               2025-11-25, where closing the response stream is *not* a cancel
  ``stream-close``             on HTTP from 2026-07-28 on: closing the response stream is the cancel, and there is no
                               notification
  ``tasks/cancel``             for a request that was answered with a task: a request with an answer of its own
"""

from __future__ import annotations

from typing import Any, Final

from turnctl.records.mcp import CancelSent, Dialect, Outgoing, RequestId, Transport

__all__ = [
    "CANCELLED",
    "FINAL",
    "STATELESS",
    "STREAM_CLOSE",
    "TASKS",
    "TASK_CANCEL",
    "UNCANCELLABLE",
    "VERSIONS",
    "answer_cancel",
    "begin_write",
    "dialect_of",
    "end_task",
    "evidence_of",
    "is_final",
    "key_of",
    "lose",
    "signal_failed",
    "signal_sent",
    "take_response",
    "task_in",
    "told",
    "twin_of",
    "want_stop",
    "with_stateless",
]

CANCELLED: Final = "notifications/cancelled"
TASK_CANCEL: Final = "tasks/cancel"
STREAM_CLOSE: Final = "stream-close"
#: the extension that tasks are from 2026-07-28 on
TASKS: Final = "io.modelcontextprotocol/tasks"
#: what opens a connection is never cancelled
UNCANCELLABLE = frozenset(("initialize", "server/discover"))
#: the revisions that begin with ``initialize``, oldest first
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
#: the first revision in which each request stands for itself, and closing its response stream cancels it
STATELESS = "2026-07-28"
#: the states in which a task stays
FINAL = frozenset(("completed", "failed", "cancelled"))
_OPEN = frozenset(("queued", "written", "task"))


def key_of(value: Any) -> tuple[str, RequestId] | None:
    """What tells one request id from another; None for what is no id.

    A string is never a number: ``"7"`` and ``7`` are two requests. ``7.0`` is ``7``, as JSON has one kind of number.
    """
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        if not value.is_integer():  # also for infinities and NaN
            return None
        value = int(value)
    return ("number", value)


def twin_of(key: tuple[str, RequestId]) -> tuple[str, RequestId]:
    """The key of the id that looks the same and is of the other type."""
    kind, value = key
    if kind == "number":
        return ("text", str(value))
    try:
        return ("number", int(value))
    except ValueError:
        return key


def with_stateless(version: str | None) -> bool:
    """Whether that revision is one in which a disconnect is a cancel. What is not a known form of a date is not."""
    return version is not None and len(version) == len(STATELESS) and version[:2] == "20" and version >= STATELESS


def dialect_of(transport: Transport, version: str | None, *, is_task: bool = False) -> Dialect:
    """How a stop is said there."""
    if is_task:
        return TASK_CANCEL
    return STREAM_CLOSE if transport == "http" and with_stateless(version) else CANCELLED


def is_final(state: Any) -> bool:
    """Whether ``state``, which a server may say to be anything, is one in which a task stays."""
    return isinstance(state, str) and state in FINAL


def task_in(result: Any) -> tuple[str, str | None] | None:
    """The id and the state of the task that ``result`` stands for instead of a result; None if it is one."""
    if not isinstance(result, dict):
        return None
    task = result if result.get("resultType") == "task" else result.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
        return None
    state = task.get("status")
    return task["taskId"], state if isinstance(state, str) else None


# -- how a call moves on ----------------------------------------------------------------------------------------------


def begin_write(call: Outgoing) -> Outgoing:
    """Its request is about to be written: from now on the server may see it."""
    return call.but(phase="written") if call.phase == "queued" else call


def want_stop(call: Outgoing, reason: str | None, at: float) -> Outgoing:
    """A stop reached it. The phase is ``signalling`` afterwards if this call decided that a signal is to be sent."""
    if call.phase not in _OPEN:
        return call
    wanted = call.but(reason=reason, wanted_at=at)
    if call.phase == "queued":
        return wanted.but(phase="withdrawn", not_sent="it was stopped before it was sent")
    if call.method in UNCANCELLABLE:
        return wanted.but(phase="silent", not_sent=f"{call.method} cannot be cancelled")
    return wanted.but(phase="signalling")


def signal_sent(call: Outgoing, at: float) -> Outgoing:
    """The signal was handed to the transport."""
    return call.but(phase="signalled", sent_at=at) if call.phase == "signalling" else call


def signal_failed(call: Outgoing, why: str) -> Outgoing:
    """The signal could not be handed over."""
    return call.but(phase="silent", not_sent=why) if call.phase == "signalling" else call


def take_response(call: Outgoing, response: dict[str, Any], at: float) -> tuple[Outgoing, bool]:
    """The response arrived; whether it is given to the caller. The first one counts.

    A late one that is a task has the phase ``signalling`` again: what runs behind it is still to be told.
    """
    task = task_in(response.get("result"))
    works = task is not None and task[1] not in FINAL
    if call.phase in ("queued", "written"):
        if task is not None and works:
            return call.but(phase="task", task_id=task[0]), True
        return call.but(phase="answered"), True
    if call.late_response is None and call.task_id is None and call.phase not in ("answered", "lost"):
        call = call.but(late_response=response, late_at=at)
        if task is not None and works and call.phase in ("signalling", "signalled"):
            call = call.but(phase="signalling", task_id=task[0])
    return call, False


def end_task(call: Outgoing) -> Outgoing:
    """The server said that the task of the call has come to its end."""
    return call.but(phase="answered") if call.phase == "task" else call


def answer_cancel(call: Outgoing, answer: dict[str, Any], at: float) -> Outgoing:
    """The server answered ``tasks/cancel``. The first answer is kept; it proves nothing about what runs there."""
    return call if call.answer is not None else call.but(answer=answer, answered_at=at)


def lose(call: Outgoing, why: str) -> Outgoing:
    """The connection is gone."""
    if call.phase in _OPEN:
        return call.but(phase="lost", not_sent=why)
    return signal_failed(call, why)


# -- what is said of it -----------------------------------------------------------------------------------------------


def evidence_of(call: Outgoing) -> CancelSent | None:
    """What is known of the stop of the call; None if none was wanted."""
    if call.wanted_at is None:
        return None
    was_sent = call.sent_at is not None
    return CancelSent(
        request_id=call.request_id,
        method=call.method,
        name=call.name,
        transport=call.transport,
        protocol_version=call.version,
        dialect=dialect_of(call.transport, call.version, is_task=call.task_id is not None) if was_sent else None,
        evidence_class="signal_queued" if was_sent else "none",
        reason=call.reason,
        wanted_at=call.wanted_at,
        sent_at=call.sent_at,
        not_sent=call.not_sent,
        task_id=call.task_id,
        answer=call.answer,
        answered_at=call.answered_at,
        late_response=call.late_response,
        late_at=call.late_at,
    )


def told(call: Outgoing) -> str:
    """The same for a report, in a line."""
    if call.sent_at is None:
        return f"no signal was sent: {call.not_sent}"
    dialect = dialect_of(call.transport, call.version, is_task=call.task_id is not None)
    what = f"task {call.task_id}" if call.task_id is not None else f"request {call.request_id!r}"
    return (
        f"signal_queued: {dialect} for {what} ({call.transport}, {call.version or 'version not known'}); what the "
        "server made of it is not known"
    )
