"""The agent loop: what a step costs against a bare ``while`` loop, and how soon a run comes back from each phase."""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from loops import Gate, Played, Writing, calls
from table import Row, median_of

from turnctl.agent import AgentLoop, Call, Message, Retry, Tool

TITLE = "Agent loop"

_STEPS = 40
_ROUNDS = 15


def _adds(x: int) -> str:
    """Adds one."""
    return str(x + 1)


class _Scripted:
    def __init__(self) -> None:
        self.left = _STEPS

    def complete(self, _messages: list[Any], _tools: list[Any]) -> Any:
        self.left -= 1
        return Message.assistant("go on", [Call("c", "adds", {"x": 3})]) if self.left else "done"


def _with_loop() -> float:
    loop = AgentLoop(_Scripted(), [Tool(_adds, name="adds")])
    begin = time.perf_counter()
    loop.run("go")
    return (time.perf_counter() - begin) / _STEPS * 1e6


def _bare() -> float:
    model, messages = _Scripted(), [Message.user("go")]
    begin = time.perf_counter()
    while True:
        reply = model.complete(messages, [])
        if isinstance(reply, str):
            break
        messages.append(reply)
        messages.extend(Message.user(_adds(**call.arguments)) for call in reply.calls)
    return (time.perf_counter() - begin) / _STEPS * 1e6


def _two_threads() -> float:
    begin = time.perf_counter()
    for _ in range(2 * _STEPS):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    return (time.perf_counter() - begin) / _STEPS * 1e6


def _phases() -> dict[str, Callable[[Gate], AgentLoop]]:
    def gate_tool(gate: Gate, **options: Any) -> Tool:
        return Tool(gate.pass_through, name="gate", schema={"type": "object"}, **options)

    def memory(name: str, gate: Gate) -> Any:
        return type("Memory", (), {name: gate.pass_through})()

    return {
        "model": lambda g: AgentLoop(Played(g.pass_through)),
        "stream, before its first event": lambda g: AgentLoop(Writing([g.pass_through])),
        "stream, between events": lambda g: AgentLoop(Writing(["a", "b", g.pass_through])),
        "tool": lambda g: AgentLoop(Played(calls("gate")), [gate_tool(g)]),
        "wave of three tools": lambda g: AgentLoop(Played(calls(*["gate"] * 3)), [gate_tool(g)], parallel=3),
        "parked question": lambda g: AgentLoop(
            Played(calls("gate")), [gate_tool(g, approval=True)], ask=g.pass_through
        ),
        "compaction": lambda g: AgentLoop(Played("x"), compactor=g.pass_through),
        "hook before a step": lambda g: AgentLoop(Played("x"), hooks=type("H", (), {"before_step": g.pass_through})()),
        "failure hook": lambda g: AgentLoop(
            Played(OSError()), hooks=type("H", (), {"on_failure": g.pass_through})(), retry=Retry(1)
        ),
        "recall": lambda g: AgentLoop(Played("x"), memory=memory("recall", g)),
        "store": lambda g: AgentLoop(Played(calls("word")), {"word": lambda: "x"}, memory=memory("store", g)),
        "consolidation": lambda g: AgentLoop(Played("x"), memory=memory("consolidate", g)),
    }


def _stop_ms(make: Callable[[Gate], AgentLoop]) -> float:
    took: list[float] = []
    for _ in range(_ROUNDS):
        with Gate() as gate:
            loop = make(gate)
            at: list[float] = []

            def stop(gate: Gate = gate, loop: AgentLoop = loop, at: list[float] = at) -> None:
                gate.reached.wait()
                at.append(time.perf_counter())
                loop.cancel()

            stopper = threading.Thread(target=stop)
            stopper.start()
            loop.run("go")
            took.append((time.perf_counter() - at[0]) * 1e3)
            stopper.join()
    return statistics.median(took)


def rows() -> list[Row]:
    """What ``run.py`` prints."""
    cost = median_of({"loop": _with_loop, "bare": _bare, "threads": _two_threads}, rounds=15)
    over = cost["loop"] - cost["bare"]
    found = [
        Row("a step with one tool, over a bare while loop", over, "us", target=200),
        Row("the same, against two threads started and joined", cost["loop"], "us", "two threads", cost["threads"]),
    ]
    found += [Row(f"stop in: {name}", _stop_ms(make), "ms", target=100) for name, make in _phases().items()]
    return found
