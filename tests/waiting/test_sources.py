"""The source of a stream: one that is a context manager is entered by who asks it, and left once on every way out."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError
from turnctl.waiting.stream import stream


class Manager:
    """Gives what it is told to when it is entered; knows who entered and left it, and with what."""

    def __init__(self, gives: Any = (1, 2, 3), *, fails: BaseException | None = None, blocks: bool = False) -> None:
        self.gives = gives
        self.fails = fails
        self.gate = threading.Event()
        self.blocks = blocks
        self.inside = threading.Event()
        self.entered: list[int] = []
        self.left: list[tuple[int, BaseException | None]] = []

    def __enter__(self) -> Any:
        self.entered.append(threading.get_ident())
        self.inside.set()
        if self.blocks:
            assert self.gate.wait(BOUND)
        if self.fails is not None:
            raise self.fails
        return self.gives

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.left.append((threading.get_ident(), error))


@pytest.fixture(params=["read by a thread", "read by the loop", "without a turn"])
def how(request: pytest.FixtureRequest) -> str:
    """Every way of reading."""
    return str(request.param)


def streamed(how: str, source: Any, close: Any = None) -> Any:
    turn = None if how == "without a turn" else turnctl.current_turn()
    return stream(turn, source, close, ahead=0 if how == "read by the loop" else 256)


def threads_of(manager: Manager) -> tuple[list[int], list[int]]:
    return manager.entered, [one for one, _ in manager.left]


def test_manager_is_entered_asked_and_left(how: str) -> None:
    """Once each, on one thread, and not before the first item is asked for."""
    manager = Manager()
    with turnctl.turn():
        items = streamed(how, manager)
        before = list(manager.entered)
        found = list(items)

    assert ([], [1, 2, 3]) == (before, found)
    entered, left = threads_of(manager)
    assert 1 == len(entered)
    assert entered == left
    assert (how == "read by a thread") == (entered != [threading.get_ident()])


@pytest.mark.parametrize("way", ["break", "exception", "close", "collected"])
def test_manager_is_left_once_on_each_way_out(how: str, way: str) -> None:
    """Also where the loop does not come to the end."""
    manager = Manager(iter(range(1000)))
    with turnctl.turn():
        items = streamed(how, manager)
        next(items)
        if way == "close":
            items.close()
        elif way == "exception":
            with pytest.raises(KeyError), items:
                raise KeyError
        elif way == "break":
            for _ in items:
                break
        del items
        gc.collect(1)

        assert until(lambda: manager.left)
    assert 1 == len(manager.left)


def test_manager_that_is_never_asked_is_never_entered(how: str) -> None:
    """So there is nothing to leave."""
    manager = Manager()
    with turnctl.turn():
        streamed(how, manager).close()

    assert ([], []) == (manager.entered, manager.left)


def test_stopped_turn_enters_nothing() -> None:
    """Stop, then the first item: no request is made."""
    manager = Manager()
    with turnctl.turn() as turn:
        items = turn.stream(manager)
        turn.cancel()
        with pytest.raises(CancelledError):
            next(items)

    assert ([], []) == (manager.entered, manager.left)


def test_manager_is_told_what_its_items_raised(how: str) -> None:
    """As ``with`` would; the loop gets the error too."""

    def fails() -> Iterator[int]:
        yield 1
        raise KeyError("gone")

    manager = Manager(fails())
    with turnctl.turn():
        with pytest.raises(KeyError) as caught:
            list(streamed(how, manager))

    assert [caught.value] == [error for _, error in manager.left]


def test_manager_that_cannot_be_entered_is_not_left(how: str) -> None:
    """What entering raises reaches the loop."""
    manager = Manager(fails=ConnectionError("refused"))
    with turnctl.turn() as turn:
        with pytest.raises(ConnectionError, match="refused"):
            list(streamed(how, manager))

    assert [] == manager.left
    assert ["failed"] * (how != "without a turn") == [one.state for one in turn.report.activities]


def test_manager_that_gives_nothing_to_iterate_over_is_left(how: str) -> None:
    """The misuse is told, with what to do for a response."""

    class Response:
        def iter_lines(self) -> None:
            """As a response has it."""

        def __repr__(self) -> str:
            return "<Response [200 OK]>"

    manager = Manager(Response())
    with turnctl.turn():
        with pytest.raises(BadArgument) as caught:
            list(streamed(how, manager))

    assert 1 == len(manager.left)
    assert (
        "stream() entered Manager, which gave nothing to iterate over: <Response [200 OK]>; give it the iter_lines() "
        "or iter_bytes() of that, in a with block of your own"
    ) == str(caught.value)


def test_generator_manager_of_the_host(how: str) -> None:
    """One made by ``contextmanager`` runs its clean-up once, on the thread that entered it."""
    log: list[object] = []

    @contextmanager
    def opened() -> Iterator[Iterator[int]]:
        log.append(threading.get_ident())
        try:
            yield iter((1, 2))
        finally:
            log.append(threading.get_ident())

    with turnctl.turn():
        assert [1, 2] == list(streamed(how, opened()))

    assert 2 == len(log)
    assert log[0] == log[1]


def test_given_close_unblocks_and_the_manager_is_left(how: str) -> None:
    """Each once."""
    manager = Manager()
    closed: list[int] = []
    with turnctl.turn():
        found = list(streamed(how, manager, lambda: closed.append(1)))

    assert ([1, 2, 3], [1], 1) == (found, closed, len(manager.left))


def test_stop_frees_a_loop_whose_manager_is_being_entered() -> None:
    """The request that is still under way is left to its thread, which leaves the manager when it is back."""
    manager = Manager(blocks=True)
    with turnctl.turn(grace=0.01) as turn:
        looping = Background(list, turn.stream(manager))
        assert manager.inside.wait(BOUND)
        turn.stop("enough")

        assert isinstance(looping.error(), CancelledError)
    assert "abandoned" == turn.report.activities[0].state
    manager.gate.set()
    assert until(lambda: manager.left)


def test_exit_that_fails_is_in_the_report(how: str) -> None:
    """The loop has its items all the same."""

    class Broken(Manager):
        def __exit__(self, *_: object) -> None:
            super().__exit__(None, None, None)
            raise OSError("no end")

    with turnctl.turn() as turn:
        assert [1, 2, 3] == list(streamed(how, Broken()))

    notes = [note for note in turn.report.notes if "OSError: no end" in note]
    assert (how != "without a turn") == bool(notes)


def test_asynchronous_source_is_told_where_to_go() -> None:
    """It cannot be read here."""

    class Later:
        def __aiter__(self) -> None:
            """As an asynchronous stream has it."""

    with turnctl.turn() as turn, pytest.raises(BadArgument, match="it is asynchronous: read it in a coroutine"):
        turn.stream(Later())  # type: ignore[arg-type]
