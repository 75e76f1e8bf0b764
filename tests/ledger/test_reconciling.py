"""Finding out what became of unknown effects, and the account of a task in words (P17, P18)."""

from __future__ import annotations

import json

import pytest

import turnctl
from turnctl.errors import BadArgument
from turnctl.ledger import Answer, dealings, http_adapter
from turnctl.ledger.identity import this_process
from turnctl.records.changes import By
from turnctl.records.tasks import Holder


def unknown(ledger: turnctl.Ledger, *, cancel: bool = True, **how: object) -> tuple[turnctl.LedgerTask, str]:
    """A task of which one effect may have happened."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        with turn.effect("mail.send", key="1", payload="hello", **how) as sent:  # type: ignore[arg-type]
            pass
        if cancel:
            ledger.cancel(task, by="alice", reason="enough")
    return task, sent.effect_id


def test_answer_with_a_receipt_settles(ledger: turnctl.Ledger) -> None:
    """The receiver is asked under the original id; what it says is kept, and the task settles (R60, R62)."""
    asked = []

    def lookup(effect):
        asked.append(effect.effect_id)
        return Answer("completed", {"at": "12:00"})

    task, effect_id = unknown(ledger, adapter=http_adapter("mailer"))
    before = task.state
    (found,) = ledger.reconcile([http_adapter("mailer", lookup=lookup)], tenant="acme")

    assert ([effect_id], "stopped_unresolved", "cancelled_settled") == (asked, before, task.state)
    assert (True, "completed") == (found.is_resolved, found.effect.disposition)
    assert '{"at": "12:00"}' == ledger.report(task).effects[0].receipt


@pytest.mark.parametrize(("consequence", "escalation"), [("low", "wait"), ("medium", "notify"), ("high", "page")])
def test_who_cannot_tell_leaves_unknown(ledger: turnctl.Ledger, consequence: str, escalation: str) -> None:
    """An uncertainty is kept, and brought before people by how much hangs on it (R63)."""
    task, _ = unknown(ledger, consequence=consequence)
    (found,) = ledger.reconcile({"mail.send": lambda _: None}, tenant="acme")

    assert (escalation, "stopped_unresolved") == (found.escalation, task.state)


@pytest.mark.parametrize("probe", [None, lambda _: 1 / 0, lambda _: "yes"], ids=["none", "raises", "word"])
def test_probe_that_fails_hides_nothing(ledger: turnctl.Ledger, probe) -> None:
    """What went wrong is in the result, and the effect stays unknown."""
    task, _ = unknown(ledger)
    (found,) = ledger.reconcile({} if probe is None else {"mail.send": probe}, tenant="acme")

    assert found.problem
    assert (False, "stopped_unresolved") == (found.is_resolved, task.state)


def test_question_is_in_the_log_as_reading(ledger: turnctl.Ledger) -> None:
    """Each question is a line that changed nothing, on an authority of its own (R65)."""
    task, effect_id = unknown(ledger)
    ledger.reconcile({"mail.send": lambda _: None}, tenant="acme", by="k1")
    line = ledger.store.read(lambda books: books.events(task.inc))[-1]

    assert ("reconcile.asked", "reconciler", True, effect_id) == (
        *(line.kind, line.authority, line.read_only, line.subject),
    )


def test_reconciler_of_another_tenant_asks_nothing(ledger: turnctl.Ledger) -> None:
    """Only what it may see is asked about."""
    unknown(ledger)

    assert [] == ledger.reconcile({"mail.send": lambda _: pytest.fail("asked")}, tenant="globex")


def test_reconciler_of_the_host_asks_for_all(ledger: turnctl.Ledger) -> None:
    """Without a tenant it is asked on behalf of each task's own, and the host may refuse that too."""
    unknown(ledger)
    refusing = turnctl.Ledger(ledger.store, authorise=lambda request: request.action != "reconcile")

    assert [] == refusing.reconcile({"mail.send": lambda _: pytest.fail("asked")})
    assert 1 == len(ledger.reconcile({"mail.send": lambda _: None}))


