"""The page on settings: its files make its examples answer as shown."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from launch import ask

from turnctl.cli.common import SHARED
from turnctl.cli.settings.scopes import _PROJECT

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "config.md").read_text("utf-8")
HOME = "/home/ana"


def _examples() -> list[tuple[str, str, str]]:
    """The folder, the call and the output of each example: that of the last project's file before it."""
    folder, found = "", []
    for kind, block in re.findall(r"```(toml|console)\n(.*?)```", PAGE, re.DOTALL):
        if kind == "toml" and "/code/" in block.splitlines()[0]:
            folder = str(Path(block.splitlines()[0].removeprefix("# ~/")).parent)
        for call in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:] if kind == "console" else ():
            line, _, output = call.partition("\n")
            found.append((folder, line, output))
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with the files that the page shows."""
    for name in [name for name in os.environ if name.startswith(("TURNCTL_", "XDG_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL):
        file = tmp_path / block.splitlines()[0].removeprefix("# ~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block)
        file.chmod(0o644)
    return tmp_path


@pytest.mark.parametrize(("folder", "line", "output"), _examples())
def test_example_answers_as_shown(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: str, line: str, output: str
) -> None:
    """Every call on the page gives what the page shows, in the folder whose file it has shown."""
    monkeypatch.chdir(home / folder)
    name, *args = shlex.split(line)
    ended = ask(capfd, *args)
    given = [" ".join(one.split()) for one in f"{ended.out}{ended.err}".replace(str(home), HOME).splitlines()]

    assert "turnctl" == name
    assert [" ".join(one.split()) for one in output.splitlines()] == given


def test_page_lists_what_a_project_may_set() -> None:
    """The table on the page is the one that the code goes by."""
    section = PAGE.partition("## What a project may set")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    told = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row.split("|")[2])}
    real = {key for keys in _PROJECT.values() for key in keys.split()}

    assert real | {key for key, files in SHARED.items() if files == "project"} == told
