"""What a fork of the program does with things of its parent that a thread of the parent is busy with: it never waits.

That thread does not exist there, so a wait for it would have no end, or that of its own bound.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from desk import Desk
from forks import held, said_in_a_fork
from loops import Gate, Played

import turnctl
from turnctl.agent import AgentLoop
from turnctl.ledger import unkept
from turnctl.ledger.memory import MemoryStore
from turnctl.testing import pause_at
from turnctl.tokens.eras import Latch
from turnctl.waiting import installing

ELSEWHERE = "belongs to the process that this one was forked from"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as made:
        yield made


def took(work: Callable[[], object]) -> str:
    """What it gives, in time: 1 s is ten times what the slowest of these takes on a busy machine."""
    began = time.monotonic()
    said = work()
    return f"{said}" if time.monotonic() - began < 1 else f"{said}, too late"


# -- the agent loop ---------------------------------------------------------------------------------------------------


def test_loop_goes_on_while_its_run_was_closing() -> None:
    """A run of the child does not wait until the parent's has settled, and its history is coherent."""
    loop = AgentLoop(Played("one", "two"))
    with pause_at("run.closing") as closing:
        thread = threading.Thread(target=lambda: loop.run("go"))
        thread.start()
        assert closing.reached.wait(10)
        said = said_in_a_fork(lambda: took(lambda: (loop.run("on").unwrap(), len(loop.history.feed))))
        closing.release()
    thread.join()

    assert "('two', 4)" == said


def test_loop_goes_on_while_its_run_was_in_a_tool(gate: Gate) -> None:
    """The same where the parent's run is in the middle."""
    loop = AgentLoop(Played(gate.pass_through, "two"))
    thread = threading.Thread(target=lambda: loop.run("go"))
    thread.start()
    assert gate.reached.wait(10)
    said = said_in_a_fork(lambda: took(lambda: loop.run("on").unwrap()))
    gate.open()
    thread.join()

    assert "two" == said


def test_stream_of_a_run_is_not_the_childs(gate: Gate) -> None:
    """The next event is refused, with the reason; closing does nothing."""
    loop = AgentLoop(Played(gate.pass_through))
    with loop.stream("go") as events:
        assert "run_started" == next(events).kind
        asked = said_in_a_fork(lambda: next(events))
        closed = said_in_a_fork(lambda: took(events.close))
        gate.open()
        kinds = [event.kind for event in events]

    assert f"RuntimeError: run {events.run_id} {ELSEWHERE}" in asked
    assert "None" == closed
    assert "run_ended" == kinds[-1]


# -- tokens -----------------------------------------------------------------------------------------------------------


def test_latch_of_another_process_holds_nobody() -> None:
    """It counts as set, unless it is renewed by whoever sets it here."""
    latch = Latch()

    assert "(True, True)" == said_in_a_fork(lambda: (latch.is_set(), latch.wait()))
    assert "(False, False)" == said_in_a_fork(lambda: (latch.renew(), latch.is_set(), latch.wait(0.01))[1:])
    assert not latch.is_set()


def test_callback_that_runs_is_not_waited_for(gate: Gate) -> None:
    """One that is running when the process is forked runs on in the parent alone."""
    with turnctl.turn() as turn:
        registration = turn.token.on_cancel(gate.pass_through)
        turn.cancel("enough")
        assert gate.reached.wait(10)
        said = said_in_a_fork(lambda: took(lambda: registration.unregister(wait=True)))
        gate.open()

    assert "False" == said
    assert not registration.unregister(wait=True)


def test_callback_of_the_child_is_waited_for() -> None:
    """One that had not begun when the process was forked is the child's as well, and runs there with the next one."""
    token = turnctl.CancelToken()
    done: list[int] = []
    begun = threading.Event()

    def callback() -> None:
        begun.set()
        time.sleep(0.05)
        done.append(1)

    registration = token.on_cancel(callback)

    def work() -> object:
        token.on_cancel(lambda: None)  # has a thread that serves the token
        threading.Thread(target=lambda: token.cancel("here")).start()
        begun.wait(5)
        return registration.unregister(wait=True), done

    assert "(False, [1])" == said_in_a_fork(work)
    assert registration.unregister()


def test_turn_that_is_being_left_is_over() -> None:
    """A turn that nobody finds any more, and that is not over yet, is over in the child."""
    turn: Any = turnctl.turn("a")
    with pause_at("turn.leaving") as leaving:
        thread = threading.Thread(target=lambda: turn.__enter__() and turn.end())
        thread.start()
        assert leaving.reached.wait(10)
        said = said_in_a_fork(lambda: took(turn.wait_over))
        leaving.release()
    thread.join()

    assert "True" == said


