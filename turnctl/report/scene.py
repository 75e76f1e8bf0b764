"""When a turn began, was asked to stop and ended, in its own time: what the items of all lanes are placed by."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from turnctl.report.facts import Facts
from turnctl.report.picture import Span, Stretch
from turnctl.report.straight import Straight
from turnctl.report.texts import offset, span, visible

__all__ = ["Scene"]

_LEAST_S = 1e-6


class Scene:
    """The stage of one picture. All times that it gives are seconds after the begin of the turn."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.turn_id: str = facts.turn["turn_id"]
        self.is_lost = facts.turn["execution"]["lost"] is not None
        self.is_over = facts.ended_at is not None or self.is_lost
        begun = self._line("turn.begun", self.turn_id)
        ended = self._line("turn.ended", self.turn_id)
        self._first = begun["n"] if begun else 0
        self._last = ended["n"] if ended else None
        #: the lines of the turn itself, by which a clock that was set is seen
        self.own = [
            one
            for one in facts.events
            if one["n"] >= self._first
            and (self._last is None or one["n"] <= self._last)
            and one["authority"] == "worker"
            and one["actor"] == (begun or one)["actor"]
        ]
        self.clock = Straight(self.own)
        self._zero = self.clock.of(facts.begun_at, self._first)

    # -- moments -----------------------------------------------------------------------------------------------------

    def at(self, when: float, n: int | None = None) -> float:
        """The moment ``when`` of the wall, of which line ``n`` tells."""
        return self.clock.of(when, n) - self._zero

    def line(self, kinds: tuple[str, ...], subject: str) -> dict[str, Any] | None:
        """The first line of one of these kinds about it, since the turn began."""
        return next((e for e in self.about(subject) if e["kind"] in kinds), None)

    def about(self, subject: str) -> list[dict[str, Any]]:
        """All lines about it since the turn began."""
        return self._by_subject.get(subject, [])

    @cached_property
    def _by_subject(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for one in self.facts.events:
            if one["n"] >= self._first:
                found.setdefault(one["subject"], []).append(one)
        return found

    def _line(self, kind: str, subject: str) -> dict[str, Any] | None:
        return next((e for e in self.facts.events if e["kind"] == kind and e["subject"] == subject), None)

    @cached_property
    def end(self) -> float:
        """When the turn ended; where it has not, when the last is on record; where it goes on, now."""
        facts = self.facts
        if facts.ended_at is not None:
            return max(self.at(facts.ended_at, self._last), _LEAST_S)
        last = max((self.at(e["at"], e["n"]) for e in self.own), default=0.0)
        if self.is_lost:
            return max(last, _LEAST_S)
        return max(self.clock.last(facts.seen_at) - self._zero, last, _LEAST_S)

    @cached_property
    def edge(self) -> float:
        """Where the picture ends: beyond the end of what is known, where something goes on that is not."""
        if not self.is_lost:
            return self.end
        return max(self.end, 0.0 if self.stop is None else self.stop.begin) * 1.25

    # -- the stop ----------------------------------------------------------------------------------------------------

    @property
    def record(self) -> dict[str, Any] | None:
        """The stop as the turn itself saw it."""
        return None if self.facts.report is None else self.facts.report["intent"]["record"]

    @cached_property
    def stop(self) -> Stretch | None:
        """When the stop of the turn was accepted, and who asked for it; None without one while it went on."""
        accepted = next((e for e in self.facts.events if e["kind"] == "cancel.accepted"), None)
        if accepted is not None and (self._last is None or accepted["n"] < self._last):
            is_own = any(e["n"] < accepted["n"] for e in self.own)
            at = self.at(accepted["at"], accepted["n"] if is_own else None)
        elif self.record is not None:
            at = self.at(self.record["at"])
        else:
            return None
        if accepted is not None and accepted["n"] < self._first:
            return Stretch(0.0, 0.0, f"stop accepted before it began{self._asked}")
        at = max(at, 0.0)
        if not self.is_lost:  # else it may have been asked for long after the last that is known of the turn
            at = min(at, self.end)
        return Stretch(at, at, f"stop accepted {offset(at)}{self._asked}")

    @property
    def _asked(self) -> str:
        intent, record = self.facts.turn["intent"], self.record or {}
        by = intent["by"] or record.get("by") or record.get("cause")
        reason = intent["reason"] or record.get("reason")
        return (f" by {visible(by)}" if by else "") + (f": {visible(reason)}" if reason else "")

    def grace(self, first_kill: float | None) -> Stretch | None:
        """From asking to killing: as long as is on record, else up to the first KILL; None where neither is."""
        if self.stop is None:
            return None
        begin = self.stop.begin
        level = None if self.facts.report is None else self.facts.report["intent"]["level"]
        seconds = self._grace_s
        if level == "kill" and seconds is None and first_kill is not None:
            return None
        if first_kill is not None and (seconds is None or first_kill < begin + seconds):
            used = max(first_kill - begin, 0.0)
            return Stretch(begin, begin + used, f"grace, {span(used)} until the first KILL")
        if seconds is None:
            return None
        end = max(self.end, begin)
        if begin + seconds > end:
            left = f", {span(end - begin)} of it used" if self.is_over else ""
            return Stretch(begin, end, f"grace of {span(seconds)}{left}")
        return Stretch(begin, begin + seconds, f"grace of {span(seconds)}")

    @property
    def _grace_s(self) -> float | None:
        report = self.facts.report
        told = None if report is None else report["execution"].get("grace_s")
        if told is None:
            told = (self.record or {}).get("grace_s")
        return None if told is None else float(told)

    # -- spans -------------------------------------------------------------------------------------------------------

    def ran(self, begin: float, end: float, *, started: float | None = None) -> tuple[Span, ...]:
        """What ran from one moment to another: starting until it had started, draining after the stop."""
        begin = min(max(begin, 0.0), self.edge)
        end = min(max(end, begin), self.edge)
        spans = []
        if started is not None and begin < started < end:
            spans.append(Span(begin, started, "starting"))
            begin = started
        cut = None if self.stop is None else self.stop.begin
        if cut is None or end <= cut:
            return (*spans, Span(begin, end, "going"))
        if begin < cut:
            spans.append(Span(begin, cut, "going"))
            begin = cut
        return (*spans, Span(begin, end, "stopping"))

    def gap(self, begin: float, end: float | None = None) -> tuple[Span, ...]:
        """Of which nothing is known: up to the edge, unless it is known when that was over."""
        begin = min(max(begin, 0.0), self.edge)
        end = self.edge if end is None else min(max(end, begin), self.edge)
        return (Span(begin, end, "unknown"),)
