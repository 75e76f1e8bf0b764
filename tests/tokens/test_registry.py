"""Which turns are there; and in a forked child there are none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

import turnctl
from turnctl.tokens import registry


def in_child(fn: Callable[[], object]) -> object:
    """What ``fn`` returns in a forked child, as plain values."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            found = fn()
        except BaseException as error:
            found = repr(error)
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)


def test_turn_is_there_from_begin_until_it_is_over() -> None:
    """By session and by id, and nowhere afterwards."""
    turn = turnctl.turn("chat")
    before = registry.all_turns()
    with turn:
        inside = (registry.sessions.get("chat"), registry.find(turn.turn_id), registry.all_turns())
    after = (registry.sessions.get("chat"), registry.find(turn.turn_id), registry.all_turns())

    assert [] == before
    assert (turn, turn, [turn]) == inside
    assert (None, None, []) == after


def test_no_turn_is_live_in_a_forked_child() -> None:
    """There a stop finds nothing, a check is silent, and the turn refuses and is over."""
    with turnctl.turn("chat") as turn:

        def look() -> object:
            turnctl.check()
            by_session, by_id, own = turnctl.stop("chat"), turnctl.stop(turn_id=turn.turn_id), turn.stop()
            return [str(by_session), str(by_id), str(own), turn.is_over, turn.event.is_set(), turnctl.stop_all()]

        found = in_child(look)
        turn.check()

    assert [
        "refused: no running turn in session chat",
        "refused: no running turn",
        f"refused: retired (turn {turn.turn_id})",
        True,
        False,
        [],
    ] == found
    assert "completed" == turn.outcome


def test_leaving_the_with_in_a_forked_child_ends_nothing() -> None:
    """The child that falls out of the parent's ``with`` touches nothing of the parent's."""

    def leave() -> object:
        with turnctl.turn("chat"):
            if (child := os.fork()) == 0:
                return "child"
            os.waitpid(child, 0)
            turnctl.check()
        return "parent"

    read, write = os.pipe()
    who = leave()
    os.write(write, f"{who} ".encode())
    if who == "child":  # pragma: no cover - runs in the child
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()

    assert "child parent " == told


def test_forked_child_begins_turns_of_its_own() -> None:
    """Deadlines, bridges and sessions work in the child, also while the parent holds the same session."""
    with turnctl.turn("chat"):

        def work() -> object:
            ran: list[int] = []
            with turnctl.turn("chat", timeout="30ms", inherit=False) as turn:
                turn.on_cancel(lambda: ran.append(1))
                turn.sleep(10)
            return [turn.outcome, turn.cause, ran]

        assert ["cancelled", "deadline", [1]] == in_child(work)


def test_stop_in_the_child_does_not_reach_the_parent() -> None:
    """Nor one in the parent the child's own turn (promise 2)."""
    with turnctl.turn("chat") as turn:
        found = in_child(lambda: [str(turnctl.stop("chat")), turn.token.cancelled])
        turn.check()

    assert ["refused: no running turn in session chat", False] == found


@pytest.mark.parametrize("times", [20])
def test_fork_while_other_threads_work_leaves_a_usable_child(times: int) -> None:
    """Forked at any moment of another thread's begin, stop and end, the child can run turns of its own."""
    program = textwrap.dedent(
        f"""
        import os, threading, turnctl
        turnctl.run_turn(int)  # a fork during an import of another thread is Python's own trouble

        def churn():
            while not over.is_set():
                with turnctl.turn("chat", timeout="1h") as turn:
                    turn.on_cancel(int)
                    turn.stop()

        turnctl.run_turn(int)  # a fork during another thread's first import hangs in any program
        over = threading.Event()
        threads = [threading.Thread(target=churn) for _ in range(2)]
        for thread in threads:
            thread.start()
        bad = 0
        for _ in range({times}):
            child = os.fork()
            if child == 0:
                ran = []
                with turnctl.turn("chat", timeout="1h", inherit=False) as turn:
                    turn.on_cancel(lambda: ran.append(1))
                    turnctl.stop("chat")
                os._exit(0 if ran == [1] and turn.outcome == "cancelled" else 1)
            bad += os.waitpid(child, 0)[1] != 0
        over.set()
        for thread in threads:
            thread.join()
        print(bad)
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=20, check=True
    )

    assert "0\n" == done.stdout
