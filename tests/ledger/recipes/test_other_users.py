"""M8, where the worker belongs to another user: nobody here can end it, so nobody here calls it stopped (R23)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from scene import ROOT, Process
from warding import everybodys_python

from turnctl.ledger.opening import init

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc"),
    pytest.mark.skipif(os.getuid() != 0, reason="needs two other users, which only root can become"),
]

OWNER, OTHER = 65534, 65533
#: where the interpreter that everybody may run finds turnctl, and what that needs
_PATHS = [str(ROOT), str(Path(attrs.__file__).parent.parent)]
_HEAD = f"import functools, json, os, subprocess, sys\nsys.path += {_PATHS!r}\nimport turnctl\n"
WORKER = f"""
import os, signal, sys
os.setgroups([]); os.setresgid({OTHER}, {OTHER}, {OTHER}); os.setresuid({OTHER}, {OTHER}, {OTHER})
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
signal.pause()
"""
#: begins as root, so that it can have a process of another user; becomes the owner of the ledger for good after that
SUPERVISOR = f"""
from turnctl.processes import grouped
grouped.Ladder = functools.partial(grouped.Ladder, drain_s=0.2)
os.setgroups([]); os.setegid({OWNER}); os.seteuid({OWNER})
with turnctl.open_ledger(sys.argv[1]) as ledger:
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, grace=0.5) as turn:
        with turn.effect("mail.send", key="1") as sent:
            sent.complete("250 ok")
        os.seteuid(0); os.setegid(0)
        argv = [sys.executable, "-c", sys.argv[2]]
        process = turn.popen(argv, containment="group", text=True)
        pid = int(next(iter(process.stdout)))
        os.setresgid({OWNER}, {OWNER}, {OWNER}); os.setresuid({OWNER}, {OWNER}, {OWNER})
        print(json.dumps([task.inc, pid]), flush=True)
        process.wait()
    why = [one.reason for process in turn.report.processes for one in process.survivors]
    print(json.dumps([turn.outcome, why]), flush=True)
    sys.stdin.readline()
"""
#: another process of the ledger's owner
ASKER = """
from turnctl.ledger.verify import verify
with turnctl.open_ledger(sys.argv[1]) as ledger:
    if sys.argv[3] == "cancel":
        assert ledger.cancel(sys.argv[2], by="alice", tenant="acme")
    ledger.reconcile({})
    report = ledger.report(sys.argv[2])
    found = [report.task.state, report.task.execution, list(report.missing), str(report)]
print(json.dumps([*found, verify(sys.argv[1]).findings]))
"""


@pytest.fixture
def url(quick: Path) -> str:
    """A ledger of an ordinary user."""
    folder = quick / "theirs"
    folder.mkdir(mode=0o700)
    init(folder / "ledger.db")
    for path in (*folder.iterdir(), folder, quick):
        os.chown(path, OWNER, OWNER)
    return str(folder / "ledger.db")


def as_owner(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    argv = [everybodys_python(), "-c", _HEAD + code, *args]
    return subprocess.run(
        argv, user=OWNER, group=OWNER, extra_groups=[], capture_output=True, text=True, check=False, cwd="/"
    )


def ask(url: str, inc: str, what: str) -> Any:
    """What the ledger says, to its owner; and that it is sound."""
    done = as_owner(ASKER, url, inc, what)
    assert 0 == done.returncode, done.stderr
    *found, findings = json.loads(done.stdout)
    assert [] == findings
    return found


def test_worker_of_another_user_is_never_called_stopped(url: str) -> None:
    """It cannot be signalled: the task drains, ``unproven``, also when its supervisor is gone, until it has ended."""
    if as_owner("from turnctl.ledger import face, reconciling, verify").returncode:
        pytest.skip("turnctl, or what it needs, is where an ordinary user may not read it")
    supervisor = Process([everybodys_python(), "-c", _HEAD + SUPERVISOR, url, WORKER])
    pid = 0
    try:
        inc, pid = json.loads(supervisor.line())
        ask(url, inc, "cancel")
        outcome, why = json.loads(supervisor.line())
        there = ask(url, inc, "look")
        supervisor.end()
        still_there = ask(url, inc, "look")
        os.kill(pid, signal.SIGKILL)
        pid = 0
        gone = ask(url, inc, "look")
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
        supervisor.kill()

    assert "cancelled" == outcome
    assert [True] == [f"user {OTHER}" in one for one in why], why
    for state, execution, missing, line in (there, still_there):
        assert ("draining", "unproven") == (state, execution)
        assert any(one.endswith("is not known to have stopped") for one in missing), missing
        assert line.startswith("draining; ")
        assert "settled" not in line
    assert ["cancelled_settled", "stop_observed", []] == gone[:3]
