"""A host that is killed, and what the ledger says of the commands that it had started (R23, R50)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap
from standins import until

import turnctl
from turnctl.ledger.rows import values_of
from turnctl.ledger.verify import verify

HOST = """
import sys
import turnctl

with turnctl.open_ledger(sys.argv[1]) as ledger:
    with turnctl.turn(task=ledger.incarnation(sys.argv[2]), grace=30) as turn:
        with turn.effect("mail.send", key="1"):
            process = turn.popen(["sh", "-c", sys.argv[3]])
            next(iter(process.stdout))
            turn._ruling.owning.flush()
            print(process.pid, flush=True)
            turn.sleep(60)
"""


@pytest.fixture
def url(quick: Path) -> str:
    return str(quick / "shared.db")


@pytest.fixture
def hosts() -> Iterator[list[subprocess.Popen[str]]]:
    found: list[subprocess.Popen[str]] = []
    yield found
    for host in found:
        host.kill()
        host.wait()
        assert host.stdout is not None
        host.stdout.close()


def start(hosts: list[subprocess.Popen[str]], url: str, task: turnctl.LedgerTask, code: str, **env: str) -> str:
    """Start a host whose turn runs ``code`` in a shell; what it says when that has begun, empty if it is dead."""
    args = [sys.executable, "-c", textwrap.dedent(HOST), url, task.inc, code]
    hosts.append(subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=os.environ | env))
    assert hosts[-1].stdout is not None
    return hosts[-1].stdout.readline().strip()


def kill(host: subprocess.Popen[str]) -> None:
    os.kill(host.pid, 9)
    os.waitid(os.P_PID, host.pid, os.WEXITED | os.WNOWAIT)


def settles(ledger: turnctl.Ledger, task: turnctl.LedgerTask, state: str) -> bool:
    """Whether looking again comes to that state: a warden ends what its host has left within about a second."""
    return until(lambda: (ledger.reconcile({}, tenant="acme"), task.state)[1] == state)


def test_rows_of_a_killed_host_are_proven(hosts: list[subprocess.Popen[str]], url: str) -> None:
    """The ledger is the same after the kill as before; what comes later comes as new lines, by proof (R50)."""
    tag = nap()
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        pid = start(hosts, url, task, f"echo up; : {tag}; while :; do sleep 0.1; done")
        before = ledger.store.read(lambda books: books.events(task.inc))
        rows = [values_of(one) for one in ledger.report(task).activities]
        kill(hosts[0])
        after = ledger.store.read(lambda books: books.events(task.inc))
        same = [values_of(one) for one in ledger.report(task).activities]
        ledger.cancel(task, by="alice")
        settled = settles(ledger, task, "stopped_unresolved")
        report = ledger.report(task)

        assert (before, rows, f"(pid {pid})") == (after, same, report.activities[0].title[-len(pid) - 6 :])
        assert (True, "stop_observed", []) == (settled, report.task.execution, alive(tag))
        assert "found to be gone" in (report.activities[0].detail or "")
        assert before == ledger.store.read(lambda books: books.events(task.inc))[: len(before)]
        assert ["unknown"] == [one.disposition for one in report.effects]
    assert verify(url)


def test_host_killed_before_its_command_could_start(hosts: list[subprocess.Popen[str]], url: str) -> None:
    """There is a row without a number: it is named, as unproven, and whoever has looked may close it."""
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        said = start(hosts, url, task, "echo up", TURNCTL_LEDGER_FAILPOINT="activity.after_commit=kill")
        hosts[0].wait()
        ledger.cancel(task, by="alice")
        with turnctl.turn(task=task) as turn:
            turn.check()
        report = ledger.report(task)
        (row,) = report.activities
        ledger.close_activity(task, row.ref, by="bob", reason="nothing of it in ps")

        assert ("", "cancelled", "unproven") == (said, turn.outcome, report.task.execution)
        assert "process sh -c echo up (no pid on record) is not known to have stopped" in report.missing
        assert ("stopped_unresolved", "stop_observed") == (task.state, ledger.report(task).task.execution)
        assert "closed by bob" in (ledger.report(task).activities[0].detail or "")


def test_host_killed_while_it_drains(hosts: list[subprocess.Popen[str]], url: str) -> None:
    """Whoever drains next finishes: the next worker of a cancelled task begins nothing, and what is gone is proven."""
    tag = nap()
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        start(hosts, url, task, f"trap '' TERM; echo up; : {tag}; while :; do sleep 0.1; done")
        ledger.cancel(task, by="alice")
        assert until(lambda: ledger.report(task).activities[0].signal == "SIGTERM")
        draining = (task.state, ledger.report(task).task.execution)
        kill(hosts[0])
        assert until(lambda: not alive(tag))
        with turnctl.turn(task=task) as turn:
            turn.check()
        report = ledger.report(task)

        assert ("draining", "active") == draining
        assert ("cancelled", "stopped_unresolved", "stop_observed") == (
            *(turn.outcome, task.state, report.task.execution),
        )
        assert ("SIGTERM", True, 2) == (
            report.activities[0].signal,
            report.activities[0].stopped,
            report.task.lease_gen,
        )


def test_slot_is_free_when_the_worker_is_proven_dead(hosts: list[subprocess.Popen[str]], url: str) -> None:
    """A task that runs is taken up at once by the next worker, although a command of the dead one may still live."""
    tag = nap()
    with turnctl.open_ledger(url) as ledger:
        task = ledger.submit("acme", "job")
        start(hosts, url, task, f"echo up; : {tag}; while :; do sleep 0.1; done")
        kill(hosts[0])
        with turnctl.turn(task=task) as turn, turn.activity("tool", "it"):
            generations = {one.gen for one in ledger.report(task).activities}
        assert until(lambda: not alive(tag))
        ledger.reconcile({}, tenant="acme")

        assert ({1}, "completed") == (generations, task.state)
        assert {True} == {one.stopped for one in ledger.report(task).activities}
        assert () == ledger.report(task).missing
