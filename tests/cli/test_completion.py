"""``turnctl completion``: which shell it is for, where it writes, what it never touches, and what it loads."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class
from launch import Ended, ask, call, turnctl_argv
from lean import NOT_FOR_LOOKING, loaded_by
from schemas import fits

from turnctl.cli.completing import calling, forclick
from turnctl.cli.completing.answer import answer
from turnctl.cli.completing.places import MARK, place_of
from turnctl.cli.completing.scripts import script_for

Capture = pytest.CaptureFixture[str]
HAS_POWERSHELL = get_completion_class("powershell") is not None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with nothing in place."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_script_is_printed(capfd: Capture, name: str) -> None:
    """On stdout, and nothing else anywhere; with --json in a document."""
    assert Ended(0, script_for(name), "") == ask(capfd, "completion", name)
    document = json.loads(ask(capfd, "completion", name, "--json").out)

    assert script_for(name) == document["script"]
    assert fits(document)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bash", ".local/share/bash-completion/completions/turnctl"),
        ("zsh", ".local/share/zsh/site-functions/_turnctl"),
        ("fish", ".config/fish/completions/turnctl.fish"),
    ],
)
def test_install_writes_one_file_and_says_which(home: Path, capfd: Capture, name: str, file: str) -> None:
    """That one alone, once; --path tells it and writes nothing; what a person has to add to a file is said."""
    assert Ended(0, f"{home / file}\n", "") == ask(capfd, "completion", name, "--path")
    assert [] == os.listdir(home)
    first = ask(capfd, "completion", name, "--install")
    again = ask(capfd, "completion", name, "--install")

    assert (0, f"{home / file}\n") == (first.status, first.out)
    assert first.err.startswith(f"turnctl: written: {home / file}\nturnctl: new shells have it")
    assert again.err.startswith(f"turnctl: it was there already: {home / file}\n")
    assert [home / file] == [path for path in home.rglob("*") if path.is_file()]
    assert script_for(name) == (home / file).read_text()


def test_install_replaces_an_older_one(home: Path, capfd: Capture) -> None:
    """A file of ours is brought up to date."""
    path = Path(str(place_of("zsh")))
    path.parent.mkdir(parents=True)
    path.write_text(f"#compdef turnctl\n# {MARK} for zsh, an older one\n")

    assert 0 == ask(capfd, "completion", "zsh", "--install").status
    assert script_for("zsh") == path.read_text()


def test_what_is_not_ours_stays(home: Path, capfd: Capture) -> None:
    """Another's file in the place is left as it is, and told."""
    path = Path(str(place_of("fish")))
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n")
    found = ask(capfd, "completion", "fish", "--install", "--json")

    assert (1, "file_exists") == (found.status, json.loads(found.out)["code"])
    assert f"error: {path} is not turnctl's, and was left as it is\n" in found.err
    assert "# mine\n" == path.read_text()


def test_a_folder_that_cannot_be_made_is_told(home: Path, capfd: Capture) -> None:
    """With the path and the reason, and what to do instead."""
    (home / ".config").write_text("a file")
    found = ask(capfd, "completion", "fish", "--install")

    assert (1, "") == (found.status, found.out)
    assert (
        "could not be written: Not a directory\nturnctl: hint: write another: turnctl completion fish > FILE"
        in found.err
    )


def test_folders_of_the_user_count_if_absolute(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the specification says; bash-completion's own variable before it."""
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")

    assert "/data/zsh/site-functions/_turnctl" == place_of("zsh")
    assert str(home / ".config/fish/completions/turnctl.fish") == place_of("fish")
    assert "/data/bash-completion/completions/turnctl" == place_of("bash")
    monkeypatch.setenv("BASH_COMPLETION_USER_DIR", "/own")
    assert "/own/completions/turnctl" == place_of("bash")


def test_the_shell_that_called_is_taken(tmp_path: Path) -> None:
    """By the name of a process above, whatever SHELL says; stderr says which, and why."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the processes above are told by /proc")
    shell = tmp_path / "zsh"
    shutil.copy(str(shutil.which("bash")), shell)  # named so, for the kernel
    from subprocess import run

    done = run(
        [shell, "-c", '"$@"; :', "-", *turnctl_argv("completion")],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, "SHELL": "/bin/fish"},
    )

    assert (script_for("zsh"), "turnctl: for zsh, which has called this\n") == (done.stdout, done.stderr)


def test_else_the_one_of_the_login(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """By SHELL, which is said; where that is no shell that there is a script for, it has to be named."""
    monkeypatch.setattr(calling, "_process", lambda _: ("python", 0))
    monkeypatch.setenv("SHELL", "/usr/bin/fish")

    assert Ended(0, script_for("fish"), "turnctl: for fish, by SHELL\n") == ask(capfd, "completion")
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    found = ask(capfd, "completion")
    assert (2, "") == (found.status, found.out)
    assert "name it: bash, zsh, fish, powershell" in found.err


def test_powershell_is_what_click_has(home: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its script comes with click 8.5; with an older one that is said. There is no file for it."""
    found = ask(capfd, "completion", "powershell")
    installed = ask(capfd, "completion", "powershell", "--install")

    assert 2 == installed.status
    assert "powershell has no folder for completions" in installed.err
    if not HAS_POWERSHELL:
        assert (2, "") == (found.status, found.out)
        assert "has no completion for powershell; it came with click 8.5" in found.err.replace("\nturnctl: hint:", ";")
        return
    assert "Register-ArgumentCompleter -Native -CommandName turnctl" in found.out
    monkeypatch.setenv("COMP_WORDS", "turnctl stat")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert 0 == forclick.answer()
    assert "plain\nstatus\n" == capfd.readouterr().out[:13]


def test_path_and_install_are_one_too_many(capfd: Capture) -> None:
    """To print where, and to write there, are two things."""
    assert 2 == ask(capfd, "completion", "bash", "--path", "--install").status


def test_completing_is_lean(tmp_path: Path, shelf: Path) -> None:
    """What is called at each key loads SQLite and no more."""
    loaded = loaded_by(tmp_path, "__complete", "zsh", "turnctl", "status", "", env={"TURNCTL_STATE_DIR": str(shelf)})

    assert "turnctl.ledger.glance" in loaded
    assert set() == loaded & {"turnctl.turns", "turnctl.ledger.sqlite", "attr", "attrs", *NOT_FOR_LOOKING}


def test_it_works_where_settings_are_wrong(tmp_path: Path) -> None:
    """A file of settings that no command can read is no reason to have no help, and no completion."""
    (tmp_path / "turnctl.toml").write_text("nothing = [")

    assert 0 == call("help", "durations", cwd=tmp_path).status
    assert (0, "words\nstatus\n") == call("__complete", "bash", "turnctl stat", "stat", cwd=tmp_path)[:2]


def test_the_state_directory_of_the_settings_counts(
    shelf: Path, home: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns are those that the command would see: of the directory that the user's settings name."""
    monkeypatch.delenv("TURNCTL_STATE_DIR")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    file = home / ".config" / "turnctl" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'state-dir = "{shelf}"\n')
    file.chmod(0o644)
    capfd.readouterr()
    status = answer(["zsh", "turnctl", "status", "t1a"])

    assert (0, "words\nt1aaaaaaaa\t") == (status, capfd.readouterr().out[:17])
    answer(["zsh", "turnctl", "status", "--config", os.devnull, "t1a"])
    assert "t1aaaaaaaa" not in capfd.readouterr().out
