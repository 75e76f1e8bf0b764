"""The examples of the page on httpx run as they stand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from httpclients import face
from pages import examples
from standins import Background
from websites import website

import turnctl


def test_the_examples_run() -> None:
    """Each way on the page gives a client whose request ends with the stop of its turn."""
    httpx = pytest.importorskip("httpx", reason="httpx is what the page is about")
    first = examples("httpx.md")
    ways: dict[str, Any] = {"turnctl": turnctl, **examples("httpx.md", "Ways to have it")}
    ways["everything"].__globals__["turnctl"] = turnctl  # the page has imported it above
    with website() as site, first["client"]:
        whole = first["ask"](f"{site.url}/ok")
        stopper = Background(lambda: (site.stalled(), turnctl.stop("chat-42", reason="enough")))
        stopped = first["ask"](f"{site.url}/silence")
        stopper.result()
        made = ways["with_openai"](SimpleNamespace(OpenAI=lambda **options: options), site.url)
        with httpx.Client() as plain, httpx.Client() as other:
            around = ways["around_a_transport"](other._transport)
            for one in (made["http_client"], ways["made_before"](plain), around):
                with turnctl.turn() as turn:
                    one.get(f"{site.url}/ok")
                assert ["completed"] == [activity.state for activity in turn.report.activities]
            around.close()
        made["http_client"].close()
        with turnctl.turn() as turn, httpx.Client() as plain:
            ways["everything"](lambda: plain.get(f"{site.url}/ok"))

    assert "ok" == whole
    assert "enough" in stopped
    assert 1 == len(turn.report.activities)
    assert face("httpx").stoppable
