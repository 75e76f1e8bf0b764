"""Commands: what supervision costs over a bare start, and the command line over ``timeout``."""

from __future__ import annotations

import json
import select
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from table import Row, median_of

import turnctl
from turnctl.processes import launch
from turnctl.processes.command import Unowned, popen, run

try:
    import processkit
except ImportError:
    processkit = None

TITLE = "Commands"

ROUNDS = 200
COLD_ROUNDS = 25
CLI_ROUNDS = 15
HOST_MB = 1024
TREES = {1: 9, 10: 9, 100: 5, 1000: 3}
APART = str(Path(__file__).with_name("apart.py"))


def ms(fn: Callable[[], object]) -> Callable[[], float]:
    def measured() -> float:
        began = time.perf_counter()
        fn()
        return (time.perf_counter() - began) * 1e3

    return measured


def apart(*args: object) -> Any:
    """What ``apart.py`` measures, in a process of its own."""
    done = subprocess.run([sys.executable, APART, *map(str, args)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def starts() -> list[Row]:
    """The smallest command there is, in a turn, without one, and by the standard library."""
    theirs, there = "subprocess.run true, captured", "subprocess.Popen true, wait"
    alike = "subprocess.run true, in a session of its own"  # what a busy machine takes its time over
    with turnctl.turn() as turn:
        work = {
            theirs: ms(lambda: subprocess.run(["true"], capture_output=True)),
            alike: ms(lambda: subprocess.run(["true"], capture_output=True, start_new_session=True)),
            "turn.run true": ms(lambda: turn.run(["true"])),
            "run true, no turn": ms(lambda: run(Unowned(), ["true"])),
            there: ms(lambda: subprocess.Popen(["true"]).wait()),
            "launch true, to the proof": ms(launched),
            "turn.popen true, wait": ms(lambda: turn.popen(["true"], capture=False).wait()),
        }
        if processkit is not None:
            work["processkit true, captured"] = ms(lambda: processkit.Command("true").output_bytes())
        found = median_of(work, ROUNDS)
    rival = "processkit true, captured"
    return [
        *([Row(rival, found[rival], "ms", theirs, found[theirs])] if rival in found else []),
        Row("launch true, to the proof", found["launch true, to the proof"], "ms", there, found[there], 1.6),
        Row(theirs, found[theirs], "ms"),
        Row(alike, found[alike], "ms", theirs, found[theirs]),
        Row("turn.run true", found["turn.run true"], "ms", theirs, found[theirs], 1.6),
        Row("turn.run true", found["turn.run true"], "ms", alike, found[alike], 1.6),
        Row("run true, no turn", found["run true, no turn"], "ms", theirs, found[theirs], 1.6),
        Row("turn.popen true, wait", found["turn.popen true, wait"], "ms", there, found[there]),
    ]


def launched() -> None:
    """The layer below ``run``: one command under a warm warden until nothing of it is left."""
    warded = launch.start(launch.Request(["true"]))
    ready = select.poll()
    ready.register(warded.fileno(), select.POLLIN)
    while not warded.is_over:
        ready.poll()
        warded.read()
    warded.close()


def hosts() -> list[Row]:
    """The same command in a small host and in one of a gigabyte, and the first command of a host."""
    small, large = (apart("latency", size, ROUNDS) for size in (0, HOST_MB))
    first = apart("cold", COLD_ROUNDS)
    bare = "python -I -S, _ctypes"
    return [
        Row("turn.run true, 1 GB host", large["turn.run"], "ms", "in a small host", small["turn.run"], 1.1),
        Row("turn.run true, 1 GB host", large["turn.run"], "ms", "subprocess.run there", large["subprocess.run"]),
        Row("cold start of the launcher", first["launcher"], "ms", bare, first["python"], 1.3),
    ]


def trees() -> list[Row]:
    """From KILL to the end of every process, each a session of its own."""
    rows = []
    for count, rounds in TREES.items():
        found: dict[str, list[float]] = {}
        for _ in range(rounds):
            for way in ("turnctl", "psutil", "cgroup"):
                taken = apart("tree", way, count)
                if taken is not None:
                    found.setdefault(way, []).append(taken)
        mid = {way: statistics.median(values) for way, values in found.items()}
        name = f"kill a tree of {count:,}, to the proof"
        rows += [Row(name, mid["turnctl"], "ms", f"{way} of {count:,}", mid[way]) for way in mid if way != "turnctl"]
        if count == max(TREES):
            rows.append(Row(name, mid["turnctl"], "ms", target=300))
    return rows


def output() -> list[Row]:
    """Bytes through a pipe into memory, and line by line."""
    lines = [
        "sh",
        "-c",
        "yes 'a line of some eighty characters, as programs write them to say what they do' | head -n 500000",
    ]
    read = "Popen.stdout 500,000 lines"
    rows = []
    for size, rounds in (("256M", 5), ("1G", 3)):
        flood = ["head", "-c", size, "/dev/zero"]
        ours, theirs = f"run {size}iB, captured", f"subprocess.run {size}iB, captured"
        found = median_of(
            {
                theirs: ms(lambda flood=flood: subprocess.run(flood, capture_output=True)),  # type: ignore[misc]
                ours: ms(lambda flood=flood: run(Unowned(), flood)),  # type: ignore[misc]
            },
            rounds,
        )
        rows.append(Row(ours, found[ours], "ms", theirs, found[theirs], 1.3))
    found = median_of(
        {
            read: ms(lambda: _read_lines(lines)),
            "popen 500,000 lines": ms(lambda: sum(1 for _ in popen(Unowned(), lines))),
        },
        5,
    )
    return [
        *rows,
        Row("popen 500,000 lines", found["popen 500,000 lines"], "ms", read, found[read]),
    ]


def _read_lines(command: list[str]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return sum(1 for _ in process.stdout)


def stops() -> list[Row]:
    """From the end of a turn to the proof that its command is gone, against a bare kill and wait."""
    bare = "Popen, killpg, wait"

    def theirs() -> None:
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        process.terminate()
        process.wait()

    def ours() -> None:
        with turnctl.turn() as turn:
            turn.popen(["sleep", "60"], capture=False)

    found = median_of({bare: ms(theirs), "popen, end of turn": ms(ours)}, 50)
    return [Row("popen, end of turn", found["popen, end of turn"], "ms", bare, found[bare])]


def command_line() -> list[Row]:
    """``turnctl run true`` against ``timeout`` and a bare interpreter, where the command line is installed."""
    program = Path(sys.executable).with_name("turnctl")
    line = [str(program)] if program.exists() else [sys.executable, "-m", "turnctl"]
    if subprocess.run([*line, "run", "--no-record", "true"], capture_output=True).returncode != 0:
        print("the command line does not run here: left out", file=sys.stderr)
        return []
    others = {"python -c pass": [sys.executable, "-c", "pass"]}
    if shutil.which("timeout"):
        others["timeout 5 true"] = ["timeout", "5", "true"]
    found = {
        name: apart("cost", CLI_ROUNDS, *argv)
        for name, argv in {"turnctl run true": [*line, "run", "--no-record", "true"], **others}.items()
    }
    ours = found["turnctl run true"]
    return [
        *[Row("turnctl run true, wall", ours["wall"], "ms", other, found[other]["wall"]) for other in others],
        *[Row("turnctl run true, CPU of all", ours["cpu"], "ms", other, found[other]["cpu"]) for other in others],
        Row("turnctl run true, CPU of all", ours["cpu"], "ms", target=90),
    ]


def rows() -> list[Row]:
    return [*starts(), *hosts(), *output(), *stops(), *trees(), *command_line()]


if __name__ == "__main__":
    from table import head, show

    print(head())
    show(TITLE, rows())
