"""Stacks on request: answered beside the turn, however many ask and whatever it does, and into no other file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from standins import BOUND, until

import turnctl
from turnctl.ledger import stacks
from turnctl.ledger.stacks import ask

NO_ANSWER = 0.2


@contextmanager
def working(path: Path) -> Iterator[tuple[turnctl.Turn, str]]:
    """A turn at work on a task of the ledger there, and the incarnation."""
    with turnctl.open_ledger(str(path)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            yield turn, task.inc


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    return folder / "ledger.sqlite3"


def stack_of(found: dict[str, Any], name: str) -> list[str]:
    (thread,) = [one for one in found["threads"] if one["name"].endswith(name)]
    return [at["code"] for at in thread["stack"]]


def test_threads_are_told_with_their_lines(place: Path) -> None:
    """The thread of the turn stands where it is blocked in C, with the line; the body first; and nothing is left."""
    lock = threading.Lock()
    lock.acquire()

    def blocked(secret: str) -> None:
        lock.acquire()  # what it was called with is no place
        assert secret

    with working(place) as (turn, inc):
        worker = turn.thread(blocked, "hunter2")
        found: Any = {"threads": []}

        def is_seen() -> bool:
            nonlocal found
            found = ask(str(place), inc, within_s=BOUND)
            stacks = [one["stack"] for one in found["threads"] if one["name"].endswith("blocked")]
            return bool(stacks) and "blocked" == stacks[0][0]["function"]

        is_found = until(is_seen)
        lock.release()
        worker.wait()
    assert is_found
    body = found["threads"][0]

    assert "lock.acquire()  # what it was called with is no place" == stack_of(found, ".blocked")[0]
    assert ("MainThread", "body of the turn", True) == (body["name"], body["role"], body["is_main"])
    assert (os.getpid(), False) == (found["pid"], "hunter2" in repr(found))
    assert not Path(f"{place}.asks").exists()


def test_nobody_answers_for_a_turn_that_is_over(place: Path) -> None:
    """Who asks for a turn that is over, or is another program's, waits for the bound and gets nothing."""
    with working(place) as (_, inc):
        other = ask(str(place), "i-0", within_s=NO_ANSWER)
    with turnctl.open_ledger(str(place)):
        over = ask(str(place), inc, within_s=NO_ANSWER)

    assert (None, None) == (other, over)
    assert inc not in stacks.at_work


def test_storm_of_requests_is_answered_and_harms_nobody(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many ask at once: each gets an answer, all of them few readings, and the turn goes on and completes."""
    read: list[int] = []
    reading = stacks._threads
    monkeypatch.setattr(stacks, "_threads", lambda: read.append(1) or reading())
    found: list[Any] = []
    with working(place) as (turn, inc):
        askers = [
            threading.Thread(target=lambda: found.append(ask(str(place), inc, within_s=BOUND))) for _ in range(40)
        ]
        for one in askers:
            one.start()
        while any(one.is_alive() for one in askers):
            turn.sleep(0.001)
        for one in askers:
            one.join()

    assert 40 == len([one for one in found if one is not None])
    assert len(read) < 40
    assert ("completed", ()) == (turn.outcome, turn.report.notes)
    assert not Path(f"{place}.asks").exists()


@pytest.mark.parametrize("kind", ["link", "other name", "full", "fifo"])
def test_no_other_file_is_written_to(place: Path, kind: str) -> None:
    """A link, a file with another name, one that has something in it, a pipe: none is taken for who asks."""
    target = place.parent / "precious"
    target.write_text("kept" if kind == "full" else "")
    folder = Path(f"{place}.asks")
    with working(place) as (_, inc):
        folder.mkdir(mode=0o700)
        name = folder / f"{inc}.{'0' * 16}"
        make = {
            "link": lambda: name.symlink_to(target),
            "other name": lambda: os.link(target, name),
            "full": lambda: target.rename(name),
            "fifo": lambda: os.mkfifo(name),
        }
        make[kind]()
        found = ask(str(place), inc, within_s=BOUND)  # answered in the same reading
        text = {"full": name, "fifo": target}.get(kind, target).read_text()

    assert found is not None
    assert ("kept" if kind == "full" else "") == text


def test_folder_of_others_is_not_used(place: Path) -> None:
    """A folder that others can reach is answered by nobody, and nobody asks in it."""
    folder = Path(f"{place}.asks")
    with working(place) as (_, inc):
        folder.mkdir()
        folder.chmod(0o770)
        name = folder / f"{inc}.{'0' * 16}"
        name.touch(0o600)
        with pytest.raises(PermissionError, match="open to others"):
            ask(str(place), inc, within_s=NO_ANSWER)
        stacks.answer(str(place))
        assert until(lambda: stacks._answerer._thread is None)

        assert b"" == name.read_bytes()


def test_what_killed_askers_left_is_taken_away(place: Path) -> None:
    """A file of an asker that is gone goes with the next one who asks; a young one stays."""
    folder = Path(f"{place}.asks")
    folder.mkdir(mode=0o700)
    old, young = (folder / f"i-1.{digit * 16}" for digit in "ab")
    for one in (old, young):
        one.touch(0o600)
    os.utime(old, (1, 1))
    ask(str(place), "i-2", within_s=0.01)

    assert [young.name] == [one.name for one in folder.iterdir()]


def test_forked_child_does_not_answer_for_its_parent(place: Path) -> None:
    """A child has no turn of its parent's at work, whatever it inherits."""
    with working(place) as (_, inc):
        out, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(there, b"%d" % len(stacks.at_work))
            os._exit(0)
        os.close(there)
        os.waitpid(child, 0)
        told = os.read(out, 10)
        os.close(out)

        assert (b"0", True) == (told, inc in stacks.at_work)


def test_child_of_a_cancelled_task_is_not_listened_for(place: Path) -> None:
    """A turn below one whose task was cancelled never works: nothing of it stays behind when it is over."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task):
            ledger.cancel(task, by="ana")
            with turnctl.turn() as child:
                child.check()
            left = set(stacks.at_work)

    assert ("cancelled", {task.inc}) == (child.outcome, left)
    assert {} == stacks.at_work
