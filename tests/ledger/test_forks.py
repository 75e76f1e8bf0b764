"""No connection crosses a fork: the child has its own, with its own locks, and the parent goes on."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from stores import admit, finish, line, program

from turnctl.ledger import memory
from turnctl.ledger.opening import open_sqlite
from turnctl.ledger.verify import verify
from turnctl.testing import pause_at


def in_child(work) -> int:
    """The status of a fork that does ``work`` and nothing of what the test run has in store for its end."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def locks_of(pid: int, path: Path) -> int:
    """How many locks the process has on the files of the store, as the kernel says."""
    numbers = {os.stat(f"{path}{ending}").st_ino for ending in ("", "-shm")}
    with open("/proc/locks", encoding="ascii") as file:
        lines = [line.split() for line in file if "->" not in line]
    return len(
        [1 for line in lines if line[1] == "POSIX" and int(line[4]) == pid and int(line[5].split(":")[2]) in numbers]
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel lists its locks on Linux alone")
def test_child_has_locks_of_its_own(place: Path) -> None:
    """SQLite's memory of the parent's locks is not the child's: it takes them itself."""
    store = open_sqlite(place)
    Desk(store)

    def work() -> int:
        return store.read(lambda books: books.task("i1") is not None and locks_of(os.getpid(), place))

    found = in_child(work)
    store.close()

    assert found >= 2  # that it reads, and that it has the log open


def test_both_write_after_a_fork(place: Path) -> None:
    """Parent and child commit side by side; what both were told is there, also when the parent closes first."""
    store = open_sqlite(place)
    Desk(store)
    admit(store, "before")

    def work() -> int:
        for n in range(20):
            admit(store, f"child{n}")
        store.close()
        return 0

    pid = os.fork()
    if pid == 0:
        try:
            os._exit(work())
        finally:
            os._exit(70)
    for n in range(20):
        admit(store, f"parent{n}")
    store.close()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    store = open_sqlite(place)
    kept = {effect.effect_id for effect in store.read(lambda books: books.effects_of("i1"))}
    store.close()

    assert 0 == status
    assert {"before", *(f"{who}{n}" for who in ("child", "parent") for n in range(20))} == kept
    assert verify(place)


def test_fork_waits_for_a_transaction(place: Path) -> None:
    """One that is under way on another thread ends first: the child inherits no half of it."""
    store = open_sqlite(place)
    Desk(store)
    with pause_at("gate.before_commit") as held:
        writing = threading.Thread(target=lambda: admit(store, "e1"))
        writing.start()
        assert held.reached.wait(5)
        threading.Timer(0.1, held.release).start()
        found = in_child(lambda: 1 if store.read(lambda books: books.effect("e1")) is not None else 2)
        writing.join()
    store.close()

    assert 1 == found


def test_fork_within_a_transaction_spoils_the_child(place: Path) -> None:
    """Who forks where nothing can be waited for has a child that is told so, and goes on itself."""
    store = open_sqlite(place)
    Desk(store)

    def refused() -> int:
        try:
            store.read(lambda books: books.task("i1"))
        except Exception as error:
            return 3 if "was forked while" in str(error) else 4
        return 5

    found = store.transact(lambda _: in_child(refused))
    admit(store, "e1")
    store.close()

    assert 3 == found


def test_store_that_is_gone_spoils_no_other(place: Path, quick: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A ledger whose folder was removed while it was open is told of, and the others of the child work."""
    code = """
        import shutil
        from turnctl.ledger.opening import init
        other = os.path.join(os.path.dirname(path), "gone", "ledger.db")
        init(other)
        gone, store = open_sqlite(other), open_sqlite(path)
        Desk(store)
        shutil.rmtree(os.path.dirname(other))
        pid = os.fork()
        if pid == 0:
            os._exit(0 if admit(store, "e1").effect_id == "e1" else 1)
        say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """

    assert "0" == finish(program(code, place)).strip()
    assert "not made ready for a fork" in capfd.readouterr().err


def test_child_of_a_killed_parent_holds_nobody_up(place: Path) -> None:
    """The turnstile of a parent that is killed at the desk is free, though its child lives."""
    store = open_sqlite(place)
    Desk(store)
    code = """
        store = open_sqlite(path)
        admit(store, "e1")
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        store.transact(lambda _: (say(child), os.kill(os.getpid(), 9)))
    """
    process = program(code, place)
    child = int(line(process))
    assert -9 == process.wait(20)
    admit(store, "e2")
    os.kill(child, 9)
    process.communicate()
    store.close()

    assert verify(place)


def test_watcher_of_the_parent_is_not_the_childs(place: Path) -> None:
    """The child has no thread that it did not begin, and can begin its own."""
    code = """
        store = open_sqlite(path)
        Desk(store)
        undo = store.watch("i1", lambda: None)
        pid = os.fork()
        if pid == 0:
            rung = threading.Event()
            store.watch("i1", rung.set)
            cancel(store)
            os._exit(0 if rung.wait(20) else 1)
        say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        store.close()
    """

    assert "0" == finish(program(code, place)).strip()


def _elsewhere(step: Callable[[], object]) -> None:
    thread = threading.Thread(target=step)
    thread.start()
    thread.join(5)


def test_two_forks_at_once_hold_no_memory_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that cannot wait any longer for the fork of another one does not keep that from giving it back."""
    monkeypatch.setattr(memory, "FORK_S", 0.01)
    store = memory.MemoryStore("here")
    store.before_fork()
    _elsewhere(store.before_fork)
    store.after_fork()
    _elsewhere(store.after_fork)
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.append(store.read(lambda _: 7)), daemon=True)
    reader.start()
    reader.join(5)

    assert [7] == found
