"""One thread that does the work while its beginner waits: each row of its table in 10n."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from interrupts import every_place
from standins import BOUND, Background, ctrl_c_once, until

import turnctl
from turnctl.testing import pause_at
from turnctl.tokens.sites import site_of
from turnctl.waiting import abandoned
from turnctl.waiting.driving import Driver

SHORT_S = 0.02


class Held:
    """A function that blocks until it is let go, and says when it is in there."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.gate = threading.Event()

    def __call__(self) -> str:
        self.inside.set()
        assert self.gate.wait(BOUND)
        return "late"


@pytest.fixture
def held() -> Iterator[Held]:
    """One, which is let go at the end of the test at the latest."""
    made = Held()
    yield made
    made.gate.set()
    assert until(lambda: not abandoned.count())


def driven(work: Callable[[Driver], Any], **options: Any) -> tuple[turnctl.Turn, Driver, Any]:
    """What a turn came to whose work was done by a driver: the turn, the driver, and what work gave."""
    got: Any = None
    with turnctl.turn(**options) as turn:
        driver = Driver(turn, "work")
        got = driver.drive(lambda: work(driver))
    return turn, driver, got


def short() -> float:
    return SHORT_S


def long() -> None:
    return None


# -- without a stop ---------------------------------------------------------------------------------------------------


def test_work_and_its_calls_share_one_thread() -> None:
    """What is called in it runs on the thread of the work, which is not the caller's; what work gives comes out."""

    def work(driver: Driver) -> list[int]:
        assert driver.is_here
        return [threading.get_ident(), *(driver.call(threading.get_ident, ()) for _ in range(3))]

    turn, driver, idents = driven(work)

    assert 1 == len(set(idents))
    assert threading.get_ident() not in idents
    assert not driver.is_here
    assert [("call", "completed")] * 3 == [(one.kind, one.state) for one in turn.report.activities]


def test_errors_come_out_where_they_belong() -> None:
    """A function's error is raised by its call, the work's by ``drive``, with the lines that they came from."""

    def work(driver: Driver) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            driver.call(int, ("x",))
        raise LookupError("of the work")

    with pytest.raises(LookupError, match="of the work") as caught, turnctl.turn() as turn:
        driver = Driver(turn, "work")
        driver.drive(lambda: work(driver))

    assert "failed" == turn.report.outcome
    assert any("work" == one.name for one in caught.traceback)
    assert ["failed"] == [one.state for one in turn.report.activities]


def test_work_counts_as_done_where_it_was_begun() -> None:
    """A checkpoint of the work is told by the line that began it, since that is the user's; other threads are not."""
    site = site_of(sys._getframe())
    assert site is not None
    _, _, got = driven(lambda _: site_of(sys._getframe(2)))

    assert (site[0], "driven") == (got[0], got[2])


def test_a_thread_that_cannot_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no thread to be had nothing is begun, and the error says so."""
    begun: list[int] = []

    def refuses(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuses)
    with pytest.raises(BlockingIOError, match="work: no thread is to be had"):
        driven(lambda _: begun.append(1))

    assert [] == begun


# -- a stop -----------------------------------------------------------------------------------------------------------


def stopped(held: Held, patience: Any, then: Callable[[turnctl.Turn], object], **options: Any) -> Any:
    """Work that stands in a function when ``then`` is called from elsewhere: the turn, its driver, what went on."""
    went_on: list[Any] = []
    turns: list[turnctl.Turn] = []

    def work(driver: Driver) -> None:
        turns.append(driver._turn)
        try:
            driver.call(held, (), patience=patience)
        except turnctl.CancelledError as error:
            went_on.append(None if error.late is None else error.late.value)
            raise
        went_on.append("not stopped")

    def stop() -> None:
        assert held.inside.wait(BOUND)
        then(turns[0])

    stopping = Background(stop)
    turn, driver, _ = driven(work, **options)
    stopping.result()
    return turn, driver, went_on


def test_function_that_comes_back_in_time_is_evidence(held: Held) -> None:
    """Within its time its value is kept as late, and the work's own thread ends the work."""

    with pause_at("call.ending") as ending:

        def then(turn: turnctl.Turn) -> None:
            turn.cancel("enough")
            assert ending.reached.wait(BOUND)  # it is being ended
            held.gate.set()
            ending.release()

        turn, driver, went_on = stopped(held, long, then)

    assert ("cancelled", False, ["late"]) == (turn.report.outcome, driver.is_left, went_on)
    assert ["cancelled"] == [one.state for one in turn.report.activities]


