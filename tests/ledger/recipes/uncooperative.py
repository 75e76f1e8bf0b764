"""A worker that cannot be asked to stop, and who supervises it.

It takes no notice of signals, has a child in a session of its own that does not either, and waits for a receiver that
never answers, in code that knows nothing of turnctl. Run as a program: ``URL PORT INC FOLDER``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from actor import Actor
from client import Client

import turnctl

__all__ = ["main", "supervise"]


def main() -> None:
    url, port, inc, folder = sys.argv[1:5]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        while True:
            signal.pause()
    with turnctl.open_ledger(url) as ledger, turnctl.turn(task=ledger.incarnation(inc)) as turn:
        with turn.effect("mail.send", key="1", payload="hello") as sent:
            Path(folder, "claimed").write_text(sent.effect_id)
            sent.complete(Client(int(port), "write").post(sent.effect_id, sent.payload))


def supervise(me: Actor, *, inc: str, folder: str, grace: float) -> dict[str, Any]:
    """Work on the task, with a child of it in a process of its own; how that came out, once the turn is over."""
    with turnctl.turn(task=me.task(inc), grace=grace) as turn:
        child = me.ledger.submit("acme", "child", parent=turn)
        here = str(Path(__file__).parent)
        code = f"import sys; sys.path[:0] = {[*sys.path[:1], here]!r}; import uncooperative; uncooperative.main()"
        argv = [sys.executable, "-c", code, me.ledger.store.path, str(me.receiver.port), child.inc, folder]  # type: ignore[attr-defined]
        turn.popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, capture=False).wait()
    (process,) = turn.report.processes
    return {
        "outcome": turn.outcome,
        "reason": None if turn.report.stop is None else turn.report.stop.reason,
        "proven": process.empty_proven,
        "killed": process.killed,
        "report": str(turn.report),
    }
