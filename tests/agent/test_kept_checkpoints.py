"""What a killed process has left of a run: a checkpoint that fits its schema, and that another loop goes on from."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Never

import pytest
from agent_lives import keeper
from loops import Played, feed_is_strict
from schemas import fits

from turnctl.agent import AgentLoop, Call, Message, Reply, Tool, Usage


class Host:
    """All that a loop may be made of; whoever comes to ``phase`` for that many times dies there."""

    def __init__(self, phase: str, times: int) -> None:
        self.phase = phase
        self.left = times
        self.replies = 0

    def reach(self, phase: str) -> None:
        if phase == self.phase:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)

    def __getattr__(self, name: str) -> Any:
        """Hooks and memory: each is a phase of its name."""
        if name not in PHASES:
            raise AttributeError(name)
        return lambda *_: self.reach(name)

    def compact(self, messages: tuple[Message, ...]) -> list[Message] | None:
        self.reach("compact")
        return [Message.user("in short"), *messages[-2:]] if len(messages) > 4 else None

    def stream(self, *_: Any) -> Iterator[Any]:
        yield "let me "
        self.reach("a reply")
        self.replies += 1
        wanted = [Call(f"{self.replies}-{name}", name) for name in ("work", "send", "fail") if self.replies < 3]
        yield Reply(Message.assistant("let me see", wanted), usage=Usage(5, 2, cost=0.5))

    def complete(self, *_: Any) -> Never:
        raise AssertionError("it is read while it writes")

    def work(self) -> str:
        self.reach("a tool")
        return "done"

    def fail(self) -> str:
        raise OSError("no")

    def ask(self, _: Any) -> bool:
        self.reach("ask")
        return True


#: of each phase, which time it is the second step or the end, and how many calls are pending in what was kept
PHASES = {
    "before_step": (2, 0),
    "recall": (2, 0),
    "compact": (2, 0),
    "demote": (1, 0),
    "a reply": (2, 0),
    "before_tool": (4, 3),
    "a tool": (2, 3),
    "after_tool": (5, 3),
    "ask": (2, 3),
    "store": (5, 3),
    "reflect": (2, 3),
    "after_step": (2, 3),
    "consolidate": (1, 0),
    "on_run_end": (1, 0),
    "written": (5, 0),
    "replaced": (5, 3),
}


def killed(folder: Path, phase: str, times: int) -> dict[str, Any]:
    """The checkpoint that a process has left which was killed there."""
    kept = folder / "checkpoint.json"
    child = os.fork()
    if child == 0:
        try:
            host = Host(phase, times)
            words = itertools.cycle(["", "written", "replaced"])
            tools = [Tool(host.work), Tool(host.fail), Tool(host.work, name="send", approval=True)]
            loop = AgentLoop(
                host,
                tools,
                hooks=host,
                memory=host,
                compactor=host,
                ask=host.ask,
                checkpoint=keeper(kept, lambda: host.reach(next(words))),
            )
            loop.run("go")
        finally:
            os._exit(1)
    assert -signal.SIGKILL == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


@pytest.mark.parametrize("phase", PHASES)
def test_what_a_kill_leaves_fits_and_goes_on(phase: str, tmp_path: Path) -> None:
    """Killed there, it has left a checkpoint that fits; the loop that goes on carries out none of what was pending."""
    times, pending = PHASES[phase]
    left = fits(killed(tmp_path, phase, times))
    called: list[str] = []
    tools = {name: functools.partial(called.append, name) for name in ("work", "send", "fail")}
    loop = AgentLoop(Played("end"), [Tool(fn, name=name, schema={"type": "object"}) for name, fn in tools.items()])
    result = loop.resume(left)

    assert pending == len(left["pending"])
    assert ("completed", []) == (result.stop_reason, called)
    assert result.checkpoint is not None
    assert fits(result.checkpoint.as_dict())["resumes"] == left["run_id"]
    feed_is_strict(loop)
