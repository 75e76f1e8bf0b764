"""``stop_everywhere`` finds each planted fault at its line, and nothing in a function that stops well."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from standins import until

import turnctl
from turnctl import BadArgument, BadDuration
from turnctl.testing import Everywhere, Problem, everywhere, stop_everywhere

History = list[dict[str, str]]


def line(fn: Callable[..., Any], mark: str) -> str:
    """The place of the line of ``fn``, or of a function in it, that has that comment."""
    lines, first = inspect.getsourcelines(fn)
    (at,) = [n for n, text in enumerate(lines) if text.rstrip().endswith(f"# {mark}")]
    return f"{inspect.getsourcefile(fn)}:{first + at}"


def kinds(found: Everywhere) -> list[str]:
    return sorted({problem.kind for problem in found.problems})


def only(found: Everywhere) -> Problem:
    (problem,) = found.problems
    return problem


# -- a loop that stops well -----------------------------------------------------------------------------------------


def tool(turn: turnctl.Turn, number: int) -> str:
    turn.sleep(0.001)
    return f"result {number}"


def good_loop(turn: turnctl.Turn, history: History) -> None:
    for number in range(4):
        turn.check()
        history.append({"role": "assistant", "call": str(number)})
        result = "cancelled"
        try:
            result = tool(turn, number)
        finally:
            history.append({"role": "tool", "call": str(number), "content": result})
    with turn.shield("1s"):
        turn.sleep(0.001)


def is_paired(history: History) -> None:
    calls = [entry["call"] for entry in history if entry["role"] == "assistant"]
    answers = [entry["call"] for entry in history if entry["role"] == "tool"]
    if calls != answers:
        raise ValueError(f"calls {calls} have answers {answers}")


def test_clean_program_gives_none() -> None:
    """A loop that lets the stop out, keeps its history paired and cleans up has no problem, at any checkpoint."""
    found = stop_everywhere(good_loop, setup=list, check=is_paired)

    assert () == found.problems
    assert len(found.checkpoints) == found.stops
    assert found.stops >= 10
    assert (0, ()) == (found.skipped, found.notes)
    found.raise_if_any()
    assert f"stopped at {found.stops} of {found.stops} checkpoints: no problem" == str(found)


def test_checkpoints_are_the_lines_of_the_function() -> None:
    """Each checkpoint is named by the user's line and the arrival there, in order."""

    def body(turn: turnctl.Turn) -> None:
        for _ in range(2):
            turn.check()  # first
        turnctl.check()  # second

    found = stop_everywhere(body)
    places = [(f"{c.file}:{c.line}", c.function, c.nth) for c in found.checkpoints]

    assert [
        (line(body, "first"), "body", 1),
        (line(body, "first"), "body", 2),
        (line(body, "second"), "body", 1),
    ] == places
    assert f"{line(body, 'first')} in body (arrival 2)" == str(found.checkpoints[1])


# -- planted faults ---------------------------------------------------------------------------------------------------


def test_swallowed_place_is_found() -> None:
    """A tool that turns every exception into text is named by its ``except``, once, with how it went on."""

    def eats(turn: turnctl.Turn) -> str:
        try:
            turn.check()
        except BaseException:  # planted
            return "error"
        return "ok"

    def body(turn: turnctl.Turn) -> None:
        for _ in range(3):
            turn.check()  # next
            eats(turn)

    found = stop_everywhere(body)

    assert ["swallowed"] == kinds(found)
    assert {f"{line(eats, 'planted')} in eats"} == {p.where for p in found.problems}
    assert line(body, "next") in found.problems[0].text
    with pytest.raises(AssertionError, match="swallowed the stop and went on"):
        found.raise_if_any()


def test_exit_that_swallows_is_found() -> None:
    """Whoever ate it: a context manager too, though nothing in the source says that it does."""

    class Eats:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> bool:
            return True

    def body(turn: turnctl.Turn) -> None:
        with Eats():
            turn.check()
        turn.check()

    assert ["swallowed"] == kinds(stop_everywhere(body))


def test_stop_of_another_turn_that_comes_out_is_told() -> None:
    """A ``CancelledError`` that belongs to no stop of this turn is an exception like any other."""
    with turnctl.turn(inherit=False) as other:
        other.cancel()

    def body(turn: turnctl.Turn) -> None:
        try:
            turn.check()
        except turnctl.CancelledError:
            raise other.token._raised() from None

    found = only(stop_everywhere(body))

    assert "raised" == found.kind
    assert "another turn" in found.text


