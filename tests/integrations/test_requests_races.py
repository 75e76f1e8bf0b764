"""A stop and a request of requests at one moment: each order that a race point can force."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import stage_of
from peers import Peer, loopback
from requestclients import idle, requests_of, session
from standins import Background, until
from websites import Website, website

import turnctl
from turnctl.integrations.exchanges import Exchange
from turnctl.testing import pause_at

pytest.importorskip("requests", reason="requests is what these tests are about")


@pytest.fixture
def site() -> Iterator[Website]:
    with website() as site:
        yield site


def exchange_of(turn: turnctl.Turn) -> Exchange:
    found = [one.owned for one in turn.activities.all() if isinstance(one.owned, Exchange)]
    return found[-1]


def test_stop_before_the_request(site: Website) -> None:
    """Nothing is looked up or sent, and there is no activity for it."""
    with session() as one, turnctl.turn() as turn:
        turn.token.cancel()
        with pytest.raises(turnctl.CancelledError):
            one.get(f"{site.url}/ok")

    assert ([], (), []) == (site.seen, turn.report.activities, site.server.peers)


def test_cut_as_the_response_ends_is_not_pooled(site: Website) -> None:
    """The response is given, and the connection, which was shut down under it, is closed."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/ok", stream=True)  # all of it is in the buffer
        exchange_of(turn).cut()
        text = response.text
        left = idle(one, site.url)
        again = one.get(f"{site.url}/ok").text

    assert ("ok", "ok", []) == (text, again, left)
    assert ["completed", "completed"] == [record.state for record in requests_of(turn.report)]


def test_release_waits_for_a_cut_that_is_under_way(site: Website) -> None:
    """A connection goes nowhere before the system call that shuts it down is done."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/ok", stream=True)
        exchange = exchange_of(turn)
        cut = exchange._chance[0]
        begun, go_on = threading.Event(), threading.Event()
        exchange.hold(lambda: (begun.set(), go_on.wait(5), cut()))
        cutter = Background(exchange.cut)
        begun.wait(5)
        reader = Background(lambda: response.text)
        held = until(lambda: not reader.is_running, within=0.05)
        go_on.set()

        assert ("ok", True, False) == (reader.result(), cutter.result(), held)
        assert [] == idle(one, site.url)


def test_cut_after_the_release_finds_nothing(site: Website) -> None:
    """A stop whose cut comes when the connection has gone back to its pool leaves it alone."""
    with session() as one, turnctl.turn() as turn:
        response = one.get(f"{site.url}/ok", stream=True)
        exchange = exchange_of(turn)
        with pause_at("exchange.cutting") as pause:
            cutter = Background(exchange.cut)
            pause.reached.wait(5)
            text = response.text
            pause.release()
            cut = cutter.result()
        kept = len(idle(one, site.url))
        again = one.get(f"{site.url}/ok").text

    assert ("ok", "ok", False, 1, 1) == (text, again, cut, kept, len(site.server.peers))


def test_stop_as_the_handshake_is_done(tmp_path: Any) -> None:
    """A connection that was cut just as it was secured sends nothing."""
    from requestclients import trusted_in

    import turnctl.integrations.connecting as connecting

    with website(tls=True) as site, session(trusted_in(tmp_path)) as one, turnctl.turn() as turn:
        close = connecting._Guard.close

        def cut_first(guard: Any) -> None:
            if guard._other is not None:
                turn.token.cancel()
                exchange_of(turn).cut()
            close(guard)

        with pytest.MonkeyPatch.context() as patch, pytest.raises(turnctl.CancelledError):
            patch.setattr(connecting._Guard, "close", cut_first)
            one.get(f"{site.url}/ok")
        ended = site.server.peer().ended.wait(5)

    assert (True, []) == (ended, site.seen)
    assert "securing the connection; nothing was sent" == requests_of(turn.report)[0].detail


def test_error_and_stop_both_there() -> None:
    """The stop goes before the client's own error, which is its context; nothing is tried again."""

    def reset(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")

    over = Exchange.over

    def stopped_first(exchange: Exchange, error: BaseException | None = None) -> None:
        turn.token.cancel()
        over(exchange, error)

    with loopback(reset) as server, session(max_retries=3) as one, turnctl.turn() as turn:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(turnctl.CancelledError) as told:
            patch.setattr(Exchange, "over", stopped_first)
            one.get(f"http://127.0.0.1:{server.port}/")

    assert "RemoteDisconnected" == type(told.value.__context__).__name__
    assert ("cancelled", 1) == (requests_of(turn.report)[0].state, len(server.peers))


def test_another_turn_reads_on(site: Website) -> None:
    """A response that another turn reads ends with the stop of either."""
    with session() as one:
        for which in ("first", "second"):
            before = len(site.server.peers)
            with turnctl.turn() as first:
                response = one.get(f"{site.url}/events", stream=True)
                with turnctl.turn(inherit=False) as second:
                    reader = Background(_read_in, second, response)
                    peer = site.stalled(before)
                    assert until(lambda: stage_of(first) == "reading the response")
                    {"first": first, "second": second}[which].token.cancel()
                    error = reader.error()
                    ended = peer.ended.wait(5)

            assert isinstance(error, turnctl.CancelledError)
            assert error.token is {"first": first, "second": second}[which].token
            assert ended


def _read_in(turn: turnctl.Turn, response: Any) -> None:
    with turn.token:
        for _ in response.iter_content(5):
            pass
