"""Lets the recipes share their processes and their oracle, and gives each a stage that is judged when it is over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from oracle import wrong
from stage import Stage


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
