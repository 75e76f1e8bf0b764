"""A signal reaches the loop of a command on the main thread, whatever that thread is about to do."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading

from commands import alive, nap
from standins import BOUND

from turnctl.tokens import registry
from turnctl.waiting.attention import Attention
from turnctl.waiting.wakeup import Wakeup

# the signal is sent by another thread in the last moment in which the interpreter has already looked at its flags:
# poll is entered through a wrapper whose C code has begun, so the handler can only run when poll returns
PROGRAM = """
import os, select, signal, sys, threading, turnctl
main = threading.main_thread().ident
tag = sys.argv[1]
def on_main(signum, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGUSR1, on_main)
# blocked on the main thread, so that another thread's C handler takes the signal and marks it: poll is not interrupted
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
def press():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGUSR1)
threading.Thread(target=press, daemon=True).start()
try:
    with turnctl.turn(grace=1) as turn:
        turn.run("echo ready >&2; " + tag, shell=True, stderr="inherit")
except KeyboardInterrupt:
    print(turn.outcome, turn.cause)
"""


def test_signal_that_did_not_interrupt_the_wait_is_heard() -> None:
    """A handler that is due runs at once, though the signal was taken by another thread (promise 8)."""
    tag = nap()
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tag],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr is not None
        assert "ready\n" == child.stderr.readline()
        out, _ = child.communicate("press\n", timeout=BOUND)
    finally:
        child.kill()
        child.communicate()

    assert "cancelled signal\n" == out
    assert [] == alive(tag)


def test_descriptor_of_the_host_stays() -> None:
    """An event loop that hears signals by its own descriptor goes on hearing them."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    wakeup = Wakeup(bytewise=True)
    wakeup.listen()
    during = signal.set_wakeup_fd(before)
    wakeup.close()
    os.close(read)
    os.close(write)

    assert write == during


def test_descriptor_is_taken_back_before_it_is_closed() -> None:
    """No signal is ever written to a number that belongs to another file by then."""
    wakeup = Wakeup(bytewise=True)
    wakeup.listen()
    during = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(during)
    wakeup.close()
    after = signal.set_wakeup_fd(-1)

    assert during >= 0
    assert -1 == after


def test_ring_where_another_descriptor_is_set() -> None:
    """Where another descriptor is set, whoever reads that rings for the loop, until it listens no more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    wakeup = Wakeup(bytewise=True)
    wakeup.listen()
    registry.tell(registry.on_signal)
    rung = select.select([wakeup.fd], [], [], 0)[0]
    wakeup.deafen()
    after = list(registry.on_signal)
    wakeup.close()
    signal.set_wakeup_fd(before)
    os.close(read)
    os.close(write)

    assert 1 == len(rung)
    assert [] == after


def test_other_threads_change_nothing() -> None:
    """Only the main thread may set it."""
    attention = Attention(99)
    thread = threading.Thread(target=attention.begin)
    thread.start()
    thread.join()
    attention.end()

    assert -1 == signal.set_wakeup_fd(-1)
