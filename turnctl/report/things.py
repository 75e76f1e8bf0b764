"""What a turn started, as items: activities and processes, from the rows of the ledger and the turn's own report."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

from turnctl.records.account_words import PROCESSES
from turnctl.report.picture import Item, Look, Mark, Span
from turnctl.report.scene import Scene
from turnctl.report.texts import moment, offset, span, visible

__all__ = ["Things"]

_LOOKS: dict[str, Look] = {
    "completed": "done",
    "failed": "failed",
    "cancelled": "stopped",
    "abandoned": "unknown",
    "detached": "elsewhere",
    "unknown": "unknown",
    "open": "going",
}


class _Thing(NamedTuple):
    """One of them, put together from what is on record of it."""

    kind: str
    name: str
    state: str | None
    begun_at: float
    ended_at: float | None
    detail: str | None
    row: dict[str, Any] | None
    outcome: dict[str, Any] | None


class Things:
    """The activities and processes of one turn, as items."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        report = scene.facts.report or {"activities": [], "processes": []}
        self._activities = report["activities"]
        self._outcomes = {p["pid"]: p for p in report["processes"] if p["pid"]}
        self._untimed = [p for p in report["processes"] if not p["pid"]]
        found = list(self._found())
        self.activities = _sorted([self._item(one) for one in found if one.kind not in PROCESSES])
        processes = _sorted([self._process(one) for one in found if one.kind in PROCESSES])
        lost = [*self._outcomes.values(), *self._untimed]  # those of which no activity tells
        self.processes = (*processes, *(self._without_time(one) for one in lost))

    @property
    def first_kill(self) -> float | None:
        """When the first KILL was sent, after the stop or not."""
        found = [mark.at for item in self.processes for mark in item.marks if mark.word == "KILL"]
        return min(found, default=None)

    def _found(self) -> Iterator[_Thing]:
        rows = self._scene.facts.activities
        told = {(a["kind"], a["name"], a["started_at"]): a for a in self._activities}
        known = [told.pop((row["kind"], row["name"], row["begun_at"]), None) for row in rows]
        # a command's row may have another name and another begin: then the turn had no other one
        rest = [one for one in told.values() if one["kind"] == "process"]
        unmatched = [n for n, row in enumerate(rows) if row["kind"] == "process" and known[n] is None]
        if len(rest) == len(unmatched):
            for n, one in zip(unmatched, rest, strict=True):
                known[n] = told.pop((one["kind"], one["name"], one["started_at"]))
        for row, one in zip(rows, known, strict=True):
            yield self._of_row(row, one)
        for one in told.values():
            times = one["started_at"], one["ended_at"]
            yield _Thing(one["kind"], one["name"], one["state"], *times, one["detail"], None, None)

    def _of_row(self, row: dict[str, Any], known: dict[str, Any] | None) -> _Thing:
        state, _, detail = (row["detail"] or "").partition(": ")
        if state not in _LOOKS:
            state, detail = "", row["detail"] or ""
        if known is not None:
            state, detail = known["state"], known["detail"] or ""
        name = row["name"] if known is None else known["name"]
        outcome = self._outcomes.pop(row["process"], None) if row["kind"] in PROCESSES else None
        times = row["begun_at"], row["ended_at"]
        return _Thing(row["kind"], name, state or None, *times, detail or None, row, outcome)

    # -- one ---------------------------------------------------------------------------------------------------------

    def _item(self, one: _Thing) -> Item:
        begin, end = self._times(one)
        word, look, spans, is_open = self._standing(one, begin, end)
        is_measured = end is not None and end > begin and not any(s.kind == "unknown" for s in spans)
        took = end - begin if end is not None and is_measured else None
        return Item(
            visible(f"{one.kind} {one.name}"),
            word,
            look,
            tuple(s for s in spans if s.end > s.begin) or spans[-1:],
            tuple(self._sent(one)),
            took,
            is_open,
            tuple(self._about(one, word)),
            "" if one.row is None else one.row["ref"],
        )

    def _times(self, one: _Thing) -> tuple[float, float | None]:
        scene, ref = self._scene, "" if one.row is None else one.row["ref"]
        lines = scene.about(ref) if ref else []
        begin = scene.at(one.begun_at, lines[0]["n"] if lines else None)
        if one.ended_at is None:
            return begin, None
        ends = [line["n"] for line in lines if line["kind"] in _ENDS]
        return begin, max(scene.at(one.ended_at, ends[-1] if ends else None), begin)

    def _standing(self, one: _Thing, begin: float, end: float | None) -> tuple[str, Look, tuple[Span, ...], bool]:
        scene, row = self._scene, one.row or {}
        if row.get("severed") and not row.get("stopped"):
            at = end if end is not None else begin
            return "cut off, its end not known", "unknown", (*scene.ran(begin, at), *scene.gap(at)), True
        if (one.detail or "").startswith("found to be gone"):
            return "gone, when is not on record", "unknown", scene.gap(begin, end), False
        if one.state == "abandoned":
            at = end if end is not None else begin
            return "left running", "unknown", (*scene.ran(begin, at), *scene.gap(at)), True
        if one.state == "unknown":
            return "end not seen", "unknown", scene.gap(begin, end), end is None
        is_stopped = bool(row.get("stopped", True))
        if end is None or not is_stopped or one.state == "open":
            if scene.is_over:
                return "end not on record", "unknown", scene.gap(begin), True
            return "running", "going", scene.ran(begin, scene.end), True
        if one.state is None:
            return "ended, how not on record", "ended", scene.ran(begin, end), False
        look = _LOOKS[one.state]
        return one.state, look, scene.ran(begin, end), look == "elsewhere"

    def _sent(self, one: _Thing) -> Iterator[Mark]:
        if one.row is None:
            return
        before: list[str] = []
        for line in self._scene.about(one.row["ref"]):
            values = (line["body"].get("row") or [None, None])[1]
            words = (values[7] or "").split() if isinstance(values, list) and len(values) > 8 else []
            for word in words[len(before) :]:
                # the first has a time of its own, of the others the line tells when they were on record at the latest
                at = values[8] if not before and word == words[0] else line["at"]
                yield _mark(self._scene.at(at, line["n"]), word)
            before = words or before

    def _about(self, one: _Thing, word: str) -> Iterator[str]:
        yield visible(f"{one.kind} {one.name}")
        yield word if one.detail is None else visible(f"{word}: {one.detail}")
        began = f"began {moment(one.begun_at)}"
        if one.ended_at is None:
            yield f"{began}; no end on record"
        else:
            end = "seen to be gone" if "gone" in word else "ended"
            yield f"{began}, {end} {moment(one.ended_at)}"
        if one.row is not None and one.row["signal"]:
            yield visible(f"sent to end it: {one.row['signal']}")

    # -- processes ---------------------------------------------------------------------------------------------------

    def _process(self, one: _Thing) -> Item:
        item, known = self._item(one), one.outcome
        pid = (one.row or {}).get("process")
        name = visible(f"[{pid or 'no number'}] {one.name}")
        if known is None:
            return item._replace(name=name if one.kind == "process" else f"{one.kind} {name}")
        begin, end = self._times(one)
        started = begin if end is None else max(begin, end - known["duration_s"])
        spans = item.spans
        if end is not None and item.look not in ("unknown", "going"):
            spans = self._scene.ran(begin, end, started=started)
        marks = tuple(_mark(started + sent["after_s"], sent["signal"]) for sent in known["signals"]) or item.marks
        word, look, is_open = item.word, item.look, item.is_open
        if known["survivors"]:
            word, look, is_open = f"{len(known['survivors'])} left alive", "unknown", True
            spans = (*spans, *self._scene.gap(spans[-1].end))
        elif item.look in ("done", "failed", "stopped", "ended"):
            word = f"{word}, {_exit(known)}"
            if look == "done" and known["returncode"] != 0:
                look = "ended"  # that the command came back is not that it went well
        took = known["duration_s"] if item.took is not None else None
        about = (*item.about, *_known(known))
        return item._replace(
            name=name, word=word, look=look, spans=spans, marks=marks, is_open=is_open, took=took, about=about
        )

    def _without_time(self, known: dict[str, Any]) -> Item:
        name = visible(f"[{known['pid'] or 'no number'}] {' '.join(known['argv'])}")
        word = f"{_exit(known)}, when is not on record"
        return Item(name, word, "unknown", about=(name, word, *_known(known)))


