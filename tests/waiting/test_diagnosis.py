"""``diagnose`` says what was seen of a stop: who swallowed it and where, how late it was met, what still runs."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from standins import BOUND, Background, Thing, own, until

import turnctl
from turnctl import BadArgument, CancelledError, CancelToken
from turnctl.records.diagnosis import Diagnosis
from turnctl.testing import FakeClock
from turnctl.tokens.swallowing import swallowed_in_words


def place(fn: Callable[..., Any], mark: str) -> str:
    """The place of the line of ``fn`` that has that comment."""
    lines, first = inspect.getsourcelines(fn)
    (at,) = [n for n, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")]
    return f"{inspect.getsourcefile(fn)}:{first + at} in {fn.__name__}"


# -- what swallows, each followed by one more checkpoint ------------------------------------------------------------


def bare_except(turn: turnctl.Turn) -> None:
    try:
        turn.check()  # raised
    except:  # noqa: E722  # swallowed
        pass
    turn.check()  # next


def return_in_finally(turn: turnctl.Turn) -> None:
    def tool() -> str:
        try:
            turn.sleep(0)
        finally:
            return "error"  # noqa: B012

    tool()
    turn.check()  # next


def loop_that_goes_on(turn: turnctl.Turn) -> None:
    for _ in range(3):
        try:
            turn.check()  # next
        except BaseException:  # swallowed
            continue
    turn.check()


def suppressed(turn: turnctl.Turn) -> None:
    with contextlib.suppress(BaseException):  # swallowed
        turn.check()  # raised
    turn.check()  # next


def named(turn: turnctl.Turn) -> None:
    try:
        try:
            turn.check()  # raised
        except (ValueError, Exception):
            pass
        finally:
            str(turn)
    except (KeyError, turnctl.CancelledError):  # swallowed
        str(turn)
    turn.check()  # next


def raised_again_within(turn: turnctl.Turn) -> None:
    try:
        try:
            turn.check()  # raised
        except BaseException:
            str(turn)
            raise
    except BaseException:  # swallowed
        pass
    turn.check()  # next


def generator_that_goes_on(turn: turnctl.Turn) -> None:
    def items() -> Any:
        while True:
            try:
                turn.check()
                yield 1
            except BaseException:
                yield 2

    given = items()
    next(given)
    next(given)


SWALLOWING = [
    bare_except,
    return_in_finally,
    loop_that_goes_on,
    suppressed,
    named,
    raised_again_within,
    generator_that_goes_on,
]


def stopped(body: Callable[[turnctl.Turn], object]) -> turnctl.Turn:
    """A turn that was stopped before its body began."""
    with turnctl.turn() as turn:
        turn.cancel("enough")
        body(turn)
    return turn


def by_a_variable(turn: turnctl.Turn) -> None:
    caught = (OSError, BaseException)
    try:
        turn.check()
    except caught:
        pass
    turn.check()


def test_who_catches_by_a_variable_is_not_guessed() -> None:
    """What is computed at run time is not read from the source: found, and by whom is not told."""
    (found,) = stopped(by_a_variable).diagnose().swallowed

    assert found.swallowed_at is None


class Eats:
    """A context manager whose exit takes every exception."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> bool:
        return True


def exit_on_one_line(turn: turnctl.Turn) -> None:
    with Eats(): turn.check()  # noqa: E701  # fmt: skip  # swallowed
    turn.check()  # next


def exit_of_a_class(turn: turnctl.Turn) -> None:
    with Eats():  # swallowed
        turn.check()  # raised
    turn.check()  # next


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    try:
        yield
    except BaseException:
        pass


def exit_of_a_generator(turn: turnctl.Turn) -> None:
    with quietly():  # swallowed
        turn.check()  # raised
        turn.check()
    turn.check()  # next


def exit_in_a_loop(turn: turnctl.Turn) -> None:
    for _ in range(2):
        with Eats():  # swallowed
            turn.check()  # raised, next


BY_EXIT = [exit_on_one_line, exit_of_a_class, exit_of_a_generator, exit_in_a_loop]


