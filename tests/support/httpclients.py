"""Clients of httpx and of its renamed copy, and what a stop of a request by one of them looks like."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from peers import Peer
from standins import until

import turnctl
from turnctl.integrations.exchanges import Exchange

NAMES = ("httpx", "httpx2")


def face(name: str) -> Any:
    """``turnctl.integrations.<name>``; skipped where the package is not installed."""
    pytest.importorskip(name, reason=f"{name} is what these tests are about")
    return importlib.import_module(f"turnctl.integrations.{name}")


@dataclass
class Stopped:
    """How a request ended that was stopped from another thread."""

    error: BaseException | None
    report: turnctl.TurnReport
    #: from the stop to the caller's being free
    took_s: float

    @property
    def activity(self) -> turnctl.ActivityRecord:
        """What the report says of the last request."""
        found = [one for one in self.report.activities if one.kind == "http"]
        assert found, self.report.activities
        return found[-1]


def stop_at(
    blocks: Callable[[turnctl.Turn], object],
    reached: Callable[[], Peer | object],
    reason: str = "enough",
    stage: str = "",
) -> Stopped:
    """Run ``blocks(turn)`` in a turn; stop it from another thread after ``reached()``, once it is at ``stage``."""
    stopped_at: list[float] = []
    error: BaseException | None = None
    free_at = 0.0
    with turnctl.turn() as turn:

        def stop() -> None:
            reached()
            assert until(lambda: stage in stage_of(turn)), stage_of(turn)
            stopped_at.append(time.monotonic())
            turn.stop(reason)

        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        try:
            blocks(turn)
        except BaseException as caught:
            error = caught
        free_at = time.monotonic()
        stopper.join(10)
    return Stopped(error, turn.report, free_at - stopped_at[0])


def stage_of(turn: turnctl.Turn) -> str:
    """What the last request of the turn is doing."""
    found = [one.owned for one in turn.activities.all() if isinstance(one.owned, Exchange)]
    return found[-1].stage if found else ""


def assert_stopped(stopped: Stopped, reason: str = "enough") -> None:
    """It ended at once, and by the stop."""
    assert isinstance(stopped.error, turnctl.CancelledError), repr(stopped.error)
    assert reason == stopped.error.reason
    assert stopped.took_s < 1
    assert "cancelled" == stopped.activity.state, stopped.activity
    stopped.report.validate()


def package(http: Any) -> Any:
    return __import__(http.Client.__mro__[1].__module__.partition(".")[0])