def test_function_that_does_not_come_back_is_left(held: Held) -> None:
    """Its time over, who waits goes on; the thread does nothing more of the work when the function comes back."""
    turn, driver, went_on = stopped(held, short, lambda turn: turn.cancel("enough"), grace=BOUND)

    assert ("cancelled", True, []) == (turn.report.outcome, driver.is_left, went_on)
    (found,) = turn.report.activities
    assert ("abandoned", True) == (found.state, "left behind" in str(found.detail))
    assert 1 == abandoned.count()
    held.gate.set()
    assert until(lambda: not abandoned.count())
    assert until(lambda: not any("work" in one.name for one in threading.enumerate()))
    assert [] == went_on


def test_the_first_of_back_and_left_decides(held: Held) -> None:
    """A function that is back just before it would have been left goes on, and ends the work by itself."""
    going_on = threading.Event()
    with pause_at("driver.leaving") as leaving, pause_at("call.looking") as back:

        def then(turn: turnctl.Turn) -> None:
            turn.cancel("enough")
            assert leaving.reached.wait(BOUND)
            held.gate.set()
            assert back.reached.wait(BOUND)
            leaving.release()
            back.release()
            going_on.set()

        turn, driver, went_on = stopped(held, short, then, grace=BOUND)

    assert going_on.is_set()
    assert ("cancelled", False, ["late"]) == (turn.report.outcome, driver.is_left, went_on)


def test_one_that_was_left_at_the_last_moment_does_nothing(held: Held) -> None:
    """The other order: it was left, and comes back before anybody knows; its thread goes on with nothing."""
    with pause_at("worker.ended") as ended:
        turn, driver, went_on = stopped(held, short, lambda turn: turn.cancel("enough"), grace=BOUND)
        held.gate.set()
        assert ended.reached.wait(BOUND)
        ended.release()

    assert until(lambda: not any("work" in one.name for one in threading.enumerate()))
    assert ("cancelled", True, []) == (turn.report.outcome, driver.is_left, went_on)


def test_next_function_is_not_begun_after_the_stop(held: Held) -> None:
    """Work that swallows a stop begins nothing more, and is not left while it does things of its own."""
    begun: list[int] = []

    def work(driver: Driver) -> str:
        for _ in range(3):
            with contextlib.suppress(turnctl.CancelledError):
                driver.call(held, (), patience=long)
            with contextlib.suppress(turnctl.CancelledError):
                driver.call(begun.append, (1,), patience=long)
        return "through"

    turns: list[turnctl.Turn] = []

    def then() -> None:
        assert held.inside.wait(BOUND)
        turns[0].cancel("enough")
        held.gate.set()

    stopping = Background(then)
    with turnctl.turn() as turn:
        turns.append(turn)
        driver = Driver(turn, "work")
        got = driver.drive(lambda: work(driver))
    stopping.result()

    assert ("through", [], False) == (got, begun, driver.is_left)


# -- an exception that strikes the one who waits ----------------------------------------------------------------------


def test_ctrl_c_is_a_stop_and_is_kept(held: Held) -> None:
    """The one who waits is struck: the turn is stopped by the signal, within its bounds, and the strike is in hand."""
    with ctrl_c_once(held.inside):
        turn, driver, _ = driven(lambda driver: driver.call(held, (), patience=short), grace=BOUND)

    assert isinstance(driver.struck, KeyboardInterrupt)
    assert ("cancelled", "signal", "KeyboardInterrupt") == (
        turn.report.outcome,
        turn.token.record.cause,
        turn.token.record.reason,
    )


