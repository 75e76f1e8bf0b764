"""Signals stop turns: at the checkpoint where there is one, else by raising, and never where that does harm."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
from standins import Background, until

import turnctl
from turnctl.signals import stops
from turnctl.testing import call_at


def run_with_signals(body: str, *, presses: int = 1, bound: float = 20) -> tuple[int, str]:
    """Run a program that says ``ready`` on stdout, press SIGINT each time it does; status and the rest it said."""
    program = textwrap.dedent(
        """
        import os, signal, sys, threading, time
        import turnctl
        signal.signal(signal.SIGINT, signal.default_int_handler)

        def ready():
            os.write(1, b"ready\\n")

        def ready_when_parked(turn):
            def wait():
                waiters = turn.token._grow().waiters
                while not waiters:
                    time.sleep(0.001)
                os.write(1, b"parked\\n")
            threading.Thread(target=wait).start()
        """
    ) + textwrap.dedent(body)
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )
    timer = threading.Timer(bound, child.kill)
    timer.start()
    said: list[str] = []
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if line not in ("ready\n", "parked\n"):
                said.append(line)
            elif presses:
                presses -= 1
                assert line == "ready\n" or until(lambda: is_asleep_alone(child.pid))
                os.kill(child.pid, 2)
        child.stdout.close()
        return child.wait(), "".join(said)
    finally:
        timer.cancel()
        timer.join()
        child.kill()
        child.wait()
        assert child.stdin is not None
        child.stdin.close()


def is_asleep_alone(pid: int) -> bool:
    """Whether the main thread has gone to sleep, with no other thread but the one that hears signals."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return len(os.listdir(f"/proc/{pid}/task")) <= 2 and stat.read().rpartition(") ")[2].startswith("S")


@pytest.mark.parametrize("blocked", ["time.sleep(60)", "input()", "threading.Event().wait(60)", "while True: pass"])
def test_signal_breaks_the_users_own_code(blocked: str) -> None:
    """Where the main thread is in foreign code and bound to the turn, the handler raises there."""
    code = f"""
        with turnctl.handle_signals():
            with turnctl.turn("chat") as turn:
                ready()
                {blocked}
                print("went on")
        print(turn.outcome, turn.cause, turn.token.reason, flush=True)
        """
    status, said = run_with_signals(code)

    assert (0, "cancelled signal Ctrl-C\n") == (status, said)


@pytest.mark.parametrize("blocked", ["turnctl.sleep(60)", "turn.sleep(60)"])
def test_signal_at_a_checkpoint_is_raised_by_the_checkpoint(blocked: str) -> None:
    """In a frame of turnctl the handler raises nothing; the checkpoint does."""
    code = f"""
        import traceback
        with turnctl.handle_signals():
            with turnctl.turn("chat") as turn:
                ready_when_parked(turn)
                try:
                    {blocked}
                except turnctl.CancelledError as error:
                    names = [f.name for f in traceback.extract_tb(error.__traceback__)]
                    print("_handle" in names, "sleep" in names)
        print(turn.outcome, turn.cause, flush=True)
        """
    status, said = run_with_signals(code)

    assert (0, "False True\ncancelled signal\n") == (status, said)


@pytest.mark.parametrize("how", ["raises=False", "not bound here"])
def test_signal_that_may_not_raise_only_stops(how: str) -> None:
    """With ``raises=False``, or where the main thread is not bound to the turn, nothing is raised there."""
    code = """
        turn = turnctl.turn("chat")
        turn.begin()
        with turnctl.handle_signals():
            ready()
            end = time.monotonic() + 10
            while not turn.cancelled and time.monotonic() < end:
                time.sleep(0.01)
        turn.end()
        print(turn.outcome, turn.cause, flush=True)
        """
    if how == "raises=False":
        code = """
        with turnctl.turn("chat") as turn:
            with turnctl.handle_signals(raises=False):
                ready()
                end = time.monotonic() + 10
                while not turn.cancelled and time.monotonic() < end:
                    time.sleep(0.01)
                print("not raised")
        print(turn.outcome, turn.cause, flush=True)
        """
    status, said = run_with_signals(code)

    assert 0 == status
    assert "cancelled signal\n" == said.replace("not raised\n", "")
    assert ("not raised" in said) is (how == "raises=False")


def test_presses_are_counted_for_each_turn() -> None:
    """First press cancels, second kills, third is Python's own again; a new turn starts at zero."""
    code = """
        handling = turnctl.handle_signals(raises=False)
        levels = []

        def pressed():
            end = time.monotonic() + 10
            before = turn.token.level
            try:
                ready()
                while turn.token.level == before and time.monotonic() < end:
                    time.sleep(0.005)
            except KeyboardInterrupt:
                levels.append("interrupt")
                return
            levels.append(turn.token.level)

        with turnctl.turn("chat") as turn:
            for _ in range(3):
                pressed()
        with turnctl.turn("chat") as turn:
            pressed()
        handling.restore()
        print(levels, signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
        """
    status, said = run_with_signals(code, presses=4)

    assert (0, "['cancel', 'kill', 'interrupt', 'cancel'] True\n") == (status, said)


