"""A small synchronous agent loop that can be stopped anywhere, and what keeps its history usable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
    from turnctl.agent.assembling import Assembly
    from turnctl.agent.closing import close_calls
    from turnctl.agent.gates import Approval, Decision, Desk
    from turnctl.agent.history import History
    from turnctl.agent.loop import AgentLoop
    from turnctl.agent.messages import (
        Call,
        CallDelta,
        Image,
        Mark,
        Message,
        Opaque,
        Reply,
        Result,
        Text,
        TextDelta,
        ThinkingDelta,
        Usage,
    )
    from turnctl.agent.result import RunResult
    from turnctl.agent.retrying import Breaker, Retry
    from turnctl.agent.signal import CancelSignal
    from turnctl.agent.streaming import RunStream
    from turnctl.agent.tools import Acts, Tool, tool
    from turnctl.agent.validating import history_problems, validate_history
    from turnctl.agent.windows import is_window, kind_of
    from turnctl.agent.wires import AnthropicMessages, OpenAIChat, from_anthropic, from_openai, to_anthropic, to_openai
    from turnctl.errors import BadCall, BadHistory, CircuitOpen, WindowExceeded
    from turnctl.records.checkpoints import PendingCall, RunCheckpoint
    from turnctl.records.runs import CallRecord, Event, GateRecord, RunRecord, StepRecord

__all__ = [
    "Acts",
    "AgentLoop",
    "AnthropicMessages",
    "Approval",
    "Assembly",
    "BadCall",
    "BadHistory",
    "Breaker",
    "Call",
    "CallDelta",
    "CallRecord",
    "CancelSignal",
    "CircuitOpen",
    "Decision",
    "Desk",
    "Event",
    "GateRecord",
    "History",
    "Image",
    "Mark",
    "Message",
    "Opaque",
    "OpenAIChat",
    "PendingCall",
    "Reply",
    "Result",
    "Retry",
    "RunCheckpoint",
    "RunRecord",
    "RunResult",
    "RunStream",
    "StepRecord",
    "Text",
    "TextDelta",
    "ThinkingDelta",
    "Tool",
    "Usage",
    "WindowExceeded",
    "close_calls",
    "from_anthropic",
    "from_openai",
    "history_problems",
    "is_window",
    "kind_of",
    "to_anthropic",
    "to_openai",
    "tool",
    "validate_history",
]

_HOMES = {
    "Acts": "turnctl.agent.tools",
    "AgentLoop": "turnctl.agent.loop",
    "AnthropicMessages": "turnctl.agent.wires",
    "Approval": "turnctl.agent.gates",
    "Assembly": "turnctl.agent.assembling",
    "BadCall": "turnctl.errors",
    "BadHistory": "turnctl.errors",
    "Breaker": "turnctl.agent.retrying",
    "Call": "turnctl.agent.messages",
    "CallDelta": "turnctl.agent.messages",
    "CallRecord": "turnctl.records.runs",
    "CancelSignal": "turnctl.agent.signal",
    "CircuitOpen": "turnctl.errors",
    "Decision": "turnctl.agent.gates",
    "Desk": "turnctl.agent.gates",
    "Event": "turnctl.records.runs",
    "GateRecord": "turnctl.records.runs",
    "History": "turnctl.agent.history",
    "Image": "turnctl.agent.messages",
    "Mark": "turnctl.agent.messages",
    "Message": "turnctl.agent.messages",
    "Opaque": "turnctl.agent.messages",
    "OpenAIChat": "turnctl.agent.wires",
    "PendingCall": "turnctl.records.checkpoints",
    "Reply": "turnctl.agent.messages",
    "Result": "turnctl.agent.messages",
    "Retry": "turnctl.agent.retrying",
    "RunCheckpoint": "turnctl.records.checkpoints",
    "RunRecord": "turnctl.records.runs",
    "RunResult": "turnctl.agent.result",
    "RunStream": "turnctl.agent.streaming",
    "StepRecord": "turnctl.records.runs",
    "Text": "turnctl.agent.messages",
    "TextDelta": "turnctl.agent.messages",
    "ThinkingDelta": "turnctl.agent.messages",
    "Tool": "turnctl.agent.tools",
    "Usage": "turnctl.agent.messages",
    "WindowExceeded": "turnctl.errors",
    "close_calls": "turnctl.agent.closing",
    "from_anthropic": "turnctl.agent.wires",
    "from_openai": "turnctl.agent.wires",
    "history_problems": "turnctl.agent.validating",
    "is_window": "turnctl.agent.windows",
    "kind_of": "turnctl.agent.windows",
    "to_anthropic": "turnctl.agent.wires",
    "to_openai": "turnctl.agent.wires",
    "tool": "turnctl.agent.tools",
    "validate_history": "turnctl.agent.validating",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
