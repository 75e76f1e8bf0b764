"""The checker of histories can tell: it explains what can be explained and refuses what cannot (P2, P3)."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from checker import Call, TooManyStates, explanation
from model import Answer, Done, Op, Tok, World, advance, look, run

TURN = World({"t": Tok(is_turn=True, session="s")}, {"s": "t"})
A = Op("cancel", "t", reason="a")
B = Op("cancel", "t", reason="b")
COMPLETE = Op("end", "t", outcome="completed")
FAIL = Op("end", "t", outcome="failed")
ACCEPTED_A = Answer("accepted", ("user", "a"))
ACCEPTED_B = Answer("accepted", ("user", "b"))
AFTER_A = Answer("already_cancelled", ("user", "a"))
ENDED = Answer("already_ended", None, "completed")


def calls(*rows: tuple[Op, int, int, Any]) -> list[Call]:
    return [Call(*row) for row in rows]


EXPLAINED = {
    "two overlapping cancels, either first": calls(
        (A, 0, 3, AFTER_A._replace(record=("user", "b"))), (B, 1, 2, ACCEPTED_B)
    ),
    "a cancel that overlaps the end and came before it": calls(
        (COMPLETE, 0, 3, True), (A, 1, 2, ACCEPTED_A), (Op("outcome", "t"), 4, 5, "cancelled")
    ),
    "a cancel that overlaps the end and came after it": calls(
        (COMPLETE, 0, 3, True), (A, 1, 2, ENDED), (Op("outcome", "t"), 4, 5, "completed")
    ),
    "two ends at once, one decides": calls((COMPLETE, 0, 3, False), (FAIL, 1, 2, True)),
    "a look in the middle of an end": calls(
        (COMPLETE, 0, 9, True), (Op("outcome", "t"), 1, 2, None), (Op("outcome", "t"), 3, 4, "completed")
    ),
    "the slot is free for a moment while a turn is displaced": calls(
        (Op("begin", "n", session="s"), 0, 9, "begun"),
        (Op("stop_session", "s", reason="a"), 1, 2, Answer("refused", why="no_turn")),
    ),
    "displaced while it drains": calls(
        (Op("begin", "n", session="s"), 0, 1, "begun"),
        (Op("stop_turn", "t", reason="a"), 2, 3, Answer("already_cancelled", ("displaced", "displaced by turn n"))),
    ),
}
REFUSED = {
    "two stops are both the first": calls((A, 0, 3, ACCEPTED_A), (B, 1, 2, ACCEPTED_B)),
    "a stop accepted after the end": calls((COMPLETE, 0, 1, True), (A, 2, 3, ACCEPTED_A)),
    "a stop accepted and the turn completed": calls(
        (COMPLETE, 0, 3, True), (A, 1, 2, ACCEPTED_A), (Op("outcome", "t"), 4, 5, "completed")
    ),
    "a stop refused and the turn cancelled": calls(
        (COMPLETE, 0, 3, True), (A, 1, 2, ENDED), (Op("outcome", "t"), 4, 5, "cancelled")
    ),
    "the record is of a request that came later": calls(
        (A, 0, 1, AFTER_A._replace(record=("user", "b"))), (B, 2, 3, ACCEPTED_B)
    ),
    "the record is of nobody": calls((A, 0, 1, ACCEPTED_A), (B, 2, 3, AFTER_A._replace(record=("user", "x")))),
    "both ends decide": calls((COMPLETE, 0, 3, True), (FAIL, 1, 2, True)),
    "no end decides": calls((COMPLETE, 0, 3, False), (FAIL, 1, 2, False)),
    "an outcome is taken back": calls(
        (COMPLETE, 0, 9, True), (Op("outcome", "t"), 1, 2, "completed"), (Op("outcome", "t"), 3, 4, None)
    ),
    "a record is taken back": calls(
        (A, 0, 9, ACCEPTED_A), (Op("record", "t"), 1, 2, ("user", "a")), (Op("record", "t"), 3, 4, None)
    ),
    "a stop for the old turn is accepted after it was displaced": calls(
        (Op("begin", "n", session="s"), 0, 1, "begun"),
        (Op("stop_session", "s", reason="a", expected="t"), 2, 3, ACCEPTED_A),
    ),
    "a stop reaches another turn": calls(
        (COMPLETE, 0, 1, True),
        (Op("begin", "n", session="s"), 2, 3, "begun"),
        (A, 4, 5, ENDED),
        (Op("record", "n"), 6, 7, ("user", "a")),
    ),
    "two turns hold one session": calls(
        (COMPLETE, 0, 1, True),
        (Op("begin", "n", session="s", policy="refuse"), 2, 5, "begun"),
        (Op("begin", "m", session="s", policy="refuse"), 3, 4, "begun"),
    ),
    "a turn begins although it was to wait": calls((Op("begin", "n", session="s", policy="wait"), 0, 1, "begun")),
    "a completed turn was displaced": calls(
        (COMPLETE, 0, 1, True),
        (Op("begin", "n", session="s"), 2, 3, "begun"),
        (Op("record", "t"), 4, 5, ("displaced", "displaced by turn n")),
    ),
    "a child is neither born tripped nor reached": calls(
        (A, 0, 3, ACCEPTED_A),
        (Op("child", "c", parents=("t",)), 1, 2, "born"),
        (Op("look", "c"), 4, 5, look(Tok())),
    ),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_possible_history_is_explained(name: str) -> None:
    """A history that some order of steps explains is accepted, and the order is given (P3)."""
    order = explanation(EXPLAINED[name], TURN)

    assert order is not None
    assert sorted(EXPLAINED[name]) == sorted(order)


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_history_is_refused(name: str) -> None:
    """A history that would break a promise is refused, one for each way of breaking it (P2, P3)."""
    assert explanation(REFUSED[name], TURN) is None


def test_search_that_grows_too_large_is_no_verdict() -> None:
    """A history that cannot be searched in the given space is neither explained nor refused."""
    history = calls(*((Op("cancel", "t", reason=str(i)), 0, 9, None) for i in range(8)))
    history = [call._replace(result=Answer("already_cancelled", ("user", "x"))) for call in history[:1]] + [
        call._replace(op=Op("begin", f"n{i}", session="s"), result="begun") for i, call in enumerate(history[1:])
    ]

    with pytest.raises(TooManyStates, match="gave up after"):
        explanation(history, TURN, at_most=500)


def possible(history: list[Call]) -> bool:
    """The same question for calls of one step, asked of every order there is."""
    for order in itertools.permutations(history):
        if any(b.returned < a.invoked for a, b in itertools.combinations(order, 2)):
            continue
        world = TURN
        for call in order:
            ((world, step),) = advance(world, call.op, 0)
            if step != Done(call.result):
                break
        else:
            return True
    return False


def test_checker_agrees_with_trying_every_order() -> None:
    """On random histories of five calls, right and wrong ones, it says what trying all orders says (P3)."""
    chance = random.Random(7)
    ops = [
        *(Op("cancel", "t", reason=r, level=level) for r in "abc" for level in ("soft", "cancel")),
        *(Op("close", "t"), Op("outcome", "t"), Op("record", "t"), Op("set", "t")),
    ]
    verdicts = []
    for _ in range(300):
        world, history = TURN, []
        for n, op in enumerate(chance.choices(ops, k=5)):
            world, result = run(world, op)
            history.append(Call(op, 10 * n - chance.randrange(25), 10 * n + chance.randrange(25), result))
        if chance.random() < 0.7:  # what another call was told, most often impossible here
            i, j = chance.sample(range(5), 2)
            history[i] = history[i]._replace(result=history[j].result)
        verdicts.append(possible(history))

        assert verdicts[-1] is (explanation(history, TURN) is not None), history
    assert 50 < sum(verdicts) < 250
