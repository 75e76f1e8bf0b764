"""Starts the processes of a recipe, and speaks to them: the receiver, and actors that failpoints hold.

Every wait here has a bound; nothing sleeps. Whatever is left at the end of a test is killed, and waited for.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from nursery import Nursery

import turnctl

__all__ = ["BOUND_S", "Player", "Receiver", "Stage"]

#: how long anything may take that is not to take any time
BOUND_S = 30.0
HERE = Path(__file__).resolve().parent
ROOT = Path(turnctl.__file__).resolve().parent.parent
#: where processes are forked from; without one each is started, which takes longer and is the same otherwise
nursery: Nursery | None = None


class Process:
    """A process that says lines and is told lines."""

    #: the module of this folder whose ``main`` it runs, where it is one
    module = ""

    def __init__(self, argv: list[str], *, pass_fds: tuple[int, ...] = (), **env: str) -> None:
        self.process: Any = self._started(argv, pass_fds, env)
        self._kept = b""

    def _started(self, argv: list[str], keep: tuple[int, ...], env: dict[str, str]) -> Any:
        if self.module and nursery is not None:
            return nursery.start(self.module, argv, env, keep)
        if self.module:
            code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(HERE)!r}]; import {self.module} as it; it.main()"
            argv = [sys.executable, "-c", code, *argv]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, pass_fds=keep, env={**os.environ, **env}, bufsize=0)

    @property
    def pid(self) -> int:
        return self.process.pid

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def line(self, within: float = BOUND_S) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        end = time.monotonic() + within
        while b"\n" not in self._kept:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{self!r} said nothing for {within:g} s"
            more = os.read(self.process.stdout.fileno(), 65536)
            assert more, f"{self!r} has ended and said nothing more ({self._kept!r})"
            self._kept += more
        found, _, self._kept = self._kept.partition(b"\n")
        return found.decode()

    def is_silent(self) -> bool:
        """Whether it has said nothing that was not read yet."""
        assert self.process.stdout is not None
        return not self._kept and not select.select([self.process.stdout], [], [], 0)[0]

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is no more."""
        if self.process.returncode is None:
            self.process.kill()
        self._over()

    def end(self) -> None:
        """Nothing more is asked of it; it has to end by itself, with status 0."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(BOUND_S)
        self._over()
        assert 0 == status, f"{self!r} ended with {status}"

    def _over(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(BOUND_S)
        self.process.stdout.close()


class Receiver(Process):
    """The receiver: its modes, and what it has written down."""

    module = "receiver"

    def __init__(self, folder: Path) -> None:
        super().__init__([str(folder)])
        self.folder = folder
        self._said: deque[str] = deque()
        self.port = int(self.line())

    def mode(self, name: str) -> None:
        """Behave like that from now on, and let go of what waits."""
        self.write(f"mode {name}")
        while (line := self.line()) != "ok":
            self._said.append(line)

    def said(self) -> str:
        """What it says where it does not answer at once: ``holding ID``, ``kept ID``. Waits for it."""
        return self._said.popleft() if self._said else self.line()

    def journal(self) -> list[dict[str, Any]]:
        """What got out: ``effect_id`` and ``sha`` of each."""
        return self._lines("journal")

    def asked(self, method: str = "", who: str = "") -> list[dict[str, Any]]:
        """What it was asked: ``method``, ``id``, ``who`` (the credential), ``refused``."""
        return [one for one in self._lines("asked") if method in ("", one["method"]) and who in ("", one["who"])]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Player(Process):
    """An actor (``actor.py``): a worker, a canceller, a reconciler."""

    module = "actor"

    def __init__(
        self, url: str, port: int, folder: Path, *, credential: str = "write", failpoints: str = "", peer: int = -1
    ) -> None:
        self.folder = folder
        for name in ("reached", "go"):
            os.mkfifo(folder / name)
        self._reached = os.open(folder / "reached", os.O_RDONLY | os.O_NONBLOCK)
        env = {"TURNCTL_LEDGER_FAILPOINT": failpoints, "TURNCTL_LEDGER_FIFOS": str(folder)}
        argv = [url, str(port), credential, str(peer)]
        super().__init__(argv, pass_fds=(peer,) if peer >= 0 else (), **env)
        self._has_begun = False

    def tell(self, order: str, **args: Any) -> None:
        """Give an order, and do not wait for the answer. It may still be starting: several do so side by side."""
        self.write(json.dumps({"do": order, **args}))

    def answer(self, within: float = BOUND_S) -> dict[str, Any]:
        """Its next answer, whatever it is."""
        if not self._has_begun:
            assert {"ok": self.pid} == json.loads(self.line())
            self._has_begun = True
        found: dict[str, Any] = json.loads(self.line(within))
        return found

    def hear(self, within: float = BOUND_S) -> Any:
        """Its next answer, which has to be a good one."""
        found = self.answer(within)
        assert "ok" in found, found
        return found["ok"]

    def do(self, order: str, **args: Any) -> Any:
        """Give an order, and wait for what comes of it, which has to be good."""
        self.tell(order, **args)
        return self.hear()

    def fails(self, order: str, **args: Any) -> tuple[str, str | None]:
        """Give an order that is refused: the error, and its code."""
        self.tell(order, **args)
        found = self.answer()
        assert "error" in found, found
        return found["error"], found["code"]

    def reached(self, within: float = BOUND_S) -> str:
        """Wait until it stands at a failpoint; which one."""
        ready = select.poll()
        ready.register(self._reached, select.POLLIN)
        assert ready.poll(within * 1000), f"{self!r} reached no failpoint within {within:g} s"
        return os.read(self._reached, 4096).decode().strip()

    def release(self) -> None:
        """Have it go on from the failpoint."""
        (self.folder / "go").write_text("go")

    def stop(self) -> None:
        """SIGSTOP."""
        self.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self.send_signal(signal.SIGCONT)

    def _over(self) -> None:
        super()._over()
        if self._reached >= 0:
            os.close(self._reached)
            self._reached = -1


class Stage:
    """One ledger, one receiver, and the actors of a recipe; a context manager that leaves no process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = str(folder / "ledger.db")
        self._all = ExitStack()
        self._count = 0
        self.ledger = self._all.enter_context(turnctl.open_ledger(self.url))
        place = folder / "receiver"
        place.mkdir()
        self.receiver = Receiver(place)
        self._all.callback(self.receiver.kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._all.close()

    def player(self, failpoints: str = "", *, credential: str = "write", peer: int = -1) -> Player:
        """A new process; ``failpoints`` as ``name=pause|kill|raise``, more than one with commas between them."""
        self._count += 1
        folder = self.folder / f"player-{self._count}"
        folder.mkdir()
        found = Player(self.url, self.receiver.port, folder, credential=credential, failpoints=failpoints, peer=peer)
        self._all.callback(found.kill)
        return found

    def pair(self) -> tuple[Player, Player]:
        """Two processes with a socket between them, by which they meet at a barrier."""
        left, right = socket.socketpair()
        with left, right:
            return self.player(peer=left.fileno()), self.player(peer=right.fileno())

    def submit(self, task_id: str = "job", **how: Any) -> str:
        """A task; its incarnation."""
        return self.ledger.submit("acme", task_id, **how).inc
