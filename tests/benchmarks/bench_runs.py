"""``turnctl run`` on record: what its two transactions cost, and its output that goes through it and is kept."""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from apart import adopt_orphans, reap_all
from table import Row

TITLE = "Runs on record"

ROUNDS, BIG_ROUNDS = 15, 5
SIZE = os.environ.get("BENCH_RUN_BYTES", "512M")
LINE = [sys.executable, "-P", "-m", "turnctl", "run", "-q"]


def measured(programs: dict[str, list[str]], rounds: int, env: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Milliseconds of wall time and of the CPU time of all that it starts: medians, taken in turn in changing order."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    order, chance = list(programs), random.Random(1)
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            with subprocess.Popen(programs[name], env=env, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                while os.read(process.stdout.fileno(), 1 << 16):
                    pass
            wall = time.perf_counter() - began
            reap_all()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[name].append((wall * 1e3, cpu * 1e3))
    return {
        name: (statistics.median(one[0] for one in values), statistics.median(one[1] for one in values))
        for name, values in found.items()
    }


def rows() -> list[Row]:
    adopt_orphans()
    folder = tempfile.mkdtemp(prefix="turnctl-bench-")
    env = {k: v for k, v in os.environ.items() if not k.startswith("TURNCTL")}
    env |= {"TURNCTL_STATE_DIR": folder, "PYTHONPATH": str(Path(__file__).parents[2])}
    try:
        return [*small(env), *big(env)]
    finally:
        shutil.rmtree(folder)


def small(env: dict[str, str]) -> list[Row]:
    """The smallest command."""
    without, ours = "turnctl run --no-record true", "turnctl run true, on record"
    found = measured(
        {
            without: [*LINE, "--no-record", "true"],
            ours: [*LINE, "true"],
            "the same, --no-log": [*LINE, "--no-log", "true"],
        },
        ROUNDS,
        env,
    )
    return [
        Row(f"{name}, {what}", found[name][at], "ms", f"{without}, {what}", found[without][at])
        for at, what in enumerate(("wall", "CPU of all"))
        for name in (ours, "the same, --no-log")
    ]


def big(env: dict[str, str]) -> list[Row]:
    """Much output, into a pipe that is read at once."""
    much = ["head", "-c", SIZE, "/dev/zero"]
    without, ours = f"{SIZE} --no-record", f"{SIZE} through turnctl and kept"
    found = measured(
        {
            without: [*LINE, "--no-record", *much],
            ours: [*LINE, *much],
            f"{SIZE} through turnctl alone": [*LINE, "--no-record", "--idle-timeout", "60s", *much],
        },
        BIG_ROUNDS,
        env,
    )
    return [
        Row(f"{name}, {what}", values[at], "ms", f"{without}, {what}", found[without][at])
        for at, what in enumerate(("wall", "CPU of all"))
        for name, values in found.items()
        if name != without
    ]


if __name__ == "__main__":
    from table import head, show

    print(head())
    show(TITLE, rows())