@pytest.mark.parametrize(
    "options",
    [
        {"setup": 5},
        {"check": 5},
        {"limit": "x"},
        {"limit": 0},
        {"late_checkpoints": -1},
        {"late_checkpoints": "x"},
        {"late": None},
        {"grace": "x"},
        {"timeout": 0},
    ],
)
def test_bad_arguments_are_refused(options: Any) -> None:
    """Before anything is run, and by name."""
    ran: list[object] = []
    with pytest.raises((BadArgument, BadDuration), match=next(iter(options))):
        stop_everywhere(ran.append, **options)
    with pytest.raises(BadArgument, match="needs a function"):
        stop_everywhere(5)  # type: ignore[arg-type]

    assert [] == ran


def test_late_place_is_found_by_time() -> None:
    """Clean-up that takes too long is named by the line that it stands at."""

    def body(turn: turnctl.Turn) -> None:
        try:
            turn.check()  # stopped
        finally:
            time.sleep(0.4)  # planted

    found = stop_everywhere(body, late="100ms")

    assert ("late", f"{line(body, 'planted')} in body") == (only(found).kind, only(found).where)
    stopped_at = only(found).stopped_at
    assert stopped_at is not None
    assert line(body, "stopped") == f"{stopped_at.file}:{stopped_at.line}"


def test_late_place_is_found_by_checkpoints() -> None:
    """Clean-up under a shield that goes on and on is named by the first checkpoint beyond what is allowed."""

    def body(turn: turnctl.Turn) -> None:
        try:
            turn.check()
        finally:
            with turn.shield("5s"):
                for _ in range(8):
                    turn.check()  # planted

    assert () == stop_everywhere(body, late_checkpoints=20).problems
    found = stop_everywhere(body, late_checkpoints=5)

    assert {("late", f"{line(body, 'planted')} in body")} == {(p.kind, p.where) for p in found.problems}


def test_leaking_place_is_found() -> None:
    """A thread and a descriptor that only a stop in between leaves behind are named with that checkpoint."""
    left: list[Callable[[], object]] = []

    def leaks_thread(turn: turnctl.Turn) -> None:
        turn.check()
        gate = threading.Event()
        thread = threading.Thread(target=gate.wait, name="planted thread")
        thread.start()
        left.append(gate.set)
        turn.check()  # thread
        gate.set()
        thread.join()

    def leaks_descriptor(turn: turnctl.Turn) -> None:
        turn.check()
        fd = os.open("/dev/null", os.O_RDONLY)
        left.append(lambda: os.close(fd))
        turn.check()  # descriptor
        left.pop()()

    threads = only(stop_everywhere(leaks_thread))
    left.pop()()
    for undo in left:
        undo()
    left.clear()
    descriptors = only(stop_everywhere(leaks_descriptor))
    for undo in left:
        undo()

    assert ("leaking", f"{line(leaks_thread, 'thread')} in leaks_thread") == (threads.kind, threads.where)
    assert "planted thread" in threads.text
    assert ("leaking", f"{line(leaks_descriptor, 'descriptor')} in leaks_descriptor") == (
        descriptors.kind,
        descriptors.where,
    )
    assert "/dev/null" in descriptors.text


def test_child_process_and_file_left_behind_are_found() -> None:
    """A child and a temporary file that a stop leaves behind are leaks too."""
    import subprocess
    import tempfile

    children: list[Any] = []

    def body(turn: turnctl.Turn) -> None:
        child = subprocess.Popen(["sleep", "60"])
        children.append(child)
        fd, name = tempfile.mkstemp(prefix="planted")
        os.close(fd)
        turn.check()  # planted
        child.kill()
        child.wait()
        os.unlink(name)

    found = stop_everywhere(body)
    for child in children:
        child.kill()
        child.wait()

    assert {("leaking", f"{line(body, 'planted')} in body")} == {(p.kind, p.where) for p in found.problems}
    assert 1 == sum("sleep 60" in p.text for p in found.problems)
    assert 1 == sum("planted" in p.text for p in found.problems)


def test_what_leaks_without_a_stop_is_told_so() -> None:
    """A function that leaves a thread behind in every run is told of, and no checkpoint is blamed alone."""
    gates: list[threading.Event] = []

    def body(turn: turnctl.Turn) -> None:
        gates.append(threading.Event())
        threading.Thread(target=gates[-1].wait, name="always").start()

    found = only(stop_everywhere(body))
    for gate in gates:
        gate.set()

    assert ("leaking", None) == (found.kind, found.stopped_at)
    assert until(lambda: not any(t.name == "always" for t in threading.enumerate()))


def test_breaking_place_is_found() -> None:
    """A loop that loses the answer to a call when it is stopped in the tool is named by that checkpoint."""

    def body(turn: turnctl.Turn, history: History) -> None:
        turn.check()
        history.append({"role": "assistant", "call": "1"})
        turn.check()  # planted
        history.append({"role": "tool", "call": "1"})

    found = only(stop_everywhere(body, setup=list, check=is_paired))

    assert ("breaking", f"{line(body, 'planted')} in body") == (found.kind, found.where)
    assert "ValueError: calls ['1'] have answers []" == found.text


