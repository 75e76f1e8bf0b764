"""The leak check fails on each kind of leak, names it, and lets what is just ending end."""

from __future__ import annotations

import _thread
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from turnctl.testing import LeakCheck

pytest_plugins = ["pytester"]

SOON = 0.05


@pytest.fixture
def check() -> LeakCheck:
    """A second check, inside the one of the house, for leaks that the test plants and removes."""
    return LeakCheck(Path(tempfile.gettempdir()))


@contextmanager
def running(thread: threading.Thread, end: Callable[[], object]) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()


def test_nothing_left_is_nothing_found(check: LeakCheck) -> None:
    """Without a leak the list is empty, at once."""
    assert [] == check.found(within=0)


def test_thread_is_named_with_its_stack(check: LeakCheck) -> None:
    """A thread that still runs is found by its name, and its stack shows where it is."""
    end = threading.Event()
    with running(threading.Thread(target=end.wait, name="planted", daemon=True), end.set):
        leaks = check.found(within=SOON)

    assert 1 == len(leaks)
    assert "thread 'planted', a daemon, at:" in leaks[0]
    assert "in wait" in leaks[0]
    assert [] == check.found()


def test_collecting_garbage_takes_no_time_away(check: LeakCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends within the time is no leak, however long a collection held everybody up before."""
    collected, collect = threading.Event(), gc.collect

    def long_collection() -> None:
        collect()
        time.sleep(0.3)
        collected.set()

    monkeypatch.setattr("turnctl.testing.leaks.gc.collect", long_collection)
    with running(threading.Thread(target=lambda: (collected.wait(), time.sleep(0.05))), collected.set):
        assert [] == check.found(within=0.25)


def test_raw_thread_is_found(check: LeakCheck) -> None:
    """A thread that threading does not know is found too."""
    ready, end = threading.Semaphore(0), threading.Lock()
    end.acquire()

    def planted() -> None:
        ready.release()
        end.acquire()

    _thread.start_new_thread(planted, ())
    ready.acquire()
    leaks = check.found(within=SOON)
    end.release()

    assert 1 == len(leaks)
    assert "thread unknown to threading" in leaks[0]
    assert "in planted" in leaks[0]
    assert [] == check.found()


def test_descriptor_is_named_with_its_target(check: LeakCheck) -> None:
    """A descriptor is found by its number and target, also where a number was used again."""
    fd = os.open(__file__, os.O_RDONLY)
    leaks = check.found(within=SOON)
    os.close(fd)

    assert [f"  descriptor {fd} -> {__file__}"] == leaks
    assert [] == check.found(within=0)


def test_child_is_named_with_its_command(check: LeakCheck) -> None:
    """A child that runs is found by its pid and command line."""
    child = subprocess.Popen(["sleep", "60.5"])
    leaks = check.found(within=SOON)
    child.kill()
    child.wait()

    assert [f"  child {child.pid}: sleep 60.5"] == leaks
    assert [] == check.found(within=0)


def test_zombie_is_found(check: LeakCheck) -> None:
    """A child that has ended and was not waited for is a leak."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    leaks = check.found(within=SOON)
    child.wait()

    assert [f"  child {child.pid}, a zombie: it has ended and nobody waited for it"] == leaks


def test_child_of_another_thread_is_found(check: LeakCheck) -> None:
    """A child started by a thread that has ended is a leak as well."""
    children: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: children.append(subprocess.Popen(["sleep", "60.5"])))
    thread.start()
    thread.join()
    leaks = check.found(within=SOON)
    children[0].kill()
    children[0].wait()

    assert [f"  child {children[0].pid}: sleep 60.5"] == leaks


def test_temporary_file_is_named(check: LeakCheck) -> None:
    """A file left in the temporary directory is found by its path."""
    fd, path = tempfile.mkstemp()
    os.close(fd)
    leaks = check.found(within=SOON)
    os.unlink(path)

    assert [f"  file {path}"] == leaks


def test_things_that_are_ending_are_waited_for(check: LeakCheck) -> None:
    """A thread that ends within the bound is no leak."""
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    timer = threading.Timer(0.1, end.set)
    thread.start()
    timer.start()

    assert [] == check.found()


def test_things_in_cycles_are_no_leak(check: LeakCheck) -> None:
    """What only waits for the garbage collector is collected, not reported."""

    class Holder:
        def __init__(self) -> None:
            self.me = self
            self.fd = os.open(os.devnull, os.O_RDONLY)

        def __del__(self) -> None:
            os.close(self.fd)

    Holder()

    assert [] == check.found(within=0)


def test_a_thread_that_still_loads_modules_is_a_leak(check: LeakCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is half loaded is let be: the thread that loads it is told, and nothing is raised."""
    monkeypatch.setitem(sys.modules, "turnctl.processes.upkeep", ModuleType("turnctl.processes.upkeep"))
    go = threading.Event()
    with running(threading.Thread(target=go.wait, name="loads"), go.set):
        found = check.found(within=SOON)

    assert "thread 'loads'" in found[0]


def test_children_are_found_without_a_list_of_the_kernel(check: LeakCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel lists no children, the parents of all processes are read."""
    from turnctl.testing import leaks as module

    read = module._read

    def without_list(path: str) -> str:
        if path.endswith("/children"):
            raise FileNotFoundError(path)
        return read(path)

    monkeypatch.setattr(module, "_read", without_list)
    child = subprocess.Popen(["sleep", "60.5"])
    found = check.found(within=0)
    child.kill()
    child.wait()

    assert [f"  child {child.pid}: sleep 60.5"] == found


LEAKY = """
import os, subprocess, tempfile, threading, time

end = threading.Event()

def test_thread(leak_check):
    threading.Thread(target=end.wait, name="planted", daemon=True).start()

def test_descriptor(leak_check):
    os.open("/", os.O_RDONLY)

def test_child(leak_check):
    test_child.child = subprocess.Popen(["sleep", "60.5"])

def test_file(leak_check):
    open(os.path.join(tempfile.gettempdir(), "planted.txt"), "w").close()

def test_clean(leak_check):
    assert [] == leak_check.found(within=0)

def test_end_what_was_planted():
    end.set()
    test_child.child.kill()
    test_child.child.wait()
"""


def test_fixture_fails_the_test_that_leaks(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host's test that leaks is reported with the leak's name, and a clean one after it is not."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    pytester.makepyfile(test_leaky=LEAKY)
    done = pytester.run(
        sys.executable, "-m", "pytest", "-p", "turnctl.testing", "-o", "turnctl_leak_wait=0.2", timeout=50
    )

    done.assert_outcomes(passed=6, errors=4)
    done.stdout.fnmatch_lines_random(
        [
            "the test left something behind:",
            "  thread 'planted', a daemon, at:",
            "  descriptor * -> /",
            "  child *: sleep 60.5",
            "  file */planted.txt",
        ]
    )
