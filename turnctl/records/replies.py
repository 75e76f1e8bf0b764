"""What a model gives back: a reply as a whole, or piece by piece as it is being written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import attrs

from turnctl.records.messages import Message

__all__ = ["NO_USAGE", "STOPS", "CallDelta", "Delta", "Reply", "ReplyStop", "TextDelta", "ThinkingDelta", "Usage"]

#: Why the model stopped writing. ``cut``: its stream ended without saying why; ``refusal``: it would not, or a filter
#: would not let it; ``pause``: it wants to be asked to go on; ``other``: a word that this version does not know.
ReplyStop = Literal["end", "calls", "length", "stop_sequence", "refusal", "pause", "cut", "other"]
STOPS: tuple[ReplyStop, ...] = get_args(ReplyStop)


@attrs.frozen
class Usage:
    """Tokens of one reply or of several, as the provider counted them. ``cost`` is in the host's own unit, if known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        if other is NO_USAGE:
            return self
        costs = [one.cost for one in (self, other) if one.cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            sum(costs) if costs else None,
        )

    def priced(self, price: Callable[[Usage], float]) -> Usage:
        """The same with what it costs."""
        return attrs.evolve(self, cost=float(price(self)))

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


#: where a provider told nothing, or nothing is known
NO_USAGE = Usage()


@attrs.frozen
class Reply:
    """One whole reply. ``usage`` is None where the provider told nothing; ``raw_stop`` is its own word for ``stop``.

    ``notes`` are lines for the record of a run, such as what of the usage could not be counted.
    """

    message: Message
    stop: ReplyStop = attrs.field(default="end", validator=attrs.validators.in_(STOPS))
    usage: Usage | None = None
    model: str | None = None
    id: str | None = None
    raw_stop: str | None = None
    notes: tuple[str, ...] = ()

    def counted(self, usage: Usage | None, notes: Iterable[str]) -> Reply:
        """The same with that usage, and with these notes behind its own."""
        return attrs.evolve(self, usage=usage, notes=(*self.notes, *notes))

    def priced(self, price: Callable[[Usage], float] | None) -> Reply:
        """The same with what its tokens cost, where both are known."""
        if price is None or self.usage is None:
            return self
        return attrs.evolve(self, usage=self.usage.priced(price))


@attrs.frozen
class TextDelta:
    """More of the text."""

    text: str


@attrs.frozen
class ThinkingDelta:
    """More of what the model thinks aloud, where the wire shows it."""

    text: str


@attrs.frozen
class CallDelta:
    """More of a call: ``index`` says which of the reply; id and name come once, the arguments as pieces of JSON."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""


#: What a stream gives as it comes; the last one of a whole stream is a ``Reply``.
Delta = TextDelta | ThinkingDelta | CallDelta
