"""The clients of OpenAI and Anthropic end with a stop, and litellm under install; none of them asks twice."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from httpclients import NAMES, assert_stopped, face, stop_at
from peers import Loopback, Peer, loopback
from standins import until

import turnctl

MESSAGES = [{"role": "user", "content": "hello"}]


def _chunk(data: object) -> bytes:
    text = b"data: " + json.dumps(data).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(text), text)


def _openai_part(text: str) -> object:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


ANTHROPIC_PARTS = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "m",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}},
]


class Model:
    """A model that begins to answer, where it streams, and says nothing more."""

    def __init__(self, server: Loopback) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.port}"
        self.asked: list[str] = []

    def answer(self, peer: Peer) -> None:
        head = peer.until(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = json.loads(peer.exactly(size))
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        if body.get("stream"):
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            if "messages" in path:
                for part in ANTHROPIC_PARTS:
                    text = f"event: {part['type']}\ndata: {json.dumps(part)}\n\n".encode()
                    peer.send(b"%x\r\n%s\r\n" % (len(text), text))
            else:
                peer.send(_chunk(_openai_part("half")))
        peer.stall()


@contextlib.contextmanager
def model() -> Iterator[Model]:
    with loopback(lambda peer: found.answer(peer)) as server:
        found = Model(server)
        yield found


@contextlib.contextmanager
def openai_client(url: str, http_client: Any = None) -> Iterator[Any]:
    openai = pytest.importorskip("openai", reason="the client of OpenAI is what these tests are about")
    options = {} if http_client is None else {"http_client": http_client}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=3, **options) as client:
        yield client


@contextlib.contextmanager
def anthropic_client(url: str, http_client: Any = None) -> Iterator[Any]:
    anthropic = pytest.importorskip("anthropic", reason="the client of Anthropic is what these tests are about")
    options = {} if http_client is None else {"http_client": http_client}
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=3, **options) as client:
        yield client


def ask_openai(client: Any, kept: list[str], stream: bool) -> None:
    if not stream:
        client.chat.completions.create(model="m", messages=MESSAGES)
        return
    for part in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
        kept.append(part.choices[0].delta.content)


def ask_anthropic(client: Any, kept: list[str], stream: bool) -> None:
    options = {"model": "m", "messages": MESSAGES, "max_tokens": 10}
    if not stream:
        client.messages.create(**options)
        return
    with client.messages.stream(**options) as events:
        kept.extend(events.text_stream)


WAYS = {"openai": (openai_client, ask_openai), "anthropic": (anthropic_client, ask_anthropic)}


def family_of(http_client: Any) -> str:
    """Which httpx the installed client is built on."""
    return next(root for one in type(http_client).__mro__ if (root := one.__module__.partition(".")[0]) in NAMES)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", sorted(WAYS))
@pytest.mark.parametrize("by", ["client", "stoppable", "install"])
def test_model_that_stalls(name: str, stream: bool, by: str) -> None:
    """Each way to make it so: free at once, asked once though it retries, and what came is kept."""
    make, ask = WAYS[name]
    kept: list[str] = []
    with model() as server, contextlib.ExitStack() as stack:
        client = stack.enter_context(make(server.url))
        if by == "client":
            http_client = stack.enter_context(face(family_of(client._client)).Client(timeout=30))
            client = stack.enter_context(make(server.url, http_client))
        if by == "stoppable":
            assert client is face("httpx").stoppable(client)
        if by == "install":
            stack.enter_context(turnctl.install(http=True))
        stopped = stop_at(
            lambda _: ask(client, kept, stream),
            lambda: until(lambda: kept) if stream else server.server.reached(),
        )
        ended = server.server.peer().ended.wait(5)

    assert_stopped(stopped)
    assert ended
    assert 1 == len(server.asked)
    assert (["half"] if stream else []) == kept


def test_client_of_the_old_name_fits_openai() -> None:
    """``openai.OpenAI(http_client=turnctl.integrations.httpx.Client())`` is what the one line says."""
    with (
        model() as server,
        face("httpx").Client(timeout=30) as http_client,
        openai_client(server.url, http_client) as client,
    ):
        stopped = stop_at(lambda _: ask_openai(client, [], False), server.server.reached)

    assert_stopped(stopped)
    assert 1 == len(server.asked)


def test_call_under_install() -> None:
    """``turn.call`` is left at once, and its thread ends as well: nothing is left behind."""
    with model() as server, openai_client(server.url) as client, turnctl.install(http=True):
        before = threading.active_count()
        stopped = stop_at(lambda turn: turn.call(ask_openai, client, [], False), server.server.reached)
        alone = until(lambda: threading.active_count() <= before)

    assert isinstance(stopped.error, turnctl.CancelledError)
    assert stopped.took_s < 1
    assert alone
    assert 1 == len(server.asked)
    assert ["cancelled", "cancelled"] == [one.state for one in stopped.report.activities]


LITELLM = """
import json, sys, threading, time
import litellm, turnctl
url = sys.argv[1]
litellm.suppress_debug_info = True
turnctl.install(http=True)
def ask(stream):
    options = dict(model="openai/m", api_base=url + "/v1", api_key="k", max_retries=2, num_retries=0, stream=stream)
    found = litellm.completion(messages=[{"role": "user", "content": "hello"}], **options)
    for part in found if stream else []:
        kept.append(part.choices[0].delta.content)
