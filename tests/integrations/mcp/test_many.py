"""Many calls of many turns on one connection, stopped at any moment: each is told once, and nothing is mixed up."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mcping import server_program
from standins import BOUND, Background, until

import turnctl

pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from turnctl.integrations.mcp import Client

_THREADS, _CALLS = 8, 12

_TOOLS = """
@server.tool
def nap(seconds: float, value: str) -> str:
    turnctl.sleep(seconds)
    return value

@server.tool
def seen() -> list:
    return [one.as_dict() for one in server.received]
"""


def test_random_stops_of_many_calls(tmp_path: Path) -> None:
    """Values go to whom they belong; each stop that reached a call is one notification, and reaches no other (P2)."""
    chance = random.Random(5)
    plans = [[(chance.uniform(0, 0.03), chance.uniform(0, 0.03)) for _ in range(_CALLS)] for _ in range(_THREADS)]
    wrong: list[Any] = []
    outcomes: list[str | None] = []

    def one(client: Client, name: str, nap: float, stop_after: float) -> None:
        turn = turnctl.Turn(reason=name, grace="5s")

        def stop() -> None:
            time.sleep(stop_after)
            if turn._token is not None:
                turn.cancel(name)

        stopper = threading.Thread(target=stop)
        with turn:
            stopper.start()
            value = client.call_tool("nap", {"seconds": nap, "value": name}).content[0].text
            if value != name:
                wrong.append((name, value))
        stopper.join()
        outcomes.append(turn.outcome)

    def run(client: Client, number: int) -> None:
        for count, (nap, stop_after) in enumerate(plans[number]):
            one(client, f"{number}.{count}", nap, stop_after)

    with Client.stdio(server_program(tmp_path, _TOOLS), env=dict(os.environ)) as client:
        client.call_tool("nap", {"seconds": 0, "value": "x"})
        workers = [Background(run, client, number) for number in range(_THREADS)]
        for worker in workers:
            worker.result(3 * BOUND)
        signalled = [evidence for evidence in client.evidence if evidence.evidence_class == "signal_queued"]

        def received() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = json.loads(client.call_tool("seen").content[0].text)
            return found

        assert until(lambda: len(received()) >= len(signalled))
        seen = received()
        wire = client._connection.wire
        assert wire is not None
        left = list(wire.traffic.open.values())

    assert [] == wrong
    assert _THREADS * _CALLS == len(outcomes)
    assert {"cancelled"} <= set(outcomes) <= {"cancelled", "completed"}
    sent = sorted((one.request_id, one.reason) for one in signalled)
    assert sent == sorted((one["request_id"], one["reason"]) for one in seen)
    assert len({one.request_id for one in signalled}) == len(signalled)
    assert {None, "finished"} >= {one["why"] for one in seen}
    assert [] == left
