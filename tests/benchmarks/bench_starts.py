"""How long the commands that are called often take to start: processor time over that of a bare interpreter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from table import Row

import turnctl

TITLE = "Starts of the command line"

ROUNDS = int(os.environ.get("BENCH_START_ROUNDS", "31"))
_ROOT = str(Path(turnctl.__file__).resolve().parent.parent)
_FILL = """
import sys; sys.path[:0] = [{root!r}, {support!r}]
from pathlib import Path
from shelf import fill
fill(Path({state!r}))
"""


def rows() -> list[Row]:
    """``ps`` and ``status`` over a ledger of six turns, ``--help``, and click alone, each as a process of its own."""
    support = str(Path(__file__).resolve().parent.parent / "support")
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o700)
        subprocess.run([sys.executable, "-c", _FILL.format(root=_ROOT, support=support, state=state)], check=True)
        ours = f"import sys; sys.path.insert(0, {_ROOT!r})\nfrom turnctl.cli.main import main; main()"
        calls = {
            "bare": ["pass"],
            "click": ["import click"],
            "--help": [ours, "--help"],
            "ps": [ours, "ps", "-a"],
            "status": [ours, "status", "-q", "@"],
        }
        least = dict.fromkeys(calls, float("inf"))
        for _ in range(ROUNDS):  # one after the other, so that what disturbs the machine disturbs all
            for name, call in calls.items():
                least[name] = min(least[name], _cpu_ms([sys.executable, "-P", "-c", *call], state))
    over = {name: least[name] - least["bare"] for name in calls if name != "bare"}
    return [
        Row("`turnctl ps`, CPU over bare Python", over["ps"], "ms", target=60.0),
        Row("`turnctl status`, CPU over bare Python", over["status"], "ms", target=60.0),
        Row("`turnctl --help`, CPU over bare Python", over["--help"], "ms"),
        Row("`turnctl ps`, CPU in all", least["ps"], "ms", "bare Python", least["bare"]),
        Row("`import click`, CPU in all", least["click"], "ms", "bare Python", least["bare"]),
    ]


def _cpu_ms(call: list[str], state: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": "/", "TURNCTL_STATE_DIR": state}
    subprocess.run(call, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
