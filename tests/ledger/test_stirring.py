"""Being woken: by what is written in a folder, by the end of a process, and by the time where nothing is heard."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnctl
from turnctl.ledger import stirring
from turnctl.ledger.stirring import Stirring

BOUND = 10.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[turnctl.Ledger]:
    """A ledger in a file."""
    with turnctl.open_ledger(str(tmp_path / "ledger.sqlite3")) as made:
        yield made


def test_a_commit_wakes(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """Who waits comes back when another has written, and sees that there is something to read."""
    with Stirring(str(tmp_path / "ledger.sqlite3")) as stirs:
        first, again = stirs.has_changed(), stirs.has_changed()
        writer = threading.Timer(0.05, lambda: ledger.submit("acme", "job"))
        writer.start()
        began = time.monotonic()
        while not stirs.has_changed():
            stirs.wait(BOUND)
        took = time.monotonic() - began
        writer.join()

    assert (True, False) == (first, again)
    assert took < BOUND / 2


def test_output_wakes(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """A file that is made or written to in a folder that is listened to."""
    folder = tmp_path / "turns"
    with Stirring(str(tmp_path / "ledger.sqlite3")) as stirs:
        early = stirs.add(str(folder))
        folder.mkdir()
        late, again = stirs.add(str(folder)), stirs.add(str(folder))
        while stirs._next < 0.2:  # what was made above is heard
            stirs.wait()
        writer = threading.Timer(0.05, lambda: (folder / "stdout.head").write_bytes(b"x"))
        writer.start()
        stirs.wait(BOUND)
        writer.join()
        heard = stirs._next

    assert (False, True, False) == (early, late, again)
    assert stirring._SHORT_S == heard


def test_the_end_of_a_process_wakes(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """Nobody writes that it is gone."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Stirring(str(tmp_path / "ledger.sqlite3")) as stirs:
        stirs.watch_process(child.pid)
        child.kill()
        began = time.monotonic()
        while not stirs.has_seen_end and time.monotonic() < began + BOUND:
            stirs.wait(BOUND)
        child.communicate()

    assert stirs.has_seen_end


def test_where_nothing_is_heard_time_wakes(
    ledger: turnctl.Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without inotify it comes back four times a second; and a descriptor of the caller's wakes at once."""
    monkeypatch.setattr(stirring, "_listen", lambda: (stirring._deaf, -1))
    read, write = os.pipe()
    with Stirring(str(tmp_path / "ledger.sqlite3")) as stirs:
        began = time.monotonic()
        nothing = stirs.wait(BOUND, read)
        took = time.monotonic() - began
        os.write(write, b"x")
        ready = stirs.wait(BOUND, read)
    os.close(read)
    os.close(write)

    assert (set(), {read}) == (nothing, ready)
    assert took < BOUND / 2


def test_a_reader_that_goes_wakes(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """Who follows ends when nobody reads it any more, and not with the next line; a file has no reader."""
    read, write = os.pipe()
    with Stirring(str(tmp_path / "ledger.sqlite3")) as stirs, (tmp_path / "out").open("w") as file:
        stirs.watch_reader(file.fileno())
        stirs.wait(0.01)
        early = stirs.has_lost_reader
        stirs.watch_reader(write)
        os.close(read)
        stirs.wait(BOUND)
    os.close(write)

    assert (False, True) == (early, stirs.has_lost_reader)
