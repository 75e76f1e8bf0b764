"""An executor of a turn: biased jobs in their submitter's context, and an exit that waits for no abandoned work."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnOver, TurnToken, points
from turnctl.errors import ExecutorClosed
from turnctl.testing import call_at, pause_at
from turnctl.waiting.jobs import Job


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """What blocked jobs wait for: a plain event, which no stop sets."""
    event = threading.Event()
    yield event
    event.set()


def states(turn: turnctl.Turn, kind: str = "job") -> list[str]:
    return [a.state for a in turn.report.activities if a.kind == kind]


# -- as any executor ------------------------------------------------------------------------------------------------


def test_it_is_an_executor() -> None:
    """``submit``, ``map``, ``wait`` and ``as_completed`` of the standard library work with it."""
    with turnctl.turn() as turn, turn.executor(3) as pool:
        assert isinstance(pool, concurrent.futures.Executor)
        mapped = list(pool.map(divmod, [7, 8], [2, 3], timeout=BOUND))
        futures = [pool.submit(pow, n, 2) for n in range(20)]
        done, _ = concurrent.futures.wait(futures, BOUND)
        given = sorted(future.result() for future in concurrent.futures.as_completed(futures, BOUND))

    assert [(3, 1), (2, 2)] == mapped
    assert 20 == len(done)
    assert [n * n for n in range(20)] == given
    assert ["completed"] * 22 == states(turn)
    assert ["completed"] == states(turn, "executor")


def test_threads_are_as_many_as_needed_and_no_more() -> None:
    """An idle one takes the next job; ``max_workers`` is the most, and none is started without a job."""
    before = threading.active_count()
    with turnctl.turn() as turn, turn.executor(2) as pool:
        none = threading.active_count() - before
        for _ in range(5):
            pool.submit(int).result()
            assert until(lambda: len(pool._spare) == 1)
        one = threading.active_count() - before
        gate = threading.Barrier(3)
        futures = [pool.submit(gate.wait, BOUND) for _ in range(2)]
        gate.wait(BOUND)
        two = threading.active_count() - before
        for future in futures:
            future.result()

    assert (0, 1) == (none, one)
    assert two in (2, 3)  # a waiting job has the bridge listen
    assert before == threading.active_count()


def test_exception_of_a_job_is_in_its_future() -> None:
    """What it raises comes out of ``result``, of whatever class; the pool goes on."""

    def exits() -> None:
        raise SystemExit(3)

    with turnctl.turn() as turn, turn.executor(1) as pool:
        future = pool.submit(exits)
        error = future.exception(BOUND)
        with pytest.raises(SystemExit):
            future.result()
        again = pool.submit(int).result(BOUND)

    assert isinstance(error, SystemExit)
    assert 0 == again
    assert ["failed", "completed"] == states(turn)


def test_future_in_time_or_not(go: threading.Event) -> None:
    """A timeout is the standard library's error; with what is left of ``map``'s time below 0 too."""
    with turnctl.turn() as turn, turn.executor(1) as pool:
        future = pool.submit(go.wait, BOUND)
        for timeout in (0, 0.01, "10ms", -1):
            with pytest.raises(TimeoutError):
                future.result(timeout)
        with pytest.raises(TimeoutError):
            list(pool.map(go.wait, [BOUND], timeout=0.01))
        go.set()

        assert future.result() is True


def test_future_cancelled_by_the_host_never_begins(go: threading.Event) -> None:
    """``cancel()`` of one that waits is the standard library's, with its error."""
    with turnctl.turn() as turn, turn.executor(1) as pool:
        pool.submit(go.wait, BOUND)
        future = pool.submit(int)
        taken = future.cancel()
        go.set()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()

    assert taken
    assert ["completed", "cancelled"] == states(turn)


def test_shutdown_refuses_more_work() -> None:
    """With an error that is a ``RuntimeError`` too, as hosts expect; shut down twice is fine."""
    with turnctl.turn() as turn:
        pool = turn.executor(1)
        pool.shutdown()
        pool.shutdown()
        with pytest.raises(ExecutorClosed, match="shut down") as caught:
            pool.submit(int)

    assert isinstance(caught.value, RuntimeError)


