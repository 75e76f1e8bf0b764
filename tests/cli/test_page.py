"""The page of the command line: what it shows of commands is what they answer."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from launch import ask

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md"


def _examples() -> list[tuple[str, str]]:
    """Each call that the page shows, with its output."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        for call in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = call.partition("\n")
            found.append((line, output))
    return found


@pytest.mark.parametrize(("line", "output"), _examples())
def test_example_answers_as_shown(shelf: Path, capfd: pytest.CaptureFixture[str], line: str, output: str) -> None:
    """Every call on the page gives the output on the page, from the state directory that the tests have."""
    name, *args = shlex.split(line)

    assert "turnctl" == name
    assert output == ask(capfd, *args).out


def test_every_command_is_on_the_page() -> None:
    """No command is left out of the page."""
    from turnctl.cli.group import COMMANDS

    text = PAGE.read_text("utf-8")

    assert [] == [name for name in COMMANDS if f"turnctl {name}" not in text]
