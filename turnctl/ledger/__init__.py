"""The durable record: tasks, their cancellation, and what got out, whatever becomes of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.ledger.adapters import Adapter, http_adapter, local_process_adapter, mcp_adapter
    from turnctl.ledger.compensating import Compensation
    from turnctl.ledger.sharing import Share
    from turnctl.records.accounts import Reconciled, Request
    from turnctl.records.effects import Answer
    from turnctl.records.retention import Bundled, Purged

__all__ = [
    "Adapter",
    "Answer",
    "Bundled",
    "Compensation",
    "Purged",
    "Reconciled",
    "Request",
    "Share",
    "http_adapter",
    "local_process_adapter",
    "mcp_adapter",
]

_HOMES = {
    "Adapter": "turnctl.ledger.adapters",
    "Answer": "turnctl.records.effects",
    "Bundled": "turnctl.records.retention",
    "Compensation": "turnctl.ledger.compensating",
    "Purged": "turnctl.records.retention",
    "Reconciled": "turnctl.records.accounts",
    "Request": "turnctl.records.accounts",
    "Share": "turnctl.ledger.sharing",
    "http_adapter": "turnctl.ledger.adapters",
    "local_process_adapter": "turnctl.ledger.adapters",
    "mcp_adapter": "turnctl.ledger.adapters",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
