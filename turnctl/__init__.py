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
    CommandError,
    ContainmentUnavailable,
    EventMisuse,
    SessionBusy,
    ShuttingDown,
    TokenMisuse,
    TurnctlError,
    TurnOver,
)
from turnctl.lazily import names_of
from turnctl.tokens.current import check, current_token

if TYPE_CHECKING:
    from turnctl.ambient import popen, run, shield, sleep
    from turnctl.compat import register_cancel_event, unregister_cancel_event
    from turnctl.records import (
        ActivityRecord,
        Completed,
        ProcessOutcome,
        StopAnswer,
        StopRecord,
        StopResult,
        TurnReport,
    )
    from turnctl.signals import handle_signals
    from turnctl.tokens.event import TurnEvent
    from turnctl.tokens.session import session, shutdown, stop, stop_all
    from turnctl.tokens.token import CancelToken, TurnToken
    from turnctl.turns import Turn, TurnResult, begin_turn, current_turn, end_turn, run_turn, turn

__all__ = [
    "ActivityRecord",
    "BadArgument",
    "BadDuration",
    "CancelToken",
    "CancelledError",
    "CommandError",
    "Completed",
    "ContainmentUnavailable",
    "EventMisuse",
    "ProcessOutcome",
    "SessionBusy",
    "ShuttingDown",
    "StopAnswer",
    "StopRecord",
    "StopResult",
    "TokenMisuse",
    "Turn",
    "TurnEvent",
    "TurnOver",
    "TurnReport",
    "TurnResult",
    "TurnToken",
    "TurnctlError",
    "__version__",
    "begin_turn",
    "check",
    "current_token",
    "current_turn",
    "end_turn",
    "handle_signals",
    "popen",
    "register_cancel_event",
    "run",
    "run_turn",
    "session",
    "shield",
    "shutdown",
    "sleep",
    "stop",
    "stop_all",
    "turn",
    "unregister_cancel_event",
]

_HOMES = {
    "CancelToken": "turnctl.tokens.token",
    "Turn": "turnctl.turns",
    "TurnEvent": "turnctl.tokens.event",
    "TurnResult": "turnctl.turns",
    "TurnToken": "turnctl.tokens.token",
    "begin_turn": "turnctl.turns",
    "current_turn": "turnctl.turns",
    "end_turn": "turnctl.turns",
    "run_turn": "turnctl.turns",
    "turn": "turnctl.turns",
    "ActivityRecord": "turnctl.records.report",
    "Completed": "turnctl.records.process",
    "ProcessOutcome": "turnctl.records.process",
    "StopAnswer": "turnctl.records.stops",
    "StopRecord": "turnctl.records.stops",
    "StopResult": "turnctl.records.stops",
    "TurnReport": "turnctl.records.report",
    "handle_signals": "turnctl.signals",
    "popen": "turnctl.ambient",
    "register_cancel_event": "turnctl.compat",
    "run": "turnctl.ambient",
    "session": "turnctl.tokens.session",
    "shield": "turnctl.ambient",
    "shutdown": "turnctl.tokens.session",
    "sleep": "turnctl.ambient",
    "stop": "turnctl.tokens.session",
    "stop_all": "turnctl.tokens.session",
    "unregister_cancel_event": "turnctl.compat",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
