"""What is said of a turn above its picture: three facts apart, what it is, and the other attempts at its task."""

from __future__ import annotations

from collections.abc import Iterator

from turnctl.report.facts import Facts
from turnctl.report.scene import Scene
from turnctl.report.texts import moment, span, visible

__all__ = ["attempts", "headings", "sentence"]

Rows = tuple[tuple[str, str], ...]
_MOST = 20


def headings(scene: Scene) -> tuple[tuple[str, Rows], ...]:
    """Blocks of labels and values."""
    blocks = (
        ("turn", _what(scene)),
        ("intent", _intent(scene)),
        ("execution", _execution(scene)),
        ("effects", _effects(scene)),
    )
    return tuple((title, tuple((name, visible(value)) for name, value in rows)) for title, rows in blocks)


def sentence(scene: Scene) -> str:
    """The turn in one line."""
    report, turn = scene.facts.report, scene.facts.turn
    if report is not None and report["state"] == turn["state"] and not scene.facts.is_redacted:
        return visible(report["summary"])
    unresolved = turn["effects"]["unresolved"]
    more = f"; {unresolved} effect{'s' if unresolved != 1 else ''} with unknown outcome" if unresolved else ""
    if scene.is_lost:
        more += "; its process ended without a word"
    return f"{turn['state']}{more}"


def _what(scene: Scene) -> Iterator[tuple[str, str]]:
    facts = scene.facts
    turn, task = facts.turn, facts.task
    if turn["command"] is not None:
        from shlex import join

        yield "command", join(turn["command"])
    for label, value in (("name", turn["name"]), ("folder", turn["folder"]), ("session", turn["session_id"])):
        if value is not None:
            yield label, str(value)
    its = turn["task"]
    yield "task", f"{its['tenant']}/{its['task_id']}, incarnation {task['seq']} ({its['inc']})"
    yield "promise", task["promise"]
    yield "began", moment(facts.begun_at)
    if facts.ended_at is not None:
        yield "ended", f"{moment(facts.ended_at)}, after {span(scene.end)}"
    elif scene.is_lost:
        yield "ended", "not on record"
    else:
        yield "ended", f"it goes on; seen {moment(facts.seen_at)}, after {span(scene.end)}"


def _intent(scene: Scene) -> Iterator[tuple[str, str]]:
    turn, record = scene.facts.turn, scene.record or {}
    if scene.stop is None:
        yield "stop", "none was asked for while it went on"
        if turn["intent"]["by"] and scene.is_over:
            yield "later", f"its task was cancelled by {turn['intent']['by']}"
        return
    yield "stop", scene.stop.words.partition(" by ")[0].partition(": ")[0].removeprefix("stop ")
    by = turn["intent"]["by"] or record.get("by")
    if by:
        yield "by", by
    if record.get("cause"):
        yield "cause", record["cause"]
    reason = turn["intent"]["reason"] or record.get("reason")
    if reason:
        yield "reason", reason
    if record.get("site"):
        yield "asked at", record["site"]


def _execution(scene: Scene) -> Iterator[tuple[str, str]]:
    execution = scene.facts.turn["execution"]
    yield "state", execution["state"]
    if execution["lost"] is not None:
        yield "process", f"{execution['pid']}, which ended without a word: {execution['lost']}"
    elif scene.is_over:
        yield "process", f"{execution['pid']}, which has told the end of the turn"
    else:
        yield "process", f"{execution['pid']} works on it"
    report = scene.facts.report
    if report is None:
        return
    took = report["execution"]["stop_took_s"]
    if took is not None:
        yield "stopping", f"took {span(took)}"
    for one in report["execution"]["alive"]:
        yield "still alive", one
    for one in report["notes"]:
        yield "note", one


def _effects(scene: Scene) -> Iterator[tuple[str, str]]:
    found = scene.facts.turn["effects"]
    if not found["dispositions"]:
        yield "all", "none on record"
    for disposition, count in sorted(found["dispositions"].items()):
        yield disposition.replace("_", " "), str(count)
    if found["unresolved"]:
        yield "unresolved", str(found["unresolved"])
        yield "next", f"turnctl reconcile {scene.turn_id}"


def attempts(facts: Facts) -> tuple[tuple[str, ...], ...]:
    """All turns at the same task, the newest ``_MOST``, where there are others than this one."""
    if len(facts.attempts) < 2:
        return ()
    return tuple(
        (
            str(one["seq"]),
            str(one["gen"]),
            one["turn_id"] + (" (this one)" if one["turn_id"] == facts.turn["turn_id"] else ""),
            one["state"],
            moment(one["begun_at"]),
            "not on record" if one["ended_at"] is None else moment(one["ended_at"]),
        )
        for one in facts.attempts[-_MOST:]
    )
