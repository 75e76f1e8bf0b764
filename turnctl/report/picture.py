"""What there is to draw of a turn: lanes, and in each its items, with what is known and what is not. Values only.

Times are seconds after the begin of the turn. A ``Span`` of kind ``unknown`` is a gap in what is known; it is never
drawn like one that is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Item", "Lane", "Look", "Mark", "Picture", "Span", "SpanKind", "Stretch"]

#: how something stands, in one of the forms that are told apart by shape, text and colour
Look = Literal["done", "failed", "stopped", "going", "unknown", "ended", "never", "elsewhere"]
#: ``starting``: not yet running; ``stopping``: after the stop was accepted
SpanKind = Literal["starting", "going", "stopping", "unknown"]


class Span(NamedTuple):
    """A piece of the time of an item."""

    begin: float
    end: float
    kind: SpanKind


class Mark(NamedTuple):
    """Something that happened to an item: in a word, and in full."""

    at: float
    word: str
    text: str


class Item(NamedTuple):
    """One thing of a lane. Without spans its time is not on record.

    ``about`` is all that is known of it, line by line. ``took`` is how long it ran, where that is known; ``is_open``
    says that it goes on beyond the picture, or may.
    """

    name: str
    word: str
    look: Look
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    took: float | None = None
    is_open: bool = False
    about: tuple[str, ...] = ()
    ref: str = ""

    @property
    def begin(self) -> float:
        return self.spans[0].begin

    @property
    def end(self) -> float:
        return self.spans[-1].end


class Lane(NamedTuple):
    """Items of one kind, in the order in which they began."""

    key: Literal["turn", "activities", "processes", "effects"]
    title: str
    items: tuple[Item, ...]


class Stretch(NamedTuple):
    """From one moment to another, with what that is: the grace; a stop has no length."""

    begin: float
    end: float
    words: str


class Picture(NamedTuple):
    """A turn, to be drawn. ``begun_at`` is seconds since the epoch, ``end`` where the picture ends.

    ``facts`` are labels and values, ``gaps`` sentences about what is not on record. ``now`` says that the picture ends
    where it was taken, not where the turn did.
    """

    turn_id: str
    title: str
    state: str
    look: Look
    sentence: str
    begun_at: float
    seen_at: float
    end: float
    now: bool
    lanes: tuple[Lane, ...]
    stop: Stretch | None = None
    grace: Stretch | None = None
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    gaps: tuple[str, ...] = ()
    attempts: tuple[tuple[str, ...], ...] = ()
    is_redacted: bool = False
