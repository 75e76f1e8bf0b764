"""The sleep of retry libraries and of a model's client is ours: a stop ends the waiting and the retrying."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standins import BOUND, Background, is_parked

import turnctl
from turnctl import CancelledError, Turn

LIMIT_S = 2.0  # ten times what is promised


def stopped_while_waiting(work: Callable[[], object], attempts: list[int]) -> tuple[Turn, float]:
    """Run ``work`` in a turn, stop it in its first wait; the turn, and the seconds from the stop to its end."""
    turn = turnctl.turn()

    def body() -> None:
        with turn:
            work()

    thread = Background(body)
    assert _until_begun(turn)
    assert is_parked(turn.token._grow().waiters)
    before = len(attempts)
    stopped_at = time.monotonic()
    turn.cancel("enough")
    assert thread.error() is None
    assert before == len(attempts)
    assert thread.ended_at is not None
    return turn, thread.ended_at - stopped_at


def _until_begun(turn: Turn) -> bool:
    give_up_at = time.monotonic() + BOUND
    while turn._token is None and time.monotonic() < give_up_at:
        time.sleep(0.001)
    return turn._token is not None


@pytest.fixture
def attempts() -> list[int]:
    return []


@pytest.fixture
def flaky(attempts: list[int]) -> Callable[[], None]:
    def call() -> None:
        attempts.append(1)
        raise ConnectionError("busy")

    return call


@pytest.mark.parametrize("ambient", [False, True], ids=["turn.sleep", "turnctl.sleep"])
def test_tenacity_waits_with_our_sleep(flaky: Callable[[], None], attempts: list[int], ambient: bool) -> None:
    """A wait of 60 s is over at once when the turn is stopped, and no further attempt is made."""
    tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed: the test extra has it")

    def work() -> None:
        turn = turnctl.current_turn()
        assert turn is not None
        sleep = turnctl.sleep if ambient else turn.sleep
        tenacity.Retrying(sleep=sleep, wait=tenacity.wait_fixed(60), reraise=True)(flaky)

    turn, took = stopped_while_waiting(work, attempts)

    assert (1, "cancelled") == (len(attempts), turn.outcome)
    assert took < LIMIT_S


def test_tenacity_decorator_retries_until_the_stop(attempts: list[int]) -> None:
    """A stop between two attempts ends the loop at its sleep, as a checkpoint does."""
    tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed: the test extra has it")

    @tenacity.retry(sleep=turnctl.sleep, wait=tenacity.wait_fixed(0.001))
    def work() -> None:
        attempts.append(1)
        if len(attempts) == 3:
            turnctl.current_turn().stop()  # type: ignore[union-attr]
        raise OSError

    with turnctl.turn() as turn:
        work()

    assert ("cancelled", 3) == (turn.outcome, len(attempts))


def test_tenacity_that_retries_everything_makes_no_real_attempt(attempts: list[int]) -> None:
    """A policy that retries even a stop goes on, but every attempt and every sleep raises: it ends by its own limit."""
    tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed: the test extra has it")

    def work() -> None:
        turnctl.check()
        attempts.append(1)
        raise OSError

    with turnctl.turn() as turn:
        turn.cancel()
        begun = time.monotonic()
        with pytest.raises(CancelledError):
            tenacity.Retrying(
                sleep=turnctl.sleep,
                wait=tenacity.wait_fixed(60),
                retry=tenacity.retry_if_exception_type(BaseException),
                stop=tenacity.stop_after_attempt(5),
            )(work)
        took = time.monotonic() - begun

    assert [] == attempts
    assert took < LIMIT_S


def test_stamina_waits_in_its_backoff_hook(flaky: Callable[[], None], attempts: list[int]) -> None:
    """stamina has no ``sleep=``; its backoff hook may wait with ours and ask for no more: the stop ends it there."""
    stamina = pytest.importorskip("stamina", reason="stamina is not installed here; the stand-in below has its shape")

    def wait_here(error: Exception) -> float:
        turnctl.sleep(60)
        return 0.0

    retrying = stamina.retry_context(on=wait_here, attempts=3)
    turn, took = stopped_while_waiting(lambda: _each(retrying, flaky), attempts)

    assert (1, "cancelled") == (len(attempts), turn.outcome)
    assert took < LIMIT_S


def _each(retrying: Any, fn: Callable[[], None]) -> None:
    for attempt in retrying:
        with attempt:
            fn()


def test_hook_that_is_asked_for_the_backoff(flaky: Callable[[], None], attempts: list[int]) -> None:
    """A stand-in of the shape of stamina's backoff hook: it is given the error, and what it returns is slept."""

    def retrying(on: Callable[[Exception], float], fn: Callable[[], None]) -> None:
        while True:
            try:
                return fn()
            except Exception as error:
                time.sleep(on(error))

    turn, took = stopped_while_waiting(lambda: retrying(lambda _: turnctl.sleep(60) or 0.0, flaky), attempts)

    assert (1, "cancelled") == (len(attempts), turn.outcome)
    assert took < LIMIT_S


def test_hook_that_is_a_method_of_a_client(flaky: Callable[[], None], attempts: list[int]) -> None:
    """A stand-in of the shape of openai's client: the sleep between two tries is a method that a subclass replaces."""

    class Client:
        def request(self) -> None:
            for taken in range(3):
                try:
                    flaky()
                except ConnectionError:
                    self._sleep_for_retry(retries_taken=taken, max_retries=3, options=None, response=None)

        def _sleep_for_retry(self, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
            time.sleep(60)

    class Stoppable(Client):
        def _sleep_for_retry(self, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
            turnctl.sleep(60)

    turn, took = stopped_while_waiting(Stoppable().request, attempts)

    assert (1, "cancelled") == (len(attempts), turn.outcome)
    assert took < LIMIT_S


@pytest.fixture
def busy_server(attempts: list[int]) -> Iterator[str]:
    """A server that asks each caller to come back in 60 s; it counts the requests in ``attempts``."""

    class Busy(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            attempts.append(1)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps({"error": {"message": "busy"}}).encode()
            self.send_response(429)
            self.send_header("Retry-After", "60")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join(BOUND)


def test_openai_waits_with_our_sleep(busy_server: str, attempts: list[int]) -> None:
    """The real client, told to come back in 60 s, sends no second request once the turn is stopped."""
    openai = pytest.importorskip("openai", reason="openai is not installed here; the stand-in above has its shape")

    class Stoppable(openai.OpenAI):
        def _sleep_for_retry(self, *, retries_taken: int, max_retries: int, options: Any, response: Any) -> None:
            headers = response.headers if response else None
            turnctl.sleep(self._calculate_retry_timeout(max_retries - retries_taken, options, headers))

    with Stoppable(base_url=busy_server, api_key="none", max_retries=5) as client:
        turn, took = stopped_while_waiting(
            lambda: client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}]), attempts
        )

    assert (1, "cancelled") == (len(attempts), turn.outcome)
    assert took < LIMIT_S
