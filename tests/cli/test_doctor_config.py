"""The doctor on settings: what is wrong in any file or variable, and every value with where it comes from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from launch import Ended, ask
from schemas import fits

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def project(shelf: Path, tmp_path: Path, monkeypatch: Patch) -> Path:
    """A home with a project in it, which is the current folder."""
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in [name for name in os.environ if name.startswith("TURNCTL_") and name != "TURNCTL_STATE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


def user_file(project: Path) -> Path:
    file = project.parent / ".config" / "turnctl" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def checks(capfd: Capture, *args: str) -> dict[str, dict[str, Any]]:
    document = fits(json.loads(ask(capfd, "doctor", "--only", "config", "--json", *args).out))
    return {one["id"]: one for one in document["checks"]}


def settings(capfd: Capture, *args: str) -> dict[str, tuple[Any, str, str | None]]:
    """Value, origin and place of each setting."""
    document = fits(json.loads(ask(capfd, "doctor", "--config", "--json", *args).out))
    return {f"{one['command']} {one['key']}".strip(): (one["value"], one["origin"], one["where"])
            for one in document["settings"]}  # fmt: skip


def test_without_files_all_is_well(project: Path, capfd: Capture) -> None:
    """There need be no file."""
    found = checks(capfd)

    assert {"ok"} == {one["status"] for one in found.values()}
    assert "no file of settings" == found["config.files"]["summary"]


def test_every_mistake_is_found(project: Path, capfd: Capture) -> None:
    """In the tables of all commands, also values that only their command would look at."""
    (project / "turnctl.toml").write_text('[run]\ngrace = "x"\n[stop]\nall = true\n[ledger.prnue]\n')
    found = checks(capfd)["config.values"]
    told = [one["message"] for one in found["details"]["problems"]]

    assert "fail" == found["status"]
    assert 3 == len(told)
    assert any("line 2: [run] grace: " in one for one in told)
    assert any("line 4: [stop] all belongs to one call" in one for one in told)
    assert any("line 5: [ledger] prnue: there is no such command" in one for one in told)


def test_broken_file_stops_no_doctor(project: Path, capfd: Capture) -> None:
    """Every other area is looked at all the same, with the file's mistake as one of the findings."""
    (project / "turnctl.toml").write_text("x\n")
    found = checks(capfd, "--only", "terminal")

    assert "terminal.colour" in found
    assert "fail" == found["config.values"]["status"]
    assert "is no TOML" in found["config.values"]["summary"]
    assert 2 == ask(capfd, "ps").status


def test_file_that_is_not_believed_is_a_failure(project: Path, capfd: Capture) -> None:
    """With the command that mends it."""
    file = user_file(project)
    file.touch()
    file.chmod(0o666)
    found = checks(capfd)["config.files"]

    assert ("fail", f"chmod go-w {file}") == (found["status"], found["remediation"])


@pytest.mark.parametrize(
    ("name", "value", "status", "said"),
    [
        ("TURNCTL_RUN_GRACEE", "1s", "warn", "TURNCTL_RUN_GRACEE (did you mean TURNCTL_RUN_GRACE?)"),
        ("TURNCTL_RUN_GRACE", "10", "fail", "TURNCTL_RUN_GRACE: --grace '10' cannot be used: it has no unit"),
        ("TURNCTL_RUN_GRACE", "10s", "ok", "every variable that begins with TURNCTL_ is one"),
    ],
)
def test_variables_are_looked_at(
    project: Path, capfd: Capture, monkeypatch: Patch, name: str, value: str, status: str, said: str
) -> None:
    """Those that are none are told with the nearest one, and those that cannot be used with why."""
    monkeypatch.setenv(name, value)
    found = checks(capfd)["config.environment"]

    assert status == found["status"]
    assert said in found["summary"]


def test_each_value_has_its_origin(project: Path, capfd: Capture, monkeypatch: Patch) -> None:
    """Flag, variable, the project's file, the user's, or the default; with the line or the name."""
    mine, ours = user_file(project), project / "pyproject.toml"
    mine.write_text('quiet = 1\n[run]\ngrace = "7s"\nlog = false\n')
    ours.write_text('[tool.turnctl.run]\ngrace = "8s"\n')
    monkeypatch.setenv("TURNCTL_STOP_WAIT", "9s")
    found = settings(capfd, "--color", "never")

    assert ("never", "flag", None) == found["color"]
    assert ("9s", "environment", "TURNCTL_STOP_WAIT") == found["stop wait"]
    assert ("8s", "project", f"{ours}, line 2: [tool.turnctl.run] grace") == found["run grace"]
    assert (False, "user", f"{mine}, line 4: [run] log") == found["run log"]
    assert (1, "user", f"{mine}, line 1: quiet") == found["quiet"]
    assert ("90d", "default", None) == found["ledger prune keep-tombstones"]
    assert (None, "default", None) == found["TURNCTL_LOG"]


def test_named_file_is_the_origin(project: Path, capfd: Capture) -> None:
    """--config FILE before the name of the command names the file, and --config after it asks for the list."""
    file = project / "mine.toml"
    file.write_text('[run]\ngrace = "7s"\n')
    ended = ask(capfd, "--config", str(file), "doctor", "--config", "-q")
    line = f"run grace  7s              named        {file}, line 2: [run] grace"

    assert line.split() in [one.split() for one in ended.out.splitlines()]


def test_secrets_are_not_shown(project: Path, capfd: Capture, monkeypatch: Patch) -> None:
    """What is put into the environment of commands is shown by name alone."""
    user_file(project).write_text('[run]\nenv = ["TOKEN=abc"]\n')
    by_file = settings(capfd)["run env"]
    monkeypatch.setenv("TURNCTL_RUN_ENV", "TOKEN=abc")

    assert ["TOKEN=…"] == by_file[0]
    assert ["TOKEN=…"] == settings(capfd)["run env"][0]


def test_text_names_files_and_settings(project: Path, capfd: Capture) -> None:
    """The files first, then each setting that a file may set, and with -q those alone that somebody has set."""
    (project / "turnctl.toml").write_text('[run]\ngrace = "8s"\n')
    whole, given = ask(capfd, "doctor", "--settings").out, ask(capfd, "doctor", "--settings", "-q").out

    assert whole.startswith(
        f"project  {project / 'turnctl.toml'}\nuser     {user_file(project)} (not there)\n\nSETTING "
    )
    assert "run timeout" in whole
    assert "stop all" not in whole
    assert ["SETTING", "quiet", "state-dir", "run"] == [line.split()[0] for line in given.splitlines()]


def test_files_are_printed(project: Path, capfd: Capture) -> None:
    """--print gives the path of the user's file, there or not, and of the project's, if there is one."""
    none = ask(capfd, "doctor", "--print", "project-config")
    file = project / "turnctl.toml"
    file.touch()

    assert Ended(0, f"{user_file(project)}\n", "") == ask(capfd, "doctor", "--print", "user-config")
    assert (1, "") == (none.status, none.out)
    assert Ended(0, f"{file}\n", "") == ask(capfd, "doctor", "--print", "project-config")


def test_table_says_what_is_wrong(project: Path, capfd: Capture) -> None:
    """Each mistake is a line above the settings, which stand there as far as they can be used."""
    file = project / "turnctl.toml"
    file.write_text('colour = "always"\n[run]\ngrace = 5\n')
    lines = ask(capfd, "doctor", "--config").out.splitlines()

    assert f"wrong    {file}, line 1: colour: there is no such setting" in lines
    assert 2 == len([line for line in lines if line.startswith("wrong ")])
