"""tenacity, stamina and urllib3's Retry under a turn: a stop ends the sleep, the attempts and the policy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from models import Models, models
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, ClientChanged
from turnctl.integrations.retries import stoppable_retry, stoppable_retrying

tenacity = pytest.importorskip("tenacity", reason="tenacity is not installed: the test extra has it")

LIMIT_S = 2.0  # ten times what is promised


class Flaky:
    """Fails each time; knows how often it was tried, and may be held in the middle of it."""

    def __init__(self) -> None:
        self.tries = 0
        self.hold_at: int | None = None
        self.inside = threading.Event()
        self.go_on = threading.Event()

    def __call__(self) -> None:
        self.tries += 1
        if self.tries == self.hold_at:
            self.inside.set()
            assert self.go_on.wait(BOUND)
        raise ConnectionError("busy")


@pytest.fixture
def flaky() -> Flaky:
    return Flaky()


def stopped(turn: turnctl.Turn, fn: Callable[[], object], ready: Callable[[], object]) -> BaseException:
    """Stop the turn once it is ``ready``; what came out of ``fn``, within the time that is promised."""
    thread = Background(turn.bind(fn))
    assert until(ready)
    at = time.monotonic()
    turn.stop("enough")
    error = thread.error()
    assert thread.ended_at is not None
    assert thread.ended_at - at < LIMIT_S
    assert isinstance(error, CancelledError), error
    assert "enough" == error.reason
    return error


def waits(turn: turnctl.Turn, flaky: Flaky) -> Callable[[], object]:
    """Whether the first try is over and the loop sleeps."""
    return lambda: flaky.tries and turn.token._grow().waiters


# -- tenacity -----------------------------------------------------------------------------------------------------


def decorated(flaky: Flaky, **options: Any) -> Callable[[], None]:
    @stoppable_retrying
    @tenacity.retry(**options)
    def work() -> None:
        flaky()

    return work  # type: ignore[no-any-return]


def called(flaky: Flaky, **options: Any) -> Callable[[], None]:
    retrying = stoppable_retrying(tenacity.Retrying(**options))
    return lambda: retrying(flaky)


def looped(flaky: Flaky, **options: Any) -> Callable[[], None]:
    retrying = stoppable_retrying(tenacity.Retrying(**options))

    def work() -> None:
        for attempt in retrying:
            with attempt:
                flaky()

    return work


def installed(flaky: Flaky, **options: Any) -> Callable[[], None]:
    @tenacity.retry(**options)
    def work() -> None:
        flaky()

    return work  # type: ignore[no-any-return]


Make = Callable[..., Callable[[], None]]


@pytest.fixture(params=[decorated, called, looped, installed])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Every way to retry with tenacity, and a loop that cannot be edited under ``install(http=True)``."""
    if request.param is not installed:
        yield request.param
        return
    pytest.importorskip("httpx", reason="httpx is not installed: the clients extra has it")
    with turnctl.install(http=True):
        yield request.param


def test_stop_ends_the_sleep(make: Make, flaky: Flaky) -> None:
    """A wait of 60 s is over at once, and nothing is tried again."""
    with turnctl.turn() as turn:
        stopped(turn, make(flaky, wait=tenacity.wait_fixed(60)), waits(turn, flaky))

    assert 1 == flaky.tries


def test_policy_that_retries_everything_does_not_retry_a_stop(make: Make, flaky: Flaky) -> None:
    """Nor does it tell of it as its own error."""
    policy = {"retry": tenacity.retry_if_exception_type(BaseException), "stop": tenacity.stop_after_attempt(5)}
    with turnctl.turn() as turn:
        stopped(turn, make(flaky, wait=tenacity.wait_fixed(60), **policy), waits(turn, flaky))

    assert 1 == flaky.tries


def test_last_attempt_that_fails_of_the_stop(make: Make, flaky: Flaky) -> None:
    """The limit is reached: it is the stop all the same, from what the attempt failed with, and no ``RetryError``."""
    flaky.hold_at = 1
    with turnctl.turn() as turn:
        work = make(flaky, stop=tenacity.stop_after_attempt(1))
        thread = Background(turn.bind(work))
        assert flaky.inside.wait(BOUND)
        turn.stop("enough")
        flaky.go_on.set()
        error = thread.error()

    assert isinstance(error, CancelledError)
    assert ("enough", "ConnectionError('busy')") == (error.reason, repr(error.__cause__))


