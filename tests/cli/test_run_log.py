"""What ``turnctl run`` keeps of the output: by which name, how much, in which order, and what of it survives."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap
from forked import ran
from launch import Ended, call, clean_environment, finish, start, turnctl_argv
from standins import until

import turnctl
from turnctl.cli.streams import is_one_file
from turnctl.ledger.spool import KeptOutput, read


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory of the test's own."""
    return tmp_path / "state"


def recorded(state: Path, *args: str, **options: Any) -> Ended:
    run = call if "before" in options else ran
    return run("run", "--state-dir", str(state), "--record", "yes", *args, **options)


def argv(state: Path, *args: str) -> list[str]:
    return turnctl_argv("run", "--state-dir", str(state), "--record", "yes", *args)


def only_turn(state: Path) -> str:
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        (task,) = ledger.store.read(lambda books: list(books.incarnations()))
        return task.task_id


def told(state: Path) -> dict[str, Any]:
    """What the record says of the output of its one run."""
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        row = ledger.store.read(lambda books: books.turn(only_turn(state)))
        assert row is not None
        return json.loads(row.output or "null")  # type: ignore[no-any-return]


def kept(state: Path) -> dict[str, KeptOutput]:
    return {one.name: one for one in read(str(state), only_turn(state))}


def test_both_streams_are_kept_and_come_out(state: Path) -> None:
    """Each stream comes out as it is, apart, and is kept under its name; the record says so."""
    ended = recorded(state, "--", "sh", "-c", "printf 'a\\000b'; printf err >&2; exit 3")
    found = kept(state)

    assert (3, "a\0b", "err") == ended
    assert {"stdout": b"a\0b", "stderr": b"err"} == {name: one.value() for name, one in found.items()}
    assert {
        "streams": {"stdout": "stdout", "stderr": "stderr"},
        "kept": {"stdout": {"bytes": 3}, "stderr": {"bytes": 3}},
    } == told(state)