@pytest.mark.parametrize("body", BY_EXIT)
def test_exit_that_swallows_is_named_and_no_innocent(body: Callable[[turnctl.Turn], object]) -> None:
    """An ``except`` further out, which the exception has never come to, is not blamed (S3)."""
    with turnctl.turn() as turn:
        turn.cancel("enough")
        try:
            body(turn)
        except CancelledError:  # the innocent one
            pass
    (found,) = turn.diagnose().swallowed

    assert place(body, "swallowed") == found.swallowed_at


def kept(turn: turnctl.Turn) -> None:
    """Catches, and keeps the exception: it is still there when the next checkpoint raises."""
    held = []
    try:
        turn.check()  # raised
    except BaseException as error:  # swallowed
        held.append(error)
    turn.check()  # next


def handed_back(turn: turnctl.Turn) -> BaseException | None:
    try:
        turn.check()
    except BaseException as error:  # swallowed
        return error
    return None


def test_exception_that_lives_on_tells_who_caught_it() -> None:
    """Its traceback ends with the function that has caught it; one that was returned is not laid on the caller."""
    with turnctl.turn() as turn:
        turn.cancel("enough")
        kept(turn)
    with turnctl.turn() as other:
        other.cancel("enough")
        handed_back(other)
        other.check()

    assert [place(kept, "swallowed")] == [one.swallowed_at for one in turn.diagnose().swallowed]
    assert [place(handed_back, "swallowed")] == [one.swallowed_at for one in other.diagnose().swallowed]


def test_token_that_is_just_being_made_is_no_matter() -> None:
    """A thread may be in the midst of making a token when its stack is read."""
    go = threading.Event()

    def make() -> None:
        half = CancelToken.__new__(CancelToken)
        go.wait(BOUND)
        del half

    maker = Background(make)
    with turnctl.turn() as turn:
        assert until(lambda: maker.thread.ident is not None)
        turn.diagnose()
        go.set()
        maker.result()

    assert not maker.is_running


def test_tracing_calls_only_what_can_be_called() -> None:
    """Refused when it is asked for, not at the first checkpoint."""
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="needs a function"):
        turn.trace_checkpoints(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [*SWALLOWING, *BY_EXIT])
def test_swallowed_stop_is_found(body: Callable[[turnctl.Turn], object]) -> None:
    """Whatever eats the stop, the next checkpoint raises, the turn ends cancelled, and the diagnosis has it (P6)."""
    turn = stopped(body)

    assert "cancelled" == turn.outcome
    assert turn.diagnose().swallowed


@pytest.mark.parametrize("body", [bare_except, suppressed, named, raised_again_within])
def test_places_of_a_swallowed_stop(body: Callable[[turnctl.Turn], object]) -> None:
    """File, line and function of where it was raised, who ate it, and where the thread went on."""
    (found,) = stopped(body).diagnose().swallowed

    assert place(body, "raised") == found.raised_at
    assert place(body, "swallowed") == found.swallowed_at
    assert place(body, "next") == found.next_at
    assert (1, threading.current_thread().name) == (found.count, found.thread)


def test_swallowed_in_a_function_that_has_returned() -> None:
    """The function that ate it is named, although it is no longer there."""
    (found,) = stopped(return_in_finally).diagnose().swallowed

    assert found.swallowed_at is not None
    assert found.swallowed_at.endswith(" in tool")
    assert place(return_in_finally, "next") == found.next_at


def test_swallowed_again_and_again_is_counted() -> None:
    """A loop that eats every stop is one place with a count, in the words of a report too."""
    turn = stopped(loop_that_goes_on)
    found = turn.diagnose().swallowed

    assert 3 == sum(one.count for one in found)
    assert {place(loop_that_goes_on, "swallowed")} == {one.swallowed_at for one in found}
    assert (f"a stop was swallowed at {place(loop_that_goes_on, 'swallowed')} (3 times)",) == swallowed_in_words(
        turn.token
    )


# -- what does not swallow ------------------------------------------------------------------------------------------


def clean_up_in_finally(turn: turnctl.Turn) -> None:
    try:
        turn.check()
    finally:
        turn.check()


