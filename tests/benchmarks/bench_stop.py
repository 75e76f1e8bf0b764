"""A stop from another process: from the request to the turn's own program knowing of it, over fifty turns.

The program is one process with one turn after the other; that its token has tripped it tells by the clock that all
processes of a machine share. Three ways of asking, each of it the whole: the call of a program that has the ledger
open; the last steps of ``turnctl stop``, from where it is about to ask; and ``turnctl stop`` from its start, which is
mostly Python and what it loads.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from table import Row

TITLE = "A stop from another process"

TIMES = int(os.environ.get("BENCH_STOPS", "50"))
ROOT = str(Path(__file__).parents[2])
TARGET_MS = 50.0

_PROGRAM = """
import sys, time
import turnctl
with turnctl.open_ledger() as ledger:
    for n in range(int(sys.argv[1])):
        task = ledger.submit("bench", str(n))
        with turnctl.turn(task=task) as turn:
            print(turn.turn_id, flush=True)
            turn.wait(60)
        print(ROUND, flush=True)
"""
#: a turn that waits in Python, and one that runs a command
WAITS = _PROGRAM.replace("turn.wait(60)", "turn.token.event.wait(60); at = time.monotonic()").replace("ROUND", "at")
RUNS = _PROGRAM.replace(
    "turn.wait(60)", "turn.on_cancel(lambda: found.append(time.monotonic())); found = []; turn.run(['sleep', '60'])"
).replace("ROUND", "found[0]")


def measured(program: str, ask: Callable[[str], float]) -> list[float]:
    """Milliseconds from the moment that ``ask`` gives until the program has seen the stop."""
    found = []
    env = {**os.environ, "PYTHONPATH": ROOT}
    argv = [sys.executable, "-c", program, str(TIMES)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for _ in range(TIMES):
            turn_id = process.stdout.readline().strip()
            time.sleep(0.02)  # it is not about to wait, it waits
            asked_at = ask(turn_id)
            found.append((float(process.stdout.readline()) - asked_at) * 1000)
    return found


def by_call(turn_id: str) -> float:
    """By a program that has the ledger open."""
    from turnctl.ledger.opening import open_sqlite
    from turnctl.ledger.stopping import stop_turn
    from turnctl.ledger.whereabouts import default_path

    if not _open:
        _open.append(open_sqlite(default_path(None)))
    asked_at = time.monotonic()
    stop_turn(_open[0], turn_id, by="bench", reason=None)
    return asked_at


_open: list = []  # type: ignore[type-arg]


def by_command(turn_id: str) -> float:
    """By the command, from its start."""
    asked_at = time.monotonic()
    argv = [sys.executable, "-m", "turnctl", "stop", "-q", "--no-wait", turn_id]
    subprocess.run(argv, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    return asked_at


_FROM_WITHIN = """
import sys, time
from turnctl.cli import stopped
asked = stopped.Stopping.ask
def ask(*args, **more):
    print(time.monotonic(), flush=True)
    return asked(*args, **more)
stopped.Stopping.ask = ask
from turnctl.cli.main import main
main()
"""


def within_command(turn_id: str) -> float:
    """By the command, from where it has found the turn and is about to ask."""
    argv = [sys.executable, "-c", _FROM_WITHIN, "stop", "-q", "--no-wait", turn_id]
    ended = subprocess.run(argv, check=True, env={**os.environ, "PYTHONPATH": ROOT}, stdout=subprocess.PIPE)
    return float(ended.stdout)


def rows() -> list[Row]:
    sys.path.insert(0, ROOT)
    folder = tempfile.mkdtemp(prefix="turnctl-bench-")
    before = os.environ.get("TURNCTL_STATE_DIR")
    os.environ["TURNCTL_STATE_DIR"] = folder
    found = []
    try:
        for name, program, ask, target in (
            ("a call, to a turn that waits", WAITS, by_call, TARGET_MS),
            ("a call, to a turn that runs a command", RUNS, by_call, TARGET_MS),
            ("turnctl stop, from its request", WAITS, within_command, TARGET_MS),
            ("turnctl stop, from its start", WAITS, by_command, None),
        ):
            values = sorted(measured(program, ask))
            found.append(Row(f"{name}, median of {TIMES}", statistics.median(values), "ms", target=target))
            # no verdict: with others at work on the machine it is they who are measured
            found.append(Row(f"{name}, the slowest but one", values[-2], "ms"))
        return found
    finally:
        for store in _open:
            store.close()
        _open.clear()
        shutil.rmtree(folder)
        if before is None:
            del os.environ["TURNCTL_STATE_DIR"]
        else:
            os.environ["TURNCTL_STATE_DIR"] = before


if __name__ == "__main__":
    from table import head, show

    print(head())
    show(TITLE, rows())
