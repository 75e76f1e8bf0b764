"""Settings from files: which file wins, what it may say, and how what is wrong with it is told."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from commandtree import every
from forked import waited
from launch import Ended, ask
from shelf import IDS

from turnctl.cli.settings import places

RUNNING = IDS[-1]
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


class Desk:
    """A home and a project below it, with the files of settings that a test writes there."""

    def __init__(self, tmp_path: Path, patch: Patch) -> None:
        self.home = tmp_path / "home"
        self.project = self.home / "work" / "project"
        self.below = self.project / "src" / "deep"
        self.below.mkdir(parents=True)
        self.user = self.home / ".config" / "turnctl" / "config.toml"
        patch.setenv("HOME", str(self.home))
        for name in ("XDG_CONFIG_HOME", "TURNCTL_CONFIG", "TURNCTL_NO_CONFIG"):
            patch.delenv(name, raising=False)
        patch.chdir(self.below)
        whole = places._upwards  # nor counts what somebody else has put into the folder for temporary files
        patch.setattr(places, "_upwards", lambda: (one for one in whole() if one != tempfile.gettempdir()))

    def write(self, text: str, file: Path | None = None) -> Path:
        """By default the project's pyproject.toml."""
        file = file or self.project / "pyproject.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o644)
        return file


@pytest.fixture
def desk(shelf: Path, tmp_path: Path, monkeypatch: Patch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def form(capfd: Capture, *args: str) -> str:
    """How a time is written: what the setting ``time-format`` says, which is iso by default here."""
    ended = ask(capfd, "status", "@", *args)

    assert 0 == ended.status, ended.err
    return {"o\n": "relative", "Z\n": "iso", "0\n": "epoch"}[ended.out[-2:]]


def pyproject(how: str) -> str:
    return f"[tool.turnctl]\ntime-format = '{how}'\n"


def test_precedence(desk: Desk, capfd: Capture, monkeypatch: Patch) -> None:
    """A flag is stronger than a variable, then comes the project's file, then the user's, then the default."""
    steps = [form(capfd)]
    desk.write("time-format = 'relative'\n", desk.user)
    steps.append(form(capfd))
    desk.write(pyproject("epoch"))
    steps.append(form(capfd))
    monkeypatch.setenv("TURNCTL_TIME_FORMAT", "iso")
    steps.append(form(capfd))
    steps.append(form(capfd, "--time-format", "relative"))

    assert ["iso", "relative", "epoch", "iso", "relative"] == steps


def test_each_setting_has_its_own_precedence(desk: Desk, capfd: Capture) -> None:
    """What the project's file leaves open the user's says."""
    desk.write("time-format = 'iso'\n[ps]\nnumber = 4\nall = true\n", desk.user)
    desk.write(pyproject("epoch"))
    lines = ask(capfd, "ps").out.splitlines()

    assert 1 + 4 == len(lines)
    assert "1796040300.000" in lines[1]


def test_common_setting_is_for_every_command(desk: Desk, capfd: Capture) -> None:
    """It stands outside of the tables of commands, and a command's own table is stronger than that."""
    desk.write(f"{pyproject('epoch')}[tool.turnctl.ps]\ntime-format = 'iso'\n")

    assert f"{RUNNING} running, since 1796040300.000\n" == ask(capfd, "status", "@").out
    assert "2026-11-30T12:05:00Z" in ask(capfd, "ps").out


def test_nearest_project_file_wins(desk: Desk, capfd: Capture) -> None:
    """Of several pyproject.toml the nearest that has a table of ours counts, alone."""
    desk.write(pyproject("epoch"), desk.home / "work" / "pyproject.toml")
    desk.write("[project]\nname = 'turnctl'\n# not [tool.turnctl]\n", desk.below / "pyproject.toml")

    assert "epoch" == form(capfd)
    desk.write("[tool.turnctl]\nverbose = 0\n")
    assert "iso" == form(capfd)


def test_pyproject_hides_turnctl_toml(desk: Desk, capfd: Capture) -> None:
    """turnctl.toml counts where no pyproject.toml speaks of turnctl; else it is passed over, and -v says so."""
    own = desk.write("time-format = 'relative'\n", desk.below / "turnctl.toml")

    assert "relative" == form(capfd)
    used = desk.write(pyproject("epoch"))
    assert "epoch" == form(capfd)
    assert f"turnctl: settings: {own} was not read: {used} is used\n" in ask(capfd, "ps", "-v").err


def test_named_file_is_the_only_one(desk: Desk, capfd: Capture, monkeypatch: Patch) -> None:
    """--config reads that file alone, --no-config none; a flag is stronger than TURNCTL_CONFIG, TURNCTL_NO_CONFIG."""
    desk.write(f"{pyproject('epoch')}[tool.turnctl.ps]\nno-trunc = true\n")
    named = str(desk.write("time-format = 'relative'\n", desk.home / "mine.toml"))
    other = str(desk.write("[tool.turnctl]\nverbose = 0\n", desk.home / "other" / "pyproject.toml"))

    assert ["relative", "iso"] == [form(capfd, "--config", named), form(capfd, "--no-config")]
    assert "iso" == form(capfd, f"--config={other}")
    monkeypatch.setenv("TURNCTL_CONFIG", named)
    assert ["relative", "iso"] == [form(capfd), form(capfd, "--config", other)]
    assert "iso" == form(capfd, "--no-config")
    monkeypatch.setenv("TURNCTL_NO_CONFIG", "1")
    assert ["iso", "relative"] == [form(capfd), form(capfd, "--config", named)]
    monkeypatch.setenv("TURNCTL_NO_CONFIG", "0")
    assert ["relative", "iso"] == [form(capfd), form(capfd, "--config", os.devnull)]


def test_both_ways_to_name_are_refused(desk: Desk, capfd: Capture) -> None:
    """--config and --no-config cannot both be meant."""
    status, _, err = ask(capfd, "ps", "--config", "x", "--no-config")

    assert (2, "turnctl: error: --config and --no-config cannot both be given\n") == (status, err[:62])


def test_empty_name_of_a_file_is_told(desk: Desk, capfd: Capture) -> None:
    """As it comes from a variable of a shell that is not set."""
    said = "turnctl: error: --config names no file\nturnctl: hint: is a variable in it not set?\n"

    assert Ended(2, "", said) == ask(capfd, "ps", "--config", "")


def test_mark_of_the_order_of_bytes_is_no_matter(desk: Desk, capfd: Capture) -> None:
    """Some editors put one in front of every file."""
    desk.write("\ufefftime-format = 'epoch'\r\n", desk.user)

    assert "epoch" == form(capfd)


def test_relative_xdg_is_ignored(desk: Desk, capfd: Capture, monkeypatch: Patch) -> None:
    """XDG_CONFIG_HOME counts where it is absolute, as its specification says."""
    desk.write("time-format = 'epoch'\n", desk.user)
    desk.write("time-format = 'relative'\n", desk.below / "xdg" / "turnctl" / "config.toml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "xdg")

    assert "epoch" == form(capfd)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(desk.below / "xdg"))
    assert "relative" == form(capfd)


def test_paths_in_a_file_are_seen_from_it(desk: Desk, capfd: Capture, shelf: Path) -> None:
    """A relative one from the folder of the file; ~ is the home directory."""
    desk.write('state-dir = "../there"\n', desk.user)
    os.symlink(shelf, desk.user.parent.parent / "there")
    del os.environ["TURNCTL_STATE_DIR"]  # put back by the fixture's monkeypatch

    assert "iso" == form(capfd)
    desk.write('state-dir = "~/.config/there"\n', desk.user)
    assert "iso" == form(capfd)
    desk.write('state-dir = "nowhere"\n', desk.user)
    assert f"none is on record in {desk.user.parent / 'nowhere'}\n" in ask(capfd, "status", "@").err


def test_keep_is_what_prune_takes(desk: Desk, capfd: Capture, monkeypatch: Patch) -> None:
    """The setting keep says what ``ledger prune`` takes where it is not said; without any it is asked for."""
    without = ask(capfd, "ledger", "prune", "--dry-run")
    desk.write('keep = "10s"\n', desk.user)
    by_file = ask(capfd, "ledger", "prune", "--dry-run")
    monkeypatch.setenv("TURNCTL_KEEP", "30d")
    by_variable = ask(capfd, "ledger", "prune", "--dry-run")

    assert 2 == without.status
    assert 'turnctl: error: say how old: --older-than 30d; or keep = "30d"' in without.err
    assert (0, 0) == (by_file.status, by_variable.status)
    assert ask(capfd, "ledger", "prune", "--dry-run", "--older-than", "10s").out == by_file.out != by_variable.out


@pytest.mark.parametrize(
    ("text", "line", "said", "hint"),
    [
        ("]\nverbos = 1\n", 2, "] verbos: there is no such setting", "mean verbose?"),
        ("]\ntime_format = 1\n", 2, "] time_format: there is no such setting", "mean time-format?"),
        (".pss]\n", 1, "] pss: there is no such command", "did you mean ps?"),
        (".ps]\n\nno_trunc = 3\n", 3, ".ps] no_trunc: there is no such setting", "mean no-trunc?"),
        ("]\nps.nummer = 3\n", 2, ".ps] nummer: there is no such setting", "mean number?"),
        ("]\nps = 3\n", 2, "] ps is no table", "write it as a table: [tool.turnctl.ps]"),
        (".ps.x]\n", 1, ".ps] x: there is no such setting", "there are: all, "),
        (".ps]\nno-trunc = 'x'\n", 2, ".ps] no-trunc is 'x', but has to be true or false", "= true"),
        (".ps]\nno-trunc = 1\n", 2, ".ps] no-trunc is 1, but has to be true or false", "= true"),
        ("]\ntime-format = true\n", 2, "] time-format is true, but has to be a text", '= "relative"'),
        ("]\nverbose = 7\n", 2, "] verbose is 7, but has to be a number from 0 to 2", ""),
        ("]\nstate-dir = ''\n", 2, "] state-dir is nothing that a project may set", "STATE_DIR"),
        (".ps]\nall = true\n", 2, ".ps] all is nothing that a project may set", "config.toml, "),
        (".ps]\nsession = 1\n", 2, ".ps] session belongs to one call, and no file", "PS_SESSION"),
    ],
)  # fmt: skip
def test_wrong_setting_is_told(desk: Desk, capfd: Capture, text: str, line: int, said: str, hint: str) -> None:
    """An error with the file, the line and the key, and with what would be right; nothing is done."""
    file = desk.write(f"[tool.turnctl{text}")
    status, out, err = ask(capfd, "ps")

    assert (2, "") == (status, out)
    assert err.startswith(f"turnctl: error: {file}, line {line}: [tool.turnctl{said}"), err
    assert hint in err.partition("turnctl: hint: ")[2]


def test_what_is_no_table_is_told(desk: Desk, capfd: Capture) -> None:
    """tool.turnctl has to be a table."""
    file = desk.write("[tool]\nturnctl = 3\n")

    assert f"turnctl: error: {file}: tool.turnctl is no table\n" in ask(capfd, "ps").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("number = 0", "--number: '0' is no whole number from 1 on (it comes from {}, line 2: [ps] number)\n"),
        ("number = '3'", "{}, line 2: [ps] number is '3', but has to be a whole number\n"),
        ("color = 'blue'", "--color: 'blue' is not one of "),
        (
            'state-dir = "\\u0000"',
            "{}, line 2: [ps] state-dir is '\\x00', but has to be a text without a null character",
        ),
    ],
)
def test_bad_value_is_told_as_of_a_flag(desk: Desk, capfd: Capture, text: str, said: str) -> None:
    """A value that a flag could not have is refused in the same words, with where it stands."""
    file = desk.write(f"[ps]\n{text}\n", desk.user)
    status, _, err = ask(capfd, "ps")

    assert 2 == status
    assert err.startswith(f"turnctl: error: {said.format(file)}")
    assert f"{file}, line 2: [ps] " in err


