"""``turnctl help``: every topic and every command, for people, for man and for programs, never older than the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from launch import ask
from schemas import SCHEMAS, fits

import turnctl
from turnctl.cli.codes import MEANINGS, Code
from turnctl.cli.group import COMMANDS
from turnctl.cli.pages.tree import pages
from turnctl.cli.topics import TOPICS, variables, words
from turnctl.cli.topics.reading import parts_of
from turnctl.clock import UNITS
from turnctl.records.effects import DISPOSITIONS
from turnctl.records.states import STATES

Capture = pytest.CaptureFixture[str]
EVERY = list(pages())


def table(topic: str, title: str) -> dict[str, str]:
    """A table of a topic."""
    return {word: what for part in parts_of(topic) if not isinstance(part, str) and part[0] == title
            for word, what in part[1]}  # fmt: skip


def test_without_a_word_it_is_the_help(capfd: Capture) -> None:
    """The same as --help: commands, topics, options."""
    found = ask(capfd, "help")

    assert found == ask(capfd, "--help")
    assert all(f"\n  {name} " in found.out for name in [*COMMANDS, *TOPICS])


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.name)
def test_each_command_has_its_help_here_too(capfd: Capture, page: object) -> None:
    """As after the command itself; and as a document that fits its schema."""
    name: list[str] = page.name.split()[1:]  # type: ignore[attr-defined]
    shown = ask(capfd, "help", *name)
    document = ask(capfd, "help", "--json", *name)

    assert shown == ask(capfd, *name, "--help")
    assert (0, "") == (document.status, document.err)
    assert page.summary == fits(json.loads(document.out))["summary"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(TOPICS))
def test_each_topic_is_told(capfd: Capture, name: str) -> None:
    """With its summary first, in lines that a terminal has room for; and as a document that fits its schema."""
    found = ask(capfd, "help", name)
    document = ask(capfd, "help", name, "--json")

    assert (0, "") == (found.status, found.err)
    assert f"{TOPICS[name]}\n\n" == found.out[: len(TOPICS[name]) + 2]
    assert [] == [line for line in found.out.splitlines() if len(line) > 78 and " " in line.strip()]
    assert name == fits(json.loads(document.out))["name"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exit-code"], "there is no command or topic 'exit-code'; did you mean exit-codes?"),
        (["stpo"], "there is no command or topic 'stpo'; did you mean stop?"),
        (["ledger", "verfy"], "there is no command 'verfy'; did you mean verify?"),
        (["ps", "now"], "turnctl ps has no commands of its own, and so no 'now'"),
        (["--man", "states"], "states is a topic, and only commands have man pages"),
        (["--man", "--json", "ps"], "--json is one form and --man another; give one of them"),
    ],
)
def test_what_there_is_not_is_told(capfd: Capture, words: list[str], said: str) -> None:
    """With the nearest that there is, and status 2."""
    found = ask(capfd, "help", *words)

    assert 2 == found.status
    assert f"turnctl: error: {said}\nturnctl: hint: " in found.err


@pytest.mark.parametrize(
    ("args", "near"),
    [(["stpo"], "stop"), (["ledger", "verfy"], "verify"), (["ps", "--wacth", "1s"], "--watch"), (["stauts"], "status")],
)
def test_a_slip_is_answered_with_the_nearest(capfd: Capture, args: list[str], near: str) -> None:
    """Of commands, those of a command, and options; with any version of click."""
    found = ask(capfd, *args)

    assert (2, "") == (found.status, found.out)
    assert f"; did you mean {near}?\n" in found.err


def test_codes_are_those_of_the_code() -> None:
    """Every code has a meaning, which the topic tells, and every command names only codes that there are."""
    told = table("exit-codes", "Of every command but run")
    codes = {str(int(code)) for code in Code}

    assert set(Code) == set(MEANINGS)
    assert codes == set(told)
    for page in EVERY:
        if page.name != "turnctl run":
            assert {one for word, _ in page.codes for one in word.split(", ")} <= {*codes, "130"}, page.name
    assert {page.name.removeprefix("turnctl ") for page in EVERY} == set(
        table("exit-codes", "Which command gives which")
    )


def test_words_are_those_of_the_code() -> None:
    """Every word of state and of effects has a meaning, and there are no others; so with units of time."""
    assert list(STATES) == list(table("states", "Words"))
    assert set(STATES) == set(words.MEANINGS)
    assert list(DISPOSITIONS) == list(table("dispositions", "Dispositions"))
    assert [f"1{unit}" for unit in UNITS] == list(table("durations", "Spans (DUR)"))


def test_schemas_are_those_that_come_with_it() -> None:
    """Each by its name, with what it is of."""
    told = {word: what for part in parts_of("json") if not isinstance(part, str) for word, what in part[1]}

    assert {one["title"] for one in SCHEMAS.values()} == set(told)
    assert all(told.values())


def test_variables_are_those_that_are_read() -> None:
    """Every variable of an option is told; and every other that the code asks for, but for those of tests."""
    told = {word for part in parts_of("env") if not isinstance(part, str) for word, _ in part[1]}
    code = "\n".join(path.read_text("utf-8") for path in Path(turnctl.__file__).parent.rglob("*.py"))
    asked = set(re.findall(r"environ(?:\.get\(|\[)\"([A-Z][A-Z_]+)\"", code))
    # failpoints and the like, which are for tests; what the shells of completion set
    inner = r"PATH$|TURNCTL_(LEDGER_)?(FAILPOINT|LAUNCHER|HELD|COMPLETE)|_|COMP_"

    assert set() == {name for page in EVERY for name, _ in page.environment} - told
    assert set() == {name for name in asked if not re.match(inner, name)} - told - {"CLICOLOR_FORCE"}
    assert variables.OTHERS