def _sorted(items: list[Item]) -> tuple[Item, ...]:
    return tuple(sorted(items, key=lambda item: item.begin))


_ENDS = ("activity.stopped", "activity.gone", "activity.closed_by_operator", "activity.detached")


def _mark(at: float, sent: str) -> Mark:
    word = visible(sent).removeprefix("SIG")
    return Mark(at, word, f"{visible(sent)} sent {offset(at)}")


def _exit(known: dict[str, Any]) -> str:
    if known["signal"]:
        try:
            return signal.Signals(known["signal"]).name
        except ValueError:
            return f"signal {known['signal']}"
    return "exit not on record" if known["returncode"] is None else f"exit {known['returncode']}"


def _known(known: dict[str, Any]) -> Iterator[str]:
    yield f"{_exit(known)}; ran for {span(known['duration_s'])} by the clock that is never set"
    proof = (
        "the kernel said that none of it is left" if known["empty_proven"] else "that none of it is left is not proven"
    )
    yield f"held by {known['held_by']} ({known['containment']}); {proof}"
    if known["ended"]:
        yield f"{known['ended']} processes ended with it, {known['killed']} of them by KILL"
    for one in known["survivors"]:
        yield visible(f"left alive: {one['name']} [{one['pid'] or 'number not on record'}]: {one['reason']}")
    for note in known["notes"]:
        yield visible(note)
