"""What the tests of tokens and turns share."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest


@pytest.fixture
def our_threads() -> Callable[[], list[str]]:
    """Asks for the names of turnctl's threads that were started since the test began."""
    before = set(threading.enumerate())

    def names() -> list[str]:
        return sorted(t.name for t in threading.enumerate() if t not in before and t.name.startswith("turnctl-"))

    return names
