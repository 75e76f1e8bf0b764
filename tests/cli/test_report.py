"""``turnctl report``: which turn, in which form, where to, and what keeps it from being written."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from launch import Ended, ask, finish, start
from schemas import fits
from shelf import IDS

Capture = pytest.CaptureFixture[str]
COMPLETED, FAILED, CANCELLED, UNRESOLVED, LOST, RUNNING = IDS


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("r.html", "<!DOCTYPE html>\n"),
        ("r.htm", "<!DOCTYPE html>\n"),
        ("r", "<!DOCTYPE html>\n"),
        ("r.svg", "<?xml version="),
        ("r.md", "### turn `t2dddddddd`: stopped, effects unresolved\n"),
        ("r.json", '{\n  "schema": "turnctl.report/1"'),
        ("r.trace.json", '{\n "displayTimeUnit": "ms",\n "otherData": {\n  "schema": "turnctl.trace/1"'),
    ],
)
def test_name_of_the_file_says_what_it_is(shelf: Path, capfd: Capture, tmp_path: Path, name: str, begin: str) -> None:
    """Without ``--format``; it is for its owner alone, and what was written is said on stderr."""
    path = tmp_path / name
    made = ask(capfd, "report", UNRESOLVED, "-o", str(path))

    assert path.read_text().startswith(begin)
    assert Ended(0, "", f"turnctl: {path}: stopped, effects unresolved, {path.stat().st_size} bytes\n") == made
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [name, "state"] == sorted(one.name for one in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "ending"),
    [("r.foo", ".foo"), ("r.html.gz", ".gz"), ("turn-2.5", ".5"), ("r.", "."), ("x.d/r.PDF", ".PDF"), ("r.\n", ".\\n")],
)
def test_ending_that_says_nothing_is_told(shelf: Path, capfd: Capture, tmp_path: Path, name: str, ending: str) -> None:
    """Rather than a page under a name that promises something else; nothing is written, and --format goes first."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    refused = ask(capfd, "report", UNRESOLVED, "-o", str(path))
    is_made = path.exists()
    known = ".html, .htm, .svg, .md, .markdown, .trace.json, .trace, .json"

    assert (2, "", False) == (refused.status, refused.out, is_made)
    assert refused.err.startswith(f"turnctl: error: -o: no format is known by the ending {ending}; {known} are\n")
    assert "turnctl: hint: end the name of FILE with one of these, or say --format FORMAT\n" in refused.err
    assert 0 == ask(capfd, "report", UNRESOLVED, "-o", str(path), "--format", "svg").status
    assert path.read_text().startswith("<?xml version=")


@pytest.mark.parametrize("turn", IDS)
def test_every_turn_is_drawn_in_every_form(shelf: Path, capfd: Capture, turn: str) -> None:
    """Whatever became of it; as JSON it fits its schema, the record whole."""
    forms = {form: ask(capfd, "report", turn, "--format", form) for form in ("html", "svg", "md", "json", "trace")}
    document = fits(json.loads(forms["json"].out))
    shown = json.loads(ask(capfd, "show", turn, "--json").out)

    assert {(0, "")} == {(one.status, one.err) for one in forms.values()}
    assert turn in forms["html"].out
    ET.fromstring(forms["svg"].out)
    assert shown["turn"] == document["turn"]
    assert [one["n"] for one in shown["events"]] == [one["n"] for one in document["events"]]
    assert shown["effects"] == document["effects"]
    assert document["turn"]["state"] == json.loads(forms["trace"].out)["otherData"]["state"]


def test_effects_are_where_the_log_has_them(shelf: Path, capfd: Capture) -> None:
    """From admitted to told; what nobody has told of goes on as a question."""
    made = ask(capfd, "report", UNRESOLVED, "--format", "json")
    drawing = json.loads(made.out)["drawing"]
    known, unknown = next(one["items"] for one in drawing["lanes"] if one["lane"] == "effects")

    assert 6.0 == drawing["stop"]["begin"]
    assert "stop accepted +6s by ben: wrong list" == drawing["stop"]["words"]
    assert ("completed", 1.0, 3.0) == (known["state"], known["spans"][0]["begin"], known["spans"][-1]["end"])
    assert [{"begin": 4.0, "end": 10.0, "kind": "unknown"}] == unknown["spans"]


