"""Retries of urllib3, under requests as well: after a stop no further attempt, and no sleep that goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import assert_stopped, stop_at
from peers import Loopback, Peer, loopback
from requestclients import manager, requests_of, session
from standins import until

import turnctl

pytest.importorskip("requests", reason="requests is what these tests are about")
urllib3 = pytest.importorskip("urllib3", reason="it is what requests is built on")

BUSY = b"HTTP/1.1 503 Busy\r\n%sContent-Length: 2\r\n\r\nno"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Answers:
    """A server that gives these answers one after the other, on any connection; None breaks it off."""

    def __init__(self, *answers: bytes | None) -> None:
        self.left = list(answers)
        self.seen = 0

    def serve(self, peer: Peer) -> None:
        while True:
            peer.until(b"\r\n\r\n")
            self.seen += 1
            answer = self.left.pop(0) if self.left else OK
            if answer is None:
                return
            peer.send(answer)


def url_of(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}/"


@pytest.fixture(params=["requests", "urllib3"])
def get(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """``get(url, retries)`` by either client; the text of the response."""
    # what urllib3 logs of a retry holds the error, and with its frames the pool, which closes when nobody holds it
    caplog.set_level("CRITICAL", logger="urllib3")
    with session() as one, manager() as other:

        def by_requests(url: str, retries: Any) -> bytes:
            for adapter in one.adapters.values():
                adapter.max_retries = retries
            return one.get(url).content  # type: ignore[no-any-return]

        def by_urllib3(url: str, retries: Any) -> bytes:
            return other.request("GET", url, retries=retries).data  # type: ignore[no-any-return]

        yield by_requests if request.param == "requests" else by_urllib3


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        (None, {"backoff_factor": 60}),
        (BUSY % b"", {"backoff_factor": 60, "status_forcelist": [503]}),
        (BUSY % b"Retry-After: 60\r\n", {}),
        (BUSY % b"Retry-After: 60\r\n", {"status_forcelist": [503]}),
    ],
    ids=["broken off", "status", "retry-after", "both"],
)
def test_stop_ends_the_sleep_between_two_attempts(get: Any, answer: bytes | None, options: dict[str, Any]) -> None:
    """A back-off and a Retry-After are no longer waited for, and nothing is sent again."""
    answers = Answers(answer, answer)
    with loopback(answers.serve) as server:
        # the first back-off of older ones takes no time
        retries = urllib3.Retry(5, **options)
        seen = 2 if "backoff_factor" in options else 1
        begun = time.monotonic()
        stopped = stop_at(
            lambda _: get(url_of(server), retries), lambda: until(lambda: answers.seen == seen), stage="to try again"
        )
        took = time.monotonic() - begun

    assert isinstance(stopped.error, turnctl.CancelledError)
    assert "enough" == stopped.error.reason
    assert (seen, True) == (answers.seen, took < 5)


def test_attempts_are_told_one_by_one(get: Any) -> None:
    """Each attempt is an activity: one that was broken off failed, the last one completed."""
    answers = Answers(None, BUSY % b"", OK)
    with loopback(answers.serve) as server, turnctl.turn() as turn:
        body = get(url_of(server), urllib3.Retry(5, status_forcelist=[503]))

    told = [f"{one.state}: {str(one.detail)[:13]}" for one in requests_of(turn.report)]
    assert (b"ok", 3) == (body, answers.seen)
    assert ["failed: ProtocolError", "completed: None", "completed: None"] == told


def test_no_attempt_after_a_stop(get: Any) -> None:
    """A stop while the first attempt waits is not taken for its failure."""
    with loopback(Peer.stall) as server:
        stopped = stop_at(lambda _: get(url_of(server), urllib3.Retry(5)), server.reached)
        peers = len(server.peers)

    assert_stopped(stopped)
    assert 1 == peers


def test_attempts_that_are_used_up_are_told_as_ever(get: Any) -> None:
    """Without a stop the client's own errors come out, with the turn's account of each attempt."""
    import requests

    answers = Answers(None, None, None)
    with loopback(answers.serve) as server, turnctl.turn() as turn:
        with pytest.raises((requests.exceptions.ConnectionError, urllib3.exceptions.MaxRetryError)):
            get(url_of(server), urllib3.Retry(2))

    assert ["failed"] * 3 == [one.state for one in requests_of(turn.report)]


def test_policy_of_the_host_is_kept(get: Any) -> None:
    """A class of the host's own decides as ever, and is not changed; its own sleep is left behind by a stop."""
    slept: list[float] = []

    class Policy(urllib3.Retry):  # type: ignore[misc, name-defined]
        def sleep(self, response: Any = None) -> None:
            slept.append(0.0 if response is None else response.status)

    answers = Answers(BUSY % b"", OK)
    policy = Policy(5, status_forcelist=[503])
    with loopback(answers.serve) as server, turnctl.turn() as turn:
        body = get(url_of(server), policy)

    assert (b"ok", [503]) == (body, slept)
    assert Policy is type(policy)
    assert ["http", "sleep", "http"] == [one.kind for one in turn.report.activities]


def test_outside_of_turns_it_sleeps_as_ever(get: Any) -> None:
    """Without a turn a policy is not touched."""
    answers = Answers(BUSY % b"Retry-After: 0\r\n", OK)
    with loopback(answers.serve) as server:
        body = get(url_of(server), urllib3.Retry(5))

    assert (b"ok", 2) == (body, answers.seen)
