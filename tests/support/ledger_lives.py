"""Lives of processes over a ledger, to be ended by SIGKILL anywhere: each tells what it was told before it goes on.

``python -c "from ledger_lives import nursery; nursery()"`` forks one process for each life that it is asked for on
stdin, waits for its end and answers with its status. A life writes a line into its journal after each thing that it was
told, and the receiver's journal is written by whoever sends.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from ledger_upkeep import purge, record

import turnctl
from turnctl import points
from turnctl.ledger import Answer, Request, failpoints

__all__ = ["LIVES", "LOADED_ON_USE", "Life", "arrivals", "arrived", "granted", "nursery"]


class Life:
    """What one life has: the ledger, its two journals, and the moment from which on it may be killed."""

    def __init__(self, folder: str, arm: Callable[[], None], name: str = "1") -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.url, self.folder = f"{folder}/ledger.db", folder
        self.arm = arm
        # of its own, since a write that is killed may be torn
        self._told = os.open(f"{folder}/told.{name}", flags, 0o600)
        self._received = os.open(f"{folder}/received.{name}", flags, 0o600)

    def open(self) -> turnctl.Ledger:
        return turnctl.open_ledger(self.url, authorise=granted)

    def tell(self, what: str, **more: Any) -> None:
        """Keep what this process was just told, or ``what`` it begins."""
        os.write(self._told, json.dumps([what, more]).encode() + b"\n")

    def receive(self, effect: Any) -> str:
        """Be the receiver: keep what arrived, and give the receipt."""
        sha = sha256(effect.payload).hexdigest()
        os.write(self._received, f"{effect.effect_id} {sha}\n".encode())
        return f"got {effect.effect_id}"

    # -- what lives have in common ------------------------------------------------------------------------------

    def submit(self, ledger: turnctl.Ledger, task_id: str, **how: Any) -> turnctl.LedgerTask:
        task = ledger.submit("acme", task_id, **how)
        parent = how.get("parent")
        self.tell("submitted", inc=task.inc, parent=parent and parent._ruling.inc)
        return task

    def leased(self, turn: turnctl.Turn) -> None:
        ruling: Any = turn._ruling
        if ruling.gen:  # none where it was born cancelled
            self.tell("leased", inc=ruling.inc, gen=ruling.gen)

    def send(self, turn: turnctl.Turn, key: str, **how: Any) -> None:
        """An effect from the gate to its receipt."""
        with turn.effect("mail.send", key=key, payload=f"letter {key}", **how) as effect:
            self.tell("claimed", effect=effect.effect_id)
            self._got(effect)

    def _got(self, effect: Any) -> None:
        receipt = self.receive(effect)
        effect.complete(receipt)
        self.tell("closed", effect=effect.effect_id, disposition="completed", receipt=receipt)

    def admit(self, turn: turnctl.Turn, key: str) -> Any:
        effect = turn.effect("mail.send", key=key, payload=f"letter {key}").admit()
        self.tell("admitted", effect=effect.effect_id)
        return effect

    def lose(self, turn: turnctl.Turn, key: str, *, arrives: bool) -> str:
        """An effect whose body is left by an exception."""
        with suppress(ValueError), turn.effect("mail.send", key=key, payload=f"letter {key}") as effect:
            self.tell("claimed", effect=effect.effect_id)
            if arrives:
                self.receive(effect)
            raise ValueError(key)
        self.tell("closed", effect=effect.effect_id, disposition="unknown")
        return str(effect.effect_id)

    def cancel(self, ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> None:
        record = ledger.cancel(task, by="alice", reason="enough")
        assert record, record
        self.tell("cancelled", inc=task.inc, cr=record.cr, rev=record.accepted_rev)


def granted(request: Request) -> bool | str:
    """Everything within the tenant, by the authority of a text."""
    return "decided by bob" if request.tenant == request.task.tenant else False


# -- the lives ----------------------------------------------------------------------------------------------------


def work(life: Life) -> None:
    """A worker that does a bit of everything, and completes."""
    life.arm()
    with life.open() as ledger:
        task = life.submit(ledger, "a")
        with turnctl.turn(task=task, grace=1) as turn:
            life.leased(turn)
            life.send(turn, "1")
            gone = life.admit(turn, "2")
            gone.suppress()
            life.tell("suppressed", effect=gone.effect_id)
            with life.admit(turn, "3") as later:
                life.tell("claimed", effect=later.effect_id)
                life._got(later)
            life.lose(turn, "4", arrives=True)
            with turn.share("done") as share:
                life.tell("interested", inc=task.inc, key="acme/done")
                share.end()
                life.tell("shared", key="acme/done", state="ended")
            with turn.share("dropped"):
                life.tell("interested", inc=task.inc, key="acme/dropped")
            life.tell("shared", key="acme/dropped", state="cancel_requested")
            life.submit(ledger, "b", parent=turn)
            with turnctl.turn(grace=1) as inner:
                life.leased(inner)
                life.send(inner, "5")
            life.admit(turn, "6")
        assert "completed" == turn.outcome, turn.report
        life.tell("over", inc=task.inc, state="completed")


def be_stopped(life: Life) -> None:
    """A worker with a child, interest, effects before and after the claim, that is cancelled in the midst."""
    life.arm()
    with life.open() as ledger:
        task = life.submit(ledger, "a")
        with turnctl.turn(task=task, grace=1) as turn:
            life.leased(turn)
            life.submit(ledger, "b", parent=turn)
            life.admit(turn, "1")
            with turn.share("d"), turn.effect("mail.send", key="2", payload="letter 2") as sent:
                life.tell("interested", inc=task.inc, key="acme/d")
                life.tell("claimed", effect=sent.effect_id)
                life.cancel(ledger, task)
                life._got(sent)
                life.send(turn, "3")
        assert "cancelled" == turn.outcome, turn.report
        second = life.submit(ledger, "c")
        with turnctl.turn("stopped", task=second, grace=1) as turn:
            life.leased(turn)
            life.lose(turn, "4", arrives=False)
            turnctl.stop("stopped", reason="enough")
            life.send(turn, "5")
        assert "cancelled" == turn.outcome, turn.report
        life.tell("stopped", inc=second.inc)


def own(life: Life) -> None:
    """A worker with a command, something of its own and a child that goes to another owner."""
    life.arm()
    with life.open() as ledger:
        task = life.submit(ledger, "a")
        with turnctl.turn(task=task, grace=1) as turn:
            life.leased(turn)
            owning: Any = turn._ruling.owning  # type: ignore[union-attr]
            next(owning._start_once)  # written by hand, so that it comes as often in every life
            part = life.submit(ledger, "b", parent=turn)
            turn.detach(part, owner="nightly", contract="runs until it is done")
            life.tell("detached", inc=task.inc, ref=part.inc)
            turn.run(["true"])
            owning.flush()
            life.tell("owned", inc=task.inc, name="true", stopped=True)
            with turn.activity("model", "m"):
                owning.flush()
                life.tell("owned", inc=task.inc, name="m", stopped=False)
                life.cancel(ledger, task)
        assert "cancelled" == turn.outcome, turn.report


def look_after(life: Life) -> None:
    """Who comes after workers that died: reconciles, closes, makes good, is refused, and cancels what is left."""
    with life.open() as ledger:
        for name in "abc":
            life.submit(ledger, name)
    _die_sending(life, "a", "c")
    with life.open() as ledger:
        task, other, third = (ledger.task("acme", name) for name in "abc")
        assert task is not None
        assert other is not None
        assert third is not None
        life.cancel(ledger, task)
        life.arm()
        assert not ledger.cancel(task, by="mallory", tenant="evil")
        for found in ledger.reconcile({"mail.send": lambda effect: arrived(life.folder, effect.effect_id)}):
            life.tell("closed", effect=found.effect.effect_id, disposition=found.effect.disposition)
        with turnctl.turn(task=other, grace=1) as turn:
            life.leased(turn)
            effect_id = life.lose(turn, "1", arrives=False)
        life.tell("over", inc=other.inc, state="completed")
        ledger.close_unknown(effect_id, by="bob", reason="nobody will know", tenant="acme")
        life.tell("closed_by", effect=effect_id, by="bob")
        with ledger.compensate(effect_id, "mail.recall", by="bob", key="1", payload="sorry", tenant="acme") as good:
            life.tell("claimed", effect=good.effect_id)
            life._got(good)
        life.cancel(ledger, third)


def _die_sending(life: Life, *names: str) -> None:
    """Be a worker of each that dies with two effects on the way, of which one has arrived."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    ledger = life.open()
    for name in names:
        task = ledger.task("acme", name)
        turn = turnctl.turn(task=task, inherit=False)
        turn.begin()
        life.leased(turn)
        for key in "12":
            effect = turn.effect("mail.send", key=key, payload=f"letter {key}").__enter__()
            life.tell("claimed", effect=effect.effect_id)
            if key == "1":
                life.receive(effect)
    os.kill(os.getpid(), 9)


