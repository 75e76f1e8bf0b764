"""Waiting costs nothing while nothing happens, and waking many costs what it must (promise 8)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sized

import pytest
from launch import ROOT
from standins import Background, is_parked, until

from turnctl import CancelledError
from turnctl.tokens.token import TurnToken
from turnctl.waiting.locks import Lock, acquire
from turnctl.waiting.queues import SimpleQueue, get
from turnctl.waiting.wait import sleep

IDLE = r"""
import glob, json, os, queue, subprocess, threading, time
from concurrent.futures import Future
import turnctl
from turnctl.waiting.locks import Lock
from turnctl.waiting.queues import SimpleQueue

def switches():
    found = {}
    for path in glob.glob("/proc/self/task/*/status"):
        lines = dict(line.split(":", 1) for line in open(path))
        found[path] = int(lines["voluntary_ctxt_switches"])
    return found

def under(fn):
    try:
        fn()
    except turnctl.CancelledError:
        woken.append(1)

def locked(lock):
    lock.acquire()
    return lock

def predicate(condition):
    with condition:
        turn.wait(lambda: False, on=condition)

woken = []
turn = turnctl.turn()
turn.begin()
child = subprocess.Popen(["sleep", "60"])
read, write = os.pipe()
shared = queue.Queue()
waits = [
    lambda: turn.sleep(60), lambda: turn.sleep(60), lambda: turn.wait(threading.Event(), 60),
    lambda: turn.wait(threading.Event()), lambda: turn.wait(turnctl.TurnEvent()), lambda: turn.wait(Future()),
    lambda: list(turn.as_completed([Future(), Future()])), lambda: predicate(threading.Condition()),
    lambda: turn.wait(child), lambda: turn.wait(child, 60), lambda: turn.get(queue.Queue()), lambda: turn.get(shared),
    lambda: turn.get(shared, 60), lambda: turn.get(queue.PriorityQueue()), lambda: turn.get(SimpleQueue()),
    lambda: turn.acquire(threading.Semaphore(0)), lambda: turn.acquire(locked(Lock())), lambda: turn.select([read]),
    lambda: turn.select([read], timeout=60), lambda: turn.acquire(threading.Semaphore(0), 60),
]
threads = [threading.Thread(target=under, args=(waits[n % len(waits)],), daemon=True) for n in range(50)]
for thread in threads:
    thread.start()
token = turn.token
give_up_at = time.monotonic() + 20
parts = token._grow()
while len(parts.waiters) + len(parts.bells) < 50 and time.monotonic() < give_up_at:
    time.sleep(0.01)
standing = len(parts.waiters) + len(parts.bells)
main = f"/proc/self/task/{threading.get_native_id()}/status"
time.sleep(0.2)
cpu, before = time.process_time(), switches()
time.sleep(1)
after = switches()
cpu = time.process_time() - cpu
turn.cancel()
for thread in threads:
    thread.join(10)
child.kill()
child.wait()
notes = turn.report.notes
turnctl.end_turn(turn)
ups = sum(after[path] - before[path] for path in before if path != main)
print(json.dumps({"standing": standing, "ups": ups, "cpu": cpu, "woken": len(woken), "notes": notes}))
"""


def test_fifty_blocked_waits_do_not_wake() -> None:
    """Fifty waits of every kind that does not poll: not one thread runs within a second, and the stop wakes all."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    found = json.loads(done.stdout)

    assert {"standing": 50, "ups": 0, "woken": 50, "notes": []} == {k: found[k] for k in found if k != "cpu"}
    assert found["cpu"] < 0.05


def woken_after(count: int, wait: Callable[[], object], waiters: Sized, stop: Callable[[], object]) -> float:
    """Seconds from the stop until the last of so many waiters has come back."""
    threads = [Background(wait) for _ in range(count)]
    assert until(lambda: len(waiters) >= count)
    begun = time.monotonic()
    stop()
    for thread in threads:
        thread.error()
    return max(thread.ended_at or 0 for thread in threads) - begun


def test_thousand_waits_on_one_token() -> None:
    """The last of a thousand comes back within the bound, or as a bare Event has it on a machine that is busy."""
    token, event = TurnToken("t"), threading.Event()
    bare = woken_after(1000, lambda: event.wait(60), event._cond._waiters, event.set)  # type: ignore[attr-defined]
    took = woken_after(1000, lambda: sleep(token, 60), token._grow().waiters, token.cancel)

    assert took < max(1, 10 * bare)
    assert [] == token._grow().waiters


@pytest.mark.parametrize("kind", ["queue", "lock"])
def test_hundred_waiters_are_woken_one_by_one(kind: str) -> None:
    """A put and a release wake one waiter each, not the herd."""
    token = TurnToken("t")
    source: SimpleQueue[int] = SimpleQueue()
    lock = Lock()
    lock.acquire()
    if kind == "queue":
        waiters = [Background(get, token, source) for _ in range(100)]
    else:
        waiters = [Background(acquire, token, lock) for _ in range(100)]  # type: ignore[misc]
    inside = source._waiters if kind == "queue" else lock._waiters
    assert is_parked(inside, 100)
    assert is_parked(token._grow().waiters, 100)
    if kind == "queue":
        source.put(1)
    else:
        lock.release()
    asleep = len(inside)
    one_has_it = until(lambda: sum(waiter.is_running for waiter in waiters) == 99)
    token.cancel()
    errors = [waiter.error() for waiter in waiters]

    assert 99 == asleep
    assert one_has_it
    assert 99 == len([error for error in errors if isinstance(error, CancelledError)])
