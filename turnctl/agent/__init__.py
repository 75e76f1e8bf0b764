"""A small synchronous agent loop that can be stopped anywhere, and what keeps its history usable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.lazily import names_of

if TYPE_CHECKING:
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
    from turnctl.agent.signal import CancelSignal

__all__ = [
    "Call",
    "CallDelta",
    "CancelSignal",
    "Image",
    "Mark",
    "Message",
    "Opaque",
    "Reply",
    "Result",
    "Text",
    "TextDelta",
    "ThinkingDelta",
    "Usage",
]

_HOMES = {
    "Call": "turnctl.agent.messages",
    "CallDelta": "turnctl.agent.messages",
    "CancelSignal": "turnctl.agent.signal",
    "Image": "turnctl.agent.messages",
    "Mark": "turnctl.agent.messages",
    "Message": "turnctl.agent.messages",
    "Opaque": "turnctl.agent.messages",
    "Reply": "turnctl.agent.messages",
    "Result": "turnctl.agent.messages",
    "Text": "turnctl.agent.messages",
    "TextDelta": "turnctl.agent.messages",
    "ThinkingDelta": "turnctl.agent.messages",
    "Usage": "turnctl.agent.messages",
}

__getattr__, __dir__ = names_of(__name__, _HOMES, __all__)
