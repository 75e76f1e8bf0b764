"""Both ends of MCP for tests: a client that says exactly what a test wants, and servers that do as they are told."""

from __future__ import annotations

import json
import os
import select
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from standins import BOUND, Background

from turnctl.integrations.mcp.server import Server


class RawClient:
    """Writes lines to a server and reads its lines; ``said`` holds all that came."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        self.said: list[dict[str, Any]] = []
        self._left = b""

    def send(self, *messages: dict[str, Any] | str) -> None:
        """Write each, a line of JSON; a text goes as it is."""
        lines = [one if isinstance(one, str) else json.dumps(one) for one in messages]
        os.write(self.write_fd, "".join(f"{line}\n" for line in lines).encode())

    def call(self, request_id: Any, tool: str, /, **arguments: Any) -> None:
        """Ask for a tool."""
        self.send(request(request_id, "tools/call", name=tool, arguments=arguments))

    def cancel(self, request_id: Any, **more: Any) -> None:
        """Send the notification."""
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id, **more}})

    def read(self, within: float = BOUND) -> dict[str, Any]:
        """The next message; fails if none comes."""
        while b"\n" not in self._left:
            assert select.select([self.read_fd], [], [], within)[0], "the server said nothing"
            data = os.read(self.read_fd, 65536)
            assert data, "the server closed its side"
            self._left += data
        line, self._left = self._left.split(b"\n", 1)
        self.said.append(json.loads(line))
        return self.said[-1]

    def rest(self) -> list[dict[str, Any]]:
        """All that comes until the server closes its side, and what was read before."""
        while data := os.read(self.read_fd, 65536):
            self._left += data
        self.said.extend(json.loads(line) for line in self._left.splitlines())
        self._left = b""
        return self.said

    def hang_up(self) -> None:
        """Close the input of the server."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1


def request(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    """A request as a client writes it."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


class Served:
    """A server that is being served on a thread, and its client."""

    def __init__(self, server: Server, client: RawClient, serving: Background[tuple[str, ...]]) -> None:
        self.server = server
        self.client = client
        self.serving = serving


@contextmanager
def served(server: Server, *, write_end: Callable[[int], object] = lambda _: None) -> Iterator[Served]:
    """``server`` on a thread, over two pipes; ends with the block. ``write_end`` is given the server's output."""
    theirs, ours = os.pipe()
    back, forth = os.pipe()
    write_end(forth)
    client = RawClient(back, ours)

    def serve() -> tuple[str, ...]:
        try:
            return server.serve(theirs, forth)
        finally:
            os.close(forth)

    serving = Background(serve)
    try:
        yield Served(server, client, serving)
    finally:
        client.hang_up()
        serving.thread.join(BOUND)
        os.close(theirs)
        os.close(back)


class Stage:
    """What tools of a test do and say: ``entered`` has the requests whose tool runs, ``go`` lets them come back."""

    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.left: list[str] = []
        self.go = threading.Event()
        self._lock = threading.Condition()

    def enter(self, what: Any) -> None:
        with self._lock:
            self.entered.append(what)
            self._lock.notify_all()

    def wait_entered(self, count: int = 1) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.entered) >= count, BOUND), "no tool has begun"


#: A server of nothing but the standard library, which writes each line that it reads to a file.
#: Tools: ``echo`` and ``search`` answer, ``never`` does not, ``late`` and ``twice`` do on their cancel, ``die`` dies,
#: ``deaf`` stops reading, ``error`` is refused.
FAKE_SERVER = """
import json, os, signal, sys

log = open(sys.argv[1], "a")
with open(sys.argv[1] + ".pid", "w") as file:
    file.write(str(os.getpid()))
waiting = {}

def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def text(value):
    return {"content": [{"type": "text", "text": value}], "isError": False}

for line in sys.stdin:
    log.write(line)
    log.flush()
    message = json.loads(line)
    method, params, number = message.get("method"), message.get("params", {}), message.get("id")
    if method == "initialize":
        if "silent" in sys.argv:
            continue
        version = {"protocolVersion": min(params["protocolVersion"], "2025-06-18")}
        version["serverInfo"] = {"name": "fake", "version": "0"}
        say(id=number, result={**version, "capabilities": {"tools": {}}})
    elif method == "tools/list":
        say(id=number, result={"tools": []})
    elif method == "notifications/cancelled":
        name = waiting.pop(params["requestId"], None)
        if name == "late":
            say(id=params["requestId"], result=text("late"))
        if name == "twice":
            say(id=str(params["requestId"]), error={"code": -32001, "message": "no more"})
            say(id=params["requestId"], result=text("late"))
    elif method == "tools/call":
        name = params["name"]
        waiting[number] = name
        if name == "echo":
            say(id=number, result=text(params["arguments"]["text"]))
        elif name == "search":
            say(id=number, result=text("found " + params["arguments"]["pattern"]))
        elif name == "error":
            say(id=number, error={"code": -32001, "message": "not today"})
        elif name == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif name == "deaf":
            os.kill(os.getpid(), signal.SIGSTOP)
"""


def fake_server(folder: Path) -> tuple[list[str], Path]:
    """The command of such a server, and the file in which it notes what it reads."""
    program = folder / "fake_server.py"
    program.write_text(FAKE_SERVER)
    log = folder / "wire.log"
    log.touch()
    return [sys.executable, "-I", "-S", str(program), str(log)], log


def lines_of(log: Path) -> list[dict[str, Any]]:
    """What the server has read so far."""
    whole = log.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def methods_of(log: Path) -> list[str]:
    """The methods of that."""
    return [line["method"] for line in lines_of(log) if "method" in line]


def server_program(folder: Path, body: str, *, run: str = "server.run()") -> list[str]:
    """The command of a program that makes tools on ``server`` and serves them; ``mcp`` and ``turnctl`` are there."""
    program = folder / "server_program.py"
    head = "import os, sys\nimport turnctl\nfrom turnctl.integrations import mcp\n"
    program.write_text(f"{head}server = mcp.Server('tested', grace='300ms')\n{textwrap.dedent(body)}\n{run}\n")
    return [sys.executable, str(program)]
