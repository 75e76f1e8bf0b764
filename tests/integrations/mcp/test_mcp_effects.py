"""A tool of an MCP server as an effect: what its adapter's word is worth, and how it keeps its name (P17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcping import fake_server, lines_of
from standins import Background, until

import turnctl
from turnctl.ledger import mcp_adapter

pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")

from turnctl.integrations.mcp import Client, ConnectionLost


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[turnctl.Ledger]:
    with turnctl.open_ledger(str(tmp_path / "own" / "host.db")) as opened:
        yield opened


def test_signal_of_mcp_is_queued_and_no_more(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """A call that is stopped has its notification on record; the evidence of both sides is the same word (R52)."""
    argv, log = fake_server(tmp_path)
    adapter = mcp_adapter(notify=lambda _: None)  # the client sends it by itself
    task = ledger.submit("acme", "job", promise="ask-provider", adapters=[adapter])
    with Client.stdio(argv) as client:

        def work() -> None:
            with turnctl.turn("worker", task=task) as turn, turn.effect("tool", key="1", adapter=adapter) as sent:
                sent.complete(str(client.call_tool("never", {"id": sent.effect_id})))

        working = Background(work)
        assert until(lambda: any(line.get("method") == "tools/call" for line in lines_of(log)))
        ledger.cancel(task, by="alice")
        working.result()
        (evidence,) = client.evidence
        assert until(lambda: any(line.get("method") == "notifications/cancelled" for line in lines_of(log)))
    (effect,) = ledger.report(task).effects

    assert adapter.evidence == evidence.evidence_class == "signal_queued"
    assert ("unknown", "stopped_unresolved") == (effect.disposition, task.state)


def test_another_connection_keeps_the_effects_id(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """A server dies, the tool is called again over another connection: two requests, and one effect (R55)."""
    argv, log = fake_server(tmp_path)
    task = ledger.submit("acme", "job")
    called = []

    def calls() -> list[dict[str, object]]:
        return [line for line in lines_of(log) if line.get("method") == "tools/call"]

    with turnctl.turn(task=task) as turn, turn.effect("tool", key="1") as sent:
        before = sent.effect_id
        with Client.stdio(argv) as client, pytest.raises(ConnectionLost):
            client.call_tool("die", {"text": sent.effect_id})
        called.append(calls()[-1])
        sent.requested(called[-1]["id"])  # type: ignore[arg-type]
        with Client.stdio(argv) as client:
            client.call_tool("echo", {"text": "another one first"})
            result = client.call_tool("echo", {"text": sent.effect_id})
            called.append(calls()[-1])
            sent.requested(called[-1]["id"])  # type: ignore[arg-type]
        sent.complete(result.content[0].text)
    (effect,) = ledger.report(task).effects
    lines = [event for event in ledger.store.read(lambda books: books.events(task.inc)) if "requested" in event.kind]

    assert called[0]["id"] != called[1]["id"]
    assert [before] * 3 == [effect.effect_id, *(one["params"]["arguments"]["text"] for one in called)]  # type: ignore[index]
    assert (str(called[1]["id"]), 2) == (effect.request_ref, len(lines))
    assert "completed" == effect.disposition
