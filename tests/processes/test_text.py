"""Text and lines: what subprocess would give, in any cut, and bounded while nobody reads."""

from __future__ import annotations

import io
import threading

import pytest
from commands import FakeTurn
from examples import given
from hypothesis import strategies as st
from standins import Background, until

from turnctl.errors import CancelledError
from turnctl.processes.capture import Capture
from turnctl.processes.text import Coding, Lines


def lines_of(
    coding: Coding | None = None, owner: FakeTurn | None = None, limit: int = 1000, room: list[int] | None = None
) -> Lines:
    told = [] if room is None else room
    return Lines(threading.Condition(), owner or FakeTurn(), lambda: told.append(1), coding, limit)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xc3", b"\xa4", b"\x0b", b"\xe2\x80\xa8"])), st.data())
def test_lines_do_not_depend_on_the_cuts(parts: list[bytes], data: st.DataObject) -> None:
    """However the bytes arrive, bytes lines and text lines are those of a file."""
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    raw, text = lines_of(), lines_of(Coding("utf-8", "replace"))
    found: tuple[list[object], list[object]] = ([], [])
    for piece in pieces:
        for lines, into in zip((raw, text), found, strict=True):
            lines.feed(piece)
            with lines._changed:
                lines._ended = False
            fed, lines._fed = lines._fed, Capture()
            lines._split(fed, False, lines=True)
            into.extend(lines._ready)
            lines._ready.clear()
    for lines, into in zip((raw, text), found, strict=True):
        lines.finish()
        into.extend(lines)

    assert io.BytesIO(whole).readlines() == found[0]
    assert io.TextIOWrapper(io.BytesIO(whole), "utf-8", "replace").readlines() == found[1]


def test_line_comes_as_soon_as_it_is_whole() -> None:
    """A reader gets a line while the command goes on, and the unfinished rest at the end."""
    lines = lines_of()
    lines.feed(b"one\ntw")
    first = next(iter(lines))
    reader = Background(lambda: next(iter(lines)))
    lines.feed(b"o\nthr")
    second = reader.result()
    lines.finish()

    assert (b"one\n", b"two\n", [b"thr"]) == (first, second, list(lines))


def test_reading_again_goes_on_where_it_was() -> None:
    """Leaving a loop over lines loses none of them."""
    lines = lines_of()
    lines.feed(b"1\n2\n3\n")
    lines.finish()
    for line in lines:
        first = line
        break

    assert [b"1\n", b"2\n", b"3\n"] == [first, *lines]


def test_long_line_comes_in_pieces() -> None:
    """A line that is longer than the limit is handed out before it is whole, so that nobody waits for ever."""
    room: list[int] = []
    lines = lines_of(limit=4, room=room)
    lines.feed(b"123456")
    full = lines.is_full
    first = next(iter(lines))
    lines.feed(b"7\n")
    lines.finish()

    assert (True, b"123456", [b"7\n"], [1]) == (full, first, list(lines), room)


def test_stop_wakes_a_reader(leak_check: object) -> None:
    """A reader that waits for a line is woken by a stop, which raises."""
    owner = FakeTurn()
    lines = lines_of(owner=owner)
    reader = Background(lambda: next(iter(lines)))
    assert until(lambda: lines._changed._waiters)  # type: ignore[attr-defined]
    owner.stop()
    with lines._changed:
        lines._changed.notify_all()

    assert isinstance(reader.error(), CancelledError)


def test_stop_goes_before_lines_that_are_there() -> None:
    """Iterating is a checkpoint also where lines are ready."""
    owner = FakeTurn()
    lines = lines_of(owner=owner)
    lines.feed(b"1\n2\n")
    first = next(iter(lines))
    owner.stop()

    assert b"1\n" == first
    with pytest.raises(CancelledError):
        next(iter(lines))


def test_held_stop_lets_a_reader_go_on_without_spinning() -> None:
    """Under a shield a reader waits for the next line although a stop is wanted."""
    owner = FakeTurn()
    owner.stop()
    owner.held = float("inf")
    lines = lines_of(owner=owner)
    reader = Background(lambda: next(iter(lines)))
    assert until(lambda: lines._changed._waiters)  # type: ignore[attr-defined]
    lines.feed(b"clean\n")

    assert b"clean\n" == reader.result()


def test_partial_text_never_raises() -> None:
    """A cut character in partial output is replaced, whatever the error handling."""
    assert "ab\ufffd" == Coding("utf-8", "strict").decode_partial(b"ab\xc3")
    assert "ä" == Coding("utf-8", "strict").decode_partial(b"\xc3\xa4")


def test_unknown_encoding_is_refused_at_once() -> None:
    """A wrong encoding is an error before anything is started."""
    with pytest.raises(LookupError, match="no-such"):
        Coding("no-such")
