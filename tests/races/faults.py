"""Faults made on purpose, each with a scenario that the product passes and the fault does not.

Each fault is a copy of the product's own function with the order of two steps changed. ``marked`` is a copy that has
only the race point put in, at the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from holding import begun, held, leave_now
from mutation import Change, rewritten
from standins import Background, until

import turnctl
from turnctl import TurnEvent
from turnctl.testing import call_at
from turnctl.tokens import activities, adopting, callbacks, core, entries, event, token
from turnctl.tokens.event import park, release_all

Changes = tuple[Change, ...]
Patch = Callable[[Any, str, Any], None]


def wakes(waiter: Background[Any], waiters: list[Any], within: float) -> bool:
    """Whether the waiter wakes in time; one that does not is let go all the same."""
    woken = until(lambda: not waiter.is_running, within=within)
    while not woken and waiter.is_running:
        release_all(waiters)
        waiter.thread.join(0.05)
    return woken


# -- scenarios: each says whether the promise held; ``within`` is how long a wake-up may take ---------------------


def set_while_a_waiter_comes(within: float) -> bool:
    """A waiter stands between its two steps while the event is set."""
    it = TurnEvent()
    with held("mutant.waiter", it.wait) as waiter:
        it.set()
        waiter._pause.release()
        return wakes(waiter._thread, it._waiters, within)


def wait_while_a_setter_sets(within: float) -> bool:
    """A setter stands between its two steps while a waiter comes."""
    it = TurnEvent()
    with held("mutant.setter", it.set) as setter:
        waiter = Background(it.wait)
        until(lambda: it._waiters or not waiter.is_running)
        setter.result()
        return wakes(waiter, it._waiters, within)


def wait_while_a_token_trips(within: float, *, soft_first: bool) -> bool:
    """The same with a token that has somebody waiting on it already."""
    turn = begun()
    waiters = turn.token._grow().waiters
    if soft_first:
        turn.cancel(level="soft")
    with held("token.cancel.flagged", turn.cancel) as canceller:
        waiter = Background(park, lambda: turn.token.cancelled, None, waiters)
        until(lambda: waiters or not waiter.is_running)
        canceller.result()
        woken = wakes(waiter, waiters, within)
    leave_now(turn)
    return woken


def wait_on_a_token_that_nobody_waited_on(within: float) -> bool:
    """The first waiter of a token comes while the canceller stands before the flag."""
    turn = begun()
    with held("mutant.flag", turn.cancel) as canceller:
        waiters = turn.token._grow().waiters
        waiter = Background(park, lambda: turn.token.cancelled, None, waiters)
        until(lambda: waiters or not waiter.is_running)
        canceller.result()
        woken = wakes(waiter, waiters, within)
    leave_now(turn)
    return woken


def setter_cut_short(within: float) -> bool:
    """An exception strikes the setter between its two steps for the first of two waiters."""
    it = TurnEvent()
    waiters = [Background(it.wait), Background(it.wait)]
    until(lambda: len(it._waiters) == 2)
    parked = list(it._waiters)

    def strike() -> None:
        raise KeyboardInterrupt

    with call_at("mutant.release", strike), pytest.raises(KeyboardInterrupt):
        it.set()
    woken = until(lambda: not any(w.is_running for w in waiters), within=within)
    if not woken:
        for lock in parked:
            try:
                lock.release()
            except RuntimeError:
                pass
    return woken


def stop_in_the_middle_of_an_end(point: str) -> bool:
    """A stop comes while the end stands between two steps: what it is told and the outcome agree."""
    turn = begun()
    with held(point, turnctl.end_turn, turn, "completed") as ender:
        answer = turn.token.cancel("stop")
        ender.result()
    if answer.kind == "accepted":
        return turn.outcome == "cancelled"
    return answer.kind == "already_ended" and answer.outcome == turn.outcome


def cancel_while_a_child_is_born(within: float) -> bool:
    """The parent is cancelled while the child stands between its two steps."""
    turn = begun()
    with held("token.child.listed", turn.child) as birth:
        turn.cancel()
        child = birth.result()
    reached: bool = child.cancelled
    child.close()
    leave_now(turn)
    return reached


def two_run_one_callback(within: float) -> bool:
    """Two threads come to one callback."""
    turn = begun()
    ran: list[None] = []
    registration = turn.on_cancel(lambda: ran.append(None), inline=True)
    with held("token.callback.claimed", registration._run_once) as one:
        registration._run_once()
        one.result()
    leave_now(turn)
    return len(ran) == 1


def set_while_the_event_is_adopted(within: float) -> bool:
    """The host sets its event while the turn stands between its two steps."""
    it = TurnEvent()
    made = turnctl.turn(event=it)
    with held("mutant.adopt", made.begin) as beginner:
        it.set()
        beginner.result()
    reached = made.token.cancelled
    leave_now(made)
    return reached


def admitted_while_the_turn_is_decided(within: float) -> bool:
    """Something is registered while admission closes: it is refused, or the end finds it."""
    owned = activities.Activities("t")
    with held("mutant.admit", owned.admit, "thing", "it") as admitter:
        owned.close_admission()
        found = owned.all()
        try:
            admitted = admitter.result()
        except turnctl.TurnOver:
            return True
    return admitted in found


def second_canceller_while_the_first_is_held(within: float) -> bool:
    """The first canceller stands before the flag; the second is answered: the flag must be up by then."""
    turn = begun()
    with held("token.cancel.entered", turn.cancel):
        turn.cancel()
        shown = turn.token.cancelled
    leave_now(turn)
    return shown


# -- faults -------------------------------------------------------------------------------------------------------


class Fault(NamedTuple):
    scenario: Callable[[float], bool]
    where: Any
    name: str
    marked: Changes  # puts the race point in
    broken: Changes  # makes the fault, with the race point at the same place
    also: Callable[[Patch], None] = lambda patch: None


def decided_by_the_entry(patch: Patch) -> None:
    """The outcome is what the end wrote down, and not what the log says."""
    for module in (core, entries, token):
        patch(module, "outcome_of", lambda first, end: end.proposed)


# lines of the product that more than one copy changes
PARK = "if not done():\n    clock.block(lock, left)"
LIST = "for waiters in lists:\n    waiters.append(lock)"
PUSH = "if parts.kids or parts.calls:\n    self._carry(inline)"
PUSH_FIRST = "if head.kids or head.calls:\n    self._carry(inline)"
FLAG_FIRST = 'self.cancelled = self._due = True\nif points.hook is not None:\n    points.reach("token.cancel.flagged")'
RUNNER = "self._runner = threading.get_ident()"

FAULTS = {
    "the waiter's two lines swapped": Fault(
        set_while_a_waiter_comes,
        event,
        "park",
        marked=((PARK, f'reach("mutant.waiter")\n{PARK}'),),
        broken=(
            (LIST, f'seen = done()\nreach("mutant.waiter")\n{LIST}'),
            (PARK, PARK.replace("done()", "seen")),
        ),
    ),
    "the setter's two lines swapped": Fault(
        wait_while_a_setter_sets,
        TurnEvent,
        "_raise_flag",
        marked=(("self._flag = True", 'self._flag = True\nreach("mutant.setter")'),),
        broken=(
            (
                "self._flag = True\nrelease_all(self._waiters)",
                'release_all(self._waiters)\nreach("mutant.setter")\nself._flag = True',
            ),
        ),
    ),
    "the tripping token's two lines swapped": Fault(
        lambda within: wait_while_a_token_trips(within, soft_first=True),
        core.TokenCore,
        "_settle",
        marked=(),
        broken=(
            ('self.cancelled = self._due = True\npoints.reach("token.cancel.flagged")', "pass"),
            (
                PUSH,
                f'{PUSH}\nreach("token.cancel.flagged")\nself.cancelled = level >= CANCEL',
            ),
        ),
    ),
    "the same on the short way": Fault(
        lambda within: wait_while_a_token_trips(within, soft_first=False),
        core.TokenCore,
        "_enter",
        marked=(),
        broken=(
            (FLAG_FIRST, "pass"),
            (
                PUSH_FIRST,
                f'{PUSH_FIRST}\nreach("token.cancel.flagged")\nself.cancelled = self._due = True',
            ),
        ),
    ),
    "parts looked for before the flag is stored": Fault(
        wait_on_a_token_that_nobody_waited_on,
        core.TokenCore,
        "_enter",
        marked=(('if stop.level != "soft":', 'reach("mutant.flag")\nif stop.level != "soft":'),),
        broken=(
            (
                'if stop.level != "soft":',
                'alone = len(log) == count + 1\nreach("mutant.flag")\nif stop.level != "soft":',
            ),
            (
                "if len(log) == count + 1:\nif type(head) is Parts:",
                "if alone:\n    if type(head) is Parts:",
            ),
        ),
    ),
    "a waiter taken off the list before it is released": Fault(
        setter_cut_short,
        event,
        "_release",
        marked=(("try:\nwaiters.remove(lock)", 'reach("mutant.release")\ntry:\n    waiters.remove(lock)'),),
        broken=(
            (
                "try:\nlock.release()",
                'if lock in waiters:\n    waiters.remove(lock)\nreach("mutant.release")\ntry:\n    lock.release()',
            ),
        ),
    ),
    "retired before it is decided": Fault(
        lambda within: stop_in_the_middle_of_an_end("token.end.entered"),
        core.TokenCore,
        "_retire",
        marked=(),
        broken=(
            ("end = Retirement(proposed)", "end = Retirement(None)"),
            ('points.reach("token.end.entered")', 'points.reach("token.end.entered")\nend.proposed = proposed'),
        ),
    ),
    "decided in two writes": Fault(
        lambda within: stop_in_the_middle_of_an_end("token.end.entering"),
        core.TokenCore,
        "_retire",
        marked=(),
        broken=(
            (
                "end = Retirement(proposed)",
                'end = Retirement(proposed if read(log)[0] is None else "cancelled")',
            ),
        ),
        also=decided_by_the_entry,
    ),
    "a child that reads its parent's log before it is listed": Fault(
        cancel_while_a_child_is_born,
        token,
        "join",
        marked=(),
        broken=(
            ('points.reach("token.child.listed")', "pass"),
            ("derived = derive(parent._log, parent._source())", "pass"),
            (
                "parts = parent._grow()",
                'derived = derive(parent._log, parent._source())\nreach("token.child.listed")\nparts = parent._grow()',
            ),
        ),
    ),
    "a callback claimed by looking first and taking it then": Fault(
        two_run_one_callback,
        callbacks.Registration,
        "_run_once",
        marked=(),
        broken=(
            ("if parts.calls.pop(self, self) is None:", "if self in parts.calls:"),
            (RUNNER, f"parts.calls.pop(self, self)\n{RUNNER}"),
        ),
    ),
    "an event read before the turn has joined it": Fault(
        set_while_the_event_is_adopted,
        adopting,
        "adopt",
        marked=(("event._token = token", 'event._token = token\nreach("mutant.adopt")'),),
        broken=(
            (
                "event._token = token\nif event.is_set():",
                'was_set = event.is_set()\nreach("mutant.adopt")\nevent._token = token\nif was_set:',
            ),
        ),
    ),
    "a gate read before the activity is listed": Fault(
        admitted_while_the_turn_is_decided,
        activities.Activities,
        "admit",
        marked=(("if self._closed:", 'reach("mutant.admit")\nif self._closed:'),),
        broken=(
            (
                "self._admitted.append(activity)",
                'closed = self._closed\nreach("mutant.admit")\nself._admitted.append(activity)',
            ),
            ("if self._closed:", "if closed:"),
        ),
    ),
    "an answer that leaves showing the stop to the one before": Fault(
        second_canceller_while_the_first_is_held,
        core.TokenCore,
        "_enter_late",
        marked=(),
        broken=(
            (
                "self._settle(inline=inline)\nreturn answer(log, None, *self._ids())",
                "return answer(log, None, *self._ids())",
            ),
        ),
    ),
}


def install(fault: Fault, changes: Changes, patch: Patch) -> None:
    patch(fault.where, fault.name, rewritten(getattr(fault.where, fault.name), *changes))
    if fault.where is adopting:
        from turnctl.tokens import turn

        patch(turn, fault.name, getattr(adopting, fault.name))
