"""A stream: each row of the table, the source closed once on every way out, and what was received is kept."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import itertools
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import BOUND, Background, ctrl_c_once, is_parked, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver
from turnctl.testing import call_at
from turnctl.waiting import abandoned
from turnctl.waiting.stream import stream


class Source:
    """Gives its items, then blocks until it is let go or closed, if it is to; counts who closes it."""

    def __init__(self, *items: object, blocks: bool = False, fails: BaseException | None = None) -> None:
        self.left = list(items)
        self.blocks = blocks
        self.fails = fails
        self.gate = threading.Event()
        self.blocked = threading.Event()
        self.asked = 0
        self.closed: list[int] = []
        self.cut: BaseException | None = None

    def __iter__(self) -> Source:
        return self

    def __next__(self) -> object:
        self.asked += 1
        if self.left:
            return self.left.pop(0)
        if self.blocks:
            self.blocked.set()
            assert self.gate.wait(BOUND)
            if self.cut is not None:
                raise self.cut
        if self.fails is not None:
            raise self.fails
        raise StopIteration

    def close(self) -> None:
        self.closed.append(threading.get_ident())

    def shut(self) -> None:
        """What unblocks it, as the shutdown of a socket does."""
        self.close()
        self.cut = ConnectionError("cut")
        self.gate.set()


@pytest.fixture(autouse=True)
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Nothing goes to the unraisable hook, in any of these tests."""
    found: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: found.append((args.exc_value, args.object)))
    yield found
    gc.collect(1)  # the young ones: what a test has made is among them

    assert [] == found


@pytest.fixture(params=["read by a thread", "read by the loop"])
def ahead(request: pytest.FixtureRequest) -> int:
    """Both ways of reading."""
    return 256 if request.param == "read by a thread" else 0


def only_activity(turn: turnctl.Turn) -> Any:
    (found,) = turn.report.activities
    return found


def generator(log: list[str], items: int = 3) -> Iterator[int]:
    """One that says on which thread it ends, and how."""
    try:
        yield from range(items)
        log.append("exhausted")
    except GeneratorExit:
        log.append("closed")
        raise
    finally:
        log.append(f"ended on {threading.current_thread().name.split('-')[0]}")


# -- without a stop ---------------------------------------------------------------------------------------------------


def test_stream_gives_every_item_once_and_in_order(ahead: int) -> None:
    """As the source gives them; the account has them all."""
    source = Source(*range(1000))
    with turnctl.turn() as turn:
        found = list(turn.stream(source, ahead=ahead))

    assert list(range(1000)) == found
    assert 1 == len(source.closed)
    record = only_activity(turn)
    assert ("stream", "Source", "completed", None) == (record.kind, record.name, record.state, record.detail)
    assert (tuple(range(1000)), 1000, ()) == (record.received, record.given, record.not_given)


@pytest.mark.parametrize("ahead", [1, 2, 3, 7, 256])
def test_source_is_asked_for_so_much_ahead(ahead: int) -> None:
    """And for no more, until the loop has used enough."""
    source = Source(*range(600))
    with turnctl.turn() as turn, turn.stream(source, ahead=ahead) as items:
        next(items)
        assert until(lambda: source.asked >= ahead)
        for given in (1, 2, 3):
            assert items.given == given
            assert source.asked <= given + ahead
            next(items)

        assert 4 + ahead >= len(items.received) >= 4
        assert list(range(4, 600)) == list(items)


def test_ready_things_need_no_thread() -> None:
    """A list is walked by the loop itself."""
    before = threading.active_count()
    with turnctl.turn() as turn:
        for number in turn.stream([1, 2, 3]):
            assert before == threading.active_count()

            assert number in (1, 2, 3)


def test_stream_without_a_turn_is_plain() -> None:
    """The loop asks the source itself, which is closed all the same."""
    source = Source(1, 2)
    items = stream(None, source)

    assert [1, 2] == list(items)
    assert [threading.get_ident()] == source.closed


