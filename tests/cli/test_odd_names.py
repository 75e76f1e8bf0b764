"""Names of files that nobody expects, with line feeds, escapes, bytes that are no text: a message stays a line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from everycommand import CALLS, argv
from launch import Ended, ask, call
from schemas import fits

ODD = "a\nb\x1b[2J\u202e\udcff"
SPELLED = r"a\nb\x1b[2J\u202e\xff"
Capture = pytest.CaptureFixture[str]


def lines_of(ended: Ended) -> list[str]:
    """What it has said on stderr, and that each line is one of ours that can be shown."""
    lines = ended.err.splitlines()

    assert [] == [one for one in lines if not (one.startswith("turnctl: ") and one.isprintable())]
    assert len(lines) == ended.err.count("\n")
    return lines


@pytest.mark.parametrize("command", sorted(set(CALLS) - {"doctor"}))
@pytest.mark.parametrize("is_there", [False, True], ids=["missing", "unsafe"])
def test_directory_of_an_odd_name_is_one_line(
    shelf: Path, tmp_path: Path, capfd: Capture, command: str, is_there: bool
) -> None:
    """Where there is none, and where others can reach it: what failed is a line, and so is what to do."""
    state = tmp_path / ODD
    if is_there:
        shutil.copytree(shelf, state)
        state.chmod(0o777)
    found = ask(capfd, *argv(command, "--state-dir", str(state), out=str(tmp_path / "out")))
    lines = lines_of(found)

    assert len(lines) <= 2
    assert command == "run" or any(SPELLED in one for one in lines)
    assert (is_there or command not in ("run", "ps", "ledger prune")) == (0 != found.status)


@pytest.mark.parametrize("command", sorted(set(CALLS) - {"run"}))
def test_directory_of_an_odd_name_is_used(shelf: Path, tmp_path: Path, capfd: Capture, command: str) -> None:
    """It is a name like any other; what -v says of it is a line each, and what is answered can be shown."""
    state = tmp_path / ODD
    shutil.copytree(shelf, state)
    found = ask(capfd, "-v", *argv(command, "--state-dir", str(state), out=str(tmp_path / ODD / "out")))

    assert (4 if command == "logs" else 0) == found.status
    assert any(SPELLED in one for one in [*lines_of(found), found.out])
    assert [] == [one for one in found.out.splitlines() if not one.isprintable()]


@pytest.mark.parametrize("command", ["bundle", "ledger backup", "report"])
def test_file_of_an_odd_name_is_one_line(shelf: Path, tmp_path: Path, capfd: Capture, command: str) -> None:
    """Written, refused since it is there, and refused since its folder is not."""
    path = tmp_path / ODD
    made = ask(capfd, *argv(command, out=str(path)))
    path.write_bytes(b"of somebody else")
    refused = [ask(capfd, *argv(command, out=str(path))), ask(capfd, *argv(command, out=str(path / "none")))]

    assert 0 == made.status
    assert SPELLED in "".join([made.out, *lines_of(made)])
    for one in refused:
        assert one.status in (1, 2, 5)
        assert SPELLED in lines_of(one)[0]
        assert 2 == len(lines_of(one))


@pytest.mark.parametrize(
    "call",
    [
        ("ps", "--config", ODD),
        ("ledger", "verify", ODD),
        ("run", "--no-record", f"./{ODD}"),
        ("run", "--no-record", "-C", ODD, "true"),
        ("run", "--no-record", "--summary", f"{ODD}/x", "true"),
        ("run", "--no-record", "--dry-run", f"./{ODD}"),
        ("trial", "--at", "1ms", f"./{ODD}"),
        ("ledger", "prune", "--older-than", "1d", "--export", ODD),
        ("reconcile", "--effect", "e", "--mark", "completed", "--evidence", f"@{ODD}", "--by", "ana"),
        ("logs", "@", "--stream", ODD),
        ("completion", ODD),
        ("help", ODD),
        (ODD,),
        (f"--{ODD}",),
        ("ps", f"--{ODD}"),
        ("ps", "--since", ODD),
        ("stop", "--wait", ODD, "@"),
    ],
    ids=lambda call: " ".join(call[:2]).replace(ODD, "ODD"),
)
def test_word_of_an_odd_name_is_one_line(shelf: Path, capfd: Capture, call: tuple[str, ...]) -> None:
    """A file or a word that is refused stands in a line that can be shown, as all that is said of it."""
    found = ask(capfd, *call)

    assert 0 != found.status
    assert 2 == len(lines_of(found))
    assert [] == [one for one in found.out.splitlines() if not one.isprintable()]


def test_document_has_the_name_as_it_is(shelf: Path, tmp_path: Path, capfd: Capture) -> None:
    """For programs nothing is spelled out but what JSON spells out; and a path alone is its bytes."""
    found = ask(capfd, "report", "@", "-o", f"{tmp_path}/a\nb.svg", "--json")
    capfd.readouterr()
    printed = call("doctor", "--print", "state-dir", "--state-dir", f"{tmp_path}/{ODD}", errors="surrogateescape")

    assert f"{tmp_path}/a\nb.svg" == fits(json.loads(found.out))["path"]
    assert Ended(0, f"{tmp_path}/{ODD}\n", "") == printed


def test_log_is_a_line_for_each(shelf: Path, tmp_path: Path, capfd: Capture) -> None:
    """turnctl's own log, also where a name in it has a line feed."""
    state = tmp_path / ODD
    shutil.copytree(shelf, state)
    lines = ask(capfd, "-vv", "ps", "--state-dir", str(state)).err.splitlines()

    assert [] == [one for one in lines if not one.isprintable()]
    assert [] == [one for one in lines if not one.startswith(("turnctl: ", "20"))]
