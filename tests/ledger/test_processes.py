"""Two processes and one ledger: one works, the other one stops it, or takes its place (P15, P16)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnctl

WORKER = """
import sys
import turnctl

with turnctl.open_ledger(sys.argv[1]) as ledger:
    task = ledger.incarnation(sys.argv[2])
    with turnctl.turn(task=task) as turn:
        with turn.effect("mail.send", key="1") as sent:
            print("sending", sent.effect_id, flush=True)
            {body}
            sent.complete("250 ok")
    print(turn.outcome, turn.cause, turn.report.stop and turn.report.stop.reason, flush=True)
"""


@pytest.fixture
def url(quick: Path) -> str:
    return str(quick / "shared.db")


@pytest.fixture
def worker(url: str) -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(worker: list[subprocess.Popen[str]], url: str, task: turnctl.LedgerTask, body: str) -> str:
    """Start a process that works on the task, and wait until it has claimed its effect; the effect's id."""
    code = textwrap.dedent(WORKER.format(body=body))
    process = subprocess.Popen([sys.executable, "-c", code, url, task.inc], stdout=subprocess.PIPE, text=True)
    worker.append(process)
    assert process.stdout is not None
    return process.stdout.readline().split()[1]


def test_worker_hears_another_process(worker: list[subprocess.Popen[str]], url: str) -> None:
    """A turn that waits is stopped by a cancellation from elsewhere, with its reason; what it sent is unknown."""
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        start(worker, url, task, "turn.sleep(60)")
        ledger.cancel(task, by="alice", reason="enough")
        assert worker[0].stdout is not None
        told = worker[0].stdout.readline().split()

        assert ["cancelled", "user", "enough"] == told
        assert ("stopped_unresolved", ["unknown"]) == (
            *(task.state, [one.disposition for one in ledger.report(task).effects]),
        )


def test_killed_worker_leaves_the_cancel_to_the_next(worker: list[subprocess.Popen[str]], url: str) -> None:
    """A worker that is killed while it sends has left an unknown; who takes up its cancelled task does no work."""
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        effect_id = start(worker, url, task, "import time; time.sleep(60)")
        os.kill(worker[0].pid, 9)
        os.waitid(os.P_PID, worker[0].pid, os.WEXITED | os.WNOWAIT)
        ledger.cancel(task, by="alice")
        with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="2"):
            pytest.fail("it ran")
        unresolved = task.state
        ledger.reconcile(
            {"mail.send": lambda effect: turnctl.ledger.Answer("completed", effect.effect_id)}, tenant="acme"
        )

        assert ("stopped_unresolved", "cancelled_settled") == (unresolved, task.state)
        assert [effect_id] == [one.receipt for one in ledger.report(task).effects]


def test_killed_worker_is_replaced(worker: list[subprocess.Popen[str]], url: str) -> None:
    """Without a cancellation the next worker goes on, and does not try the unknown one again."""
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        start(worker, url, task, "import time; time.sleep(60)")
        with pytest.raises(turnctl.LedgerRefused) as held, turnctl.turn(task=task):
            pass
        os.kill(worker[0].pid, 9)
        os.waitid(os.P_PID, worker[0].pid, os.WEXITED | os.WNOWAIT)
        with turnctl.turn(task=task) as turn:
            with pytest.raises(turnctl.LedgerRefused) as again, turn.effect("mail.send", key="1"):
                pytest.fail("it ran")
            with turn.effect("mail.send", key="2") as sent:
                sent.complete("250 ok")

        assert ("held", "unresolved") == (held.value.code, again.value.code)
        assert ("completed", ["unknown", "completed"]) == (
            *(task.state, [one.disposition for one in ledger.report(task).effects]),
        )
