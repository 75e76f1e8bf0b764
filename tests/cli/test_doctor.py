"""The doctor: what it says of machine, state directory and terminal, each with a remedy; it signals nobody."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import alive
from launch import Ended, ask, call
from schemas import fits
from standins import until
from warding import Host, ends, parent_of
from warding import tag as some_tag

from turnctl.cli import doctor
from turnctl.cli.checks import platform, state
from turnctl.cli.checks.check import Check, Finding, made
from turnctl.processes.levels import Capabilities, Capability

Capture = pytest.CaptureFixture[str]
WORDS = "812 MB in 9,140 turns, of which all but the newest have ended long ago"
REMEDY = 'turnctl ledger prune --older-than 30d; or keep = "30d", once and for all, in your settings'


def found(capfd: Capture, *args: str) -> dict[str, dict[str, Any]]:
    """The checks of a call with --json, by what was looked at."""
    document = fits(json.loads(ask(capfd, "doctor", "--json", *args).out))
    return {one["id"]: one for one in document["checks"]}


def test_everything_is_looked_at(shelf: Path, capfd: Capture) -> None:
    """Every area, with a line for each check and their number; the exit status is 0 where nothing failed."""
    status, out, err = ask(capfd, "doctor")
    checks = found(capfd)
    *lines, summary = [line for line in out.splitlines() if not line.startswith("      fix: ")]

    assert {"platform", "process", "state", "terminal", "config"} == {one.partition(".")[0] for one in checks}
    assert [one.split()[1] for one in lines] == list(checks)
    assert int(any(one["status"] == "fail" for one in checks.values())) == status
    assert "" == err
    assert sum(int(part.split()[0]) for part in summary.split(", ")) == len(checks)


@pytest.mark.parametrize("args", [["--only", "state"], ["--only", "terminal", "--only", "state"]])
def test_one_area_is_looked_at(shelf: Path, capfd: Capture, args: list[str]) -> None:
    """--only looks at nothing else."""
    areas = {one.partition(".")[0] for one in found(capfd, *args)}

    assert set(args) - {"--only"} == areas


def test_sound_directory_is_all_well(shelf: Path, capfd: Capture) -> None:
    """What turnctl itself has made is found in order, with its size and how many turns there are."""
    checks = found(capfd, "--only", "state")

    assert {"ok"} == {one["status"] for one in checks.values()}
    assert {"turns": 6, "ended": 4} == {name: checks["state.size"]["details"][name] for name in ("turns", "ended")}


def test_directory_that_is_not_there_is_no_fault(tmp_path: Path, capfd: Capture) -> None:
    """Before the first turn there is nothing to look at, and nothing is made."""
    nowhere = tmp_path / "nowhere"
    checks = found(capfd, "--only", "state", "--state-dir", str(nowhere))

    assert ("ok", "skip", "skip") == tuple(
        checks[f"state.{name}"]["status"] for name in ("directory", "ledger", "size")
    )
    assert not nowhere.exists()


def test_disk_that_can_only_be_read_is_told(tmp_path: Path, capfd: Capture) -> None:
    """No chmod would help there."""
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=64k,mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here (needs root)")
    try:
        checks = found(capfd, "--only", "state", "--state-dir", str(folder))
    finally:
        subprocess.run(["umount", folder], check=True)

    assert (
        "fail",
        f"{folder} is on a file system that can only be read",
        "name another one with TURNCTL_STATE_DIR",
    ) == (tuple(checks["state.directory"][key] for key in ("status", "summary", "remediation")))


def test_modes_are_told_and_mended(shelf: Path, capfd: Capture) -> None:
    """What others can reach is a failure with the command that mends it, and --fix does that and says so."""
    shelf.chmod(0o770)
    path = shelf / "ledger.sqlite3"
    path.chmod(0o644)
    before = found(capfd, "--only", "state")
    mended = ask(capfd, "doctor", "--only", "state", "--fix")
    said = f"turnctl: chmod 700 {shelf}\nturnctl: chmod 600 {path}\n"

    assert f"chmod 700 {shelf}; chmod 600 {path}" == before["state.mode"]["remediation"]
    assert ("fail", "fail") == (before["state.mode"]["status"], before["state.ledger"]["status"])
    assert (0, said) == (mended.status, mended.err)
    assert (0o40700, 0o100600) == (shelf.stat().st_mode, path.stat().st_mode)


@pytest.mark.parametrize(("mode", "name"), [(0o755, "notes.txt"), (0o1777, "ledger.sqlite3")], ids=["used", "shared"])
def test_folder_of_others_is_told_and_left(shelf: Path, capfd: Capture, mode: int, name: str) -> None:
    """A folder that is not for turnctl alone is not closed to those who use it, whoever named it."""
    for one in ("", ".hwm"):
        (shelf / f"ledger.sqlite3{one}").unlink(missing_ok=True)
    (shelf / name).touch(0o600)
    shelf.chmod(mode)
    before = found(capfd, "--only", "state")["state.mode"]
    after = ask(capfd, "doctor", "--only", "state", "--fix")
    left = shelf.stat().st_mode & 0o7777
    shelf.chmod(0o700)

    assert ("fail", mode) == (before["status"], left)
    assert "a directory of its own with TURNCTL_STATE_DIR" in before["remediation"]
    assert (1, False) == (after.status, f"chmod 700 {shelf}" in after.err)


def test_foreign_file_is_told_and_left(shelf: Path, capfd: Capture) -> None:
    """Another program's file in the ledger's place is told, with what to do, and left as it is."""
    path = shelf / "ledger.sqlite3"
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    path.chmod(0o600)
    before = path.read_bytes()
    status, out, _ = ask(capfd, "doctor", "--only", "state")

    assert 1 == status
    assert f"fail  state.ledger          {path} is a database of another program" in out
    assert "      fix: name another file\n" in out
    assert before == path.read_bytes()


def test_paths_are_printed(shelf: Path, capfd: Capture) -> None:
    """--print gives a path alone, for a script."""

    assert Ended(0, f"{shelf}\n", "") == ask(capfd, "doctor", "--print", "state-dir")
    assert Ended(0, f"{shelf / 'ledger.sqlite3'}\n", "") == ask(capfd, "doctor", "--print", "ledger")


def test_missing_way_has_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way of holding commands that is not to be had is told with why and what to do; without wardens that fails."""
    none = Capabilities(
        [
            Capability("namespace", "atomic", False, "user namespaces are turned off", "sysctl something=1"),
            Capability("warden", "complete", False, "there are no subreapers", "run it on Linux"),
        ]
    )
    monkeypatch.setattr(platform, "capabilities", lambda: none)
    checks = {one.id: one.finding for one in made(platform.looks())}

    assert ("warn", "sysctl something=1") == (checks["platform.namespace"].status, checks["platform.namespace"].remedy)
    assert ("fail", "run it on Linux") == (checks["platform.warden"].status, checks["platform.warden"].remedy)