def test_shutdown_runs_what_waits(go: threading.Event) -> None:
    """Without a stop everything that was submitted is done when the exit returns."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        with turn.executor(1) as pool:
            pool.submit(go.wait, BOUND)
            for n in range(3):
                pool.submit(ran.append, n)
            threading.Timer(0.02, go.set).start()
        after = list(ran)

    assert [0, 1, 2] == after


def test_shutdown_that_cancels_what_waits(go: threading.Event) -> None:
    """``cancel_futures`` drops what has not begun, and waits for what has."""
    with turnctl.turn() as turn:
        pool = turn.executor(1)
        running, waiting = pool.submit(go.wait, BOUND), pool.submit(int)
        assert until(running.running)
        pool.shutdown(wait=False, cancel_futures=True)
        go.set()
        pool.shutdown()

    assert running.result() is True
    assert waiting.cancelled()


def test_asyncio_takes_its_futures() -> None:
    """``run_in_executor`` works with it."""
    with turnctl.turn() as turn, turn.executor(1) as pool:

        async def body() -> object:
            return await asyncio.get_running_loop().run_in_executor(pool, turnctl.current_turn)

        got = asyncio.run(body())

    assert turn is got


@pytest.mark.parametrize("number", [0, -1, True, 1.5])
def test_bad_number_of_workers_is_refused(number: Any) -> None:
    """A misuse is told before anything is made."""
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="max_workers"):
        turn.executor(number)


def test_what_cannot_be_called_is_refused() -> None:
    """A misuse is told before anything is queued."""
    with turnctl.turn() as turn, turn.executor(1) as pool, pytest.raises(BadArgument, match="needs a function"):
        pool.submit(3)  # type: ignore[arg-type]


# -- context --------------------------------------------------------------------------------------------------------


def test_each_job_has_its_own_submitters_context() -> None:
    """A worker that is there already sees who submits, not who submitted first."""
    name = contextvars.ContextVar("name", default="nobody")
    with turnctl.turn() as turn, turn.executor(1) as pool:
        got = []
        for who in ("ann", "bob"):
            name.set(who)
            got.append(pool.submit(name.get).result())
        outside = Background(lambda: pool.submit(lambda: (name.get(), turnctl.current_turn())).result()).result()

    assert ["ann", "bob"] == got
    assert ("nobody", turn) == outside


def test_nothing_of_a_job_is_kept() -> None:
    """When a job has ended, neither its arguments, its context nor its result are held by the pool or the turn."""

    class Big:
        pass

    held = contextvars.ContextVar[Any]("held")
    with turnctl.turn() as turn, turn.executor(1) as pool:

        def submit() -> list[weakref.ref[Any]]:
            context, argument = Big(), Big()
            held.set(context)
            result = pool.submit(lambda _: Big(), argument).result()
            return [weakref.ref(one) for one in (context, argument, result)]

        refs = contextvars.copy_context().run(submit)
        gone = until(lambda: gc.collect() is not None and all(ref() is None for ref in refs))

    assert gone


# -- a stop ---------------------------------------------------------------------------------------------------------


def test_stop_ends_what_runs_and_drops_what_waits() -> None:
    """Running jobs raise at their checkpoints; waiting ones never begin, and all are told as stopped."""
    ran: list[int] = []
    asleep = threading.Barrier(3)

    def tool() -> None:
        asleep.wait(BOUND)
        turnctl.sleep(60)

    with turnctl.turn() as turn:
        began = 0.0
        with turn.executor(2) as pool:
            running = [pool.submit(tool) for _ in range(2)]
            waiting = [pool.submit(ran.append, n) for n in range(3)]
            asleep.wait(BOUND)
            began = time.monotonic()
            turn.stop("enough")
        took = time.monotonic() - began
    errors = [future.exception(BOUND) for future in running]

    assert took < 1
    assert all(isinstance(error, CancelledError) for error in errors)
    assert [False, False, True, True, True] == [future.cancelled() for future in running + waiting]
    assert [] == ran
    assert ["cancelled"] * 5 == states(turn)
    with pytest.raises(CancelledError, match="enough"):
        waiting[0].result()
    with pytest.raises(CancelledError, match="enough"):
        waiting[0].exception()


def test_stop_drops_what_waits_though_workers_are_blocked(go: threading.Event) -> None:
    """The bridge does it: whoever waits for a future that will never begin is told at once."""
    with turnctl.turn() as turn:
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        future = pool.submit(int)
        turn.stop()
        done, _ = concurrent.futures.wait([future], BOUND / 4)
        go.set()

    assert {future} == done
    assert future.cancelled()


def test_stopped_turn_takes_no_job() -> None:
    """``submit`` is biased: it raises, and the function is never called."""
    ran: list[int] = []
    with turnctl.turn() as turn:
        with turn.executor(1) as pool:
            turn.stop()
            with pytest.raises(CancelledError):
                pool.submit(ran.append, 1)
        with pytest.raises(CancelledError):
            turn.executor(1)

    assert [] == ran


def test_stop_while_a_job_is_queued(go: threading.Event) -> None:
    """A stop that has dropped what waits before this job is there: its submitter drops it (table 7, biased)."""
    ran: list[int] = []
    with turnctl.turn(grace=0.05) as turn:
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        before = pool.submit(int)
        with call_at("executor.queueing", lambda: (turn.stop(), until(before.done))):
            future = pool.submit(ran.append, 1)
        dropped = future.done()
        go.set()

    assert dropped
    assert future.cancelled()
    assert [] == ran


def test_shield_of_the_submitter_holds_for_its_job() -> None:
    """Clean-up that is submitted under a shield runs although the turn was stopped."""
    ran: list[int] = []
    with turnctl.turn() as turn, turn.executor(1) as pool:
        turn.stop()
        try:
            with turn.shield("5s"):
                pool.submit(ran.append, 1).result(BOUND)
        except CancelledError:
            pass

    assert [1] == ran


def test_exit_never_waits_for_abandoned_work(go: threading.Event) -> None:
    """After stop and grace the exit goes on; the job is named, and what it comes to is evidence (promise 5)."""
    with turnctl.turn(grace=0.1) as turn:
        pool = turn.executor(1)
        future = pool.submit(go.wait, BOUND)
        assert until(future.running)
        turn.stop()
        began = time.monotonic()
        pool.shutdown()
        took = time.monotonic() - began
    report = turn.report
    go.set()

    assert took < 1.1
    assert "unproven" == report.execution
    assert 1 == len(report.alive)
    assert "job Event.wait of executor" in report.alive[0]
    assert ["abandoned"] == states(turn)
    assert future.result(BOUND) is True
    assert until(lambda: turn.report.activities[-1].late == "returned")


def test_kill_shortens_an_exit_that_waits(go: threading.Event) -> None:
    """A later stop that spends no grace wakes who waits in ``shutdown``."""
    with turnctl.turn(grace=60) as turn:
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        turn.stop()
        waiting = Background(pool.shutdown)
        assert until(lambda: pool._waiters)
        began = time.monotonic()
        turn.stop(kill=True)
        waiting.result()
        took = time.monotonic() - began

    assert took < 1
    go.set()


def test_exit_on_another_thread_goes_on_when_the_turn_is_over(
    go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ``shutdown`` that looks between the decision and the grace does not wait longer than the turn itself."""
    retire = TurnToken._retire

    def slowly(token: TurnToken, proposed: Any) -> bool:
        won = retire(token, proposed)
        points.reach("test.retired")
        return won

    monkeypatch.setattr(TurnToken, "_retire", slowly)
    turn = turnctl.turn(grace=0.05)
    turn.begin()
    pool = turn.executor(1)
    pool.submit(go.wait, BOUND)
    waiting = Background(pool.shutdown)
    assert until(lambda: pool._waiters)
    parked = list(pool._waiters)
    with pause_at("test.retired") as held:
        ending = Background(turn.end)
        assert held.reached.wait(BOUND)
        assert until(lambda: pool._waiters and pool._waiters != parked)  # it has looked, and waits again
        held.release()
        ending.result()
    waiting.result(2)
    go.set()

    assert "completed" == turn.outcome


