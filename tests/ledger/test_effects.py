"""An effect in a turn: the gate, the claim, and what is told of it, with a ledger and without (P15, P17)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import turnctl
from turnctl.errors import BadArgument
from turnctl.ledger import http_adapter
from turnctl.testing import call_at


@pytest.fixture(params=["none", "memory", "sqlite"])
def make(request: pytest.FixtureRequest, quick: Path):
    """Makes turns: without a ledger, and with a task of each kind of ledger."""
    if request.param == "none":
        yield turnctl.turn
        return
    with turnctl.open_ledger("memory:" if request.param == "memory" else str(quick / "host.db")) as ledger:
        numbers = iter(range(100))
        yield lambda **how: turnctl.turn(task=ledger.submit("acme", f"job {next(numbers)}", **how))


def test_completed_effect_has_its_receipt(make) -> None:
    """What took place is in the report, with the evidence."""
    with make() as turn, turn.effect("mail.send", key="m1", payload={"to": "bob"}) as sent:
        sent.complete({"status": 250})
    (record,) = turn.report.effects

    assert ("mail.send", "m1", "completed", '{"status": 250}') == (
        *(record.kind, record.key, record.disposition, record.receipt),
    )
    assert (0, "completed", b'{"to":"bob"}') == (turn.report.effects_unresolved, turn.report.state, sent.payload)


@pytest.mark.parametrize(("tell", "said"), [("reject", "rejected"), ("provider_cancelled", "provider_cancelled")])
def test_effect_that_did_not_take_place_may_be_tried_again(make, tell: str, said: str) -> None:
    """A refusal with a receipt settles one effect, and leaves the intent open."""
    with make() as turn:
        with turn.effect("mail.send", key="m1") as sent:
            getattr(sent, tell)("550 no")
        with turn.effect("mail.send", key="m1") as again:
            again.complete("250 ok")

    assert [said, "completed"] == [one.disposition for one in turn.report.effects]
    assert sent.effect_id != again.effect_id


def test_completed_effect_is_never_sent_again(make) -> None:
    """The same key gives the receipt that is there, and the body does not run."""
    with make() as turn:
        with turn.effect("mail.send", key="m1") as sent:
            sent.complete("250 ok")
        with pytest.raises(turnctl.EffectCompleted) as caught, turn.effect("mail.send", key="m1"):
            pytest.fail("it ran")

    assert ("done", "250 ok", sent.effect_id) == (caught.value.code, caught.value.receipt, caught.value.effect_id)
    assert 1 == len(turn.report.effects)


def test_exception_in_the_body_leaves_unknown(make) -> None:
    """That something was raised is no evidence that nothing got out; it passes, and the report counts it."""
    with pytest.raises(ConnectionError), make() as turn, turn.effect("mail.send", key="m1"):
        raise ConnectionError("reset")

    assert (1, "failed, effects unresolved") == (turn.report.effects_unresolved, turn.report.state)
    assert "1 effect with unknown outcome" in str(turn.report)


def test_body_without_a_word_leaves_unknown_and_says_so(make) -> None:
    """Nobody has told what became of it, so nobody knows."""
    with make() as turn, turn.effect("mail.send", key="m1"):
        pass

    assert ["unknown"] == [one.disposition for one in turn.report.effects]
    assert "without a word" in turn.report.notes[0]


def test_unknown_is_no_leave_to_try_again(make) -> None:
    """The same intent is refused while its outcome is unknown."""
    with make() as turn:
        with turn.effect("mail.send", key="m1"):
            pass
        with pytest.raises(turnctl.LedgerRefused) as caught, turn.effect("mail.send", key="m1"):
            pytest.fail("it ran")

    assert "unresolved" == caught.value.code


def test_receiver_that_takes_an_id_once_is_tried_again(make) -> None:
    """Where the adapter says so, an unknown one is entered again under its own id."""
    adapter = http_adapter("pay")
    with make() as turn:
        with turn.effect("pay", key="1", adapter=adapter) as first:
            pass
        with turn.effect("pay", key="1", adapter=adapter) as again:
            again.complete("paid")

    assert first.effect_id == again.effect_id
    assert ["completed"] == [one.disposition for one in turn.report.effects]


@pytest.mark.parametrize("why", ["horizon", "another adapter", "no adapter"])
def test_other_receivers_are_not_tried_again(make, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past its horizon a key is forgotten, and another receiver never knew it."""
    second = {"another adapter": http_adapter("other"), "no adapter": None}.get(why, http_adapter("pay"))
    with make() as turn:
        with turn.effect("pay", key="1", adapter=http_adapter("pay")):
            pass
        if why == "horizon":
            now = time.time()
            monkeypatch.setattr("turnctl.ledger.acting.wall", lambda: now + 25 * 3600)
        with pytest.raises(turnctl.LedgerRefused) as caught, turn.effect("pay", key="1", adapter=second):
            pytest.fail("it ran")

    assert "unresolved" == caught.value.code


