"""``turn.staged``: a file is there whole or not at all, whatever becomes of who writes it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from standins import BOUND, Background

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver, beside
from turnctl.testing import call_at, pause_at


@pytest.fixture(params=["nameless", "named", "no nameless files here"])
def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each way to write beside the place, also that of file systems without files that have no name."""
    if request.param == "no nameless files here":
        monkeypatch.setattr(beside, "_nameless", lambda _: None)
    return bool(request.param == "named")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("old")
    return path


def around(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def files(turn: turnctl.Turn) -> list[tuple[str, str | None]]:
    return [(each.state, each.detail) for each in turn.report.activities if each.kind == "file"]


def test_file_is_replaced_at_the_end(place: Path, named: bool) -> None:
    """Until then the old one is there; afterwards the new one, and nothing beside it."""
    with turnctl.turn() as turn:
        with turn.staged(place, named=named) as file:
            file.write("new\n")
            file.flush()
            before = place.read_text()
        after = place.read_text()

    assert ("old", "new\n") == (before, after)
    assert ["notes.txt"] == around(place)
    assert [("completed", None)] == files(turn)


def test_file_that_was_not_there(tmp_path: Path, named: bool) -> None:
    """It appears at the end, with the permissions that a new file has."""
    plain, staged = tmp_path / "plain", tmp_path / "staged"
    plain.write_bytes(b"")
    with turnctl.turn() as turn:
        with turn.staged(staged, "wb", named=named) as file:
            file.write(b"\x00\xff")
            assert not staged.exists()

    assert b"\x00\xff" == staged.read_bytes()
    assert plain.stat().st_mode == staged.stat().st_mode


def test_stop_in_the_middle_leaves_the_old_file(place: Path, named: bool) -> None:
    """The body wrote all of it, and is stopped before its end."""
    with turnctl.turn() as turn, turn.staged(place, named=named) as file:
        file.write("new")
        turn.stop("enough")

    assert turn.cancelled
    assert "old" == place.read_text()
    assert ["notes.txt"] == around(place)
    assert [("cancelled", f"{place} is as it was")] == files(turn)


def test_error_in_the_body_leaves_the_old_file(place: Path, named: bool) -> None:
    """And is raised as it is."""
    with turnctl.turn() as turn:
        with pytest.raises(ZeroDivisionError), turn.staged(place, named=named) as file:
            file.write("new")
            raise ZeroDivisionError("oh")

    assert "old" == place.read_text()
    assert ["notes.txt"] == around(place)
    assert [("failed", "ZeroDivisionError: oh")] == files(turn)


def test_stop_before_the_body_opens_nothing(place: Path) -> None:
    """It is a checkpoint, before anything is made."""
    with turnctl.turn() as turn:
        turn.stop()
        with turn.staged(place) as file:
            file.write("never")

    assert "old" == place.read_text()
    assert [] == files(turn)


def test_stop_after_the_last_look_does_not_tear_it(place: Path, named: bool) -> None:
    """The file lands, and the report says when."""
    with turnctl.turn() as turn, call_at("staging.moving", lambda: turn.stop("late")):
        with turn.staged(place, named=named) as file:
            file.write("new")
        with pytest.raises(CancelledError):
            turn.token.check()

    assert "new" == place.read_text()
    assert [("completed", None)] == files(turn)


def test_abandoned_tool_leaves_the_old_file(place: Path, named: bool) -> None:
    """A thread that goes on when its turn is over moves nothing, and is told why."""
    with pause_at("staging.landing") as pause:
        with turnctl.turn() as turn:
            left = Background(write, turn, place, named)
            assert pause.reached.wait(BOUND)
        pause.release()
        error = left.error()

    assert isinstance(error, TurnOver)
    assert f"the turn ended before {place} was complete; the file is as it was" == str(error)
    assert "old" == place.read_text()
    assert ["notes.txt"] == around(place)
    assert [("cancelled", f"the turn ended before it was complete; {place} is as it was")] == files(turn)


def test_end_of_the_turn_waits_for_a_rename_under_way(place: Path) -> None:
    """What has begun to land is landed when the turn is over."""
    with pause_at("staging.moving") as pause:
        with turnctl.turn() as turn:
            writer = Background(write, turn, place, False)
            assert pause.reached.wait(BOUND)
            ended = Background(turn.end)
            pause.release()
            ended.result()
            writer.result()

    assert "new" == place.read_text()
    assert [("completed", None)] == files(turn)


def test_interruption_of_the_rename_is_unknown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What strikes while the file is moved may have come before it or after it: neither is claimed."""
    moved = os.replace

    def struck(*args: Any) -> None:
        moved(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", struck)
    with pytest.raises(KeyboardInterrupt), turnctl.turn() as turn:
        write(turn, place, named=True)

    assert "new" == place.read_text()
    assert [("unknown", f"KeyboardInterrupt while {place} was being put in its place")] == files(turn)


def test_rename_that_outlasts_the_grace_is_unknown(place: Path) -> None:
    """The end of the turn does not wait for ever, and claims nothing."""
    with pause_at("staging.moving") as pause:
        with turnctl.turn(grace="1s") as turn:
            writer = Background(write, turn, place, False)
            assert pause.reached.wait(BOUND)
            turn.stop(grace=0)
        pause.release()
        writer.result()

    assert [("unknown", f"{place} was being put in its place when the turn ended")] == files(turn)
    assert f"{place} was put in its place" == turn.report.activities[0].late


def write(turn: turnctl.Turn, path: Path, named: bool) -> None:
    with turn.staged(path, named=named) as file:
        file.write("new")


def test_permissions_and_links_are_kept(place: Path, tmp_path: Path, named: bool) -> None:
    """Those of the file that is replaced; a link goes on pointing there."""
    place.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(place)
    with turnctl.turn() as turn, turn.staged(link, named=named) as file:
        file.write("new")

    assert "new" == place.read_text()
    assert link.is_symlink()
    assert 0o640 == stat.S_IMODE(place.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_owner_is_kept(place: Path, named: bool) -> None:
    """Where this user may give files away."""
    os.chown(place, 1234, 2345)
    with turnctl.turn() as turn, turn.staged(place, named=named) as file:
        file.write("new")

    assert (1234, 2345) == (place.stat().st_uid, place.stat().st_gid)


def test_exclusive_one_is_refused_at_the_start(place: Path) -> None:
    """As ``open`` does it."""
    with turnctl.turn() as turn:
        with pytest.raises(FileExistsError, match=str(place)), turn.staged(place, "x"):
            pass

    assert "old" == place.read_text()


def test_exclusive_one_replaces_nothing_at_the_end(tmp_path: Path, named: bool) -> None:
    """A file that appeared in between stays."""
    path = tmp_path / "new.txt"
    with turnctl.turn() as turn:
        with pytest.raises(FileExistsError), turn.staged(path, "x", named=named) as file:
            file.write("ours")
            path.write_text("theirs")
        with turn.staged(tmp_path / "other.txt", "x", named=named) as file:
            file.write("ours")

    assert "theirs" == path.read_text()
    assert ["new.txt", "other.txt"] == around(path)


def test_body_may_close_the_file(place: Path, named: bool) -> None:
    """As many do out of habit; it lands at the end all the same."""
    with turnctl.turn() as turn, turn.staged(place, named=named) as file:
        file.write("new")
        file.close()
        before = place.read_text()

    assert ("old", "new") == (before, place.read_text())


def test_other_program_writes_a_named_one(place: Path) -> None:
    """It is found by its name, beside the place."""
    with turnctl.turn() as turn, turn.staged(place, named=True) as file:
        hidden = os.path.dirname(file.name)
        turn.run(["sh", "-c", 'echo from outside >"$0"', file.name], check=True)

    assert str(place.parent) == hidden
    assert "from outside\n" == place.read_text()


def test_text_is_written_as_asked(place: Path) -> None:
    """Encoding, newlines and what cannot be encoded are as with ``open``."""
    with turnctl.turn() as turn, turn.staged(place, encoding="ascii", errors="replace", newline="\r\n") as file:
        file.write("h\u00e9\n")

    assert b"h?\r\n" == place.read_bytes()


def test_longest_name_that_there_may_be(tmp_path: Path) -> None:
    """What is written beside it has a shorter one."""
    path = tmp_path / ("\u20ac" * 85)
    with turnctl.turn() as turn, turn.staged(path, named=True) as file:
        file.write("new")

    assert "new" == path.read_text()


@pytest.mark.parametrize(
    ("path", "mode", "text"),
    [
        ("x", "a", "the mode of a staged file is one of w, wb, x, xb, not 'a'"),
        (3, "w", "the path of a staged file is a non-empty str or a path of str without NUL, not 3"),
        (b"x", "w", "the path of a staged file is a non-empty str or a path of str without NUL, not b'x'"),
        ("", "w", "the path of a staged file is a non-empty str or a path of str without NUL, not ''"),
        ("new/", "w", "the path of a staged file names a file, and 'new/' a folder"),
        ("/dev/null", "w", "staged() replaces regular files, and /dev/null is none; write to it directly"),
        ("/", "w", "the path of a staged file names a file, and '/' a folder"),
    ],
)
def test_what_cannot_be_staged(path: Any, mode: Any, text: str) -> None:
    """It is refused before anything is made."""
    with turnctl.turn() as turn:
        with pytest.raises(BadArgument) as caught, turn.staged(path, mode):
            pass

    assert text == str(caught.value)
    assert [] == files(turn)


def test_folder_that_is_missing_is_named(tmp_path: Path, named: bool) -> None:
    """As ``open`` does it; the turn goes on."""
    with turnctl.turn() as turn:
        with pytest.raises(FileNotFoundError, match="nowhere"), turn.staged(tmp_path / "nowhere" / "x", named=named):
            pass

    assert "completed" == turn.report.outcome


def test_turn_that_is_over_stages_nothing(place: Path) -> None:
    """It is refused, and the file stays."""
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver), turn.staged(place):
        pass

    assert "old" == place.read_text()


KILLED = """
import os, sys, turnctl
from turnctl import points
path, named, at = sys.argv[1], sys.argv[2] == "named", sys.argv[3]
def die():
    os.write(1, b"here"); os.kill(os.getpid(), 9)
from turnctl.testing import call_at
real = os.replace
if at == "renaming":
    os.replace = lambda *_: die()
with turnctl.turn() as turn, turn.staged(path, named=named) as file:
    file.write("new" * 10_000)
    file.flush()
    if at == "writing":
        die()
"""


@pytest.mark.parametrize("how", ["named", "nameless"])
@pytest.mark.parametrize("at", ["writing", "renaming"])
def test_kill_leaves_the_old_file(place: Path, how: str, at: str) -> None:
    """Anywhere before the rename; the next writer takes away what a killed one left, and nothing else."""
    theirs = place.parent / f".{place.name}.staged-mine"
    theirs.write_text("not ours")
    killed = subprocess.run([sys.executable, "-c", KILLED, place, how, at], capture_output=True, timeout=30)
    old = place.read_text()
    left = around(place)
    with turnctl.turn() as turn, turn.staged(place) as file:
        file.write("next")

    assert (-signal.SIGKILL, b"here") == (killed.returncode, killed.stdout)
    assert "old" == old
    assert (2 if (how, at) == ("nameless", "writing") else 3) == len(left)
    assert "next" == place.read_text()
    assert sorted([place.name, theirs.name]) == around(place)


def test_writer_that_lives_is_left_alone(place: Path) -> None:
    """What another turn is writing for the same place is not taken away; the last to land stays."""
    with turnctl.turn() as turn:
        with turn.staged(place, named=True) as first:
            first.write("first")
            with turn.staged(place, named=True) as second:
                second.write("second")

    assert "first" == place.read_text()
    assert ["notes.txt"] == around(place)
