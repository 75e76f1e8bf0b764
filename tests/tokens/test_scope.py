"""A child follows its parents, never the reverse, and costs them nothing once it is gone."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from standins import BOUND, Background, is_parked, until

import turnctl
from turnctl import BadArgument, BadDuration, CancelledError, CancelToken, TurnOver
from turnctl.testing import call_at
from turnctl.tokens.token import TurnToken


@pytest.fixture
def parent() -> TurnToken:
    return TurnToken("t1")


def test_stop_of_the_parent_reaches_children_and_below(parent: TurnToken) -> None:
    """Child and grandchild trip at once, with cause ``parent`` and the parent's record as origin."""
    child = parent.child()
    grandchild = child.child()
    parent.cancel("enough", by="ann", grace="2s")

    for one in (child, grandchild):
        assert one.cancelled
        assert "parent" == one.cause
        assert one.record is not None
        assert parent.record is one.record.origin
        assert ("enough", "ann", 2.0, "t1") == (
            one.record.reason, one.record.by, one.record.grace_s, one.record.source,
        )  # fmt: skip


def test_stop_of_a_child_never_reaches_the_parent(parent: TurnToken) -> None:
    """Neither the parent nor a sibling trips."""
    child, sibling = parent.child(), parent.child()
    child.cancel()

    assert child.cancelled
    assert (False, False) == (parent.stopping, sibling.stopping)
    parent.check()


def test_child_of_a_tripped_parent_is_born_tripped(parent: TurnToken) -> None:
    """A child made too late is not missed."""
    parent.cancel("enough")
    child = parent.child()

    assert child.cancelled
    assert ("parent", "enough") == (child.cause, child.reason)


def test_child_born_during_the_stop_is_not_missed(parent: TurnToken) -> None:
    """Listed and then stopped, or stopped and then listed: the child trips either way (T5)."""
    with call_at("token.child.listed", lambda: parent.cancel("between")):
        listed = parent.child()
    other = TurnToken("t2")
    born: list[CancelToken] = []
    with call_at("token.cancel.entered", lambda: born.append(other.child())):
        other.cancel()

    assert (True, True) == (listed.cancelled, born[0].cancelled)
    assert ("parent", "parent") == (listed.cause, born[0].cause)


def test_child_keeps_its_own_first_record(parent: TurnToken) -> None:
    """A child that was stopped by itself keeps that; the parent's stop may raise its level."""
    child = parent.child()
    own = child.cancel("mine").record
    answer = parent.cancel("all", level="kill")

    assert "accepted" == answer.kind
    assert own is child.record
    assert "kill" == child.level


def test_own_stop_after_the_parents_is_told_of_it(parent: TurnToken) -> None:
    """The child's own request comes second: the record has cause ``parent``."""
    child = parent.child()
    parent.cancel()
    answer = child.cancel("mine")

    assert "already_cancelled" == answer.kind
    assert answer.record is not None
    assert "parent" == answer.record.cause


def test_closed_child_is_not_reached(parent: TurnToken) -> None:
    """A child's end comes before the parent's stop: the parent is accepted, the child stays as it is."""
    child = parent.child()
    assert child.close()
    answer = parent.cancel()

    assert "accepted" == answer.kind
    assert (False, "completed") == (child.cancelled, child.outcome)
    assert not child.close()


def test_soft_stop_and_its_raise_reach_the_child(parent: TurnToken) -> None:
    """Level by level the child follows."""
    child = parent.child()
    parent.cancel(level="soft")
    soft = (child.level, child.cancelled)
    parent.cancel(level="kill")

    assert ("soft", False) == soft
    assert ("kill", True) == (child.level, child.cancelled)


def test_waiters_on_a_child_wake_with_the_parent(parent: TurnToken) -> None:
    """Who waits on a descendant's event wakes when an ancestor is stopped."""
    event = parent.child().child().event
    waiter = Background(event.wait)
    assert is_parked(event._waiters)
    parent.cancel()

    assert waiter.result()