def test_check_without_a_state_is_called_after_each_run() -> None:
    """What a function changes elsewhere can be looked at as well."""
    seen: list[int] = []

    def body(turn: turnctl.Turn) -> None:
        turn.check()

    assert () == stop_everywhere(body, check=lambda: seen.append(1)).problems
    assert 2 == len(seen)  # one run unstopped, one stopped


def test_stop_that_became_another_error_is_found() -> None:
    """Clean-up that fails and hides the stop is named by the line that raised."""

    def body(turn: turnctl.Turn) -> None:
        try:
            turn.check()
        finally:
            if turn.cancelled:
                raise KeyError("client")  # planted

    found = only(stop_everywhere(body))

    assert ("raised", f"{line(body, 'planted')} in body") == (found.kind, found.where)


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    gate = threading.Event()
    monkeypatch.setattr(everywhere, "_let_go", gate)
    yield gate
    gate.set()


def test_body_that_never_stops_is_left_behind(let_go: threading.Event) -> None:
    """A loop that eats every stop for ever is found, held, and no more runs are made; it costs no CPU."""

    def body(turn: turnctl.Turn) -> None:
        rounds = 0
        while rounds < 3 or (turn.cancelled and not let_go.is_set()):
            rounds += 1
            try:
                turn.check()
            except BaseException:  # planted
                pass

    found = stop_everywhere(body, late="100ms")
    before = time.process_time()
    time.sleep(0.2)
    used = time.process_time() - before

    assert 1 == found.stops
    assert ["late", "swallowed"] == kinds(found)
    assert f"{line(body, 'planted')} in body" in [p.where for p in found.problems if p.kind == "swallowed"]
    assert "left behind, and no more runs" in " ".join(found.notes)
    assert used < 0.1
    let_go.set()
    assert until(lambda: not any(t.name.startswith("stop_everywhere") for t in threading.enumerate()))


def test_body_that_hangs_unstopped_is_told() -> None:
    """A function that does not come back by itself is an error of the test, with the line."""
    gate = threading.Event()

    def body(turn: turnctl.Turn) -> None:
        gate.wait()  # hangs

    with pytest.raises(TimeoutError, match="did not come back within 100ms") as caught:
        stop_everywhere(body, timeout="100ms")
    gate.set()

    assert f"{line(body, 'hangs')} in body" in str(caught.value)
    assert until(lambda: not any(t.name.startswith("stop_everywhere") for t in threading.enumerate()))


def test_error_of_an_unstopped_run_is_raised() -> None:
    """A function that fails by itself has to be mended first."""

    def body(turn: turnctl.Turn) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop_everywhere(body)


def test_runs_that_differ_are_told() -> None:
    """A function that does not do the same each time gets a note, and is stopped where both runs came by."""
    runs: list[int] = []

    def body(turn: turnctl.Turn) -> None:
        turn.check()
        runs.append(1)
        for _ in range(len(runs) == 1):
            turn.check()

    found = stop_everywhere(body)

    assert (2, 1, 1) == (len(found.checkpoints), found.stops, found.skipped)
    assert "two runs passed 2 and 1 checkpoints" in found.notes[0]


def test_more_checkpoints_than_the_limit() -> None:
    """Each line is tried before any is tried again, and what was left out is said."""

    def guarded(turn: turnctl.Turn) -> None:
        for _ in range(50):
            turn.check()
        try:
            turn.check()
        except turnctl.CancelledError:
            raise KeyError from None  # planted

    found = stop_everywhere(guarded, limit=5)

    assert (51, 5, 46) == (len(found.checkpoints), found.stops, found.skipped)
    assert f"{line(guarded, 'planted')} in guarded" == only(found).where
    assert "46 checkpoints were not tried" in found.notes[0]


def test_threads_and_turns_of_the_function_are_covered() -> None:
    """Checkpoints in a thread of the turn and in a turn that the function begins itself are stopped at as well."""

    def agent() -> None:
        with turnctl.turn("session of its own") as turn:
            turn.check()  # inner
            thread = turn.thread(turnctl.sleep, 0.001)
            turn.wait(thread)

    found = stop_everywhere(lambda _turn: agent())

    assert () == found.problems
    assert line(agent, "inner") in {f"{c.file}:{c.line}" for c in found.checkpoints}
    assert found.stops >= 3


def test_is_the_same_each_time() -> None:
    """Two tests of one function give one result."""
    first, second = (stop_everywhere(good_loop, setup=list, check=is_paired) for _ in range(2))

    assert first == second
