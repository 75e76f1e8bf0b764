"""A process of a recipe: it opens the ledger, and does what it is told by lines of JSON on stdin, one at a time.

Worker, replacement, canceller and reconciler are this one program; each is what it is told to do. Only what a host has
is used of turnctl: ``open_ledger``, ``submit``, ``turn(task=...)``, ``turn.effect``, ``cancel``, ``reconcile``. Where
it is held is for the failpoints to say, by its environment. Each order is answered by one line: ``{"ok": ...}``, or
``{"error": ..., "code": ..., "text": ...}`` with what was raised.

An order is the name of a function of ``ORDERS``, or ``module:function`` of this folder, with its arguments.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from client import Client

import turnctl

__all__ = ["Actor", "main"]


class Actor:
    """What a function that carries out an order is given."""

    def __init__(self, url: str, port: int, credential: str, peer: int) -> None:
        self.ledger = turnctl.open_ledger(url)
        self.receiver = Client(port, credential)
        #: the other process of a race, where there is one
        self.peer = socket.socket(fileno=peer) if peer >= 0 else None
        # not "rw": to write by that forgets what was read ahead, and the other one may be a meeting ahead
        self.peers_words = None if self.peer is None else self.peer.makefile("r", encoding="ascii")

    def say(self, **what: Any) -> None:
        print(json.dumps(what), flush=True)

    def hear(self) -> dict[str, Any] | None:
        line = sys.stdin.readline()
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found

    def meet(self, word: str = "") -> str:
        """Wait until the other process is here too; the word that it brings."""
        assert self.peer is not None
        assert self.peers_words is not None
        self.peer.sendall(f"{word}\n".encode())
        return self.peers_words.readline().strip()

    def task(self, inc: str) -> turnctl.LedgerTask:
        found = self.ledger.incarnation(inc)
        assert found is not None, f"there is no incarnation {inc}"
        return found

    def obey(self, orders: dict[str, Callable[..., Any]], order: dict[str, Any], *args: Any) -> None:
        """Do it, and answer; a stop of the turn is an answer as well."""
        name = order.pop("do")
        try:
            module, _, function = name.rpartition(":")
            fn = getattr(importlib.import_module(module), function) if module else orders[name]
            self.say(ok=fn(self, *args, **order))
        except (Exception, turnctl.CancelledError) as error:
            self.say(error=type(error).__name__, code=getattr(error, "code", None), text=str(error))


def submit(me: Actor, tenant: str = "acme", task_id: str = "job", **how: Any) -> str:
    return me.ledger.submit(tenant, task_id, **how).inc


def cancel(me: Actor, inc: str, by: str = "alice", **how: Any) -> dict[str, Any]:
    """Cancel it; what is on record, or why not."""
    found = me.ledger.cancel(me.task(inc), by=by, **how)
    if not found:
        return {"refused": found.code}
    return {"cr": found.cr, "rev": found.accepted_rev}


def reconcile(me: Actor, **how: Any) -> list[list[Any]]:
    """Ask the receiver about whatever is unknown: id, what is known now, who should look."""
    found = me.ledger.reconcile({"mail.send": me.receiver.look_up}, **how)
    return [[one.effect.effect_id, one.effect.disposition, one.escalation] for one in found]


def post(me: Actor, effect_id: str, payload: str = "again") -> str:
    """Send something past the ledger, as no one should."""
    return me.receiver.post(effect_id, payload.encode())


def report(me: Actor, inc: str) -> str:
    return str(me.ledger.report(me.task(inc)))


def work(me: Actor, inc: str, *, force: bool = False) -> dict[str, Any]:
    """Take the task up, and obey further orders as its worker until one says ``end``; how it came out."""
    from worker import Worker

    return Worker(me, me.task(inc), force=force).run()


ORDERS: dict[str, Callable[..., Any]] = {
    "submit": submit,
    "cancel": cancel,
    "reconcile": reconcile,
    "post": post,
    "report": report,
    "work": work,
}


def main() -> None:
    me = Actor(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    me.say(ok=os.getpid())
    while (order := me.hear()) is not None:
        me.obey(ORDERS, order)
    me.ledger.close()
