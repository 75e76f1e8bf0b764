"""What a person reads of a task: what is known and no more (P18), and whether somebody has to decide."""

from __future__ import annotations

import itertools
import json
import re
from typing import get_args

import pytest
from desk import CANCELLER, COMPENSATOR, HOLDER, OPERATOR, OTHER, RECONCILER, SECOND, WORKER, Desk
from task_sentences import SENTENCES

import turnctl
from turnctl.ledger import dealings
from turnctl.ledger.accounts import report_on
from turnctl.records.accounts import TaskReport
from turnctl.records.effects import DISPOSITIONS, PHASES, Effect, EffectRecord
from turnctl.records.states import STATES
from turnctl.records.stops import StopAnswer
from turnctl.records.tasks import TASK_STATES, Cancellation, Lease, OwnedActivity, Task, TaskExecution
from turnctl.records.turns import TurnRecord

SETS = [
    "nothing",
    "completed",
    "rejected",
    "provider_cancelled",
    "suppressed",
    "admitted",
    "claimed",
    "unknown",
    "closed",
]
#: what no line may say: that a stop has undone, hindered or proven anything, or that something unknown is none
OVERCLAIMS = re.compile(
    r"undone|rolled back|reverted|prevented|nothing happened|did not happen|has no effect|no effect was sent|"
    r"\bsafe(ly)?\b|success|all effects|failed to"
)


def make(desk: Desk, name: str, n: int) -> None:
    """One effect of which ``name`` is true."""
    effect_id = f"e{n}"
    desk.admit(effect_id, key=f"mail.send {n}")
    if name == "suppressed":
        desk.deal(dealings.suppress, WORKER, effect_id, why="not wanted", gen=1)
    elif name != "admitted":
        desk.claim(effect_id)
    if name in ("unknown", "closed"):
        desk.deal(dealings.close, WORKER, effect_id, "unknown", gen=1)
    if name == "closed":
        desk.deal(dealings.close_unknown, OPERATOR, effect_id, reason="nobody will know")
    if name in ("completed", "rejected", "provider_cancelled"):
        desk.close(effect_id, name)


def reach(desk: Desk, state: str) -> None:
    """Have the task come to ``state``, as far as it can."""
    if state in ("completed", "failed"):
        desk.complete(state)
    elif state != "running":
        desk.cancel(reason="enough")
        if state != "cancel_requested":
            desk.deal(dealings.acknowledge, WORKER, "i1", 1)
        if state in ("stopped_unresolved", "cancelled_settled"):
            desk.give_back()


def told(desk: Desk) -> str:
    return str(report_on(desk.store, "i1")).removesuffix("; not durable")


def desk_with(effects: str, state: str) -> Desk:
    desk = Desk(policy="deliver" if effects == "admitted" else "suppress")
    for n, name in enumerate(effects.split("+"), 1):
        if name != "nothing":
            make(desk, name, n)
    reach(desk, state)
    return desk


@pytest.mark.parametrize(("state", "effects"), SENTENCES, ids=" ".join)
def test_line_of_each_state_and_set(state: str, effects: str) -> None:
    """What a person reads of a task in each state, with each thing that may have become of its effects (R72)."""
    desk = desk_with(effects, state)

    assert state == desk.state()
    assert SENTENCES[state, effects] == told(desk)


def test_every_state_and_set_that_is_reached_has_its_line() -> None:
    """No combination that real dealings lead to is without a line that was written by hand."""
    reached = {
        (desk_with(effects, state).state(), effects)
        for state, effects in itertools.product(TASK_STATES, [*SETS, "completed+unknown"])
    }
    # what was admitted and not sent, or claimed and not told, does not stay so where a task ends
    ended = {(state, effects) for state, effects in reached if effects in ("admitted", "claimed")}

    assert set(TASK_STATES) == {state for state, _ in reached}
    assert reached - set(SENTENCES) <= ended


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("admitted", "completed", "one effect was never sent: mail.send '1'"),
        ("claimed", "failed", "one effect may have happened and is to be looked up: mail.send '1'"),
        ("claimed", "stopped_unresolved", "one effect may have happened, admitted before the stop, and is to be"),
    ],
)
def test_end_leaves_nothing_on_the_way(name: str, state: str, words: str) -> None:
    """What was open when the task ended is said as what it has become."""
    text = told(desk_with(name, state))

    assert words in text