def test_stream_carries_the_context() -> None:
    """A generator finds the turn and the context variables of the loop, whichever thread asks it."""
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")

    def source() -> Iterator[object]:
        yield variable.get()
        yield turnctl.current_turn()

    with turnctl.turn() as turn:
        assert ["mine", turn] == list(turn.stream(source()))


def test_source_that_must_stay_on_its_thread() -> None:
    """With ``ahead=0`` the loop's own thread asks it, as a database cursor demands."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        with turnctl.turn() as turn:
            rows = list(turn.stream(connection.execute("values (1), (2)"), ahead=0))

    assert [(1,), (2,)] == rows


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((3,), {}, "needs something to iterate over, not 3"),
        (([],), {"close": 3}, "close must be a function without arguments or None, not 3"),
        (([],), {"ahead": -1}, "ahead is a number of items, 0 for none, not -1"),
        (([],), {"ahead": 1.5}, "ahead is a number of items, 0 for none, not 1.5"),
    ],
)
def test_misuse_of_stream_is_refused(args: Any, options: Any, words: str) -> None:
    """Before anything is registered."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument, match=words):
            turn.stream(*args, **options)

    assert () == turn.report.activities


def test_report_counts_text_and_items() -> None:
    """Plain values have the numbers, and the text of a stream of text, with what was not given marked."""
    with turnctl.turn() as turn:
        with turn.stream(iter(["Hel", "lo"])) as items:
            next(items)
            assert until(lambda: len(items.received) == 2)

    plain = only_activity(turn).as_dict()
    assert {"items": 2, "given": 1, "text": "Hello"} == plain["received"]
    assert ("lo",) == only_activity(turn).not_given


# -- table 8, in its order --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["own close", "given close", "generator"])
def test_stopped_turn_asks_for_no_item(ahead: int, how: str) -> None:
    """Stop, then the first ``next``: the source is never asked, and closed once."""
    source: Any = Source(1)
    log: list[str] = []
    with turnctl.turn() as turn:
        items: Any = turn.stream(
            generator(log) if how == "generator" else source,
            source.close if how == "given close" else None,
            ahead=ahead,
        )
        turn.cancel()
        for _ in range(2):
            with pytest.raises(CancelledError):
                next(items)

    assert 0 == source.asked
    assert [] == log
    assert (0 if how == "generator" else 1) == len(source.closed)
    record = only_activity(turn)
    assert ("cancelled", ()) == (record.state, record.received)


def test_stop_wakes_a_blocked_next_and_closes_at_once() -> None:
    """With ``close`` given the source is unblocked by it; its error is the cause, and the partial text is kept."""
    source = Source("Hel", "lo", blocks=True)
    got: list[object] = []
    with turnctl.turn(grace=60) as turn:

        def loop() -> None:
            for item in turn.stream(source, source.shut):
                got.append(item)

        looping = Background(loop)
        assert source.blocked.wait(BOUND)
        assert until(lambda: len(got) == 2)
        stopped_at = time.monotonic()
        turn.stop("enough")
        error = looping.error()

        assert isinstance(error, CancelledError)
        assert ("enough", "ConnectionError('cut')") == (error.reason, repr(error.__cause__))
        assert looping.ended_at is not None
        assert looping.ended_at - stopped_at < 1
    assert (["Hel", "lo"], 1) == (got, len(source.closed))
    record = only_activity(turn)
    assert ("cancelled", "stopped; 2 received") == (record.state, record.detail)
    assert "Hello" == record.as_dict()["received"]["text"]


