"""What every test gets: the leak check, the stress option, and proof of which turnctl is being tested."""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnctl
from turnctl.testing import LeakCheck

#: Seconds between the timeout of a test and the end of a run that it could not interrupt.
LAST_WORD_S = 30
_STDERR = pytest.StashKey[int]()
_STATE = pytest.StashKey[str]()
CHECKOUT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stress", action="store_true", help="run the tests marked stress as well")


def pytest_configure(config: pytest.Config) -> None:
    # bin/test with another environment means: test what is installed there, which the checkout must not hide
    if os.environ.get("TURNCTL_TEST_PYTHON") and Path(turnctl.__file__).resolve().is_relative_to(CHECKOUT):
        raise pytest.UsageError(f"{turnctl.__file__} was imported: the checkout, not what is installed")

    # what tests run is on record in nobody's home; a record costs each run some milliseconds, so only the tests of it
    # have one, or all with TURNCTL_RUN_RECORD=yes
    config.stash[_STATE] = tempfile.mkdtemp(prefix="turnctl-tests-")
    os.environ["TURNCTL_STATE_DIR"] = config.stash[_STATE]
    os.environ.setdefault("TURNCTL_RUN_RECORD", "no")

    # a shell that starts us in the background has these ignored, and every program of a test would inherit that
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # before output is captured for the first test, this still is where people look
    config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])
    shutil.rmtree(config.stash[_STATE], ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End the run with all stacks if a test hangs where no signal handler runs.

    Not pytest's faulthandler_timeout: that one goes on after the dump, which reads the stacks of running threads
    without a lock and has crashed the interpreter. Here nothing is to be lost any more.
    """
    marker = item.get_closest_marker("timeout")
    usual = item.config.getoption("timeout") or item.config.getini("timeout")
    limit = float(marker.args[0] if marker and marker.args else usual or 0)
    if limit and not item.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(limit + LAST_WORD_S, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_report_header() -> str:
    return f"turnctl {turnctl.__version__} from {Path(turnctl.__file__).parent}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--stress"):
        return
    # deselected, not skipped: a skip tells of something that the machine lacks
    stress = [item for item in items if item.get_closest_marker("stress")]
    if stress:
        config.hook.pytest_deselected(items=stress)
        items[:] = [item for item in items if not item.get_closest_marker("stress")]


@pytest.fixture(autouse=True)
def _leaves_nothing(leak_check: LeakCheck) -> None:
    """Every test of the house ends with no thread, descriptor, child or temporary file more than before."""


@pytest.fixture
def wardens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of the test have wardens, also where the whole run was told to do without (TURNCTL_CONTAINMENT)."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)


@pytest.fixture(autouse=True)
def _switchinterval(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("switchinterval") is None:
        yield
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