def clean_up_in_except(turn: turnctl.Turn) -> None:
    try:
        turn.check()
    except CancelledError:
        turn.sleep(0.01)


def clean_up_that_fails(turn: turnctl.Turn) -> None:
    try:
        try:
            turn.check()
        except CancelledError:
            raise KeyError from None
    except KeyError:
        turn.check()


def shielded(turn: turnctl.Turn) -> None:
    with contextlib.suppress(CancelledError):
        turn.check()
    with turn.shield("5s"):
        turn.sleep(0)


def last_word(turn: turnctl.Turn) -> None:
    with contextlib.suppress(CancelledError):
        turn.check()


def inner_turn(turn: turnctl.Turn) -> None:
    with turnctl.turn() as inner:
        inner.check()
    turn.check()


def inner_token(turn: turnctl.Turn) -> None:
    child = turn.child()
    child.check()


@pytest.mark.parametrize(
    "body", [clean_up_in_finally, clean_up_in_except, clean_up_that_fails, shielded, last_word, inner_turn, inner_token]
)
def test_proper_handling_is_not_called_swallowing(body: Callable[[turnctl.Turn], object]) -> None:
    """Clean-up that meets the stop again, a shield, a ``with`` that absorbs its own: none of it is held against you."""
    turn = stopped(body)

    assert () == turn.diagnose().swallowed
    assert () == swallowed_in_words(turn.token)


def test_token_that_absorbs_its_own_stop() -> None:
    """A child that was cancelled alone, and later the turn: two stops, neither swallowed."""
    with turnctl.turn() as turn:
        with turn.child() as child:
            child.cancel()
            child.check()
        turn.cancel()
        turn.check()

    assert () == turn.diagnose().swallowed


def test_stop_of_the_turn_swallowed_behind_a_child_token() -> None:
    """A turn's stop that came out of a child's ``with`` and was eaten then is found."""
    with turnctl.turn() as turn:
        turn.cancel()
        with contextlib.suppress(BaseException):
            with turn.child() as child:
                child.check()
        turn.check()

    assert 1 == len(turn.diagnose().swallowed)


def test_pool_that_keeps_the_stop_for_a_future() -> None:
    """A pool's thread that meets the stop once per piece of work has swallowed nothing."""
    with turnctl.turn() as turn, ThreadPoolExecutor(1) as pool:
        turn.cancel()
        futures = [pool.submit(turn.token.check) for _ in range(3)]

    assert [CancelledError] * 3 == [type(f.exception()) for f in futures]
    assert () == turn.diagnose().swallowed


def test_next_turn_starts_clean() -> None:
    """What a thread swallowed in one turn is not told of the next (P4)."""
    stopped(bare_except)
    turn = stopped(last_word)

    assert () == turn.diagnose().swallowed


def test_stops_of_two_turns_are_two_stops() -> None:
    """The last word of one turn and the first of another in the same thread, both going on: neither is swallowed."""
    with turnctl.turn() as outer, turnctl.turn(inherit=False) as other:
        outer.cancel()
        with contextlib.suppress(CancelledError):
            outer.check()
        other.cancel()
        other.check()

    assert ((), ()) == (outer.diagnose().swallowed, other.diagnose().swallowed)


def test_stop_in_another_thread_is_no_swallow() -> None:
    """Two threads that meet the stop once each."""
    with turnctl.turn() as turn:
        turn.cancel()
        for _ in range(2):
            assert isinstance(Background(turn.check).error(), CancelledError)

    assert () == turn.diagnose().swallowed


# -- how late ---------------------------------------------------------------------------------------------------------


def test_time_to_the_first_checkpoint(fake_clock: FakeClock) -> None:
    """From the stop to the first checkpoint that met it, and where that was; a shield's counts."""

    def body(turn: turnctl.Turn) -> None:
        with turn.shield("30s"):
            turn.check()  # first

    with turnctl.turn() as turn:
        turn.cancel()
        at = turn.token.record
        assert at is not None
        before = turn.diagnose()
        fake_clock.advance(7)
        body(turn)
    after = turn.diagnose()

    assert (None, None) == (before.first_checkpoint_s, before.first_checkpoint_at)
    assert place(body, "first") == after.first_checkpoint_at
    assert after.first_checkpoint_s is not None


