"""The ledger as a host uses it: submitting, cancelling, who may, and what is told (P14, P18)."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

import turnctl
from turnctl.errors import BadArgument
from turnctl.ledger import Request, http_adapter, mcp_adapter
from turnctl.ledger.whereabouts import default_path


def kinds(ledger: turnctl.Ledger, task: turnctl.LedgerTask) -> list[str]:
    return [event.kind for event in ledger.store.read(lambda books: books.events(task.inc))]


# -- opening ------------------------------------------------------------------------------------------------------


def test_default_ledger_is_the_users_own(monkeypatch: pytest.MonkeyPatch, quick: Path) -> None:
    """Without a name it is in the user's state directory, made on first use, for the user alone."""
    monkeypatch.delenv("TURNCTL_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(quick))
    with turnctl.open_ledger() as ledger:
        ledger.submit("acme", "job")
    with turnctl.open_ledger() as again:
        found = again.task("acme", "job")
    path = quick / "turnctl" / "ledger.sqlite3"

    assert path == default_path()
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert found is not None


def test_state_directory_can_be_named(monkeypatch: pytest.MonkeyPatch, quick: Path) -> None:
    """TURNCTL_STATE_DIR is the directory itself, and what is given in the call goes before it."""
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(quick))

    assert quick / "ledger.sqlite3" == default_path()
    assert Path("/given/ledger.sqlite3") == default_path("/given")


@pytest.mark.parametrize("given", ["", "relative/state"])
def test_useless_state_home_is_not_used(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    """An empty or relative XDG_STATE_HOME counts as none."""
    monkeypatch.delenv("TURNCTL_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", given)

    assert Path.home() / ".local" / "state" / "turnctl" / "ledger.sqlite3" == default_path()


def test_memory_says_that_it_is_not_durable() -> None:
    """The ledger that keeps nothing says so."""
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job")
        found = ledger.report(task)

    assert (False, False) == (ledger.durable, found.durable)
    assert "not durable" in repr(ledger)
    assert "not durable" in str(found)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"url": 7}, {"authorise": "everybody"}, {"url": ""}, {"url": "a\0b"}, {"url": "\ud800"}),
        *({"url": "sqlite:///tmp/x"}, {"url": ":memory:"}, {"url": "memory:two"}),
    ],
)
def test_bad_ledger_is_refused(wrong: dict[str, object]) -> None:
    """Nothing is opened for arguments that mean nothing."""
    with pytest.raises(BadArgument):
        turnctl.open_ledger(**wrong)  # type: ignore[arg-type]


# -- submitting ---------------------------------------------------------------------------------------------------


def test_open_task_is_not_submitted_again(ledger: turnctl.Ledger) -> None:
    """One incarnation at a time; another tenant's task of the same name is another one (R9)."""
    first = ledger.submit("acme", "job")
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.submit("acme", "job")
    other = ledger.submit("globex", "job")
    ledger.cancel(first, by="alice")

    assert ("task_open", "cancelled_settled", "running") == (caught.value.code, first.state, other.state)
    assert ledger.task("globex", "job") == other
    assert ledger.incarnation(first.inc) == first


def test_promise_that_an_adapter_cannot_keep_is_refused(ledger: turnctl.Ledger) -> None:
    """The promise is declared when the task is submitted, and nothing is submitted that could not keep it (R5)."""
    weak = mcp_adapter(notify=print)
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.submit("acme", "job", promise="prevent-delivery", adapters=[weak])
    task = ledger.submit("acme", "job", promise="ask-provider", adapters=[weak])

    assert "incapable" == caught.value.code
    assert "ask-provider" == ledger.report(task).as_dict()["promise"]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"tenant": ""}, {"task_id": 7}, {"promise": "undo-everything"}, {"policy": "maybe"}),
        *({"parent": "job"}, {"adapters": ["plain"]}),
    ],
    ids=str,
)
def test_bad_task_is_refused(wrong: dict[str, object]) -> None:
    """Nothing is submitted for arguments that mean nothing."""
    with turnctl.open_ledger("memory:") as ledger, pytest.raises(BadArgument):
        ledger.submit(**{"tenant": "acme", "task_id": "job", **wrong})  # type: ignore[arg-type]


# -- cancelling ---------------------------------------------------------------------------------------------------


def test_repeats_get_the_first_record(ledger: turnctl.Ledger) -> None:
    """Of many requests at once one makes the record; all get it, and each is in the log (R12)."""
    task = ledger.submit("acme", "job")
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append(task.cancel(by=f"u{n}"))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 1 == len({one.cr for one in found})
    assert (8, 7) == (len(found), kinds(ledger, task).count("cancel.repeated"))