def test_stop_wakes_a_blocked_next_without_a_close() -> None:
    """Nothing unblocks the source: the loop is over at once all the same, and it is closed when it comes back."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=0.05) as turn:
        looping = Background(lambda: list(turn.stream(source)))
        assert source.blocked.wait(BOUND)
        assert until(lambda: only_activity(turn).given == 1)
        stopped_at = time.monotonic()
        turn.cancel()
        error = looping.error()

        assert isinstance(error, CancelledError)
        assert looping.ended_at is not None
        assert looping.ended_at - stopped_at < 1
        assert [] == source.closed
    record = only_activity(turn)
    assert "abandoned" == record.state
    assert "did not come back within the grace; 1 received" in record.detail
    assert "thread Source" in turn.report.alive[0]
    assert 1 == abandoned.count()

    source.gate.set()
    assert until(lambda: turn.report.alive == ())
    assert 1 == len(source.closed)
    assert "came back later; 1 received" == only_activity(turn).late


def test_socket_reader_wakes_and_the_server_sees_it() -> None:
    """A server that sends half a stream: shutting the socket ends the read, which a clean end must not hide."""
    near, far = socket.socketpair()
    with near, far, near.makefile("rb") as file:
        with turnctl.turn(grace=60) as turn:
            looping = Background(lambda: list(turn.stream(file, lambda: near.shutdown(socket.SHUT_RDWR))))
            far.sendall(b"one\ntwo\nthr")
            assert until(lambda: only_activity(turn).given == 2)
            turn.cancel()
            error = looping.error()
            assert b"" == far.recv(1)

        assert isinstance(error, CancelledError)  # and not the end of the loop
    assert (b"one\n", b"two\n") == only_activity(turn).received[:2]
    assert "cancelled" == only_activity(turn).state


def test_item_and_stop_both_there(ahead: int) -> None:
    """The stop is raised; the item is kept, and marked as not given."""
    source = Source("a", "b")
    with turnctl.turn() as turn:
        items = turn.stream(source, ahead=ahead)
        if ahead:
            with call_at("stream.looking", turn.cancel):
                with pytest.raises(CancelledError):
                    next(items)
        else:
            source.left[0] = "a"
            ask = source.__class__.__next__

            def asked(self: Source) -> object:
                turn.cancel()
                return ask(self)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Source, "__next__", asked)
                with pytest.raises(CancelledError):
                    next(items)

    record = only_activity(turn)
    assert ("a", 0) == (record.received[0], record.given)
    assert "a" == record.not_given[0]
    assert 1 == len(source.closed)


def test_item_given_then_stop(ahead: int) -> None:
    """The loop has the item; the stop comes before the next one."""
    source = Source(*"abc")
    got = []
    with turnctl.turn() as turn:
        for item in turn.stream(source, ahead=ahead):
            got.append(item)
            turn.cancel()

    assert (["a"], 1, "cancelled") == (got, len(source.closed), only_activity(turn).state)
    assert 1 == only_activity(turn).given


def test_exhausted_then_stop(ahead: int) -> None:
    """The loop ends; the next checkpoint raises."""
    source = Source(1)
    with turnctl.turn() as turn:
        items = turn.stream(source, ahead=ahead)
        assert 1 == next(items)
        if ahead:
            assert until(lambda: items._feed.finished)  # seen by the reader, not yet by the loop
        else:
            assert [] == list(items)
        turn.cancel()

        assert [] == list(items)
        with pytest.raises(CancelledError):
            turn.check()
    assert ("completed", 1) == (only_activity(turn).state, len(source.closed))


@pytest.mark.parametrize("way", ["exhaustion", "break", "error", "stop", "collection", "with", "close", "end"])
@pytest.mark.parametrize("close", ["own", "given", "generator"])
def test_source_is_closed_once_on_every_way_out(way: str, close: str, ahead: int) -> None:
    """And a generator by the thread that has asked it, which never finds it running."""
    source = Source(*range(600))
    log: list[str] = []
    held: list[object] = []
    with contextlib.suppress(ZeroDivisionError):
        with turnctl.turn(grace=60) as turn:
            items: Any = turn.stream(
                generator(log, 600) if close == "generator" else source,
                source.close if close == "given" else None,
                ahead=ahead,
            )
            leave(turn, items, way)
            if way == "end":
                held.append(items)
            del items

    assert until(lambda: log or source.closed)
    assert until(lambda: not turn.report.open_activities)
    assert (0 if close == "generator" else 1) == len(source.closed)
    if close == "generator":
        where = "turnctl" if ahead else threading.current_thread().name.split("-", maxsplit=1)[0]
        assert ["exhausted" if way == "exhaustion" else "closed", f"ended on {where}"] == log
    record = only_activity(turn)
    expected = {"stop": "cancelled"}.get(way, "completed")
    assert expected == record.state
    assert way == "exhaustion" or record.detail is not None
    assert "ended" == turn.report.execution


def leave(turn: turnctl.Turn, items: Any, way: str) -> None:
    """Take some items and leave the loop."""
    if way == "with":
        with items:
            next(items)
        assert [] == list(items)
    elif way in ("close", "collection", "end"):
        next(items)
        if way == "close":
            items.close()
            items.close()
    else:
        for number in items:
            if number == 5:
                if way == "break":
                    break
                if way == "error":
                    1 / 0  # noqa: B018
                if way == "stop":
                    turn.cancel()


def test_error_of_the_source_comes_after_its_items(ahead: int) -> None:
    """No stop: what was received is given, then its exception, then nothing."""
    source = Source(1, 2, fails=OSError("broken"))
    got: list[object] = []
    with turnctl.turn() as turn:
        items = turn.stream(source, ahead=ahead)
        with pytest.raises(OSError, match="broken"):
            for item in items:
                got.append(item)

        assert [] == list(items)
    assert ([1, 2], 1) == (got, len(source.closed))
    record = only_activity(turn)
    assert ("failed", "OSError: broken; 2 received") == (record.state, record.detail)


def test_failing_close_is_reported(ahead: int) -> None:
    """It changes nothing else, and was asked once."""
    asked: list[int] = []

    def close() -> None:
        asked.append(1)
        raise ValueError("no")

    with turnctl.turn() as turn:
        assert [1] == list(turn.stream(iter([1]), close, ahead=ahead))

    assert [1] == asked
    assert [note for note in turn.report.notes if "failed: ValueError: no" in note]
    assert "completed" == only_activity(turn).state


# -- around the table -------------------------------------------------------------------------------------------------


def test_generator_whose_clean_up_fails(ahead: int) -> None:
    """Its error is in the report, not raised and not on the unraisable hook."""

    def source() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            raise ValueError("clean-up")

    with turnctl.turn() as turn:
        with turn.stream(source(), lambda: None, ahead=ahead) as items:
            next(items)

    (note,) = turn.report.notes
    assert note.startswith("end of stream")
    assert note.endswith("failed: ValueError: clean-up")
    assert "completed" == only_activity(turn).state


def test_source_that_was_left_is_asked_no_more() -> None:
    """When a blocked ``next`` comes back after the stop, that item is the last."""
    blocked, gate = threading.Event(), threading.Event()

    def source() -> Iterator[int]:
        yield 0
        blocked.set()
        gate.wait(BOUND)
        yield from range(1, 100)

    with turnctl.turn(grace=0) as turn:
        looping = Background(lambda: list(turn.stream(source())))
        assert blocked.wait(BOUND)
        assert until(lambda: only_activity(turn).given == 1)
        turn.cancel()
        assert isinstance(looping.error(), CancelledError)
    gate.set()
    assert until(lambda: turn.report.alive == ())

    assert (0, 1) == only_activity(turn).received
    assert "came back later; 2 received, 1 given" == only_activity(turn).late


def test_close_that_blocks_delays_nothing_further() -> None:
    """The loop waits for it a quarter of a second, the end of the turn for the grace; then it is named."""
    source = Source(1, blocks=True)
    gate = threading.Event()
    with turnctl.turn(grace=0.05) as turn:
        looping = Background(lambda: list(turn.stream(source, lambda: gate.wait(BOUND))))
        assert source.blocked.wait(BOUND)
        turn.cancel()

        assert isinstance(looping.error(), CancelledError)
    assert any("thread close of Source" in name for name in turn.report.alive)
    gate.set()
    source.gate.set()
    assert until(lambda: turn.report.alive == ())


def test_swallowed_stop_is_raised_at_each_next(ahead: int) -> None:
    """A bare except in the body gets it again at its next item, and no item."""
    source = Source(*range(10))
    swallowed: list[BaseException] = []
    with turnctl.turn() as turn:
        items = turn.stream(source, ahead=ahead)
        next(items)
        turn.cancel()
        for _ in range(3):
            try:
                next(items)
            except BaseException as error:
                swallowed.append(error)

    assert [CancelledError] * 3 == [type(e) for e in swallowed]
    assert ("cancelled", 1) == (turn.outcome, only_activity(turn).given)


def test_return_in_finally_does_not_save_the_loop() -> None:
    """Whatever the body of the loop does with the stop, the turn ends cancelled."""
    with turnctl.turn() as turn:

        def body() -> str:
            try:
                for _ in turn.stream(iter([1, 2])):
                    turn.cancel()
            finally:
                return "went on"  # noqa: B012

        assert "went on" == body()
        with pytest.raises(CancelledError):
            next(turn.stream([1]))

    assert "cancelled" == turn.outcome


def test_shield_holds_the_stop_back(ahead: int) -> None:
    """Under it the loop goes through; the stop is raised at its end."""
    source = Source(*range(5))
    got: list[object] = []
    with turnctl.turn() as turn:
        with turn.shield(BOUND):
            for item in turn.stream(source, ahead=ahead):
                turn.cancel()
                got.append(item)

    assert (list(range(5)), "cancelled") == (got, turn.outcome)


def test_pause_holds_the_loop() -> None:
    """A paused turn gives no item until it is resumed."""
    with turnctl.turn() as turn:
        items = turn.stream(iter([1, 2]))
        next(items)
        turn.pause()
        waiting = Background(lambda: next(items))
        assert not until(lambda: not waiting.is_running, within=0.05)
        turn.resume()

        assert 2 == waiting.result()


def test_turn_that_ends_around_a_loop() -> None:
    """On another thread: the loop is told that its turn has ended, and never that the source has."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        looping = Background(lambda: list(turn.stream(source, lambda: (source.close(), source.gate.set()))))
        assert source.blocked.wait(BOUND)

    assert isinstance(looping.error(), TurnOver)
    assert 1 == len(source.closed)


