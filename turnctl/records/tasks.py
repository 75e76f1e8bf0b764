"""What a ledger keeps of a task: its incarnations, the one cancellation of each, and what it owns. Values only.

Text ids, whole revisions, and times as seconds since the epoch that are for people: no order is ever read from a time.
"""

from __future__ import annotations

from typing import Any, Literal

import attrs

from turnctl.records.account_words import PROCESSES

__all__ = [
    "PROCESSES",
    "PROMISES",
    "TASK_STATES",
    "Cancellation",
    "Child",
    "ChildStatus",
    "Detached",
    "Evidence",
    "Holder",
    "Interest",
    "Lease",
    "OwnedActivity",
    "Policy",
    "PromiseLevel",
    "Scope",
    "SharedWork",
    "Task",
    "TaskExecution",
    "TaskState",
]

TaskState = Literal[
    "running", "cancel_requested", "draining", "cancelled_settled", "stopped_unresolved", "completed", "failed"
]
#: ``idle``: no worker has it. ``active``: one has. ``stop_observed``: it, or the kernel, said that it is through.
#: ``fenced``: it may live, and the gate takes nothing from it any more. ``unproven``: it may live, and may act.
TaskExecution = Literal["idle", "active", "stop_observed", "fenced", "unproven"]
PromiseLevel = Literal["stop-generating", "no-new-actions", "ask-provider", "prevent-delivery"]
#: what a cancellation does to effects that were admitted and not yet sent
Policy = Literal["suppress", "deliver"]
Scope = Literal["self", "subtree"]
ChildStatus = Literal["registered", "started", "never_started", "ended", "detached"]
Evidence = Literal["signal_queued", "handler_stopped", "provider_confirmed"]

TASK_STATES: tuple[TaskState, ...] = TaskState.__args__  # type: ignore[attr-defined]
#: from the weakest to the strongest
PROMISES: tuple[PromiseLevel, ...] = PromiseLevel.__args__  # type: ignore[attr-defined]
OPEN_STATES = frozenset({"running", "cancel_requested", "draining", "stopped_unresolved"})


@attrs.frozen
class Task:
    """One incarnation of a task: what is asked, whether a worker has it, and how it ended, each apart.

    ``revision`` rises with each transition of the task itself and with nothing else; what is admitted carries the
    revision that it was admitted under. ``seq`` counts the incarnations of one task id.
    """

    inc: str
    tenant: str
    task_id: str
    seq: int
    root_inc: str
    parent_inc: str | None = None
    state: TaskState = "running"
    revision: int = 1
    promise: PromiseLevel = "no-new-actions"
    policy: Policy = "suppress"
    lease_gen: int = 0
    execution: TaskExecution = "idle"
    outcome_ref: str | None = None
    #: a result that came when the task had been cancelled: evidence, nothing else
    late_outcome_ref: str | None = None
    submitted_at: float = 0.0
    ended_at: float | None = None

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def is_over(self) -> bool:
        """Whether it has come to an end that nothing changes any more."""
        return self.state in ("completed", "failed", "cancelled_settled")

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it drains any more: it is over, or has stopped with something unknown."""
        return self.is_over or self.state == "stopped_unresolved"

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class Cancellation:
    """The one cancellation of an incarnation. It never changes, but its level may rise. ``print`` says it in words.

    ``accepted_rev`` is the task's revision that the acceptance made. ``covered_by`` names the cancellation of an
    ancestor that brought this one with it, or came over it later.
    """

    cr: str
    inc: str
    accepted_rev: int
    scope: Scope
    requester: str
    reason: str | None = None
    auth_ref: str | None = None
    covered_by: str | None = None
    level: Literal["cancel", "kill"] = "cancel"
    at: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"cancellation accepted (revision {self.accepted_rev}, by {self.requester}{why})"


@attrs.frozen
class Holder:
    """Which process holds a lease, so that its death can be proven: a number alone may have been given out again.

    ``pid_ns`` and ``boot_id`` say where the number means something; ``started`` is the start time that the kernel
    keeps for it, in its own units.
    """

    boot_id: str
    pid_ns: str
    pid: int
    started: int
    host: str = ""


@attrs.frozen
class Lease:
    """Who works on an incarnation. The generation fences: the gate takes nothing from an older one."""

    inc: str
    gen: int
    holder: Holder
    #: whether it was given back, or taken
    live: bool = True
    #: this attempt may drain what is there, and begins nothing
    drain_only: bool = False
    #: the worker has seen the cancellation
    acknowledged: bool = False
    taken_at: float = 0.0


@attrs.frozen
class OwnedActivity:
    """Something that the incarnation owns and that has to be accounted for: a process, a model call, a tool call.

    ``signal`` is what was sent to end it, in order, ``evidence`` what that establishes; neither says that it stopped.
    ``process`` is the process that it is, or in which it runs; its pid is 0 until it is on record, and None of what was
    registered by hand.
    """

    inc: str
    ref: str
    kind: str
    name: str
    gen: int
    process: Holder | None = None
    begun_at: float = 0.0
    signal: str | None = None
    signalled_at: float | None = None
    evidence: Evidence | None = None
    #: it was observed to have ended, or to have gone to another owner
    stopped: bool = False
    #: our end of it was closed: what the other end still does is not known, and is heard by nobody
    severed: bool = False
    ended_at: float | None = None
    detail: str | None = None

    @property
    def may_act(self) -> bool:
        """Whether it is not known that nothing of it acts any more, or that nobody hears what does."""
        return not (self.stopped or self.severed)

    @property
    def title(self) -> str:
        """Its kind and name, with the number of a process that has one."""
        its = self.process if self.kind in PROCESSES else None
        if its is None:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.name} ({f'pid {its.pid}' if its.pid else 'no pid on record'})"

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.frozen
class Child:
    """An incarnation that another one owns; registered before it may run."""

    parent_inc: str
    child_inc: str
    registered_rev: int
    status: ChildStatus = "registered"


@attrs.frozen
class SharedWork:
    """Work that several incarnations wait for; it is cancelled once, when the last interest in it is released."""

    shared_id: str
    tenant: str
    state: Literal["running", "cancel_requested", "ended"] = "running"
    revision: int = 1


@attrs.frozen
class Interest:
    """One incarnation's interest in shared work."""

    shared_id: str
    inc: str
    live: bool = True
    #: the cancellation that released it, or None where its owner did
    released_by: str | None = None


@attrs.frozen
class Detached:
    """Work that left an incarnation for another owner, under a contract of its own."""

    ref: str
    from_inc: str
    owner: str
    contract: str
    at: float = 0.0
    #: why it came back, where the other owner could not take it after all
    came_back: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)