def test_late_cancellation_meets_no_newer_incarnation(ledger: turnctl.Ledger) -> None:
    """A request for one that is over is told that this is another one, which runs on (R11)."""
    old = ledger.submit("acme", "job")
    with turnctl.turn(task=old):
        pass
    new = ledger.submit("acme", "job")
    late = ledger.cancel(old, by="alice")

    assert ("stale_incarnation", "running") == (late.code, new.state)


def test_scope_self_leaves_children(ledger: turnctl.Ledger) -> None:
    """The scope is stored with the record."""
    task = ledger.submit("acme", "job")

    assert "self" == ledger.cancel(task, by="alice", scope="self").scope


@pytest.mark.parametrize("wrong", [{"by": None}, {"by": " "}, {"reason": 7}, {"scope": "all"}, {"task": 7}], ids=str)
def test_bad_cancellation_is_refused(wrong: dict[str, object]) -> None:
    """Nothing is recorded for arguments that mean nothing."""
    with turnctl.open_ledger("memory:") as ledger:
        task = ledger.submit("acme", "job")
        with pytest.raises(BadArgument):
            ledger.cancel(**{"task": task, "by": "alice", **wrong})  # type: ignore[arg-type]

        assert "running" == task.state


# -- below another task -------------------------------------------------------------------------------------------


def test_child_is_cancelled_with_its_parent(ledger: turnctl.Ledger) -> None:
    """A task that was submitted under a turn's is reached by the cancellation of that one (R41)."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        child = ledger.submit("acme", "part", parent=turn)
        ledger.cancel(task, by="alice")
        with pytest.raises(turnctl.LedgerRefused) as caught:
            ledger.submit("acme", "another part", parent=turn)

    assert ("cancelled", "cancelled_settled", None) == (
        caught.value.code,
        child.state,
        ledger.task("acme", "another part"),
    )


def test_child_ends_with_its_parent(ledger: turnctl.Ledger) -> None:
    """A parent that completes cancels what still runs below it, and says why."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn:
        child = ledger.submit("acme", "part", parent=turn)
    cr = ledger.report(child).cancellation

    assert ("completed", "cancelled_settled") == (task.state, child.state)
    assert cr is not None
    assert "its parent has ended" == cr.reason


def test_only_a_turn_of_the_same_tenant_is_a_parent(ledger: turnctl.Ledger) -> None:
    """A child belongs where its parent does."""
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, pytest.raises(BadArgument):
        ledger.submit("globex", "part", parent=turn)
    with turnctl.turn() as plain, pytest.raises(BadArgument):
        ledger.submit("acme", "part", parent=plain)


# -- who may ------------------------------------------------------------------------------------------------------


def test_tenants_are_apart_by_default(ledger: turnctl.Ledger, caplog: pytest.LogCaptureFixture) -> None:
    """Who asks on behalf of another tenant, or of none, is refused, in the words for what does not exist (R10)."""
    task = ledger.submit("acme", "job")
    with caplog.at_level(logging.WARNING, "turnctl"):
        other = ledger.cancel(task.inc, by="mallory", tenant="globex")
        nobody = ledger.cancel(task.inc, by="mallory")
        nothing = ledger.cancel("i-none", by="mallory", tenant="globex")

    assert [other.text] * 2 == [nobody.text, nothing.text]
    assert ["not_authorised"] * 3 == [other.code, nobody.code, nothing.code]
    assert (None, None, None) == (other.row, other.cr, nothing.row)
    assert ("running", 2) == (task.state, kinds(ledger, task).count("cancel.refused"))
    assert 3 == sum("not_authorised" in record.getMessage() for record in caplog.records)


def test_host_decides_who_may() -> None:
    """The function of the host's is asked with all that is known, and its text is kept with the record."""
    asked: list[Request] = []

    def authorise(request: Request) -> bool | str:
        asked.append(request)
        return "ticket 7" if request.by == "admin" else False

    with turnctl.open_ledger("memory:", authorise=authorise) as ledger:
        task = ledger.submit("acme", "job")
        refused = ledger.cancel(task, by="alice")
        granted = ledger.cancel(task, by="admin", tenant="operations")

    assert ("not_authorised", "ticket 7") == (refused.code, granted.auth_ref)
    assert [("cancel", "alice", "acme"), ("cancel", "admin", "operations")] == [
        *((one.action, one.by, one.tenant) for one in asked),
    ]
    assert {task.inc} == {one.task.inc for one in asked}


