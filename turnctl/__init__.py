"""turnctl makes plain, synchronous, thread-based agent loops stoppable.

``turnctl.turn`` begins a turn, ``turnctl.stop`` stops one from anywhere, ``turnctl.check`` is a checkpoint, and
``turn.report`` says what is known afterwards. Importing this package loads the errors and the ambient check; every
other name is loaded with the room that it lives in, on first use. What a stop needs is loaded with the first turn,
so a stop in a signal handler imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl._version import __version__
from turnctl.errors import (
    BadArgument,
    BadDuration,
    CancelledError,
    ClientChanged,
    CommandError,
    ContainmentUnavailable,
    EffectCompleted,
    EventMisuse,
    ExecutorClosed,
    LedgerRefused,
    SessionBusy,
    ShuttingDown,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLost,
    StoreMissing,
    StoreRefused,
    StoreTooNew,
    StoreUnsafe,
    TokenMisuse,
    TooManyAbandoned,
    TurnctlError,
    TurnOver,
)
from turnctl.lazily import names_of
from turnctl.tokens.current import check, current_token

if TYPE_CHECKING:
    from turnctl.ambient import (
        acquire,
        as_completed,
        ask,
        bind,
        call,
        get,
        input,  # noqa: A004 - the name that people know
        popen,
        run,
        run_coroutine,
        select,
        shield,
        sleep,
        stream,
        wait,
    )
    from turnctl.compat import register_cancel_event, unregister_cancel_event
    from turnctl.installs import install
    from turnctl.ledger.acting import TurnEffect
    from turnctl.ledger.face import Ledger, open_ledger
    from turnctl.ledger.task import LedgerTask
    from turnctl.records.accounts import TaskReport
    from turnctl.records.diagnosis import Diagnosis
    from turnctl.records.effects import EffectRecord
    from turnctl.records.process import Completed, ProcessOutcome
    from turnctl.records.report import ActivityRecord, TurnReport
    from turnctl.records.stops import StopAnswer, StopRecord, StopResult
    from turnctl.signals import handle_signals
    from turnctl.tokens.event import TurnEvent
    from turnctl.tokens.pausing import pause_all, resume_all
    from turnctl.tokens.session import session, shutdown, stop, stop_all
    from turnctl.tokens.token import CancelToken, TurnToken
    from turnctl.turns import Turn, TurnResult, begin_turn, current_turn, end_turn, run_turn, turn
    from turnctl.waiting.asks import Question
    from turnctl.waiting.bridge import Bridging
    from turnctl.waiting.call import LateResult
    from turnctl.waiting.coroutines import StopEvent
    from turnctl.waiting.executor import TurnExecutor
    from turnctl.waiting.installing import Installed, uninstall
    from turnctl.waiting.jobs import TurnFuture
    from turnctl.waiting.locks import Lock
    from turnctl.waiting.queues import SimpleQueue
    from turnctl.waiting.stream import Stream
    from turnctl.waiting.threads import TurnThread

__all__ = [
    "ActivityRecord",
    "BadArgument",
    "BadDuration",
    "Bridging",
    "CancelToken",
    "CancelledError",
    "ClientChanged",
    "CommandError",
    "Completed",
    "ContainmentUnavailable",
    "Diagnosis",
    "EffectCompleted",
    "EffectRecord",
    "EventMisuse",
    "ExecutorClosed",
    "Installed",
    "LateResult",
    "Ledger",
    "LedgerRefused",
    "LedgerTask",
    "Lock",
    "ProcessOutcome",
    "Question",
    "SessionBusy",
    "ShuttingDown",
    "SimpleQueue",
    "StopAnswer",
    "StopEvent",
    "StopRecord",
    "StopResult",
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
    "Stream",
    "TaskReport",
    "TokenMisuse",
    "TooManyAbandoned",
    "Turn",
    "TurnEffect",
    "TurnEvent",
    "TurnExecutor",
    "TurnFuture",
    "TurnOver",
    "TurnReport",
    "TurnResult",
    "TurnThread",
    "TurnToken",
    "TurnctlError",
    "__version__",
    "acquire",
    "as_completed",
    "ask",
    "begin_turn",
    "bind",
    "call",
    "check",
    "current_token",
    "current_turn",
    "end_turn",
    "get",
    "handle_signals",
    "input",
    "install",
    "open_ledger",
    "pause_all",
    "popen",
    "register_cancel_event",
    "resume_all",
    "run",
    "run_coroutine",
    "run_turn",
    "select",
    "session",
    "shield",
    "shutdown",
    "sleep",
    "stop",
    "stop_all",
    "stream",
    "turn",
    "uninstall",
    "unregister_cancel_event",
    "wait",
]

_HOMES = {
    "ActivityRecord": "turnctl.records.report",
    "Bridging": "turnctl.waiting.bridge",
    "CancelToken": "turnctl.tokens.token",
    "Completed": "turnctl.records.process",
    "Diagnosis": "turnctl.records.diagnosis",
    "EffectRecord": "turnctl.records.effects",
    "Installed": "turnctl.waiting.installing",
    "LateResult": "turnctl.waiting.call",
    "Ledger": "turnctl.ledger.face",
    "LedgerTask": "turnctl.ledger.task",
    "Lock": "turnctl.waiting.locks",
    "ProcessOutcome": "turnctl.records.process",
    "Question": "turnctl.waiting.asks",
    "SimpleQueue": "turnctl.waiting.queues",
    "StopAnswer": "turnctl.records.stops",
    "StopEvent": "turnctl.waiting.coroutines",
    "StopRecord": "turnctl.records.stops",
    "StopResult": "turnctl.records.stops",
    "Stream": "turnctl.waiting.stream",
    "TaskReport": "turnctl.records.accounts",
    "Turn": "turnctl.turns",
    "TurnEffect": "turnctl.ledger.acting",
    "TurnEvent": "turnctl.tokens.event",
    "TurnExecutor": "turnctl.waiting.executor",
    "TurnFuture": "turnctl.waiting.jobs",
    "TurnReport": "turnctl.records.report",
    "TurnResult": "turnctl.turns",
    "TurnThread": "turnctl.waiting.threads",
    "TurnToken": "turnctl.tokens.token",
    "acquire": "turnctl.ambient",
    "as_completed": "turnctl.ambient",
    "ask": "turnctl.ambient",
    "begin_turn": "turnctl.turns",
    "bind": "turnctl.ambient",
    "call": "turnctl.ambient",
    "current_turn": "turnctl.turns",
    "end_turn": "turnctl.turns",
    "get": "turnctl.ambient",
    "handle_signals": "turnctl.signals",
    "input": "turnctl.ambient",
    "install": "turnctl.installs",
    "open_ledger": "turnctl.ledger.face",
    "pause_all": "turnctl.tokens.pausing",
    "popen": "turnctl.ambient",
    "register_cancel_event": "turnctl.compat",
    "resume_all": "turnctl.tokens.pausing",
    "run": "turnctl.ambient",
    "run_coroutine": "turnctl.ambient",
    "run_turn": "turnctl.turns",
    "select": "turnctl.ambient",
    "session": "turnctl.tokens.session",
    "shield": "turnctl.ambient",
    "shutdown": "turnctl.tokens.session",
    "sleep": "turnctl.ambient",
    "stop": "turnctl.tokens.session",
    "stop_all": "turnctl.tokens.session",
    "stream": "turnctl.ambient",
    "turn": "turnctl.turns",
    "uninstall": "turnctl.waiting.installing",
    "unregister_cancel_event": "turnctl.compat",
    "wait": "turnctl.ambient",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
