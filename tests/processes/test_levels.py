"""What a machine offers is tried, and each no has a reason."""

from __future__ import annotations

import sys

import pytest

from turnctl.processes.levels import capabilities


def test_levels_are_named_strongest_first() -> None:
    """Every level is there in order, with words for why it is to be had or not."""
    found = capabilities()

    assert ["namespace", "cgroup", "warden", "group"] == [one.name for one in found]
    assert all(one.reason for one in found)
    assert found[-1].is_available


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has child subreapers")
def test_warden_is_there_on_linux() -> None:
    """On Linux with an ordinary interpreter the warden is available."""
    (warden,) = [one for one in capabilities() if one.name == "warden"]

    assert warden.is_available, warden.reason


def test_frozen_program_has_the_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without an interpreter of its own is told so, and keeps the fallback."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    found = {one.name: one for one in capabilities()}

    assert not found["warden"].is_available
    assert "frozen" in found["warden"].reason
    assert found["group"].is_available