def test_interrupted_loop_is_closed_by_its_turn() -> None:
    """Ctrl-C reaches a main thread that waits for an item; the source is closed and its thread ends."""
    source = Source(1, blocks=True)
    with ctrl_c_once(source.blocked):
        with pytest.raises(KeyboardInterrupt):
            with turnctl.turn(grace=60) as turn:
                list(turn.stream(source, source.shut))

    assert ("cancelled", 1, "ended") == (turn.outcome, len(source.closed), turn.report.execution)


def test_stream_of_a_turn_that_is_over_is_refused() -> None:
    """``TurnOver``, and the source is left to its owner."""
    source = Source(1)
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.stream(source)

    assert (0, []) == (source.asked, source.closed)


def test_generator_ends_by_its_own_checkpoint() -> None:
    """A generator that waits in turnctl is woken by the stop itself, and its clean-up runs on its thread."""
    log: list[str] = []
    inside = threading.Event()

    def source() -> Iterator[int]:
        try:
            yield 1
            inside.set()
            turnctl.sleep(60)
        finally:
            log.append(threading.current_thread().name.split("-")[0])

    with turnctl.turn(grace=60) as turn:
        looping = Background(lambda: list(turn.stream(source())))
        assert inside.wait(BOUND)
        turn.cancel()

        assert isinstance(looping.error(), CancelledError)
    assert ["turnctl"] == log
    assert "cancelled" == only_activity(turn).state


