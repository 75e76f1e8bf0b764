"""Reading a line wakes at once for a stop, loses nothing that was typed, and is ``input()`` in all else."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ptys import CTRL_D, Screen
from standins import BOUND, Background, until

import turnctl
from turnctl import CancelledError
from turnctl.testing import call_at, pause_at
from turnctl.waiting import lines
from turnctl.waiting.asks import ask


class Pipe:
    """Standard input that is a pipe; ``type`` writes to it."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        raw = io.FileIO(self.read_end, "rb", closefd=False)
        raw.name = "<stdin>"
        self.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")

    def type(self, text: str | bytes) -> None:
        os.write(self._write_end, text if isinstance(text, bytes) else text.encode())

    def end(self) -> None:
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1

    def close(self) -> None:
        self.end()
        self.stdin.close()
        os.close(self.read_end)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe()
    monkeypatch.setattr(sys, "stdin", made.stdin)
    yield made
    monkeypatch.undo()
    made.close()


def test_lines_come_as_from_input(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompt to standard output, no line end, empty lines, both kinds of line end, a last line without one."""
    pipe.type("one\n\ntwo\r\nthrée\nlast")
    pipe.end()
    with turnctl.turn() as turn:
        got = [turn.input(f"{n}> ") for n in range(5)]
        with pytest.raises(EOFError, match="EOF when reading a line"):
            turn.input()

    assert ["one", "", "two", "thrée", "last"] == got
    assert "0> 1> 2> 3> 4> " == capsys.readouterr().out


def test_standard_input_is_left_as_it_was(pipe: Pipe) -> None:
    """Its name and its descriptor are what they were, also after a stop."""
    pipe.type("one\nhalf")
    with turnctl.turn() as turn:
        turn.input()
        with call_at("lines.polling", turn.cancel):
            turn.input()

    assert ("<stdin>", pipe.read_end) == (pipe.stdin.name, pipe.stdin.fileno())


def test_signal_wakes_the_read_of_the_main_thread(pipe: Pipe) -> None:
    """While it waits there, the interpreter's own handler rings for it, so that a signal just before is not missed."""
    armed: list[bool] = []

    def look() -> None:
        fd = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(fd)
        armed.append(fd != -1)

    pipe.type("line\n")
    with turnctl.turn() as turn, call_at("lines.polling", look):
        turn.input()
    look()

    assert [True, False] == armed


def test_stop_wakes_the_read_at_once(pipe: Pipe) -> None:
    """A thread that waits for a line raises as soon as the turn is stopped, and the question is cancelled."""
    with turnctl.turn() as turn:
        with pause_at("lines.polling") as held:
            reader = Background(turn.input, "name? ")
            assert held.reached.wait(BOUND)
        time.sleep(0.02)  # most likely it is in poll by now; the stop must wake it either way
        stopped_at = time.monotonic()
        turn.cancel()
        error = reader.error()

    assert isinstance(error, CancelledError)
    assert reader.ended_at is not None
    assert reader.ended_at - stopped_at < 1
    assert [("ask", "name?", "cancelled")] == [(a.kind, a.name, a.state) for a in turn.report.activities]


def test_stop_before_it_polls(pipe: Pipe) -> None:
    """A stop between the last look and the block is not missed."""
    with turnctl.turn() as turn, call_at("lines.polling", turn.cancel):
        error = Background(turn.input).error()

    assert isinstance(error, CancelledError)


def test_line_and_stop_both_there(pipe: Pipe) -> None:
    """The stop wins, and the line stays for the next reader."""
    with turnctl.turn() as turn:
        with pause_at("lines.polling") as held:
            reader = Background(turn.input)
            assert held.reached.wait(BOUND)
            pipe.type("kept\n")
            turn.cancel()
        error = reader.error()

    assert isinstance(error, CancelledError)
    assert "kept\n" == pipe.stdin.readline()


def test_stop_then_input_reads_nothing(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked after the stop it raises at once: no prompt is shown and nothing is read."""
    pipe.type("kept\n")
    with turnctl.turn() as turn:
        turn.cancel()
        error = Background(turn.input, "name? ").error()

    assert isinstance(error, CancelledError)
    assert "" == capsys.readouterr().out
    assert "kept\n" == pipe.stdin.readline()


@pytest.mark.parametrize("reader", ["ours", "sys.stdin", "input"])
def test_half_line_stays_for_the_next_reader(pipe: Pipe, reader: str) -> None:
    """What was typed before the stop and not ended is the beginning of the next reader's line."""
    half = "hal\N{LATIN SMALL LETTER E WITH ACUTE}".encode()
    pipe.type(half[:-1])  # the stop comes in the middle of a character
    with turnctl.turn() as turn:
        waiting = Background(turn.input)
        assert until(lambda: not poll_says(pipe.read_end))
        turn.cancel()
        assert isinstance(waiting.error(), CancelledError)
    pipe.type(half[-1:] + b" line\nnext\n")
    if reader == "ours":
        with turnctl.turn() as turn:
            got = turn.input()
    else:
        got = input() if reader == "input" else pipe.stdin.readline().rstrip("\n")

    assert "halé line" == got
    assert "next\n" == pipe.stdin.readline()


def poll_says(fd: int) -> bool:
    """Whether there is something to read."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def test_lines_that_were_read_ahead_come_first(pipe: Pipe) -> None:
    """After the program has read a line itself, ours goes on where that left off; then the program again."""
    pipe.type("program\nours\n\nprogram again\nhalf ")
    first = pipe.stdin.readline()
    with turnctl.turn() as turn:
        ours = [turn.input(), turn.input()]
        second = pipe.stdin.readline()
        pipe.type("and half\n")
        third = turn.input()

    assert ("program\n", ["ours", ""], "program again\n", "half and half") == (first, ours, second, third)


def test_half_line_longer_than_the_buffer_is_kept(pipe: Pipe) -> None:
    """A line that does not fit in the buffer of the stream still comes whole to the next question."""
    text = "x" * 3 * io.DEFAULT_BUFFER_SIZE
    pipe.type(text)
    with turnctl.turn() as turn:
        waiting = Background(turn.input)
        assert until(lambda: not poll_says(pipe.read_end))
        turn.cancel()
        assert isinstance(waiting.error(), CancelledError)
    pipe.type("!\n")
    with turnctl.turn() as turn:
        got = turn.input()

    assert f"{text}!" == got
    assert 0 == len(lines._kept)


def test_two_readers_get_a_line_each(pipe: Pipe) -> None:
    """Threads that ask at once wait their turn, and one that waits its turn wakes for its own stop."""
    with turnctl.turn() as turn, turnctl.turn(inherit=False) as other:
        with pause_at("lines.polling") as held:
            first = Background(turn.input)
            assert held.reached.wait(BOUND)
            second = Background(turn.input)
            third = Background(other.input)
            assert until(lambda: len(lines._waiting) == 2)
            other.cancel()
            error = third.error()
        pipe.type("one\ntwo\n")

        assert {"one", "two"} == {first.result(), second.result()}
    assert isinstance(error, CancelledError)


def test_question_without_a_source_asks_the_terminal(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """``ask`` with nobody given reads a line, and can be given a time, with a turn or without."""
    pipe.type("yes\n")
    with turnctl.turn() as turn:
        got = turn.ask("go on? ")
        with pytest.raises(TimeoutError, match="go on"):
            turn.ask("go on? ", timeout="30ms")
    with pytest.raises(TimeoutError):
        ask(None, "go on? ", timeout="30ms")

    assert "yes" == got
    assert "go on? go on? go on? " == capsys.readouterr().out


def test_under_a_shield_the_line_is_read(pipe: Pipe) -> None:
    """A stop under a shield waits: the line that comes is given, or the shield's end is the end."""

    def clean_up(turn: turnctl.Turn, limit: str) -> str:
        with turn.shield(limit):
            got.append(turn.input())
        return ""

    got: list[str] = []
    with turnctl.turn() as turn:
        turn.cancel()
        reader = Background(clean_up, turn, "30s")
        pipe.type("saved\n")
        first = reader.error()
        second = Background(clean_up, turn, "50ms").error()

    assert ["saved"] == got
    assert isinstance(first, CancelledError)
    assert isinstance(second, CancelledError)


@pytest.mark.parametrize("kind", ["text", "owned"])
def test_other_streams_are_read_plainly(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What has no descriptor, or would lose it, is read as ``input()`` reads it."""
    (tmp_path / "lines").write_text("line\nrest\n")
    stdin = io.StringIO("line\nrest\n") if kind == "text" else open(tmp_path / "lines", encoding="utf-8")  # noqa: SIM115
    monkeypatch.setattr(sys, "stdin", stdin)
    with stdin, turnctl.turn() as turn:
        got = turn.input()
        rest = stdin.read()

    assert ("line", "rest\n") == (got, rest)


def test_without_a_token_it_is_input(pipe: Pipe) -> None:
    """Outside of any turn nothing is different."""
    pipe.type("line\n")

    assert "line" == lines.read_line(None, "> ")


def test_closed_descriptor_is_told_as_input_tells_it() -> None:
    """Not mistaken for the descriptor that we wait on, which gets its number."""
    program = (
        "import os, turnctl\nos.close(0)\nwith turnctl.turn(grace=1) as turn:\n"
        " try: turn.input()\n except OSError as error: print(error.errno)\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=BOUND, check=False)

    assert (f"{errno.EBADF}\n", 0) == (child.stdout, child.returncode), child.stderr


def test_line_ends_are_those_of_the_stream() -> None:
    """What Python makes for standard input translates none, so a carriage return stays, as with the builtin."""
    program = "import turnctl\nwith turnctl.turn() as turn:\n print(ascii([turn.input(), input(), turn.input()]))\n"
    child = subprocess.run(
        [sys.executable, "-c", program], input=b"1\r\n2\r\n3\r\n", capture_output=True, timeout=BOUND, check=False
    )

    assert (b"['1\\r', '2\\r', '3\\r']\n", 0) == (child.stdout, child.returncode), child.stderr


def test_prompt_may_be_anything(pipe: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """It is shown as ``str()`` has it, as with the builtin."""
    pipe.type("yes\n")
    with turnctl.turn() as turn:
        got = turn.input(5)  # type: ignore[arg-type]

    assert ("yes", "5") == (got, capsys.readouterr().out)


def test_closed_input_is_told_as_input_tells_it(pipe: Pipe) -> None:
    """A closed standard input is an error of ``input()``, not one of ours."""
    pipe.stdin.close()
    with turnctl.turn() as turn, pytest.raises(ValueError, match="closed"):
        turn.input()


# -- on a terminal ------------------------------------------------------------------------------------------------

PROGRAM = """
import sys, threading, turnctl
def stop_when_told(turn):
    threading.Thread(target=lambda: (gate.wait(), turn.cancel('told')), daemon=True).start()
gate = threading.Event()
with turnctl.handle_signals(), turnctl.turn() as turn:
    stop_when_told(turn)
    {body}
print('outcome', turn.outcome, turn.cause, flush=True)
print('next', repr(input('again? ')), flush=True)
"""


def on_terminal(body: str) -> Screen:
    return Screen([sys.executable, "-c", PROGRAM.format(body=body)], PYTHONPATH=os.pathsep.join(sys.path))


def test_line_typed_on_a_terminal() -> None:
    """A person sees the prompt, types, corrects, and the line is there."""
    with on_terminal("print('got', repr(turn.input('name? ')), flush=True)") as screen:
        screen.see("name? ")
        screen.send("Alx\x7fice\n")
        screen.see("got 'Alice'")
        screen.see("again? ")
        screen.send("more\n")
        screen.see("next 'more'")

        assert 0 == screen.ended()


def test_ctrl_c_at_the_prompt_stops_the_turn() -> None:
    """Ctrl-C wakes the read on the main thread at once; the terminal serves the next prompt."""
    with on_terminal("turn.input('name? ')") as screen:
        screen.see("name? ")
        screen.send("\x03")
        screen.see("outcome cancelled signal")
        screen.see("again? ")
        screen.send("more\n")
        screen.see("next 'more'")

        assert 0 == screen.ended()


def test_stop_from_elsewhere_at_the_prompt() -> None:
    """A stop from another thread wakes a terminal read; a line that was ended but not read is the next one."""
    body = "threading.Timer(0.3, gate.set).start(); turn.input('name? ')"
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send("half")  # not ended: it stays with the terminal
        screen.see("outcome cancelled user")
        screen.see("again? ")
        screen.send(" line\n")
        screen.see("next 'half line'")

        assert 0 == screen.ended()


def test_end_of_input_on_a_terminal() -> None:
    """Ctrl-D on an empty line is ``EOFError``, as with ``input()``, and the turn goes on."""
    body = """
    try:
        turn.input('name? ')
    except EOFError:
        print('got', repr(turn.input('once more? ')), flush=True)
"""
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send(CTRL_D)
        screen.see("once more? ")
        screen.send("yes\n")
        screen.see("got 'yes'")
        screen.see("again? ")
        screen.send("\n")

        assert 0 == screen.ended()


def test_half_line_handed_over_by_ctrl_d_is_not_lost() -> None:
    """A half line that Ctrl-D hands over does not block the read where nothing could wake it, and is kept."""
    body = """
    threading.Timer(0.5, gate.set).start()
    turn.input('name? ')
with turnctl.turn() as other:
    print('got', repr(other.input('more? ')), flush=True)
"""
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send("half" + CTRL_D)
        screen.see("more? ")
        screen.send(" line\n")
        screen.see("got 'half line'")
        screen.see("outcome cancelled user")
        screen.see("again? ")
        screen.send("\n")

        assert 0 == screen.ended()
