"""Whether a recorded history can be explained: a search for an order of atomic steps that gives what was seen.

After Wing and Gong: take any call that no other call has to precede, let it take its step in the model, go on, and
go back where what it was told does not fit. Worlds that were seen with the same calls at the same places are not
looked at twice. A call may take its first step only after every call that had returned before it was invoked.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from model import Done, Op, World, advance

_NEW = "new"
_DONE = "done"


class Call(NamedTuple):
    """One operation of one thread, with the stamps of its invocation and its response."""

    op: Op
    invoked: int
    returned: int
    result: Any

    def __str__(self) -> str:
        plain = ", ".join(
            f"{field}={value!r}" for field, value in self.op._asdict().items() if value != Op._field_defaults.get(field)
        )
        return f"[{self.invoked:>3} .. {self.returned:>3}] {plain} -> {self.result!r}"


class TooManyStates(Exception):
    """The search was given up: neither explained nor refuted."""


def explanation(history: list[Call], start: World, *, at_most: int = 200_000) -> list[Call] | None:
    """The calls in the order of their last steps, or None if no order explains what they were told."""
    before = [[j for j, other in enumerate(history) if other.returned < call.invoked] for call in history]
    begin: tuple[World, tuple[Any, ...]] = (start, (_NEW,) * len(history))
    seen = {begin}
    stack: list[tuple[World, tuple[Any, ...], tuple[int, ...]]] = [(*begin, ())]
    while stack:
        world, places, order = stack.pop()
        if len(order) == len(history):
            return [history[i] for i in order]
        # last in, first out: pushed in reverse, so that the call that returned first is tried first
        for i in sorted(range(len(history)), key=lambda i: -history[i].returned):
            place = places[i]
            if place is _DONE or (place is _NEW and any(places[j] is not _DONE for j in before[i])):
                continue
            for after, step in advance(world, history[i].op, 0 if place is _NEW else place):
                is_last = isinstance(step, Done)
                if is_last and step.result != history[i].result:
                    continue
                state = (after, (*places[:i], _DONE if is_last else step, *places[i + 1 :]))
                if state not in seen:
                    seen.add(state)
                    stack.append((*state, (*order, i) if is_last else order))
        if len(seen) > at_most:
            raise TooManyStates(f"gave up after {len(seen)} states:\n{listing(history)}")
    return None


def listing(history: list[Call]) -> str:
    """The history for a failure message, in the order of invocation."""
    return "\n".join(map(str, sorted(history, key=lambda call: call.invoked)))
