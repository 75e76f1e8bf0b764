"""Streams and retries of litellm, which wraps other clients: the same promises as for those.

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
pytestmark = pytest.mark.slow  # nothing takes as long to load

KINDS = ("litellm_openai", "litellm_anthropic")

PROGRAM = """
import sys, traceback, warnings
warnings.simplefilter("ignore")
import turnctl
from models import models
from standins import Background, until
from streams import KINDS, MESSAGES, expected, openai_client, preloaded, stop_in_the_middle
from turnctl import CancelledError
from turnctl.integrations.retries import stoppable_client

litellm = preloaded()


def done(what, fn):
    try:
        with models() as server:
            fn(server)
        print(what, "ok", flush=True)
    except BaseException:
        traceback.print_exc()


def whole(kind, server):
    with turnctl.turn() as turn, kind.open(server) as source:
        found = list(turn.stream(source))
    assert expected(kind, 4) == kind.text(found)


def stopped(server, after, **options):
    server.mode, server.retry_after = 429, after
    with turnctl.turn() as turn:
        asking = Background(turn.bind(lambda: litellm.completion(model="openai/m", messages=MESSAGES, **options)))
        assert until(lambda: server.requests and turn.token._grow().waiters)
        asked = len(server.requests)
        turn.stop("enough")
        error = asking.error()
    assert isinstance(error, CancelledError), error
    assert "enough" == error.reason, error
    # on a busy machine a wait of litellm's, of a second, may be over before this thread comes to its stop
    assert asked <= len(server.requests) <= asked + 1 < 6, len(server.requests)
    assert asking.ended_at - turn.report.stop.at < 2


def retries_of_a_client(server):
    with openai_client(server, max_retries=5) as client:
        stopped(server, "60", client=stoppable_client(client), api_key="none")


def retries_of_litellm(server):
    with turnctl.install(http=True):
        slowly = {"num_retries": 5, "max_retries": 0, "retry_strategy": "exponential_backoff_retry"}
        stopped(server, "0.001", api_base=f"{server.url}/v1", api_key="none", **slowly)


for kind in KINDS:
    if kind.module == "litellm":
        done(f"stop {kind}", lambda server: stop_in_the_middle(kind, server, "chunked"))
        done(f"whole {kind}", lambda server: whole(kind, server))
done("retries of a client", retries_of_a_client)
done("retries of litellm", retries_of_litellm)
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
        timeout=200,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_stop_in_the_middle_of_a_litellm_stream(kind: str, output: str) -> None:
    """One request, the partial text in the report, and the server sees the end."""
    assert f"stop {kind} ok" in output.splitlines(), output


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_whole_litellm_stream(kind: str, output: str) -> None:
    """Without a stop every part comes."""
    assert f"whole {kind} ok" in output.splitlines(), output


@pytest.mark.timeout(240)
@pytest.mark.parametrize("what", ["retries of a client", "retries of litellm"])
def test_retries_of_litellm_end_with_the_stop(what: str, output: str) -> None:
    """No request after the stop, and the caller is free: of a client that was handed in, and of ``num_retries``."""
    assert f"{what} ok" in output.splitlines(), output
