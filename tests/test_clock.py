"""Durations are read exactly or refused with a right example; clocks can be replaced and come back."""

from __future__ import annotations

import math
import re
import time

import pytest
from examples import given
from hypothesis import strategies as st

from turnctl import clock
from turnctl.clock import format_duration, parse_duration
from turnctl.errors import BadDuration, TurnctlError
from turnctl.testing import FakeClock


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("30d", 2592000.0),
        ("1d12h", 129600.0),
        ("1.5s", 1.5),
        ("1h30m", 5400.0),
        ("1h2m3s4ms", 3723.004),
        ("0.25h", 900.0),
        ("90m", 5400.0),
        ("1m90s", 150.0),
        ("007s", 7.0),
        (" 30s\n", 30.0),
        ("1m0s", 60.0),
        (30, 30.0),
        (0.1, 0.1),
        (10**9, 1e9),
    ],
)
def test_duration_is_read(value: object, seconds: float) -> None:
    """Numbers are seconds, and text is the sum of its units."""
    read = parse_duration(value)

    assert seconds == read
    assert type(read) is float


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "  ",
            "\n",
            "30",
            "1.5",
            "s",
            "ms",
            "h30",
            "5 s",
            "1h 30m",
            "1m30",
            "30sec",
            "30S",
            "1D",
            "+5s",
        ),
        *("-5s", "- 5s", "5.s", ".5s", "1,5s", "1e3s", "nan", "inf", "infs", "nans", "none", "None", "0x1s"),
        *("1s1s", "1s2m", "1ms1s", "1m1h", "1.5m30s", "0.5h1s", "٣s", "1s\0", "1s;", "0s", "0ms", "0h0m0s"),
        "9" * 400 + "s",
        "99999999999999h",
        *(math.nan, math.inf, -math.inf, -1, -0.001, 0, 0.0, -0.0, 10**400, -(10**400), 1e300, True, False),
        *(None, b"30s", [], ["30s"], object(), 3j),
    ],
)
def test_bad_duration_is_refused_with_an_example(value: object) -> None:
    """The message names the argument and the value and shows a duration that would be accepted."""
    with pytest.raises(BadDuration) as caught:
        parse_duration(value, what="grace")
    message = str(caught.value)
    example = re.search(r"(?:write it like|such as) ([0-9.a-z]+)", message.removeprefix(f"grace {value!r}"))

    assert message.startswith(f"grace {repr(value)[:20]}")
    assert len(message) < 200
    assert value is caught.value.value
    assert example is not None, message
    assert 0 < (parse_duration(example[1]) or 0)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TurnctlError)


@pytest.mark.parametrize(
    ("value", "offered"), [("30", "30s"), ("1.5", "1.5s"), (" 7 ", "7s"), (90, "1m30s"), (0.25, "250ms")]
)
def test_missing_unit_is_offered(value: object, offered: str) -> None:
    """A number without its unit is handed back with the unit that it would have."""
    with pytest.raises(BadDuration, match=f"it has no unit; write it like {re.escape(offered)}$"):
        parse_duration(value, unit_required=True)


def test_negative_is_offered_as_positive() -> None:
    """A negative number is handed back without its sign."""
    with pytest.raises(BadDuration, match="it is negative; write it like 1m30s$"):
        parse_duration(-90)


@pytest.mark.parametrize("value", [0, 0.0, -0.0, "0s", "0ms", "0h0m"])
def test_zero_only_where_allowed(value: object) -> None:
    """Zero is refused by default and is plain 0.0 where the place allows it."""
    read = parse_duration(value, zero=True)

    assert "0.0" == str(read)
    with pytest.raises(BadDuration, match="more than 0"):
        parse_duration(value)


@pytest.mark.parametrize("value", [None, "none"])
def test_none_only_where_allowed(value: object) -> None:
    """No limit is None or "none", and only where the place allows it."""
    assert parse_duration(value, none=True, unit_required=True) is None
    with pytest.raises(BadDuration, match="a limit is needed"):
        parse_duration(value)


