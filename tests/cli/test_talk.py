"""What is said is whole lines with our name in front, harmless to a terminal, and short where a list is long."""

from __future__ import annotations

import pytest

from turnctl.cli.talk import complain, names, say


def test_each_line_has_our_name(capfd: pytest.CaptureFixture[str]) -> None:
    """Several lines are several lines of ours."""
    say("one", "two")
    complain("wrong", "do this")
    complain("wrong")

    expected = "turnctl: one\nturnctl: two\nturnctl: error: wrong\nturnctl: hint: do this\nturnctl: error: wrong\n"
    assert ("", expected) == capfd.readouterr()


def test_control_characters_are_not_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    """What a process calls itself cannot clear the screen, nor begin a line, nor bring stderr into trouble."""
    say("a\x1b[2Jb\x07 \udcff é\nturnctl: fine")

    assert "turnctl: a\\x1b[2Jb\\x07 \\xff é\\nturnctl: fine\n" == capfd.readouterr().err


def test_long_list_of_names_is_cut() -> None:
    """Eight processes are named, the rest is counted."""
    assert "" == names([])
    assert "bash 1, sleep 2" == names([("bash", 1), ("sleep", 2)])
    assert names([("p", n) for n in range(10)]).endswith("p 7 and 2 more")
