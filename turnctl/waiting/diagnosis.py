"""Why did it not stop? What was observed of a turn's stop, and where its threads stand now.

Only what was seen is said. Which threads belong to a turn is told by what the turn owns, and else by their stacks: a
thread with a frame that holds the turn, or a token of it, in a local variable. What is not known is named.

Never blocks for long: it reads the stacks of running threads and, if a stop was swallowed, source files. It may be
asked from any thread at any time; the stacks are those of one moment and may be outdated when they are read.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from turnctl import clock
from turnctl.records.diagnosis import Diagnosis, Gap, Standing, Swallow
from turnctl.records.words import who
from turnctl.tokens.callables import check_plain
from turnctl.tokens.reporting import report_of
from turnctl.tokens.sites import Site, frames_now, in_words, raw_stack, resolved, site_of
from turnctl.tokens.swallowing import first_seen, swallowed
from turnctl.tokens.token import CancelToken
from turnctl.tokens.tracing import add_tracer
from turnctl.tokens.tree import is_under
from turnctl.waiting.gaps import Gaps

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnctl.records.stops import StopRecord
    from turnctl.tokens.turn import TurnCore

__all__ = ["diagnose", "owned_threads", "trace_checkpoints"]

_SHOWN = 12  # lines of each stack
_UNTRACED = "the gaps between checkpoints, since they are not traced: call turn.trace_checkpoints() when it begins"


def trace_checkpoints(turn: TurnCore, fn: Callable[[], object] | None = None) -> Callable[[], None]:
    """Measure the gaps between the checkpoints of ``turn`` from now on, or call ``fn`` at each; returns what ends it.

    Gaps are measured once, however often it is asked for.
    """
    if fn is not None:
        check_plain("trace_checkpoints()", fn)
        return add_tracer(turn.token, lambda _: fn())
    cells = turn.token._grow().cells
    gaps = Gaps()
    if cells.setdefault("gaps", gaps) is not gaps:
        return lambda: None
    undo = add_tracer(turn.token, gaps)

    def end() -> None:
        undo()
        gaps.end()

    return end


def diagnose(turn: TurnCore, not_ours: tuple[str, ...] = ()) -> Diagnosis:
    """Why the turn has not stopped yet, or how it did. See the module. ``not_ours`` is a room above's to know."""
    token = turn.token
    now = clock.monotonic()
    unknown: list[str] = []
    record = token.record
    site = None if record is None else _site(record, unknown)
    first = None if record is None else first_seen(token)
    gap = _longest_gap(turn, None if turn.is_over else now, unknown)
    report = report_of(turn)
    threads, others = _threads(turn)
    return Diagnosis(
        turn_id=turn.turn_id,
        state=report.state,
        stopped_by=None if record is None else _by(record),
        stopped_ago_s=None if record is None else max(now - record.at, 0.0),
        stop_site=site,
        first_checkpoint_s=None if first is None or record is None else max(first[0] - record.at, 0.0),
        first_checkpoint_at=None if first is None or first[1] is None else in_words(first[1]),
        swallowed=tuple(
            Swallow(
                raised_at=in_words(found.raised_at),
                next_at=in_words(found.next_at),
                swallowed_at=None if by is None else in_words(by),
                thread=found.thread,
                count=found.count,
            )
            for found, by in swallowed(token)
        ),
        longest_gap=gap,
        running=_running(turn),
        threads=threads,
        others=others,
        not_ours=not_ours,
        unknown=tuple(unknown),
    )


def _by(record: StopRecord) -> str:
    return who(record) + (f" ({record.reason})" if record.reason and record.cause != "signal" else "")


def _site(record: StopRecord, unknown: list[str]) -> str | None:
    while record.origin is not None:
        record = record.origin
    found: Site | None = getattr(record, "site", None)
    if found is None and record.cause not in ("deadline", "shutdown", "displaced"):
        unknown.append("where the stop was asked for")
    return None if found is None else in_words(found)


def _longest_gap(turn: TurnCore, now: float | None, unknown: list[str]) -> Gap | None:
    parts = turn.token._parts_now()
    gaps: Gaps | None = None if parts is None else parts.cells.get("gaps")
    if gaps is None:
        unknown.append(_UNTRACED)
        return None
    found = gaps.longest(now)
    if now is None:
        gaps.end()
    if found is None:
        unknown.append("the gaps between checkpoints, since no thread has passed two of them")
    return found


def _running(turn: TurnCore) -> tuple[str, ...]:
    return tuple(name for a in turn.activities.all() if a.owned is not None for name in a.owned.alive())


# -- threads --------------------------------------------------------------------------------------------------------


def _threads(turn: TurnCore) -> tuple[tuple[Standing, ...], tuple[str, ...]]:
    """The threads that belong to the turn, and the names of the others."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    owned = owned_threads(turn)
    found: list[Standing] = []
    others: list[str] = []
    for ident, frame in frames_now().items():
        name = names.get(ident, f"ident {ident}")
        role = owned.get(ident) or _role(turn, frame)
        if role is None:
            others.append(name)
            continue
        start: FrameType | None = frame
        if ident == threading.get_ident():
            role = f"{role}, asks for this"
            start = _beyond(frame)
        at = site_of(start)
        lines = tuple(in_words(resolved(raw)) for raw in raw_stack(start)[:_SHOWN])
        found.append(Standing(name, role, None if at is None else in_words(at), lines))
    return tuple(found), tuple(others)


def owned_threads(turn: TurnCore) -> dict[int, str]:
    """The idents of the threads that the turn started, each with what it is."""
    found: dict[int, str] = {}
    for activity in turn.activities.all():
        thread: Any = getattr(activity.owned, "thread", None)
        if isinstance(thread, threading.Thread) and thread.ident is not None and thread.is_alive():
            found[thread.ident] = f"{activity.kind} of the turn"
    bridge = turn._bridge
    thread = None if bridge is None else bridge._thread
    if thread is not None and thread.ident is not None:
        found[thread.ident] = "bridge of the turn"
    return found


def _role(turn: TurnCore, frame: FrameType | None) -> str | None:
    """What a thread has to do with the turn, by its stack; None for nothing that can be seen."""
    token = turn.token
    found: str | None = None
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if value is turn or (isinstance(value, CancelToken) and _follows(value, token)):
                name = frame.f_code.co_name
                if frame.f_globals.get("__name__", "").startswith("turnctl.") and name in _ROLES:
                    return _ROLES[name]
                found = "holds the turn"
        frame = frame.f_back
    return found


def _follows(value: CancelToken, token: CancelToken) -> bool:
    # one that another thread is just making has no parent to be asked for yet
    return value is token or (hasattr(value, "_parent") and is_under(value, token))


#: functions of ours that say what a thread does with a turn
_ROLES = {
    "finish": "ends the turn",
    "stop_turn": "waits for the turn to stop",
    "wait_over": "waits for the turn to end",
}


def _beyond(frame: FrameType | None) -> FrameType | None:
    """The stack of the thread that asks, without the asking."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("turnctl."):
        frame = frame.f_back
    return frame