def test_stopped_turn_tries_nothing(make: Make, flaky: Flaky) -> None:
    """Stop, then the first attempt: it is not made."""
    with turnctl.turn() as turn:
        work = turn.bind(make(flaky))
        turn.cancel()
        with pytest.raises(CancelledError):
            work()

    assert 0 == flaky.tries


def test_stop_that_the_attempt_itself_raised(make: Make) -> None:
    """It comes out as it is, also where the policy would try again."""

    def work() -> None:
        turnctl.current_turn().cancel("enough")  # type: ignore[union-attr]
        turnctl.check()

    with turnctl.turn() as turn:
        retry = tenacity.retry_if_exception_type(BaseException)
        with pytest.raises(CancelledError) as caught:
            make(work, retry=retry)()

    assert turn.token is caught.value.token
    assert caught.value.__cause__ is None


def test_without_a_stop_the_policy_holds(make: Make, flaky: Flaky) -> None:
    """So many attempts, so much sleep, and its own error at the end."""
    at = time.monotonic()
    with turnctl.turn():
        with pytest.raises(tenacity.RetryError):
            make(flaky, wait=tenacity.wait_fixed(0.02), stop=tenacity.stop_after_attempt(3))()

    assert 3 == flaky.tries
    assert 0.04 <= time.monotonic() - at


def test_outside_of_turns_the_policy_holds(make: Make, flaky: Flaky) -> None:
    """The same."""
    with pytest.raises(tenacity.RetryError):
        make(flaky, wait=tenacity.wait_fixed(0.001), stop=tenacity.stop_after_attempt(3))()

    assert 3 == flaky.tries


def test_result_that_comes_late_is_given(make: Make) -> None:
    """The attempt came back: what it brought is not thrown away."""

    def work() -> str:
        turnctl.current_turn().cancel()  # type: ignore[union-attr]
        return "value"

    with turnctl.turn():
        assert "value" == (make(work)() or "value")


def test_sleep_of_the_host_stays() -> None:
    """Who has chosen how to sleep goes on with it; the stop is seen after it."""
    slept: list[float] = []
    flaky = Flaky()
    with turnctl.turn() as turn:

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            turn.cancel()

        with pytest.raises(CancelledError):
            called(flaky, sleep=sleep, wait=tenacity.wait_fixed(60))()

    assert ([60], 1) == (slept, flaky.tries)


def test_what_was_given_stays_as_it_is() -> None:
    """Another object obeys the turn, and that one's statistics are its own."""
    retrying = tenacity.Retrying(wait=tenacity.wait_fixed(1))
    made = stoppable_retrying(retrying)

    assert made is not retrying
    assert type(retrying) is tenacity.Retrying
    assert isinstance(made, tenacity.Retrying)
    assert retrying.wait is made.wait
    assert retrying.sleep is not made.sleep


def test_uninstall_takes_it_back(flaky: Flaky) -> None:
    """The method is the one that was there."""
    pytest.importorskip("httpx", reason="httpx is not installed: the clients extra has it")
    before = tenacity.BaseRetrying.__dict__["iter"]
    with turnctl.install(http=True):
        assert before is not tenacity.BaseRetrying.__dict__["iter"]

    assert before is tenacity.BaseRetrying.__dict__["iter"]


def test_asynchronous_retries_are_refused() -> None:
    """They end with their task."""
    with pytest.raises(BadArgument, match="it is asynchronous, and ends with its task"):
        stoppable_retrying(tenacity.AsyncRetrying())


@pytest.mark.parametrize("thing", [None, 3, len, object()])
def test_what_does_not_retry_is_refused(thing: Any) -> None:
    """With what is taken."""
    with pytest.raises(BadArgument, match="is for a tenacity.Retrying"):
        stoppable_retrying(thing)


