"""When output came: moments beside what is kept, bounded, in the order of reading, and never in the way of output."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnctl import clock
from turnctl.ledger import spool_times
from turnctl.ledger.spool import Kept, Spool, read, remove
from turnctl.ledger.spool_lines import Following, Line
from turnctl.ledger.spool_times import file_of, read_moments


class ByHand:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.now

    def block(self, lock: Any, seconds: float) -> object:
        return lock.acquire(True, seconds)


@pytest.fixture
def by_hand() -> Any:
    """The clock of the test."""
    made = ByHand()
    with clock.use(made):
        yield made


def _moments(folder: Path, name: str, offset: int = 0) -> list[tuple[int, float]] | None:
    return read_moments(str(folder / "turns" / "t1" / name), offset)


def _lines(folder: Path | str) -> list[Line]:
    found = Following(str(folder), "t1")
    return [*found.more(), *found.end()]


def test_each_moment_has_its_byte(tmp_path: Path, by_hand: ByHand) -> None:
    """A write that comes later has an entry of its own; those of one moment share it."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    for data, later in ((b"one\n", 0.002), (b"two\n", 5.0), (b"three\n", 0.0)):
        kept.write(data)
        by_hand.now += later
    kept.finish()

    assert [(0, 1000.0), (8, 1005.002)] == _moments(tmp_path, "out")
    assert 0o600 == (tmp_path / "turns" / "t1" / "out.times.0").stat().st_mode & 0o777


def test_order_between_streams_is_kept(tmp_path: Path, by_hand: ByHand) -> None:
    """Two streams that write in turn, with no time between that a clock could tell, are read in that order."""
    made = Spool(str(tmp_path), "t1")
    out, err = made.stream("out"), made.stream("err")
    for n, stream in enumerate((out, err, out, out, err)):
        stream.write(b"%d\n" % n)
        by_hand.now += 0.000_01
    made.close()

    assert [b"0", b"1", b"2", b"3", b"4"] == [one.data for one in _lines(tmp_path)]
    assert ["out", "err", "out", "out", "err"] == [one.stream for one in _lines(tmp_path)]


def test_lists_are_bounded(tmp_path: Path, by_hand: ByHand) -> None:
    """Single bytes with a moment between: at most 4 KiB more than what is kept, and the last entry is near."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    for _ in range(3000):
        kept.write(b".")
        by_hand.now += 1.0
    kept.finish()
    moments = _moments(tmp_path, "out") or []

    assert 256 <= len(moments) <= 256 + 3000 // 16
    assert max(b - a for (a, _), (b, _) in pairwise(moments)) <= 16


def test_lists_go_with_their_pieces(tmp_path: Path) -> None:
    """A piece that is replaced takes its list along, and so does a turn that is purged."""
    kept = Spool(str(tmp_path), "t1", 16).stream("out")
    kept.write(b"x" * 40)
    kept.finish()
    folder = tmp_path / "turns" / "t1"
    there = sorted(os.listdir(folder))
    remove(str(tmp_path), "t1")

    assert ["out.head", "out.tail.32", "out.tail.36", "out.times.0", "out.times.32", "out.times.36"] == there
    assert not folder.exists()


def test_stream_goes_on_without_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no list can be made or written, what comes is kept all the same, and its time is not known."""
    monkeypatch.setattr(spool_times, "_FLAGS", os.O_WRONLY)  # there is none yet
    kept = Spool(str(tmp_path), "t1").stream("out")
    kept.write(b"one\n")
    kept.finish()

    assert {"bytes": 4} == kept.account()
    assert [Line(None, "out", b"one")] == _lines(tmp_path)