def test_receipt_after_unknown_is_taken(make) -> None:
    """Evidence may come late, from the turn itself too."""
    with make() as turn:
        with turn.effect("mail.send", key="m1") as sent:
            pass
        sent.complete("250 ok")

    assert ("completed", 0) == (turn.report.effects[0].disposition, turn.report.effects_unresolved)


def test_second_word_is_a_conflict(make) -> None:
    """The first receipt stands."""
    with make() as turn, turn.effect("mail.send", key="m1") as sent:
        sent.complete("250 ok")
        with pytest.raises(turnctl.LedgerRefused) as caught:
            sent.reject("550 no")

    assert ("conflict", "completed") == (caught.value.code, turn.report.effects[0].disposition)


def test_other_payload_under_the_same_key_is_refused(make) -> None:
    """A key stands for one intent, with its exact bytes; another kind has keys of its own."""
    with make() as turn:
        turn.effect("mail.send", key="m1", payload="a").admit()
        with pytest.raises(turnctl.LedgerRefused) as caught:
            turn.effect("mail.send", key="m1", payload="b").admit()
        with turn.effect("sms.send", key="m1", payload="b") as other:
            other.complete("ok")

    assert "payload_conflict" == caught.value.code


def test_admitted_effect_may_be_suppressed_until_it_is_claimed(make) -> None:
    """Between the gate and the claim it can be taken back, and not after."""
    with make() as turn:
        first = turn.effect("mail.send", key="m1").admit()
        first.suppress("a better idea")
        with pytest.raises(turnctl.LedgerRefused), first:
            pytest.fail("it ran")
        with turn.effect("mail.send", key="m2") as second:
            with pytest.raises(turnctl.LedgerRefused) as caught:
                second.suppress()
            second.complete("ok")

    assert "closed" == caught.value.code
    assert ["suppressed", "completed"] == [one.disposition for one in turn.report.effects]


def test_unsent_effect_of_a_turn_that_ends_is_suppressed(make) -> None:
    """What was admitted and never claimed did not happen, and is said not to have."""
    with make() as turn:
        turn.effect("mail.send", key="m1").admit()

    assert ["suppressed"] == [one.disposition for one in turn.report.effects]


def test_stopped_turn_admits_nothing(make) -> None:
    """After a stop of the turn the gate is closed, under a shield too."""
    ran = []
    with make() as turn:
        turn.stop("enough")
        with turn.shield(), turn.effect("mail.send", key="m1"):
            ran.append(1)

    assert ([], (), "cancelled") == (ran, turn.report.effects, turn.outcome)


def test_stop_at_the_gate_decides_by_the_commit(make) -> None:
    """A stop that comes when the transaction begins leaves nothing of it; the body does not run."""
    ran = []
    with make() as turn:
        with call_at("gate.before_begin", turn.cancel), turn.effect("mail.send", key="m1"):
            ran.append(1)

    assert ([], "cancelled", ()) == (ran, turn.outcome, turn.report.effects)


def test_stop_in_the_body_takes_nothing_back(make) -> None:
    """What was claimed may get out: its receipt is taken in a stopped turn too, and the turn is cancelled."""
    with make() as turn, turn.effect("mail.send", key="m1") as sent:
        turn.cancel("enough")
        sent.complete("250 ok")

    assert ("cancelled, settled", "completed") == (turn.report.state, turn.report.effects[0].disposition)


