"""The adapters that ship, each at something real: what their word establishes, and what it does not (P17)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import OTHER, SECOND, WORKER, Desk
from provider import Provider, provider
from standins import Background, until

import turnctl
from turnctl.errors import BadArgument
from turnctl.ledger import Adapter, Answer, dealings, http_adapter, local_process_adapter, mcp_adapter


@pytest.fixture
def site() -> Iterator[Provider]:
    with provider() as made:
        yield made


def post(site: Provider, sent: turnctl.TurnEffect) -> str:
    """Send it under its id, with the generation that a provider which fences remembers; the receipt."""
    request = urllib.request.Request(f"{site.url}/{sent.effect_id}", sent.payload, {"Fence": str(sent.generation)})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(json.load(answer)["receipt"])


# -- a process ----------------------------------------------------------------


def test_process_that_was_killed_has_stopped_and_may_have_acted(ledger: turnctl.Ledger, tmp_path: Path) -> None:
    """That a command has ended is observed; what it had done is not known by that, and the account says so."""
    done = tmp_path / "done"
    adapter = local_process_adapter()
    task = ledger.submit("acme", "job", adapters=[adapter])

    def work() -> None:
        with (
            turnctl.turn("worker", task=task, grace=0) as turn,
            turn.effect("deploy", key="1", adapter=adapter) as sent,
        ):
            sent.complete(str(turn.run(["sh", "-c", f"echo acted > {done}; sleep 60"])))

    working = Background(work)
    assert until(lambda: done.exists() and done.read_text())  # made first, and written then
    ledger.cancel(task, by="alice")
    working.result()
    report = ledger.report(task)

    assert "handler_stopped" == adapter.evidence
    assert ("stopped, effects unresolved", "unknown") == (report.state, report.effects[0].disposition)
    assert "acted\n" == done.read_text()


# -- a service with keys ----------------------------------------------------------------


def test_service_takes_a_key_once(ledger: turnctl.Ledger, site: Provider) -> None:
    """An answer that was lost is asked for again under the same id: one entry at the provider, and its receipt."""
    site.mode = "reset"
    adapter = http_adapter("pay")
    task = ledger.submit("acme", "job", adapters=[adapter])
    with turnctl.turn(task=task) as turn:
        with pytest.raises(OSError), turn.effect("pay", key="1", payload=b"7 EUR", adapter=adapter) as first:
            first.complete(post(site, first))
        site.mode = "ok"
        with turn.effect("pay", key="1", payload=b"7 EUR", adapter=adapter) as again:
            again.complete(post(site, again))
    (effect,) = ledger.report(task).effects

    assert [(first.effect_id, b"7 EUR")] == site.journal
    assert (first.effect_id, "completed", f"kept {first.effect_id}") == (
        *(effect.effect_id, effect.disposition, effect.receipt),
    )


def test_receiver_that_fences_refuses_the_old_worker(ledger: turnctl.Ledger, site: Provider) -> None:
    """A worker that was replaced is refused by the gate, and at a receiver that remembers the generation (R37)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task, inherit=False) as old, old.effect("pay", key="1") as late:
        with turnctl.turn(task=task.take_over(), inherit=False) as new, new.effect("pay", key="2") as sent:
            sent.complete(post(site, sent))
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(site, late)
        refused.value.close()
        with pytest.raises((turnctl.LedgerRefused, turnctl.TurnOver)) as closed, old.effect("pay", key="3"):
            pytest.fail("it ran")

    assert ((1, 2), [1]) == ((late.generation, sent.generation), site.refused)
    assert [(sent.effect_id, b"")] == site.journal
    assert closed.value


# -- requests, in the store ----------------------------------------------------------------


@pytest.mark.usefixtures("both_stores")
def test_request_is_noted_of_what_is_on_the_way() -> None:
    """A protocol's id is noted beside the effect's own, by its present worker, between the claim and the answer."""
    desk = Desk()
    desk.admit("e1")
    early = desk.deal(dealings.requested, WORKER, "e1", "7", gen=1)
    desk.claim("e1")
    desk.deal(dealings.requested, WORKER, "e1", "8", gen=1)
    noted = desk.effect("e1")
    desk.deal(dealings.take_lease, SECOND, "i1", OTHER, force=True)
    fenced = desk.deal(dealings.requested, WORKER, "e1", "9", gen=1)
    late = desk.deal(dealings.requested, SECOND, "e1", "9", gen=2)

    assert ["not_claimed", "stale_generation", "closed"] == [early.code, fenced.code, late.code]
    assert ("e1", "8", "8") == (noted.effect_id, noted.request_ref, desk.effect("e1").request_ref)


def test_bad_request_id_is_refused() -> None:
    """What is no id of a request is told where it is given."""
    with turnctl.turn() as turn:
        effect = turn.effect("pay", key="1")
        with pytest.raises(turnctl.LedgerRefused):
            effect.requested("7")
        with effect as sent, pytest.raises(BadArgument):
            sent.requested(True)


# -- a way to look it up ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("adapter", "is_reconcilable"),
    [
        (None, False),
        (mcp_adapter(notify=print), False),
        (http_adapter(), False),
        (local_process_adapter(), False),
        (Adapter("own", lookup=lambda _: None), True),
        (http_adapter(lookup=lambda _: None), True),
    ],
    ids=repr,
)
def test_effect_that_nobody_can_look_up_is_marked(
    ledger: turnctl.Ledger, adapter: Adapter | None, is_reconcilable: bool
) -> None:
    """Before its body runs the handle and the report say that no way to look it up was named (R54)."""
    seen = []
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        effect = turn.effect("pay", key="1", adapter=adapter)
        seen.append(repr(effect))
        effect.admit()
        seen.append(repr(effect))
        before = ledger.report(task).effects[0]
        with effect as sent:
            sent.complete(Answer("completed", "ok").receipt)

    assert [not is_reconcilable] * 2 == ["unreconcilable" in one for one in seen]
    assert [is_reconcilable] * 2 == [before.reconcilable, effect.is_reconcilable]
    assert adapter is None or ("unreconcilable" in repr(adapter)) is not is_reconcilable
