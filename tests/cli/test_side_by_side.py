"""Many commands at once, and two versions of turnctl, on one state directory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from forked import waited
from launch import ROOT, Ended, clean_environment
from schemas import fits

import turnctl

pytestmark = pytest.mark.slow
BOUND_S = 120.0


def turnctl_from(root: str, *args: str) -> list[str]:
    code = f"import sys; sys.path.insert(0, {root!r})\nfrom turnctl.cli.main import main; main()"
    return [sys.executable, "-I", "-c", code, *args]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(folder))
    monkeypatch.setenv("TURNCTL_RUN_RECORD", "required")
    return folder


def of(root: str, *args: str) -> Ended:
    """What that turnctl answers; this one by a fork, which costs little."""
    return waited(*args) if root == ROOT else started(root, *args)


def started(root: str, *args: str) -> Ended:
    """The same, by a process that is started."""
    done = subprocess.run(
        turnctl_from(root, *args),
        capture_output=True,
        text=True,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        timeout=BOUND_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


class Runs:
    """Commands that run until they are stopped, each under a turnctl of its own."""

    def __init__(self, root: str, count: int) -> None:
        self._read, write = os.pipe()
        self._processes = [
            subprocess.Popen(
                turnctl_from(root, "run", "-q", "--", "sh", "-c", "echo .; exec sleep 600"),
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=subprocess.PIPE,
                env=clean_environment(),
                start_new_session=True,
            )
            for _ in range(count)
        ]
        os.close(write)
        self.count = count

    def begun(self) -> None:
        """Wait until each has told that its command runs."""
        told = b""
        while told.count(b".") < self.count:
            data = os.read(self._read, 4096)
            assert data, f"only {told.count(b'.')} began"
            told += data

    def ended(self) -> list[tuple[int, str]]:
        """How each ended, and what it said."""
        found = []
        for one in self._processes:
            _, err = one.communicate(timeout=BOUND_S)
            found.append((one.returncode, err.decode()))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read)
        for one in self._processes:
            if one.poll() is None:
                one.send_signal(signal.SIGTERM)
            one.communicate(timeout=BOUND_S)


def again_and_again(stop: threading.Event, found: list[Ended], *args: str) -> Callable[[], None]:
    def loop() -> None:
        while not stop.is_set():
            found.append(started(ROOT, *args))

    return loop


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [8, pytest.param(50, marks=pytest.mark.stress)])
def test_many_at_once_lose_nothing(state: Path, count: int) -> None:
    """Runs beside who looks, stops and prunes: nobody is told of a locked database, each record is there, ``stop
    --all`` stops every one, and the ledger is sound afterwards."""
    looks: list[Ended] = []
    stop = threading.Event()
    with Runs(ROOT, count) as runs:
        loops = [
            threading.Thread(target=again_and_again(stop, looks, *args))
            for args in (["ps", "-a", "--jsonl"], ["status", "@"], ["ledger", "prune", "--older-than", "1h"])
        ]
        runs.begun()
        for one in loops:
            one.start()
        try:
            stopped = of(ROOT, "stop", "--all", "-y", "--json", "--force", "--wait", "100s")
            ended = runs.ended()
        finally:
            stop.set()
            for one in loops:
                one.join()
    stops = fits(json.loads(stopped.out))["stops"]
    listed = [json.loads(line) for line in of(ROOT, "ps", "-a", "--jsonl").out.splitlines()]
    verified = of(ROOT, "ledger", "verify")

    assert (0, count) == (stopped.status, len(stops)), stopped
    assert all(one["accepted"] for one in stops)
    assert [(122, "")] * count == ended
    assert {"cancelled, settled"} == {one["state"] for one in listed}
    assert count == len({one["turn_id"] for one in listed}) == len(listed)
    assert 0 == verified.status, verified
    assert {0, 3} >= {one.status for one in looks}
    assert [] == [one.err for one in looks if "locked" in one.err or "Traceback" in one.err or "error" in one.err]


# -- two versions -------------------------------------------------------------------------------------------------


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[Path]:
    """Where a copy of this turnctl is, that calls itself a later version."""
    root = tmp_path / "newer"
    shutil.copytree(Path(turnctl.__file__).parent, root / "turnctl")  # with what is compiled
    (root / "turnctl" / "_version.py").write_text('__version__ = "99.1.0"\n')
    yield root
    shutil.rmtree(root)


def of_schema(root: Path, version: int, *, demanded: bool) -> None:
    """Have that copy write a later schema, and demand it of others, or not."""
    path = root / "turnctl" / "ledger" / "versions.py"
    text = path.read_text()
    changed = text.replace("\nVERSION = 1", f"\nVERSION = {version}")
    if demanded:
        changed = changed.replace("MIN_READER = 1", f"MIN_READER = {version}")
        changed = changed.replace("MIN_WRITER = 1", f"MIN_WRITER = {version}")

    assert text != changed, text
    path.write_text(changed)
    step = root / "turnctl" / "ledger" / "migrations" / f"{version:04d}_more.sql"
    step.write_text("ALTER TABLE turn ADD COLUMN mood TEXT;\n")


@pytest.mark.parametrize("is_later", [False, True], ids=["of one schema", "of a schema that the older may use"])
def test_versions_stop_each_other(state: Path, newer: Path, is_later: bool) -> None:
    """Two versions see and stop each other's turns, where the older one may use what the newer one writes."""
    assert "turnctl 99.1.0\n" == of(str(newer), "--version").out
    if is_later:
        of_schema(newer, 2, demanded=False)
    with ExitStack() as stack:
        theirs = stack.enter_context(Runs(str(newer), 1))
        theirs.begun()
        ours = stack.enter_context(Runs(ROOT, 1))
        ours.begun()
        listed = of(ROOT, "ps", "-q").out.split()

        assert 2 == len(listed)
        assert listed == of(str(newer), "ps", "-q").out.split()
        assert 0 == of(str(newer), "stop", "--force", "@").status
        assert 0 == of(ROOT, "stop", "--force", "@2").status
        assert [(122, "")] == ours.ended()
        assert [(122, "")] == theirs.ended()
    assert [0, 0] == [of(root, "ledger", "verify").status for root in (ROOT, str(newer))]