def test_stop_that_interrupts_the_send_leaves_unknown(make) -> None:
    """A turn that is stopped within the body has an unresolved effect, and says so."""
    with make() as turn, turn.effect("mail.send", key="m1"):
        turn.cancel("enough")
        turn.check()

    assert "stopped, effects unresolved" == turn.report.state


def test_turn_that_is_over_admits_no_effect(make) -> None:
    """An effect belongs to a turn that runs."""
    with make() as turn:
        early = turn.effect("mail.send", key="m1")
    with pytest.raises(turnctl.TurnOver):
        turn.effect("mail.send", key="m2")
    with pytest.raises((turnctl.TurnOver, turnctl.LedgerRefused)), early:
        pytest.fail("it ran")

    assert () == turn.report.effects


def test_without_a_ledger_nothing_is_called_durable() -> None:
    """The same gate in memory: the report, the record and the handle say that it is not durable."""
    with turnctl.turn() as turn, turn.effect("mail.send", key="m1") as sent:
        sent.complete("250 ok")
    found = turn.report.as_dict()["effects"]

    assert (False, False, False) == (found["durable"], found["list"][0]["durable"], sent.durable)
    assert "not durable" in repr(sent)


def test_effects_of_threads_are_all_there(make) -> None:
    """Many threads of one turn act at once: of one key one is sent, and every record is kept."""
    with make() as turn:

        def act(n: int) -> None:
            try:
                with turn.effect("mail.send", key=str(n % 4)) as sent:
                    sent.complete("ok")
            except turnctl.LedgerRefused as error:
                refused.append(error.code)

        refused: list[str] = []
        threads = [threading.Thread(target=act, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert (4, 8) == (len(turn.report.effects), len(refused))
    assert {"done", "in_flight"} >= set(refused)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": ""}, "kind of an effect"),
        ({"kind": "mail send"}, "no spaces"),
        ({"key": 7}, "key of an effect"),
        ({"payload": object()}, "payload"),
        ({"consequence": "dire"}, "use low, medium or high"),
    ],
)
def test_bad_effect_is_refused_at_once(options: dict[str, object], words: str) -> None:
    """Nothing is admitted of what cannot be kept."""
    given = {"kind": "mail.send", "key": "k", **options}
    with turnctl.turn() as turn, pytest.raises(BadArgument, match=words):
        turn.effect(given.pop("kind"), **given)  # type: ignore[arg-type]

    assert () == turn.report.effects


def test_word_without_a_receipt_is_refused(make) -> None:
    """Nobody calls it completed because it seems to be."""
    with make() as turn, turn.effect("mail.send", key="m1") as sent, pytest.raises(BadArgument, match="receipt"):
        sent.complete(None)

    assert "unknown" == turn.report.effects[0].disposition


def test_provider_is_asked_when_the_turn_is_stopped() -> None:
    """Under "ask-provider" a stop asks at once, under the effect's own id; what is confirmed is the disposition."""
    asked = threading.Event()
    ids = []

    def cancel(effect):
        ids.append(effect.effect_id)
        asked.set()
        return turnctl.ledger.Answer("provider_cancelled", "cancelled before the send")

    adapter = http_adapter(cancel=cancel, confirms=True)
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job", promise="ask-provider", adapters=[adapter])
        with turnctl.turn(task=task) as turn, turn.effect("pay", key="1", adapter=adapter) as sent:
            ledger.cancel(task, by="alice")
            asked.wait(5)
            while sent.disposition == "pending":
                threading.Event().wait(0.005)

    assert ([sent.effect_id], "provider_cancelled") == (ids, turn.report.effects[0].disposition)
    assert "cancelled_settled" == task.state


def test_word_of_a_weak_adapter_settles_nothing() -> None:
    """That somebody was told is no evidence that it did not take place."""
    asked = threading.Event()
    adapter = turnctl.ledger.mcp_adapter(notify=lambda _: asked.set())
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job", promise="ask-provider", adapters=[adapter])
        with turnctl.turn(task=task) as turn, turn.effect("tool", key="1", adapter=adapter):
            ledger.cancel(task, by="alice")
            asked.wait(5)

    assert ("unknown", "stopped_unresolved") == (turn.report.effects[0].disposition, task.state)