@pytest.mark.parametrize("value", ["10", '"10"'])
def test_durations_in_a_file_need_a_unit(desk: Desk, capfd: Capture, value: str) -> None:
    """A bare number is refused as on the command line, with the one that may have been meant."""
    file = desk.write(f"[tool.turnctl.run]\ngrace = {value}\n")
    status, _, err = ask(capfd, "run", "--no-record", "true")

    assert 2 == status
    assert "it has no unit; write it like 10s" in err
    assert f"(it comes from {file}, line 2: [tool.turnctl.run] grace)" in err


def test_settings_of_other_commands_hold_nobody_up(desk: Desk, capfd: Capture) -> None:
    """What is wrong in the table of one command is no matter for another."""
    desk.write('[tool.turnctl.run]\ngrace = "x"\nshiny = true\n')

    assert 0 == ask(capfd, "ps").status
    assert 2 == ask(capfd, "run", "true").status


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[tool.turnctl]\ncolor = never\n", "is no TOML: invalid value (at line 2, column 9)"),
        (b"[tool.turnctl]\ncolor = '\xff'\n", "is no TOML: it is not UTF-8"),
        (b"[tool.turnctl]\nx = " + b"[" * 9000 + b"\n", "is no TOML: it is nested too deep"),
        (b"x = " + b"1" * 5000 + b"\n[tool.turnctl]\n", "is no TOML: it has a number that is too large"),
        (b"[tool.turnctl.run]\ntty = 0x" + b"f" * 9000, "is no TOML: it has a number that is too large"),
        (b"[tool.turnctl]\n" + b"#" * 1024 * 1024, "is longer than 1 MiB"),
    ],
    ids=["value", "bytes", "deep", "digits", "hex", "long"],
)
def test_file_that_is_no_toml_is_told(desk: Desk, capfd: Capture, data: bytes, said: str) -> None:
    """With 2, and with the way around it."""
    file = desk.write("")
    file.write_bytes(data)
    status, _, err = ask(capfd, "ps")

    assert (2, f"turnctl: error: {file} {said}\n") == (status, err.splitlines(keepends=True)[0])
    assert "--no-config" in err
    assert 0 == ask(capfd, "--no-config", "ps").status