def test_list_of_an_unfinished_write_is_read(tmp_path: Path, by_hand: ByHand) -> None:
    """What a kill left of an entry is passed over, and so is what no list of ours has."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    kept.write(b"one\n")
    kept.finish()
    base = str(tmp_path / "turns" / "t1" / "out")
    with open(file_of(base, 0), "ab") as file:
        file.write(b"\0" * 17 + b"\1" * 5)

    assert [(0, 1000.0), (0, 0.0)] == read_moments(base, 0)
    assert [Line(0.0, "out", b"one")] == _lines(tmp_path)


def test_gap_is_a_line_of_its_own(tmp_path: Path, by_hand: ByHand) -> None:
    """What was cut out is told where it was, and what is before and behind it are never one line."""
    kept = Spool(str(tmp_path), "t1", 16).stream("out")
    kept.write(b"0123\n567")
    by_hand.now += 1
    kept.write(b"9abcdefghijklm\nopqrs")
    kept.finish()

    assert [
        Line(1000.0, "out", b"0123"),
        Line(1000.0, "out", b"567", is_ended=False),
        Line(1001.0, "out", b"", missing=12),
        Line(1001.0, "out", b"lm"),
        Line(1001.0, "out", b"opqrs", is_ended=False),
    ] == _lines(tmp_path)


def test_who_follows_gets_each_line_once(tmp_path: Path, by_hand: ByHand) -> None:
    """What comes between two looks is given by the second, a line when its end has come."""
    made = Spool(str(tmp_path), "t1")
    kept, found = made.stream("out"), Following(str(tmp_path), "t1")
    seen = [list(found.more())]
    for data in (b"one\ntw", b"o\nthree", b""):
        kept.write(data)
        seen.append([one.data for one in found.more()])
    made.close()

    assert [[], [b"one"], [b"two"], []] == seen
    assert [Line(1000.0, "out", b"three", is_ended=False)] == list(found.end())


def test_piece_that_goes_meanwhile_is_a_gap(tmp_path: Path) -> None:
    """What was taken away between two looks is told as missing, and what is there by then is given."""
    kept, found = Spool(str(tmp_path), "t1", 16).stream("out"), Following(str(tmp_path), "t1")
    kept.write(b"12345678")
    first = [*found.more()]
    kept.write(b"x" * 20 + b"ab\ncd\n")
    kept.finish()
    later = [*found.more(), *found.end()]

    assert [] == first
    assert ["12345678", 20, "b", "cd"] == [one.missing or one.data.decode().lstrip("xa") for one in later]


def test_moment_is_kept_before_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a kill between the two leaves no byte without one (T1)."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    written: list[bytes] = []
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(bytes(data)) or write(fd, data))
    kept.write(b"one\n")
    monkeypatch.undo()
    kept.finish()

    assert [16, 4] == [len(one) for one in written]


def test_order_is_kept_where_a_process_was_killed(tmp_path: Path, by_hand: ByHand) -> None:
    """A moment whose bytes never came changes nothing of what did."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    kept.write(b"one\n")
    by_hand.now += 1
    kept._moments.note(4)  # killed here
    kept.finish()

    assert [(0, 1000.0), (4, 1001.0)] == _moments(tmp_path, "out")
    assert [Line(1000.0, "out", b"one")] == _lines(tmp_path)


@given(st.integers(0, 6), st.lists(st.sampled_from([b"a\n", b"\n", b"bb", b"ccc\nd"]), max_size=12), st.integers(4, 60))
@settings(max_examples=30, deadline=None)
def test_last_lines_are_the_last(last: int, parts: list[bytes], limit: int) -> None:
    """Who wants the last lines alone gets those at least, as they are in all of it."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Spool(folder, "t1", limit).stream("out")
        for data in parts:
            kept.write(data)
        kept.finish()
        whole = _lines(folder)
        found = Following(folder, "t1")
        some = [*found.more(last=last), *found.end()]

    assert whole[len(whole) - len(some) :] == some
    assert min(last, len(whole)) <= len(some)


def test_long_lines_come_in_parts(tmp_path: Path) -> None:
    """A line without an end takes no more room than its parts."""
    kept = Spool(str(tmp_path), "t1").stream("out")
    kept.write(b"x" * 150_000 + b"\n")
    kept.finish()

    assert [(65536, False), (65536, False), (18928, True)] == [
        (len(one.data), one.is_ended) for one in _lines(tmp_path)
    ]


@given(st.integers(4, 60), st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=30)), max_size=20), st.booleans())
@settings(max_examples=30, deadline=None)
def test_lines_are_all_that_is_kept(limit: int, parts: list[tuple[int, bytes]], follows: bool) -> None:
    """However it comes, and whenever it is looked at: the lines of a stream, put together, are what is kept of it."""
    with tempfile.TemporaryDirectory() as folder:
        made = Spool(folder, "t1", limit)
        streams: list[Kept] = [made.stream("a"), made.stream("b")]
        found = Following(folder, "t1")
        lines: list[Line] = []
        for n, data in parts:
            streams[n].write(data)
            if follows:
                lines += found.more()
        made.close()
        lines += [*found.more(), *found.end()]
        kept = {one.name: one for one in read(folder, "t1")}
    for name, one in kept.items():
        mine = [line for line in lines if line.stream == name]

        assert one.total == sum(len(line.data) + line.is_ended if not line.missing else line.missing for line in mine)
        if not follows:
            assert [n for _, n in one.missing] == [line.missing for line in mine if line.missing]
