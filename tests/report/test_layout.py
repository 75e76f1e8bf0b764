"""Where things stand: ticks at round times, a row for each item, and shared rows where there are very many."""

from __future__ import annotations

from itertools import pairwise

import pytest
from sketches import Sketch, completed

from turnctl.report.drawing import picture_of
from turnctl.report.layout import NARROW, PAGE, SHARED_MOST, SHARED_W, SINGLY, WIDE, Form, laid_out
from turnctl.report.scale import Scale


@pytest.mark.parametrize(
    ("end", "labels"),
    [
        (0.005, ["0", "+1ms", "+2ms", "+3ms", "+4ms", "+5ms"]),
        (5.0, ["0", "+1s", "+2s", "+3s", "+4s", "+5s"]),
        (120.0, ["0", "+15s", "+30s", "+45s", "+1m", "+1m15s", "+1m30s", "+1m45s", "+2m"]),
        (3 * 86400.0, ["0", "+12h", "+1d", "+1d12h", "+2d", "+2d12h", "+3d"]),
        (1e-6, ["0", "+0.001ms"]),
    ],
)
def test_ticks_are_round(end: float, labels: list[str]) -> None:
    """From a microsecond to days, never closer than asked."""
    ticks = Scale(end, 600).ticks(64)

    assert labels == [tick.label for tick in ticks]
    assert all(b.x - a.x >= 64 for a, b in pairwise(ticks))


@pytest.mark.parametrize("form", [WIDE, NARROW])
def test_rows_do_not_touch(form: Form) -> None:
    """Each item of a small turn has a row of its own, below the ticks and above the end of its panel."""
    panels = laid_out(picture_of(completed()), form)

    assert ["turn", "activities (1)", "processes (1)", "effects (1)"] == [panel.title for panel in panels]
    for panel in panels:
        assert [1] * len(panel.rows) == [len(row.items) for row in panel.rows]
        assert all(panel.axis < row.top and row.top + row.height <= panel.height for row in panel.rows)


def _many(count: int, length: float) -> Sketch:
    made = Sketch()
    for n in range(count):
        made.activity("call", f"step {n}", n * 0.1, n * 0.1 + length)
    return made


def test_long_lane_has_pages() -> None:
    """No panel is longer than a page, and each has its own ticks."""
    panels = laid_out(picture_of(_many(SINGLY, 0.05).facts(60.0)), WIDE)

    assert ["turn", "activities (60)", "activities (60), continued"] == [panel.title for panel in panels]
    assert [1, PAGE, PAGE] == [len(panel.rows) for panel in panels]


def test_very_many_share_rows() -> None:
    """All of them are drawn, and no two on one row overlap."""
    picture = picture_of(_many(420, 0.35).facts(60.0))
    scale = Scale(picture.end, WIDE.plot)
    panels = [panel for panel in laid_out(picture, WIDE) if panel.lane.key == "activities"]
    rows = [row for panel in panels for row in panel.rows]

    assert 420 == sum(len(row.items) for row in rows)
    assert len(rows) < 20
    assert 0 == sum(panel.left_out for panel in panels)
    for row in rows:
        for one, other in pairwise(row.items):
            assert scale.x(other.begin) >= scale.x(one.begin) + SHARED_W


def test_what_finds_no_room_is_counted() -> None:
    """What is well gives way to what is not."""
    made = Sketch()
    for n in range(SHARED_MOST + 30):
        made.activity("call", f"step {n}", 0.0, 9.0, detail="failed: x" if n >= SHARED_MOST else "completed")
    panels = [one for one in laid_out(picture_of(made.facts(9.0)), WIDE) if one.lane.key == "activities"]
    drawn = [item for panel in panels for row in panel.rows for item in row.items]

    assert 30 == sum(item.look == "failed" for item in drawn)
    assert SHARED_MOST + 30 == len(drawn) + sum(panel.left_out for panel in panels)