def test_commands_below_a_command_are_known(desk: Desk, capfd: Capture) -> None:
    """A table of a command that is none beside it is an error for it."""
    file = desk.write("[tool.turnctl.ledger.purne]\n")
    status, _, err = ask(capfd, "ledger", "prune", "--older-than", "1d", "--dry-run")

    assert 2 == status
    assert f"{file}, line 1: [tool.turnctl.ledger] purne: there is no such command\n" in err
    assert "did you mean prune?" in err


def test_help_needs_no_settings(desk: Desk, capfd: Capture) -> None:
    """The help of a command comes whatever is in the files, and shows what is so without them."""
    desk.write("[tool.turnctl.run]\ngrace = 10\n")

    assert "(default: 5s;" in ask(capfd, "run", "--help").out
    desk.write("[tool.turnctl.run]\ngrace = '10s'\n")
    assert "(default: 5s;" in ask(capfd, "run", "--help").out


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("state-dir", '"/tmp"'),
        ("color", '"always"'),
        ("quiet", "2"),
        ("keep", '"1s"'),
    ],
)
def test_project_sets_nothing_that_protects(desk: Desk, capfd: Capture, key: str, value: str) -> None:
    """Where things are kept, how long, and whether warnings are shown is not for a repository to say."""
    desk.write(f"[tool.turnctl]\n{key} = {value}\n")

    assert 2 == ask(capfd, "ps").status


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env", '["LD_PRELOAD=./evil.so"]'),
        ("unset-env", '["PATH"]'),
        ("chdir", '"elsewhere"'),
        ("summary", '"~/.bashrc"'),
        ("record", '"no"'),
        ("no-record", "true"),
        ("log", "false"),
        ("log-max", '"4B"'),
        ("containment", '"group"'),
        ("limit", "[]"),
        ("shield", "false"),
        ("no-core-dumps", "false"),
        ("umask", '"000"'),
        ("dry-run", "true"),
        ("session", '"mail"'),
    ],
)
def test_project_cannot_change_what_a_run_is(desk: Desk, capfd: Capture, key: str, value: str) -> None:
    """A hostile repository has nothing run, written or left out: the key is refused, and nothing is run."""
    file = desk.write(f"[tool.turnctl.run]\n{key} = {value}\n")
    status, out, err = ask(capfd, "run", "echo", "ran")

    assert (2, "") == (status, out)
    assert f"{file}, line 2: [tool.turnctl.run] {key} " in err