def test_later_schema_is_refused(state: Path, newer: Path) -> None:
    """A ledger of a schema that this version does not know: it neither reads nor stops, and says which version to
    use; without a record it still runs commands, and the newer one goes on as before."""
    of_schema(newer, 2, demanded=True)
    with Runs(str(newer), 1) as theirs:
        theirs.begun()
        (turn,) = of(str(newer), "ps", "-q").out.split()
        path = state / "ledger.sqlite3"
        read = f"{path} was written by turnctl 99.1.0, which this turnctl cannot read"
        refused = [of(ROOT, *call, "--json") for call in (["ps"], ["status", turn], ["stop", turn])]
        ran = started(ROOT, "run", "--record", "yes", "echo", "ran")
        assert [(5, "store_toonew", read)] * 3 == [
            (one.status, *(json.loads(one.out)[key] for key in ("code", "message"))) for one in refused
        ]
        assert (0, "ran\n") == ran[:2]
        assert f"turnctl {turnctl.__version__} knows schemas up to 1; use that version or a later one" in ran.err
        assert 0 == of(str(newer), "stop", "--force", turn).status
        assert [(122, "")] == theirs.ended()


def test_earlier_schema_waits_for_who_uses_it(state: Path, newer: Path) -> None:
    """A newer version brings the ledger to its schema when nobody else has it open, and changes nothing before: the
    older one's turn is seen meanwhile, and can be stopped by the older one."""
    of_schema(newer, 2, demanded=True)
    with Runs(ROOT, 1) as ours:
        ours.begun()
        (turn,) = of(ROOT, "ps", "-q").out.split()
        refused = of(str(newer), "stop", turn)
        said = f"{state / 'ledger.sqlite3'} has to be brought to a newer schema, and other programs have it open"

        assert (0, f"{turn}\n") == of(str(newer), "ps", "-q")[:2]
        assert (5, "") == refused[:2]
        assert refused.err == f"turnctl: error: {said}\nturnctl: hint: end them first\n"
        assert 0 == of(ROOT, "stop", "--force", turn).status
        assert [(122, "")] == ours.ended()
    assert 0 == of(str(newer), "ledger", "verify").status
    assert 0 == of(str(newer), "run", "true").status
    assert 5 == of(ROOT, "status", turn).status