def test_late_kill_shortens_the_end_of_a_turn(go: threading.Event) -> None:
    """A stop of a completed turn that still waits for a job ends that wait."""
    turn = turnctl.turn(grace=60)
    turn.begin()
    pool = turn.executor(1)
    pool.submit(go.wait, BOUND)
    ending = Background(turn.end)
    assert until(lambda: turn._hurry_waiters)
    began = time.monotonic()
    turn.stop(kill=True)
    ending.result()
    took = time.monotonic() - began
    go.set()

    assert took < 1
    assert ["abandoned"] == states(turn)


def test_shutdown_while_a_shield_keeps_jobs_from_being_dropped(
    go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs are never out of the queue while somebody looks at them, so the last thread leaves none behind (X1)."""
    real = Job.is_shielded
    looked: list[None] = []
    futures: list[Any] = []

    def look(job: Job) -> bool:
        if threading.current_thread().name.startswith("turnctl-bridge") and not looked:
            looked.append(None)
            go.set()
            pool.shutdown(wait=False)
            until(lambda: len(pool._left) == 1)
        return real(job)

    monkeypatch.setattr(Job, "is_shielded", look)
    with turnctl.turn() as turn, turn.shield("5s"):
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        futures = [pool.submit(int) for _ in range(3)]
        turn.cancel()
        done = until(lambda: all(future.done() for future in futures))

    assert [None] == looked
    assert done
    assert ["completed"] * 4 == states(turn)


def test_jobs_left_under_a_shield_end_with_the_turn(go: threading.Event) -> None:
    """A shield holds until the grace is over; what has not begun by then is dropped, not left open (X6)."""
    with turnctl.turn(grace=0.1) as turn, turn.shield("5s"):
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        future = pool.submit(int)
        turn.cancel()

    assert turn.is_over
    assert future.cancelled()


def test_end_drops_what_a_slow_callback_of_the_stop_has_not(go: threading.Event) -> None:
    """All futures are done when the turn is over, also while the bridge thread stands between two of them (X1, X6)."""
    with pause_at("executor.dropping") as held:
        with turnctl.turn(grace=0.2) as turn:
            pool = turn.executor(1)
            pool.submit(go.wait, BOUND)
            futures = [pool.submit(int) for _ in range(20)]
            turn.cancel()
            assert held.reached.wait(BOUND)
        open_now = [future for future in futures if not future.done()]
        held.release()

    assert [] == open_now


def test_many_jobs_are_dropped_in_little_time(go: threading.Event) -> None:
    """Dropping costs each job the same, however many there are, and the report blames no callback for it."""
    with turnctl.turn(grace=5) as turn:
        pool = turn.executor(1)
        pool.submit(go.wait, BOUND)
        futures = [pool.submit(int) for _ in range(25_000)]
        began = time.monotonic()
        turn.cancel()
        go.set()
    took = time.monotonic() - began

    assert all(future.done() for future in futures)
    assert took < 5
    assert "callback" not in str(turn.report)


def test_shutdown_is_not_fooled_by_an_ident_used_again(go: threading.Event) -> None:
    """Idents are used again; who shuts down is taken for a worker only if it is one (X4)."""
    with turnctl.turn() as turn:
        pool = turn.executor(2)
        job = pool.submit(go.wait, BOUND)
        pool.submit(int).result()
        pool.shutdown(wait=False)
        assert until(lambda: len(pool._left) == 1)
        (gone,) = pool._left
        gone.join()

        def close() -> bool:
            gone._ident = threading.get_ident()
            pool.shutdown(wait=True)
            return job.done()

        closer = Background(close)
        assert until(lambda: pool._waiters or not closer.is_running)
        go.set()

        assert closer.result()


def test_submit_that_nests_in_a_submit_upsets_no_count() -> None:
    """A finalizer or handler submits between two steps of a submit: no thread too many, and none thought idle (X5)."""
    nested: list[Any] = []
    with turnctl.turn() as turn, turn.executor(2) as pool:
        pool.submit(int).result()
        assert until(lambda: len(pool._spare) == 1)
        gate = threading.Barrier(3)
        with call_at("executor.counting", lambda: nested.append(pool.submit(gate.wait, BOUND))):
            futures = [pool.submit(int), pool.submit(int), *nested]
        nested.append(pool.submit(gate.wait, BOUND))
        gate.wait(BOUND)  # two jobs that have to run at the same time
        for future in [*futures, *nested]:
            future.result(BOUND)
        threads = len(pool._threads)

    assert 2 == threads


def test_partial_of_a_coroutine_function_is_refused() -> None:
    """Calling it would only make a coroutine that nobody awaits, as a job and as a callback."""

    async def coroutine() -> None: ...

    with turnctl.turn() as turn, turn.executor(1) as pool:
        with pytest.raises(BadArgument, match="plain function"):
            pool.submit(functools.partial(coroutine))
        with pytest.raises(BadArgument, match="plain function"):
            turn.on_cancel(functools.partial(coroutine))  # type: ignore[arg-type]


def test_workers_are_started_in_an_empty_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where threads inherit the context of who starts them, a worker would carry its first submitter for ever."""
    name = contextvars.ContextVar("name", default="nobody")
    seen: list[object] = []
    start = threading.Thread.start

    def inherits(thread: threading.Thread) -> None:
        seen.append((name.get(), turnctl.current_token()))
        start(thread)

    with turnctl.turn() as turn, turn.executor(1) as pool:
        name.set("ann")
        monkeypatch.setattr(threading.Thread, "start", inherits)
        got = pool.submit(name.get).result()

    assert "ann" == got
    assert [("nobody", None)] == seen


def test_end_of_a_completed_turn_ends_its_executor(go: threading.Event) -> None:
    """One that was never shut down leaves no thread; running work has the grace, waiting work is dropped."""
    before = threading.active_count()
    with turnctl.turn() as turn:
        pool = turn.executor(1)
        running = pool.submit(time.sleep, 0.05)
        waiting = pool.submit(int)
        assert until(running.running)

    assert before == threading.active_count()
    assert running.done()
    assert waiting.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):  # no stop, so none is claimed
        waiting.result()
    with pytest.raises(TurnOver):
        pool.submit(int)


