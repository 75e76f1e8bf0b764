"""Small process shapes that ordinary stops miss, as commands. Each writes one line when it stands.

Every process of a shape has the tag in its argv, so that a test can count from outside who lives. All of them end by
themselves after a minute, and what forks does so a bounded number of times.
"""

from __future__ import annotations

import sys

_HEAD = """
import os, sys, time, signal
tag = sys.argv[1]
def stay():
    os.execvp("sleep", ["sleep", tag])
def away(*, env=None):
    'A child in a session of its own, which stays.'
    out, there = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(there)
        os.execvpe("sleep", ["sleep", tag], os.environ if env is None else env)
    os.close(there)
    os.read(out, 1)
def daemon(*, env=None):
    'The same, and an orphan by now.'
    middle = os.fork()
    if middle == 0:
        os.setsid()
        away(env=env)
        os._exit(0)
    os.waitpid(middle, 0)
def deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
def ready():
    os.write(1, b"ready\\n")
"""

_BODIES = {
    "plain": "ready(); stay()",
    "deaf": "deaf(); ready(); stay()",
    "away": "away(); ready(); stay()",
    "daemon": "daemon(); ready(); stay()",
    "daemon without environment": "daemon(env={}); ready(); stay()",
    "deaf daemon": "deaf(); daemon(); ready(); stay()",
    "stopped": """
if os.fork() == 0:
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()
os.waitid(os.P_ALL, 0, os.WSTOPPED)
ready(); os.kill(os.getpid(), signal.SIGSTOP); stay()
""",
    "forks when asked": """
def on_term(number, frame):
    deaf()
    daemon()
    away()
signal.signal(signal.SIGTERM, on_term)
ready()
while True: time.sleep(60)
""",
    "chain": """
for _ in range(20):
    if os.fork():
        deaf()
        if _ == 0: os.waitid(os.P_ALL, 0, os.WEXITED)
        stay()
    os.setsid()
ready(); stay()
""",
    "crowd": """
deaf()
out, there = os.pipe()
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: os.setsid()
        stay()
os.close(there)
os.read(out, 1)  # all have become what they stay
ready(); stay()
""",
    "hopper": """
deaf()
out = 1
ready()
for _ in range(20000):
    if os.fork(): os._exit(0)
    os.setsid()
stay()
""",
    "storm": """
deaf()
ready()
def breed(depth):
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if depth: breed(depth - 1)
            stay()
breed(2)
stay()
""",
    "only a thread": """
import _thread, ctypes, threading
on = threading.Event()
def compute():
    on.wait()
    time.sleep(0.05)
    ready()
    while True: time.sleep(60)
_thread.start_new_thread(compute, ())
on.set()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
""",
    "adopts": """
import ctypes
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
deaf(); daemon(); ready(); stay()
""",
    "kills its parent": """
deaf(); away(); daemon()
ready(); os.kill(os.getppid(), signal.SIGKILL); stay()
""",
    "leaves a daemon": "daemon(); ready()",
}

NAMES = sorted(_BODIES)


def shape(name: str, tag: str) -> list[str]:
    """The command that builds the shape ``name``."""
    return shape_of(_BODIES[name], tag)


def shape_of(body: str, tag: str, *more: str) -> list[str]:
    """The command that runs ``body`` behind the helpers above."""
    return [sys.executable, "-I", "-S", "-c", _HEAD + body, tag, *more]


def body_of(name: str) -> str:
    """What builds the shape ``name``, behind the helpers above."""
    return _BODIES[name]