def test_too_long_offers_none_only_if_allowed() -> None:
    """A refusal never offers what the place would refuse."""
    with pytest.raises(BadDuration, match='"none" for no limit'):
        parse_duration(1e10, none=True)
    with pytest.raises(BadDuration, match="; give a shorter one, such as 2h$"):
        parse_duration(1e10)


@given(st.floats(min_value=1e-300, max_value=clock.LONGEST_S))
def test_numbers_pass_unchanged(seconds: float) -> None:
    """A number of seconds in range is what comes back."""
    assert seconds == parse_duration(seconds)


@given(
    st.integers(0, 99),
    st.integers(0, 59),
    st.integers(0, 59),
    st.integers(0, 999),
)
def test_written_units_are_summed(hours: int, minutes: int, seconds: int, millis: int) -> None:
    """Any selection of units in order is read as their sum."""
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"), (millis, "ms"))
    text = "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"

    assert math.isclose(hours * 3600 + minutes * 60 + seconds + millis / 1000, parse_duration(text, zero=True) or 0.0)


@given(st.floats(min_value=0, max_value=clock.LONGEST_S))
def test_format_reads_back_within_rounding(seconds: float) -> None:
    """What is written for people reads back as the same span, rounded."""
    back = parse_duration(format_duration(seconds), zero=True)

    assert back is not None
    assert abs(back - seconds) <= max(0.006 * seconds, 1e-6)


@given(st.floats(min_value=0, max_value=clock.LONGEST_S))
def test_format_is_stable(seconds: float) -> None:
    """Reading and writing again changes nothing more."""
    text = format_duration(seconds)

    assert text == format_duration(parse_duration(text, zero=True) or 0.0)


@given(st.text(max_size=12) | st.text(alphabet="0123456789.hms -", max_size=12))
def test_text_is_read_or_refused(text: str) -> None:
    """No text makes anything but seconds in range or BadDuration."""
    try:
        seconds = parse_duration(text)
    except BadDuration:
        return

    assert seconds is not None
    assert 0 < seconds <= clock.LONGEST_S


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *(
            (0, "0s"),
            (1e-9, "0s"),
            (0.0000125, "0.013ms"),
            (0.0821, "82.1ms"),
            (0.08, "80ms"),
            (0.9996, "1s"),
        ),
        *((1.5, "1.5s"), (9.999, "10s"), (12.34, "12.3s"), (59.96, "1m"), (90, "1m30s"), (3599.7, "1h")),
        *((7500, "2h5m"), (86400, "24h"), (-0.5, "-500ms"), (math.inf, "infs"), (math.nan, "nans")),
    ],
)
def test_format_is_for_people(seconds: float, text: str) -> None:
    """About three digits, units from large to small, and never an error."""
    assert text == format_duration(seconds)


def test_clocks_are_those_of_the_process() -> None:
    """Without a stand-in the clocks are time.monotonic and time.time."""
    before = (time.monotonic(), time.time())
    read = (clock.monotonic(), clock.wall())

    assert before[0] <= read[0] <= time.monotonic()
    assert abs(before[1] - read[1]) < 60


def test_fake_clock_moves_only_by_hand(fake_clock: FakeClock) -> None:
    """Under fake_clock time stands still, advances together, and the wall can jump alone."""
    start = (clock.monotonic(), clock.wall())
    fake_clock.advance(90)
    fake_clock.jump(-3600)

    assert (start[0] + 90, start[1] + 90 - 3600) == (clock.monotonic(), clock.wall())
    with pytest.raises(ValueError, match="jump"):
        fake_clock.advance(-1)


def test_replaced_clock_comes_back_after_an_error() -> None:
    """The block restores the clock before it, also when nested and left by an exception."""
    outer, inner = FakeClock(monotonic=1.0), FakeClock(monotonic=2.0)
    with clock.use(outer):
        with pytest.raises(KeyError), clock.use(inner):
            assert 2.0 == clock.monotonic()
            raise KeyError
        restored = clock.monotonic()

    assert 1.0 == restored
    assert abs(clock.monotonic() - time.monotonic()) < 60