@pytest.mark.parametrize("which", ["all", "one"])
def test_signal_stops_all_turns_or_the_one_given(which: str) -> None:
    """All live turns of the process, or only that of ``handle_signals(turn)``."""
    code = f"""
        one, two = turnctl.turn("one"), turnctl.turn("two")
        one.begin(); two.begin()
        with turnctl.handle_signals({"one" if which == "one" else ""}):
            ready()
            end = time.monotonic() + 10
            while not one.cancelled and time.monotonic() < end:
                time.sleep(0.005)
        print(one.cancelled, two.cancelled, flush=True)
        one.end(); two.end()
        """
    status, said = run_with_signals(code)

    assert (0, f"True {which == 'all'}\n") == (status, said)


def test_signal_without_a_turn_is_pythons_own() -> None:
    """With nothing to stop, the handler that was there before runs."""
    code = """
        with turnctl.handle_signals():
            try:
                ready()
                time.sleep(60)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """

    assert (0, "interrupted\n") == run_with_signals(code)


def test_handling_off_the_main_thread_warns_and_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python allows handlers on the main thread only, and the warning says so."""
    monkeypatch.setattr(stops, "_warned", [])  # it is given once in each process

    def handle() -> tuple[object, ...]:
        with pytest.warns(RuntimeWarning, match="main thread"):
            found = turnctl.handle_signals()
        with found:
            return found.signals

    assert () == Background(handle).result()


def test_runs_that_nest_are_counted_by_the_outermost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A storm of signals piles up no frames: a run inside a run is noted, and the outer one goes on with it (H4)."""
    depths: list[int] = []

    def depth() -> None:
        frame, found = sys._getframe(), 0
        while frame is not None:
            found += frame.f_code.co_name == "_handle"
            frame = frame.f_back  # type: ignore[assignment]
        depths.append(found)

    def again() -> None:
        depth()
        signal.raise_signal(signal.SIGINT)

    with turnctl.handle_signals(), turnctl.turn() as turn:
        with call_at("signals.handler.entered", again), call_at("signals.handler.entered", depth):
            signal.raise_signal(signal.SIGINT)
            turn.check()

    assert [1, 1] == depths
    assert "kill" == turn.token.level
    assert not stops._runs
    assert not stops._accounting


def test_signals_that_an_event_loop_has_taken_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With our handler and our descriptor both gone no turn can be stopped: that is said once, with what to do."""
    monkeypatch.setattr(stops, "_warned_taken", [])
    before = signal.getsignal(signal.SIGINT)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        try:
            with pytest.warns(RuntimeWarning, match=r"SIGINT went to an event loop .*turn\.cancel"), turnctl.turn():
                pass
            with turnctl.turn() as turn:
                turn.bridge_asyncio()
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    try:
        with turnctl.handle_signals():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with turnctl.turn():
                    pass
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)


def test_bridge_tells_of_a_loop_that_has_taken_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual order: the turn began before the loop."""
    monkeypatch.setattr(stops, "_warned_taken", [])
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: None)
        try:
            with pytest.warns(RuntimeWarning, match="SIGTERM went to an event loop"):
                turn.bridge_asyncio()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    try:
        with turnctl.handle_signals(), turnctl.turn() as turn:
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_raises_is_true_or_false() -> None:
    """What reads like a no must not be taken for a yes."""
    with pytest.raises(turnctl.BadArgument, match="True or False"):
        turnctl.handle_signals(raises="no")  # type: ignore[arg-type]


def test_handlers_are_put_back() -> None:
    """Leaving the ``with`` restores what was there; an ignored signal stays ignored."""
    code = """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
        before = [signal.getsignal(getattr(signal, n)) for n in names]
        with turnctl.handle_signals() as handling:
            print([s.name for s in handling.signals], signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
        print(before == [signal.getsignal(getattr(signal, n)) for n in names], flush=True)
        """

    assert (0, "['SIGINT', 'SIGTERM', 'SIGQUIT'] True\nTrue\n") == run_with_signals(code)


def test_interrupt_by_the_host_passes_and_is_on_record() -> None:
    """Without our handlers Ctrl-C is a KeyboardInterrupt: it passes out, the turn is cancelled, cause ``signal``."""
    code = """
        try:
            with turnctl.turn("chat") as turn:
                ready()
                time.sleep(60)
        except KeyboardInterrupt:
            print(turn.outcome, turn.cause, turn.is_over, flush=True)
        """

    assert (0, "cancelled signal True\n") == run_with_signals(code)


def test_signal_that_does_not_interrupt_the_wait_is_heard() -> None:
    """A signal that came just before the main thread parked, or to another thread, is heard before the wait is over.

    Neither cuts the wait short, and Python runs handlers on the main thread only; the second can be forced.
    """
    code = """
        with turnctl.handle_signals():
            with turnctl.turn("chat") as turn:
                waiters = turn.token._grow().waiters

                def press():
                    while not waiters:
                        time.sleep(0.001)
                    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

                thread = threading.Thread(target=press)
                thread.start()
                begun = time.monotonic()
                turn.sleep(3)
            thread.join()
        print(turn.outcome, turn.cause, time.monotonic() - begun < 2, flush=True)
        """

    assert (0, "cancelled signal True\n") == run_with_signals(code)
