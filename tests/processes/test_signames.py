"""Signals by name and number, the real-time ones too."""

from __future__ import annotations

import signal

import pytest

from turnctl.processes.signames import name_of, number_of


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ("TERM", 15),
        ("sigterm", 15),
        (" 15 ", 15),
        (15, 15),
        (signal.SIGINT, 2),
        ("RTMIN", 34),
        ("SIGRTMIN+1", 35),
        ("rtmax-1", 63),
        (35, 35),
        ("35", 35),
        ("POLL", 29),
    ],
)
def test_signal_is_known(given: int | str, number: int) -> None:
    """Each way to write a signal gives its number."""
    assert number == number_of(given)


@pytest.mark.parametrize(
    "given", [0, -1, 99, 32, True, "0", "99", "-1", "", "SIG", "RTMIN-1", "RTMAX+1", "RTMIN+31", "\u0665"]
)
def test_what_is_no_signal(given: int | str) -> None:
    """What this machine has no signal for gives None."""
    assert None is number_of(given)


def test_names_come_back() -> None:
    """Every signal has a name that leads back to it, and other numbers are called what they are."""
    assert [] == [n for n in signal.valid_signals() if number_of(name_of(n)) != n]
    assert ("SIGRTMIN+1", "SIGRTMAX-1", "signal 70") == (name_of(35), name_of(63), name_of(70))