def test_leaves_are_told_first(parent: TurnToken) -> None:
    """The stop is in every token of the tree before anybody is told: then the leaves are, and what they belong to."""
    told: list[str] = []
    tokens = {"root": parent, "left": parent.child(), "right": parent.child()}
    tokens["leaf"] = tokens["left"].child()

    def note(name: str) -> None:
        late = tokens[name].child()
        told.append(f"{name} {all(one.cancelled for one in tokens.values())} {late.cause}")

    for name, token in tokens.items():
        token.on_cancel(lambda name=name: note(name), inline=True)  # type: ignore[misc]
    parent.cancel("enough")

    assert ["leaf True parent", "root True parent"] == [told[0], told[-1]]
    assert {"left True parent", "right True parent"} == set(told[1:3])


def test_tree_may_be_deeper_than_the_stack(parent: TurnToken) -> None:
    """Ten thousand generations trip in one call."""
    chain: list[CancelToken] = [parent]
    for _ in range(10_000):
        chain.append(chain[-1].child())
    parent.cancel()

    assert chain[-1].cancelled


def test_with_binds_the_child_and_closes_it() -> None:
    """Inside, ambient checks obey the child; after it, the turn again."""
    with turnctl.turn() as turn:
        with turn.child() as child:
            inside = turnctl.current_token()
        outside = turnctl.current_token()

    assert child is inside
    assert turn.token is outside
    assert child.retired


def test_with_absorbs_the_childs_own_stop() -> None:
    """A child that was stopped by itself ends its own ``with``; the turn goes on."""
    with turnctl.turn() as turn:
        reached = []
        with turn.child() as child:
            child.cancel()
            turnctl.check()
            reached.append("after the check")
        turn.check()

    assert [] == reached
    assert "completed" == turn.outcome


@pytest.mark.parametrize("depth", [1, 2])
def test_stop_of_the_turn_passes_through_a_childs_with(depth: int) -> None:
    """The error that a child raises for the turn's stop ends the turn's ``with``, and goes no further."""
    with turnctl.turn() as turn:
        reached = []
        with turn.child() as child:
            if depth == 2:
                with child.child():
                    turn.stop()
                    turnctl.check()
            else:
                turn.stop()
                turnctl.check()
            reached.append("after the child")
        reached.append("after the children")

    assert [] == reached
    assert "cancelled" == turn.outcome


def test_error_of_a_closed_child_ends_the_turn() -> None:
    """A child that was closed before its error arrived still speaks for its turn."""
    with turnctl.turn() as turn:
        child = turn.child()
        turn.stop()
        try:
            child.check()
        finally:
            child.close()

    assert "cancelled" == turn.outcome


def test_deadline_of_a_child_stops_only_it(parent: TurnToken) -> None:
    """A child's time passes with cause ``deadline``; the parent goes on."""
    with parent.child(timeout="20ms") as child:
        assert child.event.wait(BOUND)

    assert "deadline" == child.cause
    assert not parent.stopping


@pytest.mark.parametrize("timeout", [0, -1, "1", "", float("nan"), float("inf"), True])
def test_bad_time_of_a_child_is_refused(parent: TurnToken, timeout: float | str) -> None:
    """A child's time is a duration like any other."""
    for make in (parent.child, lambda timeout: CancelToken.any_of(parent, timeout=timeout)):
        with pytest.raises(BadDuration):
            make(timeout=timeout)


def test_no_child_of_a_token_that_has_ended(parent: TurnToken) -> None:
    """Nothing could stop it, so it is refused; a tripped parent's child is born tripped instead."""
    tripped = TurnToken("t2")
    tripped.cancel()
    for one in (parent, tripped):
        one._retire("completed")
    with pytest.raises(TurnOver, match="takes no more children"):
        parent.child()

    assert tripped.child().cancelled


def test_link_trips_with_the_first_of_several() -> None:
    """The first parent to be stopped wins, and the link's record names that one."""
    for first in (0, 1, 2):
        parents = [TurnToken(f"t{n}") for n in range(3)]
        link = CancelToken.any_of(*parents)
        parents[first].cancel("this one")
        parents[(first + 1) % 3].cancel("too late")

        assert link.cancelled
        assert ("parent", "this one") == (link.cause, link.reason)
        assert link.record is not None
        assert f"t{first}" == link.record.source
        assert parents[first].record is link.record.origin


