"""A process that has everything loaded, from which the processes of recipes are forked: each starts at once.

It opens nothing and has no thread. An order comes over its socket, with the descriptors that the new process is to
have: ``{"module": ..., "argv": [...], "env": {...}, "keep": [...]}``, with stdin, stdout and those of ``keep``, which
get the numbers that are asked for; its pid comes back. ``{"wait": pid, "within": seconds}`` gives the status that it
ended with, or null. Nobody else waits for them, so that a pid means one process until then.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["Forked", "Nursery"]

HERE = Path(__file__).resolve().parent
#: what an actor would load later
_LOADED = [
    *(f"turnctl.ledger.{name}" for name in ("acting", "accounts", "effecting", "face", "opening", "reconciling")),
    *(f"turnctl.ledger.{name}" for name in ("sharing", "sqlite", "verify", "whereabouts")),
    *("turnctl.turns", "turnctl.tokens.bridge", "turnctl.processes.face", "turnctl.waiting.face"),
    *("ctypes", "heapq", "importlib.readers", "queue", "zipfile"),
    *("actor", "worker", "duel", "receiver"),
]
_MOST_FDS = 8
_SIZE = 65536


class Forked:
    """One that was forked, as ``subprocess.Popen`` shows what it starts."""

    def __init__(self, nursery: Nursery, pid: int, stdin: int, stdout: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(9)

    def poll(self) -> int | None:
        return self._waited(0)

    def wait(self, timeout: float = 60) -> int:
        status = self._waited(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return status

    def _waited(self, within: float) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask({"wait": self.pid, "within": within})
        return self.returncode


class Nursery:
    """The tests' side of it."""

    def __init__(self, root: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"import sys; sys.path[:0] = [{str(root)!r}, {str(HERE)!r}]; import nursery; nursery.main()"
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-c", code], stdin=theirs.fileno())
        self._socket = ours

    def ask(self, order: dict[str, Any], fds: list[int] | None = None) -> Any:
        socket.send_fds(self._socket, [json.dumps(order).encode()], fds or [])
        return json.loads(self._socket.recv(_SIZE))

    def start(self, module: str, argv: list[str], env: dict[str, str], keep: tuple[int, ...] = ()) -> Forked:
        """Run ``module.main()`` in a process of its own."""
        (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
        order = {"module": module, "argv": argv, "env": env, "keep": keep}
        pid = None
        try:
            pid = self.ask(order, [in_read, out_write, *keep])
        finally:
            for fd in (in_read, out_write, *((in_write, out_read) if pid is None else ())):
                os.close(fd)
        return Forked(self, pid, in_write, out_read)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(60)


# -- the process --------------------------------------------------------------------------------------------------


def main() -> None:
    for name in _LOADED:
        importlib.import_module(name)
    with socket.socket(fileno=os.dup(0)) as orders:
        while True:
            text, fds, _, _ = socket.recv_fds(orders, _SIZE, _MOST_FDS)
            if not text:
                return
            order = json.loads(text)
            if "wait" in order:
                orders.send(json.dumps(_status(order["wait"], order["within"])).encode())
                continue
            pid = os.fork()
            if pid == 0:
                orders.close()
                _become(order, fds)
            for fd in fds:
                os.close(fd)
            orders.send(json.dumps(pid).encode())


def _status(pid: int, within: float) -> int | None:
    """What it has ended with, as Popen counts it; None where it goes on."""
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], within)[0]:
            return None
    finally:
        os.close(handle)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _become(order: dict[str, Any], fds: list[int]) -> None:
    """In the new process: what was asked for, until its end."""
    status = 1
    try:
        wanted = [0, 1, *order["keep"]]
        kept = [os.dup2(fd, 100 + n) for n, fd in enumerate(fds)]  # out of the way of the numbers that are asked for
        for fd in fds:
            os.close(fd)
        for fd, number in zip(kept, wanted, strict=True):
            os.dup2(fd, number)
            os.close(fd)
        os.environ.update(order["env"])
        sys.argv = [order["module"], *order["argv"]]
        failpoints = importlib.import_module("turnctl.ledger.failpoints")
        failpoints.arm(os.environ.get(failpoints.ENV, ""))
        importlib.import_module(order["module"]).main()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        os._exit(status)
