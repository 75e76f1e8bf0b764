"""``turnctl show --stacks``: where the threads of a turn's program stand now, and where what it started does.

The program is asked, and answers by itself (``ledger.stacks``); of its commands the kernel tells, in ``/proc``. Changes
nothing, signals nobody. Blocks for the answer, ``WITHIN_S`` at most.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from turnctl.cli.codes import Code
from turnctl.cli.members import members
from turnctl.cli.problems import Problem
from turnctl.cli.showing import precise
from turnctl.ledger.identity import Whoever, proof_of_death
from turnctl.ledger.stacks import ask
from turnctl.processes.table import read_entry
from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnctl.ledger.glance import Glance, Glances

__all__ = ["Stacks", "asked"]

SCHEMA = "turnctl.stacks/1"
#: how long the program has to answer
WITHIN_S = 2.0

_PROCESSES = """
SELECT process FROM activity JOIN turn ON turn.inc = activity.inc AND turn.gen = activity.gen
WHERE turn_id = ? AND kind = 'process' AND NOT stopped ORDER BY activity.pos
"""
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in the kernel, uninterruptible",
    "T": "stopped",
    "t": "held by a debugger",
    "I": "idle",
    "Z": "ended",
    "X": "ended",
}


def asked(there: Glances, glance: Glance, path: str) -> Stacks:
    """Ask the program of a turn that goes on. Raises ``Problem`` where it does not, or cannot be asked."""
    if glance.is_over:
        why = "it is over" if glance.lost is None else f"its program is gone: {glance.lost}"
        text = f"turn {glance.turn_id} has no stacks: {why}"
        status = Code.OVER if glance.lost is None else Code.NOT_SO
        raise Problem("not_running", text, f"turnctl show {glance.turn_id} tells what is on record", status)
    (row,) = there.ask("SELECT holder FROM turn WHERE turn_id = ?", [glance.turn_id])
    commands = [Whoever(*json.loads(one)) for (one,) in there.ask(_PROCESSES, [glance.turn_id]) if one is not None]
    holder = Whoever(*json.loads(row[0]))
    try:
        answer = ask(path, glance.inc, within_s=WITHIN_S)
    except OSError as error:
        text = f"the program of turn {glance.turn_id} cannot be asked: {error.filename or path}: {error.strerror}"
        raise Problem("not_asked", text, "turnctl doctor --only state tells more", Code.UNUSABLE) from error
    return Stacks(glance, holder, answer, commands)


class Stacks:
    """What the program of one turn has said, and what the kernel tells of its processes."""

    def __init__(self, glance: Glance, holder: Whoever, answer: dict[str, Any] | None, commands: list[Whoever]) -> None:
        self._glance = glance
        self._answer = answer
        self._why = None if answer is not None else _silence(holder)
        self._processes = list(_processes(commands))

    @property
    def code(self) -> Code:
        """Whether it has answered."""
        return Code.OK if self._answer is not None else Code.TIME_PASSED

    def problem(self) -> str | None:
        """Why there are no stacks."""
        return None if self._why is None else f"no answer within {WITHIN_S:g}s: {self._why}"

    def as_dict(self) -> dict[str, Any]:
        """As one document, schema ``turnctl.stacks/1``."""
        answer = self._answer
        return {
            "schema": SCHEMA,
            "turn_id": self._glance.turn_id,
            "state": self._glance.state,
            "pid": self._glance.pid,
            "answered": answer is not None,
            "why": self.problem(),
            "at": None if answer is None else precise(answer["at"]),
            "python": None if answer is None else answer["python"],
            "threads": [] if answer is None else answer["threads"],
            "processes": self._processes,
        }

    def text(self) -> Iterator[str]:
        """For people, line by line; of each stack the innermost line first."""
        glance, answer = self._glance, self._answer
        yield visible(f"{glance.turn_id}  {glance.state}, process {glance.pid}")
        served = []
        for one in () if answer is None else answer["threads"]:
            stack = _shown(one)
            if not stack:
                served.append(one["name"])
                continue
            yield visible(f"thread {one['name']} ({one['role'] or 'not known to belong to the turn'})")
            for at in stack:
                yield visible(f"  {at['file']}:{at['line']} in {at['function']}")
                if at["code"]:
                    yield visible(f"    {at['code']}")
            if one["is_cut"]:
                yield "  and so on"
        if served:
            yield visible(f"threads with nothing but turnctl on their stacks: {', '.join(served)}")
        for each in self._processes:
            where = "" if each["wchan"] is None else f", in {each['wchan']}"
            threads = "" if each["threads"] == 1 else f", {each['threads']} threads"
            under = "" if each["is_command"] else "  "
            state = f"{each['state']}, {_STATES.get(each['state'], 'not known')}"
            yield visible(f"{under}process {each['pid']} {each['name']}: {state}{where}{threads}")


def _shown(thread: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that tell a person something: without those of ours by which a thread came there."""
    stack: list[dict[str, Any]] = thread["stack"]
    if thread["is_main"]:
        return stack
    last = max((n for n, at in enumerate(stack) if not at["is_ours"]), default=-1)
    return stack[: last + 1]


def _silence(holder: Whoever) -> str:
    """Why a program may not have answered, by what the kernel says of it."""
    death = proof_of_death(holder)
    if death is not None:
        return f"the program is gone: {death}"
    entry = read_entry(holder.pid) if _is_here(holder) else None
    if entry is None:
        return f"process {holder.pid} cannot be seen here: it runs on another machine, or in another container"
    if entry.state in "Tt":
        how = "is stopped" if entry.state == "T" else "is held by a debugger"
        return f"the program {how} ({entry.state}): kill -CONT {holder.pid} has it go on"
    state = _STATES.get(entry.state, "not known")
    return (
        f"the program ({entry.state}, {state}) lets no other thread of its own run, as C code does that computes, or "
        "uses a turnctl that does not know of this"
    )


def _is_here(one: Whoever) -> bool:
    """Whether its number means that very process here."""
    from turnctl.ledger.identity import identity_of

    found = identity_of(one.pid) if one.pid else None
    return found is not None and one.started != 0 and tuple(one) == _plain(found)


def _plain(holder: Any) -> tuple[Any, ...]:
    return tuple(getattr(holder, name) for name in Whoever._fields)


def _processes(commands: list[Whoever]) -> Iterator[dict[str, Any]]:
    """Those commands that are there, each with what belongs to it."""
    for command in commands:
        if not _is_here(command):
            continue
        pids = {pid for _, pid in members(command.pid, is_ours=False)}
        found = sorted(pids, key=lambda pid: (pid != command.pid, pid))
        for pid in found:
            entry = read_entry(pid)
            if entry is not None:
                yield {
                    "pid": pid,
                    "name": entry.name,
                    "is_command": pid == command.pid,
                    "state": entry.state,
                    "wchan": _wchan(pid),
                    "threads": _threads(pid),
                }


def _wchan(pid: int) -> str | None:
    """The function of the kernel that it waits in; None where it does not, or that is not told."""
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii", errors="replace") as file:
            text = file.read(128).strip()
    except OSError:
        return None
    return None if text in ("", "0") else text


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 1
