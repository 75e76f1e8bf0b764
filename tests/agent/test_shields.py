"""A shield in a plain function of a run: a stop waits for it, for as long as it promises and no longer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from loops import Gate, Played, calls, feed_is_strict, statuses, stop_inside
from standins import until

import turnctl
from turnctl.agent import AgentLoop, Tool
from turnctl.testing import call_at
from turnctl.waiting import abandoned

LONGER_S = 0.2  # than the patience


def _tool(fn: Any, name: str, **options: Any) -> Tool:
    return Tool(fn, name=name, schema={"type": "object"}, **options)


def _is_stopped() -> bool:
    turn = turnctl.current_turn()
    return turn is not None and turn.stopping


def _shielded(gate: Gate, log: list[str], limit: str = "10s") -> Callable[..., str]:
    """A tool that is in its critical section for longer than the patience, and knows what came of it."""

    def writes(**_: Any) -> str:
        try:
            with turnctl.shield(limit):
                log.append("begun")
                gate.reached.set()
                while not _is_stopped():
                    time.sleep(0.001)
                time.sleep(LONGER_S)
                log.append("whole")
        except turnctl.CancelledError:
            log.append("told")
        return "written"

    return writes


@pytest.mark.parametrize("options", [{}, {"timeout": "30s"}])
def test_a_shield_in_a_plain_tool_is_waited_for(options: dict[str, Any]) -> None:
    """It comes through although the patience is over, and what it says within the patience after that is its result."""
    with Gate() as gate:
        log: list[str] = []
        loop = AgentLoop(Played(calls("writes")), [_tool(_shielded(gate, log), "writes", **options)], grace="10s")
        stopped = stop_inside(loop, gate)

        assert ["begun", "whole", "told"] == log
        assert LONGER_S <= stopped.took_s < 5
        assert {"c1": "completed"} == statuses(loop)
        assert "cancelled" == stopped.result.stop_reason
        assert not stopped.result.report.alive
        feed_is_strict(loop)


def test_in_a_wave_each_shield_is_waited_for() -> None:
    """Its sibling without one is left behind after the patience, as always."""
    with Gate() as gate, Gate() as held:
        log: list[str] = []
        shielded = _shielded(gate, log)

        def writes(**_: Any) -> str:
            assert held.reached.wait(10)
            return shielded()

        tools = [_tool(writes, "writes"), _tool(held.pass_through, "held")]
        loop = AgentLoop(Played(calls("writes", "held")), tools, parallel=2, grace="10s")
        stopped = stop_inside(loop, gate)

        assert ["begun", "whole", "told"] == log
        assert {"c1": "completed", "c2": "cancelled_unknown"} == statuses(loop)
        assert stopped.took_s < 5
        [left] = [one for one in stopped.result.report.activities if one.state == "abandoned"]
        assert "held" == left.name
        assert "did not come back within 50ms" in str(left.detail)
        feed_is_strict(loop)
    assert until(lambda: not abandoned.count())


def test_a_shield_in_a_hook_is_waited_for() -> None:
    """The same for every plain function of the host: a hook, the memory, the model."""

    class Hooks:
        def after_step(self, _step: int) -> None:
            _shielded(gate, log)()

    with Gate() as gate:
        log: list[str] = []
        loop = AgentLoop(Played("done"), hooks=Hooks(), grace="10s")
        stopped = stop_inside(loop, gate)

        assert ["begun", "whole", "told"] == log
        assert "cancelled" == stopped.result.stop_reason


def _hangs(gate: Gate, limit: str) -> Callable[..., str]:
    def hangs(**_: Any) -> str:
        with turnctl.shield(limit):
            return gate.pass_through()

    return hangs


@pytest.mark.parametrize(("limit", "grace"), [("100ms", "30s"), ("30s", "100ms")])
def test_what_hangs_under_a_shield_is_left_behind(limit: str, grace: str) -> None:
    """When the shield's own limit is over, or the grace: whichever is first."""
    with Gate() as gate:
        loop = AgentLoop(Played(calls("hangs")), [_tool(_hangs(gate, limit), "hangs")], grace=grace)
        stopped = stop_inside(loop, gate)

        assert 0.05 < stopped.took_s < 2
        assert {"c1": "cancelled_unknown"} == statuses(loop)
        assert any("hangs" in one for one in stopped.result.report.alive)
        [left] = [one for one in stopped.result.report.activities if one.state == "abandoned"]
        assert ("within the grace" if grace == "100ms" else "within 50ms of the end of its shield") in str(left.detail)
    assert until(lambda: not abandoned.count())


