"""Output handed on while a command runs: nothing holds the command up, and nothing is lost in silence."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import FakeTurn, Gate, notes_of, python, timed
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import BadArgument, CancelledError
from turnctl.processes import consumers
from turnctl.processes.command import popen, run
from turnctl.processes.targets import ToDescriptor
from turnctl.processes.tee import Tee, Teed

BOTH = "echo out; echo err >&2"
FLOOD = ["head", "-c", "20000000", "/dev/zero"]


class Stuck:
    """A function that does not come back before it is let go."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.entered = threading.Event()
        self.gate = threading.Event()

    def __call__(self, data: bytes) -> None:
        self.got.append(data)
        self.entered.set()
        assert self.gate.wait(BOUND)


@pytest.fixture
def stuck() -> Any:
    made = Stuck()
    yield made
    made.gate.set()
    assert until(lambda: not any(one.name == "turnctl-tee" for one in threading.enumerate()))


# -- to whom --------------------------------------------------------------------------------------------------


def test_function_gets_bytes_as_they_come(owner: FakeTurn, gate: Gate) -> None:
    """A function is called while the command runs, on a thread of its own; what is captured stays complete."""
    got: list[bytes] = []
    threads = []

    def take(data: bytes) -> None:
        got.append(data)
        threads.append(threading.current_thread().name)
        if data == b"one":
            gate.open()

    done = run(owner, f"printf one; read x < {gate}; printf two >&2", shell=True, tee=take)

    assert [b"one", b"two"] == got
    assert {"turnctl-tee"} == set(threads)
    assert (b"one", b"two", 0, ()) == (done.stdout, done.stderr, done.outcome.tee_lost, notes_of(done.outcome))


def test_lines_are_text(owner: FakeTurn) -> None:
    """With ``tee_lines`` whole lines of text come, whatever pieces they were written in; the last may have no end."""
    got: list[str] = []
    code = "import os\nfor c in 'ä1\\r\\nb2\\nrest'.encode(): os.write(1, bytes([c]))"
    done = run(owner, python(code), tee=got.append, tee_lines=True, encoding="utf-8")

    assert ["ä1\n", "b2\n", "rest"] == got
    assert "ä1\nb2\nrest" == done.stdout


def test_bytes_that_are_no_text_are_shown(owner: FakeTurn) -> None:
    """A byte that is no character is replaced for who is shown lines: showing is no reason to fail."""
    got: list[str] = []
    done = run(owner, ["printf", r"a\377b\n"], tee=got.append, tee_lines=True)

    assert (["a\ufffdb\n"], b"a\xffb\n", ()) == (got, done.stdout, notes_of(done.outcome))


def test_each_stream_has_its_own_place(owner: FakeTurn, tmp_path: Path) -> None:
    """A mapping sends the streams apart: here to a path and to a file of text."""
    text = io.StringIO()
    run(owner, BOTH, shell=True, tee={"stdout": tmp_path / "log", "stderr": text})

    assert (b"out\n", "err\n") == ((tmp_path / "log").read_bytes(), text.getvalue())


def test_one_path_takes_both(owner: FakeTurn, tmp_path: Path) -> None:
    """One path for both streams is opened once, and replaces what was there."""
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100)
    run(owner, BOTH, shell=True, tee={"stdout": str(log), "stderr": log})

    assert [b"err\n", b"out\n"] == sorted(log.read_bytes().splitlines(keepends=True))


def test_descriptor_and_binary_file_get_bytes(owner: FakeTurn, tmp_path: Path) -> None:
    """A descriptor and a binary file get the bytes, stay open and the caller's."""
    raw = io.BytesIO()
    with open(tmp_path / "log", "wb") as file:
        run(owner, BOTH, shell=True, tee={"stdout": file.fileno(), "stderr": raw})
        file.write(b"more")

    assert (b"out\nmore", b"err\n") == ((tmp_path / "log").read_bytes(), raw.getvalue())


def test_nothing_is_kept_without_capture(owner: FakeTurn) -> None:
    """With ``capture=False`` what is handed on is kept nowhere else; the other stream is inherited."""
    got: list[bytes] = []
    done = run(owner, "echo out", shell=True, capture=False, tee={"stdout": got.append})

    assert ([b"out\n"], None, None) == (got, done.stdout, done.stderr)


def test_context_is_the_callers(owner: FakeTurn) -> None:
    """The function runs in the context of who started the command, so that it finds the turn."""
    found = []
    with turnctl.turn() as turn:
        turn.run(["echo", "x"], tee=lambda _: found.append(turnctl.current_turn()))

    assert [turn] == found


def test_handle_needs_no_reader(owner: FakeTurn) -> None:
    """A handle that only hands on needs nobody to read it, and its ``wait`` comes back when all was taken."""
    got: list[bytes] = []
    with popen(owner, FLOOD, capture=False, tee=got.append) as process:
        status = process.wait(BOUND)

    assert (0, None) == (status, process.stdout)
    assert 20_000_000 == sum(map(len, got)) + process.outcome().tee_lost


