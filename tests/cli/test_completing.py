"""Completion: what fits where a person is writing, read and never written, capped, nothing said that is no answer."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from shelf import opened

from turnctl.cli.completing.answer import answer, found_at
from turnctl.cli.completing.kinds import MOST
from turnctl.cli.completing.lines import quoted, split
from turnctl.cli.group import COMMANDS
from turnctl.cli.pages.tree import commands
from turnctl.cli.topics import TOPICS
from turnctl.records.states import STATES

Capture = pytest.CaptureFixture[str]
TURNS = ["t3ffffffff", "t3eeeeeeee", "t2dddddddd", "t2cccccccc", "t1bbbbbbbb", "t1aaaaaaaa"]


def fits(line: str) -> list[str]:
    """The words that fit at the end of that line."""
    *before, last = (word.text for word in split(line))
    return [word for word, _ in found_at(before, last).words]


def told(capfd: Capture, *args: str) -> tuple[int, str]:
    """What a shell is answered, and the status."""
    capfd.readouterr()
    status = answer(list(args))
    found = capfd.readouterr()

    assert "" == found.err
    return status, found.out


def test_commands_and_topics_fit() -> None:
    """Commands by their beginning, those of a command after it, topics after help."""
    assert sorted(COMMANDS) == fits("turnctl ")
    assert ["show", "status", "stop"] == fits("turnctl s")
    assert ["backup", "prune", "verify"] == fits("turnctl ledger ")
    assert ["backup", "prune", "verify"] == fits("turnctl help ledger ")
    assert {*TOPICS, *COMMANDS} == set(fits("turnctl help "))
    assert [] == fits("turnctl nothing ")


def test_options_fit() -> None:
    """Names of options that the command has; those that stand before a command; none after --."""
    assert ["--watch"] == fits("turnctl ps --w")
    assert {"--log", "--log-max"} == set(fits("turnctl run --log"))
    assert "--state-dir" in fits("turnctl --st")
    assert "--version" in fits("turnctl -")
    assert [] == fits("turnctl ps -- --w")


def test_words_of_the_code_fit() -> None:
    """Choices, words of state without what would have to be quoted, signals, shells."""
    assert ["relative", "iso", "epoch"] == fits("turnctl ps --time-format ")
    assert len(STATES) == len(fits("turnctl ps --state "))
    assert ["cancelled_settled"] == fits("turnctl ps --state cancelled")
    assert ["--state=running"] == fits("turnctl ps --state=r")
    assert "TERM" in fits("turnctl run --signal ")
    assert ["provider_cancelled"] == fits("turnctl effects --disposition p")[1:]
    assert ["zsh"] == fits("turnctl completion z")


def test_turns_on_record_fit(shelf: Path) -> None:
    """The newest first, with @ and sessions of those that run; and by their beginning."""
    assert ["session:build", "@", *TURNS] == fits("turnctl status ")
    assert ["t2dddddddd", "t2cccccccc"] == fits("turnctl show t2")
    assert ["@", "@2", "@3", "@4", "@5", "@6"] == fits("turnctl show @")
    assert ["session:build"] == fits("turnctl show se")
    assert ["build"] == fits("turnctl stop --session ")
    assert ["session:build", "@", "t3ffffffff"] == fits("turnctl stop ")


def test_effects_on_record_fit(shelf: Path) -> None:
    """Effects where one is asked for; only those without an outcome where one is looked for."""
    assert ["e-d0", "e-d1"] == fits("turnctl effects show e-d")
    assert "show" in fits("turnctl effects ")
    assert ["e-d1"] == fits("turnctl reconcile --effect ")


def test_the_state_directory_of_the_line_counts(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the line names, before or after the command."""
    monkeypatch.setenv("TURNCTL_STATE_DIR", "/nowhere")

    assert ["t1bbbbbbbb"] == fits(f"turnctl --state-dir {shelf} status t1b")
    assert ["t1bbbbbbbb"] == fits(f"turnctl status --state-dir={shelf} t1b")


def test_what_a_shell_knows_is_left_to_it(capfd: Capture) -> None:
    """Files, folders, and the command line that turnctl runs, from its first word on."""
    assert (0, "folders\n") == told(capfd, "zsh", "turnctl", "run", "-C", "")
    assert (0, "files\n") == told(capfd, "fish", "turnctl", "bundle", "@", "-o", "")
    assert (0, "command 6\n") == told(capfd, "zsh", "turnctl", "run", "-s", "x", "--", "make", "te")
    assert (0, "command 3\n") == told(capfd, "fish", "turnctl", "run", "ma")
    assert (0, "command 20\n") == told(capfd, "bash", "turnctl run -s x -- make te", "te")