@pytest.mark.parametrize(("path", "key"), [(("reconcile",), "probe"), (("stop",), "all"), (("stop",), "yes")])
def test_no_file_sets_what_belongs_to_a_call(desk: Desk, capfd: Capture, path: tuple[str, ...], key: str) -> None:
    """Whom a command is about, and which code it loads, is said in each call."""
    desk.write(f"[{'.'.join(path)}]\n{key} = true\n", desk.user)
    status, _, err = ask(capfd, *path)

    assert 2 == status
    assert f"{key} belongs to one call, and no file sets it" in err


def test_every_scope_is_of_an_option() -> None:
    """The table of what files may set names nothing that is no option."""
    from turnctl.cli.common import key_of, path_of
    from turnctl.cli.settings import scopes

    there = {path_of(one): {key_of(param) for param in one.params} for one in every()}
    named = [(path, key) for table in (scopes._PROJECT, scopes._USER) for path in table for key in table[path].split()]

    assert [] == [(path, key) for path, key in named if key not in there[path]]
    assert len(named) == len(set(named))


# -- whose file it is ---------------------------------------------------------------------------------------------


def test_user_file_that_others_can_write_is_refused(desk: Desk, capfd: Capture) -> None:
    """It may set everything, so nobody else may have written it: an error, with the chmod that mends it."""
    file = desk.write("time-format = 'epoch'\n", desk.user)
    file.chmod(0o664)
    status, _, err = ask(capfd, "ps")

    assert 2 == status
    assert f"turnctl: error: {file} can be written by others (0664), and is not believed\n" in err
    assert f"turnctl: hint: chmod go-w {file}\n" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("named", [False, True])