def test_delivery_after_the_stop_is_told_as_admitted_before() -> None:
    """What got out after the cut-off was admitted before it, and the line says both (R7)."""
    desk = Desk(policy="deliver")
    desk.admit("e1", key="mail.send 1")
    desk.cancel(reason="enough")
    desk.claim("e1")
    desk.close("e1", "completed")
    report = report_on(desk.store, "i1")
    (record,) = report.effects

    assert "one effect already happened, admitted before the stop and sent after it: mail.send '1'" in str(report)
    assert report.cancellation is not None
    assert (True, True) == (record.after_cutoff, record.admitted_rev < report.cancellation.accepted_rev)


def test_several_effects_are_counted_and_named() -> None:
    """Two are two, and each has its name."""
    desk = desk_with("unknown+unknown+completed+completed", "stopped_unresolved")

    assert (
        "stopped, effects unresolved; stop requested by alice (enough), promise no-new-actions; 2 effects already "
        "happened, admitted before the stop: mail.send '3', mail.send '4'; 2 effects may have happened, admitted "
        "before the stop, and are to be looked up: mail.send '1', mail.send '2'; a decision is needed (notify): ask "
        "their receiver, or close them by name"
    ) == told(desk)


def test_many_effects_do_not_fill_the_line() -> None:
    """The first of them are named, the others counted."""
    desk = desk_with("+".join(["completed"] * 40), "cancelled_settled")

    assert "; 40 effects already happened, admitted before the stop: mail.send '1', " in told(desk)
    assert ", mail.send '5' and 35 more; no decision is needed" in told(desk)


def test_compensation_is_told_apart() -> None:
    """What was done to make something good is no effect of the task, and not older than the stop."""
    desk = desk_with("completed", "cancelled_settled")
    wanted = Effect("e2", "i1", "mail.recall 1", "mail.recall", "s2", 0, 1)
    desk.deal(dealings.compensate, COMPENSATOR, "e1", wanted, b"", auth_ref="ticket 7")
    desk.claim("e2", by=COMPENSATOR)
    desk.close("e2", "rejected", by=COMPENSATOR, gen=None)

    assert "one compensation was refused by the receiver: mail.recall '1'" in told(desk)
    assert "one effect already happened, admitted before the stop: mail.send '1'" in told(desk)


# -- execution ----------------------------------------------------------------