def test_effect_that_cannot_keep_the_promise_is_refused() -> None:
    """A task that promises more than the code can do does not act by it."""
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job", promise="ask-provider")
        with turnctl.turn(task=task) as turn, pytest.raises(turnctl.LedgerRefused) as caught, turn.effect("a", key="1"):
            pytest.fail("it ran")

    assert ("incapable", ()) == (caught.value.code, turn.report.effects)


def test_shared_work_ends_with_its_last_interest() -> None:
    """Two tasks share work; one that is cancelled lets go of its own interest alone (R46)."""
    with turnctl.open_ledger("memory:") as ledger:
        first, second = ledger.submit("acme", "one"), ledger.submit("acme", "two")
        with turnctl.turn(task=first) as one, turnctl.turn(task=second, inherit=False) as two:
            with one.share("index"), two.share("index") as mine:
                ledger.cancel(first, by="alice")
                between = mine.state
            after = mine.state

    assert ("running", "cancel_requested") == (between, after)


def test_shared_work_that_is_done_is_not_cancelled() -> None:
    """Who says that it ended lets go of nothing that runs; nobody joins it afterwards."""
    with turnctl.turn() as turn:
        with turn.share("index") as shared:
            shared.end()
        with pytest.raises(turnctl.LedgerRefused) as caught, turn.share("index"):
            pytest.fail("it was shared")

    assert ("ended", "ended") == (shared.state, caught.value.code)


@pytest.mark.parametrize("cancelled", ["by the turn", "by the ledger"])
def test_what_is_to_be_delivered_is_sent_after_a_stop(ledger: turnctl.Ledger, cancelled: str) -> None:
    """Under "deliver" an admitted effect is entered though the turn was stopped; a new one is not."""
    task = ledger.submit("acme", "job", policy="deliver")
    with turnctl.turn(task=task) as turn:
        effect = turn.effect("mail.send", key="m1").admit()
        if cancelled == "by the turn":
            turn.cancel("enough")
        else:
            task.cancel(by="alice", reason="enough")
            with pytest.raises(turnctl.CancelledError):
                turn.sleep(10)
        with effect as sent:
            sent.complete("250 ok")
        with pytest.raises(turnctl.CancelledError), turn.effect("mail.send", key="m2"):
            pytest.fail("it ran")
    (record,) = turn.report.effects

    assert ("cancelled", "completed") == (turn.outcome, record.disposition)
    assert ("cancelled_settled", "enough") == (task.state, ledger.report(task).cancellation.reason)


def test_shutdown_delivers_nothing(ledger: turnctl.Ledger) -> None:
    """A worker that goes away leaves what it had admitted to the next one, which sends it under the same id."""
    task = ledger.submit("acme", "job", policy="deliver")
    with turnctl.turn(task=task) as turn:
        effect = turn.effect("mail.send", key="m1").admit()
        turn.cancel("redeploy", cause="shutdown")
        with pytest.raises(turnctl.CancelledError), effect:
            pytest.fail("it ran")
    with turnctl.turn(task=task) as second, second.effect("mail.send", key="m1") as sent:
        sent.complete("250 ok")

    assert ("completed", effect.effect_id) == (task.state, sent.effect_id)


@pytest.mark.parametrize("cancelled", ["by the turn", "by the ledger"])
def test_provider_is_not_asked_about_a_late_delivery(ledger: turnctl.Ledger, cancelled: str) -> None:
    """What is sent after the cut-off on purpose is not cancelled at its provider in the same breath."""
    asked = []
    adapter = http_adapter(cancel=lambda effect: asked.append(effect.effect_id))
    task = ledger.submit("acme", "job", policy="deliver", promise="ask-provider", adapters=[adapter])
    with turnctl.turn(task=task) as turn:
        effect = turn.effect("mail.send", key="m1", adapter=adapter).admit()
        if cancelled == "by the turn":
            turn.cancel("enough")
        else:
            task.cancel(by="alice")
        with pytest.raises(turnctl.CancelledError):
            turn.sleep(10)
        with effect as sent:
            sent.complete("250 ok")

    assert ([], "completed") == (asked, turn.report.effects[0].disposition)
