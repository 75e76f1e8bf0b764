"""A thread that the system refuses is told as an exhausted limit, by the name of what needed it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator

import pytest

import turnctl
from turnctl.tokens.threads import is_thread_refused, needing_threads


@pytest.fixture
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def test_refusal_names_who_needed_it() -> None:
    """The outermost says for whom, and what the system said stays the cause."""
    with pytest.raises(BlockingIOError) as caught, needing_threads("make test"), needing_threads("bridge"):
        raise RuntimeError("can't start new thread")

    assert errno.EAGAIN == caught.value.errno
    assert str(caught.value.strerror).startswith("make test: no thread is to be had; ")
    assert "can't start new thread" == str(caught.value.__cause__)
    assert is_thread_refused(caught.value)


@pytest.mark.parametrize("other", [RuntimeError("can't start at interpreter shutdown"), BlockingIOError(11, "busy")])
def test_other_errors_pass(other: Exception) -> None:
    """What is no refusal of a thread is left as it is."""
    with pytest.raises(type(other)) as caught, needing_threads("make test"):
        raise other

    assert other is caught.value
    assert not is_thread_refused(other)


@pytest.mark.usefixtures("_no_threads")
def test_bridge_names_the_limit() -> None:
    """A callback that cannot have its thread is refused where it is registered."""
    with turnctl.turn() as turn:
        with pytest.raises(BlockingIOError, match="turnctl-.*: no thread is to be had"):
            turn.on_cancel(print)


@pytest.mark.usefixtures("_no_threads")
def test_worker_names_the_limit() -> None:
    """A thread of a turn that the system refuses is a failed activity, and an exhausted limit for the caller."""
    with turnctl.turn() as turn:
        with pytest.raises(BlockingIOError, match="thread print: no thread is to be had"):
            turn.thread(print)

    assert "no thread is to be had" in str(turn.report.activities[0].detail)


@pytest.mark.usefixtures("_no_threads")
def test_deadline_names_the_limit() -> None:
    """A timeout whose thread is not to be had is refused at the beginning."""
    with pytest.raises(BlockingIOError, match="keeps deadlines: no thread is to be had"):
        turnctl.turn(timeout=60).__enter__()

    with turnctl.turn() as after:
        assert not after.stopping