def test_handle_has_lines_and_hands_on(owner: FakeTurn) -> None:
    """Lines are read through a handle beside what is handed on."""
    got: list[bytes] = []
    with popen(owner, BOTH, shell=True, text=True, tee={"stdout": got.append}) as process:
        lines = list(process)
        process.wait(BOUND)

    assert (["out\n"], [b"out\n"]) == (lines, got)


# -- slow consumers -------------------------------------------------------------------------------------------


def test_stuck_function_never_holds_the_command_up(owner: FakeTurn, stuck: Stuck, monkeypatch: Any) -> None:
    """The command comes to its end; the call waits for a bounded time, and names who has not come back."""
    monkeypatch.setattr(Tee.__init__, "__kwdefaults__", Tee.__init__.__kwdefaults__ | {"patience_s": 0.3})
    with timed() as passed:
        done = run(owner, FLOOD, tee=stuck)
    outcome = done.outcome

    assert 10 > passed() >= 0.3
    assert 20_000_000 == len(done.stdout or b"")
    assert 20_000_000 == len(stuck.got[0]) + outcome.tee_lost
    assert any("function Stuck had not come back when it was waited for no longer" in note for note in outcome.notes)
    assert f"tee: {outcome.tee_lost} bytes of the output were not handed on" in outcome.notes


def test_report_names_who_has_not_come_back(stuck: Stuck, monkeypatch: Any) -> None:
    """The report of the turn names the thread as long as it stands in the function, and no longer."""
    monkeypatch.setattr(Tee.__init__, "__kwdefaults__", Tee.__init__.__kwdefaults__ | {"patience_s": 0.1})
    with turnctl.turn() as turn:
        turn.run(["echo", "x"], tee=stuck)
    then = turn.report
    stuck.gate.set()
    ended = until(lambda: turn.report.execution == "ended")

    assert ("unproven", ("thread turnctl-tee (in function Stuck)",)) == (then.execution, then.alive)
    assert ended


def test_backpressure_has_the_command_wait(owner: FakeTurn, stuck: Stuck) -> None:
    """Asked for, a slow function holds the command up in place of missing anything."""
    call = Background(lambda: run(owner, FLOOD, tee=stuck, tee_backpressure=True))
    assert stuck.entered.wait(BOUND)
    (activity,) = owner.activities
    threading.Event().wait(0.5)
    was_open = activity.is_open
    stuck.gate.set()
    done = call.result()

    assert was_open
    assert (20_000_000, 0) == (sum(map(len, stuck.got)), done.outcome.tee_lost)


def test_stop_waits_for_a_slow_function_bounded(owner: FakeTurn, stuck: Stuck) -> None:
    """A stop ends the command at once, and gives the function a second."""
    call = Background(lambda: run(owner, "echo x; exec sleep 60", shell=True, tee=stuck, tee_backpressure=True))
    assert stuck.entered.wait(BOUND)
    with timed() as passed:
        owner.stop()
        error = call.error()

    assert 10 * consumers.HURRIED_S > passed() >= consumers.HURRIED_S
    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert b"x\n" == error.partial.stdout


def test_waiting_for_a_slow_function_is_cut_short_by_a_stop(owner: FakeTurn, stuck: Stuck) -> None:
    """A stop while only the function is waited for shortens that; the result of the command stands."""
    call = Background(lambda: run(owner, ["echo", "x"], tee=stuck))
    assert stuck.entered.wait(BOUND)
    (activity,) = owner.activities
    assert activity.owned is not None
    assert until(lambda: activity.owned.phase == "handing")  # type: ignore[union-attr]
    with timed() as passed:
        owner.stop()
        done = call.result()

    assert 4.5 > passed()
    assert (0, False) == (done.returncode, done.outcome.stopped)


# -- failures -------------------------------------------------------------------------------------------------


def test_failing_function_is_told(owner: FakeTurn) -> None:
    """A function that raises is called no more; the command goes on, its output is kept, the failure is told."""
    calls = []

    def fail(data: bytes) -> None:
        calls.append(data)
        raise ValueError("no room")

    done = run(owner, python("for n in range(30000): print(n)"), tee=fail)

    assert (0, 30000, 1) == (done.returncode, len((done.stdout or b"").splitlines()), len(calls))
    assert any("ValueError: no room" in note and "fail: " in note for note in done.outcome.notes)
    assert len(done.stdout or b"") == done.outcome.tee_lost


def test_failing_file_spares_the_other_stream(owner: FakeTurn) -> None:
    """One target that fails takes nothing from another."""
    got: list[bytes] = []
    read, write = os.pipe()
    os.close(read)
    done = run(owner, BOTH, shell=True, tee={"stdout": write, "stderr": got.append})
    os.close(write)

    assert [b"err\n"] == got
    assert any("BrokenPipeError" in note for note in done.outcome.notes)
    assert 4 == done.outcome.tee_lost


