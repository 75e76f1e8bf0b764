"""What is kept of a stream: all, or both its ends in a bounded memory, with what is missing counted."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from commands import FakeTurn, notes_of, python

from turnctl.errors import BadArgument
from turnctl.processes.capture import Capture, Cut
from turnctl.processes.command import popen, run
from turnctl.processes.text import Coding
from turnctl.records.process import OutputCut

FLOOD = ["head", "-c", "1000000", "/dev/zero"]


@pytest.mark.parametrize("limit", [1, 2, 7, 10, 64])
def test_ends_are_kept_and_the_rest_counted(limit: int) -> None:
    """However a stream comes, its first and last half of the limit are kept, and kept and missing make all of it."""
    for seed in range(200):
        draw = random.Random(seed)
        data = bytes(draw.randrange(256) for _ in range(draw.randrange(0, 3 * limit)))
        capture, at = Capture(limit), 0
        while at < len(data):
            size = draw.randrange(1, 2 * limit + 2)
            capture.feed(data[at : at + size])
            at += size
        half = limit - limit // 2

        if len(data) <= limit:
            assert (data, None) == (capture.value(), capture.cut)
        else:
            assert data[:half] + data[len(data) - limit // 2 :] == capture.value()
            assert Cut(half, len(data) - limit) == capture.cut


def test_memory_is_bounded() -> None:
    """A stream without end that comes byte by byte, and one in large pieces, cost the limit and no more."""
    for piece in (b"x", b"x" * 65536):
        tracemalloc.start()
        capture = Capture(10_000)
        for _ in range(300_000 // max(len(piece), 10)):
            capture.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert 40_000 > peak


def test_all_of_it_is_held_once() -> None:
    """Without a limit the value is the buffer that it was collected in, not a copy."""
    tracemalloc.start()
    capture = Capture()
    for _ in range(160):
        capture.feed(b"x" * 65536)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    value = capture.value()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 160 * 65536 == len(value)
    assert before + 100_000 > peak


@pytest.mark.parametrize("limit", range(2, 16))
def test_text_is_cut_between_characters(limit: int) -> None:
    """Characters that the cut falls into are left out with it, and counted."""
    data = "äöüßéèñ€😀äöüßéèñ€😀".encode()
    capture = Capture(limit)
    capture.feed(data)
    text = Coding("utf-8").decode_cut(capture, "|")
    head, _, tail = text.partition("|")
    cut = capture.cut

    assert cut is not None
    assert data.startswith(head.encode())
    assert data.endswith(tail.encode())
    assert (len(head.encode()), len(data) - len((head + tail).encode())) == (cut.offset, cut.left_out)


# -- as an option ---------------------------------------------------------------------------------------------


def test_cut_is_stated(owner: FakeTurn) -> None:
    """What is missing is told with the result, for each stream, in numbers and in words."""
    done = run(owner, "printf aaaaabbbbb; printf 0123456789xyz >&2", shell=True, max_output=10)

    assert (b"aaaaabbbbb", b"0123489xyz"[:5] + b"89xyz") == (done.stdout, done.stderr)
    assert (OutputCut("stderr", 5, 3),) == done.outcome.cuts
    assert (None, OutputCut("stderr", 5, 3)) == (done.cut(), done.cut("stderr"))
    assert [{"stream": "stderr", "offset": 5, "left_out": 3, "gaps": 1}] == done.outcome.as_dict()["cuts"]
    assert ("3 bytes of stderr were left out after the first 5 bytes (max_output)",) == notes_of(done.outcome)


def test_cut_is_marked_where_asked(owner: FakeTurn) -> None:
    """No marker stands in the output unless it was asked for; then it says how much is missing."""
    options = {"shell": True, "max_output": "4b"}
    plain = run(owner, "printf abcdefgh", **options)  # type: ignore[arg-type]
    marked = run(owner, "printf abcdefgh", mark_cut=True, **options)  # type: ignore[arg-type]
    text = run(owner, "printf abcdefgh", mark_cut=True, text=True, **options)  # type: ignore[arg-type]

    assert (b"abgh", b"ab\n[4 bytes left out]\ngh") == (plain.stdout, marked.stdout)
    assert "ab\n[4 bytes left out]\ngh" == text.stdout


def test_short_output_has_no_cut(owner: FakeTurn) -> None:
    """Output of exactly the limit is all there."""
    done = run(owner, ["printf", "12345"], max_output=5, text=True, mark_cut=True)

    assert ("12345", (), ()) == (done.stdout, done.outcome.cuts, notes_of(done.outcome))


def test_endless_line_is_bounded(owner: FakeTurn) -> None:
    """A megabyte without a newline leaves both its ends, and nothing of it is lost in silence."""
    done = run(owner, FLOOD, max_output="1k")

    assert 1024 == len(done.stdout or b"")
    assert OutputCut("stdout", 512, 1_000_000 - 1024) == done.cut()


def test_cut_is_kept_by_a_timeout(owner: FakeTurn) -> None:
    """A command that its timeout ended has its output cut, and told, as any other."""
    done = run(owner, "printf 0123456789; exec sleep 60", shell=True, max_output=4, timeout=0.3)

    assert (b"0189", True, "timeout") == (done.stdout, done.outcome.timed_out, done.outcome.timed_out_by)
    assert OutputCut("stdout", 2, 6) == done.cut()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_output": 0}, "more than 0"),
        ({"max_output": "1x"}, "is no size"),
        ({"max_output": "1k", "capture": False}, "nothing to limit"),
        ({"max_output": "1k", "capture": False, "tee": print}, "nothing to limit"),
        ({"max_output": "1k", "stdout": "null", "stderr": "null"}, "nothing to limit"),
    ],
)
def test_wrong_limits_start_nothing(owner: FakeTurn, options: dict[str, object], message: str) -> None:
    """A limit that is none, or that has nothing to limit, is refused before the start, by ``popen`` too."""
    for function in (run, popen):
        with pytest.raises(BadArgument, match=message):
            function(owner, ["true"], **options)

    assert [] == owner.activities


def test_truth_value_is_no_limit(owner: FakeTurn) -> None:
    """``max_output=True`` is a mistake, not one byte."""
    with pytest.raises(TypeError, match="max_output is True"):
        run(owner, ["true"], max_output=True)


# -- read through a handle ------------------------------------------------------------------------------------


def test_slow_reader_of_a_handle_holds_nothing_up(owner: FakeTurn) -> None:
    """With ``max_output`` a command runs to its end though nobody reads, and the reader is told what is missing."""
    code = "import sys\nfor n in range(200000): print('line', n)"
    with popen(owner, python(code), max_output=1000, text=True) as process:
        assert 0 == process.wait(20)
        lines = [str(line) for line in process]
        cut = process.outcome().cuts[0]

    assert ("line 0\n", "line 199999\n") == (lines[0], lines[-1])
    assert 1000 == sum(map(len, lines))
    assert ("stdout", 500, 1) == (cut.stream, cut.offset, cut.gaps)
    assert sum(len(f"line {n}\n") for n in range(200000)) - 1000 == cut.left_out
    assert 1 == sum(not line.endswith("\n") for line in lines)


def test_chunks_come_as_they_are_written(owner: FakeTurn) -> None:
    """``chunks()`` gives what is there without waiting for a line to be complete; lines may follow."""
    code = "import sys\nprint('no newline', end='', flush=True)\nsys.stdin.readline()\nprint()\nprint('end')"
    with popen(owner, python(code), stdin="pipe") as process:
        chunks = process.chunks()
        first = next(chunks)
        process.write(b"go\n")
        rest = list(process)

    assert (b"no newline", [b"\n", b"end\n"]) == (first, rest)
