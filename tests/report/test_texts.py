"""Texts of others are cut and measured by what they take, and moments and spans are in words."""

from __future__ import annotations

from turnctl.report.texts import cut, moment, offset, span, units, whole


def test_cut_says_that_something_is_missing() -> None:
    """By the width that it takes, not by the count of letters."""

    assert ["make", "mak…", "日…", "日本", "…"] == [
        *(cut("make", 4), cut("makes", 4), cut("日本", 3), cut("日本", 4), cut("日本", 1)),
    ]
    assert (4, 1) == (units("日本"), units("e\u0301"))
    assert "a" * 2000 + "… (500 more letters)" == whole("a" * 2500)


def test_spans_have_units() -> None:
    """From microseconds to days, and moments in UTC, also those of a clock far off."""

    assert ["0.5ms", "5ms", "1.66s", "1m15s", "44h", "2d7h", "3d"] == [
        *map(span, (0.0005, 0.005, 1.66, 75, 44 * 3600, 55 * 3600, 3 * 86400)),
    ]
    assert ("+1.5s", "-2s") == (offset(1.5), offset(-2))
    assert "2026-11-30T12:00:00.000Z" == moment(1796040000.0)
    assert "seconds since 1970" in moment(1e18)