def test_gaps_are_not_known_untraced() -> None:
    """No figure is made up: None, and the reason with what to do."""
    with turnctl.turn() as turn:
        turn.check()
    found = turn.diagnose()

    assert found.longest_gap is None
    assert any("turn.trace_checkpoints()" in text for text in found.unknown)


def test_longest_gap_of_a_traced_turn(fake_clock: FakeClock) -> None:
    """The longest stretch of the user's own code, with both its ends; time spent in a wait is no gap."""

    def body(turn: turnctl.Turn) -> None:
        turn.check()
        fake_clock.advance(3)
        turn.check()  # since
        fake_clock.advance(5)
        turn.sleep(0)  # until
        for _ in range(3):
            turn.check()

    with turnctl.turn() as turn:
        turn.trace_checkpoints()
        sleeper = Background(turn.wait, threading.Event(), 60)
        fake_clock.wait_for_sleepers()
        body(turn)
        fake_clock.advance(100)
        sleeper.result()
    gap = turn.diagnose().longest_gap

    assert gap is not None
    assert 5 == gap.seconds
    assert (place(body, "since"), place(body, "until")) == (gap.since, gap.until)


def test_gap_that_lasts_is_told(fake_clock: FakeClock) -> None:
    """A thread that is in one now: how long for, since where."""
    gate, inside = threading.Event(), threading.Event()

    def stuck(turn: turnctl.Turn) -> None:
        turn.check()  # since
        inside.set()
        gate.wait(BOUND)

    with turnctl.turn() as turn:
        turn.trace_checkpoints()
        thread = Background(stuck, turn)
        assert inside.wait(BOUND)
        fake_clock.advance(40)
        gap = turn.diagnose().longest_gap
        gate.set()
        thread.result()

    assert gap is not None
    assert (40, place(stuck, "since"), None) == (gap.seconds, gap.since, gap.until)


def test_wait_that_lasts_is_no_gap(fake_clock: FakeClock) -> None:
    """A thread that is blocked in a wait of ours would wake at once, so it is in no gap."""
    with turnctl.turn() as turn:
        turn.trace_checkpoints()
        sleeper = Background(turn.sleep, 60)
        fake_clock.wait_for_sleepers()
        fake_clock.advance(50)
        gap = turn.diagnose().longest_gap
        turn.cancel()
        assert isinstance(sleeper.error(), CancelledError)

    assert gap is None or gap.seconds < 50


def test_tracing_can_be_ended() -> None:
    """Afterwards nothing is measured any more; asking twice measures once."""
    with turnctl.turn() as turn:
        end = turn.trace_checkpoints()
        turn.trace_checkpoints()()
        turn.check()
        cells = turn.token._grow().cells
        during = cells["gaps"].checkpoints
        end()
        turn.check()

        assert (1, 1, {}) == (during, cells["gaps"].checkpoints, cells["tracers"])


# -- what still runs --------------------------------------------------------------------------------------------------


def test_thread_that_holds_the_turn_is_shown_where_it_stands() -> None:
    """A plain thread with the turn in a variable, blocked in foreign code: its name and its line."""
    source: queue.Queue[int] = queue.Queue()

    def tool(turn: turnctl.Turn) -> int:
        turn.check()
        return source.get()  # stands

    with turnctl.turn() as turn:
        thread = Background(tool, turn)
        assert until(lambda: any(place(tool, "stands") in s.stack for s in turn.diagnose().threads))
        turn.cancel()
        found = turn.diagnose()
        source.put(1)
        thread.result()
    (stuck,) = [s for s in found.threads if s.thread == thread.thread.name]

    assert "holds the turn" == stuck.role
    assert place(tool, "stands") in stuck.stack


