"""Reading the process table: identities, odd names, and processes that vanish while they are read."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest
from commands import Gate, python, state_of
from interrupts import every_place
from standins import until

from turnctl.processes import elsewhere, table
from turnctl.processes.table import Entry, last_pid, parse, read_entry, read_numbers, read_table, started_at

REST = b" S 10 11 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1"


@pytest.mark.parametrize("comm", [b"sh", b"a b", b") Z 1 1", b"x) S 1 (y", b"\xff\xfe\n", b"(((", b""])
def test_name_may_be_any_bytes(comm: bytes) -> None:
    """Only the last parenthesis ends the name, whatever the name pretends."""
    assert Entry(7, 10, 11, 12, "S", 4242, comm) == parse(b"7 (" + comm + b")" + REST)


@pytest.mark.parametrize("stat", [b"", b"7", b"7 (sh", b"7 (sh) S 10", b"x (sh)" + REST, b"\xff" * 50])
def test_cut_text_is_no_entry(stat: bytes) -> None:
    """What is not a whole stat file names no process, and raises nothing."""
    assert None is parse(stat)


def test_own_entry_is_true() -> None:
    """What is read of this process is what the system calls say of it."""
    entry = read_entry(os.getpid())

    assert entry is not None
    assert (os.getpid(), os.getppid(), os.getpgrp(), os.getsid(0)) == entry[:4]
    assert entry == read_table()[os.getpid()]._replace(state=entry.state)


def test_start_is_near_the_clock() -> None:
    """The start of a process is given in seconds since the epoch."""
    with subprocess.Popen(["sleep", "60"]) as child:
        entry = read_entry(child.pid)
        child.kill()

    assert entry is not None
    assert 5 > abs(time.time() - started_at(entry))


def test_vanished_process_has_no_entry() -> None:
    """A pid that is gone gives None."""
    child = subprocess.Popen(["true"])
    child.wait()

    assert None is read_entry(child.pid)


def test_odd_name_is_read_from_a_process(gate: Gate) -> None:
    """A living process with a name of parentheses, spaces and no text is read like any other."""
    name = b") Z 1 \n\xff"
    code = (
        "import ctypes, sys, time\n"
        f"ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)\n"
        f"open({str(gate)!r}, 'w').write('x')\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        gate.wait()
        entry = read_table().get(child.pid)
        child.kill()

    assert entry is not None
    assert (name, os.getpid(), ") Z 1 \n\\xff") == (entry.comm, entry.ppid, entry.name)


def test_zombie_with_a_living_thread_is_not_dead(gate: Gate) -> None:
    """A main thread that has ended makes no dead process while another one runs."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        f"open({str(gate)!r}, 'w').write('x')\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        gate.wait()
        assert until(lambda: state_of(child.pid) == "Z")
        entry = read_entry(child.pid)
        assert entry is not None
        living = entry.is_dead
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        dead = entry.is_dead

    assert (False, True) == (living, dead)


def test_last_pid_is_the_newest() -> None:
    """The number given out last is at least that of a process just made, until the numbers go round."""
    with subprocess.Popen(["true"]) as child:
        last = last_pid()

    assert last is not None
    assert last >= child.pid or last < child.pid - 1000


def test_threads_are_no_processes() -> None:
    """Among numbers looked at one by one, those of threads are left out."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    number = thread.native_id
    assert number is not None
    seen, found = read_entry(number), read_numbers(number, number)
    stop.set()
    thread.join()

    assert seen is not None
    assert {} == found
    assert {os.getpid()} == read_numbers(os.getpid(), os.getpid()).keys()


def test_psutil_reads_the_same() -> None:
    """Where there is no /proc the same facts come from psutil; here both can be compared."""
    with subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True) as child:
        ours, theirs = read_entry(child.pid), elsewhere.read_entry(child.pid)
        all_of_theirs = elsewhere.read_table()
        child.kill()
    after = elsewhere.read_entry(child.pid)

    assert ours is not None
    assert theirs is not None
    assert ours[:4] == theirs[:4] == all_of_theirs[child.pid][:4]
    assert 1 > abs(started_at(ours) - theirs.start)
    assert None is after
    assert elsewhere.available()


def test_table_of_another_namespace_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A /proc that does not show this process under its own pid is not used."""
    monkeypatch.setattr(table, "_readable", None)
    monkeypatch.setattr(os, "readlink", lambda path: "1")

    assert not table.shows_us()
    monkeypatch.undo()
    table._readable = None
    assert table.shows_us()


def test_equal_number_in_another_namespace_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A /proc of another namespace that has this process under the same number by chance is not used either."""
    monkeypatch.setattr(table, "_readable", None)
    monkeypatch.setattr(table, "_read", lambda path: f"Name:\tx\nNSpid:\t{os.getpid()}\t{os.getpid()}\n".encode())

    assert not table.shows_us()
    table._readable = None


def test_foreign_table_is_empty_for_psutil_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where /proc is another namespace's, psutil is not asked to read the same one: nothing can be read."""
    monkeypatch.setattr(table, "shows_us", lambda: False)

    assert not table.is_readable()
    assert {} == table.read_table()
    assert None is table.read_entry(os.getpid())
    assert not table.has_living_thread(os.getpid())
    assert None is table.last_pid()


def test_nested_namespace_is_noticed() -> None:
    """In a namespace of pids with the /proc of the one around it, the table is known not to be ours."""
    code = (
        "import os, sys; from turnctl.processes import table\n"
        "print(os.getpid(), table.is_readable(), table.read_table())"
    )
    argv = ["unshare", "-Urpf", sys.executable, "-c", code]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=env)
    if "unshare" in done.stderr:
        pytest.skip(f"this machine gives no namespaces: {done.stderr}")

    assert "1 False {}\n" == done.stdout, done.stderr


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_reading_that_is_struck_leaves_no_descriptor(leak_check: object) -> None:
    """An exception at any instruction of a reading, as of a Ctrl-C, leaves no descriptor open."""

    class Struck(Exception):
        pass

    def strike() -> None:
        raise Struck

    before = len(os.listdir("/proc/self/fd"))
    places = 0
    for interruption in every_place(strike):
        with contextlib.suppress(Struck):
            interruption.run(lambda: read_entry(os.getpid()))
        places += interruption.happened

    assert places > 20
    assert before == len(os.listdir("/proc/self/fd"))
