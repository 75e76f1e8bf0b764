"""A reply as it is being written: what has come of it, at any moment, and what is kept of it where it is cut.

For one thread; nothing blocks, and nothing is a checkpoint.
"""

from __future__ import annotations

from typing import Any

from turnctl.agent.calling import Calling
from turnctl.agent.encodable import well_formed
from turnctl.agent.messages import reply_of
from turnctl.records.messages import Mark, Message, Part, Text
from turnctl.records.replies import CallDelta, Reply, TextDelta, ThinkingDelta

__all__ = ["Assembly"]


class Assembly:
    """What a model's stream has given so far. ``add`` each item of it; the last one of a whole stream is the reply."""

    def __init__(self) -> None:
        self._order: list[str | int] = []  # "text" for more of it, or the place of a call that begins
        self._texts: list[list[str]] = []
        self._thinking: list[str] = []
        self._calling = Calling()
        self._reply: Reply | None = None

    def add(self, item: Any) -> None:
        """One item: a delta, a plain text, or what a model gives as a whole reply. Raises ``TypeError`` for others."""
        if isinstance(item, str):
            item = TextDelta(item)
        if isinstance(item, TextDelta):
            if not self._order or self._order[-1] != "text":
                self._order.append("text")
                self._texts.append([])
            self._texts[-1].append(item.text)
        elif isinstance(item, ThinkingDelta):
            self._thinking.append(item.text)
        elif isinstance(item, CallDelta):
            before = len(self._calling)
            self._calling.add(item.index, item.id, item.name, item.arguments)
            if len(self._calling) > before:
                self._order.append(before)
        else:
            self._reply = reply_of(item)

    @property
    def text(self) -> str:
        """The text that has come."""
        return "".join(piece for pieces in self._texts for piece in pieces)

    @property
    def thinking(self) -> str:
        """What it has thought aloud; kept of a whole reply only where the wire wants it back."""
        return "".join(self._thinking)

    @property
    def is_whole(self) -> bool:
        """Whether the stream has come to its reply, and that was not cut."""
        return self._reply is not None and self._reply.stop != "cut"

    def message(self) -> Message:
        """All that has come, in its order; empty if nothing has."""
        if self._reply is not None:
            return self._reply.message
        calls = self._calling.calls()
        texts = (Text(well_formed("".join(pieces))) for pieces in self._texts)
        parts: list[Part] = [next(texts) if isinstance(one, str) else calls[one] for one in self._order]
        return Message("assistant", [part for part in parts if not (isinstance(part, Text) and not part.text)])

    def partial(self, mark: Mark | None = None) -> Message | None:
        """What has come of a reply that was cut, marked so with who and why of ``mark``; None if nothing has."""
        message = self.message()
        if not message.parts:
            return None
        why = mark or Mark("partial")
        return message.marked(Mark("partial", why.cause, why.by, why.reason, why.run_id))

    def reply(self) -> Reply:
        """The whole reply. Of a stream of plain pieces, which tells no end, it is all that has come."""
        return self._reply if self._reply is not None else reply_of(self.message())