def test_check_that_breaks_hides_no_other() -> None:
    """What cannot be looked at is told as a failure, and the others are looked at."""

    def breaks() -> Finding:
        raise OSError("no")

    first, second = made([("a.b", breaks), ("a.c", lambda: Finding("ok", "fine"))])

    assert ("fail", "this could not be looked at: OSError: no") == (first.finding.status, first.finding.summary)
    assert Check("a.c", Finding("ok", "fine"), second.duration_ms) == second


def test_warning_fails_where_that_is_asked(shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """--strict takes a warning for a failure."""
    monkeypatch.setattr(state, "_LARGE", 1)
    lax, strict = (ask(capfd, "doctor", "--only", "state", *more) for more in ([], ["--strict"]))

    assert (0, 1) == (lax.status, strict.status)
    assert '      fix: turnctl ledger prune --older-than 30d  # which keep = "30d" in ' in lax.out


def sleeping(tag: str) -> list[int]:
    """Who has the tag and has become its ``sleep``, not who is about to."""
    return [one for one in alive(tag) if Path(f"/proc/{one}/comm").read_text() == "sleep\n"]


def test_leftovers_are_named(shelf: Path, capfd: Capture) -> None:
    """What lives on where a warden and its launcher were killed at one moment is named, with what to do."""
    tag = some_tag()
    code = "from turnctl import turn\nwith turn() as t: t.run(['sh', '-c', sys.argv[1]], stdout=1)"
    host = Host(code, f"echo up; exec sleep {tag}")
    try:
        assert "up" == host.line()
        assert until(lambda: sleeping(tag))
        (pid,) = sleeping(tag)
        helpers = [parent_of(pid), parent_of(parent_of(pid))]
        for one in helpers:
            os.kill(one, signal.SIGSTOP)
        host.kill()
        for one in helpers:
            os.kill(one, signal.SIGKILL)
        assert all(ends(one) for one in helpers)
        status, out, _ = ask(capfd, "doctor", "--leftovers")
        strict = ask(capfd, "doctor", "--leftovers", "--strict").status
    finally:
        host.close()
        for one in alive(tag):
            os.kill(one, signal.SIGKILL)

    assert (0, 1) == (status, strict)
    assert f"warn  process.leftovers     left by earlier commands: process {pid} (sleep {tag}), found by mark" in out
    assert "      fix: turnctl doctor --end-leftovers\n" in out
    assert until(lambda: not alive(tag))
    assert "ok    process.leftovers" in ask(capfd, "doctor", "--leftovers").out


def test_nobody_is_signalled(shelf: Path) -> None:
    """A process of another program is there afterwards as before, and so is turnctl's own command elsewhere."""
    beside = subprocess.Popen(["sleep", "60"])
    try:
        ended = call("doctor", "--state-dir", str(shelf))

        assert beside.poll() is None
        assert ended.status in (0, 1)
    finally:
        beside.kill()
        beside.wait()


def test_other_users_directory_is_told(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that belongs to somebody else is a failure, with what to do."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    checks = {one.id: one.finding for one in made(state.looks(str(shelf)))}

    assert "fail" == checks["state.directory"].status
    assert checks["state.directory"].remedy.startswith("run turnctl as its owner")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, [f"warn  state.size            {WORDS}", f"      fix: {REMEDY}"]),
        (
            80,
            [
                "warn  state.size            812 MB in 9,140 turns, of which all but the newest",
                "                            have ended long ago",
                f"      fix: {REMEDY}",
            ],
        ),
        (
            60,
            [
                "warn  state.size",
                "      812 MB in 9,140 turns, of which all but the newest",
                "      have ended long ago",
                f"      fix: {REMEDY}",
            ],
        ),
        (
            20,
            [
                *(
                    "warn  state.size",
                    "      812 MB in",
                    "      9,140 turns,",
                    "      of which all",
                    "      but the newest",
                ),
                *("      have ended", "      long ago", f"      fix: {REMEDY}"),
            ],
        ),
    ],
)
def test_words_are_wrapped_and_commands_are_not(columns: int | None, expected: list[str]) -> None:
    """On a terminal what was found goes to its width, by words; what is to be pasted stays one line."""
    found = Check("state.size", Finding("warn", WORDS, REMEDY), 1.0)

    assert expected == doctor._text(found, "never", columns).splitlines()


def test_short_finding_is_a_line_however_narrow() -> None:
    """A line that fits is left as it is, also with colour, which takes no room."""
    found = Check("state.sqlite", Finding("ok", "SQLite 3.40.1"), 1.0)

    assert "ok    state.sqlite          SQLite 3.40.1\n" == doctor._text(found, "never", 41)
    assert "\x1b[32mok  \x1b[0m  state.sqlite          SQLite 3.40.1\n" == doctor._text(found, "always", 41)
