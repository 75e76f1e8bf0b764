"""The race points have teeth: faults made on purpose fail the scenarios that the product passes (P2, P3, P8)."""

from __future__ import annotations

import pytest
from faults import FAULTS, install


@pytest.mark.parametrize("name", FAULTS)
def test_product_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but the race point put in, the scenario holds (P2, P3, P8)."""
    fault = FAULTS[name]
    install(fault, fault.marked, monkeypatch.setattr)

    assert fault.scenario(10.0)


@pytest.mark.parametrize("name", FAULTS)
def test_mutant_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fault, the same scenario does not hold: it would have been found (P2, P3, P8)."""
    fault = FAULTS[name]
    install(fault, fault.broken, monkeypatch.setattr)
    fault.also(monkeypatch.setattr)

    assert not fault.scenario(0.5)
