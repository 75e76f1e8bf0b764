"""A state word is derived for every combination, and claims no more than its evidence."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path
from typing import get_args

import turnctl
from turnctl.records.report import ActivityState, Execution, TurnReport
from turnctl.records.states import STATES, state_word
from turnctl.records.stops import LEVELS, Outcome, StopRecord

SOURCE = Path(turnctl.__file__).parent
EXECUTIONS = get_args(Execution)
OUTCOMES = (None, *get_args(Outcome))
COMBINATIONS = list(itertools.product((False, True), OUTCOMES, EXECUTIONS, (False, True)))


def expected(stop: bool, outcome: str | None, execution: str, unresolved: bool) -> str:
    """The table of states, told a second time and in another way: by what each word needs."""
    over = execution in ("ended", "lost")
    if outcome is not None and over:
        plain, open_effects = {
            "cancelled": ("cancelled, settled", "stopped, effects unresolved"),
            "completed": ("completed", "completed, effects unresolved"),
            "failed": ("failed", "failed, effects unresolved"),
            "superseded": ("superseded", "superseded, effects unresolved"),
        }[outcome]
        return open_effects if unresolved else plain
    if outcome is not None:
        return "draining" if (outcome, execution) == ("cancelled", "unproven") else "finishing"
    if execution == "lost":
        return "lost" if not stop else "stopped, effects unresolved" if unresolved else "cancelled, settled"
    if stop:
        return "cancellation requested" if execution == "running" else "draining"
    return "running" if execution == "running" else "finishing"


def test_there_is_a_word_for_every_combination() -> None:
    """Intent, execution, effects and outcome together give one word of the list, as the table says."""
    for stop, outcome, execution, unresolved in COMBINATIONS:
        word = state_word(stop=stop, outcome=outcome, execution=execution, unresolved=unresolved)

        assert word in STATES
        assert expected(stop, outcome, execution, unresolved) == word


def test_report_of_every_combination_has_its_word() -> None:
    """A report derives its word, whatever the level, and its sentence can be printed."""
    for level, (stop, outcome, execution, unresolved) in itertools.product((None, *LEVELS), COMBINATIONS):
        record = StopRecord("user", level or "cancel", 0.0, 0.0) if stop else None  # type: ignore[arg-type]
        effects = int(unresolved)
        report = TurnReport("t", None, outcome, execution, 0.0, stop=record, level=level, effects_unresolved=effects)

        assert expected(stop, outcome, execution, unresolved) == report.state
        assert report.state in str(report) or str(report).startswith("stopped by")


def test_word_that_claims_an_end_needs_proof() -> None:
    """Never "cancelled", "completed" or "failed" where something may still run."""
    claims = ("cancelled", "stopped", "completed", "failed", "superseded")
    for stop, outcome, execution, unresolved in COMBINATIONS:
        word = state_word(stop=stop, outcome=outcome, execution=execution, unresolved=unresolved)
        if word.startswith(claims):
            assert execution in ("ended", "lost")
            assert outcome is not None or (stop and execution == "lost")


def test_word_that_claims_settled_effects_needs_them() -> None:
    """A turn with an unknown effect says so, once it claims an end."""
    for stop, outcome, execution, _ in COMBINATIONS:
        word = state_word(stop=stop, outcome=outcome, execution=execution, unresolved=True)

        assert word not in ("cancelled, settled", "completed", "failed", "superseded")


def test_word_about_a_stop_needs_a_stop_on_record() -> None:
    """Nobody is told of a request that was not made."""
    for outcome, execution, unresolved in itertools.product(OUTCOMES, EXECUTIONS, (False, True)):
        if outcome == "cancelled":
            continue  # that outcome is decided by a stop
        word = state_word(stop=False, outcome=outcome, execution=execution, unresolved=unresolved)

        assert word not in ("cancellation requested", "draining", "cancelled, settled", "stopped, effects unresolved")


def test_every_word_is_reached() -> None:
    """The list holds no word that no combination has."""
    reached = {state_word(stop=s, outcome=o, execution=e, unresolved=u) for s, o, e, u in COMBINATIONS}

    assert set(STATES) == reached


def literals(text: str) -> list[str]:
    """Every text in a source but its docstrings."""
    source = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(source)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_no_other_code_makes_a_state_word() -> None:
    """The words stand in one file; outcomes and kinds of execution, which are other words, may be anywhere."""
    others = {*get_args(Outcome), *get_args(Execution), *get_args(ActivityState)}
    words = [word for word in STATES if word not in others]
    # a command's own phases are never shown, nor are the states that a ledger keeps of a task
    phases = ("processes/drive.py", "processes/supervise.py", "records/tasks.py")
    explained = SOURCE / "cli" / "topics" / "words.py"  # where each word has its meaning, by a type that names all
    shown = [path for path in sorted(SOURCE.rglob("*.py")) if path.parent.name != "ledger"]
    found = [
        f"{path.relative_to(SOURCE)}: {text!r}"
        for path in shown
        if path not in (SOURCE / "records" / "states.py", explained) and not str(path).endswith(phases)
        if (source := path.read_text(encoding="utf-8")) and any(word in source for word in words)
        for text in literals(source)
        for word in words
        if re.search(rf"\b{word}\b", text) and (" " in word or text.strip() == word)
    ]

    assert ["cancellation requested", "draining", "finishing"] == [w for w in words if "," not in w]
    assert [] == found