for stream in (False, True):
    kept = []
    with turnctl.turn() as turn:
        print("ready", flush=True)
        def stop():
            sys.stdin.readline()
            stopped_at.append(time.monotonic())
            turn.stop("enough")
        stopped_at = []
        threading.Thread(target=stop, daemon=True).start()
        try:
            ask(stream)
        except BaseException as error:
            print(json.dumps([type(error).__name__, getattr(error, "reason", str(error)), kept,
                              time.monotonic() - stopped_at[0]]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_litellm_under_install() -> None:
    """The client of a client: the stop comes through all of it, with its reason, and nothing is sent again."""
    if importlib.util.find_spec("litellm") is None:  # to import it here takes ten seconds
        pytest.skip("litellm is what this test is about")
    with model() as server:
        command = [sys.executable, "-c", LITELLM, server.url]
        # it would ask the network for a list of prices
        alone = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            told = []
            for n in range(2):
                line = program.stdout.readline()
                assert "ready\n" == line
                assert until(lambda: len(server.server.peers) > n, within=60)  # noqa: B023 - called at once
                assert server.server.peer(n).reached.wait(10)
                program.stdin.write("stop\n")
                program.stdin.flush()
                told.append(json.loads(program.stdout.readline()))
            program.stdin.close()

    assert [["CancelledError", "enough"]] * 2 == [one[:2] for one in told]
    assert [] == told[0][2]
    # litellm loads what it needs for its first error, which takes a second on a busy machine
    assert max(one[3] for one in told) < 10
    assert 2 == len(server.asked)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_pause_between_attempts_ends_too(name: str) -> None:
    """``stoppable`` of an SDK's client: the stop ends the pause before its next attempt, and there is none."""

    def serve(peer: Peer) -> None:
        peer.until(b"\r\n\r\n")
        peer.send(b"HTTP/1.1 503 Busy\r\nRetry-After: 20\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        peer.until(b"its end")

    sdk = pytest.importorskip(name, reason=f"{name} is what this test is about")
    kind = sdk.OpenAI if name == "openai" else sdk.Anthropic
    with loopback(serve) as server:
        with kind(base_url=f"http://127.0.0.1:{server.port}", api_key="k", max_retries=3) as client:
            face("httpx").stoppable(client)
            stopped = stop_at(lambda _: client.post("/x", cast_to=object), lambda: server.peer().ended.wait(5))
        asked = len(server.peers)

    assert isinstance(stopped.error, turnctl.CancelledError), repr(stopped.error)
    assert ("enough", 1) == (stopped.error.reason, asked)
    assert stopped.took_s < 1
