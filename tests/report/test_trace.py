"""Trace events as the format says: what viewers need of each, no overlap on a thread, and no end that is not known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schemas import SCHEMAS
from sketches import Sketch, completed, hostile, stopped

from turnctl.report.drawing import picture_of
from turnctl.report.facts import Facts
from turnctl.report.trace import trace


def events(facts: Facts) -> list[dict[str, Any]]:
    """The trace of a turn, held against its schema."""
    value = json.loads(trace(picture_of(facts), made_by="turnctl 0"))
    Draft202012Validator(SCHEMAS["trace-1.json"]).validate(value)
    found: list[dict[str, Any]] = value["traceEvents"]
    return found


def test_slices_are_in_microseconds() -> None:
    """A command that ran from 2 s on for 2.5 s, on the third lane."""
    (make,) = [one for one in events(completed()) if one["name"] == "[4121] make test"]

    assert ("X", 2_000_000, 2_500_000, 3, "processes") == (
        make["ph"],
        make["ts"],
        make["dur"],
        make["pid"],
        make["cat"],
    )
    assert "completed, exit 0" == make["args"]["state"]


def test_lanes_and_rows_are_named() -> None:
    """As processes and threads of the trace, in the order of the drawing."""
    found = [(one["pid"], one["args"]["name"]) for one in events(stopped()) if one["name"] == "process_name"]

    assert [(1, "turn"), (2, "activities"), (3, "processes"), (4, "effects")] == found


def test_end_that_is_not_known_is_none() -> None:
    """Such a slice begins, and nothing ends it; the stop and the signals are instants."""
    found = {one["name"]: one for one in events(stopped())}

    assert ("B", 1_500_000) == (found["mail.send to bob"]["ph"], found["mail.send to bob"]["ts"])
    assert ("i", "g", 4_000_000) == tuple(found["stop accepted"][name] for name in ("ph", "s", "ts"))
    assert ("i", "t", 4_750_000) == tuple(found["KILL"][name] for name in ("ph", "s", "ts"))


@pytest.mark.parametrize("facts", [completed(), stopped(), hostile()], ids=["completed", "stopped", "hostile"])
def test_no_two_slices_of_a_thread_overlap(facts: Facts) -> None:
    """Which viewers do not show; nothing follows on a thread whose slice has no end."""
    until: dict[tuple[int, int], float] = {}
    for one in sorted((e for e in events(facts) if e["ph"] in "XB"), key=lambda e: e["ts"]):
        place = one["pid"], one["tid"]
        assert until.get(place, 0) <= one["ts"]
        until[place] = one["ts"] + one["dur"] if one["ph"] == "X" else float("inf")


def test_overlapping_items_have_threads_of_their_own() -> None:
    """As many as run at one time, and each thread is used again."""
    made = Sketch()
    for n in range(30):
        made.activity("call", f"step {n}", n * 1.0, n + 2.5)
    tids = {one["tid"] for one in events(made.facts(40.0)) if one["ph"] == "X" and one["cat"] == "activities"}

    assert {1, 2, 3} == tids
