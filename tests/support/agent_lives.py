"""An agent that is killed again and again, at points that chance has chosen, and goes on from what it kept.

    python agent_lives.py FOLDER SEED KILLS

What got out stands in ``journal``, which knows nothing of the ledger. Each life is a process of its own, by a fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turnctl
from turnctl.agent import Acts, AgentLoop, Call, Message, RunCheckpoint, Tool

STEPS = 3
#: a life without a death has some forty
POINTS = 22


def keeper(path: Path, point: Callable[[], object] = lambda: None) -> Callable[[RunCheckpoint], None]:
    """What keeps checkpoints in a file that is whole at any time."""

    def keep(checkpoint: RunCheckpoint) -> None:
        point()
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(checkpoint.as_dict()))
        point()
        fresh.replace(path)
        point()

    return keep


def life(folder: Path, kill_at: int, parallel: int) -> None:
    """One life: to its end, or to the point at which it is killed."""
    reached = 0
    kept = folder / "checkpoint.json"

    def point() -> None:
        nonlocal reached
        reached += 1
        if reached == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def model(messages: list[Message], _: list[Any]) -> Message | str:
        point()
        n = sum(bool(one.calls) for one in messages)
        if n >= STEPS:
            return "done"
        wanted = [f"{n}-a", f"{n}-b", *([f"{n - 1}-b"] if n else [])]  # the last one of the step before, once more
        return Message.assistant("", [Call(f"c{n}.{k}", "send", {"to": to}) for k, to in enumerate(wanted)])

    def send(to: str) -> str:
        point()
        with (folder / "journal").open("a") as journal:
            journal.write(f"{to}\n")
        point()
        return f"250 ok {to}"

    tool = Tool(send, effect=Acts("mail.send", key=lambda arguments: str(arguments["to"])))
    with turnctl.open_ledger(str(folder / "ledger.db")) as ledger:
        loop = AgentLoop(model, [tool], ledger=ledger, parallel=parallel, checkpoint=keeper(kept, point))
        last = RunCheckpoint.from_dict(json.loads(kept.read_text())) if kept.exists() else None
        if last is not None and last.stop_reason == "completed":  # it was killed when all was done, and that was kept
            feed = [one.as_dict() for one in last.transcript if one.is_fed]
            (folder / "result.json").write_text(json.dumps({"stop_reason": "completed", "error": "", "feed": feed}))
            return
        result = loop.run("go") if last is None else loop.resume(last)
        feed = [one.as_dict() for one in loop.history.feed]
        told = {"stop_reason": result.stop_reason, "error": repr(result.error), "resumes": result.record.resumes}
        (folder / "result.json").write_text(json.dumps({**told, "steps": len(result.record.steps), "feed": feed}))


def main(folder: Path, seed: int, kills: int) -> None:
    """Lives until one has come to its end; prints how many were killed."""
    chance = random.Random(seed)
    killed = 0
    while True:
        kill_at, parallel = (chance.randrange(1, POINTS) if killed < kills else 0), chance.choice([1, 3])
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                life(folder, kill_at, parallel)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != -signal.SIGKILL:
            print(code, killed)
            return
        killed += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
