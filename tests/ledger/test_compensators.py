"""Who makes something good, and is killed at it, leaves an unknown: it may have happened (R36)."""

from __future__ import annotations

from pathlib import Path

import pytest
from stores import finish, kill, line, program

import turnctl
from turnctl.ledger import Answer

COMPENSATOR = """
import turnctl
with turnctl.open_ledger(path, authorise=lambda request: "decided") as ledger:
    with ledger.compensate(sys.argv[2], "mail.recall", by="bob", key="1", payload="sorry", tenant="acme") as good:
        say(good.effect_id)
        sys.stdin.readline()
        good.complete("250 ok")
"""


@pytest.fixture
def unknown(place: Path) -> tuple[str, str]:
    """A cancelled task with one effect that nobody knows of: incarnation and effect."""
    with turnctl.open_ledger(str(place)) as ledger:
        task = ledger.submit("acme", "job")
        with turnctl.turn(task=task) as turn:
            with turn.effect("mail.send", key="1", payload="hello") as sent:
                pass
            task.cancel(by="alice")
        return task.inc, sent.effect_id


def test_killed_compensator_leaves_an_unknown(place: Path, unknown: tuple[str, str]) -> None:
    """Not pending for ever: it is asked about like any other one, and then the task can settle."""
    inc, effect_id = unknown
    process = program(COMPENSATOR, place, effect_id)
    good = line(process)
    kill(process)
    with turnctl.open_ledger(str(place)) as ledger:
        ledger.reconcile({})
        between = [(one.effect_id, one.disposition) for one in ledger.report(inc).effects]
        events = [event.kind for event in ledger.store.read(lambda books: books.events(inc))]
        ledger.reconcile(dict.fromkeys(("mail.send", "mail.recall"), lambda effect: Answer("completed", "250 ok")))
        state = ledger.report(inc).task.state

    assert [(effect_id, "unknown"), (good, "unknown")] == between
    assert "compensator.gone" in events
    assert "cancelled_settled" == state


def test_living_compensator_is_left_alone(place: Path, unknown: tuple[str, str]) -> None:
    """While its process lives it is on its way, whoever asks; what it tells is taken."""
    inc, effect_id = unknown
    process = program(COMPENSATOR, place, effect_id)
    good = line(process)
    with turnctl.open_ledger(str(place)) as ledger:
        ledger.reconcile({"mail.send": lambda effect: Answer("completed", "250 ok")})
        between = ledger.report(inc)
        assert process.stdin is not None
        process.stdin.write("\n")
        finish(process)
        after = ledger.report(inc)

    assert ("stopped_unresolved", "pending") == (between.task.state, between.effects[1].disposition)
    assert (good, "completed") == (after.effects[1].effect_id, after.effects[1].disposition)
    assert "cancelled_settled" == after.task.state