def test_user_file_of_somebody_else_is_refused(desk: Desk, capfd: Capture, named: bool) -> None:
    """Also where --config names it."""
    file = desk.write("time-format = 'epoch'\n", desk.user)
    os.chown(file, 12345, 12345)
    status, _, err = ask(capfd, "ps", *(["--config", str(file)] if named else []))

    assert 2 == status
    assert f"{file} belongs to user 12345, not to 0, and is not believed\n" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_project_file_of_somebody_else_is_passed_over(desk: Desk, capfd: Capture) -> None:
    """In a folder for all anybody can have put it there: a warning, and the next one upwards is looked for."""
    file = desk.write(pyproject("relative"), desk.below / "pyproject.toml")
    os.chown(file, 12345, 12345)
    desk.write(pyproject("epoch"))
    told = ask(capfd, "status", "@", "-q")

    assert "epoch" == form(capfd)
    assert f"turnctl: warning: {file} was not read: it belongs to user 12345, not to 0\n" == told.err
    assert "" == ask(capfd, "status", "@", "-qq").err


def test_modes_of_a_project_file_are_no_matter(desk: Desk, capfd: Capture) -> None:
    """Whoever can write it can write the rest of the repository, and it may set nothing that matters."""
    desk.write(pyproject("epoch")).chmod(0o666)

    assert "epoch" == form(capfd)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_no_project_file(desk: Desk, capfd: Capture, kind: str) -> None:
    """A folder or a pipe of that name holds nobody up."""
    path = desk.project / "pyproject.toml"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()

    assert "iso" == form(capfd)


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("gone.toml", "cannot be read: No such file or directory", "name a file that is there"),
        (".", "is no file", "name a file"),
    ],
)
def test_named_file_that_cannot_be_read_is_told(
    desk: Desk, capfd: Capture, monkeypatch: Patch, name: str, said: str, hint: str
) -> None:
    """As an option and as a variable."""
    by_option = ask(capfd, "ps", "--config", name)
    monkeypatch.setenv("TURNCTL_CONFIG", name)

    assert 2 == by_option.status
    assert f"turnctl: error: {name} {said}\nturnctl: hint: {hint}, or " in by_option.err
    assert by_option == ask(capfd, "ps")


def test_removed_folder_has_no_project(desk: Desk, capfd: Capture) -> None:
    """Where the current folder is gone the user's file counts."""
    desk.write("time-format = 'epoch'\n", desk.user)
    desk.below.rmdir()

    assert "epoch" == form(capfd)


def test_used_settings_are_said(desk: Desk, capfd: Capture) -> None:
    """-v names the files, and each setting that came from one."""
    file = desk.write(pyproject("epoch"))
    err = ask(capfd, "ps", "-v").err

    assert f"turnctl: settings: {file}\n" in err
    assert f"turnctl: settings: time-format comes from {file}, line 2: [tool.turnctl] time-format\n" in err
    assert "comes from" not in ask(capfd, "ps", "-v", "--time-format", "iso").err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else, and act as that one")
@pytest.mark.parametrize(("owner", "status"), [(12345, 2), (0, 0)])
def test_file_that_cannot_be_read(desk: Desk, capfd: Capture, monkeypatch: Patch, owner: int, status: int) -> None:
    """One's own is an error with what to do; a project's that is another's and not for us is passed over."""
    folder = tempfile.mkdtemp(dir="/tmp")  # that of the test can be entered by its owner alone
    try:
        os.chmod(folder, 0o755)
        file = desk.write("", Path(folder) / "turnctl.toml")
        os.chown(file, owner, owner)
        file.chmod(0)
        monkeypatch.chdir(folder)
        ask(capfd, "ps", "--config", "gone")  # who is not root cannot load what that needs
        ask(capfd, "--no-config", "ps")
        # in a process of its own: what this one does beside it, such as to collect garbage, it does as root
        ended = waited("ps", before=lambda: os.seteuid(12345), env={"TURNCTL_STATE_DIR": folder})
    finally:
        monkeypatch.chdir(desk.below)
        shutil.rmtree(folder)

    if status:
        assert 2 == ended.status
        assert f"turnctl: error: {file} cannot be read: Permission denied\n" in ended.err
        assert "turnctl: hint: let this user read it, or leave files of settings out with --no-config\n" in ended.err
    else:
        assert "turnctl.toml" not in ended.err
