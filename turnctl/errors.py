"""Every exception that turnctl raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.records.process import Completed
    from turnctl.records.stops import Recorded, StopRecord
    from turnctl.waiting.call import LateResult

__all__ = [
    "BadArgument",
    "BadCall",
    "BadDuration",
    "BadHistory",
    "CancelledError",
    "CircuitOpen",
    "ClientChanged",
    "CommandError",
    "ContainmentUnavailable",
    "EffectCompleted",
    "EventMisuse",
    "ExecutorClosed",
    "LedgerRefused",
    "SessionBusy",
    "ShuttingDown",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreLost",
    "StoreMissing",
    "StoreRefused",
    "StoreTooNew",
    "StoreUnsafe",
    "TokenMisuse",
    "TooManyAbandoned",
    "TurnOver",
    "TurnctlError",
    "WindowExceeded",
]


class CancelledError(BaseException):
    """The turn was asked to stop and this thread reached a checkpoint.

    A ``BaseException``, so that ``except Exception`` in a tool cannot swallow it. It says that a stop was
    accepted, not that anything has ended: read the turn's report for that.

    ``record`` is the stop that was accepted first, ``token`` the token that raised. ``partial`` holds the
    ``Completed`` of a command that the stop interrupted, with all output read before it. ``late`` is the call that
    the stop interrupted (``turn.call``): evidence of what it came to, if it ever comes back. Pickling keeps the
    record and drops the token and the call, which belong to one process.
    """

    __slots__ = ("__weakref__", "_stop", "late", "partial", "token")

    def __init__(
        self,
        message: str = "the turn was cancelled",
        *,
        record: StopRecord | None = None,
        token: object | None = None,
        partial: Completed | None = None,
        late: LateResult | None = None,
    ) -> None:
        super().__init__(message)
        self._stop: StopRecord | Recorded | None = record
        self.token = token
        self.partial = partial
        self.late = late

    @property
    def record(self) -> StopRecord | None:
        """The stop that was accepted first, if it is known."""
        found: Any = self._stop
        record: StopRecord | None = getattr(found, "record", found)  # it is made when it is read
        return record

    @property
    def reason(self) -> str | None:
        """The text given with the stop, if any."""
        return None if self.record is None else self.record.reason

    @property
    def cause(self) -> str | None:
        """The path by which the stop came: ``user``, ``deadline``, ``signal``, ``parent`` and so on."""
        return None if self.record is None else self.record.cause

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_cancelled, (self.args[0] if self.args else "", self.record, self.partial))


def _rebuild_cancelled(message: str, record: StopRecord | None, partial: Completed | None) -> CancelledError:
    return CancelledError(message, record=record, partial=partial)


class TurnctlError(Exception):
    """The root of every ordinary error of turnctl."""


class BadArgument(TurnctlError, ValueError):
    """An argument has a value that the function cannot take; the message names those it can."""


class BadDuration(TurnctlError, ValueError):
    """A duration that cannot be read, or that the place does not allow; ``value`` is what was given."""

    def __init__(self, message: str, *, value: object) -> None:
        super().__init__(message)
        self.value = value


class SessionBusy(TurnctlError):
    """The session has a turn that is not over; ``turn_id`` names it."""

    def __init__(self, message: str, *, session_id: str, turn_id: str) -> None:
        super().__init__(message)
        self.session_id = session_id
        self.turn_id = turn_id


class ShuttingDown(TurnctlError):
    """``turnctl.shutdown()`` was called: this process begins no more turns."""


class TurnOver(TurnctlError):
    """The turn has been decided: it admits no new activity, callback or command."""

    def __init__(self, message: str, *, turn_id: str | None = None) -> None:
        super().__init__(message)
        self.turn_id = turn_id


class TooManyAbandoned(TurnctlError):
    """So many blocking calls of this process were left behind that no new one is started.

    ``count`` is how many of them still run, ``limit`` how many may; ``turnctl.waiting.abandoned`` names and limits
    them.
    """

    def __init__(self, message: str, *, count: int, limit: int) -> None:
        super().__init__(message)
        self.count = count
        self.limit = limit


class ExecutorClosed(TurnctlError, RuntimeError):
    """The executor was shut down and takes no more work."""


class TokenMisuse(TurnctlError, TypeError):
    """A token was used in a way that it cannot honour, such as pickling it."""


class EventMisuse(TurnctlError, RuntimeError):
    """A ``TurnEvent`` or an adopted event was used in a way that it cannot honour."""


class CommandError(TurnctlError):
    """A command ended with a status other than 0 and ``check=True`` was given; ``completed`` holds it all."""

    def __init__(self, message: str, *, completed: Completed) -> None:
        super().__init__(message)
        self.completed = completed


class ContainmentUnavailable(TurnctlError):
    """The containment that was asked for is not to be had; nothing was started.

    ``wanted`` is what was asked for, ``missing`` what is in the way, ``remedy`` what could be done, as far as known.
    """

    def __init__(self, message: str, *, wanted: str = "", missing: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.wanted = wanted
        self.missing = missing
        self.remedy = remedy


class ClientChanged(TurnctlError):
    """A client's internals are not as turnctl knows them, so that a stop could not reach its requests.

    ``client`` names its package, ``missing`` what was not found of it.
    """

    def __init__(self, message: str, *, client: str = "", missing: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.client = client
        self.missing = missing


class StoreError(TurnctlError):
    """A place that keeps a ledger could not be opened, or did not take a transaction. ``path`` names it.

    What the transaction would have written is not there, unless the message says that this is not known.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(visible(message))  # names of files stand in it
        self.path = path


