"""What a live view shows of one turn: how it stands, what it runs, what got out, and what happened last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.cli.frames import Cell, Frame, Group, Row, state_cell
from turnctl.cli.times import ago
from turnctl.cli.trees import Trees, commands_of
from turnctl.ledger.effects_glance import effects, events_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnctl.cli.frames import Style
    from turnctl.cli.trees import Node
    from turnctl.ledger.effects_glance import EffectGlance
    from turnctl.ledger.glance import Glance, Glances

__all__ = ["frame_of", "tree_rows"]

#: events that are shown at most
_LAST = 8


def frame_of(there: Glances, glance: Glance, now: float, *, is_last: bool) -> Frame:
    """The turn as it is now."""
    end = glance.ended_at if glance.ended_at is not None else now
    how_long = f"for {ago(end - glance.begun_at)}"
    first = [Cell(glance.turn_id, "title"), Cell("  "), state_cell(glance.state), Cell(f"  {how_long}")]
    head = [Row(tuple(first)), *_facts(glance)]
    nodes = [] if glance.is_over else Trees().of(commands_of(there, glance.turn_id))
    groups = [
        _processes(glance, nodes),
        _effects(list(effects(there, turn_id=glance.turn_id))),
        _events(list(events_of(there, glance.inc)), now),
    ]
    foot = () if is_last else (Row((Cell("q ends watching; the turn goes on", "quiet"),)),)
    return Frame(tuple(head), tuple(groups), foot)


def _facts(glance: Glance) -> list[Row]:
    rows = [("command" if glance.command is not None else "name", glance.title)]
    if glance.session is not None:
        rows.append(("session", glance.session))
    if glance.is_stopped:
        why = f": {glance.reason}" if glance.reason else ""
        rows.append(("stop", "asked for" + (f" by {glance.cancelled_by}{why}" if glance.cancelled_by else "")))
    if glance.lost is not None:
        rows.append(("lost", glance.lost))
    return [Row((Cell(f"  {name:<9}", "quiet"), Cell(text))) for name, text in rows]


def _processes(glance: Glance, nodes: Sequence[Node]) -> Group:
    if glance.is_over:
        left = f"{glance.processes} not told to have ended" if glance.processes else "none left on record"
        return Group(Row((Cell("processes  ", "head"), Cell(f" {left}"))))
    if not nodes:
        return Group(Row((Cell("processes", "head"), Cell("  none of a command is seen now"))))
    return Group(Row((Cell("processes", "head"), Cell(f"  {len(nodes)}"))), tuple(tree_rows(nodes)))


def tree_rows(nodes: Sequence[Node]) -> list[Row]:
    """A line for each process, below its parent."""
    return [Row((Cell(f"   {_branch(one.lines)}", "quiet"), Cell(f"{one.pid} {one.command}"))) for one in nodes]


def _branch(lines: tuple[bool, ...]) -> str:
    above = "".join("│  " if goes_on else "   " for goes_on in lines[:-1])
    return above + ("├─ " if lines[-1] else "└─ ")


def _effects(found: Sequence[EffectGlance]) -> Group:
    row = Row((Cell("effects", "head"), Cell(f"  {len(found) or 'none on record'}")))
    # what is open first: that is what a person waits for, or has to decide
    ordered = sorted(found, key=lambda one: not one.is_open)
    return Group(row, tuple(_effect(one) for one in ordered))


def _effect(one: EffectGlance) -> Row:
    style: Style = "bad" if one.is_unresolved else "busy" if one.is_open else ""
    word = "unresolved" if one.is_unresolved and one.disposition == "pending" else one.disposition
    return Row((Cell(f"   {one.effect_id}  "), Cell(word, style), Cell(f"  {one.kind} {one.key!r}")))


def _events(found: Sequence[dict[str, object]], now: float) -> Group:
    rows = []
    for one in reversed(found[-_LAST:]):
        at = one["at"]
        assert isinstance(at, float)
        rows.append(Row((Cell(f"   {ago(now - at):>4} ago  ", "quiet"), Cell(f"{one['kind']} {one['subject']}"))))
    return Group(Row((Cell("events", "head"), Cell(f"  {len(found)}, the last first"))), tuple(rows))