def test_dropped_while_next_is_blocked() -> None:
    """A stream that nobody holds closes its source at once if it can, and its thread ends."""
    source = Source(1, blocks=True)
    with turnctl.turn() as turn:
        items = turn.stream(source, source.shut)
        next(items)
        assert source.blocked.wait(BOUND)
        del items

        assert 1 == len(source.closed)
        assert until(lambda: not turn.report.open_activities)
    record = only_activity(turn)
    assert "completed" == record.state
    assert str(record.detail).startswith("left before its end; ")
    assert str(record.detail).endswith("; the source then raised ConnectionError: cut")


def test_never_started_stream_is_closed() -> None:
    """One that is made and forgotten, or made and left to the turn."""
    for hold, ahead in itertools.product((True, False), (0, 256)):
        source = Source(1)
        with turnctl.turn() as turn:
            items = turn.stream(source, ahead=ahead)
            if not hold:
                del items
                assert 1 == len(source.closed)

        assert (0, 1) == (source.asked, len(source.closed))
        assert "never asked for an item" == only_activity(turn).detail


def test_stop_while_the_reader_is_ahead() -> None:
    """A reader that waits for room is woken by the stop and closes the source before the loop is told."""
    source = Source(*range(10))
    with turnctl.turn() as turn:
        items = turn.stream(source, ahead=2)
        next(items)
        assert is_parked(items._feed.space)
        turn.cancel()
        with pytest.raises(CancelledError):
            next(items)

        assert 1 == len(source.closed)
    assert source.asked <= 4


