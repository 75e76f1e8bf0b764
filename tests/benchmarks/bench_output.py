"""Output of commands: 1 GiB through a pipe, its memory, and eight commands at once by one loop or by threads."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from table import Row, median_of

from turnctl.processes.capture import Capture
from turnctl.processes.command import run
from turnctl.processes.output import CHUNK, Pump
from turnctl.processes.unowned import Unowned

TITLE = "Output"

SIZE = int(os.environ.get("BENCH_OUTPUT_BYTES", str(1 << 30)))
ROUNDS = 3
CHILDREN = 8


def _flood(size: int) -> list[str]:
    return ["head", "-c", str(size), "/dev/zero"]


def theirs() -> int:
    return len(subprocess.run(_flood(SIZE), capture_output=True).stdout)


def ours() -> int:
    return len(run(Unowned(), _flood(SIZE)).stdout or b"")


def limited() -> int:
    return len(run(Unowned(), _flood(SIZE), max_output="10MiB").stdout or b"")


def handed_on() -> int:
    with open(os.devnull, "wb") as null:
        run(Unowned(), _flood(SIZE), capture=False, tee=null.fileno(), tee_backpressure=True)
    return SIZE


def in_a_child(work: Callable[[], int]) -> tuple[float, float]:
    """Seconds, and MiB at the most beyond what it began with, of ``work`` in a process of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        assert work()
        took = time.perf_counter() - began
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(write, f"{took} {grown / 1024}".encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        took, grown = file.read().split()
    os.waitpid(pid, 0)
    return float(took), float(grown)


def _children() -> list[tuple[subprocess.Popen[bytes], int]]:
    made = []
    for _ in range(CHILDREN):
        read, write = os.pipe()
        made.append((subprocess.Popen(_flood(SIZE // CHILDREN), stdout=write), read))
        os.close(write)
    return made


def one_loop() -> float:
    """Eight children, one thread that polls all of them."""
    began = time.perf_counter()
    children, pump = _children(), Pump()
    for _, fd in children:
        pump.read_from(fd, Capture())
    while pump.is_reading:
        pump.wait(None)
    for child, _ in children:
        child.wait()
    return time.perf_counter() - began


def thread_each() -> float:
    """Eight children, and for each a thread that reads."""

    def read_all(fd: int) -> None:
        capture = Capture()
        while data := os.read(fd, CHUNK):
            capture.feed(data)
        os.close(fd)

    return _threaded(read_all)


def loop_each() -> float:
    """Eight children, and for each a loop as commands have it."""

    def pump_all(fd: int) -> None:
        pump = Pump()
        pump.read_from(fd, Capture())
        while pump.is_reading:
            pump.wait(None)

    return _threaded(pump_all)


def _threaded(work: Callable[[int], None]) -> float:
    began = time.perf_counter()
    children = _children()
    threads = [threading.Thread(target=work, args=(fd,)) for _, fd in children]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child, _ in children:
        child.wait()
    return time.perf_counter() - began


def rows() -> list[Row]:
    run(Unowned(), ["true"])  # whatever is loaded or started once
    work = {
        "subprocess.run": theirs,
        "run": ours,
        "run, max_output 10 MiB": limited,
        "run, tee to /dev/null": handed_on,
    }
    memory: dict[str, float] = {}

    def measured(name: str) -> Callable[[], float]:
        def once() -> float:
            took, memory[name] = in_a_child(work[name])
            return took

        return once

    found = median_of({name: measured(name) for name in work}, ROUNDS)
    size = f"{SIZE / (1 << 30):g} GiB"
    base = "subprocess.run"
    lines = [Row(f"{name}, {size}", found[name], "s", base, found[base], 1.3) for name in work if name != base]
    lines += [
        Row(f"{name}, memory for {size}", memory[name], "MiB", base, memory[base]) for name in work if name != base
    ]
    loops = median_of({"one": one_loop, "each": thread_each, "pump": loop_each}, ROUNDS)
    lines += [
        Row(f"{CHILDREN} children, one loop for all", loops["one"], "s", "a thread that reads each", loops["each"]),
        Row(f"{CHILDREN} children, a loop for each", loops["pump"], "s", "a thread that reads each", loops["each"]),
    ]
    return lines


if __name__ == "__main__":
    from table import head, show

    sys.stdout.write(head() + "\n")
    show(TITLE, rows())