def test_host_that_cannot_decide_has_decided_nothing() -> None:
    """An error of the function passes out, with nothing recorded."""
    with turnctl.open_ledger("memory:", authorise=lambda _: 1 / 0) as ledger:
        task = ledger.submit("acme", "job")
        with pytest.raises(ZeroDivisionError):
            ledger.cancel(task, by="alice")

        assert "running" == task.state


# -- making good --------------------------------------------------------------------------------------------------


def sent(ledger: turnctl.Ledger) -> tuple[turnctl.LedgerTask, str]:
    task = ledger.submit("acme", "job")
    with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="1") as effect:
        effect.complete("250 ok")
    return task, effect.effect_id


def test_compensation_is_an_effect_of_its_own(ledger: turnctl.Ledger) -> None:
    """It is authorised, sent and told by itself; the original keeps its disposition (R66)."""
    task, original = sent(ledger)
    with ledger.compensate(original, "mail.recall", by="bob", key="1", tenant="acme", auth_ref="ticket 7") as made:
        made.complete("recalled")
    found = ledger.report(task).effects

    assert ["completed", "completed"] == [one.disposition for one in found]
    assert [None, original] == [one.compensates for one in found]
    assert "completed" == task.state


def test_stop_authorises_no_compensation(ledger: turnctl.Ledger) -> None:
    """Without a decision of its own, or from another tenant, there is none."""
    _, original = sent(ledger)
    codes = []
    for how in ({"tenant": "acme"}, {"tenant": "globex", "auth_ref": "x"}):
        with pytest.raises(turnctl.LedgerRefused) as caught:
            ledger.compensate(original, "mail.recall", by="bob", key="1", **how).__enter__()
        codes.append((caught.value.code, "auth_ref=" in str(caught.value)))

    assert [("not_authorised", True), ("not_authorised", False)] == codes


def test_compensation_without_a_word_is_unknown(ledger: turnctl.Ledger) -> None:
    """It is answered for like every effect, and is not tried twice."""
    task, original = sent(ledger)
    with ledger.compensate(original, "mail.recall", by="bob", key="1", tenant="acme", auth_ref="ticket 7"):
        pass
    with pytest.raises(turnctl.LedgerRefused) as caught:
        ledger.compensate(original, "mail.recall", by="bob", key="2", tenant="acme", auth_ref="t").__enter__()

    assert ("done", "unknown") == (caught.value.code, ledger.report(task).effects[1].disposition)


# -- adapters -----------------------------------------------------------------------------------------------------


def test_adapter_promises_what_it_can_keep() -> None:
    """What it can do decides, not what it is called."""
    found = {
        "mcp": mcp_adapter(notify=print).promises[-1],
        "http": http_adapter().promises[-1],
        "http that cancels": http_adapter(cancel=print).promises[-1],
        "http that confirms": http_adapter(cancel=print, confirms=True).promises[-1],
        "process": turnctl.ledger.local_process_adapter().promises[-1],
    }

    assert {
        "mcp": "ask-provider",
        "http": "no-new-actions",
        "http that cancels": "ask-provider",
        "http that confirms": "prevent-delivery",
        "process": "no-new-actions",
    } == found


def test_evidence_of_each_adapter_that_ships() -> None:
    """An MCP notification is queued, a process is observed to stop, a service may confirm (R52, R56)."""

    assert "signal_queued" == mcp_adapter(notify=print).evidence
    assert "handler_stopped" == turnctl.ledger.local_process_adapter().evidence
    assert ("signal_queued", 86400.0) == (http_adapter().evidence, http_adapter().key_horizon_s)
    assert (False, True) == (http_adapter().is_reconcilable, http_adapter(lookup=print).is_reconcilable)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: turnctl.ledger.Adapter(""),
        lambda: turnctl.ledger.Adapter("a", "sworn"),  # type: ignore[arg-type]
        lambda: turnctl.ledger.Adapter("a", key_horizon="24h"),
        lambda: turnctl.ledger.Adapter("a", is_idempotent=True, key_horizon="soon"),
        lambda: turnctl.ledger.Answer("unknown", "x"),
        lambda: turnctl.ledger.Answer("completed"),
    ],
    ids=["name", "evidence", "horizon", "duration", "answer", "receipt"],
)
def test_adapter_that_contradicts_itself_is_refused(wrong) -> None:
    """What cannot be true is told where it is written."""
    with pytest.raises((BadArgument, turnctl.BadDuration)):
        wrong()