def test_thread_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop gets the error, and the source is closed."""
    source = Source(1)

    def refuse(self: object) -> None:
        raise RuntimeError("can't start new thread")

    with turnctl.turn() as turn:
        items = turn.stream(source)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BlockingIOError, match="no thread is to be had"):
            next(items)
        monkeypatch.undo()

    assert 1 == len(source.closed)
    assert "failed" == only_activity(turn).state


def test_stops_at_every_moment() -> None:
    """Whenever the stop falls, the loop gets a prefix, the source is closed once, nothing is left."""
    for round_ in range(150):
        source = Source(*range(5000))
        got: list[object] = []
        with turnctl.turn(grace=60) as turn:
            stopper = threading.Timer(0.0001 * (round_ % 30), turn.cancel)
            stopper.start()
            try:
                for item in turn.stream(source, source.close if round_ % 2 else None):
                    got.append(item)
            finally:
                stopper.join()

        record = only_activity(turn)
        assert list(range(len(got))) == got
        assert (len(got), got) == (record.given, list(record.received[: record.given]))
        assert until(lambda s=source: s.closed)  # type: ignore[misc]
        assert 1 == len(source.closed)
        assert "ended" == turn.report.execution


def test_ready_source_costs_little() -> None:
    """An item that is ready costs about a microsecond at most; ten times that is a fault."""

    def numbers() -> Iterator[int]:
        yield from range(50_000)

    def loop(make: Callable[[], Any]) -> float:
        begun = time.perf_counter()
        for _ in make():
            pass
        return time.perf_counter() - begun

    with turnctl.turn() as turn:
        took = min(loop(lambda: turn.stream(numbers())) for _ in range(3))

    assert took / 50_000 < 10e-6


def test_blocked_loop_that_asks_itself_wakes_by_close() -> None:
    """With ``ahead=0`` nobody else could unblock the source: the stop calls ``close``, whose error is the cause."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        looping = Background(lambda: list(turn.stream(source, source.shut, ahead=0)))
        assert source.blocked.wait(BOUND)
        turn.cancel()
        error = looping.error()

        assert isinstance(error, CancelledError)
        assert "ConnectionError('cut')" == repr(error.__cause__)
    record = only_activity(turn)
    assert ("cancelled", (1,), 1) == (record.state, record.received, len(source.closed))


@pytest.mark.parametrize("items", [[], [1], list(range(256)), list(range(257)), list(range(1000)), "text", {1: 2}])
def test_ready_thing_is_given_whole(items: Any) -> None:
    """Whatever its length, and stopped in the middle it gives no more."""
    with turnctl.turn() as turn:
        assert list(items) == list(turn.stream(items))
        for count, _ in enumerate(turn.stream(items)):
            if count == 300:
                turn.cancel()

    whole, cut = turn.report.activities
    assert ("completed", tuple(items)) == (whole.state, whole.received)
    assert (("cancelled", 301) if len(items) > 300 else ("completed", len(items))) == (cut.state, cut.given)


