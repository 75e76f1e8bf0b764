"""An exchange: begun before anything is sent, cut only while it holds its connection, told of as far as it came."""

from __future__ import annotations

import threading

import pytest

import turnctl
from turnctl.integrations.exchanges import Exchange, begin, name_of_request, served, serving, told_of
from turnctl.testing import pause_at


def test_without_a_turn_there_is_none() -> None:
    """Outside of turns nothing is begun, and a client works as it always did."""
    found = begin("GET http://x/")

    assert found is None


def test_stopped_turn_begins_none() -> None:
    """What was stopped sends nothing, and has no activity for it."""
    with turnctl.turn() as turn:
        turn.stop("enough")
        with pytest.raises(turnctl.CancelledError):
            begin("GET http://x/")
        turnctl.check()

    assert () == turn.report.activities


def test_turn_that_ended_well_is_obeyed_no_more() -> None:
    """A thread that a turn left running may go on talking when the turn is over."""
    import contextvars

    with turnctl.turn():
        context = contextvars.copy_context()

    assert context.run(begin, "GET http://x/") is None


def test_name_holds_no_secret() -> None:
    """A report names where a request goes, without user, password, query or fragment."""
    name = name_of_request("POST", "https://me:secret@api.example.com:8443/v1/chat?key=abc#d")

    assert "POST https://api.example.com:8443/v1/chat" == name


def test_served_for_the_length_of_the_with() -> None:
    """What blocks below finds its exchange, and only there."""
    with turnctl.turn():
        exchange = begin("GET http://x/")
        with serving(exchange):
            inside = served.get()
        assert exchange is not None
        exchange.over()

    assert exchange is inside
    assert served.get() is None


def test_released_connection_is_never_cut() -> None:
    """X2: who gave its connection back cannot cut it any more, whatever is stopped."""
    cuts: list[str] = []
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(lambda: cuts.append("cut"))
        released = exchange.release()
        cut = exchange.cut()
        exchange.over()
        turn.stop()
        turnctl.check()

    assert (True, False, []) == (released, cut, cuts)


def test_release_waits_for_a_cut_that_is_under_way() -> None:
    """X2: a connection is not given back while it is being cut."""
    order: list[str] = []
    gate = threading.Event()
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        begun = threading.Event()

        def cut() -> None:
            begun.set()
            gate.wait(5)
            order.append("cut")

        exchange.hold(cut)
        cutter = threading.Thread(target=exchange.cut)
        cutter.start()
        begun.wait(5)
        releaser = threading.Thread(target=lambda: (exchange.release(), order.append("released")))
        releaser.start()
        gate.set()
        cutter.join(5)
        releaser.join(5)
        exchange.over()

    assert ["cut", "released"] == order
    assert not turn.cancelled


def test_stop_cuts_what_is_watched() -> None:
    """A response that lies open between two reads is cut by the stop, without anybody reading."""
    cut = threading.Event()
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(cut.set)
        exchange.watch()
        exchange.watch()
        turn.stop()
        was_cut = cut.wait(5)
        exchange.left()

    assert was_cut
    assert "cancelled" == turn.report.activities[0].state


def test_release_and_cut_race_for_one_chance() -> None:
    """X2: a cut that comes after the release has been paused finds nothing to cut."""
    cuts: list[str] = []
    with turnctl.turn():
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(lambda: cuts.append("cut"))
        with pause_at("exchange.cutting") as pause:
            cutter = threading.Thread(target=exchange.cut)
            cutter.start()
            pause.reached.wait(5)
            released = exchange.release()
            pause.release()
            cutter.join(5)
        exchange.over()

    assert (True, []) == (released, cuts)


def test_end_of_the_turn_closes_what_lies_open() -> None:
    """A response that nobody read to its end is cut and named when its turn ends; who reads on is told so."""
    cuts: list[str] = []
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.stage, exchange.sent, exchange.received = "reading the response", 10, 20
        exchange.hold(lambda: cuts.append("cut"))

    with pytest.raises(turnctl.TurnOver, match="read a response to its end"):
        exchange.check()
    record = turn.report.activities[0]
    assert ["cut"] == cuts
    assert ("http", "cancelled") == (record.kind, record.state)
    assert "the turn ended while reading the response; 10 bytes sent, 20 received" in str(record.detail)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (0, "connecting to x; nothing was sent"),
        (7, "connecting to x; 7 bytes sent, 0 received; what the server did with it is not known"),
        (None, "connecting to x, on a shared connection; what the server did with it is not known"),
    ],
)
def test_account_claims_no_more_than_was_seen(sent: int | None, said: str) -> None:
    """X3: what was handed over is called sent, and what the server did with it unknown."""
    with turnctl.turn() as turn:
        exchange = Exchange(turn, turn.token, "GET http://x/")
        exchange.stage, exchange.sent = "connecting to x", sent
        exchange.over(OSError(32, "broken"))

    record = turn.report.activities[0]
    assert ("failed", f"BrokenPipeError: [Errno 32] broken; {said}") == (record.state, record.detail)


def test_child_that_is_bound_here_is_obeyed() -> None:
    """A timeout around one read of a response that was begun before it ends that read."""
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        with turn.token.child() as child:
            found = exchange.obeyed()
            child.cancel()
            with pytest.raises(turnctl.CancelledError):
                exchange.check()
        exchange.check()
        exchange.over()

    assert found is child
    assert not turn.cancelled


def test_turn_that_reads_on_is_obeyed() -> None:
    """Who goes on with what another turn began is stopped by its own stop; that of the other cuts the connection."""
    cut = threading.Event()
    with turnctl.turn() as first:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(cut.set)
        with turnctl.turn(inherit=False) as second:
            found = exchange.obeyed()
            first.token.cancel()
            was_cut = cut.wait(5)
        exchange.over()

    assert found is second.token
    assert was_cut


def test_shield_cuts_nothing() -> None:
    """X4: a stop that is held back cuts no connection, neither before nor after the first read under the shield."""
    cuts: list[str] = []
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(lambda: cuts.append("cut"))
        exchange.watch()
        with pytest.raises(turnctl.CancelledError), turn.shield():
            exchange.check()
            exchange.watch()
            turn.token.cancel()
            carried = threading.Event()
            turn.token.on_cancel(carried.set)
            carried.wait(5)
        exchange.over()

    assert [] == cuts


def test_end_of_a_cut_connection_is_none() -> None:
    """X4: a connection that was cut before the shield began has not come to its end."""
    with turnctl.turn() as turn:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(lambda: None)
        turn.token.cancel()
        exchange.cut()
        with pytest.raises(turnctl.CancelledError), turn.shield():
            exchange.check()
            exchange.look_back()

        exchange.over()


def test_token_of_no_turn_is_watched() -> None:
    """A token without a turn cuts as well."""
    cut = threading.Event()
    with turnctl.CancelToken() as token:
        exchange = begin("GET http://x/")
        assert exchange is not None
        exchange.hold(cut.set)
        exchange.watch()
        token.cancel()
        was_cut = cut.wait(5)
        exchange.over()

    assert was_cut
    assert exchange.turn is None


def test_errors_of_clients_are_told_by_their_class() -> None:
    """Their text may spell the key in a header, or a URL; what the system said below it is told."""

    class Wrapped(OSError):
        """As those of requests are."""

    secret = "illegal header value b'Bearer sk-1'"
    caused = Wrapped(secret)
    caused.__cause__ = ConnectionRefusedError(111, "refused")

    assert "ValueError" == told_of(ValueError(secret))
    assert "Wrapped" == told_of(Wrapped(secret))
    assert "Wrapped: [Errno 111] refused" == told_of(caused)
