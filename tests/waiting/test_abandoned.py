"""What was left behind is counted until it comes back, named, and limited."""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, until

from turnctl import BadArgument
from turnctl.errors import TooManyAbandoned
from turnctl.waiting import abandoned
from turnctl.waiting.worker import Worker


@pytest.fixture
def left() -> Iterator[Callable[[], Worker]]:
    """Leaves one more thread behind, until the test ends."""
    gate = threading.Event()
    found: list[Worker] = []
    before = abandoned.limit()

    def leave() -> Worker:
        worker = Worker(None, gate.wait, (BOUND,), {}, name=f"stuck{len(found)}")
        worker.start()
        found.append(worker)
        abandoned.add(worker)
        return worker

    yield leave
    gate.set()
    abandoned.set_limit(before)
    assert until(lambda: abandoned.count() == 0)


def test_default_limit() -> None:
    """There is one, and nothing counts at first."""
    assert (100, 0, ()) == (abandoned.limit(), abandoned.count(), abandoned.names())


def test_thread_counts_until_it_comes_back(left: Callable[[], Worker]) -> None:
    """Once, by its name and line, and no longer than it runs (B1)."""
    worker = left()
    abandoned.add(worker)

    assert 1 == abandoned.count()
    (name,) = abandoned.names()
    assert name.startswith("thread stuck0 (")


def test_thread_that_came_back_in_between_does_not_count() -> None:
    """It may be back before anybody has counted it."""
    worker = Worker(None, int, (), {})
    worker.start()
    assert worker.wait(BOUND)
    abandoned.add(worker)

    assert 0 == abandoned.count()


def test_warning_comes_half_way_and_the_refusal_at_the_limit(left: Callable[[], Worker]) -> None:
    """Far below the limit nothing is said."""
    abandoned.set_limit(4)
    left()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        abandoned.admit("fetch")
    left()
    with pytest.warns(RuntimeWarning, match="2 calls that were stopped have not come back; at 4 no new call"):
        abandoned.admit("fetch")
    left()
    left()
    with pytest.raises(TooManyAbandoned, match=r"call of fetch is not started: 4 .* thread stuck0 \(") as raised:
        abandoned.admit("fetch")

    assert (4, 4) == (raised.value.count, raised.value.limit)


def test_no_limit_refuses_nothing(left: Callable[[], Worker]) -> None:
    """Who takes the limit away hears nothing more."""
    assert 100 == abandoned.set_limit(1)
    left()
    assert 1 == abandoned.set_limit(None)
    abandoned.admit("fetch")

    assert abandoned.limit() is None


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "3"])
def test_limit_that_is_none_is_refused(number: Any) -> None:
    """The limit stays as it was."""
    with pytest.raises(BadArgument, match="a limit of abandoned threads is a whole number of 1 or more"):
        abandoned.set_limit(number)

    assert abandoned.DEFAULT_LIMIT == abandoned.limit()


def test_log_hears_of_each(left: Callable[[], Worker], caplog: pytest.LogCaptureFixture) -> None:
    """With its name, its line and how many there are."""
    with caplog.at_level(logging.WARNING, "turnctl"):
        left()

    assert "thread.abandoned" in caplog.text
    assert "thread=stuck0" in caplog.text
    assert "count=1" in caplog.text


def test_forked_child_begins_at_zero(left: Callable[[], Worker]) -> None:
    """The threads do not exist there."""
    left()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of threads at a fork
        pid = os.fork()
    if pid == 0:
        os._exit(abandoned.count())

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert 1 == abandoned.count()


def test_nothing_is_held_for_a_function_that_is_back() -> None:
    """What stood for it, and all that this refers to, is let go, though nobody has asked for the count since."""
    gate = threading.Event()
    worker = Worker(None, gate.wait, (BOUND,), {})
    worker.start()
    abandoned.add(worker)
    thread, gone = worker.thread, weakref.ref(worker)
    assert thread is not None
    del worker
    gate.set()
    thread.join(BOUND)

    assert None is gone()
