"""``install`` changes only what is asked for, carries contexts into plain threads and pools, and undoes itself."""

from __future__ import annotations

import contextvars
import gc
import logging
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from standins import BOUND, Background

import turnctl
from turnctl import BadArgument, CancelledError, TurnctlError
from turnctl.tokens import current
from turnctl.waiting.installing import install, uninstall

START, SUBMIT = threading.Thread.start, ThreadPoolExecutor.submit


@pytest.fixture(autouse=True)
def _all_undone() -> Iterator[None]:
    yield

    assert START is threading.Thread.__dict__["start"]
    assert SUBMIT is ThreadPoolExecutor.__dict__["submit"]
    assert current.adopter is None


def plain(fn: Any) -> Any:
    """What ``fn`` gives on a plain thread of the host's."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(fn()))
    thread.start()
    thread.join(BOUND)
    return found[0]


# -- threads --------------------------------------------------------------------------------------------------------


def test_without_it_a_thread_knows_no_turn() -> None:
    """Nothing is patched by the import (a thread starts with an empty context below 3.14)."""
    with turnctl.turn():
        assert plain(turnctl.current_turn) is None


def test_plain_thread_obeys_the_turn() -> None:
    """``Thread.start`` copies the caller's context: variables and the turn, and nothing comes back out."""
    name = contextvars.ContextVar("name", default="nobody")

    def look() -> object:
        before = (name.get(), turnctl.current_turn())
        name.set("somebody")
        return before

    with install(threads=True), turnctl.turn() as turn:
        name.set("ann")
        got = plain(look)

        assert ("ann", turn) == got
        assert "ann" == name.get()


def test_subclass_and_timer_obey_the_turn() -> None:
    """A thread that overrides ``run`` is served as well, and is as it was afterwards."""
    found: list[object] = []

    class Mine(threading.Thread):
        def run(self) -> None:
            found.append(turnctl.current_turn())

    with install(threads=True), turnctl.turn() as turn:
        threads = [Mine(), threading.Timer(0, lambda: found.append(turnctl.current_turn()))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND)

    assert [turn, turn] == found
    assert all("run" not in thread.__dict__ for thread in threads)


def test_pool_runs_each_job_in_its_submitters_context() -> None:
    """Three turns share a pool: each job sees its own, though one worker serves them all."""
    with install(threads=True), ThreadPoolExecutor(1) as pool:
        turns = []
        for _ in range(3):
            with turnctl.turn() as turn:
                turns.append((turn, pool.submit(turnctl.current_turn).result()))
        outside = pool.submit(turnctl.current_turn).result()

    assert all(turn is seen for turn, seen in turns)
    assert outside is None


def test_pool_keeps_nothing_of_a_turn() -> None:
    """A worker that a turn happens to start does not carry that turn for ever."""
    name = contextvars.ContextVar[Any]("name")

    class Big:
        pass

    def one(pool: ThreadPoolExecutor) -> list[weakref.ref[Any]]:
        big = Big()
        name.set(big)
        with turnctl.turn() as turn:
            pool.submit(turnctl.check).result()
        return [weakref.ref(big), weakref.ref(turn), weakref.ref(turn.token)]

    with install(threads=True), ThreadPoolExecutor(1) as pool:
        refs = contextvars.copy_context().run(one, pool)
        gc.collect()
        alive = [ref() for ref in refs]

    assert [None, None, None] == alive


def test_tools_in_a_plain_pool_are_stopped() -> None:
    """A host that hands its tools to a pool needs no other change: they raise at once, and the pool goes on."""
    asleep = threading.Barrier(9)

    def tool() -> None:
        asleep.wait(BOUND)
        turnctl.sleep(60)

    with install(threads=True), ThreadPoolExecutor(8) as pool:
        with turnctl.turn() as turn:
            futures = [pool.submit(tool) for _ in range(8)]
            asleep.wait(BOUND)
            turn.stop()
            errors = [future.exception(BOUND) for future in futures]
        again = pool.submit(int).result(BOUND)

    assert all(isinstance(error, CancelledError) for error in errors)
    assert 0 == again


def test_our_own_threads_carry_nothing() -> None:
    """The bridge and the clock serve their turn, or all turns: neither is started in a copy of somebody's context."""
    name = contextvars.ContextVar("name", default="nobody")
    with install(threads=True), turnctl.turn(timeout=60) as turn:
        name.set("ann")
        seen: list[str] = []
        turn.watch(lambda: seen.append(name.get()))
        turn.stop()

    assert {"nobody"} == set(seen)


def test_name_like_ours_makes_no_thread_ours() -> None:
    """Ours are told by who starts them, not by how they are called (I3)."""
    seen: list[object] = []
    with install(threads=True), turnctl.turn() as turn:
        thread = threading.Thread(target=lambda: seen.append(turnctl.current_turn()), name="turnctl-mine")
        thread.start()
        thread.join()

    assert [turn] == seen


@pytest.mark.parametrize("options", [{"threads": "no"}, {"single_turn": 1}, {"threads": True, "http": "x"}])
def test_only_true_and_false_are_taken(options: Any) -> None:
    """What reads like a no must not be taken for a yes."""
    with pytest.raises(BadArgument, match="True or False"):
        turnctl.install(**options)


