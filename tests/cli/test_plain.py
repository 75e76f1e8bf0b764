"""A plain line is read as click reads it, and every other line is left to click."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from launch import call

from turnctl.cli import run as module
from turnctl.cli.plain import DEFAULTS, FLAGS, READERS, REPEATABLE, read

COMMAND: click.Command = module.run
#: of each option a good value, and others
VALUES = {
    "timeout": ["30s", "1m30s", "none", "30", "0s", "-5s", "", "soon"],
    "grace": ["0s", "2s", "5m", "none", "3", ""],
    "stop_signal": ["INT", "sigint", "9", "RTMIN+1", "NOPE", "0", "999"],
    "folder": ["/", ".", "/nowhere", "", "/etc/passwd"],
    "containment": ["auto", "group", "warden", "Auto", "none"],
    "max_output": ["64k", "10MiB", "none", "-1", "x"],
    "idle_timeout": ["5s", "none", "0s", "5"],
    "leftovers": ["end", "wait", "detach", "kept"],
    "summary": ["here.json", "sub/none.json", "-", ".", "/dev/null"],
    "tty": ["new", "inherit", "none", "ours"],
    "limits": ["cpu=30s", "nofile=256", "memory=2GiB", "cpu", "cpu=30", "nope=1"],
    "umask": ["077", "0", "888", "-1", "1777"],
    "env": ["A=b", "A=", "=b", "A", "A=b=c"],
    "unset_env": ["*_TOKEN", "A", "A=b", ""],
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if "TURNCTL" in name:
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def by_click(*args: str) -> dict[str, Any] | None:
    """What click reads; None where it refuses."""
    try:
        return dict(COMMAND.make_context("run", list(args)).params)
    except (click.ClickException, click.exceptions.Exit):
        return None


def lines() -> Iterator[list[str]]:
    yield ["true"]
    yield ["--", "-true", "--", "-q"]
    yield ["true", "-q", "--timeout"]
    yield ["-", "x"]
    yield ["-q", "-q", "true"]
    yield ["--quiet", "--shield", "--no-core-dumps", "-C", "/", "--", "true"]
    yield ["--env", "A=b", "--env=C=d", "--limit", "cpu=3s", "--limit=nofile=9", "--unset-env", "X", "true"]
    yield ["-C/", "true"]
    yield ["-qC", "/", "true"]
    yield ["-C=/", "true"]
    yield ["--quiet=yes", "true"]
    yield ["--time", "5s", "true"]
    yield ["--timeout", "5s", "--timeout", "6s", "true"]
    yield ["--timeout", "--", "true"]
    yield ["--timeout"]
    yield ["-h"]
    for option, (parameter, _) in READERS.items():
        for value in VALUES[parameter]:
            yield [option, value, "true"]
            if option.startswith("--"):
                yield [f"{option}={value}", "--", "true", "x"]


@pytest.mark.parametrize("line", list(lines()), ids=" ".join)
def test_line_is_read_as_click_reads_it(line: list[str]) -> None:
    """The same values, or none."""
    found = read(["run", *line])

    assert found is None or by_click(*line) == found


@pytest.mark.parametrize("option", sorted(READERS))
def test_good_value_is_read_without_click(option: str) -> None:
    """The first value of each option above makes a plain line."""
    line = [option, VALUES[READERS[option][0]][0], "true"]

    assert by_click(*line) == read(["run", *line])


def test_tables_name_the_options_of_click() -> None:
    """Every option of click, by its full names, and nothing else; of the same kind, with the same default."""
    theirs = [one for one in COMMAND.params if isinstance(one, click.Option)]
    names = {name: one.name for one in theirs for name in one.opts}

    assert names == {**{name: parameter for name, (parameter, _) in READERS.items()}, **FLAGS}
    assert {one.name for one in theirs if one.is_flag} == set(FLAGS.values())
    assert {one.name for one in theirs if one.multiple} == set(REPEATABLE)
    assert by_click("true") == {**DEFAULTS, "command": ("true",)}


@pytest.mark.parametrize("args", [[], ["--debug", "run", "true"], ["--", "run", "true"], ["fly"], ["run"], ["run", ""],
                                  ["run", "--"], ["run", "--help"]])  # fmt: skip
def test_other_lines_are_left_to_click(args: list[str]) -> None:
    """What is not `run` with a command is not plain."""
    assert read(args) is None


def test_variables_of_options_leave_the_line_to_click(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable that an option is read from makes a line that is not plain."""
    for name in [one.envvar for one in COMMAND.params if one.envvar] + ["TURNCTL_DEBUG", "_TURNCTL_COMPLETE"]:
        assert isinstance(name, str)
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")

            assert read(["run", "true"]) is None, name


def test_misuse_is_told_by_click() -> None:
    """Options that cannot both be given are found after the line was read: click says so, with the hint."""
    status, out, err = call("run", "--no-core-dumps", "--limit", "core=0B", "true")

    assert (2, "") == (status, out)
    assert "turnctl: error: --limit core and --no-core-dumps cannot both be given\n" in err
    assert "turnctl run --help shows how it is used" in err