# -- closed by somebody else ------------------------------------------------------------------------------------------


def test_error_of_a_source_that_was_left_is_no_failure() -> None:
    """A loop that is left closes its source, which raises by that: it was left, and what it raised is kept."""
    source = Source(1, 2, blocks=True)
    with turnctl.turn(grace=60) as turn:
        with turn.stream(source, source.shut) as items:
            for item in items:
                if item == 2:
                    assert source.blocked.wait(BOUND)
                    break

    record = only_activity(turn)
    expected = "left before its end; 2 received; the source then raised ConnectionError: cut"
    assert ("completed", expected, "ended") == (record.state, record.detail, turn.report.execution)


def test_loop_that_another_thread_closes_ends(ahead: int) -> None:
    """``close`` from elsewhere unblocks ``next``; the loop just ends, whatever the source raises by it."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(source, source.shut, ahead=ahead)
        looping = Background(lambda: list(items))
        assert source.blocked.wait(BOUND)
        assert until(lambda: only_activity(turn).given == 1)
        items.close()

        assert [1] == looping.result()
        assert 1 == len(source.closed)
    assert "completed" == only_activity(turn).state
    assert "left before its end; 1 received" in str(only_activity(turn).detail)


def test_loop_that_another_thread_closes_waits_for_nothing() -> None:
    """Without a ``close`` that unblocks the source the loop ends all the same; the source is closed later."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(source)
        looping = Background(lambda: list(items))
        assert source.blocked.wait(BOUND)
        assert until(lambda: only_activity(turn).given == 1)
        items.close()

        assert [1] == looping.result()
        assert [] == source.closed
        source.gate.set()
    assert 1 == len(source.closed)


def test_turn_that_ends_unblocks_its_loop(ahead: int) -> None:
    """The end of the turn closes the source; the loop on another thread gets ``TurnOver``, from the source's error."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        looping = Background(lambda: list(turn.stream(source, source.shut, ahead=ahead)))
        assert source.blocked.wait(BOUND)
    error = looping.error()

    assert isinstance(error, TurnOver)
    assert "ConnectionError('cut')" == repr(error.__cause__)
    assert (1, "ended") == (len(source.closed), turn.report.execution)


@pytest.mark.parametrize("closes", [True, False])
def test_turn_that_ends_around_a_source_that_does_not_come_back(ahead: int, closes: bool) -> None:
    """It is named; a loop beside a reader is told all the same."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=0.05) as turn:
        looping = Background(
            lambda: list(turn.stream(source, (lambda: source.closed.append(1)) if closes else None, ahead=ahead))
        )
        assert source.blocked.wait(BOUND)
        assert until(lambda: only_activity(turn).given == 1)
    alive = turn.report.alive
    if ahead:
        assert isinstance(looping.error(), TurnOver)
    source.gate.set()

    assert isinstance(looping.error(), TurnOver)
    assert "Source" in alive[0]
    assert "abandoned" == only_activity(turn).state
    assert until(lambda: turn.report.alive == ())
    assert 1 == len(source.closed)


def test_next_that_begins_as_the_stream_is_closed() -> None:
    """With ``ahead=0``: closed before it has begun, the source is not asked; there is no moment in between."""
    for round_ in range(200):
        source = Source(blocks=True)
        with turnctl.turn(grace=60) as turn:
            items = turn.stream(source, source.shut, ahead=0)
            looping = Background(lambda items=items: list(items))  # type: ignore[misc]
            if round_ % 2:
                time.sleep(0.0001 * (round_ % 7))
            items.close()

            assert [] == looping.result()
            assert 1 == len(source.closed)


def test_next_is_not_begun_on_a_closed_source() -> None:
    """With ``ahead=0``: closed by another thread as ``next`` is on its way to the source, which it then never asks."""
    source = Source(1, 2)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(source, source.shut, ahead=0)
        assert 1 == next(items)
        with call_at("stream.asking", lambda: Background(items.close).result()):
            assert [] == list(items)

    assert (1, 1) == (source.asked, len(source.closed))


