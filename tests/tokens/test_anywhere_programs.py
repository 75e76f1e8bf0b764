"""Programs that a signal or a fork interrupts at the worst moment; the standard library's event for comparison (P7)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def program(text: str, *args: str, within: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a helper program to its end, which it must come to by itself."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *args], capture_output=True, text=True, timeout=within
    )


# -- the standard library's event, for comparison --------------------------------------------------------------------

INTERRUPTED = """
    import faulthandler, signal, sys, threading
    import turnctl

    kind = sys.argv[1]
    strikes = 0
    while True:
        if kind == "threading.Event":
            event = threading.Event()
            poke, files = event.set, threading.__file__
        elif kind == "TurnEvent":
            event = turnctl.TurnEvent()
            poke, files = event.set, "turnctl"
        else:
            turn = turnctl.turn()
            event = turn.begin().event
            poke, files = turn.cancel, "turnctl"
        signal.signal(signal.SIGUSR1, lambda *_: poke())
        strikes += 1
        left = [strikes]

        def trace(frame, what, arg):
            if files in frame.f_code.co_filename and what == "line":
                left[0] -= 1
                if left[0] == 0:
                    signal.raise_signal(signal.SIGUSR1)
            return trace

        faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
        sys.settrace(trace)
        poke()
        sys.settrace(None)
        faulthandler.cancel_dump_traceback_later()
        assert event.is_set()
        if kind == "token":
            turnctl.end_turn(turn)
        if left[0] > 0:
            break
    print("interrupted at", strikes - 1, "lines")
"""


def test_event_of_the_standard_library_hangs() -> None:
    """Known: a handler that sets a threading.Event whose lock the interrupted frame holds hangs for ever (P7)."""
    ended = program(INTERRUPTED, "threading.Event", "1")

    assert 1 == ended.returncode
    assert "Timeout" in ended.stderr
    # the handler's set() stands above the one that it interrupted
    assert 2 <= ended.stderr.count(" in set\n")
    assert "" == ended.stdout


@pytest.mark.parametrize("kind", ["TurnEvent", "token"])
def test_event_of_ours_does_not(kind: str) -> None:
    """The same program with an event of ours, interrupted at each of its lines, comes to its end (P7)."""
    ended = program(INTERRUPTED, kind, "20")

    assert "" == ended.stderr
    assert 0 == ended.returncode
    assert 2 <= int(ended.stdout.split()[2])


# -- forked children -------------------------------------------------------------------------------------------------

FORKED = """
    import os, signal, sys, threading, time, warnings
    import turnctl
    from turnctl.testing import pause_at
    from turnctl.tokens import registry

    warnings.simplefilter("ignore")  # of a fork in a process with threads, which is the point
    how = sys.argv[1]
    turn = turnctl.turn("chat", timeout=60)
    token = turn.begin()
    event = token.event
    child_token = token.child()
    ran = []
    turn.on_cancel(lambda: ran.append(os.getpid()))
    waiter = threading.Thread(target=event.wait, daemon=True)
    waiter.start()
    while not event._waiters:
        time.sleep(0.001)
    held = None
    if how == "cancelled":
        turn.cancel("parent")
    elif how == "in cancel":
        held = pause_at("token.cancel.entered")
        pause = held.__enter__()
        threading.Thread(target=turn.cancel, args=("parent",), daemon=True).start()
        pause.reached.wait(10)
    elif how == "in claim":
        taken, given_back = threading.Event(), threading.Event()
        def hold():
            with registry._claims:
                taken.set()
                given_back.wait(60)
        threading.Thread(target=hold, daemon=True).start()
        taken.wait(10)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(15)  # a child that hangs dies of it
        told = token.cancel("child"), turn.cancel("child"), turnctl.stop(turn_id=turn.turn_id)
        event.set()
        print([(a.kind, a.why or a.outcome) for a in told])
        print(registry.all_turns(), turnctl.current_turn(), turnctl.session("chat").turn)
        print(turn.is_over, event.is_set(), event.wait(), turnctl.end_turn(turn), ran)
        child_token.cancel("child")
        print(child_token.cancelled)
        with turnctl.turn("chat", timeout=60) as mine:
            mine.on_cancel(lambda: ran.append("mine"))
            other = threading.Thread(target=mine.cancel, args=("from a thread",))
            other.start()
            woken = mine.token.event.wait(10)
            other.join()
        print(woken, mine.outcome, ran)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if held is not None:
        held.__exit__(None, None, None)
    if how == "in claim":
        given_back.set()
    turn.cancel("parent")
    waiter.join(10)
    print(waiter.is_alive(), turnctl.end_turn(turn), turn.outcome, status)
"""


@pytest.mark.parametrize("how", ["idle", "cancelled", "in cancel", "in claim"])
def test_forked_child(how: str) -> None:
    """In a forked child no turn is live, the parent's token refuses, nothing hangs, new turns work (P2, P7)."""
    ended = program(FORKED, how)
    lines = ended.stdout.splitlines()
    stopped = how in ("cancelled", "in cancel")
    decided = ("already_ended", "cancelled") if stopped else ("refused", "retired")

    assert "" == ended.stderr
    assert f"[{decided}, {decided}, ('refused', 'no_turn')]" == lines[0]
    assert "[] None None" == lines[1]
    assert lines[2].startswith(f"True {stopped} {stopped} False [")
    assert "True" == lines[3]
    assert "True cancelled" == " ".join(lines[4].split()[:2])
    assert "'mine'" in lines[4]
    assert "False True cancelled 0" == lines[5]
