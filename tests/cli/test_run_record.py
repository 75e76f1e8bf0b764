"""The record of ``turnctl run``: two transactions around the command, what they say, and that nobody waits for them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap, state_of
from forked import ran
from launch import Ended, call, clean_environment, finish, start, turnctl_argv
from standins import until

import turnctl
from turnctl.ledger.opening import init
from turnctl.ledger.runs import TENANT
from turnctl.ledger.verify import verify
from turnctl.records.accounts import TaskReport


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory of the test's own, that is not there yet."""
    return tmp_path / "state"


def recorded(state: Path, *args: str, **options: Any) -> Ended:
    run = call if "before" in options else ran
    return run("run", "--state-dir", str(state), "--record", "yes", *args, **options)


def begun(state: Path, *args: str, **options: Any) -> subprocess.Popen[str]:
    return start("run", "--state-dir", str(state), "--record", "yes", *args, **options)


def reports(state: Path) -> list[TaskReport]:
    """The runs on record, oldest first."""
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        return [ledger.report(one.inc) for one in ledger.store.read(lambda books: list(books.incarnations()))]


def kinds(state: Path) -> list[str]:
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        (task,) = ledger.store.read(lambda books: list(books.incarnations()))
        return [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=15)


# -- what is recorded ---------------------------------------------------------------------------------------------


def test_run_is_on_record(state: Path, tmp_path: Path) -> None:
    """Its command, folder and end are there, as a task of its own, failed as its command; and nothing is said."""
    ended = recorded(state, "-C", str(tmp_path), "--", "sh", "-c", "exit 3")
    (report,) = reports(state)
    (turn,) = report.turns
    told = turn.as_dict()

    assert (3, "", "") == ended
    assert (TENANT, turn.turn_id, "failed") == (report.task.tenant, report.task.task_id, report.state)
    assert (["sh", "-c", "exit 3"], str(tmp_path), "sh") == (told["command"], told["folder"], told["name"])
    assert ("failed", 3) == (told["outcome"], told["report"]["processes"][0]["returncode"])
    assert verify(state / "ledger.sqlite3")


def test_folder_that_is_no_text_is_on_record(state: Path, tmp_path: Path) -> None:
    """Names of files are bytes: what of them is no text is spelled, and keeps no run from being recorded."""
    folder = tmp_path / "d\udcff"
    folder.mkdir()
    (folder / "p\udcff").symlink_to("/bin/true")
    ended = recorded(state, "-C", str(folder), "--", "./p\udcff")
    (report,) = reports(state)

    assert (0, "", "") == ended
    assert (f"{tmp_path}/d\\udcff", "p\\udcff") == (report.turns[0].folder, report.turns[0].name)


def test_two_transactions_are_all(state: Path) -> None:
    """A run waits for the disk twice: before the command may start, and at the end; what is written then is all."""
    count = (
        "import turnctl.ledger.sqlite as s; import sys\n"
        "old = s._Desk._kept\n"
        "def kept(*a): print('commit', file=sys.stderr); return old(*a)\n"
        "s._Desk._kept = kept\n"
        "import turnctl.ledger.runs as r; r._SETTLE_S = 60"  # else one that goes on is put on record with its number
    )
    ended = recorded(state, "sleep", "0.2", before=count)

    assert (0, "commit\ncommit\n") == (ended.status, ended.err)
    assert [
        *("task.submitted", "lease.taken", "task.leased", "turn.begun", "activity.registered"),
        *("activity.identified", "activity.stopped", "lease.given_back", "task.completed", "turn.ended"),
    ] == kinds(state)


