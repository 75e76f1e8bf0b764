"""Lines from and to a client, whatever the client does with its ends."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from programs import run_program
from standins import BOUND, Background, until

import turnctl
from turnctl.integrations.mcp.stdio import Lines
from turnctl.testing import pause_at


class Ends:
    """A transport, and the client's ends of it."""

    def __init__(self) -> None:
        self.theirs, self.ours = os.pipe()
        self.back, self.forth = os.pipe()
        self.lines = Lines(self.theirs, self.forth)
        self.open = {self.theirs, self.ours, self.back, self.forth}

    def close(self, fd: int) -> None:
        self.open.discard(fd)
        os.close(fd)

    def fill(self) -> int:
        """Leave no room in the pipe to the client; how many bytes that took."""
        os.set_blocking(self.forth, False)
        count = 0
        try:
            while True:
                count += os.write(self.forth, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(self.forth, True)
            return count


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.lines.close()
    made.lines.release()
    for fd in list(made.open):
        made.close(fd)


def test_lines_however_they_come(ends: Ends) -> None:
    """A line is a line whether it comes in pieces or with others; empty ones are none; the last has no end."""
    reading = Background(list, ends.lines.lines())
    for piece in [b'{"a', b'": 1}\n\n  \n[2]', b"\n3\n4"]:
        os.write(ends.ours, piece)
    ends.close(ends.ours)

    assert [b'{"a": 1}', b"[2]", b"3"] == reading.result()


def test_line_of_a_megabyte(ends: Ends) -> None:
    """A long line is read and written whole."""
    text = b"y" * (1 << 20)
    reading = Background(list, ends.lines.lines())
    writing = Background(lambda: os.write(ends.ours, text + b"\n"))
    writing.result()
    ends.close(ends.ours)
    [line] = reading.result()
    sending = Background(ends.lines.send, line)
    got = b""
    while not got.endswith(b"\n"):
        got += os.read(ends.back, 1 << 16)
    sending.result()

    assert text == line
    assert text + b"\n" == got


def test_line_without_an_end_is_given_up(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never ends its line ends the connection, and not the memory."""
    monkeypatch.setattr("turnctl.integrations.mcp.stdio._LONGEST", 1000)
    reading = Background(list, ends.lines.lines())
    os.write(ends.ours, b"z" * 2000)

    assert [] == reading.result()
    assert ends.lines.broken == "a line of more than 1000 bytes"


def test_close_wakes_the_reader(ends: Ends) -> None:
    """A reader that waits for the client comes back at once."""
    reading = Background(list, ends.lines.lines())
    ends.lines.close()

    assert [] == reading.result()


def test_stop_of_the_turn_wakes_the_reader(ends: Ends) -> None:
    """Reading is a checkpoint of the caller's turn."""

    def read() -> None:
        with turnctl.turn("serving"):
            list(ends.lines.lines())

    reading = Background(read)
    assert until(lambda: turnctl.stop("serving", reason="enough"))

    assert reading.error() is None


def test_close_frees_who_writes_to_a_client_that_does_not_read(ends: Ends) -> None:
    """The pipe is full: the writer waits, others leave their lines with it, and ``close`` ends it all."""
    ends.fill()
    with pause_at("mcp.stdio.given") as held:
        writing = Background(ends.lines.send, b"1")
        assert held.reached.wait(BOUND)
    assert until(ends.lines._turnstile.locked)
    ends.lines.send(b"2")
    ends.lines.close()
    writing.result()
    ends.lines.send(b"3")

    assert not ends.lines._out


def test_writer_goes_on_when_the_client_reads(ends: Ends) -> None:
    """Lines that waited for room are written whole and in order."""
    filled = ends.fill()
    writing = Background(ends.lines.send, b"1")
    assert until(ends.lines._turnstile.locked)
    ends.lines.send(b"2")
    got = b""
    while not got.endswith(b"1\n2\n"):
        got += os.read(ends.back, 1 << 16)
    writing.result()

    assert filled + len(b"1\n2\n") == len(got)


def test_client_that_has_gone_is_noticed(ends: Ends) -> None:
    """A write to nobody ends the transport, and says why."""
    reading = Background(list, ends.lines.lines())
    ends.close(ends.back)
    ends.lines.send(b"1")

    assert [] == reading.result()
    assert "BrokenPipeError" in str(ends.lines.broken)


@pytest.mark.switchinterval
def test_lines_of_many_threads_stay_whole(ends: Ends) -> None:
    """Lines of any length from eight threads come out whole, each once, in the order of its thread."""

    def send(number: int) -> None:
        for count in range(20):
            ends.lines.send(json.dumps([number, count, "x" * (count * 700)]).encode())

    senders = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for sender in senders:
        sender.start()
    got = b""
    while got.count(b"\n") < 160:
        got += os.read(ends.back, 1 << 16)
    for sender in senders:
        sender.join(BOUND)
    found: dict[int, list[Any]] = {}
    for line in got.splitlines():
        number, count, text = json.loads(line)
        assert 700 * count == len(text)
        found.setdefault(number, []).append(count)

    assert {n: list(range(20)) for n in range(8)} == found


def answered(ends: Ends, seen: list[bytes], size: int) -> None:
    """Read, and answer each line on the thread that reads."""
    for line in ends.lines.lines():
        seen.append(line)
        ends.lines.send(line * size)


def read_all(ends: Ends, count: int) -> list[bytes]:
    """So many lines of what was written."""
    got = b""
    while got.count(b"\n") < count:
        got += os.read(ends.back, 1 << 16)
    return got.splitlines()


def test_reader_goes_on_behind_answers_that_nobody_reads(ends: Ends) -> None:
    """What does not go out at once is left behind: the next line is read all the same, and all goes out in order."""
    seen: list[bytes] = []
    reading = Background(answered, ends, seen, 1 << 18)
    os.write(ends.ours, b"a\nb\nc\n")

    assert until(lambda: len(seen) == 3)
    assert [letter * (1 << 18) for letter in (b"a", b"b", b"c")] == read_all(ends, 3)
    ends.lines.close()
    reading.result()


def test_reader_and_others_write_whole_lines(ends: Ends) -> None:
    """Whoever writes, and whoever goes on for it: no line is torn, and none is lost."""
    seen: list[bytes] = []
    reading = Background(answered, ends, seen, 3000)
    others = [Background(ends.lines.send, bytes([65 + number]) * 70_000) for number in range(4)]
    os.write(ends.ours, b"".join(b"%d\n" % number for number in range(10)))
    found = read_all(ends, 14)
    for other in others:
        other.result()
    ends.lines.close()
    reading.result()

    digits = [line for line in found if line[:1].isdigit()]
    assert [b"%d" % number * 3000 for number in range(10)] == digits
    assert [bytes([65 + number]) * 70_000 for number in range(4)] == sorted(set(found) - set(digits))


@pytest.mark.parametrize("ending", ["read", "close"])
def test_reader_waits_behind_a_thousand_answers(ends: Ends, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """A client that asks on and on without reading is waited for, so that its answers do not fill the memory."""
    monkeypatch.setattr("turnctl.integrations.mcp.stdio._MOST", 5)
    size = ends.fill()
    seen: list[bytes] = []
    reading = Background(answered, ends, seen, 1)
    os.write(ends.ours, b"a\n" * 20)

    assert until(lambda: ends.lines._room)
    assert 7 == len(seen)  # one is in hand, and the last one is waited with
    if ending == "read":
        found = read_all(ends, 20)
        assert size + 40 == sum(len(line) + 1 for line in found)
    ends.lines.close()
    reading.result()


def test_reader_waits_where_there_is_no_thread(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it writes by itself, and reads on when the client has read."""
    seen: list[bytes] = []
    reading = Background(answered, ends, seen, 1 << 18)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none)
        os.write(ends.ours, b"a\nb\n")
        found = read_all(ends, 2)
    ends.lines.close()
    reading.result()

    assert [b"a" * (1 << 18), b"b" * (1 << 18)] == found


def test_standard_streams_are_set_aside() -> None:
    """While they are the transport's, a print goes to stderr and stdin is empty; afterwards both are as before."""
    status, out, err = run_program("""
        from turnctl.integrations.mcp.stdio import standard_streams
        with standard_streams() as (read_fd, write_fd):
            print("a stray word")
            os.system("cat; echo another")
            os.write(write_fd, b"a message\\n")
            kept = os.get_inheritable(read_fd) or os.get_inheritable(write_fd)
        print("after", kept)
    """)

    assert (0, ["a message", "after False"]) == (status, out)
    assert ["a stray word", "another"] == sorted(err.splitlines())


def test_standard_streams_without_a_stderr() -> None:
    """A program that has none keeps its stray words off the wire all the same."""
    code = (
        "from turnctl.integrations.mcp.stdio import standard_streams\n"
        "import os\n"
        "with standard_streams() as (r, w):\n"
        "    print('stray', flush=True)\n"
        "    os.write(w, b'message\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), timeout=BOUND, check=False
    )

    assert b"message\n" == done.stdout


def test_write_never_takes_more_than_there_is_room_for(ends: Ends) -> None:
    """The client's pipe is not made non-blocking: its other end may be somebody else's as well."""
    ends.lines.send(b"1")

    assert 0 == fcntl.fcntl(ends.forth, fcntl.F_GETFL) & os.O_NONBLOCK
