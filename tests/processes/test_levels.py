"""What a machine offers is tried, and each no has a reason."""

from __future__ import annotations

import os
import sys

import pytest

from turnctl.processes import levels
from turnctl.processes.delegated import own_folder
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has them")
def test_every_level_was_tried() -> None:
    """No answer is a guess: what is not to be had was refused by the machine, with the reason; the rest was done."""
    for one in capabilities():
        assert "could not be tried" not in one.reason
        assert one.is_available == (one.reason.startswith("tried") or one.name == "group")


@pytest.mark.skipif(os.getuid() != 0 or not os.access(f"{own_folder()}/cgroup.procs", os.W_OK), reason="none delegated")
def test_delegated_group_is_found() -> None:
    """Where a control group may be made it is found, and none is left by the trial."""
    (cgroup,) = [one for one in capabilities() if one.name == "cgroup"]

    assert cgroup.is_available, cgroup.reason


def test_strengths_and_landlock_are_told() -> None:
    """Each level has its strength, and the version of Landlock is a number."""
    found = capabilities()

    assert ["atomic", "atomic", "complete", "best-effort"] == [one.strength for one in found]
    assert found.landlock_abi >= 0


def test_trial_is_made_once() -> None:
    """As long as nothing about this process changes, the machine is not asked again."""
    capabilities()
    before = dict(levels._known)
    capabilities()

    assert before == levels._known
