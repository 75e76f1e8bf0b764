"""A call that the server turns into a task: made, asked about until it has ended, and its result fetched.

Up to 2025-11-25 the client asks for a task; from 2026-07-28 on the server decides (extension
``io.modelcontextprotocol/tasks``, which the session has to announce). The stop is not seen to here: the call is a
flight that stays under way as a task, and is sent ``tasks/cancel`` when its turn is stopped (``wire``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnctl.clock import parse_duration
from turnctl.errors import TurnctlError
from turnctl.integrations.mcp.faults import Refused
from turnctl.integrations.mcp.protocol import is_final, task_in, with_stateless
from turnctl.tokens.current import current_token
from turnctl.waiting.parking import end_of, left_until, wait_until

if TYPE_CHECKING:
    from turnctl.integrations.mcp.client import Client

__all__ = ["run_task"]

_PAUSE_S = 0.5  # between two questions, where the server names no time
_LONGEST_MS = 86_400_000  # above which what it names is no time to wait


def run_task(
    client: Client, name: str, arguments: dict[str, Any], ttl: float | str | None, ends_at: float | None
) -> dict[str, Any]:
    """See ``Client.run_task``."""
    stateless = with_stateless(client.protocol_version)
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if not stateless:
        seconds = parse_duration(ttl, what="ttl", none=True)
        params["task"] = {} if seconds is None else {"ttl": int(seconds * 1000)}
    made = client.request("tools/call", params, timeout=left_until(ends_at))
    found = task_in(made)
    if found is None:
        return made
    task_id, task = found[0], made.get("task", made)
    try:
        while not is_final(task.get("status")):
            _pause(task, ends_at)
            task = client.request("tasks/get", {"taskId": task_id}, timeout=left_until(ends_at))
    except (TimeoutError, TurnctlError) as error:
        client.stop_task(task_id, str(error))
        raise
    return _outcome(client, task, task_id, stateless=stateless)


def _pause(task: dict[str, Any], ends_at: float | None) -> None:
    if task.get("status") == "input_required":
        raise TurnctlError(f"task {task.get('taskId')} wants input, which run_task() has not, and is cancelled")
    wanted = task.get("pollInterval", task.get("pollIntervalMs"))
    seconds = wanted / 1000 if isinstance(wanted, int | float) and 0 < wanted < _LONGEST_MS else _PAUSE_S
    left = left_until(ends_at)
    if left == 0:
        raise TimeoutError("the task had not ended in time, and was cancelled; give it longer")
    wait_until(current_token(), lambda: False, end_of(seconds if left is None else min(seconds, left)))


def _outcome(client: Client, task: dict[str, Any], task_id: str, *, stateless: bool) -> dict[str, Any]:
    if not stateless:
        return client.request("tasks/result", {"taskId": task_id})
    result = task.get("result")
    if task.get("status") == "completed" and isinstance(result, dict):
        return result
    error = task.get("error")
    if not isinstance(error, dict):
        raise Refused(f"task {task_id} ended as {task.get('status')}: {task.get('statusMessage') or 'no reason given'}")
    raise Refused(str(error.get("message")), code=error.get("code", 0), data=error.get("data"))