@pytest.mark.parametrize("turn", ["@", RUNNING[:4], "session:build", "i-6"])
def test_turn_is_found_as_everywhere(shelf: Path, capfd: Capture, turn: str) -> None:
    """The newest, by the beginning of its id, by where it runs, by its incarnation."""

    assert f"### turn `{RUNNING}`: running\n" in ask(capfd, "report", turn, "--format", "md").out


@pytest.mark.parametrize(
    ("turn", "status", "code"), [("tzzzz", 4, "no_such_turn"), ("t2", 2, "bad_name"), ("@9", 4, "no_such_turn")]
)
def test_name_that_fits_none_is_told(
    shelf: Path, capfd: Capture, tmp_path: Path, turn: str, status: int, code: str
) -> None:
    """And nothing is written."""
    found = ask(capfd, "report", turn, "-o", str(tmp_path / "r.html"), "--json")

    assert (status, code) == (found.status, fits(json.loads(found.out))["code"])
    assert ["state"] == [one.name for one in tmp_path.iterdir()]


def test_no_ledger_is_no_turn(capfd: Capture, tmp_path: Path) -> None:
    """It says where none is on record."""
    found = ask(capfd, "report", "@", "--state-dir", str(tmp_path))

    assert 4 == found.status
    assert f"none is on record in {tmp_path}" in found.err


