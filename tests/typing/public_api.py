"""The public names as a host uses them, for a type checker. Read by mypy in strict mode, never run."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import IO, Any, Literal, assert_type

import turnctl
from turnctl import (
    ActivityRecord,
    BadArgument,
    BadDuration,
    CancelledError,
    CancelToken,
    ClientChanged,
    CommandError,
    Completed,
    ContainmentUnavailable,
    EffectCompleted,
    EffectRecord,
    EventMisuse,
    ExecutorClosed,
    Ledger,
    LedgerRefused,
    LedgerTask,
    ProcessOutcome,
    SessionBusy,
    ShuttingDown,
    StopAnswer,
    StopRecord,
    StopResult,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreLost,
    StoreMissing,
    StoreRefused,
    StoreTooNew,
    StoreUnsafe,
    TaskReport,
    TokenMisuse,
    TooManyAbandoned,
    Turn,
    TurnctlError,
    TurnEffect,
    TurnEvent,
    TurnOver,
    TurnReport,
    TurnResult,
    TurnToken,
)
from turnctl.ledger import Answer, Bundled, Purged, Reconciled, Request, Share, http_adapter
from turnctl.records import Cancellation, Effect, Refusal


def turns(event: threading.Event) -> str:
    with turnctl.turn(
        "chat",
        turn_id="t1",
        event=event,
        on_busy="wait",
        inherit=False,
        timeout="5m",
        grace=3,
        reason="new message",
    ) as turn:
        assert_type(turn, Turn)
        assert_type(turn.token, TurnToken)
        assert_type(turn.check(), None)
        assert_type(turn.cancelled, bool)
        assert_type(turn.stopping, bool)
        assert_type(turn.cause, str | None)
        assert_type(turn.deadline, float | None)
        assert_type(turn.event, threading.Event)
        turn.sleep("1s")
        turn.set_timeout(None)
        assert_type(turn.wait_cancelled(1), bool)
        with turn.staged("notes.txt", "w", named=True, encoding="utf-8") as file:
            assert_type(file, IO[Any])
        with turn.activity("tool", "search"), turn.shield(max="5s"):
            turnctl.check()
        with turn.child(timeout=1) as child:
            assert_type(child, CancelToken)
        with turn.on_cancel(event.set, inline=True) as registration:
            assert_type(registration.unregister(wait=True), bool)
    assert_type(turn.report, TurnReport)
    return str(turn.report)


def calls() -> int:
    token = turnctl.begin_turn("chat", timeout=60, on_busy="refuse")
    assert_type(token, TurnToken)
    try:
        current = turnctl.current_turn()
        assert_type(current, Turn | None)
        assert_type(turnctl.current_token(), CancelToken | None)
    except BaseException as error:
        turnctl.end_turn(token, error=error)
        raise
    assert_type(turnctl.end_turn(token, "failed"), bool)

    def add(a: int, *, b: int) -> int:
        return a + b

    result = turnctl.run_turn(add, 1, b=2, options={"session_id": "chat"})
    assert_type(result, TurnResult[int])
    assert_type(result.value, int | None)
    assert_type(result.late_value, int | None)
    assert_type(result.report, TurnReport)
    return result.unwrap()


def stops() -> None:
    answer = turnctl.stop("chat", expected_turn="t1", reason="wrong repo", by="ann", grace="1s")
    if isinstance(answer, StopAnswer):
        assert_type(answer.record, StopRecord | None)
        assert_type(answer.outcome, Literal["completed", "failed", "cancelled", "superseded"] | None)
    result = turnctl.stop(turn_id="t1", kill=True, wait=10)
    if isinstance(result, StopResult):
        assert_type(result.answer, StopAnswer)
        assert_type(result.report, TurnReport | None)
        assert_type(result.over, bool)
    assert_type(turnctl.stop_all("closing", cause="operator"), list[StopAnswer])
    assert_type(turnctl.shutdown("deploy", grace=0), list[StopAnswer])
    with turnctl.session("chat") as session:
        assert_type(session.session_id, str)
    with turnctl.handle_signals(raises=False) as handling:
        handling.restore()


def waits(words: queue.Queue[str], futures: list[Future[int]], thread: threading.Thread) -> None:
    turnctl.sleep(0.5)
    with turnctl.shield("2s"):
        turnctl.check()
    assert_type(turnctl.wait(thread, timeout="1s"), bool)
    assert_type(turnctl.get(words), str)
    lock = turnctl.Lock()
    assert_type(turnctl.acquire(lock, timeout=1), bool)
    own: turnctl.SimpleQueue[int] = turnctl.SimpleQueue()
    own.put(3)
    for future in turnctl.as_completed(futures):
        assert_type(future, Future[int])
    assert_type(turnctl.select([0], write=[1], timeout="5s"), list[Any])
    assert_type(turnctl.input("> "), str)
    turnctl.ask("go on?")


def calls_and_streams(text: str) -> int:
    assert_type(turnctl.call(len, text, prefer="result", interrupt=True), int)
    opened = contextlib.nullcontext([1, 2])  # a manager that gives something to iterate over
    assert_type(next(turnctl.stream(opened)), int)
    with turnctl.stream(["a", "b"], name="reply") as parts:
        assert_type(parts, turnctl.Stream[str])
        for part in parts:
            assert_type(part, str)
    try:
        turnctl.call(text.encode)
    except CancelledError as error:
        assert_type(error.late, turnctl.LateResult | None)
    bound = turnctl.bind(len)
    return bound(text)


def bridges(turn: Turn, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> int:
    async def work() -> int:
        return 1

    assert_type(turn.bridge_asyncio(loop), turnctl.StopEvent)
    with turn.bridge_socket(sock) as bridging:
        assert_type(bridging, turnctl.Bridging)
    assert_type(turn.bridge_fd(), int)
    return turnctl.run_coroutine(work())


def threads(turn: Turn) -> int:
    started = turn.thread(len, "abc", name="count")
    assert_type(started, turnctl.TurnThread[int])
    with turn.executor(2) as pool:
        assert_type(pool, turnctl.TurnExecutor)
        future = pool.submit(len, "abc")
        assert_type(future, turnctl.TurnFuture[int])
    with turnctl.install(threads=True) as installed:
        assert_type(installed, turnctl.Installed)
    with turnctl.install(subprocess=True, single_turn=True) as installed:
        assert_type(installed, turnctl.Installed)
    turnctl.uninstall()
    return started.result("1s")


def pauses(turn: Turn) -> None:
    assert_type((turn.pause(), turn.paused, turn.resume()), tuple[bool, bool, bool])
    assert_type(turnctl.pause_all() + turnctl.resume_all(), list[str])


def answers(question: turnctl.Question) -> bool:
    return bool(question.answer("yes"))


def diagnoses(turn: Turn) -> str:
    assert_type(turn.diagnose(), turnctl.Diagnosis)
    return str(turn.diagnose())


def commands() -> int | None:
    done = turnctl.run(["make", "test"], timeout="30s", text=True)
    assert_type(done, Completed)
    assert_type(done.outcome, ProcessOutcome)
    with turnctl.popen(["tail", "-f", "log"], leftovers="wait") as process:
        process.kill()
    with turnctl.turn() as turn, turnctl.turn() as other, turn.scope(process, spare=[7]) as scope:
        assert_type(turn.adopt(7).release(), bool)
        assert_type(turn.detach(process, owner=other), None)
        assert_type(turn.detach(process, owner="nightly", contract="runs on"), None)
        assert_type(scope.end(), ProcessOutcome)
    return done.returncode


def contained() -> list[str]:
    done = turnctl.run(
        ["make"],
        containment="namespace",
        require="atomic",
        max_output="1MiB",
        idle_timeout="30s",
        tee=print,
        limits={"cpu": "1m", "nofile": 64},
        env_unset=["*_TOKEN"],
        env_extra={"CI": "1"},
        shield=True,
        tty="new",
        tty_size=(24, 80),
    )
    assert_type(done.outcome.held_by, Literal["namespace", "cgroup", "warden", "group"])
    assert_type(done.outcome.learned_after_s, float | None)
    with turnctl.popen(["bash"], tty="new", tty_echo=True) as process:
        process.resize(30, 100)
    found = turnctl.processes.capabilities()
    assert_type(found, turnctl.processes.Capabilities)
    return [one.remedy for one in found if not one.is_available]


def tokens(first: CancelToken, second: TurnToken) -> None:
    link = CancelToken.any_of(first, second, timeout="1m")
    assert_type(link, CancelToken)
    assert_type(second.cancel("enough", by="ann", cause="budget", level="soft", grace=1), StopAnswer)
    assert_type(second.session_id, str | None)
    assert_type(second.event, TurnEvent)
    host: threading.Event = TurnEvent()
    assert_type(turnctl.register_cancel_event("chat", host), TurnToken)
    assert_type(turnctl.unregister_cancel_event("chat", host), bool)


def ledgers(send: Callable[[bytes, str], str]) -> list[EffectRecord]:
    def authorise(request: Request) -> bool | str:
        return request.tenant == request.task.tenant and f"policy of {request.by}"

    def look_up(effect: Effect) -> Answer | None:
        return Answer("completed", effect.effect_id)

    adapter = http_adapter("mailer", lookup=look_up, cancel=look_up, key_horizon="24h", confirms=True)
    with turnctl.open_ledger("memory:", authorise=authorise) as ledger:
        assert_type(ledger, Ledger)
        task = ledger.submit("acme", "job", promise="ask-provider", policy="deliver", adapters=[adapter])
        assert_type(task, LedgerTask)
        with turnctl.turn(task=task) as turn:
            with turn.effect("mail.send", key="1", payload={"to": "bob"}, adapter=adapter, consequence="high") as sent:
                assert_type(sent, TurnEffect)
                sent.requested("request-1")
                assert_type((sent.generation, sent.is_reconcilable), tuple[int, bool])
                sent.complete(receipt=send(sent.payload, sent.effect_id))
            with turn.share("index") as shared:
                assert_type(shared, Share)
                shared.end()
        answer = ledger.cancel(task, by="alice", reason="enough", scope="self")
        assert_type(answer, Cancellation | Refusal)
        assert_type(ledger.reconcile([adapter], tenant="acme"), list[Reconciled])
        with ledger.compensate(sent.effect_id, "mail.recall", by="bob", key="1", auth_ref="ticket") as made:
            made.reject("too late")
        report = ledger.report(task)
        assert_type(report, TaskReport)
        assert_type([one.text for one in report.decisions], list[str])
        assert_type(ledger.purge(older_than="30d", keep_tombstones="90d", dry_run=True), Purged)
        assert_type(ledger.bundle(task, "job.bundle", payloads=False, scope="self"), Bundled)
        assert_type(turn.report.effects, tuple[EffectRecord, ...])
        return list(report.effects)


def reads(report: TurnReport) -> list[ActivityRecord]:
    assert_type(report.state, str)
    assert_type(report.processes, tuple[ProcessOutcome, ...])
    report.validate()
    return list(report.activities)


def errors(error: BaseException) -> str:
    kinds: tuple[type[TurnctlError], ...] = (
        *(BadArgument, BadDuration, ClientChanged, CommandError, ContainmentUnavailable, EventMisuse),
        *(EffectCompleted, ExecutorClosed, LedgerRefused),
        *(SessionBusy, ShuttingDown, TokenMisuse, TooManyAbandoned, TurnOver),
        *(StoreBusy, StoreClosed, StoreDamaged, StoreError, StoreForeign, StoreFull, StoreLost, StoreMissing),
        *(StoreRefused, StoreTooNew, StoreUnsafe),
    )
    if isinstance(error, CancelledError):
        assert_type(error.partial, Completed | None)
        return error.reason or error.cause or ""
    if isinstance(error, CommandError):
        return str(error.completed.returncode)
    if isinstance(error, StoreBusy):
        return f"{error.path} {error.holder}"
    if isinstance(error, StoreTooNew):
        return f"{error.path} {error.needs + 1}"
    if isinstance(error, SessionBusy):
        return f"{error.session_id} {error.turn_id}"
    return str(isinstance(error, kinds)) + turnctl.__version__