def test_link_is_born_tripped_by_any_parent() -> None:
    """One stopped parent is enough, wherever it stands in the list."""
    live, stopped = TurnToken("t1"), TurnToken("t2")
    stopped.cancel()

    assert CancelToken.any_of(live, stopped).cancelled
    assert CancelToken.any_of(stopped, live).cancelled
    assert not live.stopping


def test_link_outlives_the_end_of_one_parent() -> None:
    """A parent that has ended lets the others go on being followed."""
    first, second = TurnToken("t1"), TurnToken("t2")
    link = CancelToken.any_of(first, second)
    first._retire("completed")
    second.cancel()

    assert link.cancelled


def test_callback_on_a_link_outlives_the_end_of_one_parent() -> None:
    """A link's callback fires for the second turn although the first has ended."""
    ran: list[int] = []
    with turnctl.turn(inherit=False) as second:
        with turnctl.turn(inherit=False) as first:
            link = CancelToken.any_of(first.token, second.token)
            registration = link.on_cancel(lambda: ran.append(1))
        second.stop()
        fired = until(lambda: ran, within=2)
        registration.unregister()
        link.close()

    assert fired


def test_link_without_parents_is_refused() -> None:
    """It could never trip."""
    with pytest.raises(BadArgument, match="at least one"):
        CancelToken.any_of()


def test_child_is_held_weakly(parent: TurnToken) -> None:
    """A child that nobody else refers to is gone, and the parent's list with it."""
    child = weakref.ref(parent.child())
    gc.collect()

    assert child() is None
    assert {} == parent._grow().kids


@pytest.mark.parametrize("inline", [False, True])
def test_child_with_a_callback_fires_unheld(inline: bool) -> None:
    """While only the parent is referred to, a child's callback still runs."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        turn.child().on_cancel(lambda: ran.append("ran"), inline=inline)
        gc.collect()
        turn.stop()
        assert until(lambda: ran, within=2)

    assert ["ran"] == ran


def test_grandchild_with_a_callback_fires_unheld() -> None:
    """The tokens between are kept as well."""
    ran: list[str] = []
    with turnctl.turn() as turn:
        turn.child().child().on_cancel(lambda: ran.append("ran"))
        gc.collect()
        turn.stop()
        assert until(lambda: ran, within=2)


def test_child_whose_callback_was_taken_back_is_let_go(parent: TurnToken) -> None:
    """Holding ends with the last callback."""
    child = parent.child()
    registration = child.on_cancel(print, inline=True)
    registration.unregister()
    gone = weakref.ref(child)
    del child, registration
    gc.collect()

    assert gone() is None
    assert {} == parent._grow().kids


def closed_by_with(parent: CancelToken) -> None:
    with parent.child():
        pass


def forgotten(parent: CancelToken) -> None:
    parent.child()


def with_a_callback(parent: CancelToken) -> None:
    with parent.child() as child:
        child.on_cancel(int)


def with_a_time(parent: CancelToken) -> None:
    with parent.child(timeout="1h"):
        pass


def linked(parent: CancelToken) -> None:
    CancelToken.any_of(parent, parent.child()).close()


@pytest.mark.parametrize(
    ("use", "times"),
    [(closed_by_with, 10_000), (forgotten, 30_000), (linked, 5_000), (with_a_callback, 5_000), (with_a_time, 5_000)],
)
def test_short_children_leave_memory_flat(use: Callable[[CancelToken], None], times: int) -> None:
    """A long parent with very many short children is no larger afterwards."""
    with turnctl.turn() as turn:
        for _ in range(100):
            use(turn.token)
        gc.collect()
        blocks = sys.getallocatedblocks()
        for _ in range(times - times // 50):
            use(turn.token)
        gc.collect()
        more_blocks = sys.getallocatedblocks() - blocks
        tracemalloc.start()  # in bytes, but many times slower
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(times // 50):
                use(turn.token)
            gc.collect()
            more_bytes = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

        assert more_blocks < 1_000
        assert more_bytes < 50_000
        assert {} == turn.token._grow().kids


def test_stop_at_the_end_of_a_with_is_not_lost() -> None:
    """A child that swallowed the parent's stop leaves the turn cancelled."""
    with turnctl.turn() as turn, turn.child():
        turn.stop()
        try:
            turnctl.check()
        except CancelledError:
            pass

    assert "cancelled" == turn.outcome
