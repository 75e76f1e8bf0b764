"""The state directory: where it is, whose it is, what is in it, and what is refused."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest
from launch import ask, call

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def modes(folder: Path) -> set[tuple[str, int]]:
    """The kinds and modes of all there is."""
    found = {("folder", stat.S_IMODE(folder.stat().st_mode))}
    for one in folder.rglob("*"):
        found.add(("folder" if one.is_dir() else "file", stat.S_IMODE(one.lstat().st_mode)))
    return found


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277, 0o777])
def test_modes_are_the_same_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Folders 0700 and files 0600, also where the mask would leave more, or less than its owner needs."""
    state = tmp_path / "state"
    env = {"TURNCTL_STATE_DIR": str(state), "TURNCTL_RUN_RECORD": "required"}
    ended = call("run", "--", "echo", "kept", env=env, umask=umask)

    assert (0, "kept\n", "") == ended
    assert {("folder", 0o700), ("file", 0o600)} == modes(state)
    assert (state / "turns").is_dir()


def test_folders_above_are_made_for_their_owner(tmp_path: Path) -> None:
    """Where ~/.local/state is not there yet it is made as the specification says: 0700, whatever the umask."""
    env = {"HOME": str(tmp_path), "TURNCTL_RUN_RECORD": "required", "TURNCTL_STATE_DIR": "", "XDG_STATE_HOME": ""}
    ended = call("run", "true", env=env, umask=0)

    assert (0, "", "") == ended
    assert {0o700} == {stat.S_IMODE((tmp_path / one).stat().st_mode) for one in (".local", ".local/state")}
    assert (tmp_path / ".local/state/turnctl/ledger.sqlite3").is_file()


def test_it_says_what_it_is(tmp_path: Path) -> None:
    """A README in it says whose files these are, and how to look at them and to be rid of them; it is made once."""
    state = tmp_path / "state"
    env = {"TURNCTL_STATE_DIR": str(state), "TURNCTL_RUN_RECORD": "required"}
    call("run", "true", env=env)
    text = (state / "README").read_text()
    (state / "README").unlink()
    call("run", "true", env=env)

    assert "turnctl" in text
    assert "turnctl ledger prune" in text
    assert "turnctl ledger backup" in text
    assert not (state / "README").exists()


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"TURNCTL_STATE_DIR": "{}/named"}, "named"),
        ({"XDG_STATE_HOME": "{}/xdg"}, "xdg/turnctl"),
        ({"XDG_STATE_HOME": "xdg"}, "home/.local/state/turnctl"),
        ({"XDG_STATE_HOME": ""}, "home/.local/state/turnctl"),
        ({"XDG_STATE_HOME": "{}/xdg", "TURNCTL_STATE_DIR": "{}/named"}, "named"),
        ({"XDG_STATE_HOME": "{}/xdg", "TURNCTL_STATE_DIR": ""}, "xdg/turnctl"),
        ({"HOME": ""}, "passwd/.local/state/turnctl"),
        ({"HOME": "home"}, "passwd/.local/state/turnctl"),
    ],
)
def test_place_of_it(tmp_path: Path, capfd: Capture, monkeypatch: Patch, given: dict[str, str], place: str) -> None:
    """What is named, else turnctl in XDG_STATE_HOME if that is absolute, else in ~/.local/state, where ~ is an absolute
    HOME, else what the system has for this user. Nothing is made."""
    passwd = pwd.struct_passwd(["ana", "x", 1, 1, "", str(tmp_path / "passwd"), ""])
    monkeypatch.setattr("pwd.getpwuid", lambda _uid: passwd)
    for name in ("TURNCTL_STATE_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, value in given.items():
        monkeypatch.setenv(name, value.format(tmp_path))

    assert f"{tmp_path / place}\n" == ask(capfd, "doctor", "--print", "state-dir").out
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [["ps"], ["status", "@"], ["stop", "@"], ["ledger", "verify"]])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_one_that_others_can_write_is_refused(shelf: Path, capfd: Capture, command: list[str], mode: int) -> None:
    """With 5, and the very chmod that mends it."""
    shelf.chmod(mode)
    status, out, err = ask(capfd, *command)
    shelf.chmod(0o700)

    assert (5, "") == (status, out)
    assert f"chmod 0700 {shelf}\n" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
@pytest.mark.parametrize("command", [["ps"], ["status", "@"], ["stop", "@"]])
def test_one_of_somebody_else_is_refused(shelf: Path, capfd: Capture, command: list[str]) -> None:
    """With 5, and whose it is; also for root, whose files its owner could not write."""
    os.chown(shelf, 12345, 12345)
    status, out, err = ask(capfd, *command)

    assert (5, "") == (status, out)
    assert f"{shelf} belongs to user 12345, and this process acts as 0" in err
