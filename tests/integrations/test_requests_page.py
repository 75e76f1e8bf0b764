"""The examples of docs/requests.md run as they stand."""

from __future__ import annotations

import threading

import pytest
from pages import examples
from requestclients import requests_of
from websites import website

import turnctl

pytest.importorskip("requests", reason="requests is what the page is about")


def test_first_example_ends_with_a_stop() -> None:
    """The session of the first example is free at once, by the session's name."""
    page = examples("requests.md")
    page["session"].trust_env = False
    with website() as site:
        stopper = threading.Thread(target=lambda: (site.stalled(0), turnctl.stop("chat-42", reason="enough")))
        stopper.start()
        got = page["ask"](f"{site.url}/sized", "why?")
        stopper.join(5)
        ended = site.server.peer().ended.wait(5)
    page["session"].close()

    assert (None, True, ["POST /sized"]) == (got, ended, site.seen)


def test_session_of_ones_own() -> None:
    """The second one makes a session with its own adapters stoppable."""
    session = examples("requests.md", "The faces")["mine"]()
    session.trust_env = False
    with website() as site, turnctl.turn() as turn:
        text = session.get(f"{site.url}/ok").text
    session.close()

    assert ("ok", "completed") == (text, requests_of(turn.report)[0].state)
    assert session.get_adapter("https://slow.example")._pool_block


def test_stream_example() -> None:
    """The third one gives the first line, or None where it does not come in time; the turn goes on."""
    page = examples("requests.md", "Streams")
    session = examples("requests.md", "The faces")["mine"]()
    session.trust_env = False
    child = turnctl.CancelToken.child
    with website() as site, turnctl.turn() as turn, pytest.MonkeyPatch.context() as patch:
        line = page["first_line"](session, turn, f"{site.url}/stream?3")
        patch.setattr(turnctl.CancelToken, "child", lambda token, timeout: child(token, timeout=0.05))
        late = page["first_line"](session, turn, f"{site.url}/sized")
    session.close()

    assert (b'data: {"n": 0}', None, False) == (line, late, turn.cancelled)
