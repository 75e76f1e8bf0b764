"""Streams of litellm, whose wrapper holds the stream of another client: the same promises as for that.

In a process of their own: it keeps threads and a loop, which no test may leave behind.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import turnctl

SUPPORT = Path(__file__).parent.parent / "support"
KINDS = ("litellm_openai", "litellm_anthropic")

PROGRAM = """
import sys, traceback, warnings
warnings.simplefilter("ignore")
import turnctl
from models import models
from streams import KINDS, expected, preloaded, stop_in_the_middle

preloaded()
for kind in KINDS:
    if kind.module != "litellm":
        continue
    try:
        with models() as server:
            stop_in_the_middle(kind, server, "chunked")
        print("stop", kind, "ok", flush=True)
        with models() as server:
            with turnctl.turn() as turn, kind.open(server) as source:
                found = list(turn.stream(source))
        assert expected(kind, 4) == kind.text(found)
        print("whole", kind, "ok", flush=True)
    except BaseException:
        traceback.print_exc()
sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def output() -> str:
    """What the program says of each of its steps."""
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed: the clients extra has it")
    place = Path(turnctl.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{SUPPORT}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_stop_in_the_middle_of_a_litellm_stream(kind: str, output: str) -> None:
    """One request, the partial text in the report, and the server sees the end."""
    assert f"stop {kind} ok" in output.splitlines(), output


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_whole_litellm_stream(kind: str, output: str) -> None:
    """Without a stop every part comes."""
    assert f"whole {kind} ok" in output.splitlines(), output