def test_second_strike_ends_the_grace(held: Held) -> None:
    """What has the whole grace is left at once when the one who waits is struck again; the first strike is kept."""
    again = threading.Event()

    def second() -> None:
        with pause_at("call.ending") as ending:
            again.set()
            assert ending.reached.wait(BOUND)
            turns[0].cancel("no more", level="kill")

    turns: list[turnctl.Turn] = []
    ending = Background(second)
    assert again.wait(BOUND)

    def work(driver: Driver) -> None:
        turns.append(driver._turn)
        driver.call(held, ())

    with ctrl_c_once(held.inside):
        turn, driver, _ = driven(work, grace=BOUND)
    ending.result()

    assert ("cancelled", True) == (turn.report.outcome, driver.is_left)
    driver._strike(SystemExit(1))
    assert isinstance(driver.struck, KeyboardInterrupt)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError])
def test_strike_anywhere_in_the_waiting(error: type[BaseException]) -> None:
    """Wherever the one who waits is struck, the work has ended or is left when ``drive`` is out, and never runs on."""
    step = 1
    for strike in every_place(lambda: _raise(error), step=step):
        working: list[str] = []

        def work(driver: Driver, working: list[str] = working) -> str:
            working.append("begun")
            try:
                return str(driver.call(str, ("value",)))
            finally:
                working.append("ended")

        with contextlib.suppress(error), turnctl.turn() as turn:
            driver = Driver(turn, "work")
            strike.run(lambda driver=driver, work=work: driver.drive(lambda: work(driver)))
        assert len(working) in (0, 2), strike.struck_in
        assert driver._has_ended or driver.is_left or not working, strike.struck_in
        assert until(lambda: not any("turnctl-work" in one.name for one in threading.enumerate())), strike.struck_in


