"""Threads for requests: as few as do, each job once, and an end within bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from standins import BOUND, until

from turnctl.integrations.mcp.pool import Pool


class Job:
    def __init__(self, run: Callable[[], object], name: str = "job") -> None:
        self.run = run
        self.name = name


def threads_of(pool: Pool) -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith(f"turnctl-{pool.name}-")]


def test_thread_is_used_again() -> None:
    """Jobs that come one after another run on one thread."""
    pool = Pool("again", 8)
    idents: list[int] = []
    for count in range(1, 6):
        pool.submit(Job(lambda: idents.append(threading.get_ident())))
        assert until(lambda: len(idents) == count and pool._idle == 1)  # noqa: B023
    pool.close(BOUND)

    assert 1 == len(set(idents))


def test_jobs_run_beside_each_other_up_to_the_limit() -> None:
    """As many as the limit run at one time; the next one waits for a thread."""
    pool = Pool("beside", 3)
    go = threading.Event()
    running: list[int] = []

    def work() -> None:
        running.append(1)
        go.wait(BOUND)

    for _ in range(5):
        pool.submit(Job(work))
    assert until(lambda: len(running) == 3)
    count = len(threads_of(pool))
    go.set()

    assert until(lambda: len(running) == 5)
    assert 3 == count
    assert () == pool.close(BOUND)


def test_close_drops_what_has_not_begun() -> None:
    """What waits for a thread never runs, nothing is taken any more, and no thread is left."""
    pool = Pool("drop", 1)
    began, go = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> None:
        began.set()
        go.wait(BOUND)

    pool.submit(Job(first))
    assert began.wait(BOUND)
    pool.submit(Job(lambda: ran.append(1)))
    closer = threading.Thread(target=pool.close, args=(BOUND,))
    closer.start()
    assert until(lambda: pool._is_closed)
    go.set()
    closer.join(BOUND)

    assert not pool.submit(Job(lambda: ran.append(2)))
    assert [] == ran
    assert [] == threads_of(pool)


def test_job_that_does_not_come_back_is_named() -> None:
    """Closing waits for the time it is given, and names what is left."""
    pool = Pool("left", 2)
    began, go = threading.Event(), threading.Event()

    def stay() -> None:
        began.set()
        go.wait(BOUND)

    pool.submit(Job(stay, "the one that stays"))
    assert began.wait(BOUND)
    left = pool.close(0.02)
    go.set()

    assert ("the one that stays",) == left


def test_job_may_close_its_own_pool() -> None:
    """A request that shuts its server down does not wait for itself."""
    pool = Pool("own", 1)
    told: list[Any] = []
    pool.submit(Job(lambda: told.append(pool.close(BOUND))))

    assert until(lambda: told == [()])


@pytest.mark.switchinterval
def test_each_job_runs_once() -> None:
    """Many jobs from many threads: each is run once, none is lost."""
    pool = Pool("once", 4)
    done: list[int] = []

    def submit(first: int) -> None:
        for number in range(first, first + 100):
            pool.submit(Job(lambda number=number: done.append(number)))  # type: ignore[misc]

    threads = [threading.Thread(target=submit, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)

    assert until(lambda: len(done) == 400)
    assert list(range(400)) == sorted(done)
    assert () == pool.close(BOUND)
