"""From what is on record of a turn to what there is to draw of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from turnctl.report.effects import effects
from turnctl.report.facts import Facts
from turnctl.report.headings import attempts, headings, sentence
from turnctl.report.picture import Item, Lane, Look, Mark, Picture
from turnctl.report.scene import Scene
from turnctl.report.straight import SLACK_S
from turnctl.report.texts import moment, offset, span, visible
from turnctl.report.things import Things

__all__ = ["look_of", "picture_of"]


_MOST_STEPS = 5


def picture_of(facts: Facts) -> Picture:
    """The picture of a turn."""
    scene = Scene(facts)
    things, got_out = Things(scene), effects(scene)
    grace = scene.grace(things.first_kill)
    lanes = (
        Lane("turn", "turn", (_turn(scene),)),
        Lane("activities", "activities", things.activities),
        Lane("processes", "processes", things.processes),
        Lane("effects", "effects", got_out),
    )
    state = facts.turn["state"]
    return Picture(
        scene.turn_id,
        visible(_title(facts)),
        state,
        look_of(state),
        sentence(scene),
        facts.begun_at,
        facts.seen_at,
        scene.edge,
        not scene.is_over,
        lanes,
        scene.stop,
        grace,
        headings(scene),
        tuple(_gaps(scene, lanes, has_grace=grace is not None)),
        attempts(facts),
        facts.is_redacted,
    )


def look_of(state: str) -> Look:
    """How a word of state is drawn."""
    if "unresolved" in state or state == "lost":
        return "unknown"
    if state == "failed":
        return "failed"
    if state == "completed":
        return "done"
    if state == "superseded" or state.endswith("settled"):
        return "stopped"
    return "going"


def _title(facts: Facts) -> str:
    turn = facts.turn
    if turn["command"] is not None:
        from shlex import join

        return join(turn["command"])
    return str(turn["name"] or turn["task"]["task_id"])


def _turn(scene: Scene) -> Item:
    turn = scene.facts.turn
    state = turn["state"]
    spans = scene.ran(0.0, scene.end)
    if scene.is_lost:
        spans = (*spans, *scene.gap(scene.end))
    marks = []
    seen = next((e for e in scene.own if e["kind"] == "worker.acknowledged"), None)
    if seen is not None and scene.stop is not None:
        at = scene.at(seen["at"], seen["n"])
        marks.append(Mark(at, "seen", f"the stop was seen by the turn {offset(at)}"))
    began = f"began {moment(scene.facts.begun_at)}"
    if scene.facts.ended_at is not None:
        began += f", ended {moment(scene.facts.ended_at)}"
    elif scene.is_lost:
        began += "; its end is not on record"
    return Item(
        scene.turn_id,
        state,
        look_of(state),
        spans,
        tuple(marks),
        scene.end if scene.facts.ended_at is not None else None,
        not scene.is_over or scene.is_lost or turn["execution"]["state"] == "unproven",
        (f"turn {scene.turn_id}", state, began),
        scene.turn_id,
    )


def _gaps(scene: Scene, lanes: tuple[Lane, ...], *, has_grace: bool) -> Iterator[str]:
    facts = scene.facts
    if scene.is_lost:
        yield visible(
            f"When and how it ended: its process is gone ({facts.turn['execution']['lost']}). The last that is on "
            f"record of it is of {offset(scene.end)}; how long it went on after that is not known."
        )
    elif not scene.is_over:
        yield f"What comes after {moment(facts.seen_at)}: it goes on."
    elif facts.turn["execution"]["state"] == "unproven":
        alive = [] if facts.report is None else facts.report["execution"]["alive"]
        named = f": {', '.join(alive)} may go on" if alive else ""
        yield visible(f"Whether all that it started has ended{named}.")
    elif facts.report is None:
        yield "Its own report: it has left none, so only what the ledger was told is here."
    if scene.stop is not None and not has_grace:
        if scene.is_over:
            yield "How long the grace was: no length of it is on record, and nothing was killed."
        else:
            yield "How long the grace is: that comes on record with the end of the turn."
    for lane in lanes[1:]:
        yield from _of_lane(lane)
    more = len(scene.clock.steps) - _MOST_STEPS
    for step in scene.clock.steps[:_MOST_STEPS]:
        yield (
            f"The clock: before line {step.n} of the log it was set back, by at least {span(step.back)}. What came "
            "later is moved by as much, so that it comes later here too."
        )
    if more > 0:
        yield f"The clock: it was set back {more} times more."
    yield from _measured(scene)


def _of_lane(lane: Lane) -> Iterator[str]:
    noun = {"activities": "activity", "processes": "process", "effects": "effect"}[lane.key]

    def some(items: list[Item], one: str, many: str) -> Iterator[str]:
        if items:
            yield f"Of 1 {noun} {one}." if len(items) == 1 else f"Of {len(items)} {lane.title} {many}."

    unknown = [item for item in lane.items if item.look == "unknown" and item.spans]
    if lane.key == "effects":
        yield from some(
            unknown, "what became of it: it may have happened", "what became of them: they may have happened"
        )
    else:
        yield from some(unknown, "how or when it ended", "how or when they ended")
    yield from some([item for item in lane.items if not item.spans], "the time", "the times")


def _measured(scene: Scene) -> Iterator[str]:
    """What the clock that is never set says against the other one."""
    report, record = scene.facts.report, scene.record
    if report is None or record is None or scene.clock.steps:
        return
    took, ended = report["execution"]["stop_took_s"], report["ended_at"]
    if took is None or ended is None:
        return
    off = (ended - record["at"]) - took
    if abs(off) > SLACK_S:
        way = "forward" if off > 0 else "back"
        yield (
            f"The clock: it was set {way} by about {span(abs(off))} while the turn was stopped, which took "
            f"{span(took)}. Times after that are off by as much."
        )
