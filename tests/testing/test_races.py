"""Race points hold the thread that is meant, and cost nothing when no test uses them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from turnctl import BadArgument, points
from turnctl.testing import call_at, pause_at
from turnctl.testing import races as module

BOUND = 10


def started(fn: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=fn)
    thread.start()
    return thread


def test_first_thread_is_held_until_released() -> None:
    """The first thread stands at the point, later ones pass, and release lets it go on."""
    passed: list[str] = []

    def go(who: str) -> None:
        points.reach("here")
        passed.append(who)

    with pause_at("here") as held:
        first = started(lambda: go("first"))
        assert held.reached.wait(BOUND)
        go("second")
        held.release()
        first.join(BOUND)

    assert ["second", "first"] == passed


def test_end_of_the_block_releases() -> None:
    """A test that fails while it holds a thread leaves none behind."""
    with pytest.raises(KeyError), pause_at("here") as held:
        thread = started(lambda: points.reach("here"))
        assert held.reached.wait(BOUND)
        raise KeyError
    thread.join(BOUND)

    assert not thread.is_alive()


def test_two_points_hold_two_threads() -> None:
    """Several blocks at once: each holds its own thread, and either order of release works."""
    order: list[str] = []

    def go(name: str) -> None:
        points.reach(name)
        order.append(name)

    with pause_at("a") as at_a, pause_at("b") as at_b:
        threads = [started(lambda: go("a")), started(lambda: go("b"))]
        assert at_a.reached.wait(BOUND)
        assert at_b.reached.wait(BOUND)
        at_b.release()
        threads[1].join(BOUND)
        at_a.release()
        threads[0].join(BOUND)

    assert ["b", "a"] == order


def test_same_point_twice_holds_two_threads() -> None:
    """Two blocks with one name hold the first two that arrive."""
    with pause_at("here") as one, pause_at("here") as two:
        threads = [started(lambda: points.reach("here")) for _ in range(2)]

        assert one.reached.wait(BOUND)
        assert two.reached.wait(BOUND)
    for thread in threads:
        thread.join(BOUND)


def test_only_the_named_thread_is_held() -> None:
    """With a thread given, others pass though they come first."""
    thread = threading.Thread(target=lambda: points.reach("here"))
    with pause_at("here", thread=thread) as held:
        points.reach("here")
        unheld = not held.reached.is_set()
        thread.start()
        reached = held.reached.wait(BOUND)
    thread.join(BOUND)

    assert unheld
    assert reached


def test_only_the_ident_is_held() -> None:
    """A thread may be given by its ident."""
    with pause_at("here", thread=threading.get_ident()) as held:
        started(lambda: points.reach("here")).join(BOUND)

    assert not held.reached.is_set()


def test_held_thread_goes_on_by_itself_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that nobody releases goes on after the bound, and the block says so."""
    monkeypatch.setattr(module, "HELD_AT_MOST_S", 0.05)
    with pytest.raises(AssertionError, match="nobody released the thread held at 'here'"), pause_at("here"):
        points.reach("here")


def test_call_runs_once_on_the_thread_that_arrives() -> None:
    """call_at runs its function there, once, and what it raises is raised at the point."""
    seen: list[int] = []
    nothing: dict[str, int] = {}
    with call_at("here", lambda: seen.append(threading.get_ident())):
        points.reach("elsewhere")
        points.reach("here")
        points.reach("here")

    assert [threading.get_ident()] == seen
    with pytest.raises(KeyError), call_at("here", lambda: nothing["missing"]):
        points.reach("here")


def test_call_may_come_to_the_point_again() -> None:
    """What runs at a point may reach points itself, the same one too."""
    with call_at("here", lambda: points.reach("here")):
        points.reach("here")


@pytest.mark.parametrize(
    "make", [lambda: pause_at(5), lambda: pause_at("x", thread="t"), lambda: call_at(5, int), lambda: call_at("x", 5)]
)
def test_bad_arguments_are_refused(make: Any) -> None:
    """When the block begins, and not by never coming to the point."""
    with pytest.raises(BadArgument):
        make().__enter__()

    assert points.hook is None


def test_no_hook_without_a_block() -> None:
    """Outside of all blocks the points have no hook."""
    with pause_at("a"):
        with pause_at("b"):
            pass
        inside = points.hook

    assert inside is not None
    assert points.hook is None