def test_two_streams_on_one_file_keep_their_order(state: Path) -> None:
    """Where both streams are one file (2>&1) one pipe carries both, in order, also into the record, which says so."""
    script = "for n in 1 2 3 4 5 6 7 8 9; do echo out $n; echo err $n >&2; done"
    done = subprocess.run(
        argv(state, "sh", "-c", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=clean_environment(),
        timeout=30,
        check=True,
    )
    expected = "".join(f"out {n}\nerr {n}\n" for n in range(1, 10)).encode()

    assert expected == done.stdout
    assert {"stdout+stderr": expected} == {name: one.value() for name, one in kept(state).items()}
    assert dict.fromkeys(("stdout", "stderr"), "stdout+stderr") == told(state)["streams"]


def test_one_file_is_told_from_two(tmp_path: Path) -> None:
    """One opening is one file; two openings of a file are not, unless both append; two pipes are two."""
    path = str(tmp_path / "file")
    flags = os.O_WRONLY | os.O_CREAT
    one, other, appends, too = (
        os.open(path, flags),
        os.open(path, flags),
        os.open(path, flags | os.O_APPEND),
        os.open(path, flags | os.O_APPEND),
    )
    twin, (reads, writes), (reads2, writes2) = os.dup(one), os.pipe(), os.pipe()
    again = os.open(f"/proc/self/fd/{writes}", os.O_WRONLY)
    found = [
        is_one_file(a, b) for a, b in ((one, twin), (one, other), (appends, too), (writes, again), (writes, writes2))
    ]
    for fd in (one, other, appends, too, twin, reads, writes, reads2, writes2, again):
        os.close(fd)

    assert [True, False, True, True, False] == found


def test_one_file_without_the_kernels_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel may not say it, two places in a file are two openings, and one place is one."""
    monkeypatch.setattr("turnctl.cli.streams._KCMP", {})
    path = str(tmp_path / "file")
    one, other = os.open(path, os.O_WRONLY | os.O_CREAT), os.open(path, os.O_WRONLY)
    twin = os.dup(one)
    os.write(one, b"abc")
    found = [is_one_file(one, twin), is_one_file(one, other)]
    for fd in (one, other, twin):
        os.close(fd)

    assert [True, False] == found


def test_log_is_bounded_by_both_ends(state: Path) -> None:
    """Of a long stream the beginning and the end are kept, no more than --log-max; all of it comes out."""
    code = "import sys\nfor n in range(200000): sys.stdout.write(f'{n}\\n')"
    ended = recorded(state, "--log-max", "64KiB", "--", sys.executable, "-S", "-c", code)
    out = kept(state)["stdout"]
    whole = "".join(f"{n}\n" for n in range(200000)).encode()

    assert (0, "", len(whole)) == (ended.status, ended.err, len(ended.out))
    assert (len(whole), {"bytes": len(whole)}) == (out.total, told(state)["kept"]["stdout"])
    assert 65536 >= sum(len(data) for _, data in out.pieces) >= 49152
    assert whole.startswith(out.pieces[0][1])
    assert whole.endswith(out.pieces[-1][1])
    assert 1 == len(out.missing)


def test_nothing_printed_is_nothing_kept(state: Path) -> None:
    """A command that prints nothing leaves no folder behind."""
    recorded(state, "true")

    assert not (state / "turns").exists()
    assert {} == told(state)["kept"]


def test_no_log_keeps_nothing(state: Path) -> None:
    """With --no-log the command has the very streams, and the record has no output."""
    ended = recorded(state, "--no-log", "sh", "-c", "readlink /proc/self/fd/1; readlink /proc/$PPID/fd/1 >&2")

    assert (0, True) == (ended.status, ended.out.startswith("pipe:["))
    assert not (state / "turns").exists()
    assert told(state) is None


def test_terminal_is_handed_on_and_told(state: Path) -> None:
    """A terminal is the command's own, and the record says that nothing of it is kept; a pipe beside it is kept."""
    master, slave = pty.openpty()
    script = "test -t 1 && echo terminal; echo err >&2"
    done = subprocess.run(
        argv(state, "sh", "-c", script),
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
        timeout=30,
        check=True,
    )
    shown = os.read(master, 100)
    os.close(master)
    os.close(slave)

    assert (b"terminal\r\n", b"err\n") == (shown, done.stderr)
    assert {"stdout": "a terminal, which is not kept", "stderr": "stderr"} == told(state)["streams"]
    assert {"stderr": b"err\n"} == {name: one.value() for name, one in kept(state).items()}


def test_new_terminal_is_kept(state: Path) -> None:
    """With --tty new, whose output goes through turnctl anyway, it is kept as what it is: both streams on one."""
    ended = recorded(state, "--tty", "new", "sh", "-c", "test -t 1 && echo out; echo err >&2")

    assert (0, "out\nerr\n") == (ended.status, ended.out.replace("\r", ""))
    assert {"stdout+stderr": b"out\r\nerr\r\n"} == {name: one.value() for name, one in kept(state).items()}


SLOW_WINDOW = """
import time
from turnctl.cli import window
show = window.Window._show
window.Window._show = lambda self: (time.sleep(0.2), show(self))[1]
"""


def test_new_terminal_is_kept_to_its_end(state: Path) -> None:
    """Also where it is read after the command has ended: the turn's end waits until all of it is kept."""
    ended = recorded(state, "--tty", "new", "echo", "out", before=SLOW_WINDOW)

    assert (0, "out\n") == (ended.status, ended.out)
    assert {"stdout+stderr": b"out\r\n"} == {name: one.value() for name, one in kept(state).items()}


def test_closed_stream_stays_closed(state: Path) -> None:
    """A stream that turnctl was given closed stays closed for the command, and the record says so."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *argv(state, "sh", "-c", "echo err >&2; echo out")],
        capture_output=True,
        env=clean_environment(),
        timeout=30,
        check=False,
    )

    assert done.returncode != 0
    assert b"err\n" in done.stderr
    assert {"stdout": "closed", "stderr": "stderr"} == told(state)["streams"]


def test_reader_that_has_gone_is_passed_on(state: Path) -> None:
    """A command whose reader has seen enough gets SIGPIPE, as without turnctl."""
    process = start("run", "--state-dir", str(state), "--record", "yes", "yes")
    assert process.stdout is not None
    assert "y\n" == process.stdout.readline()
    process.stdout.close()
    process.wait(15)
    assert process.stderr is not None
    process.stderr.close()

    assert 128 + signal.SIGPIPE == process.returncode
    assert kept(state)["stdout"].pieces[0][1].startswith(b"y\ny\n")


def test_output_before_the_stop_is_kept_for_slow_readers(state: Path, tmp_path: Path) -> None:
    """What the command had printed when it was stopped is in the record, also what its reader never took."""
    gate, tag = Gate(tmp_path / "gate"), nap()
    script = f"head -c 50000 /dev/zero | tr '\\0' x; echo > {gate}; exec {tag}"
    process = start("run", "--state-dir", str(state), "--record", "yes", "sh", "-c", script)
    gate.wait()
    assert until(lambda: sum(len(data) for _, data in kept(state)["stdout"].pieces) == 50000)
    process.terminate()
    process.wait(15)
    finish(process)
    gate.close()

    assert b"x" * 50000 == kept(state)["stdout"].value()


def test_output_survives_the_kill_of_turnctl(state: Path, tmp_path: Path) -> None:
    """After kill -9 everything up to the last write is there, and what lies between the two ends is known."""
    gate, tag = Gate(tmp_path / "gate"), nap()
    script = f"i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo > {gate}; exec {tag}"
    process = subprocess.Popen(
        argv(state, "--log-max", "8KiB", "sh", "-c", script),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=clean_environment(),
        start_new_session=True,
    )
    gate.wait()
    whole = "".join(f"line {n}\n" for n in range(3000)).encode()
    assert until(lambda: kept(state)["stdout"].total == len(whole))
    process.kill()
    process.wait(15)
    gate.close()
    assert until(lambda: alive(tag) == [])
    out = kept(state)["stdout"]

    assert whole.startswith(out.pieces[0][1])
    assert whole.endswith(b"line 2999\n")
    assert whole.endswith(out.pieces[-1][1])
    assert [(4096, out.pieces[1][0] - 4096)] == list(out.missing)


def test_log_that_finds_no_room_is_told(state: Path) -> None:
    """Output that could not be kept comes out all the same, and the record says how much is missing, and so a line."""
    recorded(state, "true")
    (state / "turns").write_text("in the way")
    ended = recorded(state, "echo", "out")

    assert (0, "out\n") == (ended.status, ended.out)
    assert "turnctl: the record of this run is incomplete: 4 bytes of stdout could not be kept (Not a directory)\n" == (
        ended.err
    )


def test_watched_output_is_kept_as_it_came(state: Path) -> None:
    """What --max-output leaves out of what comes out is in the record."""
    ended = recorded(state, "-q", "--max-output", "6", "sh", "-c", "printf 0123456789abcdef")

    assert "012def" == ended.out
    assert b"0123456789abcdef" == kept(state)["stdout"].value()


def test_wrong_sizes_are_refused(state: Path) -> None:
    """A log has some size; one that has none is --no-log."""
    for wrong in ("none", "0B", "many"):
        ended = recorded(state, "--log-max", wrong, "true")

        assert 2 == ended.status, wrong
        assert "--log-max" in ended.err
    assert not state.exists()