def test_claim_of_a_dead_worker_is_found(ledger: turnctl.Ledger) -> None:
    """A worker that died while it was sending is noted as gone first, then its effect is looked up (P16)."""
    task = ledger.submit("acme", "job")
    me, by = this_process(), By("w", "worker")
    dead = Holder(me.boot_id, me.pid_ns, me.pid, me.started - 1, me.host)
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="1") as sent:
        ledger.store.transact(lambda books: dealings.take_lease(books, by, task.inc, dead, force=True))
    second = turnctl.turn(task=task)
    with second, second.effect("mail.send", key="2") as other:
        ledger.store.transact(lambda books: dealings.take_lease(books, by, task.inc, dead, force=True))
        between = ledger.report(task)
    ledger.reconcile({"mail.send": lambda effect: Answer("completed", effect.effect_id)}, tenant="acme")
    found = ledger.report(task)

    assert [sent.effect_id, other.effect_id] == [one.receipt for one in found.effects]
    assert ("active", "idle") == (between.task.execution, found.task.execution)


def test_operator_closes_without_a_receipt(ledger: turnctl.Ledger) -> None:
    """It stays unknown, closed by NAME; the report says so, and the task settles."""
    task, effect_id = unknown(ledger)
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.close_unknown(effect_id, by="mallory", reason="x", tenant="globex")
    ledger.close_unknown(effect_id, by="bob", reason="provider is gone", tenant="acme")
    found = ledger.report(task)

    assert ("not_authorised", "cancelled_settled", 0) == (caught.value.code, task.state, found.effects_unresolved)
    assert "may have happened, admitted before the stop, closed as unknown by bob" in str(found)


def test_bad_probes_are_refused() -> None:
    """Nothing is asked by what is no adapter."""
    with turnctl.open_ledger("memory:") as ledger, pytest.raises(BadArgument):
        ledger.reconcile([print])  # type: ignore[list-item]


# -- the account --------------------------------------------------------------------------------------------------


def test_account_says_what_already_happened(ledger: turnctl.Ledger) -> None:
    """Settled means accounted for, not undone (R22)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        with turn.effect("mail.send", key="1") as sent:
            sent.complete("250 ok")
        ledger.cancel(task, by="alice", reason="enough")
    text = str(ledger.report(task)).removesuffix("; not durable")

    assert (
        "cancelled, settled; stop requested by alice (enough), promise no-new-actions; one effect already happened, "
        "admitted before the stop: mail.send '1'; no decision is needed"
    ) == text


def test_account_says_what_may_have_happened(ledger: turnctl.Ledger) -> None:
    """What is unknown is named, and that somebody has to look (R72)."""
    task, _ = unknown(ledger)
    text = str(ledger.report(task)).removesuffix("; not durable")

    assert (
        "stopped, effects unresolved; stop requested by alice (enough), promise no-new-actions; one effect may have "
        "happened, admitted before the stop, and is to be looked up: mail.send '1'; a decision is needed (notify): ask "
        "its receiver, or close it by name"
    ) == text


def test_account_of_a_running_task(ledger: turnctl.Ledger) -> None:
    """The three facts stand apart while it runs, is asked to stop, and has stopped (R4, R51)."""
    task = ledger.submit("acme", "job")
    states = []
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="1") as sent:
        states.append(ledger.report(task))
        turn.token.on_cancel(lambda: None)
        ledger.cancel(task, by="alice")
        states.append(ledger.report(task))
        sent.complete("250 ok")
    states.append(ledger.report(task))
    words = [(one.state, one.task.execution, one.effects[0].disposition) for one in states]

    assert ("running", "active", "pending") == words[0]
    assert words[1] in [
        ("cancellation requested", "active", "pending"),
        ("draining", "active", "pending"),  # the worker has acknowledged already
    ]
    assert ("cancelled, settled", "stop_observed", "completed") == words[2]
    assert "on the way" in str(states[0])
    assert states[1].missing


def test_account_is_plain_for_machines(ledger: turnctl.Ledger) -> None:
    """``as_dict`` can be written as JSON, intent, execution and effects apart."""
    task, _ = unknown(ledger)
    found = json.loads(json.dumps(ledger.report(task).as_dict()))

    assert ("turnctl.task/1", "stopped, effects unresolved") == (found["schema"], found["state"])
    assert (True, "alice") == (found["intent"]["cancel_requested"], found["intent"]["record"]["requester"])
    assert ("stop_observed", 1, 1) == (
        *(found["execution"]["state"], found["execution"]["lease_gen"], found["effects"]["unresolved"]),
    )


def test_account_of_what_is_not_there_is_refused(ledger: turnctl.Ledger) -> None:
    """Nothing is made up."""
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.report("i-none")

    assert "no_such_task" == caught.value.code