def test_line_says_what_still_runs() -> None:
    """A completed task of which something runs on, or may, is not said to have ended (R23)."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.complete()
    runs = report_on(desk.store, "i1")
    desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="another user's")
    may = report_on(desk.store, "i1")

    assert ("finishing", "finishing") == (runs.state, may.state)
    assert "something of it still runs" in str(runs)
    assert "something of it may still run" in str(may)
    assert ["see whether what is left of it has ended"] == [one.text for one in may.decisions]


def test_line_of_an_unproven_worker_asks_for_a_decision() -> None:
    """Where nobody can tell whether the worker is through, somebody has to look."""
    desk = Desk()
    reach(desk, "draining")
    desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="another user's")

    assert (
        "draining; stop requested by alice (enough), promise no-new-actions; still open: the worker cannot be proven "
        "to be through; no effect is on record; a decision is needed (notify): see whether what is left of it has ended"
    ) == told(desk)


def test_line_of_a_running_task_that_may_run_twice() -> None:
    """A task whose worker cannot be proven to be through is running, and says that something of it may be."""
    desk = Desk()
    desk.deal(dealings.cannot_prove, OPERATOR, "i1", 1, why="another user's")

    assert (
        "running; promise no-new-actions; something of it may still run; no effect is on record; a decision is needed "
        "(notify): see whether what is left of it has ended"
    ) == told(desk)


def test_line_names_what_is_open() -> None:
    """Every activity and child that is waited for stands in the line."""
    desk = Desk()
    desk.deal(dealings.own, WORKER, OwnedActivity("i1", "a1", "process", "make", 1), 1)
    desk.child("i1", "i2")
    desk.cancel()
    asked = told(desk)
    desk.deal(dealings.signalled, WORKER, "i1", "a1", "SIGTERM", "signal_queued")
    desk.deal(dealings.acknowledge, WORKER, "i1", 1)

    assert "still open: worker 100 (generation 1) has not acknowledged, process make was not signalled;" in asked
    assert (
        "still open: the worker is not known to be through, process make is not known to have stopped, child i2 is"
    ) in told(desk)


def test_line_of_a_task_that_nobody_works_on() -> None:
    """A worker that has left, or is not there yet, is not said to be at work."""
    desk = Desk()
    desk.give_back()

    assert "running; promise no-new-actions; nobody works on it; no effect is on record; no decision is needed" == told(
        desk
    )


def test_line_of_a_fenced_worker_says_that_it_may_live() -> None:
    """To be fenced is not to have ended."""
    desk = Desk()
    desk.cancel(reason="enough")
    desk.deal(dealings.take_lease, WORKER, "i1", OTHER, force=True)

    assert "cancelled_settled" == desk.state()
    assert "its worker was fenced, and may live" in told(desk)


def test_line_of_a_worker_that_is_gone() -> None:
    """What a worker was sending whose process is gone is said as what it is at once, before anybody has noted that."""
    record = EffectRecord("e1", "mail.send", "1", "claimed", "pending")
    turns = (TurnRecord("t1", "i1", 1, HOLDER, lost="there is no process 100"),)
    task = Task("i1", "acme", "job", 1, "i1", execution="active", lease_gen=1)
    report = TaskReport(task, None, (record,), (), (), True, turns=turns)

    assert (
        "lost; promise no-new-actions; turn t1 ended without a word: there is no process 100; one effect may have "
        "happened and is to be looked up: mail.send '1'; a decision is needed (notify): ask its receiver, or close it "
        "by name"
    ) == str(report)


# -- decisions ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("consequence", "words"),
    [
        ("low", "a decision can wait: look it up, or close it by name"),
        ("medium", "a decision is needed (notify): look it up, or close it by name"),
        ("high", "a decision is needed (page): look it up, or close it by name"),
    ],
)
def test_how_soon_to_decide_depends_on_what_hangs_on_it(consequence: str, words: str) -> None:
    """The consequence of an effect decides who is asked (R63), and a way to look it up is named where there is one."""
    desk = Desk()
    desk.claimed("e1", key="mail.send 1", consequence=consequence, reconcilable=True)
    desk.cancel()
    desk.give_back()

    assert told(desk).endswith(words)


def test_most_urgent_decision_comes_first() -> None:
    """Of several that are open the one that cannot wait is told first."""
    desk = Desk()
    desk.claimed("e1", key="mail.send 1", consequence="low", reconcilable=True)
    desk.claimed("e2", key="pay 2", kind="pay", consequence="high")
    desk.cancel()
    desk.give_back()
    report = report_on(desk.store, "i1")

    assert [("page", "ask its receiver, or close it by name"), ("wait", "look it up, or close it by name")] == [
        *report.decisions
    ]
    assert json.loads(json.dumps(report.as_dict()))["decisions"][0]["escalation"] == "page"


def test_child_that_waits_for_somebody_is_in_its_parents_line() -> None:
    """A parent that is held up by an effect of a child does not say that nobody has to decide."""
    desk = Desk()
    desk.child("i1", "i2")
    desk.deal(dealings.register_child, SECOND, "i2", 1, "i3", "task i3")
    desk.deal(dealings.take_lease, SECOND, "i3", OTHER)
    wanted = Effect("e9", "i3", "pay 9", "pay", "s", 0, 1, consequence="high")
    desk.deal(dealings.admit, SECOND, wanted, 1, b"payload")
    desk.claim("e9", by=SECOND)
    desk.cancel(reason="enough")
    desk.give_back()
    for inc in ("i2", "i3"):
        desk.give_back(inc, by=SECOND)
    before = told(desk)
    desk.close("e9", "completed", by=RECONCILER, gen=None)

    assert (
        "stopped, effects unresolved; stop requested by alice (enough), promise no-new-actions; still open: child i2 "
        "is stopped_unresolved; no effect is on record; a decision is needed (page): see the account of child i2"
    ) == before
    assert told(desk).endswith("no effect is on record; no decision is needed")


# -- all there could be ----------------------------------------------------------------


#: sent after the cut-off or not, closed by an operator or not, a compensation or not
VARIANTS = [(False, None, None), (True, None, None), (False, "bob", None), (False, None, "e0")]


def combinations(variants: list[tuple[bool, str | None, str | None]]) -> list[TaskReport]:
    """Every state, execution, cancellation and effect, also those that no dealing leads to."""
    cr = Cancellation("c1", "i1", 2, "subtree", "alice", "enough")
    records = [
        EffectRecord("e1", "mail.send", "1", phase, disposition, after_cutoff=after, closed_by=closed, compensates=of)
        for phase, disposition, (after, closed, of) in itertools.product(PHASES, DISPOSITIONS, variants)
    ]
    return [
        TaskReport(Task("i1", "acme", "job", 1, "i1", state=state, execution=execution), stop, (record,), (), (), True)
        for state, execution, stop, record in itertools.product(
            TASK_STATES, get_args(TaskExecution), (None, cr), records
        )
    ]


def test_every_combination_has_a_line_that_claims_no_more() -> None:
    """No line says that a stop undid or hindered anything, or calls settled what is not (R1)."""
    for report in combinations(VARIANTS):
        text = str(report)

        assert report.state in STATES
        assert text.startswith(report.state + "; ")
        assert not OVERCLAIMS.search(text)
        if report.effects[0].is_unresolved:
            assert report.state not in ("cancelled, settled", "completed", "failed", "superseded")
            assert re.search("may have happened|on the way|not sent yet", text)
        if report.task.execution in ("active", "unproven") and report.task.state in ("completed", "failed"):
            assert "finishing" == report.state


def test_every_combination_can_be_told_to_machines() -> None:
    """Intent, execution and effects are three places of the plain values, and no two combinations are the same (R4)."""
    seen = set()
    found = combinations(VARIANTS[:1])
    for report in found:
        plain = report.as_dict()

        assert {"cancel_requested", "record"} == set(plain["intent"])
        assert report.task.execution == plain["execution"]["state"]
        assert [report.effects[0].as_dict()] == plain["effects"]["list"]
        assert "cancelled" not in plain
        assert not [key for key, value in plain.items() if isinstance(value, bool)]
        seen.add((report.task.state, json.dumps([plain[key] for key in ("intent", "execution", "effects")])))

    assert len(found) == len(seen)


# -- what a canceller is told ----------------------------------------------------------------


def test_answer_to_a_stop_says_nothing_of_effects() -> None:
    """Whatever a stop is answered, it is about the request, and never about what got out (R1)."""
    kinds = ("accepted", "armed", "already_cancelled", "already_ended", "refused")
    answers = [str(StopAnswer(kind, turn_id="t1", outcome="completed", why="retired")) for kind in kinds]  # type: ignore[arg-type]

    assert [] == [one for one in answers if re.search("effect|settled|happened|sent", one) or OVERCLAIMS.search(one)]


def test_answer_to_a_cancellation_says_nothing_of_effects() -> None:
    """The record of a cancellation, and each refusal of one, say what was recorded and no more (R1)."""
    names = set(Cancellation.__annotations__)
    desk = Desk()
    desk.claimed("e1")
    accepted = desk.cancel(reason="enough")
    done, over = Desk(), Desk()
    done.complete()
    over.complete()
    over.deal(dealings.submit, WORKER, "i2", "acme", "job")
    refused = [done.cancel(), over.cancel(), desk.cancel("i9")]

    assert set() == names & {"effects", "outcome", "cancelled", "stopped", "state"}
    assert "claimed" == desk.effect("e1").phase
    assert ["already_completed", "stale_incarnation", "no_such_task"] == [one.code for one in refused]
    assert [] == [one.text for one in refused if OVERCLAIMS.search(one.text)]
    assert [one.text for one in refused] == [str(one) for one in refused]
    assert f"cancellation accepted (revision 2, by {CANCELLER.actor}: enough)" == str(accepted.cr)
    assert CANCELLER.actor == accepted.cr.requester


def test_words_of_the_lease_are_no_outcome() -> None:
    """That a worker has acknowledged says that it begins nothing more, and nothing of what it did."""
    assert {"acknowledged", "live", "drain_only"} <= set(Lease.__annotations__)
    assert not {"cancelled", "done", "ok"} & set(Lease.__annotations__)


def test_report_says_what_was_promised() -> None:
    """The promise that a task was submitted with stands in the line and in the plain values (R5)."""
    for promise in ("stop-generating", "no-new-actions", "ask-provider", "prevent-delivery"):
        with turnctl.open_ledger("memory:") as ledger:
            task = ledger.submit("acme", "job", promise=promise)
            running = ledger.report(task)
            ledger.cancel(task, by="alice")
            report = ledger.report(task)

        assert f"; promise {promise};" in str(running)
        assert f"stop requested by alice, promise {promise};" in str(report)
        assert promise == report.as_dict()["promise"]