def test_unknown_tenacity_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not come through ``iter`` could not be stopped."""
    monkeypatch.setattr(tenacity.BaseRetrying, "iter", lambda self: None)
    with pytest.raises(ClientChanged, match="does not retry in a way that turnctl knows") as caught:
        stoppable_retrying(tenacity.Retrying())

    assert ("tenacity", ("BaseRetrying.iter",)) == (caught.value.client, caught.value.missing)


# -- stamina ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stamina() -> Any:
    return pytest.importorskip("stamina", reason="stamina is not installed: the clients extra has it")


SLOW: dict[str, Any] = {"on": ConnectionError, "wait_initial": 60, "wait_max": 60, "wait_jitter": 0, "attempts": 3}


def test_context_of_stamina_ends_with_the_stop(stamina: Any, flaky: Flaky) -> None:
    """Its sleep is over at once, and nothing is tried again."""

    def work() -> None:
        for attempt in stoppable_retrying(stamina.retry_context(**SLOW, timeout=None)):
            with attempt:
                flaky()

    with turnctl.turn() as turn:
        stopped(turn, work, waits(turn, flaky))

    assert 1 == flaky.tries


@pytest.mark.parametrize("how", ["decorator", "caller"])
def test_stamina_ends_with_the_stop_under_install(stamina: Any, flaky: Flaky, how: str) -> None:
    """What cannot be given an object is reached for the process."""
    pytest.importorskip("httpx", reason="httpx is not installed: the clients extra has it")
    if how == "caller" and not hasattr(stamina, "RetryingCaller"):
        pytest.skip("stamina before 24.2 has no callers")

    @stamina.retry(**SLOW, timeout=None)
    def work() -> None:
        flaky()

    def call() -> None:
        options = {name: value for name, value in SLOW.items() if name != "on"}
        stamina.RetryingCaller(**options, timeout=None)(ConnectionError, flaky)

    with turnctl.install(http=True), turnctl.turn() as turn:
        stopped(turn, work if how == "decorator" else call, waits(turn, flaky))

    assert 1 == flaky.tries


def test_unknown_stamina_is_refused(stamina: Any) -> None:
    """One whose context takes no sleep."""
    import dataclasses

    @dataclasses.dataclass
    class Context:
        __module__ = "stamina._core"

    with pytest.raises(ClientChanged, match="does not make its retries in a way"):
        stoppable_retrying(Context())


# -- urllib3, and requests over it --------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Models]:
    with models() as server:
        server.mode = 503
        yield server


class Session:
    """A plain session of requests, or a pool of urllib3, with a policy."""

    def __init__(self, name: str, server: Models, **policy: Any) -> None:
        urllib3 = pytest.importorskip("urllib3", reason="urllib3 is not installed: the clients extra has it")
        retry = stoppable_retry(urllib3.util.Retry(status_forcelist=[503], **policy))
        self.url = server.url
        self.is_requests = name == "requests"
        if self.is_requests:
            requests = pytest.importorskip("requests", reason="requests is not installed: the clients extra has it")
            self.client = requests.Session()
            self.client.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        else:
            self.client = urllib3.PoolManager(retries=retry)

    def get(self) -> object:
        return self.client.get(self.url) if self.is_requests else self.client.request("GET", self.url)

    def close(self) -> None:
        self.client.close() if self.is_requests else self.client.clear()


@pytest.fixture(params=["requests", "urllib3"])
def session(request: pytest.FixtureRequest, server: Models) -> Iterator[Session]:
    found = Session(request.param, server, total=5)
    yield found
    found.close()


def test_stop_ends_the_sleep_that_a_server_asked_for(session: Session, server: Models) -> None:
    """``Retry-After: 60`` is over at once, and the server sees one request."""
    server.retry_after = "60"
    with turnctl.turn() as turn:
        stopped(turn, session.get, lambda: server.requests and turn.token._grow().waiters)

    assert 1 == len(server.requests)


@pytest.mark.parametrize("name", ["requests", "urllib3"])
def test_stop_ends_the_sleep_of_the_policy(name: str, server: Models) -> None:
    """The back-off of the policy's own, which begins with the second attempt."""
    session = Session(name, server, total=5, backoff_factor=60)
    with turnctl.turn() as turn:
        stopped(turn, session.get, lambda: server.requests and turn.token._grow().waiters)
    session.close()

    assert 2 >= len(server.requests)


def test_attempt_that_fails_after_the_stop_is_the_last(session: Session, server: Models) -> None:
    """The answer comes when the turn is stopped: it is not tried again, and nothing is left open."""
    with turnctl.turn() as turn:
        server.heard = lambda _: turn.cancel("enough")
        with pytest.raises(CancelledError) as caught:
            session.get()

    assert ("enough", 1) == (caught.value.reason, len(server.requests))
    server.heard = None
    server.mode = "whole"
    session.get()


def test_policy_of_urllib3_holds_without_a_stop(session: Session, server: Models) -> None:
    """So many requests, and then its own error."""
    with turnctl.turn(), pytest.raises(Exception, match="too many 503 error responses"):
        session.get()

    assert 6 == len(server.requests)
