"""One thread for many calls: none waits behind a blocked one, and none is left."""

from __future__ import annotations

import threading

import turnctl
from turnctl.waiting.call import call
from turnctl.waiting.helper import Helper


def test_calls_share_one_thread() -> None:
    """One call after the other runs on the same thread, and what they raise and return comes out."""
    helper = Helper("test")
    with turnctl.turn() as turn:
        idents = {call(turn, threading.get_ident, (), {}, helper=helper) for _ in range(5)}
        try:
            call(turn, int, ("x",), {}, helper=helper)
        except ValueError as error:
            raised = str(error)
        states = [one.state for one in turn.report.activities]
    helper.finish()

    assert 1 == len(idents)
    assert threading.get_ident() not in idents
    assert "invalid literal" in raised
    assert ["completed"] * 5 + ["failed"] == states


def test_no_call_waits_behind_one_that_is_blocked() -> None:
    """A helper whose call was left behind is not free: the next call has a thread of its own."""
    helper, release = Helper("test"), threading.Event()
    with turnctl.turn(grace=0) as turn:
        threading.Timer(0.02, turn.cancel).start()
        call(turn, release.wait, (30,), {}, helper=helper, patience=lambda: 0.0)
    assert not helper.is_free
    with turnctl.turn() as following:
        got = call(following, lambda: "other", (), {}, helper=helper)
    helper.finish()
    release.set()

    assert "other" == got


def test_a_helper_that_never_ran_is_nothing() -> None:
    """No call, no thread."""
    helper = Helper("test")
    helper.finish()

    assert helper.is_free


def test_a_stopped_turn_hands_nothing_over() -> None:
    """A call of a turn that was stopped is not run on the helper either."""
    helper, ran = Helper("test"), []
    with turnctl.turn() as turn:
        turn.cancel()
        call(turn, lambda: ran.append(1), (), {}, helper=helper)
    helper.finish()

    assert [] == ran
