"""Whether a recorded history can be explained: a search for an order of atomic steps that gives what was seen.

After Wing and Gong: take any call that no other call has to precede, let it take its step in the model, go on, and
go back where what it was told does not fit. Worlds that were seen with the same calls at the same places are not
looked at twice. A call may take its first step only after every call that had returned before it was invoked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from model import Done, Op, World, advance

_NEW = object()
_DONE = object()


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
    calls = sorted(history, key=lambda call: call.returned)  # the first to return is the first to be tried
    before = [[j for j, other in enumerate(calls) if other.returned < call.invoked] for call in calls]
    finally_ = [(call.op.name, call.result) for call in calls if call.op.kind == "look" and call.result is not None]
    seen: set[Any] = set()

    def is_hopeless(world: World) -> bool:
        # an outcome, a record and a level never go back in the model, so they must be on the way to the last look
        for name, (outcome, record, level, *_) in finally_:
            tok = world.tokens.get(name)
            if tok is not None and (
                (tok.outcome is not None and tok.outcome != outcome)
                or (tok.record is not None and tok.record != record)
                or tok.level > level
            ):
                return True
        return False

    def ways(world: World, places: tuple[Any, ...], order: tuple[int, ...]) -> Iterator[Any]:
        found = []
        for i, (call, place) in enumerate(zip(calls, places, strict=True)):
            if place is _DONE or (place is _NEW and any(places[j] is not _DONE for j in before[i])):
                continue
            for after, step in advance(world, call.op, 0 if place is _NEW else place):
                is_last = isinstance(step, Done)
                if is_last and step.result != call.result:
                    continue
                if is_last and after is world:
                    # it only looked, and saw what it should: nothing is lost by taking it now
                    found = [(i, after, _DONE)]
                    break
                found.append((i, after, _DONE if is_last else step))
            else:
                continue
            break
        for i, after, step in found:
            state = (after, (*places[:i], step, *places[i + 1 :]))
            if state not in seen and (after is world or not is_hopeless(after)):
                seen.add(state)
                yield (*state, (*order, i) if step is _DONE else order)

    # a stack of generators, since a history may have more steps than Python has frames to spare
    stack = [ways(start, (_NEW,) * len(calls), ())]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        elif len(found[2]) == len(calls):
            return [calls[i] for i in found[2]]
        else:
            stack.append(ways(*found))
        if len(seen) > at_most:
            raise TooManyStates(f"gave up after {len(seen)} states:\n{listing(history)}")
    return None


def listing(history: list[Call]) -> str:
    """The history for a failure message, in the order of invocation."""
    return "\n".join(map(str, sorted(history, key=lambda call: call.invoked)))
