"""Programs that tests run in an interpreter of their own: those that signal themselves, fork, or exit."""

from __future__ import annotations

import subprocess
import sys
import textwrap

#: What such a program finds ready: modules, and functions for what several of them do.
_HEAD = """
import os, signal, sys, threading, time
import turnctl

def until(condition, within=10):
    end = time.monotonic() + within
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()

def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)

def begun(name):
    turn = turnctl.turn(name)
    turn.begin()
    return turn

def wakeup_fd():
    found = signal.set_wakeup_fd(-1)
    if found != -1:
        signal.set_wakeup_fd(found)
    return found

class InC:
    '''A call to C that gives the interpreter free and that no signal interrupts, until it is let go.'''
    def __init__(self):
        import ctypes
        self.libc = ctypes.CDLL(None)
        self.mutex = (ctypes.c_char * 64)()
        self.libc.pthread_mutex_lock(self.mutex)
        self.entered = threading.Event()
    def block(self):
        self.entered.set()
        self.libc.pthread_mutex_lock(self.mutex)
    def let_go(self):
        self.libc.pthread_mutex_unlock(self.mutex)

signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def run_program(
    code: str, *, python: str = sys.executable, first: str = "", within: float = 30
) -> tuple[int, list[str], str]:
    """Run ``code`` after ``first`` and the head; its status, the lines it printed, and what it said on stderr."""
    text = textwrap.dedent(first) + _HEAD + textwrap.dedent(code)
    done = subprocess.run(
        [python, "-c", text], capture_output=True, text=True, timeout=within, check=False, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout.splitlines(), done.stderr
