"""Who works on an incarnation: leases and their generations. Pure, as ``ledger.model`` is.

Rejected: a lease that runs out by the clock. On one machine death is proven by the kernel, and a worker that hangs is
taken over by an explicit decision, with its generation fenced.
"""

from __future__ import annotations

from turnctl.ledger.model import and_advance, become_unknown, refuse, stale
from turnctl.records.changes import By, Change, Incarnation, Note, Refusal, evolve
from turnctl.records.tasks import Holder, Lease, Task, TaskExecution

__all__ = ["acknowledge", "cannot_prove", "give_back", "observe_gone", "take_lease"]


def take_lease(view: Incarnation, holder: Holder, by: By, *, is_gone: bool = False, force: bool = False) -> Change:
    """The next generation for ``holder``. ``is_gone`` says that the death of the present holder has been proven.

    ``force`` takes it from one that lives: it is fenced, and what it had claimed is unknown. Past running it is an
    attempt that drains and begins nothing.
    """
    task, lease = view.task, view.lease
    if task.is_over:
        text = f"task {task.task_id} is over ({task.state}): nobody works on it any more; submit it again"
        return refuse(task.inc, "lease.refused", Refusal("ended", text, row=task), by)
    if lease is not None and lease.live and not (is_gone or force):
        text = (
            f"task {task.task_id} is held by process {lease.holder.pid} (generation {lease.gen}), whose death is not "
            "proven; stop that one, or take the lease by force, which fences it"
        )
        return refuse(task.inc, "lease.refused", Refusal("held", text, row=lease), by)
    why = "its worker is gone" if is_gone else "its worker was fenced"
    notes = list(become_unknown(view.effects, why)) if lease is not None and lease.live else []
    drains = not task.is_running
    taken = Lease(task.inc, task.lease_gen + 1, holder, drain_only=drains, acknowledged=drains, taken_at=by.at)
    execution: TaskExecution = "active"
    if drains:  # it acts for nobody, so what was known of the one before is what counts
        execution = task.execution if lease is None or not lease.live else "stop_observed" if is_gone else "fenced"
    notes.append(Note(task.inc, "lease.taken", f"lease {taken.gen}", taken))
    notes.append(Note(task.inc, "task.leased", task.inc, evolve(task, lease_gen=taken.gen, execution=execution)))
    return and_advance(view, notes, taken, by)


def acknowledge(view: Incarnation, gen: int, by: By) -> Change:
    """The worker has seen the cancellation and schedules nothing more."""
    task, lease = view.task, view.lease
    fenced = stale(task, lease, gen)
    if fenced is not None:
        return refuse(task.inc, "ack.refused", fenced, by)
    assert lease is not None
    if lease.acknowledged or view.cr is None:
        return Change((), lease)
    seen = evolve(lease, acknowledged=True)
    return and_advance(view, [Note(task.inc, "worker.acknowledged", f"lease {gen}", seen)], seen, by)


def give_back(view: Incarnation, gen: int, by: By) -> Change:
    """The worker is through with it, without having completed it."""
    task, lease = view.task, view.lease
    fenced = stale(task, lease, gen)
    if fenced is not None:
        return refuse(task.inc, "lease.refused", fenced, by)
    assert lease is not None
    execution = _left(task, lease)
    notes = [
        *become_unknown(view.effects, "its worker left without telling what became of it"),
        Note(task.inc, "lease.given_back", f"lease {gen}", evolve(lease, live=False, acknowledged=True)),
        Note(task.inc, "task.left", task.inc, evolve(task, execution=execution)),
    ]
    return and_advance(view, notes, lease, by)


def observe_gone(view: Incarnation, gen: int, by: By, *, evidence: str) -> Change:
    """The holder of generation ``gen`` is proven to be dead, by ``evidence``."""
    task, lease = view.task, view.lease
    if lease is None or lease.gen != gen or not lease.live:
        return Change((), lease)
    # what it had started may live on, and act: whether it does is another proof (``ledger.owned``)
    execution: TaskExecution = "unproven" if not task.is_running and view.acting else _left(task, lease)
    more = {"evidence": evidence}
    notes = [
        *become_unknown(view.effects, "its worker is gone"),
        Note(task.inc, "worker.gone", f"lease {gen}", evolve(lease, live=False), more),
        Note(task.inc, "task.left", task.inc, evolve(task, execution=execution), more),
    ]
    return and_advance(view, notes, evolve(lease, live=False), by)


def _left(task: Task, lease: Lease) -> TaskExecution:
    """What is known when the holder has left: one that only drained says nothing of the worker before it."""
    if lease.drain_only:
        return task.execution
    return "idle" if task.is_running else "stop_observed"


def cannot_prove(view: Incarnation, gen: int, by: By, *, why: str) -> Change:
    """Whether the holder of generation ``gen`` is gone cannot be told: it may act, so the task goes on draining.

    Only an observation leads out of it: that it is gone, that it gave back, or that it was fenced.
    """
    task, lease = view.task, view.lease
    if lease is None or lease.gen != gen or not lease.live or task.execution != "active":
        return Change((), lease)
    row = evolve(task, execution="unproven")
    return and_advance(view, [Note(task.inc, "worker.unproven", f"lease {gen}", row, {"why": why})], lease, by)
