"""A pytest plugin for programs that use turnctl: ``-p turnctl.testing``.

Fixtures: ``turn`` is a turn of the test's own; ``leak_check`` fails a test that leaves a thread, descriptor, child
process or temporary file behind; ``fake_clock`` puts turnctl's clocks in the hands of the test. Helpers:
``stop_everywhere`` stops a function at each of its checkpoints and tells what did not stop well; ``pause_at`` and
``call_at`` hold a thread at a named race point, or do something there. Nothing is active until a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import turnctl
from turnctl.testing.clocks import FakeClock
from turnctl.testing.everywhere import Checkpoint, Everywhere, Problem, stop_everywhere
from turnctl.testing.leaks import LeakCheck, own_tmpdir
from turnctl.testing.races import Pause, call_at, pause_at

__all__ = [
    "Checkpoint",
    "Everywhere",
    "FakeClock",
    "LeakCheck",
    "Pause",
    "Problem",
    "call_at",
    "fake_clock",
    "leak_check",
    "pause_at",
    "stop_everywhere",
    "turn",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the settings of the plugin."""
    parser.addini("turnctl_leak_wait", "seconds that leak_check waits for things that are ending", default="3.0")


@pytest.fixture(scope="session")
def _turnctl_tmpdir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with own_tmpdir(tmp_path_factory.mktemp("tmpdir")) as path:
        yield path


@pytest.fixture
def leak_check(_turnctl_tmpdir: Path, pytestconfig: pytest.Config) -> Iterator[LeakCheck]:
    """Fail the test if it leaves a thread, descriptor, child process (zombies too) or temporary file behind.

    Waits up to 3 s (``turnctl_leak_wait``) for things that are just ending. What was there before the test
    does not count, so ask for this fixture first (autouse), before those whose things must be gone. To tell
    whose a temporary file is, the session gets a temporary directory of its own (``TMPDIR``). Does not see a
    grandchild whose parent has ended.
    """
    check = LeakCheck(_turnctl_tmpdir)
    yield check
    leaks = check.found(within=float(pytestconfig.getini("turnctl_leak_wait")))
    if leaks:
        pytest.fail("the test left something behind:\n" + "\n".join(leaks), pytrace=False)


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """A clock that only the test moves, in use until the test ends; ``FakeClock`` says what it cannot do."""
    clock = FakeClock()
    with clock.used():
        yield clock


@pytest.fixture
def turn() -> Iterator[turnctl.Turn]:
    """A running turn, bound in the test; it ends with the test, and everything that it owned with it."""
    with turnctl.turn(grace=1) as made:
        yield made
