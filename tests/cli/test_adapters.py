"""``turnctl adapters``: the evidence of each adapter, for people and for programs."""

from __future__ import annotations

import json

from launch import call
from schemas import fits

from turnctl.ledger.adapters import EVIDENCE, shipped


def test_each_adapter_is_shown_with_its_evidence() -> None:
    """What an acknowledgement establishes, and which promises can be kept, stands in words (R56)."""
    status, out, err = call("adapters")

    assert (0, "") == (status, err)
    for one in shipped():
        assert f"{one.name}\n  evidence    {one.evidence}: {EVIDENCE[one.evidence]}\n" in out
    assert ["process", "http", "http, confirms=True", "mcp"] == [one for one in out.splitlines() if one[0] != " "]
    assert 1 == out.count("prevent-delivery")


def test_adapters_for_programs() -> None:
    """The same as JSON."""
    status, out, _ = call("adapters", "--json")
    found = {one["adapter"]: one for one in fits(json.loads(out))["adapters"]}

    assert (0, {one.name for one in shipped()}) == (status, set(found))
    assert {
        "process": "handler_stopped",
        "http": "signal_queued",
        "http, confirms=True": "provider_confirmed",
        "mcp": "signal_queued",
    } == {name: one["evidence"] for name, one in found.items()}
    assert (86400.0, None) == (found["http"]["key_horizon_s"], found["mcp"]["key_horizon_s"])