def test_strike_between_the_claim_and_the_close() -> None:
    """A Ctrl-C as the thread that closes is about to start leaves the close to whoever comes next."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(source, source.shut)
        next(items)
        assert source.blocked.wait(BOUND)
        with call_at("stream.closing", lambda: (_ for _ in ()).throw(KeyboardInterrupt)):
            with pytest.raises(KeyboardInterrupt):
                items.close()
        assert [] == source.closed
        items.close()

        assert 1 == len(source.closed)


@pytest.mark.parametrize("way", ["break", "close", "exhaustion"])
def test_generator_that_is_deaf_is_closed_once(ahead: int, way: str) -> None:
    """One that goes on after ``GeneratorExit`` is told once, and the report says so."""
    told: list[int] = []

    def source() -> Iterator[int]:
        number = 0
        while number < 600:
            try:
                yield number
            except GeneratorExit:
                told.append(number)
                if len(told) == 2:
                    return  # by the collector, when the test is over
            number += 1

    made = source()
    with turnctl.turn() as turn:
        with turn.stream(made, ahead=ahead) as items:
            for number in items:
                if number == 3 and way == "break":
                    break
                if number == 3 and way == "close":
                    items.close()

    assert (0 if way == "exhaustion" else 1) == len(told)
    notes = [note for note in turn.report.notes if "ignored GeneratorExit" in note]
    assert len(told) == len(notes)


# -- two at once, and forks -------------------------------------------------------------------------------------------


def test_two_threads_at_once_are_refused(ahead: int) -> None:
    """While one waits for an item the other gets an error, and takes nothing from it."""
    source = Source(1, blocks=True)
    with turnctl.turn(grace=60) as turn:
        items = turn.stream(source, source.shut, ahead=ahead)
        assert 1 == next(items)
        looping = Background(lambda: next(items, "over"))
        assert source.blocked.wait(BOUND)
        assert until(lambda: items._busy)
        with pytest.raises(RuntimeError, match="stream Source is being asked for an item already; it serves one loop"):
            next(items)
        items.close()

        assert "over" == looping.result(within=BOUND / 2)  # the source was cut by its close, not by its own time


@pytest.mark.switchinterval
def test_two_threads_never_get_the_same_item() -> None:
    """Whatever happens, each item is given to one of them."""
    with turnctl.turn() as turn:
        items = turn.stream(iter(range(20000)))
        found: list[list[int]] = [[], []]

        def take(into: list[int]) -> None:
            while True:
                try:
                    into.append(next(items))
                except StopIteration:
                    return
                except RuntimeError:
                    time.sleep(0)

        takers = [Background(take, one) for one in found]
        for taker in takers:
            taker.result()

    assert list(range(20000)) == sorted(found[0] + found[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # beside a thread, which is what is tested
@pytest.mark.parametrize("how", ["next", "close", "drop"])
def test_forked_child_leaves_the_stream_alone(ahead: int, how: str) -> None:
    """In the child it raises, and neither closing nor dropping it touches the source; in the parent it goes on."""
    source = Source(*range(20))
    read, write = os.pipe()
    with turnctl.turn() as turn:
        items: Any = turn.stream(source, lambda: os.write(write, b"closed "), ahead=ahead)
        assert (0, 1) == (next(items), next(items))
        pid = os.fork()
        if pid == 0:  # pragma: no cover - in the child
            try:
                if how == "next":
                    next(items)
                elif how == "close":
                    items.close()
                    list(items)
                del items
                gc.collect(0)
            except RuntimeError as error:
                os.write(write, str(error)[:45].encode())
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        rest = list(items)
    os.close(write)
    with open(read, "rb") as file:
        said = file.read()

    assert list(range(2, 20)) == rest
    expected = b"" if how == "drop" else b"stream Source belongs to the process that thi"
    assert expected + b"closed " == said or said == b"closed " + expected
