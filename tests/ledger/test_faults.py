"""A transport that fails is no evidence: once bytes may have left, the effect is unknown until somebody tells (P17)."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from provider import LOSSES, Provider, provider

import turnctl
from turnctl.ledger import Answer, http_adapter

WITHIN_S = 0.15


@pytest.fixture
def site() -> Iterator[Provider]:
    with provider() as made:
        yield made


def by_stdlib(url: str, key: str, body: bytes) -> str:
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=WITHIN_S)
    try:
        connection.request("POST", f"/{key}", body)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise http.client.HTTPException(str(answer.status))
        return str(json.loads(text)["receipt"])
    finally:
        connection.close()


def by_requests(url: str, key: str, body: bytes) -> str:
    requests = pytest.importorskip("requests", reason="requests is not installed: pip install requests")
    answer = requests.post(f"{url}/{key}", data=body, timeout=WITHIN_S)
    answer.raise_for_status()
    return str(answer.json()["receipt"])


def by_httpx(url: str, key: str, body: bytes) -> str:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed: pip install httpx")
    answer = httpx.post(f"{url}/{key}", content=body, timeout=WITHIN_S)
    answer.raise_for_status()
    return str(answer.json()["receipt"])


CLIENTS: list[Callable[[str, str, bytes], str]] = [by_stdlib, by_requests, by_httpx]


def look_up(site: Provider) -> Callable[[turnctl.ledger.Adapter], Answer | None]:
    def ask(effect) -> Answer | None:
        try:
            with urllib.request.urlopen(f"{site.url}/{effect.effect_id}", timeout=5) as answer:
                return Answer("completed", json.load(answer), "provider")
        except urllib.error.HTTPError as refused:
            refused.close()
            return None  # not seen yet is no evidence that it never will be

    return ask  # type: ignore[return-value]


def act(ledger: turnctl.Ledger, site: Provider, send: Callable[[str, str, bytes], str]) -> turnctl.LedgerTask:
    """A turn that sends one effect over a connection that fails."""
    task = ledger.submit("acme", "job")
    adapter = http_adapter("pay", lookup=look_up(site))
    try:
        with turnctl.turn(task=task) as turn, turn.effect("pay", key="1", payload=b"7 EUR", adapter=adapter) as sent:
            sent.complete(send(site.url, sent.effect_id, sent.payload))
    except Exception:
        return task
    return task


@pytest.mark.parametrize("send", CLIENTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("loss", LOSSES)
def test_lost_answer_leaves_unknown(site: Provider, loss: str, send: Callable[[str, str, bytes], str]) -> None:
    """However the answer is lost, and by which client, nobody knows; the provider, asked under the same id, does."""
    site.mode = loss
    with turnctl.open_ledger("memory:") as ledger:
        task = act(ledger, site, send)
        before = ledger.report(task)
        (found,) = ledger.reconcile([http_adapter("pay", lookup=look_up(site))], tenant="acme")
        after = ledger.report(task)
    (effect,) = after.effects

    assert ("failed, effects unresolved", "unknown") == (before.state, before.effects[0].disposition)
    assert (True, "completed", "failed") == (found.is_resolved, effect.disposition, after.state)
    assert [(effect.effect_id, b"7 EUR")] == site.journal
    assert [effect.effect_id] == site.asked


@pytest.mark.parametrize("send", CLIENTS, ids=lambda one: one.__name__)
def test_answer_that_arrives_is_the_receipt(site: Provider, send: Callable[[str, str, bytes], str]) -> None:
    """Each client of the table completes where the provider answers: what is tested above is the loss."""
    with turnctl.open_ledger("memory:") as ledger:
        report = ledger.report(act(ledger, site, send))

    assert ("completed", f"kept {report.effects[0].effect_id}") == (report.state, report.effects[0].receipt)


@pytest.mark.parametrize(
    "error",
    [
        *(ConnectionResetError(), ConnectionRefusedError(), BrokenPipeError(), TimeoutError(), OSError(5, "i/o")),
        *(socket.gaierror(-2, "name"), ssl.SSLEOFError(), ssl.SSLCertVerificationError(), EOFError()),
        *(http.client.RemoteDisconnected(), http.client.IncompleteRead(b""), http.client.BadStatusLine("")),
        *(MemoryError(), RecursionError(), ValueError("no JSON"), AssertionError(), StopIteration()),
        *(KeyboardInterrupt(), SystemExit(0), SystemExit(1), GeneratorExit()),
    ],
    ids=lambda error: f"{type(error).__name__} {error}".strip(),
)
def test_no_error_is_evidence(error: BaseException) -> None:
    """Whatever leaves the body, nothing is concluded from what it is called: the effect may have happened."""
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job")
        with pytest.raises(type(error)), turnctl.turn(task=task) as turn, turn.effect("pay", key="1"):
            raise error
        (effect,) = ledger.report(task).effects

    assert ("closed", "unknown", None) == (effect.phase, effect.disposition, effect.receipt)


@pytest.mark.parametrize("loss", LOSSES)
def test_cancelled_task_settles_though_no_answer_arrives(site: Provider, loss: str) -> None:
    """Every answer after the cancellation is dropped: the account is whole by look-ups alone (R53)."""
    site.mode = loss
    adapter = http_adapter("pay", lookup=look_up(site))
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task, grace=0) as turn:
            for n in range(3):
                with turn.effect("pay", key=str(n), payload=b"7 EUR", adapter=adapter) as sent:
                    if n == 1:
                        ledger.cancel(task, by="alice")
                    try:
                        sent.complete(by_stdlib(site.url, sent.effect_id, sent.payload))
                    except (OSError, http.client.HTTPException):
                        continue
        before = task.state
        ledger.reconcile([adapter], tenant="acme")
        report = ledger.report(task)

    assert ("stopped_unresolved", "cancelled, settled") == (before, report.state)
    assert [(one.effect_id, b"7 EUR") for one in report.effects] == site.journal
    assert ["completed", "completed"] == [one.disposition for one in report.effects]