def test_submit_while_the_turn_ends() -> None:
    """A job that comes while the turn ends is refused, or its future ends; none is forgotten (promise 5)."""
    turn = turnctl.turn()
    turn.begin()
    pool = turn.executor(1)
    with pause_at("executor.queued") as held:
        submitting = Background(pool.submit, int)
        assert held.reached.wait(BOUND)
        ending = Background(turn.end)
        assert until(lambda: turn.token.retired)
        held.release()
        error = submitting.error()
        ending.result()

    assert error is None or isinstance(error, TurnOver)
    if error is None:
        assert submitting.result().done()
    assert turn.is_over


def test_job_may_shut_its_own_pool_down() -> None:
    """It does not wait for itself."""
    with turnctl.turn() as turn:
        pool = turn.executor(2)
        future = pool.submit(pool.shutdown)

        assert future.result(BOUND) is None


def test_callback_of_a_future_that_raises_a_stop_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no ``Exception`` passes the standard library's guard: it is told, and the pool goes on."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def raises(_: object) -> None:
        raise KeyboardInterrupt

    go = threading.Event()
    with turnctl.turn() as turn, turn.executor(1) as pool:
        future = pool.submit(go.wait, BOUND)
        future.add_done_callback(raises)
        go.set()
        again = pool.submit(int).result(BOUND)

    assert 0 == again
    assert [KeyboardInterrupt] == [args.exc_type for args in told]


