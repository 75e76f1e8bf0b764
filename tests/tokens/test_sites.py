"""The stacks of running threads are read without any code of the host's running meanwhile."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from standins import Background, until

from turnctl.tokens import sites
from turnctl.tokens.sites import frame_of, frames_now

ALWAYS = sys.version_info < (3, 12)
pytestmark = pytest.mark.skipif(not ALWAYS, reason="the collector does not run inside of allocations any more")


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("was_on", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_collector_is_off_meanwhile(was_on: bool, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer in there could block the whole interpreter; afterwards the collector is as it was, come what may."""
    real = sys._current_frames
    seen: list[bool] = []

    def frames() -> dict[int, FrameType]:
        seen.append(gc.isenabled())
        if fails:
            raise KeyError
        return real()

    (gc.enable if was_on else gc.disable)()
    monkeypatch.setattr(sys, "_current_frames", frames)
    if fails:
        with pytest.raises(KeyError):
            frames_now()
    else:
        frames_now()

    assert [False] == seen
    assert was_on == gc.isenabled()


def test_nested_and_concurrent_calls_put_back_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that asks in the midst of it, and another thread, neither turn the collector on too early nor off."""
    real = sys._current_frames
    seen: list[bool] = []
    inside = threading.Event()
    go = threading.Event()

    def frames() -> dict[int, FrameType]:
        if not inside.is_set():
            inside.set()
            go.wait(5)
            frames_now()
        seen.append(gc.isenabled())
        return real()

    gc.enable()
    monkeypatch.setattr(sys, "_current_frames", frames)
    first = Background(frames_now)
    assert inside.wait(5)
    second = Background(frames_now)
    assert until(lambda: second.thread.ident is not None)
    go.set()
    first.result()
    second.result()

    assert [False] * 3 == seen
    assert gc.isenabled()


def test_child_of_a_fork_has_its_collector() -> None:
    """A fork waits for the call of another thread, so that its child is not left with the collector off."""
    gc.enable()
    with sites._quiet:  # the thread that forks may hold it itself
        pid = os.fork()
        if pid == 0:
            os._exit(0 if gc.isenabled() and frame_of(threading.get_ident()) is not None else 1)
    _, status = os.waitpid(pid, 0)

    assert 0 == status