def test_turn_that_was_made_before_begins_in_the_child() -> None:
    """What was made and not begun is the child's as well."""
    turn = turnctl.turn("a")

    def work() -> object:
        with turn:
            return turn.is_over

    assert "False" == said_in_a_fork(work)
    assert "False" == str(work())


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_thread_of_a_turn_is_refused(gate: Gate) -> None:
    """Waiting for it, or for its result, says whose it is."""
    with turnctl.turn() as turn:
        thread = turn.thread(gate.pass_through)
        said = [
            said_in_a_fork(thread.wait),
            said_in_a_fork(thread.result),
            said_in_a_fork(lambda: turnctl.wait(thread)),
            said_in_a_fork(lambda: thread.has_ended),
        ]
        gate.open()
        thread.wait()
        late = said_in_a_fork(thread.result)

    assert [f"RuntimeError: thread Gate.pass_through {ELSEWHERE}"] * 3 == [one.split(",")[0] for one in said[:3]]
    assert ("False", "late") == (said[3], late)


def test_job_of_an_executor_is_refused(gate: Gate) -> None:
    """The same for a future, in each way to wait for it."""
    with turnctl.turn() as turn, turn.executor() as executor:
        future = executor.submit(gate.pass_through)
        assert gate.reached.wait(10)
        said = [
            said_in_a_fork(future.result),
            said_in_a_fork(lambda: turnctl.wait(future)),
            said_in_a_fork(lambda: list(turnctl.as_completed([future]))),
        ]
        gate.open()
        future.result()
        late = said_in_a_fork(future.result)

    assert [f"RuntimeError: the job of a future {ELSEWHERE}"] * 3 == [one.split(",")[0] for one in said]
    assert "late" == late


def test_gate_of_an_executor_holds_nobody() -> None:
    """A thread of the pool that stood at its gate does not keep the child from leaving the block, or from an error."""
    with turnctl.turn() as turn, turn.executor() as executor:
        with held(executor._gate.acquire, executor._gate.release):
            left = said_in_a_fork(lambda: took(executor.shutdown))
            submitted = said_in_a_fork(lambda: executor.submit(int))

    assert "None" == left
    assert submitted.startswith("TurnOver: ")


def test_bridge_that_is_carried_is_not_waited_for(gate: Gate) -> None:
    """A signal on its way to something else is not waited for, not even a second."""

    class Slow(threading.Event):
        def set(self) -> None:
            gate.pass_through()

    with turnctl.turn() as turn:
        bridging = turn.bridge_event(Slow())
        turn.cancel("enough")
        assert gate.reached.wait(10)
        said = said_in_a_fork(lambda: took(bridging.release))
        gate.open()

    assert "False" == said


def test_install_is_not_held_by_another_thread() -> None:
    """A thread that was installing when the process was forked does not keep the child from it."""
    with held(lambda: installing._changes.acquire(), lambda: installing._changes.release()):
        said = said_in_a_fork(lambda: took(lambda: turnctl.install(threads=True).uninstall()))

    assert "None" == said


# -- processes --------------------------------------------------------------------------------------------------------


def test_output_of_a_command_is_refused() -> None:
    """Its lines and pieces are the parent's, and what is known of it can be asked while somebody brings more."""
    with turnctl.turn() as turn:
        process = turn.popen(["cat"], stdin="pipe", stdout="pipe", max_output=1000)
        changed = process._changed
        with held(changed.acquire, changed.release):
            said = [
                said_in_a_fork(lambda: list(process)),
                said_in_a_fork(lambda: list(process.chunks())),
                said_in_a_fork(process.wait),
                said_in_a_fork(lambda: process.write(b"x")),
            ]
            known = said_in_a_fork(lambda: took(process.poll))
        process.kill()

    assert [f"RuntimeError: the output of a command {ELSEWHERE}"] * 2 == [one.split(",")[0] for one in said[:2]]
    assert all("belongs to the process that started it" in one for one in said[2:])
    assert "None" == known


# -- the ledger -------------------------------------------------------------------------------------------------------


def test_gate_in_memory_is_not_held() -> None:
    """A thread that was making the gate of its turn when the process was forked does not hold the child's effects."""

    def work() -> object:
        with turnctl.turn() as turn, turn.effect("a.b", key="k") as sent:
            sent.complete("r")
        return turn.outcome

    with held(lambda: unkept._making.acquire(), lambda: unkept._making.release()):
        said = said_in_a_fork(lambda: took(work))

    assert "completed" == said


def test_fork_waits_for_a_transaction_in_memory() -> None:
    """One of another thread ends first, so that the child has no half of it, and can go on."""
    desk = Desk()
    with pause_at("store.before_commit") as waiting:
        thread = threading.Thread(target=lambda: desk.another("i2", "other"))
        thread.start()
        assert waiting.reached.wait(10)
        threading.Timer(0.05, waiting.release).start()
        said = said_in_a_fork(lambda: desk.task("i2").task_id)
        thread.join()

    assert "other" == said


def test_fork_within_a_transaction_in_memory() -> None:
    """Who forks where nothing can be waited for has a child that is told so, and goes on itself."""
    store = MemoryStore()
    said = store.transact(lambda _: said_in_a_fork(lambda: store.transact(lambda _: "went on")))

    assert said.startswith("StoreClosed: this process was forked while its ledger in memory was in use")
    assert "goes on" == store.transact(lambda _: "goes on")
