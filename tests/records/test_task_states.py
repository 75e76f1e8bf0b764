"""The word for a task is derived for every combination, and the words of a ledger are the same wherever they stand."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import get_args

import pytest

from turnctl.records import tasks
from turnctl.records.account_words import ESCALATIONS
from turnctl.records.accounts import TaskReport
from turnctl.records.effects import DISPOSITIONS, PHASES, Consequence, EffectRecord
from turnctl.records.states import STATES
from turnctl.records.stops import CAUSES, Outcome
from turnctl.records.tasks import PROMISES, TASK_STATES, Cancellation, Task

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
EXECUTIONS = get_args(tasks.TaskExecution)
CR = Cancellation("c1", "i1", 2, "subtree", "alice")
UNKNOWN = EffectRecord("e1", "mail.send", "1", "closed", "unknown")


def report(state: str, execution: str, *, cancelled: bool, unresolved: bool) -> TaskReport:
    task = Task("i1", "acme", "job", 1, "i1", state=state, execution=execution)  # type: ignore[arg-type]
    return TaskReport(task, CR if cancelled else None, (UNKNOWN,) if unresolved else (), (), (), True)


def expected(state: str, execution: str, unresolved: bool) -> str:
    """The word, told a second time and in another way."""
    if state in ("completed", "failed"):
        if execution in ("active", "unproven"):
            return "finishing"
        return f"{state}, effects unresolved" if unresolved else state
    if state == "running":
        return "lost" if unresolved and execution == "idle" else "running"
    return {
        "cancel_requested": "cancellation requested",
        "draining": "draining",
        "stopped_unresolved": "stopped, effects unresolved",
        "cancelled_settled": "stopped, effects unresolved" if unresolved else "cancelled, settled",
    }[state]


def test_there_is_a_word_for_every_task() -> None:
    """Each state on record, execution and effect has the word of the table, with its cancellation."""
    for state, execution, unresolved in itertools.product(TASK_STATES, EXECUTIONS, (False, True)):
        cancelled = state not in ("running", "completed", "failed")
        found = report(state, execution, cancelled=cancelled, unresolved=unresolved)

        assert expected(state, execution, unresolved) == found.state


def test_there_is_a_word_for_what_never_is() -> None:
    """Also rows that contradict each other, as somebody may have written them, have a word of the list."""
    for state, execution, cancelled, unresolved in itertools.product(
        TASK_STATES, EXECUTIONS, (False, True), (False, True)
    ):
        found = report(state, execution, cancelled=cancelled, unresolved=unresolved)

        assert found.state in STATES
        assert found.as_dict()["state"] == found.state


def test_words_are_these() -> None:
    """The vocabulary of effects and outcomes, as programs read it."""
    assert ("admitted", "claimed", "suppressed", "closed") == PHASES
    assert ("pending", "suppressed", "rejected", "completed", "provider_cancelled", "unknown") == DISPOSITIONS
    assert ("completed", "failed", "cancelled", "superseded") == get_args(Outcome)
    assert ("wait", "notify", "page") == tuple(ESCALATIONS.values())
    assert {
        *("user", "deadline", "signal", "parent", "shutdown", "displaced", "budget", "event", "closed", "operator")
    } == set(CAUSES)


@pytest.mark.parametrize(
    "words",
    [
        PHASES,
        DISPOSITIONS,
        TASK_STATES,
        PROMISES,
        get_args(tasks.Evidence),
        get_args(Consequence),
        (*ESCALATIONS.values(),),
    ],
    ids=["phases", "dispositions", "states", "promises", "evidence", "consequences", "escalations"],
)
def test_page_of_the_ledger_has_each_word(words: tuple[str, ...]) -> None:
    """What the records say is explained on the page, in the same spelling."""
    assert [] == [word for word in words if f"`{word}`" not in PAGE]
    assert not re.search(r"\bcanceled\b(?!`)", PAGE)


def test_page_maps_every_state_to_other_protocols() -> None:
    """The table of what other systems would call a task has a row for each state on record (R21)."""
    rows = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \| `[^|]+\| `[^|]+\| `?[^|]+\|", PAGE, re.MULTILINE)

    assert set(TASK_STATES) == {state for row in rows for state in row if state}
