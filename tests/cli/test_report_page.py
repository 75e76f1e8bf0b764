"""The page on reports: its calls work, and what it draws is what is drawn."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from launch import ask
from sketches import stopped

from turnctl.cli.common import group_of
from turnctl.cli.report import report
from turnctl.report.drawing import picture_of
from turnctl.report.markdown import markdown

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "report.md").read_text("utf-8")


def test_calls_on_the_page_work(
    shelf: Path, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes the file that it names, and nothing to stdout; the first as on a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("turnctl.cli.report.is_terminal", lambda: True)
    calls = re.findall(r"^\$ turnctl (.*)$", PAGE, re.MULTILINE)
    found = [ask(capfd, *shlex.split(call)) for call in calls]

    assert [(0, "")] * 6 == [(one.status, one.out) for one in found]
    assert [
        "shown.html",
        "state",
        "turn.json",
        "turn.md",
        "turn.svg",
        "turn.trace.json",
        "turnctl-t3ffffffff.html",
    ] == (sorted(one.name for one in tmp_path.iterdir()))


def test_drawing_on_the_page_is_drawn() -> None:
    """Letter by letter."""
    (drawing,) = re.findall(r"```text\n.*?```\n", PAGE, re.DOTALL)

    assert drawing in markdown(picture_of(stopped()), made_by="turnctl 0")


def test_page_has_every_option_and_format() -> None:
    """None is left out."""
    options = [one.opts for one in report.params if one.param_type_name == "option" and group_of(one) != "common"]

    assert [] == [names for names in options if not any(name in PAGE for name in names)]
    assert [] == [word for word in ("html", "svg", "md", "json", "trace") if f"`{word}`" not in PAGE]