def test_a_kill_waits_for_no_shield() -> None:
    """A stop of level ``kill`` passes through it, as everywhere."""
    with Gate() as gate:
        loop = AgentLoop(Played(calls("hangs")), [_tool(_hangs(gate, "30s"), "hangs")], grace="30s")
        stopped = stop_inside(loop, gate, stop=lambda: loop.cancel_signal.cancel(level="kill"))

        assert stopped.took_s < 2
        assert {"c1": "cancelled_unknown"} == statuses(loop)
    assert until(lambda: not abandoned.count())


def test_behind_its_shield_a_tool_has_the_patience() -> None:
    """One that hangs once the shield is left is not waited for until the shield's limit."""
    with Gate() as gate, Gate() as behind:

        def hangs_later(**_: Any) -> str:
            try:
                with turnctl.shield("30s"):
                    gate.reached.set()
                    while not _is_stopped():
                        time.sleep(0.001)
                    time.sleep(LONGER_S)
            except turnctl.CancelledError:
                return behind.pass_through()
            return "never"

        loop = AgentLoop(Played(calls("hangs_later")), [_tool(hangs_later, "hangs_later")], grace="30s")
        stopped = stop_inside(loop, gate)

        assert behind.reached.is_set()
        assert LONGER_S <= stopped.took_s < 5
        assert {"c1": "cancelled_unknown"} == statuses(loop)
    assert until(lambda: not abandoned.count())


def test_a_stop_that_becomes_a_kill_waits_no_longer() -> None:
    """A second press while a shield is waited for ends that."""
    waiting = threading.Event()
    with Gate() as gate:
        loop = AgentLoop(Played(calls("hangs")), [_tool(_hangs(gate, "30s"), "hangs")], grace="30s")

        def presses() -> object:
            loop.cancel()
            assert waiting.wait(10)
            return loop.cancel_signal.cancel(level="kill")

        with call_at("call.ending", waiting.set):
            stopped = stop_inside(loop, gate, stop=presses)

        assert stopped.took_s < 5
        assert {"c1": "cancelled_unknown"} == statuses(loop)
    assert until(lambda: not abandoned.count())


def test_a_shield_in_another_context_of_the_tool_counts() -> None:
    """One that the tool has entered within a loop of asyncio's is waited for as well."""
    with Gate() as gate:
        log: list[str] = []

        async def main() -> None:
            with turnctl.shield("10s"):
                gate.reached.set()
                while not _is_stopped():  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
                await asyncio.sleep(LONGER_S)
                log.append("whole")

        loop = AgentLoop(
            Played(calls("runs")), [_tool(lambda **_: asyncio.run(main()), "runs")], grace="10s", parallel=2
        )
        stopped = stop_inside(loop, gate)

        assert ["whole"] == log
        assert "cancelled" == stopped.result.stop_reason
        assert not stopped.result.report.alive


def test_a_shield_that_begins_after_the_stop_counts() -> None:
    """A tool may begin to clean up when it hears of the stop, within its patience."""
    with Gate() as gate:
        log: list[str] = []

        def cleans_up(**_: Any) -> str:
            gate.reached.set()
            while not _is_stopped():
                time.sleep(0.001)
            with turnctl.shield("10s"):
                time.sleep(LONGER_S)
                log.append("clean")
            return "never"

        loop = AgentLoop(Played(calls("cleans_up")), [_tool(cleans_up, "cleans_up")], grace="10s")
        stopped = stop_inside(loop, gate)

        assert ["clean"] == log
        assert {"c1": "cancelled_unknown"} == statuses(loop)
        assert not stopped.result.report.alive
