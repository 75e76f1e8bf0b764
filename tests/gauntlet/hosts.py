"""Programs that run a command in the way of Python's idioms: ``python hosts.py NAME LIMIT GRACE -- COMMAND...``.

Each is a process of its own, so that it can be stopped and killed as a program of a user would be.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def sdk(argv: list[str], limit: float, grace: float) -> None:
    import turnctl

    with turnctl.handle_signals(), turnctl.turn("gauntlet", grace=grace) as turn:
        turn.run(argv, timeout=limit, capture=False)


def run(argv: list[str], limit: float, _grace: float) -> None:
    """The standard library's own way."""
    try:
        subprocess.run(argv, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        pass


def group(argv: list[str], limit: float, grace: float) -> None:
    """A session of its own, whose group is asked and killed."""
    process = subprocess.Popen(argv, start_new_session=True)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def psutil(argv: list[str], limit: float, grace: float) -> None:
    """The recipe of psutil's manual: all descendants, asked, waited for, killed."""
    import psutil as table

    process = subprocess.Popen(argv)
    try:
        process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    try:
        top = table.Process(process.pid)
        family = [*top.children(recursive=True), top]
    except table.NoSuchProcess:
        return
    for one in family:
        try:
            one.terminate()
        except table.NoSuchProcess:
            pass
    _, alive = table.wait_procs(family, timeout=grace)
    for one in alive:
        try:
            one.kill()
        except table.NoSuchProcess:
            pass
    table.wait_procs(alive, timeout=1)


if __name__ == "__main__":
    name, limit, grace, _, *argv = sys.argv[1:]
    {"sdk": sdk, "run": run, "group": group, "psutil": psutil}[name](argv, float(limit), float(grace))