@pytest.mark.parametrize(
    ("line", "current", "put"),
    [
        ("turnctl status session:my", "my", "my\\ build:\\ a"),
        ("turnctl status session:my\\ b", "my\\ b", "my\\ build:\\ a"),
        ("turnctl status 'session:my b", "session:my b", "session:my build: a"),
        ('turnctl status "session:my b', "session:my b", "session:my build: a"),
        ("turnctl stop --session=m", "m", "my\\ build:\\ a"),
        ("turnctl stop --session m", "m", "my\\ build:\\ a"),
        ("turnctl stop -s m", "m", "my\\ build:\\ a"),
    ],
)
def test_bash_gets_what_it_puts_there(shelf: Path, capfd: Capture, line: str, current: str, put: str) -> None:
    """What stands behind the last colon or equals sign, quoted as the word was begun."""
    with opened(shelf) as more:
        more.turn("t4gggggggg", session="my build: a", task="named")

        assert (0, f"words\n{put}\n") == told(capfd, "bash", line, current)


def test_a_line_is_read_as_bash_does() -> None:
    """Quotes, backslashes and what is still open."""
    words = split('turnctl a\\ b \'c d\'"e\\"f" "g h')

    assert ["turnctl", "a b", 'c de"f', "g h"] == [word.text for word in words]
    assert ('"g h', '"') == (words[-1].raw, words[-1].quote)
    assert ["a", ""] == [word.text for word in split("a ")]
    assert [("a b$", "a\\ b\\$"), ("a$", "a\\$"), ("a'", "a'\\''")] == [
        ("a b$", quoted("a b$")),
        ("a$", quoted("a$", '"')),
        ("a'", quoted("a'", "'")),
    ]


def test_no_more_than_so_many_are_shown(shelf: Path) -> None:
    """However many are on record."""
    with opened(shelf) as more:
        for n in range(MOST + 5):
            more.turn(f"t5{n:08d}", task=f"many-{n}", session=f"one-{n % 2}")

        assert MOST == len(fits("turnctl show t5"))
        assert MOST == len([word for word in fits("turnctl show ") if word.startswith("t")])
        assert ["session:build", "session:one-0", "session:one-1"] == sorted(fits("turnctl show session:"))


def test_what_cannot_be_shown_is_left_out(shelf: Path, capfd: Capture) -> None:
    """A name that would break the line is not offered, and none of it reaches the terminal."""
    with opened(shelf) as more:
        more.turn("t4gggggggg", session="a\nb\x1b[2J", task="odd", command=["x\ty\n\x1bz"])
        _, text = told(capfd, "zsh", "turnctl", "show", "")

    assert ["t4gggggggg\trunning  'x y  z'"] == [one for one in text.splitlines() if one.startswith("t4")]
    assert "\x1b" not in text


@pytest.fixture
def unusable(shelf: Path) -> Path:
    """A state directory that a command would refuse with a message."""
    (shelf / "ledger.sqlite3").write_bytes(b"no database" * 100)
    return shelf


@pytest.mark.parametrize(
    "args",
    [
        ("zsh", "turnctl", "show", ""),
        ("bash", "turnctl show ", ""),
        ("bash",),
        ("nushell",),
        (),
        ("zsh", "turnctl", "help", "nothing", ""),
    ],
)
def test_errors_are_silent(unusable: Path, capfd: Capture, args: tuple[str, ...]) -> None:
    """Nothing stands in the middle of what a person is writing; the status alone says so."""
    assert (1, "") == told(capfd, *args)


def test_no_ledger_is_no_error_to_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture) -> None:
    """Where nothing is on record nothing is made, and nothing is said."""
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "none"))

    assert "" == told(capfd, "zsh", "turnctl", "show", "")[1]
    assert [] == os.listdir(tmp_path)


def test_every_place_has_an_answer(shelf: Path) -> None:
    """Of every command, new ones as well: after each option that takes something, and for each operand."""
    for name, command in commands():
        for param in command.params:
            opened_by = [param.opts[-1]] if isinstance(param, click.Option) else []
            found = found_at([*name.split(), *opened_by], "")
            assert found.kind.split()[0] in ("words", "files", "folders", "command"), (name, param.name)


def test_nothing_is_written(shelf: Path) -> None:
    """To complete changes no file of the state directory."""

    def state() -> dict[str, tuple[float, bytes]]:
        return {one.name: (one.stat().st_mtime_ns, one.read_bytes()) for one in shelf.iterdir() if one.is_file()}

    before = state()
    fits("turnctl show ")
    fits("turnctl effects show ")

    assert {name: before[name] for name in before} == {name: state()[name] for name in before}
