"""What tests/conftest.py gives to every test."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py")


@pytest.mark.switchinterval
def test_marked_test_switches_all_the_time() -> None:
    """Under the marker threads are switched after every microsecond."""
    assert pytest.approx(1e-6) == sys.getswitchinterval()


def test_unmarked_test_switches_as_usual() -> None:
    """Without the marker the interval is that of Python, also after a marked test."""
    assert pytest.approx(0.005) == sys.getswitchinterval()


def test_temporary_files_have_a_place_of_their_own(tmp_path: Path) -> None:
    """The temporary directory belongs to this run, so a new file in it is a leak of a test."""
    assert Path(tempfile.gettempdir()).is_relative_to(tmp_path.parent)


SUITE = """
import os, pytest

@pytest.mark.stress
def test_long():
    pass

def test_short():
    pass

def test_leaky():
    os.open("/", os.O_RDONLY)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "outcomes"),
    [((), {"passed": 2, "errors": 1, "deselected": 1}), (("--stress",), {"passed": 3, "errors": 1})],
)
def test_stress_is_asked_for(pytester: pytest.Pytester, options: tuple[str, ...], outcomes: dict[str, int]) -> None:
    """Stress tests run only with --stress, and every test is checked for leaks without asking for it."""
    (pytester.path / "tests").mkdir()
    shutil.copy(CONFTEST, pytester.path / "tests")
    (pytester.path / "tests" / "test_suite.py").write_text(SUITE)
    pytester.makeini("[pytest]\nmarkers =\n    stress\n    switchinterval\nturnctl_leak_wait = 0.1\n")
    plugins = ["-p", "no:hypothesispytest", "-p", "turnctl.testing"]  # the first costs a second to load
    done = pytester.run(sys.executable, "-m", "pytest", *plugins, *options, "tests", timeout=50)

    done.assert_outcomes(**outcomes)