def test_result_is_a_checkpoint_of_the_caller(go: threading.Event) -> None:
    """Who waits for a job in foreign code wakes at once by its own stop."""
    with turnctl.turn() as turn, turn.executor(1) as pool:
        future = pool.submit(go.wait, BOUND)
        with turnctl.turn() as inner:
            threading.Timer(0.02, inner.stop).start()
            future.result()
        go.set()

        assert inner.cancelled
        assert future.result() is True


def test_thread_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of threads ``submit`` raises and nothing hangs on a job that nobody would take."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with turnctl.turn() as turn, turn.executor(1) as pool:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(BlockingIOError, match="no thread is to be had"):
                pool.submit(int)
        after = pool.submit(int).result(BOUND)

    assert 0 == after
    assert ["cancelled", "completed"] == states(turn)


def test_repr_names_the_turn() -> None:
    """What is printed of a pool says whose it is."""
    with turnctl.turn() as turn, turn.executor(1, name="tools") as pool:
        text = repr(pool)

    assert turn.turn_id in text
    assert "tools" in text


@pytest.mark.switchinterval
@pytest.mark.parametrize("times", [20, pytest.param(1000, marks=pytest.mark.stress)])
def test_every_future_ends_whatever_the_order(times: int) -> None:
    """Submitters, a stop and the end of the turn in any order: each future ends, each job is accounted for."""
    before = threading.active_count()
    for n in range(times):
        turn = turnctl.turn(grace=5)
        turn.begin()
        pool = turn.executor(2)
        gate = threading.Barrier(4)

        def submit(pool: Any = pool, gate: threading.Barrier = gate) -> list[Any]:
            futures: list[Any] = []
            gate.wait(BOUND)
            try:
                for _ in range(10):
                    futures.append(pool.submit(turnctl.sleep, 0.0001))
            except (CancelledError, TurnOver):
                pass
            return futures

        submitters = [Background(submit) for _ in range(3)]
        gate.wait(BOUND)
        if n % 3:
            turn.stop()
        turn.end()
        futures = [future for one in submitters for future in one.result()]
        left = [future for future in futures if not future.done()]

        assert [] == left
        assert "open" not in states(turn)
        assert () == turn.report.alive
    assert until(lambda: threading.active_count() == before)
