"""What has to be measured in a process of its own; prints one JSON value: ``apart.py NAME ARG...``.

``latency MB ROUNDS``, ``cold ROUNDS``, ``cost ROUNDS ARGV...``, ``tree WAY COUNT``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: a process with so many others below it, each a session of its own, two of three deaf to TERM; says when all are there
TREE = r"""
import os, signal, sys, time
for i in range(int(sys.argv[1]) - 1):
    here, there = os.pipe()
    if os.fork() == 0:
        os.setsid(); os.close(here)
        if i % 3: signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(there); time.sleep(600); os._exit(0)
    os.close(there); os.read(here, 1); os.close(here)
os.write(1, b"ready\n"); time.sleep(600)
"""


def elapsed_ms(fn: Callable[[], object]) -> float:
    began = time.perf_counter()
    fn()
    return (time.perf_counter() - began) * 1e3


def adopt_orphans() -> None:
    """Have what is orphaned below counted and reaped here."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def reap_all() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def latency(megabytes: str, rounds: str) -> dict[str, float]:
    """A command in a host of that size."""
    import turnctl

    ballast = [os.urandom(1 << 20) for _ in range(int(megabytes))]
    found: dict[str, list[float]] = {"turn.run": [], "subprocess.run": []}
    with turnctl.turn() as turn:
        turn.run(["true"])
        for _ in range(int(rounds)):
            found["turn.run"].append(elapsed_ms(lambda: turn.run(["true"])))
            found["subprocess.run"].append(elapsed_ms(lambda: subprocess.run(["true"], capture_output=True)))
    del ballast
    return {name: statistics.median(values) for name, values in found.items()}


def cold(rounds: str) -> dict[str, float]:
    """The start of a launcher, and of the interpreter with what it needs."""
    from turnctl.processes import launch
    from turnctl.processes.moment import take
    from turnctl.processes.upkeep import fitting

    bare = [sys.executable, "-I", "-S", "-c", "import ctypes, _socket, select"]
    found: dict[str, list[float]] = {"launcher": [], "python": []}
    for _ in range(int(rounds)):
        now = take()
        found["launcher"].append(elapsed_ms(lambda now=now: fitting("session", now)))  # type: ignore[misc]
        launch.shutdown()
        found["python"].append(elapsed_ms(lambda: subprocess.run(bare)))
    return {name: statistics.median(values) for name, values in found.items()}


def cost(rounds: str, *argv: str) -> dict[str, float]:
    """Wall time of a program, and the CPU time of all that it starts."""
    import resource

    adopt_orphans()
    walls, cpus = [], []
    for _ in range(int(rounds)):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        walls.append(elapsed_ms(lambda: subprocess.run(argv, capture_output=True)))
        reap_all()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3)
    return {"wall": statistics.median(walls), "cpu": statistics.median(cpus)}


def tree(way: str, count: str) -> float | None:
    """From the KILL until every process of the tree has ended."""
    argv = [sys.executable, "-I", "-S", "-c", TREE, count]
    return {"turnctl": by_turnctl, "psutil": by_psutil, "cgroup": by_cgroup}[way](argv)


def by_turnctl(argv: list[str]) -> float:
    import turnctl

    with turnctl.turn() as turn:
        process = turn.popen(argv)
        next(iter(process))
        taken = elapsed_ms(lambda: process.stop(grace=0))
        assert process.outcome().empty_proven
    return taken


def by_psutil(argv: list[str]) -> float:
    import psutil

    adopt_orphans()
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        def kill() -> None:
            leader = psutil.Process(process.pid)
            for one in [*leader.children(recursive=True), leader]:
                one.kill()
            reap_all()

        taken = elapsed_ms(kill)
        process.returncode = 0  # reaped with the others
    return taken


def by_cgroup(argv: list[str]) -> float | None:
    place = writable_cgroup()
    if place is None:
        return None
    adopt_orphans()
    enter = f'echo 0 > {place}/cgroup.procs; exec "$@"'
    with subprocess.Popen(["sh", "-c", enter, "sh", *argv], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        def kill() -> None:
            (place / "cgroup.kill").write_text("1")
            reap_all()

        taken = elapsed_ms(kill)
        process.returncode = 0
    place.rmdir()
    return taken


def writable_cgroup() -> Path | None:
    """A new control group of the second version under our own, if this process may make one."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    ours = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    for mount in (fields[1] for fields in mounts if fields[2] == "cgroup2"):
        place = Path(mount + (ours[0] if ours else "/")) / f"turnctl-bench-{os.getpid()}"
        try:
            place.mkdir()
        except OSError:
            continue
        if (place / "cgroup.kill").exists():
            return place
        place.rmdir()
    return None


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    print(json.dumps({"latency": latency, "cold": cold, "cost": cost, "tree": tree}[name](*rest)))
