"""An actor at work on a task: what it is told within its turn.

A stop of the turn is told as the answer to the order that ran into it, and the worker goes on listening: so a test can
have one that checks nothing, and one that is stopped and does not hear of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actor import Actor

import turnctl
from turnctl.ledger.failpoints import reach

__all__ = ["Worker"]


class Worker:
    """One turn on one task, and the processes that it started for its children."""

    def __init__(self, me: Actor, task: turnctl.LedgerTask, *, force: bool = False) -> None:
        self.me = me
        self.task = task.take_over() if force else task
        self.effects: dict[str, Any] = {}
        self.below: dict[str, subprocess.Popen[str]] = {}

    def run(self) -> dict[str, Any]:
        turn = turnctl.turn(task=self.task)
        try:
            with turn:
                self.me.say(ok="stopped" if turn.token.cancelled else "at work")
                while (order := self.me.hear()) is not None and order["do"] != "end":
                    self.me.obey(ORDERS, order, self, turn)
                if order is not None and order.get("fails"):
                    raise ValueError("as it was told")
        except (ValueError, turnctl.CancelledError):
            pass
        finally:
            for process in self.below.values():
                _bury(process)
        stop = turn.report.stop if turn.report is not None else None
        return {
            "outcome": turn.outcome,
            "reason": None if stop is None else stop.reason,
            "effects": {one.key: one.disposition for one in turn.report.effects},
        }


def _bury(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait()
    process.stdout.close()


# -- effects ------------------------------------------------------------------------------------------------------


def effect(me: Actor, of: Worker, turn: Any, *, key: str = "k", payload: str = "hello", **how: Any) -> str:
    """The whole of it: gate, claim, send, and what the receiver says."""
    of.effects[key] = turn.effect("mail.send", key=key, payload=payload, **how)
    return send(me, of, turn, key=key)


def admit(me: Actor, of: Worker, turn: Any, *, key: str = "k", payload: str = "hello", **how: Any) -> str:
    """The gate alone."""
    of.effects[key] = turn.effect("mail.send", key=key, payload=payload, **how).admit()
    return str(of.effects[key].effect_id)


def send(me: Actor, of: Worker, turn: Any, *, key: str = "k") -> str:
    """Claim and send what was admitted; its id."""
    with of.effects[key] as sent:
        receipt = me.receiver.post(sent.effect_id, sent.payload)
        reach("send.after_bytes")
        sent.complete(receipt)
    return str(sent.effect_id)


def suppress(me: Actor, of: Worker, turn: Any, *, key: str = "k") -> str:
    of.effects[key].suppress()
    return str(of.effects[key].disposition)


def check(me: Actor, of: Worker, turn: Any) -> bool:
    """The flag that a cooperative worker looks at."""
    turn.check()
    return True


def wait(me: Actor, of: Worker, turn: Any) -> None:
    """Wait to be stopped."""
    turn.sleep(60)


def deaf(me: Actor, of: Worker, turn: Any) -> None:
    """Take no notice of SIGTERM from now on."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


# -- children -----------------------------------------------------------------------------------------------------


def child(me: Actor, of: Worker, turn: Any, *, task_id: str, pid_file: str | None = None, spawn: bool = True) -> str:
    """Register a child, and start a process for it, which takes it up at once; its incarnation."""
    made = me.ledger.submit("acme", task_id, parent=turn)
    if spawn:
        argv = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; import actor; actor.main()"]
        argv += [*sys.argv[1:4], "-1"]
        env = {key: text for key, text in os.environ.items() if key != "TURNCTL_LEDGER_FAILPOINT"}
        pipe = subprocess.PIPE
        process = of.below[task_id] = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=env)
        if pid_file is not None:
            Path(pid_file).write_text(str(process.pid))
        assert process.stdout is not None
        process.stdout.readline()
        below(me, of, turn, who=task_id, say={"do": "work", "inc": made.inc})
    return made.inc


def below(me: Actor, of: Worker, turn: Any, *, who: str, say: dict[str, Any]) -> dict[str, Any]:
    """Pass an order on to the process of a child; its answer."""
    import json

    process = of.below[who]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(say) + "\n")
    process.stdin.flush()
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


ORDERS: dict[str, Callable[..., Any]] = {
    fn.__name__: fn for fn in (effect, admit, send, suppress, check, wait, deaf, child, below)
}
