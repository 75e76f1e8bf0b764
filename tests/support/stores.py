"""SQLite stores of tests: what is in one, programs of their own over one, and FIFOs by which a failpoint holds them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from desk import HOLDER, WORKER, Desk

import turnctl
from turnctl.ledger import dealings, turnrows
from turnctl.ledger.store import Store
from turnctl.records.turns import TurnRecord

ROOT = str(Path(turnctl.__file__).resolve().parent.parent)
SUPPORT = str(Path(__file__).resolve().parent)
#: a hash as the SDK makes it, of ``b"payload"``
SHA = hashlib.sha256(b"payload").hexdigest()

#: what each program finds ready: the store at argv[1], and a desk over it as the first one to come left it
_HEAD = f"""
import os, signal, sys, threading, time
sys.path[:0] = [{ROOT!r}, {SUPPORT!r}]
from desk import CANCELLER, HOLDER, OTHER, WORKER, Desk
from stores import admit, fill
from turnctl.errors import *
from turnctl.ledger import dealings
from turnctl.ledger.opening import open_sqlite
from turnctl.records.changes import By
from turnctl.records.effects import Effect

path = sys.argv[1]

def say(*what):
    print(*what, flush=True)

def cancel(store, inc="i1", cr="c1"):
    return store.transact(
        lambda books: dealings.cancel(books, CANCELLER, inc, lambda: cr), urgent=True, point="cancel")
"""


def admit(store: Store, effect_id: str, *, inc: str = "i1", gen: int = 1) -> object:
    """One gate commit."""
    from turnctl.records.effects import Effect

    wanted = Effect(effect_id, inc, effect_id, "mail.send", SHA, 0, gen)
    return store.transact(lambda books: dealings.admit(books, WORKER, wanted, gen, b"payload"), point="gate")


def fill(store: Store) -> Desk:
    """A task with a bit of everything, so that each table has a row."""
    desk = Desk(store)
    desk.child("i1", "i2")
    for n in range(4):
        desk.admit(f"e{n}", key=f"k{n}", sha=SHA)
    desk.claim("e0")
    desk.close("e0", "completed")
    desk.claim("e1")
    desk.deal(dealings.attach, WORKER, "i1", 1, "d")
    desk.deal(dealings.own, WORKER, _activity(), 1)
    desk.deal(dealings.detach, WORKER, "i1", 1, "x", "somebody else", "runs on")
    desk.deal(turnrows.begin, WORKER, TurnRecord("t1", "", 0, HOLDER, command='["make"]'), "i1", 1)
    desk.cancel("i2")
    return desk


def _activity() -> object:
    from turnctl.records.tasks import OwnedActivity

    return OwnedActivity("i1", "a1", "process", "make", 1)


def program(code: str, path: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    """Start ``code`` over the store at ``path``; it speaks by ``say``."""
    argv = [sys.executable, "-c", _HEAD + textwrap.dedent(code), str(path), *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **env})


def line(process: subprocess.Popen[str]) -> str:
    """The next line that it says."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> str:
    """What more it says until it has ended by itself; its status has to be 0."""
    out = _rest(process)
    assert 0 == process.returncode, out
    return out


def _rest(process: subprocess.Popen[str]) -> str:
    # not by communicate(), which forgets what was read ahead of the last line
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    with process.stdout:
        out = process.stdout.read()
    process.wait(30)
    return out


def kill(process: subprocess.Popen[str]) -> str:
    """End it by SIGKILL, whatever it is doing; what more it had said."""
    process.send_signal(signal.SIGKILL)
    return _rest(process)


class Held:
    """A program that a failpoint holds."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._folder = folder

    def reached(self) -> str:
        """Wait until it stands there; the name of the point."""
        return (self._folder / "reached").read_text().strip()

    def release(self) -> None:
        (self._folder / "go").write_text("go")


@contextmanager
def held_at(point: str, code: str, path: Path, folder: Path, *args: str) -> Iterator[Held]:
    """Run ``code`` until it stands at ``point``; whatever is left of it at the end is killed."""
    fifos = folder / f"fifos-{point}"
    fifos.mkdir()
    for name in ("reached", "go"):
        os.mkfifo(fifos / name)
    env = {"TURNCTL_LEDGER_FAILPOINT": f"{point}=pause", "TURNCTL_LEDGER_FIFOS": str(fifos)}
    process = program(code, path, *args, **env)
    held = Held(fifos, process)
    try:
        assert point == held.reached()
        yield held
    finally:
        if process.returncode is None:
            kill(process)