def test_row_is_there_before_the_command(state: Path) -> None:
    """The command itself finds its turn on record, by the id and the folder that it is given."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import turnctl\n"
        "with turnctl.open_ledger() as ledger:\n"
        f"    task = ledger.task({TENANT!r}, os.environ['TURNCTL_TURN_ID'])\n"
        "    print(ledger.report(task).turns[0].state, os.environ['TURNCTL_STATE_DIR'])"
    )
    root = str(Path(turnctl.__file__).parent.parent)
    ended = recorded(state, sys.executable, "-c", code, root)

    assert (0, f"running {state}\n", "") == ended


def test_command_that_cannot_start_is_on_record(state: Path) -> None:
    """The turn of a command that was not found failed, and says so."""
    ended = recorded(state, "no-such-command-here")
    (report,) = reports(state)

    assert 127 == ended.status
    assert ("failed", "failed") == (report.state, report.turns[0].outcome)


def test_stop_is_on_record(state: Path) -> None:
    """A run that was stopped is cancelled and settled, with who and why, and what was needed."""
    ended = recorded(state, "--timeout", "300ms", "sleep", "60")
    (report,) = reports(state)
    (turn,) = report.turns

    assert 124 == ended.status
    assert ("cancelled, settled", "cancelled") == (report.state, turn.outcome)
    assert report.cancellation is not None
    assert "timeout of 0.3 s passed" == report.cancellation.reason
    assert "deadline" == turn.as_dict()["report"]["intent"]["record"]["cause"]


def test_leftovers_are_in_the_end(state: Path) -> None:
    """What the command left is ended before the record is: it says what was done, and the task is through."""
    tag = nap()
    recorded(state, "sh", "-c", f"{tag} & exit 0")
    (report,) = reports(state)
    process = report.turns[0].as_dict()["report"]["processes"][0]

    assert [] == alive(tag)
    assert ("completed", "stop_observed") == (report.state, report.task.execution)
    assert ["sleep"] == [one["name"] for one in process["leftovers"]]


def test_third_press_leaves_a_record(state: Path, tmp_path: Path) -> None:
    """Who stops waiting leaves an end that says what is still there, and a task that is not called settled."""
    gate = Gate(tmp_path / "gate")
    command = ["sh", "-c", f"trap '' TERM; echo > {gate}; while :; do sleep 60; done"]
    before = "import turnctl.processes.warden, os; import turnctl.processes.supervise as s"
    process = begun(state, "--grace", "60s", *command, before=before)
    gate.wait()
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    ended = finish(process)
    gate.close()
    (report,) = reports(state)
    (turn,) = report.turns

    assert ended.status in (123, -signal.SIGTERM)  # the second press may have ended it before the third
    if ended.status == 123:
        assert "draining" == report.state
        assert any("sh" in one for one in turn.as_dict()["report"]["execution"]["alive"])
    assert ("ended", "cancelled") == (turn.state, turn.outcome)


# -- a cancellation from elsewhere --------------------------------------------------------------------------------


def test_cancel_from_another_process_stops_it(state: Path, tmp_path: Path) -> None:
    """A cancellation of its task stops the running command at once; the status says that it was stopped."""
    gate, tag = Gate(tmp_path / "gate"), nap()
    process = begun(state, "sh", "-c", f"echo > {gate}; exec {tag}")
    gate.wait()
    began = time.monotonic()
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        (task,) = ledger.store.read(lambda books: list(books.incarnations()))
        answer = ledger.cancel(task.inc, by="alice", tenant=TENANT, reason="wrong branch")
    ended = finish(process)
    took = time.monotonic() - began
    gate.close()
    (report,) = reports(state)

    assert answer
    assert 122 == ended.status
    assert "turnctl: stop accepted (wrong branch)" == ended.err.splitlines()[0]
    assert [] == alive(tag)
    assert 5 > took
    assert ("cancelled, settled", "alice") == (report.state, report.cancellation and report.cancellation.requester)


def test_cancel_at_the_very_end_is_the_truth(state: Path, tmp_path: Path) -> None:
    """One that the store has accepted, and that was not heard, makes the end cancelled: here, and on record."""
    before = (
        "import turnctl.ledger.runs as r, turnctl, threading\n"
        "r.Recorded._rung = lambda self: None\n"
        "old = r.Recorded._end\n"
        "def end(self):\n"
        "    if self.cr is None:\n"
        "        ledger = turnctl.Ledger(self.store)\n"
        "        ledger.cancel(self.inc, by='alice', tenant=r.TENANT, reason='late')\n"
        "    return old(self)\n"
        "r.Recorded._end = end"
    )
    ended = recorded(state, "true", before=before)
    (report,) = reports(state)

    assert 122 == ended.status
    assert ("cancelled, settled", "cancelled") == (report.state, report.turns[0].outcome)


# -- the process is killed ----------------------------------------------------------------------------------------


def test_killed_turnctl_leaves_a_lost_turn(state: Path, tmp_path: Path) -> None:
    """After kill -9 its command is ended, the record has the begin and the output, and readers prove it lost."""
    gate, tag = Gate(tmp_path / "gate"), nap()
    process = begun(state, "sh", "-c", f"echo printed; echo > {gate}; exec {tag}")
    gate.wait()
    assert process.stdout is not None
    assert "printed\n" == process.stdout.readline()
    assert until(lambda: "activity.identified" in kinds(state))
    kill(process)
    gate.close()
    (report,) = reports(state)
    (turn,) = report.turns

    assert until(lambda: alive(tag) == [])
    assert ("lost", "lost", None) == (report.state, turn.state, turn.outcome)
    assert f"there is no process {process.pid}" == turn.lost
    assert f"turn {turn.turn_id} ended without a word" in str(report)
    assert b"printed\n" == (state / "turns" / turn.turn_id / "stdout.head").read_bytes()
    with turnctl.open_ledger(str(state / "ledger.sqlite3")) as ledger:
        ledger.reconcile({})  # notes the death, and opens nothing
        again = ledger.report(report.task.inc)
        assert ("lost", "idle", turn.lost) == (again.state, again.task.execution, again.turns[0].lost)
        assert ["command"] == [one.ref for one in again.activities if one.stopped]
        assert ledger.cancel(again.task.inc, by="alice", tenant=TENANT)
        assert "cancelled, settled" == ledger.report(again.task.inc).state
    assert verify(state / "ledger.sqlite3")


# -- beside each other --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.stress)])
def test_many_at_once_are_all_recorded(state: Path, count: int) -> None:
    """Many runs on one state directory, the first of which makes it: none fails, none is missing, the chain holds."""
    running = [begun(state, "true") for _ in range(count)]
    ended = [process.communicate(timeout=60) for process in running]

    assert [0] * count == [process.returncode for process in running]
    assert {("", "")} == set(ended)
    assert ["completed"] * count == [report.state for report in reports(state)]
    assert verify(state / "ledger.sqlite3")


# -- what stands in its way ---------------------------------------------------------------------------------------


def test_no_record_touches_nothing(state: Path) -> None:
    """``--no-record`` makes no file, and does not load what a record would need."""
    look = (
        "import atexit, sys; atexit.register(lambda: print([one for one in sys.modules if one == 'sqlite3' or "
        "one.startswith('turnctl.ledger.') and one != 'turnctl.ledger.effecting']))"
    )
    ended = recorded(state, "--no-record", "true", before=look)

    assert (0, "[]\n", "") == ended
    assert not state.exists()


def test_environment_says_the_same(state: Path) -> None:
    """TURNCTL_RUN_RECORD does what the option does; a wrong word is told with where it comes from."""
    env = {"TURNCTL_STATE_DIR": str(state), "TURNCTL_RUN_RECORD": "no"}
    assert (0, "", "") == call("run", "true", env=env)
    assert not state.exists()
    wrong = call("run", "true", env=env | {"TURNCTL_RUN_RECORD": "maybe"})

    assert 2 == wrong.status
    assert "it comes from the environment: TURNCTL_RUN_RECORD" in wrong.err


def _foreign(state: Path) -> None:
    state.mkdir(mode=0o700)
    connection = sqlite3.connect(state / "ledger.sqlite3")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    os.chmod(state / "ledger.sqlite3", 0o600)


def _no_folder(state: Path) -> None:
    state.write_text("in the way")


def _open_to_all(state: Path) -> None:
    state.mkdir()
    os.chmod(state, 0o777)


def _damaged(state: Path) -> None:
    init(state / "ledger.sqlite3")
    (state / "ledger.sqlite3").write_bytes(b"no database, but long enough to be one" * 100)


TROUBLES = [_foreign, _no_folder, _open_to_all, _damaged]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_unusable_state_directory_is_told_and_run_past(state: Path, trouble: Any) -> None:
    """One line says what is wrong and what to do; the command runs, with its own status and its own streams."""
    trouble(state)
    ended = recorded(state, "sh", "-c", "echo out; env | grep -c TURNCTL_TURN_ID; exit 3")
    (line,) = ended.err.splitlines()

    assert (3, "out\n0\n") == (ended.status, ended.out)
    assert line.startswith("turnctl: this run is not recorded: ")
    assert str(state) in line
    assert "--no-record" in line


@pytest.mark.parametrize("trouble", TROUBLES[:2])
def test_required_record_runs_nothing_without_one(state: Path, trouble: Any) -> None:
    """With ``--record required`` an unusable state directory is an error before anything is started."""
    trouble(state)
    before = sorted((one.name, one.stat().st_size) for one in state.iterdir()) if state.is_dir() else []
    status, out, err = call("run", "--state-dir", str(state), "--record", "required", "echo", "ran")
    after = sorted((one.name, one.stat().st_size) for one in state.iterdir()) if state.is_dir() else []

    assert (125, "") == (status, out)
    assert err.startswith("turnctl: error: nothing was run, since there can be no record of it: ")
    assert str(state) in err
    assert [one for one in before if one[0] == "ledger.sqlite3"] == [one for one in after if one[0] == "ledger.sqlite3"]


def test_required_record_is_kept(state: Path) -> None:
    """With ``--record required`` and a sound directory a run is as any other."""
    assert (0, "ran\n", "") == call("run", "--state-dir", str(state), "--record=required", "echo", "ran")
    assert ["completed"] == [report.state for report in reports(state)]


def test_read_only_home_is_told(tmp_path: Path) -> None:
    """A home that cannot be written to is told in one line, and the command runs."""
    if os.geteuid() == 0:
        home = Path("/proc/1")  # which is nobody's to write, not even root's
    else:
        home = tmp_path / "home"
        home.mkdir(mode=0o500)
    env = {k: v for k, v in clean_environment().items() if not k.startswith(("TURNCTL", "XDG"))}
    done = subprocess.run(
        turnctl_argv("run", "echo", "ran"),
        env=env | {"HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (0, "ran\n") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert "turnctl: this run is not recorded: the folder " in done.stderr


def test_no_sqlite_is_told(state: Path) -> None:
    """A Python without SQLite runs commands as well, and says that it cannot keep a record."""
    ended = recorded(state, "echo", "ran", before="sys.modules['sqlite3'] = None; sys.modules['_sqlite3'] = None")

    assert (0, "ran\n") == (ended.status, ended.out)
    assert "turnctl: this run is not recorded: " in ended.err
    assert "fault" not in ended.err


@pytest.fixture
def small(state: Path) -> Iterator[Path]:
    """A state directory on a file system that a ledger just fits into."""
    state.mkdir(mode=0o700)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", state], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this user may not mount a file system: {done.stderr.decode().strip()}")
    yield state
    subprocess.run(["umount", state], check=True)


def _fill(folder: Path) -> None:
    with open(folder / "filler", "wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass


def test_full_disk_at_the_begin_is_told(small: Path) -> None:
    """With no room for the first transaction the command runs unrecorded, and the line says why."""
    init(small / "ledger.sqlite3")
    _fill(small)
    ended = recorded(small, "echo", "ran")

    assert (0, "ran\n") == (ended.status, ended.out)
    assert "this run is not recorded: " in ended.err
    assert "full" in ended.err


def test_disk_that_fills_up_leaves_an_incomplete_record(small: Path, tmp_path: Path) -> None:
    """The command goes on, its output too, a stop works, and the last line says what is missing in the record."""
    gate, tag = Gate(tmp_path / "gate"), nap()
    process = begun(small, "sh", "-c", f"echo > {gate}; read x < {gate}.go; echo after; {tag}")
    os.mkfifo(f"{gate}.go")
    gate.wait()
    _fill(small)
    Path(f"{gate}.go").write_text("go\n")
    assert process.stdout is not None
    assert "after\n" == process.stdout.readline()
    process.terminate()
    ended = finish(process)
    gate.close()
    os.unlink(small / "filler")
    (report,) = reports(small)

    assert -signal.SIGTERM == ended.status
    assert [] == alive(tag)
    assert "turnctl: the record of this run is incomplete: " in ended.err
    assert "lost" == report.turns[0].state
    assert verify(small / "ledger.sqlite3")


def test_ledger_that_is_taken_away_leaves_an_incomplete_record(state: Path, tmp_path: Path) -> None:
    """A store that breaks in the middle stops neither the command nor its stop; the last line says so."""
    gate = Gate(tmp_path / "gate")
    process = begun(state, "sh", "-c", f"echo > {gate}; sleep 60")
    gate.wait()
    for one in state.iterdir():
        if one.name.startswith("ledger.sqlite3"):
            one.unlink()
    process.terminate()
    ended = finish(process)
    gate.close()

    assert -signal.SIGTERM == ended.status
    assert "turnctl: stop accepted (SIGTERM)" in ended.err
    assert "turnctl: the record of this run is incomplete: " in ended.err


def test_writer_that_stands_still_delays_no_stop(state: Path, tmp_path: Path) -> None:
    """While another process holds the ledger a stop is accepted and carried out; then the record is waited for."""
    gate = Gate(tmp_path / "gate")
    process = begun(state, "sh", "-c", f"echo $$ > {gate}; exec sleep 60")
    pid = int(gate.wait())
    holder = sqlite3.connect(state / "ledger.sqlite3", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    process.terminate()
    assert process.stderr is not None
    first = process.stderr.readline()
    ended_soon = until(lambda: state_of(pid) == "", within=3)
    holder.execute("ROLLBACK")
    holder.close()
    ended = finish(process)
    gate.close()
    report = reports(state)[-1]

    assert ended_soon
    assert ("turnctl: stop accepted (SIGTERM)\n", -signal.SIGTERM) == (first, ended.status)
    assert "incomplete" not in ended.err
    assert "cancelled, settled" == report.state


def test_summary_and_record_agree(state: Path, tmp_path: Path) -> None:
    """The summary of a run and the report that its record keeps tell the same."""
    summary = tmp_path / "run.json"
    recorded(state, "--summary", str(summary), "sh", "-c", "exit 1")
    told = json.loads(summary.read_text())
    kept = reports(state)[0].turns[0].as_dict()["report"]

    for name in ("turn_id", "outcome", "intent", "processes", "activities", "effects", "notes", "state"):
        assert kept[name] == told[name], name
