"""What is left of what a ledger has purged, and what a purge tells of itself."""

from __future__ import annotations

from typing import Any

import attrs

from turnctl.records.tasks import Task, TaskState

__all__ = ["Bundled", "Purged", "Tombstone"]


@attrs.frozen
class Tombstone:
    """All that is left of an incarnation that was purged, so that what comes late for it is known to be late.

    ``digest`` is the hash that its log ended with: the one that a bundle of it, written before, ends with as well.
    """

    inc: str
    tenant: str
    task_id: str
    seq: int
    state: TaskState
    cr: str | None
    accepted_rev: int | None
    #: the number of its acceptance among all of the store
    told: int | None
    #: how many lines its log had, and the position of the last one in the store
    lines: int
    last_pos: int
    digest: str
    #: when it was purged
    at: float

    def as_task(self) -> Task:
        """What is still known of the task, for who decides what somebody may do."""
        return Task(self.inc, self.tenant, self.task_id, self.seq, root_inc=self.inc, state=self.state)


@attrs.frozen
class Purged:
    """What a purge has done, or with ``dry_run`` would do."""

    incarnations: int
    #: tombstones of earlier purges that were dropped
    tombstones: int
    #: how many bytes the file became smaller by, or will when it is next written through
    given_back: int
    #: what was old enough and was kept, by the reason, and how many trees of tasks each
    kept: dict[str, int]
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON, schema ``turnctl.purged/1``."""
        return {"schema": "turnctl.purged/1", **attrs.asdict(self)}

    def __str__(self) -> str:
        done = "would be purged" if self.dry_run else "purged"
        text = f"{self.incarnations} incarnation{'' if self.incarnations == 1 else 's'} {done}"
        if self.kept:
            text += "; kept: " + ", ".join(f"{count} for {reason}" for reason, count in sorted(self.kept.items()))
        return text


@attrs.frozen
class Bundled:
    """A bundle that was written. ``fingerprint`` is the SHA-256 of its bytes: keep it apart from the bundle."""

    inc: str
    path: str
    fingerprint: str
    incarnations: int
    lines: int
    size: int
    #: what its verifier finds wrong with it: the ledger was not as it had written it
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON, schema ``turnctl.bundled/1``."""
        return {"schema": "turnctl.bundled/1", **attrs.asdict(self)}
