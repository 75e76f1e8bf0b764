"""What a way of acting can promise: its evidence, how it can be asked, and which promises it can keep.

An adapter sends nothing by itself. It says what its acknowledgement establishes, and knows how to look an effect up and
to ask its provider to cancel it, always under the effect's own id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from turnctl.clock import parse_duration
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.records.effects import Answer
from turnctl.tokens.ids import check_name

if TYPE_CHECKING:
    from turnctl.records.effects import Effect
    from turnctl.records.tasks import Evidence, PromiseLevel

__all__ = [
    "EVIDENCE",
    "Adapter",
    "Answer",
    "http_adapter",
    "local_process_adapter",
    "mcp_adapter",
    "refuse_incapable",
    "shipped",
]

#: what an acknowledgement of a cancellation may establish, from the least to the most
EVIDENCE: dict[Evidence, str] = {
    "signal_queued": "somebody may hear it",
    "handler_stopped": "the code that served it has stopped; what it had done stays done",
    "provider_confirmed": "it was cancelled before it took place",
}


Asked = Callable[["Effect"], "Answer | None"]


class Adapter:
    """A way of acting: the name in the ledger, what its word is worth, and how it can be asked. Does not change.

    ``evidence`` is what its acknowledgement of a cancellation establishes: ``signal_queued`` (somebody may hear it),
    ``handler_stopped`` (the code that served it has stopped), ``provider_confirmed`` (it was cancelled before it took
    place). ``lookup`` and ``cancel`` take the effect, ask under its ``effect_id`` and give an ``Answer``, or None where
    that cannot be told; they may block, and run without any lock. ``is_idempotent`` says that the receiver takes the
    same effect id once however often it comes, within ``key_horizon`` (seconds or "24h"; None where it forgets none):
    only then is an effect whose outcome is unknown sent again, under its own id, while its task runs.
    """

    __slots__ = ("cancel", "evidence", "is_idempotent", "key_horizon_s", "lookup", "name")

    def __init__(
        self,
        name: str,
        evidence: Evidence = "signal_queued",
        *,
        is_idempotent: bool = False,
        key_horizon: float | str | None = None,
        lookup: Asked | None = None,
        cancel: Asked | None = None,
    ) -> None:
        if not check_name(name):
            raise BadArgument(f"the name of an adapter is a non-empty str, not {name!r}")
        if evidence not in EVIDENCE:
            raise BadArgument(f"unknown evidence {evidence!r}; use one of {', '.join(EVIDENCE)}")
        if key_horizon is not None and not is_idempotent:
            raise BadArgument(f"adapter {name} has a key_horizon, so it is idempotent: say is_idempotent=True")
        self.name = name
        self.evidence: Evidence = evidence
        self.is_idempotent = is_idempotent
        #: seconds for which the receiver knows a key; None where it forgets none
        self.key_horizon_s = parse_duration(key_horizon, what="key_horizon", none=True)
        self.lookup = lookup
        self.cancel = cancel

    def __repr__(self) -> str:
        return f"<Adapter {self.name} {self.evidence}{'' if self.is_reconcilable else ', unreconcilable'}>"

    @property
    def promises(self) -> tuple[PromiseLevel, ...]:
        """The promise levels it can keep, the weakest first."""
        found: list[PromiseLevel] = ["stop-generating", "no-new-actions"]
        if self.cancel is not None:
            found.append("ask-provider")
            if self.evidence == "provider_confirmed":
                found.append("prevent-delivery")
        return tuple(found)

    @property
    def is_reconcilable(self) -> bool:
        """Whether an effect whose outcome is unknown can be looked up."""
        return self.lookup is not None


#: what code without an adapter can keep: nobody can be asked
PLAIN = Adapter("plain")


def local_process_adapter(
    name: str = "process", *, lookup: Asked | None = None, cancel: Asked | None = None
) -> Adapter:
    """For commands on this machine: that the process has ended is observed, and says nothing of what it had done."""
    return Adapter(name, "handler_stopped", lookup=lookup, cancel=cancel)


def http_adapter(
    name: str = "http",
    *,
    lookup: Asked | None = None,
    cancel: Asked | None = None,
    key_horizon: float | str | None = "24h",
    confirms: bool = False,
) -> Adapter:
    """For a service that takes an idempotency key: send ``effect.effect_id`` as that key, and look up by it.

    ``confirms`` says that an answer to ``cancel`` establishes that it was cancelled before it took place.
    """
    evidence: Evidence = "provider_confirmed" if confirms else "signal_queued"
    return Adapter(name, evidence, is_idempotent=True, key_horizon=key_horizon, lookup=lookup, cancel=cancel)


def mcp_adapter(name: str = "mcp", *, notify: Callable[[Effect], object], lookup: Asked | None = None) -> Adapter:
    """For tools of an MCP server: ``notify`` sends the cancelled notification, which the server may ignore.

    It establishes that the notification was sent, and nothing else; without ``lookup`` what became of a call is
    unknown for good once its response is lost.
    """

    def cancel(effect: Effect) -> None:
        notify(effect)

    return Adapter(name, "signal_queued", lookup=lookup, cancel=cancel)


def shipped() -> tuple[Adapter, ...]:
    """One of each adapter that comes with turnctl, able to do as much as it ever can, but for what a host promises."""

    def ask(_: Effect) -> None:
        """Stand in for the host's own."""

    return (
        local_process_adapter(lookup=ask, cancel=ask),
        http_adapter(lookup=ask, cancel=ask),
        http_adapter("http, confirms=True", lookup=ask, cancel=ask, confirms=True),
        mcp_adapter(notify=ask, lookup=ask),
    )


def refuse_incapable(task_id: str, promise: PromiseLevel, adapters: Iterable[Adapter]) -> None:
    """Raise ``LedgerRefused`` where one of ``adapters`` cannot keep ``promise``."""
    for adapter in adapters:
        if not isinstance(adapter, Adapter):
            raise BadArgument(f"the adapters of task {task_id} are Adapters, not {adapter!r}")
        if promise not in adapter.promises:
            text = (
                f"task {task_id} cannot promise {promise}: adapter {adapter.name} keeps only "
                f"{', '.join(adapter.promises)}; submit it with one of these"
            )
            raise LedgerRefused(text, code="incapable")
