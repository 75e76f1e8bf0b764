"""Commands: what supervision costs over a bare start, and the command line over ``timeout``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from table import Row, median_of

import turnctl
from turnctl.processes.command import Unowned, popen, run

TITLE = "Commands"

ROUNDS = 200
CLI_ROUNDS = 15
FLOOD = ["head", "-c", "200M", "/dev/zero"]


def ms(fn: Callable[[], object]) -> Callable[[], float]:
    def measured() -> float:
        began = time.perf_counter()
        fn()
        return (time.perf_counter() - began) * 1e3

    return measured


def starts() -> list[Row]:
    """The smallest command there is, in a turn, without one, and by the standard library."""
    theirs, there = "subprocess.run true, captured", "subprocess.Popen true, wait"
    alike = "subprocess.run true, in a session of its own"  # what a busy machine takes its time over
    with turnctl.turn() as turn:
        found = median_of(
            {
                theirs: ms(lambda: subprocess.run(["true"], capture_output=True)),
                alike: ms(lambda: subprocess.run(["true"], capture_output=True, start_new_session=True)),
                "turn.run true": ms(lambda: turn.run(["true"])),
                "run true, no turn": ms(lambda: run(Unowned(), ["true"])),
                there: ms(lambda: subprocess.Popen(["true"]).wait()),
                "turn.popen true, wait": ms(lambda: turn.popen(["true"], capture=False).wait()),
            },
            ROUNDS,
        )
    return [
        Row(theirs, found[theirs], "ms"),
        Row(alike, found[alike], "ms", theirs, found[theirs]),
        Row("turn.run true", found["turn.run true"], "ms", theirs, found[theirs], 1.6),
        Row("turn.run true", found["turn.run true"], "ms", alike, found[alike], 1.6),
        Row("run true, no turn", found["run true, no turn"], "ms", theirs, found[theirs], 1.6),
        Row("turn.popen true, wait", found["turn.popen true, wait"], "ms", there, found[there]),
    ]


def output() -> list[Row]:
    """200 MB through a pipe into memory, and line by line."""
    theirs = "subprocess.run 200 MB"
    lines = [
        "sh",
        "-c",
        "yes 'a line of some eighty characters, as programs write them to say what they do' | head -n 500000",
    ]
    read = "Popen.stdout 500,000 lines"
    found = median_of(
        {
            theirs: ms(lambda: subprocess.run(FLOOD, capture_output=True)),
            "run 200 MB": ms(lambda: run(Unowned(), FLOOD)),
            read: ms(lambda: _read_lines(lines)),
            "popen 500,000 lines": ms(lambda: sum(1 for _ in popen(Unowned(), lines))),
        },
        5,
    )
    return [
        Row("run 200 MB", found["run 200 MB"], "ms", theirs, found[theirs]),
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
    if subprocess.run([*line, "run", "true"], capture_output=True).returncode != 0:
        print("the command line does not run here: left out", file=sys.stderr)
        return []
    work = {
        "turnctl run true": ms(lambda: subprocess.run([*line, "run", "true"], capture_output=True)),
        "python -c pass": ms(lambda: subprocess.run([sys.executable, "-c", "pass"], capture_output=True)),
    }
    if shutil.which("timeout"):
        work["timeout 5 true"] = ms(lambda: subprocess.run(["timeout", "5", "true"], capture_output=True))
    found = median_of(work, CLI_ROUNDS)
    return [
        Row("turnctl run true", found["turnctl run true"], "ms", other, found[other])
        for other in ("python -c pass", "timeout 5 true")
        if other in found
    ]


def rows() -> list[Row]:
    return [*starts(), *output(), *stops(), *command_line()]


if __name__ == "__main__":
    from table import head, show

    print(head())
    show(TITLE, rows())