def test_reader_that_is_gone_is_passed_on(owner: FakeTurn, pump_pipe: Callable[[], tuple[int, int]]) -> None:
    """Where it is asked for, a command whose output nobody reads any more gets SIGPIPE, as at a pipe of its own."""
    read, write = pump_pipe()
    os.close(read)
    tee = Tee({"stdout": ToDescriptor("stdout", write, passes_end_on=True)}, backpressure=True)
    done = run(owner, ["yes"], capture=False, tee=tee)

    assert -13 == done.returncode


@pytest.fixture
def pump_pipe(leak_check: object) -> Any:
    made: list[int] = []

    def make() -> tuple[int, int]:
        ends = os.pipe()
        made.extend(ends)
        return ends

    yield make
    for fd in made:
        with suppress(OSError):
            os.close(fd)


def test_command_that_cannot_start_leaves_nothing(owner: FakeTurn, tmp_path: Path) -> None:
    """The thread and the file of a command that was not started are let go."""
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run(owner, ["no-such-program"], tee=tmp_path / "log")

    assert b"" == (tmp_path / "log").read_bytes()


def test_file_that_cannot_be_opened_starts_nothing(owner: FakeTurn, tmp_path: Path) -> None:
    """A path that cannot be written, or that nobody reads from, is the caller's error before the start."""
    os.mkfifo(tmp_path / "fifo")
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "no" / "log", FileNotFoundError)):
        with pytest.raises(error):
            run(owner, ["true"], tee=path)
    with pytest.raises(OSError, match="nobody reads"):
        run(owner, ["true"], tee=tmp_path / "fifo")

    assert [] == owner.activities


async def coroutine(data: bytes) -> None:
    pass


@pytest.mark.parametrize(
    ("tee", "error"),
    [
        (True, TypeError),
        (1.5, TypeError),
        ({}, BadArgument),
        ({"stdin": print}, BadArgument),
        ({"stdout": object()}, TypeError),
        (99999, BadArgument),
        (coroutine, BadArgument),
    ],
)
def test_wrong_targets_start_nothing(owner: FakeTurn, tee: Any, error: type[Exception]) -> None:
    """What output cannot be handed on to is refused before the start, by ``popen`` too."""
    for function in (run, popen):
        with pytest.raises(error, match="tee"):
            function(owner, ["true"], tee=tee)

    assert [] == owner.activities


@pytest.mark.parametrize(
    "options",
    [
        {"tee_lines": True},
        {"tee_backpressure": True},
        {"tee": print, "stdout": "null", "stderr": "null"},
        {"tee": {"stderr": print}, "merge_stderr": True},
    ],
)
def test_options_without_an_object_are_refused(owner: FakeTurn, options: dict[str, Any]) -> None:
    """How to hand on what is handed on to nobody is a mistake."""
    with pytest.raises(BadArgument, match="tee"):
        run(owner, ["true"], **options)


# -- the queue ------------------------------------------------------------------------------------------------


def test_lines_are_not_joined_across_a_gap() -> None:
    """What was left out stands between two lines, never inside of one that was not written."""
    got: list[str] = []
    entered, gate = threading.Event(), threading.Event()

    class Target(ToDescriptor):
        takes_text_lines = True

        def write(self, piece: Any) -> None:
            entered.set()
            assert gate.wait(BOUND)
            got.append(piece.decode() if isinstance(piece, bytes) else piece)

    tee = Tee({"stdout": Target("slow", 1)}, lines=True, limit=300)
    sink = Teed(None, tee.lanes["stdout"])
    tee.begin(lambda: None)
    sink.feed(b"first\n")
    assert entered.wait(BOUND)
    sink.feed(b"half a li")
    sink.feed(b"x" * 1000)
    sink.feed(b"lost")
    gate.set()
    assert until(lambda: tee._size == 0)
    sink.feed(b"ne\nlast\n")
    tee.finish_all()
    assert until(lambda: tee.is_done)
    tee.join()

    assert ["first\n", "half a li" + "x" * 1000, "ne\n", "last\n"] == got
    assert 4 == tee.lost


def test_small_writes_cost_no_memory(owner: FakeTurn) -> None:
    """What waits is counted with what it costs to hold it, so that single bytes cannot fill the memory."""
    tee = Tee({"stdout": ToDescriptor("x", 1), "stderr": ToDescriptor("y", 2)}, limit=100_000)
    lanes = tee.lanes["stdout"], tee.lanes["stderr"]
    for n in range(20_000):
        tee.feed(lanes[n % 2], b"x")

    assert 1000 > len(tee._queue)
    assert 20_000 == tee.lost + sum(len(entry.data or b"") for entry in tee._queue)
    assert sys.getsizeof(tee._queue[0]) < 200
    tee.give_up()