def test_asking_thread_is_shown_without_the_asking() -> None:
    """The thread that asks stands where it asks."""

    def body(turn: turnctl.Turn) -> Diagnosis:
        return turn.diagnose()  # asks

    with turnctl.turn() as turn:
        found = body(turn)
    (me,) = [s for s in found.threads if s.thread == threading.current_thread().name]

    assert place(body, "asks") == me.at == me.stack[0]
    assert me.role.endswith("asks for this")


def test_thread_that_waits_for_the_stop_says_so() -> None:
    """Whoever presses Stop and waits is not taken for the work."""
    with turnctl.turn() as turn:
        stopper = Background(lambda: turn.stop(wait="5s"))
        assert until(lambda: any("waits for the turn" in s.role for s in turn.diagnose().threads))
    stopper.result()


def test_threads_that_nothing_connects_are_not_claimed() -> None:
    """A thread of the process that does not know the turn is named apart."""
    gate = threading.Event()
    other = threading.Thread(target=gate.wait, args=(BOUND,), name="somebody else")
    other.start()
    with turnctl.turn() as turn:
        found = turn.diagnose()
    gate.set()
    other.join()

    assert "somebody else" in found.others
    assert "somebody else" not in [s.thread for s in found.threads]


def test_what_the_turn_owns_is_named() -> None:
    """A thing of the turn that still runs is there until it has ended."""
    thing = Thing("server", ends="killed")
    with turnctl.turn(grace=0) as turn:
        own(turn, thing)
        during = turn.diagnose().running

    assert ("thing server",) == during
    assert () == turn.diagnose().running


# -- the record -------------------------------------------------------------------------------------------------------


def test_unstopped_turn_has_a_diagnosis() -> None:
    """It says that no stop was asked for."""
    with turnctl.turn() as turn:
        found = turn.diagnose()

    assert ("running", None, None) == (found.state, found.stopped_by, found.stop_site)
    assert "no stop was asked for" in str(found)


def test_reads_well_and_as_data() -> None:
    """People get one line per fact with file and line; machines get plain values."""
    turn = stopped(bare_except)
    found = turn.diagnose()
    text = str(found)
    plain = json.loads(json.dumps(found.as_dict()))

    assert text.startswith(f"turn {turn.turn_id}: cancelled, settled\n  stopped ")
    assert "by the user (enough)" in text
    assert f"the stop was swallowed once at {place(bare_except, 'swallowed')}, in thread" in text
    assert f"\n    raised at {place(bare_except, 'raised')}\n    and yet reached {place(bare_except, 'next')}" in text
    assert "turnctl.diagnosis/1" == plain["schema"]
    assert 1 == plain["swallowed"][0]["count"]
    assert text == plain["summary"]


def test_nothing_of_the_body_is_kept_alive() -> None:
    """A swallowed stop keeps no frame, and so nothing that the body held."""
    import weakref

    class Big:
        pass

    refs = []

    def body(turn: turnctl.Turn) -> None:
        big = Big()
        refs.append(weakref.ref(big))
        bare_except(turn)

    turn = stopped(body)

    assert [None] == [ref() for ref in refs]
    assert turn.diagnose().swallowed


def test_source_that_cannot_be_read_is_not_guessed(tmp_path: Any) -> None:
    """Without the source the places are there, and who swallowed it is not told."""
    code = (
        "def tool(turn):\n    try:\n        turn.check()\n    except BaseException:\n        pass\n    turn.check()\n"
    )
    names: dict[str, Any] = {}
    exec(compile(code, os.fspath(tmp_path / "gone.py"), "exec"), names)
    (found,) = stopped(names["tool"]).diagnose().swallowed

    assert found.swallowed_at is None
    assert found.raised_at.endswith("gone.py:3 in tool")
    assert "swallowed once somewhere" in str(stopped(names["tool"]).diagnose())


def test_diagnosis_is_quick_enough_to_ask_for() -> None:
    """It blocks on nothing: asked of a turn with ten busy threads it answers well within a second."""
    gate = threading.Event()
    with turnctl.turn() as turn:
        threads = [Background(gate.wait, BOUND) for _ in range(10)]
        begun = time.monotonic()
        turn.diagnose()
        took = time.monotonic() - begun
        gate.set()
        for thread in threads:
            thread.result()

    assert took < 1