def test_strike_between_two_rounds_of_the_waiting(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes while the first is being taken is no way out: the function is left, and both are a stop.

    Python runs a handler at the jump back of a loop, which is behind the ``try`` in it.
    """
    see_to = Driver._see_to
    monkeypatch.setattr(Driver, "_see_to", lambda driver, thread: firsts.pop()() if firsts else see_to(driver, thread))
    firsts: list[Callable[[], object]] = []

    def first() -> None:
        assert held.inside.wait(BOUND)
        raise KeyboardInterrupt

    places = 0
    for strike in every_place(lambda: _raise(KeyboardInterrupt), within=(Driver._see_through.__code__,)):
        firsts.append(first)
        drivers: list[Driver] = []

        def work(driver: Driver, drivers: list[Driver] = drivers) -> None:
            drivers.append(driver)
            driver.call(held, (), patience=short)

        try:
            turn, driver, _ = strike.run(lambda work=work: driven(work, grace=BOUND))  # type: ignore[misc]
        except KeyboardInterrupt:
            pytest.fail(f"it passed out: {strike.struck_in}")
        places += 1

        assert ("cancelled", "signal", True) == (turn.report.outcome, turn.cause, driver.is_left), strike.struck_in
        assert ["abandoned"] == [one.state for one in turn.report.activities], strike.struck_in
        held.gate.set()
        assert until(lambda: not abandoned.count())
        held.gate.clear()
        held.inside.clear()
    assert places > 20


def test_function_that_is_back_and_not_entered_is_not_left(held: Held) -> None:
    """Its time is over while its thread is between the two: who waits asks, waits on, and is struck by no error."""
    drivers: list[Driver] = []
    with pause_at("driver.back") as back, pause_at("call.ending") as ending:

        def then(turn: turnctl.Turn) -> None:
            turn.cancel("enough")
            assert ending.reached.wait(BOUND)
            held.gate.set()
            assert back.reached.wait(BOUND)
            ending.release()
            assert until(lambda: bool(drivers[0]._watchers))  # it was asked, and waits for what is entered
            back.release()

        def work(driver: Driver) -> None:
            drivers.append(driver)
            driver.call(held, (), patience=short)

        def stop() -> None:
            assert held.inside.wait(BOUND)
            then(drivers[0]._turn)

        stopping = Background(stop)
        turn, driver, _ = driven(work)
        stopping.result()

    assert ("cancelled", False, None) == (turn.report.outcome, driver.is_left, driver.struck)
    assert ["cancelled"] == [one.state for one in turn.report.activities]


class _StruckAtLeft(list[str]):
    """A log in which the first ``left`` is entered, and then something happens, before anybody can read it."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__()
        self._then: list[Callable[[], object]] = [then]

    def append(self, entry: str) -> None:
        super().append(entry)
        if entry == "left" and self._then:
            self._then.pop()()


@pytest.mark.parametrize("is_through", [False, True])
def test_strike_as_a_function_is_left_leaves_it(held: Held, *, is_through: bool) -> None:
    """Entered as left, then struck: it stays so, although the function is back when that is looked at again."""
    with pause_at("driver.back") as back:

        def then() -> None:
            held.gate.set()
            assert back.reached.wait(BOUND)
            if is_through:
                back.release()
                assert until(lambda: drivers[0]._has_ended)
            raise KeyboardInterrupt

        drivers: list[Driver] = []

        def work(driver: Driver) -> None:
            drivers.append(driver)
            driver.call(held, (), patience=short)

        def stop() -> None:
            assert held.inside.wait(BOUND)
            call = drivers[0]._call
            assert call is not None
            call.fate = _StruckAtLeft(then)
            drivers[0]._turn.cancel("enough")

        stopping = Background(stop)
        with turnctl.turn(grace=BOUND) as turn:
            driver = Driver(turn, "work")
            with pytest.raises(turnctl.CancelledError):
                driver.drive(lambda: work(driver))
        stopping.result()
        back.release()

    assert ("cancelled", True) == (turn.report.outcome, driver.is_left)
    assert isinstance(driver.struck, KeyboardInterrupt)


def _raise(error: type[BaseException]) -> None:
    raise error


# -- a process that a function forks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ends", "status", "said"),
    [
        (lambda: "value", 0, ""),
        (lambda: sys.exit(3), 3, ""),
        (lambda: sys.exit("no"), 1, "no\n"),
        (lambda: int("x"), 1, "ValueError"),
    ],
)
def test_work_does_not_go_on_in_a_fork(
    ends: Callable[[], Any], status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A function that forks and comes back twice: the fork ends there, as a program does, the work is done once."""
    here, forks = os.getpid(), []

    def forking() -> Any:
        pid = os.fork()
        if pid:
            forks.append(pid)
            return "parent"
        return ends()

    def work(driver: Driver) -> str:
        got = str(driver.call(forking, ()))
        assert os.getpid() == here, os.write(2, b"the work goes on in the fork")
        return got

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        turn, _, got = driven(work)

    assert ("parent", "completed") == (got, turn.report.outcome)
    _, ended = os.waitpid(forks[0], 0)
    assert status == os.waitstatus_to_exitcode(ended)
    err = capfd.readouterr().err
    assert said in err
    assert "goes on" not in err


# -- a turn that is ended by somebody else ----------------------------------------------------------------------------


def test_turn_that_is_ended_elsewhere_ends_the_wait(held: Held) -> None:
    """Who waits goes on when the turn is over, and leaves a function behind that has not come back by then."""
    turns: list[turnctl.Turn] = []

    def end() -> None:
        assert held.inside.wait(BOUND)
        turns[0].end()

    def work(driver: Driver) -> None:
        turns.append(driver._turn)
        driver.call(held, (), patience=short)

    ending = Background(end)
    with pytest.raises(turnctl.TurnOver, match="ended while its work ran"):
        driven(work)
    ending.result()

    (found,) = turns[0].report.activities
    assert "abandoned" == found.state