def arrivals(folder: str) -> list[tuple[str, str]]:
    """What has arrived at the receiver: effects, and the hash of what came."""
    found = []
    for path in Path(folder).glob("received.*"):
        lines = path.read_text().splitlines(keepends=True)
        found += [(one.split()[0], one.split()[1]) for one in lines if one.endswith("\n")]
    return found


def arrived(folder: str, effect_id: str) -> Answer:
    """What the receiver says of an effect, by its journals alone. Nobody may be sending it any more."""
    got = any(one == effect_id for one, _ in arrivals(folder))
    return Answer("completed", f"got {effect_id}") if got else Answer("rejected", f"never got {effect_id}")


def cancel(life: Life) -> None:
    """A canceller, of the incarnation that the file ``target`` names."""
    with open(f"{life.folder}/target", encoding="ascii") as file:
        inc = file.read()
    with life.open() as ledger:
        life.arm()
        record = ledger.cancel(inc, by="alice", tenant="acme", reason="enough")
        assert record, record
        life.tell("cancelled", inc=inc, cr=record.cr, rev=record.accepted_rev)


#: those that make what they need, and come to every failpoint between them
LIVES: dict[str, Callable[[Life], None]] = {
    "work": work,
    "be_stopped": be_stopped,
    "own": own,
    "look_after": look_after,
    "purge": purge,
    "record": record,
}
_OTHERS: dict[str, Callable[[Life], None]] = {"cancel": cancel}


LOADED_ON_USE = (
    *("ledger.opening", "ledger.whereabouts", "ledger.acting", "ledger.sharing", "ledger.compensating"),
    *("ledger.purging", "ledger.runs", "processes.command"),
    *("ledger.reconciling", "tokens.ending", "tokens.reporting", "tokens.bridge", "tokens.callbacks"),
)


# -- the nursery --------------------------------------------------------------------------------------------------


def nursery() -> None:
    """Bear a process for each line of stdin: name of the life, folder, and failpoints; answer with its status."""
    for module in LOADED_ON_USE:  # once, not in each of them
        import_module(f"turnctl.{module}")
    for line in sys.stdin:
        name, folder, armed = json.loads(line)
        pid = os.fork()
        if not pid:
            _live(name, folder, armed)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _live(name: str, folder: str, armed: str | None) -> NoReturn:
    reached: list[str] = []

    def arm() -> None:
        if armed is None:
            points.hook = reached.append
        else:
            failpoints.arm(armed)

    status = 1
    try:
        (LIVES | _OTHERS)[name](Life(folder, arm))
        with open(f"{folder}/reached", "w", encoding="ascii") as file:
            file.writelines(f"{one}\n" for one in reached)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
