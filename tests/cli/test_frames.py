"""Which lines of a live view find room, and how they are drawn."""

from __future__ import annotations

import pytest

from turnctl.cli.frames import Cell, Frame, Group, Row, fitted, state_cell

HEAD, FOOT = Row((Cell("head"),)), Row((Cell("foot"),))


def _row(text: str) -> Row:
    return Row((Cell(text),))


def _frame(*below: int) -> Frame:
    """Groups a, b, c with so many rows below each."""
    groups = tuple(
        Group(_row(name), tuple(_row(f"{name}{n}") for n in range(1, count + 1)))
        for name, count in zip("abcdefgh", below, strict=False)
    )
    return Frame((HEAD,), groups, (FOOT,), ("turn", "turns"))


@pytest.mark.parametrize(
    ("below", "height", "shown"),
    [
        ((2, 1), None, "head a a1 a2 b b1 foot"),
        ((2, 1), 7, "head a a1 a2 b b1 foot"),
        ((2, 1), 6, "head a …2 b b1 foot"),
        ((9, 1, 0), 9, "head a a1 a2 …7 b b1 c foot"),
        ((9, 9), 8, "head a a1 …8 b b1 …8 foot"),
        ((9, 9), 4, "head a b foot"),
        ((0, 0, 0, 0), 5, "head a b +2 foot"),
        ((0, 0, 0, 0), 3, "head +4 foot"),
    ],
)
def test_what_finds_room(below: tuple[int, ...], height: int | None, shown: str) -> None:
    """Each turn before its processes, each its share, and what is left out is counted."""
    texts = [row.cells[0].text for row in fitted(_frame(*below), height)]
    short = [
        f"…{one.split()[1]}" if "…" in one else f"+{one.split()[1]}" if one.startswith("and ") else one for one in texts
    ]

    assert shown == " ".join(short)


def test_state_words_have_their_style() -> None:
    """What a person has to look at stands out; the word is there all the same."""

    assert ["strong", "busy", "good", "good", "bad", "bad", "bad"] == [
        state_cell(word).style
        for word in (
            *("running", "draining", "completed", "cancelled, settled"),
            *("failed", "lost", "completed, effects unresolved"),
        )
    ]


def test_lines_are_as_wide_as_the_terminal() -> None:
    """Columns stand below each other, also with wide letters, and what is too long is cut with a sign."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    from rich.cells import cell_len

    from turnctl.cli.live import drawn

    rows = [("ID", "COMMAND"), ("日本", "make test"), ("t1", "日本語" * 9), ("t2\x1b[2J", "x")]
    frame = Frame((), tuple(Group(Row(tuple(Cell(text) for text in one), has_columns=True)) for one in rows))
    lines = drawn(frame, 24, 3, colour=False)

    assert ["ID    COMMAND", "日本  make test"] == lines[:2]
    assert "\x1b[2mand 2 more lines\x1b[0m" == lines[2]
    whole = drawn(frame, 24, None, colour=False)
    assert "t1         日本語日本語…" == whole[2]
    assert r"t2\x1b[2J  x" == whole[3]
    assert max(cell_len(one) for one in whole) <= 24


def test_columns_stand_still_when_lines_move() -> None:
    """What is not shown now counts for their width, where a person may go on to it."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    from turnctl.cli.live import drawn
    from turnctl.cli.scrolling import Scroll

    rows = [("t1", "a"), ("t2", "b"), ("t333", "c")]
    frame = Frame((), tuple(Group(Row(tuple(Cell(text) for text in one), has_columns=True)) for one in rows))
    scroll, seen = Scroll(), []
    for key in ("j", "j", "g"):
        scroll.press(key.encode())
        seen.append(drawn(frame, 24, 2, colour=False, scroll=scroll))

    assert [["t1    a", "t2    b"], ["t2    b", "t333  c"]] == seen[:2]
    assert "t1    a" == seen[2][0]


def test_colour_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without colour the same text stands there, with no code of a colour."""
    pytest.importorskip("rich", reason="live views need the extra 'live'")
    from turnctl.cli.live import drawn

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    frame = Frame((Row((state_cell("completed"),)),), ())

    assert ["\x1b[32mcompleted\x1b[0m"] == drawn(frame, 80, None, colour=True)
    assert ["completed"] == drawn(frame, 80, None, colour=False)