def test_thread_that_cannot_start_is_as_before() -> None:
    """The errors are Python's own, and no trace of ours stays on the thread."""

    class Broken(threading.Thread):
        def __init__(self) -> None:
            pass

    with install(threads=True):
        done = threading.Thread(target=int)
        done.start()
        done.join(BOUND)
        with pytest.raises(RuntimeError, match="once"):
            done.start()
        with pytest.raises(RuntimeError, match="not called"):
            Broken().start()

        assert "run" not in done.__dict__


def test_start_that_fails_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that the system refused may be started again later."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    thread = threading.Thread(target=int)
    with install(threads=True):
        with pytest.raises(RuntimeError, match="new thread"):
            thread.start()
    monkeypatch.undo()

    assert "run" not in thread.__dict__


# -- undoing --------------------------------------------------------------------------------------------------------


def test_uninstall_restores() -> None:
    """What was there before is there again, the same objects."""
    install(threads=True)
    between = (threading.Thread.start is START, ThreadPoolExecutor.submit is SUBMIT)
    uninstall()

    assert (False, False) == between
    assert START is threading.Thread.start
    assert SUBMIT is ThreadPoolExecutor.submit


def test_installs_are_counted() -> None:
    """The change stays until the last one that asked for it is undone, in any order."""
    first = install(threads=True)
    second = install(threads=True, single_turn=True)
    first.uninstall()
    first.uninstall()
    with turnctl.turn() as turn:
        still = plain(turnctl.current_turn)
    second.uninstall()

    assert turn is still
    assert "undone" in repr(second)


def test_uninstall_undoes_the_last_one() -> None:
    """Without a handle, as a pair of calls."""
    outer = install(threads=True)
    inner = install(single_turn=True)
    uninstall()
    texts = (repr(outer), repr(inner))
    uninstall()
    with pytest.raises(TurnctlError, match="nothing is installed"):
        uninstall()

    assert ("<Installed threads>", "<Installed single_turn, undone>") == texts


def test_patch_on_top_of_ours_is_left_alone() -> None:
    """Somebody else's function stays, with ours below doing nothing, and a warning says so."""
    calls: list[str] = []
    installed = install(threads=True)
    below = threading.Thread.start

    def theirs(self: threading.Thread) -> None:
        calls.append(self.name)
        below(self)

    threading.Thread.start = theirs  # type: ignore[method-assign]
    try:
        with pytest.warns(RuntimeWarning, match=r"Thread.start was replaced by .*test_installing"):
            installed.uninstall()
        with turnctl.turn():
            off = plain(turnctl.current_turn)
        stays = threading.Thread.start
        with install(threads=True), turnctl.turn() as turn:
            on = plain(turnctl.current_turn)
        after = threading.Thread.start
    finally:
        threading.Thread.start = START  # type: ignore[method-assign]

    assert off is None
    assert turn is on
    assert theirs is stays
    assert theirs is after
    assert 2 == len(calls)


def test_nothing_is_refused() -> None:
    """With what to do instead."""
    with pytest.raises(BadArgument, match="nothing to install"):
        install()


# -- single_turn ----------------------------------------------------------------------------------------------------


def test_code_with_nothing_bound_obeys_the_only_turn() -> None:
    """A thread that knows nothing finds it, is stopped with it, and finds none when it is over."""
    with install(single_turn=True):
        with turnctl.turn() as turn:
            seen = Background(turnctl.current_turn).result()
            before = Background(turnctl.check).error()
            turn.stop()
            error = Background(turnctl.check).error()
        after = Background(turnctl.current_token).result()
        nothing = Background(turnctl.check).error()

    assert turn is seen
    assert before is None
    assert isinstance(error, CancelledError)
    assert (None, None) == (after, nothing)


def test_with_two_turns_it_refuses_to_guess(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody can tell which is meant, so it is neither; the log says so once."""
    with install(single_turn=True), turnctl.turn() as one, turnctl.turn(inherit=False) as two:
        one.stop()
        two.stop()
        with caplog.at_level(logging.WARNING, "turnctl"):
            errors = [Background(turnctl.check).error() for _ in range(3)]
            found = Background(turnctl.current_token).result()

    assert [None] * 3 == errors
    assert found is None
    assert 1 == len([r for r in caplog.records if "single_turn.ambiguous" in r.getMessage()])


def test_what_is_bound_comes_first() -> None:
    """A bound token or session is obeyed as without it; a session that runs nothing is no reason to guess."""
    with install(single_turn=True), turnctl.turn("chat") as turn:

        def other() -> object:
            with turnctl.session("other"):
                return turnctl.current_turn()

        inside = turnctl.current_turn()
        elsewhere = Background(other).result()

    assert turn is inside
    assert elsewhere is None


def test_new_turn_on_another_thread_is_no_child_of_the_only_one() -> None:
    """It is found by checkpoints alone: who begins a turn with nothing bound begins one of its own."""

    def begin() -> object:
        with turnctl.turn() as inner:
            return inner._outer

    with install(single_turn=True), turnctl.turn():
        assert Background(begin).result() is None


# -- in a fresh process ---------------------------------------------------------------------------------------------


def test_import_patches_and_loads_nothing() -> None:
    """Nothing is changed without ``install``, and it loads no pool before it is asked for threads."""
    code = """
        import sys, threading
        start = threading.Thread.start
        import turnctl
        from turnctl.waiting.installing import install
        assert threading.Thread.start is start
        with install(single_turn=True):
            pass
        assert "concurrent.futures" not in sys.modules, "loaded"
        assert "asyncio" not in sys.modules, "loaded"
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30, check=False
    )

    assert ("", 0) == (done.stderr, done.returncode)
