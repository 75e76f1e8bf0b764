"""What is known of a cancel of MCP: what was sent to a server, what came from a client, and how far a call has come."""

from __future__ import annotations

from typing import Any, Literal

import attrs

__all__ = ["CancelReceived", "CancelSent", "Dialect", "EvidenceClass", "Outgoing", "Phase", "RequestId", "Transport"]

RequestId = str | int
Transport = Literal["stdio", "http"]
#: How a stop is said: in a notification, in a request that has an answer of its own, or by closing the response.
Dialect = Literal["notifications/cancelled", "tasks/cancel", "stream-close"]
EvidenceClass = Literal["none", "signal_queued"]
Phase = Literal["queued", "written", "task", "answered", "signalling", "signalled", "silent", "withdrawn", "lost"]


@attrs.frozen
class CancelSent:
    """A stop that was wanted for one call, and what is known of it.

    ``signal_queued`` means that the signal was handed to the transport at ``sent_at``, and never more: whether the
    server read it, or ended anything, is not known. ``none`` means that no signal was sent, and ``not_sent`` says why.
    ``late_response`` is the JSON-RPC message that came for the call all the same; it was given to nobody. ``answer`` is
    what the server said to a ``tasks/cancel``. Times are seconds since the epoch.
    """

    request_id: RequestId
    method: str
    name: str | None
    transport: Transport
    protocol_version: str | None
    dialect: Dialect | None
    evidence_class: EvidenceClass
    reason: str | None
    wanted_at: float | None
    sent_at: float | None = None
    not_sent: str | None = None
    task_id: str | None = None
    answer: dict[str, Any] | None = None
    answered_at: float | None = None
    late_response: dict[str, Any] | None = None
    late_at: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON."""
        return attrs.asdict(self, recurse=False)


@attrs.frozen
class CancelReceived:
    """A cancel that a client sent, and what was done about it.

    ``applied`` means that this cancel stops the request, so that it is not answered; whether all of it has ended is in
    the report of the turn ``turn_id``. Otherwise ``why`` says why it was ignored. ``request_id`` is what stood in the
    message, also where that is no id. ``received_at`` is seconds since the epoch.
    """

    request_id: Any
    dialect: Dialect
    applied: bool
    received_at: float
    why: str | None = None
    reason: str | None = None
    turn_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The record as plain values for JSON."""
        return attrs.asdict(self, recurse=False)


@attrs.frozen
class Outgoing:
    """How far one call to a server has come (``integrations.mcp.protocol``)."""

    request_id: RequestId
    method: str
    name: str | None
    transport: Transport
    version: str | None
    phase: Phase = "queued"
    reason: str | None = None
    wanted_at: float | None = None
    sent_at: float | None = None
    not_sent: str | None = None
    task_id: str | None = None
    answer: dict[str, Any] | None = None
    answered_at: float | None = None
    late_response: dict[str, Any] | None = None
    late_at: float | None = None

    def but(self, **changes: Any) -> Outgoing:
        """The same with these fields changed."""
        return attrs.evolve(self, **changes)
