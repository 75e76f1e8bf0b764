"""Lets the recipes share their processes and their oracle, and gives each a stage that is judged when it is over."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import scene as stages
from nursery import Nursery
from oracle import wrong
from scene import ROOT, Stage


@pytest.fixture(scope="session", autouse=True)
def _nursery() -> Iterator[None]:
    """Where the processes of all recipes are forked from, if the system has what that needs."""
    if not hasattr(os, "pidfd_open"):
        yield
        return
    stages.nursery = Nursery(ROOT)
    yield
    stages.nursery.close()
    stages.nursery = None


@pytest.fixture
def stage(quick: Path) -> Iterator[Stage]:
    """The processes of one recipe; the invariants are looked at when it is over."""
    with Stage(quick) as stage:
        yield stage
        assert [] == wrong(stage.ledger, stage.receiver)


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a barrier loop goes round: all of them with ``--stress``."""
    return 500 if request.config.getoption("--stress") else 100