class StoreMissing(StoreError):
    """There is no ledger there, and none is made by opening one."""


class StoreForeign(StoreError):
    """The file is no ledger of turnctl; it was left as it is."""


class StoreDamaged(StoreError):
    """The file of the ledger is damaged; nothing more is written to it."""


class StoreTooNew(StoreError):
    """The ledger was written by a newer turnctl; ``needs`` is the version of its schema."""

    def __init__(self, message: str, *, path: str = "", needs: int = 0) -> None:
        super().__init__(message, path=path)
        self.needs = needs


class StoreLost(StoreError):
    """Something that the ledger had acknowledged is not there any more: it, or its log, was taken away or put back.

    Nothing is admitted until a person has decided what holds.
    """


class StoreUnsafe(StoreError):
    """The place cannot keep what it acknowledges, or others than its owner can reach it."""


class StoreBusy(StoreError):
    """The ledger was not free in time; ``holder`` is the process that holds it, where that could be found out."""

    def __init__(self, message: str, *, path: str = "", holder: int | None = None) -> None:
        super().__init__(message, path=path)
        self.holder = holder


class StoreFull(StoreError):
    """There is no room for what was to be written, and nothing of it was."""


class StoreRefused(StoreError):
    """A row would have broken a rule that the ledger holds to, so nothing of its transaction was written."""


class StoreClosed(StoreError):
    """The ledger was closed, and takes no more transactions."""


class LedgerRefused(TurnctlError):
    """The ledger did not do what was asked; nothing was changed, and the refusal is in its log.

    ``code`` says why in one word (``held``, ``unresolved``, ``incapable`` and so on), the message what to do.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class EffectCompleted(LedgerRefused):
    """The effect with this key is completed already; ``receipt`` is what was kept of it, and nothing is sent again."""

    def __init__(self, message: str, *, code: str = "done", effect_id: str = "", receipt: str | None = None) -> None:
        super().__init__(message, code=code)
        self.effect_id = effect_id
        self.receipt = receipt


class BadHistory(TurnctlError, ValueError):
    """A history that a provider would not take, or that cannot be read; ``problems`` has a line for each place."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


class BadCall(TurnctlError, ValueError):
    """What the model called a tool with does not fit; the message is for the model. ``problems`` names each place."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


class WindowExceeded(TurnctlError):
    """The messages do not fit into the model's window: the run whose messages these are is taken out of the feed."""


class CircuitOpen(TurnctlError):
    """The model has failed too often in a row and is left alone for a while: it was not asked."""
