"""Tokens and turns: the cost of a check, of making one, of a turn, and how soon a waiter runs again."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import tracemalloc
from typing import Any

from table import Row, median_of, per_call_ns

import turnctl

TITLE = "Tokens and turns"


def rivals() -> dict[str, tuple[str, dict[str, object]]]:
    found: dict[str, tuple[str, dict[str, object]]] = {}
    try:
        from cantok import SimpleToken

        found["cantok SimpleToken.check()"] = ("t.check()", {"t": SimpleToken()})
    except ImportError:
        print("cantok is not installed: left out", file=sys.stderr)
    try:
        import cancelscope

        # its check looks for the scope of the context; entered for the length of the process
        cancelscope.CancelScope().__enter__()
        found["cancelscope checkpoint()"] = ("c()", {"c": cancelscope.checkpoint})
    except ImportError:
        print("cancelscope is not installed: left out", file=sys.stderr)
    return found


def checks() -> list[Row]:
    token = turnctl.CancelToken()
    with turnctl.turn() as turn:
        bound = per_call_ns(
            {"is_set": ("e.is_set()", {"e": threading.Event()}), "check": ("c()", {"c": turnctl.check})}
        )
        assert not turn.cancelled
    found = per_call_ns(
        {
            "Event.is_set()": ("e.is_set()", {"e": threading.Event()}),
            "token.check()": ("t.check()", {"t": token}),
            "TurnEvent.is_set()": ("e.is_set()", {"e": turnctl.TurnEvent()}),
            "check() unbound": ("c()", {"c": turnctl.check}),
            **rivals(),
        }
    )
    base = found["Event.is_set()"]
    rows = [
        Row("token.check()", found["token.check()"], "ns", "Event.is_set()", base, 1.15),
        Row("TurnEvent.is_set()", found["TurnEvent.is_set()"], "ns", "Event.is_set()", base),
        Row("turnctl.check(), bound", bound["check"], "ns", "Event.is_set()", bound["is_set"], 2),
        Row("turnctl.check(), not bound", found["check() unbound"], "ns", "Event.is_set()", base, 3),
    ]
    for name in found:
        if name.startswith("can"):
            target = 20 if name.startswith("cantok") else None
            rows.append(Row(name, found[name], "ns", "token.check()", found["token.check()"], target, at_least=True))
    return rows


def making() -> list[Row]:
    found = per_call_ns(
        {
            "Event()": ("Event()", {"Event": threading.Event}),
            "CancelToken()": ("T()", {"T": turnctl.CancelToken}),
            "TurnToken()": ("T('t')", {"T": turnctl.TurnToken}),
            "TurnEvent()": ("T()", {"T": turnctl.TurnEvent}),
            "turn": ("with turn(): pass", {"turn": turnctl.turn}),
            "turn in a session": ("with turn('s'): pass", {"turn": turnctl.turn}),
        }
    )
    base = found["Event()"]
    return [
        Row("CancelToken()", found["CancelToken()"], "ns", "Event()", base, 0.25),
        Row("TurnToken(id)", found["TurnToken()"], "ns", "Event()", base),
        Row("TurnEvent()", found["TurnEvent()"], "ns", "Event()", base),
        Row("begin and end", found["turn"] / 1000, "us", target=15),
        Row("begin and end in a session", found["turn in a session"] / 1000, "us", target=15),
    ]


def tree() -> list[Row]:
    def ours() -> float:
        parent = turnctl.CancelToken()
        kids = [parent.child() for _ in range(1000)]
        start = time.perf_counter()
        parent.cancel()
        took = time.perf_counter() - start
        assert all(kid.cancelled for kid in kids)
        return took * 1e6

    def events() -> float:
        made = [threading.Event() for _ in range(1000)]
        start = time.perf_counter()
        for event in made:
            event.set()
        return (time.perf_counter() - start) * 1e6

    found = median_of({"ours": ours, "events": events})
    return [
        Row("cancel 1,000 idle children", found["ours"], "us", "set 1,000 Events", found["events"], 0.5),
        Row("memory of an idle child", _bytes_per_child(), "B", target=250),
    ]


def _bytes_per_child() -> float:
    count = 10_000
    gc.collect()
    tracemalloc.start()
    parent = turnctl.CancelToken()
    keep: list[Any] = [None] * count
    before = tracemalloc.get_traced_memory()[0]
    for i in range(count):
        keep[i] = parent.child()
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - before) / count


def wakes(count: int = 400) -> list[Row]:
    """The time from the set to the waiter running again, the two kinds taken in turn."""
    found: dict[str, list[float]] = {"event": [], "latch": [], "token": [], "sleep": []}
    for _ in range(count):
        event = threading.Event()
        found["event"].append(_wake(event.wait, event.set))
        latch = turnctl.TurnEvent()
        found["latch"].append(_wake(latch.wait, latch.set))
        token = turnctl.CancelToken()
        found["token"].append(_wake(token.event.wait, token.cancel))
        sleeper = turnctl.CancelToken()
        found["sleep"].append(_wake(_sleeping(sleeper), sleeper.cancel))
    for values in found.values():
        values.sort()

    def at(name: str, share: float) -> float:
        return found[name][int(len(found[name]) * share)]

    return [
        Row("TurnEvent.set() wakes wait(), p50", at("latch", 0.5), "us", "Event.set()", at("event", 0.5), 1.1),
        Row("TurnEvent.set() wakes wait(), p90", at("latch", 0.9), "us", "Event.set()", at("event", 0.9)),
        # this one also writes down who asked and why, before it wakes anybody
        Row("cancel() wakes event.wait(), p50", at("token", 0.5), "us", "Event.set()", at("event", 0.5), 1.1),
        Row("cancel() wakes event.wait(), p90", at("token", 0.9), "us", "Event.set()", at("event", 0.9)),
        Row("cancel() wakes turn.sleep(), p50", at("sleep", 0.5), "us", "Event.set()", at("event", 0.5)),
    ]


def _sleeping(token: turnctl.CancelToken) -> Any:
    from turnctl.waiting.wait import sleep

    def block() -> None:
        try:
            sleep(token, 60)
        except turnctl.CancelledError:
            pass

    return block


def _wake(block: Any, fire: Any) -> float:
    woken: list[float] = []
    parked = threading.Event()

    def wait() -> None:
        parked.set()
        block()
        woken.append(time.perf_counter())

    thread = threading.Thread(target=wait)
    thread.start()
    parked.wait()
    time.sleep(0.002)  # until the other thread is parked; too early only makes the figure better for both
    start = time.perf_counter()
    fire()
    thread.join()
    return (woken[0] - start) * 1e6


def imports() -> list[Row]:
    def cost(module: str) -> float:
        program = f"import time; a = time.perf_counter(); import {module}; print(time.perf_counter() - a)"
        return float(subprocess.check_output([sys.executable, "-c", program])) * 1000

    found = median_of({m: lambda m=m: cost(m) for m in ("turnctl", "attrs", "threading", "turnctl.turns")}, 7)  # type: ignore[misc]
    return [
        Row("import turnctl", found["turnctl"], "ms", "import attrs + 15 ms:", found["attrs"] + 15, 1),
        Row("import turnctl.turns (the first turn)", found["turnctl.turns"], "ms", "import attrs", found["attrs"]),
    ]


def rows() -> list[Row]:
    return [*checks(), *making(), *tree(), *wakes(), *imports()]
