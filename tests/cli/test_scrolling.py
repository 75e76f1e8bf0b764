"""Keys of a live view, and what they show of what does not fit."""

from __future__ import annotations

import pytest

from turnctl.cli import viewer
from turnctl.cli.frames import Cell, Frame, Group, Row, fitted
from turnctl.cli.scrolling import Scroll, keys_of
from turnctl.cli.viewer import Viewer


@pytest.mark.parametrize(
    ("data", "keys", "rest"),
    [
        (b"jk", [b"j", b"k"], b""),
        (b"\x1b[B\x1b[6~q", [b"\x1b[B", b"\x1b[6~", b"q"], b""),
        (b"\x1bOA\x1b[1;5B", [b"\x1bOA", b"\x1b[1;5B"], b""),
        (b"\x1bq", [b"q"], b""),
        (b"j\x1b", [b"j"], b"\x1b"),
        (b"j\x1b[", [b"j"], b"\x1b["),
        (b"\x1b[6", [], b"\x1b[6"),
        (b"\x1bO", [], b"\x1bO"),
        ("é".encode(), [b"\xc3", b"\xa9"], b""),
        (b"", [], b""),
    ],
)
def test_keys_are_told_apart(data: bytes, keys: list[bytes], rest: bytes) -> None:
    """Also where a sequence comes in two pieces; and a letter within a sequence is no key."""

    assert (keys, rest) == keys_of(data)


def shown(frame: Frame, scroll: Scroll, *keys: bytes) -> str:
    """What stands there after those keys, with room for four lines between a head and a foot."""
    for key in keys:
        assert scroll.press(key)
    rows = fitted(frame, 6, scroll)
    return " ".join("".join(cell.text for cell in row.cells).strip() for row in rows[1:])


def frame(*below: int) -> Frame:
    groups = tuple(
        Group(Row((Cell(name),)), tuple(Row((Cell(f"{name}{n}"),)) for n in range(1, count + 1)))
        for name, count in zip("abcd", below, strict=False)
    )
    return Frame((Row((Cell("head"),)),), groups, (Row((Cell("q ends"),)),), ("turn", "turns"))


def test_all_lines_can_be_reached() -> None:
    """The first press shows all from the first on, then it goes by lines and pages to the last, and back."""
    long, scroll = frame(5, 1), Scroll()
    folded = "a … 5 more b b1 j, k and PgDn, PgUp show all 8 lines   q ends"

    assert folded == shown(long, scroll)
    assert "a a1 a2 a3 lines 1 to 4 of 8   q ends" == shown(long, scroll, b"j")
    assert "a1 a2 a3 a4 lines 2 to 5 of 8   q ends" == shown(long, scroll, b"\x1b[B")
    assert "a5 b b1 lines" in shown(long, scroll, b"\x1b[6~")
    assert "a4 a5 b b1 lines 5 to 8 of 8   q ends" == shown(long, scroll, b" ", b"j")
    assert "a a1 a2 a3 lines 1 to 4 of 8   q ends" == shown(long, scroll, b"\x1b[5~")
    assert "a4 a5 b b1 lines 5 to 8 of 8   q ends" == shown(long, scroll, b"G")
    assert "a3 a4 a5 b lines 4 to 7 of 8   q ends" == shown(long, scroll, b"k")
    assert "a a1 a2 a3 lines 1 to 4 of 8   q ends" == shown(long, scroll, b"b")
    assert folded == shown(long, scroll, b"k")
    assert folded == shown(long, scroll, b"\x1b[A", b"\x1b[5~")
    assert folded == shown(long, scroll, b"G", b"g")


def test_what_shrinks_is_shown_to_its_end() -> None:
    """Lines that went meanwhile leave no hole, and what fits again is shown as a whole, with nothing said of keys."""
    scroll = Scroll()
    shown(frame(5, 1), scroll)

    assert "a4 a5 b b1 lines 5 to 8 of 8   q ends" == shown(frame(5, 1), scroll, b"j", b"G")
    assert "a2 a3 b b1 lines 3 to 6 of 6   q ends" == shown(frame(3, 1), scroll)
    assert "a a1 b q ends" == shown(frame(1, 0), scroll)
    assert "a … 5 more b b1 j, k and PgDn, PgUp show all 8 lines   q ends" == shown(frame(5, 1), scroll)


def test_other_keys_change_nothing() -> None:
    """They are none of these."""
    scroll = Scroll()

    assert [False] * 4 == [scroll.press(key) for key in (b"x", b"\x1b[C", b"\x1b[1;5B", b"\xc3")]
    assert scroll.at is None


def test_sequence_may_come_in_two_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As over a slow line: no key of it is lost, and no letter of it is taken for one."""
    pieces = iter([b"j\x1b[", b"6", b"~", b"\x1b", b"Oq", b"q"])
    seen = Viewer(screen=False)
    monkeypatch.setattr(viewer.os, "read", lambda *_: next(pieces))  # type: ignore[attr-defined]
    seen.scroll.within(20, 4)
    known, over = [], []
    for _ in range(6):
        known.append(seen._keys())
        over.append(seen.is_left)

    assert 4 == seen.scroll.at
    assert [True, True, True, True, False, False] == known
    assert [False] * 5 + [True] == over
