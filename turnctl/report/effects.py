"""Effects as items: from the moment in which each was admitted to when its receiver told, or for ever unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnctl.report.picture import Item, Look, Mark, Span
from turnctl.report.scene import Scene
from turnctl.report.texts import moment, offset, span, visible

__all__ = ["effects"]

_LOOKS: dict[str, Look] = {
    "completed": "done",
    "rejected": "failed",
    "provider_cancelled": "stopped",
    "suppressed": "never",
}
_WORDS = {"provider_cancelled": "cancelled by provider", "suppressed": "never sent"}


def effects(scene: Scene) -> tuple[Item, ...]:
    """Those of the turn, in the order in which they were admitted."""
    return tuple(_item(scene, one) for one in scene.facts.effects)


def _item(scene: Scene, one: dict[str, Any]) -> Item:
    admitted = scene.line(("effect.admitted", "effect.compensation_admitted", "effect.readmitted"), one["effect_id"])
    begin = scene.at(one["at"], None if admitted is None else admitted["n"])
    told = _told(scene, one)
    word, look = _word(scene, one)
    spans: tuple[Span, ...]
    if look == "unknown":
        spans = scene.gap(begin)
    elif told is None:  # it is on its way, or its line is not there
        spans = scene.ran(begin, scene.end) if look == "going" else scene.gap(begin)
    else:
        spans = scene.ran(begin, told)
    if told is None and look not in ("unknown", "going"):
        word = f"{word}, when is not on record"
    if look == "never" or one["phase"] == "admitted":  # it was never under way
        spans = tuple(s if s.kind == "unknown" else s._replace(kind="starting") for s in spans)
    is_late = told is not None and told > scene.end
    took = told - begin if told is not None and look not in ("unknown", "never") else None
    return Item(
        visible(f"{one['kind']} {one['key']}"),
        word + (f", told {span(told - scene.end)} after its end" if is_late and told is not None else ""),
        look,
        spans,
        tuple(_marks(scene, one)),
        None if is_late else took,
        look in ("unknown", "going") or is_late,
        tuple(_about(one, word, begin, told)),
        one["effect_id"],
    )


def _told(scene: Scene, one: dict[str, Any]) -> float | None:
    line = scene.line((f"effect.{one['disposition']}",), one["effect_id"])
    if line is None or one["disposition"] in ("unknown", "pending"):
        return None
    is_own = line["n"] <= (scene.own[-1]["n"] if scene.own else 0)
    at: float = (
        scene.at(line["at"], line["n"])
        if is_own
        else scene.clock.last(line["at"]) - scene.clock.of(scene.facts.begun_at)
    )
    return at


def _word(scene: Scene, one: dict[str, Any]) -> tuple[str, Look]:
    disposition = one["disposition"]
    if disposition == "pending":
        if one["phase"] == "admitted":
            return ("never sent yet" if scene.is_over else "not sent yet"), ("never" if scene.is_over else "going")
        return ("unknown: it may have happened", "unknown") if scene.is_over else ("on its way", "going")
    if disposition == "unknown":
        if one["closed_by"]:
            return f"unknown, closed by {visible(one['closed_by'])}", "unknown"
        return "unknown: it may have happened", "unknown"
    return _WORDS.get(disposition, disposition) + (", after the stop" if one["after_cutoff"] else ""), _LOOKS[
        disposition
    ]


def _marks(scene: Scene, one: dict[str, Any]) -> Iterator[Mark]:
    line = scene.line(("effect.cancel_asked",), one["effect_id"])
    if line is not None:
        at = scene.at(line["at"], line["n"])
        yield Mark(at, "asked", f"its provider was asked to cancel it {offset(at)}")


def _about(one: dict[str, Any], word: str, begin: float, told: float | None) -> Iterator[str]:
    yield visible(f"{one['kind']} {one['key']}")
    yield word
    yield (
        f"admitted {moment(one['at'])}"
        + ("" if begin >= 0 else ", before this turn")
        + ("" if told is None else f", told {offset(told)}")
    )
    if one["receipt"] is not None:
        yield visible(f"receipt of {one['receipt']['source']}: {one['receipt']['body']}")
    elif one["disposition"] in ("unknown", "pending"):
        yield "no receipt is on record"
    if one["escalation"] is not None:
        yield f"somebody has to decide ({one['escalation']})"
    yield f"{one['effect_id']}, consequence {one['consequence']}"