def test_json_says_what_was_written(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """For programs: the turn that was meant, the file, its form and size."""
    path = tmp_path / "r.svg"
    made = ask(capfd, "report", UNRESOLVED[:4], "-o", str(path), "--json", "--redact")

    assert {
        "schema": "turnctl.reported/1",
        "turn_id": UNRESOLVED,
        "path": str(path),
        "format": "svg",
        "size": path.stat().st_size,
        "is_redacted": True,
    } == fits(json.loads(made.out))


def test_redacted_tells_nothing_of_others(shelf: Path, capfd: Capture) -> None:
    """Neither names nor keys nor reasons nor who it was, and it fits its schema all the same."""
    made = ask(capfd, "report", UNRESOLVED, "--format", "json", "--redact")
    fits(json.loads(made.out))

    assert [] == [word for word in ("ben", "wrong list", "weekly", "mail", "acme", "k0", "msg-") if word in made.out]


# -- where to --------------------------------------------------------------------------------------------------------


def test_without_a_file_it_goes_where_stdout_goes(
    shelf: Path, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a pipe as it is; on a terminal into a file of the turn's name, which a second one replaces."""
    monkeypatch.chdir(tmp_path)
    piped = ask(capfd, "report", COMPLETED)
    monkeypatch.setattr("turnctl.cli.report.is_terminal", lambda: True)
    first, second = ask(capfd, "report", COMPLETED), ask(capfd, "report", COMPLETED, "-q")

    assert piped.out == (tmp_path / f"turnctl-{COMPLETED}.html").read_text()
    assert (0, "", 0, "", "") == (first.status, first.out, second.status, second.out, second.err)
    assert f"turnctl: turnctl-{COMPLETED}.html: completed, " in first.err


@pytest.mark.parametrize("form", ["html", "svg", "md", "json", "trace"])
def test_report_of_that_turn_is_replaced(shelf: Path, capfd: Capture, tmp_path: Path, form: str) -> None:
    """An earlier one in any form, and one of another turn is not."""
    path = tmp_path / "r"
    args = ("-o", str(path), "--format", form)
    first, again = ask(capfd, "report", RUNNING, *args), ask(capfd, "report", RUNNING, *args)
    other = ask(capfd, "report", COMPLETED, *args, "--json")

    assert (0, 0) == (first.status, again.status)
    assert (2, "file_exists") == (other.status, fits(json.loads(other.out))["code"])
    assert RUNNING in path.read_text()


def test_nothing_else_is_replaced(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """No file of somebody's, no link, no folder, no device."""
    (tmp_path / "mine").write_text(f"my notes on {COMPLETED}, which turnctl has drawn")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for there in (tmp_path / "mine", tmp_path / "link", tmp_path, Path("/dev/null")):
        found = ask(capfd, "report", COMPLETED, "-o", str(there))
        assert (2, "") == (found.status, found.out)
        assert "is there already" in found.err
    assert f"my notes on {COMPLETED}, which turnctl has drawn" == (tmp_path / "mine").read_text()
    assert not (tmp_path / "elsewhere").exists()


def _no_room(_fd: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_cannot_be_written_is_told(
    shelf: Path, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is not there, a disk with no room, a name that is none; nothing is left of it."""
    path = tmp_path / "r.html"
    nowhere = ask(capfd, "report", "@", "-o", str(tmp_path / "none" / "r.html"), "--json")
    with monkeypatch.context() as patch:
        patch.setattr("turnctl.cli.files.os.fsync", _no_room)
        full = ask(capfd, "report", "@", "-o", str(path))
    no_name = ask(capfd, "report", "@", "-o", "a\0b")

    assert (1, "not_written") == (nowhere.status, fits(json.loads(nowhere.out))["code"])
    assert "No such file or directory" in nowhere.err
    assert (1, 1) == (full.status, no_name.status)
    assert f"turnctl: error: {path} could not be written: No space left on device\nturnctl: hint: " in full.err
    assert ["state"] == [one.name for one in tmp_path.iterdir()]


def test_folder_of_others_is_told(shelf: Path, capfd: Capture, tmp_path: Path) -> None:
    """One that may not be written in: there is one in which not even root may."""
    folder = Path("/sys") if os.geteuid() == 0 else tmp_path / "there"
    folder.mkdir(mode=0o500, exist_ok=True)
    found = ask(capfd, "report", "@", "-o", str(folder / "r.html"))

    assert 1 == found.status
    assert any(words in found.err for words in ("Permission denied", "Read-only file system"))


@contextmanager
def _stdout(fd: int) -> Iterator[None]:
    before = os.dup(1)
    os.dup2(fd, 1)
    os.close(fd)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def test_lost_stdout_is_told(shelf: Path, capfd: Capture) -> None:
    """A full disk is an error, and a reader who has gone has seen enough."""
    with _stdout(os.open("/dev/full", os.O_WRONLY)):
        full = ask(capfd, "report", "@", "-o", "-")
    reader, writer = os.pipe()
    os.close(reader)
    with _stdout(writer):
        gone = ask(capfd, "report", "@", "-o", "-")

    assert (5, "turnctl: error: could not write to stdout: No space left on device") == (
        *(full.status, full.err.splitlines()[0]),
    )
    assert "" == gone.err
    assert 0 != gone.status


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "missing argument"),
        (["@", "-o", ""], "-o: the name of the file is empty"),
        (["@", "-o", "-", "--json"], "--json answers on stdout"),
        (["@", "-o", "-", "--open"], "--open shows a file"),
        (["@", "--open", "--format", "md"], "--open shows html or svg, not md"),
        (["@", "--format", "pdf"], "pdf"),
    ],
)
def test_wrong_use_is_told(shelf: Path, capfd: Capture, args: list[str], words: str) -> None:
    """With status 2, before anything is written."""
    found = ask(capfd, "report", *args)

    assert 2 == found.status
    assert "" == found.out or "usage" == fits(json.loads(found.out))["code"]
    assert words in found.err


def test_open_shows_the_file(shelf: Path, capfd: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the browser that there is; where there is none it says where the file is."""
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: seen.append(url) or len(seen) == 1)
    shown, none = ask(capfd, "report", "@", "--open"), ask(capfd, "report", "@", "--open", "-q")
    path = tmp_path / f"turnctl-{RUNNING}.html"

    assert [path.as_uri()] * 2 == seen
    assert (0, 0) == (shown.status, none.status)
    assert "no browser" not in shown.err
    assert f"turnctl: no browser was found; {path} is there to be opened\n" == none.err


def test_report_loads_no_heavy_module(shelf: Path) -> None:
    """As a process of its own it works, and needs neither the store nor the records' makers."""
    names = {"psutil", "structlog", "asyncio", "rich", "attrs", "webbrowser", "turnctl.ledger.sqlite"}
    code = f"import atexit, sys; atexit.register(lambda: print([*({names!r} & set(sys.modules))], file=sys.stderr))"
    ended = finish(start("report", "@", "--format", "svg", before=code))

    assert (0, "[]\n") == (ended.status, ended.err)
    assert ended.out.startswith("<?xml"), sys.version
