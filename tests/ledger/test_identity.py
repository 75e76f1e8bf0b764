"""A worker is called gone on proof alone: boot, namespace, number and start time."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs
import pytest

from turnctl.ledger.identity import proof_of_death, this_process


def test_this_process_lives() -> None:
    """Nobody proves that who asks is dead."""

    assert None is proof_of_death(this_process())
    assert os.getpid() == this_process().pid


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"boot_id": "another"}, "started again"),
        ({"started": 1}, "another one now"),
        ({"pid": 2**22 + 1}, "no process"),
        ({"pid_ns": "pid:[1]", "pid": 2**22 + 1}, None),
        ({"host": "elsewhere", "boot_id": "another"}, None),
    ],
    ids=["boot", "number given out again", "no such number", "another namespace", "another machine"],
)
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="start times are read from /proc, which is not here")
def test_proof_is_exact(change: dict[str, object], words: str | None) -> None:
    """Where the number means something else, or nothing can be said, there is no proof."""
    found = proof_of_death(attrs.evolve(this_process(), **change))

    assert (words is None) == (found is None)
    assert words is None or words in str(found)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="start times are read from /proc, which is not here")
def test_process_that_ended_is_gone_before_it_is_reaped() -> None:
    """What is left of an ended process acts no more."""
    code = "import sys; from turnctl.ledger.identity import this_process as p; h = p(); print(h.pid, h.started)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid, started = map(int, child.stdout.read().split())
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    holder = attrs.evolve(this_process(), pid=pid, started=started)
    proof = proof_of_death(holder)
    child.stdout.close()
    child.wait()

    assert f"there is no process {pid}" == proof
