"""A turn has one token from begin to over, takes its session by rule, and leaves nothing behind."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context

import pytest
from standins import BOUND, Background, Thing, is_parked, own, until

import turnctl
from turnctl import (
    BadArgument,
    BadDuration,
    CancelledError,
    SessionBusy,
    StopAnswer,
    StopResult,
    TokenMisuse,
    TurnctlError,
    TurnOver,
)
from turnctl.testing import call_at, pause_at
from turnctl.tokens import registry

# -- one turn -----------------------------------------------------------------------------------------------------


def test_every_layer_checks_the_one_token() -> None:
    """Turn, ambient calls and what was bound at begin are one token, from begin to end (promise 1)."""
    with turnctl.turn("chat") as turn:
        found = {turn.token, turnctl.current_token(), turn.child()._parent, turnctl.session("chat").turn.token}  # type: ignore[union-attr]

        assert {turn.token} == found
        assert turn.event is turn.token.event


def test_signature_is_the_one_agreed() -> None:
    """A turn takes these arguments, with these defaults."""
    parameters = inspect.signature(turnctl.Turn).parameters
    expected = {
        "session_id": None,
        "turn_id": None,
        "event": None,
        "on_busy": "displace",
        "inherit": True,
        "timeout": None,
        "grace": "5s",
        "reason": None,
        "task": None,
    }

    assert expected == {name: p.default for name, p in parameters.items()}
    assert ["session_id"] == [n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_busy": "push"}, "displace, retire, refuse, wait"),
        ({"session_id": ""}, "session_id must be a non-empty str"),
        ({"session_id": 7}, "session_id must be a non-empty str"),
        ({"turn_id": ""}, "turn_id must be a non-empty str"),
        ({"task": "job"}, "ledger.submit"),
    ],
)
def test_bad_argument_is_refused_at_once(options: dict[str, object], words: str) -> None:
    """A misuse is told before the turn begins, with what is right."""
    with pytest.raises(BadArgument, match=words):
        turnctl.turn(**options)


@pytest.mark.parametrize("value", [-1, "5", "", "-5s", None, "none", float("nan"), float("inf"), True, object()])
def test_bad_grace_is_refused_at_once(value: object) -> None:
    """A grace is a duration; there is always one."""
    with pytest.raises(BadDuration, match="grace"):
        turnctl.turn(grace=value)


@pytest.mark.parametrize(("value", "seconds"), [(0, 0.0), ("0s", 0.0), ("1m30s", 90.0), (2, 2.0), ("5s", 5.0)])
def test_grace_is_read(value: float, seconds: float) -> None:
    """0 is allowed and kills at once; numbers are seconds; the default is 5 s."""
    assert seconds == turnctl.turn(grace=value).grace_s
    assert 5.0 == turnctl.turn().grace_s


def test_turn_begins_once() -> None:
    """One object is one unit of work."""
    made = turnctl.turn()
    with made:
        pass
    with pytest.raises(TurnctlError, match="make a new turn"):
        made.begin()


def test_turn_that_has_not_begun_says_so() -> None:
    """Its token does not exist yet."""
    with pytest.raises(TurnctlError, match="has not begun"):
        turnctl.turn().check()


def test_turn_ids_are_used_once_at_a_time() -> None:
    """A second turn of the same id is refused, and the first is unharmed."""
    with turnctl.turn(turn_id="job-1") as turn:
        with pytest.raises(BadArgument, match="job-1 is running already"):
            turnctl.turn(turn_id="job-1").begin()
        turn.check()
        answer = turnctl.stop(turn_id="job-1")

    assert answer
    assert "cancelled" == turn.outcome


def test_repr_tells_whose_and_how() -> None:
    """What is printed of a turn shows its id, session and state."""
    made = turnctl.turn("chat")
    before = repr(made)
    with made:
        inside = repr(made)

    assert "not begun" in before
    assert "session='chat' live" in inside
    assert made.turn_id in inside
    assert repr(made).endswith(" over>")


def test_turn_cannot_be_pickled_and_copies_to_itself() -> None:
    """A turn lives in one process."""
    import copy
    import pickle

    with turnctl.turn() as turn:
        with pytest.raises(TokenMisuse):
            pickle.dumps(turn)

        assert turn is copy.copy(turn)
        assert turn is copy.deepcopy([turn])[0]


def test_nothing_of_a_turn_survives_it() -> None:
    """Stop, end, begin: no flag, no binding, no registry entry is left; there is nothing to reset (promise 4)."""
    for _ in range(3):
        with turnctl.turn("chat") as turn:
            turn.stop()
            turnctl.check()
        with turnctl.turn("chat") as clean:
            turnctl.check()

        assert ("cancelled", "completed") == (turn.outcome, clean.outcome)
    assert (None, {}, []) == (turnctl.current_token(), registry.sessions, registry.all_turns())


def test_ended_turn_is_let_go() -> None:
    """Nothing of turnctl refers to a turn that is over."""
    with turnctl.turn("chat", timeout="1h") as turn:
        turn.on_cancel(print)
        turn.child()
    gone = weakref.ref(turn)
    del turn
    assert until(lambda: gc.collect() is not None and gone() is None)


def test_ten_thousand_turns_leave_memory_flat() -> None:
    """A long-lived host does not grow."""

    def some(n: int) -> None:
        for _ in range(n):
            with turnctl.turn("chat") as turn:
                turn.stop()

    some(100)
    gc.collect()
    before = sys.getallocatedblocks()
    some(10_000)
    gc.collect()

    assert sys.getallocatedblocks() - before < 1_000


def test_swallowed_stop_still_ends_cancelled() -> None:
    """The boundary asks the token, not the exception (promise 6)."""

    def bare_except() -> None:
        try:
            turnctl.check()
        except:  # noqa: E722
            pass

    def return_in_finally() -> str:
        try:
            turnctl.check()
        finally:
            return "swallowed"  # noqa: B012

    def generator() -> None:
        def items() -> object:
            try:
                yield turnctl.check()
            except BaseException:
                yield None

        for _ in items():  # type: ignore[attr-defined]
            pass

    def executor_hop() -> None:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(copy_context().run, turnctl.check).exception() is not None

    def thread() -> None:
        assert isinstance(Background(copy_context().run, turnctl.check).error(), CancelledError)

    def never_looked() -> None:
        pass

    for body in (bare_except, return_in_finally, generator, executor_hop, thread, never_looked):
        with turnctl.turn() as turn:
            turn.stop()
            body()

        assert "cancelled" == turn.outcome, body.__name__


def test_stop_raised_through_an_executor_is_the_turns_own() -> None:
    """A future that carries the turn's own error back ends the turn like the error itself."""
    with ThreadPoolExecutor(1) as pool:
        with turnctl.turn() as turn:
            turn.stop()
            pool.submit(copy_context().run, turnctl.check).result()

    assert "cancelled" == turn.outcome


def test_turn_may_be_ended_inside_its_with() -> None:
    """What is left of the body runs on and changes nothing."""
    with turnctl.turn("chat") as turn:
        report = turn.end("failed")
        turn.check()
        answer = turn.stop(wait=BOUND)

    assert ("failed", "failed") == (report.outcome, turn.outcome)
    assert isinstance(answer, StopResult)
    assert ("already_ended", True) == (answer.answer.kind, answer.over)
    assert turnctl.current_token() is None


# -- a session that is busy ---------------------------------------------------------------------------------------


class Holder:
    """A turn on a thread of its own that holds a session until it is let go."""

    def __init__(self, session: str = "slot", **options: object) -> None:
        self.begun, self.go_on, self.checked, self.end = (threading.Event() for _ in range(4))
        self.after_check: BaseException | None = None
        self.thread = Background(self._body, session, options)
        assert self.begun.wait(BOUND)

    def _body(self, session: str, options: dict[str, object]) -> None:
        with turnctl.turn(session, **options) as self.turn:
            self.begun.set()
            self.go_on.wait(BOUND)
            try:
                turnctl.check()
            except CancelledError as error:
                self.after_check = error
                raise
            finally:
                self.checked.set()
                self.end.wait(BOUND)

    def check_now(self) -> BaseException | None:
        """Let its frames reach a checkpoint; what was raised there."""
        self.go_on.set()
        assert self.checked.wait(BOUND)
        return self.after_check

    def leave(self) -> turnctl.Turn:
        self.go_on.set()
        self.end.set()
        self.thread.result()
        return self.turn


def test_displace_trips_and_retires_the_stale_turn() -> None:
    """The old turn is cancelled with cause ``displaced``, its frames stop at their next checkpoint."""
    old = Holder()
    with turnctl.turn("slot", reason="new message") as new:
        decided = (old.turn.outcome, old.turn.cause, old.turn.token.retired, old.turn.event.is_set())
        raised = old.check_now()
        turnctl.check()
    old.leave()

    assert ("cancelled", "displaced", True, True) == decided
    assert isinstance(raised, CancelledError)
    assert f"displaced by turn {new.turn_id}: new message" == raised.reason
    assert "completed" == new.outcome
    assert f"its session went to turn {new.turn_id}" in old.turn.report.notes


def test_displacement_is_the_default_and_frees_the_slot_at_once() -> None:
    """The session takes its next turn while the old one still drains; both facts are told apart."""
    old = Holder()
    with turnctl.turn("slot") as new:
        slot = turnctl.session("slot").turn
        old_state = (old.turn.is_over, old.turn.report.execution, old.turn.report.state)
    old.leave()

    assert new is slot
    assert (False, "stopping", "finishing") == old_state
    assert old.turn.is_over
    assert ("ended", "cancelled, settled") == (old.turn.report.execution, old.turn.report.state)


def test_displaced_turn_admits_nothing_more() -> None:
    """Old frames can start no new work, child turn or thing."""
    old = Holder()
    with turnctl.turn("slot"):
        with pytest.raises(TurnOver, match="begin a new turn"):
            old.turn.admit(Thing())
        with pytest.raises(TurnOver), old.turn.activity("tool", "search"):
            pass
    old.leave()


def test_displacement_interrupts_what_the_old_turn_owns_at_once() -> None:
    """Its commands are told from the bridge thread, not when its frames return."""
    wanted = threading.Event()
    old = Holder(grace="0s")
    thing = Thing()
    own(old.turn, thing)
    old.turn.watch(lambda: wanted.set() if old.turn.stop_wanted() else None)
    with turnctl.turn("slot"):
        told = wanted.wait(BOUND)
        kill_at = old.turn.kill_at()
    old.leave()

    assert told
    assert kill_at is not None
    assert thing.ended.is_set()


@pytest.mark.parametrize("on_busy", ["displace", "retire"])
def test_adopted_event_of_a_turn_that_lost_its_session(on_busy: str) -> None:
    """Displaced, the host's event is set like in any stop; retired, it is not, and setting it reaches nobody."""
    event = threading.Event()
    old = Holder(event=event)
    with turnctl.turn("slot", on_busy=on_busy) as new:
        was_set = event.wait(BOUND if on_busy == "displace" else 0.05)
        event.set()
        left = list(event._cond._waiters)  # type: ignore[attr-defined]
        new.check()
    old.leave()

    assert (on_busy == "displace") is was_set
    assert [] == left
    assert ("displaced" if on_busy == "displace" else None) == old.turn.cause
    assert "completed" == new.outcome


def test_stop_of_a_displaced_turn_that_drains() -> None:
    """The turn's own address answers ``already_cancelled``, cause ``displaced``; its token that it has ended."""
    old = Holder()
    with turnctl.turn("slot") as new:
        by_turn = old.turn.stop()
        by_id = turnctl.stop(turn_id=old.turn.turn_id)
        by_token = old.turn.token.cancel()
        by_session = turnctl.stop("slot", expected_turn=old.turn.turn_id)
        new.check()
    old.leave()
    after = old.turn.stop()
    after_by_id = turnctl.stop(turn_id=old.turn.turn_id)

    assert isinstance(by_turn, StopAnswer)
    assert isinstance(by_id, StopAnswer)
    assert ("already_cancelled", "displaced") == (by_turn.kind, by_turn.record and by_turn.record.cause)
    assert ("already_cancelled", "displaced") == (by_id.kind, by_id.record and by_id.record.cause)
    assert ("already_ended", "cancelled") == (by_token.kind, by_token.outcome)
    assert isinstance(by_session, StopAnswer)
    assert ("refused", "retired") == (by_session.kind, by_session.why)
    assert isinstance(after, StopAnswer)
    assert ("already_ended", "cancelled") == (after.kind, after.outcome)
    assert isinstance(after_by_id, StopAnswer)
    assert ("refused", "no_turn") == (after_by_id.kind, after_by_id.why)
    assert "completed" == new.outcome


def test_stop_before_displacement_keeps_its_own_cause() -> None:
    """The first accepted stop stays on record."""
    old = Holder()
    old.turn.stop("mine")
    with turnctl.turn("slot"):
        cause = old.turn.cause
    old.leave()

    assert "user" == cause
    assert "cancelled" == old.turn.outcome


def test_stop_between_the_trip_and_the_retirement_is_told_of_it() -> None:
    """A displacement is a cancel like any other until it is complete."""
    old = Holder()
    answers: list[object] = []
    with call_at("turn.displace.tripped", lambda: answers.append(old.turn.stop())), turnctl.turn("slot"):
        pass
    old.leave()

    assert isinstance(answers[0], StopAnswer)
    assert "already_cancelled" == answers[0].kind
    assert answers[0].record is not None
    assert "displaced" == answers[0].record.cause


def test_turn_that_completes_first_is_not_displaced() -> None:
    """A displacement that comes late changes nothing on the old turn, and the new one begins."""
    old = Holder()
    with pause_at("turn.begin.busy") as held:
        beginner = Background(lambda: turnctl.turn("slot").begin())
        assert held.reached.wait(BOUND)
        old.leave()
        held.release()
        token = beginner.result()
    turnctl.end_turn(token)

    assert ("completed", None) == (old.turn.outcome, old.turn.cause)


def test_late_end_of_a_displaced_turn_leaves_the_new_one_alone() -> None:
    """The end of N is its own; N+1 keeps the session and can be stopped."""
    old = Holder()
    with turnctl.turn("slot") as new:
        old.leave()
        holder = turnctl.session("slot").turn
        answer = turnctl.stop("slot")

    assert new is holder
    assert answer
    assert "cancelled" == new.outcome


@pytest.mark.parametrize("times", [30])
def test_two_that_displace_at_once_leave_one(times: int) -> None:
    """Two beginnings meet: both displace whoever is there, the old one is told once, one holds the slot."""
    for _ in range(times):
        old = Holder()
        gate = threading.Barrier(2)

        def begin(gate: threading.Barrier = gate) -> turnctl.Turn:
            made = turnctl.turn("slot")
            gate.wait(BOUND)
            made.begin()
            return made

        both = [thread.result() for thread in [Background(begin), Background(begin)]]
        holder = turnctl.session("slot").turn
        other = next(t for t in both if t is not holder)
        record = old.turn.token.record
        for one in both:
            one.end()
        old.leave()

        assert holder in both
        assert ("cancelled", "displaced") == (other.outcome, other.cause)
        assert record is not None
        assert "displaced" == record.cause
        assert record.reason in {f"displaced by turn {t.turn_id}" for t in both}


def test_retire_lets_the_frames_run_on() -> None:
    """The old turn is superseded, not tripped; its frames never run under the new turn's stop."""
    old = Holder()
    event = old.turn.event
    with turnctl.turn("slot", on_busy="retire") as new:
        new.stop()
        raised = old.check_now()
        answers = [old.turn.stop(), old.turn.token.cancel(), turnctl.stop(turn_id=old.turn.turn_id)]
    old.leave()

    assert raised is None
    assert [("refused", "retired")] * 3 == [(a.kind, a.why) for a in answers if isinstance(a, StopAnswer)]
    assert (False, False, "superseded") == (event.is_set(), old.turn.cancelled, old.turn.outcome)
    assert "superseded" == old.turn.report.state
    assert "cancelled" == new.outcome


def test_superseded_turn_owns_what_it_has_until_its_end() -> None:
    """Its things stay owned, end with its own ``with``, and nothing new is admitted."""
    old = Holder(grace="0s")
    thing = Thing()
    own(old.turn, thing)
    with turnctl.turn("slot", on_busy="retire"):
        with pytest.raises(TurnOver):
            old.turn.admit(Thing("new"))
        asked_early = "asked" in thing.log
    old.leave()

    assert not asked_early
    assert thing.ended.is_set()
    assert "superseded" == old.turn.outcome


def test_deadline_still_ends_what_a_superseded_turn_owns() -> None:
    """Nobody else can stop it any more, so its own limit does."""
    old = Holder(timeout="100ms", grace="0s")
    thing = Thing()
    own(old.turn, thing)
    wanted: list[bool] = []
    old.turn.watch(lambda: wanted.append(old.turn.stop_wanted()))
    with turnctl.turn("slot", on_busy="retire"):
        before = old.turn.stop_wanted()
        assert until(old.turn.stop_wanted)
        assert until(lambda: True in wanted)
    old.leave()

    assert not before
    assert "superseded" == old.turn.outcome


@pytest.mark.parametrize("on_busy", ["refuse", "wait", "displace", "retire"])
def test_free_session_is_taken_whatever_the_rule(on_busy: str) -> None:
    """The rule matters only for a busy session."""
    with turnctl.turn("slot", on_busy=on_busy) as turn:
        assert turn is turnctl.session("slot").turn


def test_refuse_raises_and_leaves_both_as_they_were() -> None:
    """``SessionBusy`` names the session and its turn; nothing was begun."""
    old = Holder()
    made = turnctl.turn("slot", on_busy="refuse")
    with pytest.raises(SessionBusy, match="stop that first") as raised:
        made.begin()
    found = registry.all_turns()
    after = old.check_now()
    old.leave()

    assert ("slot", old.turn.turn_id) == (raised.value.session_id, raised.value.turn_id)
    assert [old.turn] == found
    assert after is None
    assert "completed" == old.turn.outcome


def test_refused_nested_turn_is_no_open_activity_of_its_parent() -> None:
    """A child turn that could not begin is closed as failed."""
    old = Holder()
    with turnctl.turn() as parent, pytest.raises(SessionBusy):
        turnctl.turn("slot", on_busy="refuse").begin()
    old.leave()

    assert ["failed"] == [a.state for a in parent.report.activities]
    parent.report.validate()


def test_wait_begins_when_the_session_is_free() -> None:
    """Waiting turns take the session one after the other."""
    old = Holder()

    def waiting() -> turnctl.Turn:
        with turnctl.turn("slot", on_busy="wait") as turn:
            assert turn is turnctl.session("slot").turn
        return turn

    waiters = [Background(waiting) for _ in range(3)]
    assert is_parked(old.turn._over._waiters, 3)
    old.leave()

    assert ["completed"] * 4 == [old.turn.outcome, *(w.result().outcome for w in waiters)]


@pytest.mark.parametrize("inherit", [True, False])
def test_wait_is_woken_by_a_stop_of_the_enclosing_turn(inherit: bool) -> None:
    """Begin is then a checkpoint of the enclosing turn, whether or not the new turn would be its child."""
    old = Holder()
    reached: list[int] = []
    outer_turn: list[turnctl.Turn] = []

    def nested() -> None:
        with turnctl.turn("outer") as outer:
            outer_turn.append(outer)
            with turnctl.turn("slot", on_busy="wait", inherit=inherit):
                reached.append(1)

    waiter = Background(nested)
    assert is_parked(old.turn._over._waiters)
    outer_turn[0].stop()
    woken = until(lambda: not waiter.is_running, within=2)
    old.leave()
    waiter.result()

    assert woken
    assert [] == reached
    assert "cancelled" == outer_turn[0].outcome
    assert "completed" == old.turn.outcome


def test_wait_is_woken_by_a_stop_of_the_waiting_turn_itself() -> None:
    """A turn can be stopped by its id before it has its session."""
    old = Holder()
    waiter = Background(lambda: turnctl.turn("slot", turn_id="w", on_busy="wait").begin())
    assert is_parked(old.turn._over._waiters)
    answer = turnctl.stop(turn_id="w")
    error = waiter.error()
    old.leave()

    assert answer
    assert isinstance(error, CancelledError)
    assert "completed" == old.turn.outcome


@pytest.mark.parametrize("kind", ["shutdown", "event"])
def test_wait_is_woken_by_what_stops_turns(kind: str) -> None:
    """A shutdown and the turn's adopted event reach a turn that waits for its session."""
    old = Holder()
    event = threading.Event()
    waiter = Background(lambda: turnctl.turn("slot", event=event, on_busy="wait").begin())
    assert is_parked(old.turn._over._waiters)
    if kind == "shutdown":
        turnctl.shutdown()
        registry.reopen()
    else:
        event.set()
    error = waiter.error()
    old.leave()

    assert isinstance(error, CancelledError)


@pytest.mark.parametrize("on_busy", ["refuse", "wait", "displace"])
def test_session_is_held_while_its_turn_cleans_up(on_busy: str) -> None:
    """Until the turn is over only displacement takes its session."""
    thing = Thing(ends="never")
    old = Holder(grace="20s")
    own(old.turn, thing)
    leaver = Background(old.leave)
    assert thing.in_end.wait(BOUND)
    made = turnctl.turn("slot", on_busy=on_busy)
    if on_busy == "displace":
        made.begin()
        thing.finish()
    elif on_busy == "refuse":
        with pytest.raises(SessionBusy):
            made.begin()
        thing.finish()
        leaver.result()
        made = turnctl.turn("slot", on_busy=on_busy)
        made.begin()
    else:
        waiter = Background(made.begin)
        assert is_parked(old.turn._over._waiters)
        thing.finish()
        waiter.result()
    leaver.result()
    holder = turnctl.session("slot").turn
    made.end()

    assert made is holder
    assert ("completed", None) == (old.turn.outcome, old.turn.cause)


@pytest.mark.parametrize("on_busy", ["displace", "retire", "refuse", "wait"])
@pytest.mark.parametrize("inherit", [True, False])
@pytest.mark.parametrize("depth", [1, 2])
def test_session_of_an_enclosing_frame_is_busy(on_busy: str, inherit: bool, depth: int) -> None:
    """A frame cannot displace or wait for what it stands in; the enclosing turn is untouched."""
    with turnctl.turn("slot") as outer:
        with turnctl.turn("between" if depth == 2 else None, inherit=inherit):
            with pytest.raises(SessionBusy, match="encloses this frame"):
                turnctl.turn("slot", on_busy=on_busy, inherit=inherit).begin()
        outer.check()

    assert "completed" == outer.outcome


# -- nested turns -------------------------------------------------------------------------------------------------


def test_stop_of_a_parent_reaches_nested_turns() -> None:
    """Child and grandchild turns stop with cause ``parent``, each absorbs its own and ends cancelled."""
    reached: list[str] = []
    with turnctl.turn("a") as a:
        with turnctl.turn("b") as b:
            with turnctl.turn("c") as c:
                turnctl.stop("a", reason="enough")
                turnctl.check()
            reached.append("after c")
            turnctl.check()
        reached.append("after b")
        turnctl.check()
        reached.append("after a")

    assert ["after c", "after b"] == reached
    assert ["cancelled"] * 3 == [t.outcome for t in (a, b, c)]
    assert ("user", "parent", "parent") == (a.cause, b.cause, c.cause)
    assert c.token.record is not None
    assert (a.token.record, "enough") == (c.token.record.origin, c.token.reason)


def test_stop_of_a_nested_turn_leaves_its_parent_alone() -> None:
    """Never the reverse."""
    with turnctl.turn("a") as a:
        with turnctl.turn("b") as b:
            turnctl.stop("b")
            turnctl.check()
        turnctl.check()

    assert ("completed", "cancelled") == (a.outcome, b.outcome)


def test_turn_may_stand_apart_from_the_enclosing_one() -> None:
    """With ``inherit=False`` a stop outside does not reach it."""
    with turnctl.turn("a") as a, turnctl.turn("b", inherit=False) as b:
        a.stop()
        turnctl.check()

    assert ("cancelled", "completed") == (a.outcome, b.outcome)
    assert () == a.report.activities


def test_turn_begun_under_a_stopped_one_is_born_stopped() -> None:
    """A child registered late is stopped at once."""
    reached: list[int] = []
    with turnctl.turn() as outer:
        outer.stop()
        with turnctl.turn() as inner:
            inner.check()
            reached.append(1)

    assert [] == reached
    assert ("cancelled", "parent") == (inner.outcome, inner.cause)


def test_turn_begun_under_a_child_token_belongs_to_the_turn() -> None:
    """A token between the two does not hide the parent."""
    with turnctl.turn() as outer:
        with outer.child(), turnctl.turn() as inner:
            outer.stop()

    assert "parent" == inner.cause
    assert ["turn"] == [a.kind for a in outer.report.activities]


def test_deadline_of_a_parent_reaches_its_children() -> None:
    """A nested turn cannot outlast the enclosing one."""
    with turnctl.turn(timeout="50ms") as outer, turnctl.turn(timeout="1h") as inner:
        inner.sleep(BOUND)

    assert ("deadline", "parent") == (outer.cause, inner.cause)


def test_report_of_a_parent_lists_its_nested_turns() -> None:
    """Each with its times and how it ended."""
    with turnctl.turn() as outer:
        with turnctl.turn(turn_id="good"):
            pass
        with turnctl.turn(turn_id="stopped") as stopped:
            stopped.stop()
        with pytest.raises(ZeroDivisionError), turnctl.turn(turn_id="bad"):
            raise ZeroDivisionError
    found = {a.name: a for a in outer.report.activities}

    assert {"good": "completed", "stopped": "cancelled", "bad": "failed"} == {n: a.state for n, a in found.items()}
    assert all(a.ended_at is not None and a.ended_at >= a.started_at for a in found.values())


def test_superseded_nested_turn_is_not_listed_as_completed() -> None:
    """A child turn that lost its session without being stopped did not complete; its parent does not say so."""
    with turnctl.turn() as outer, turnctl.turn("slot") as inner:
        newer = Background(lambda: turnctl.turn("slot", on_busy="retire").begin()).result()
    turnctl.end_turn(newer)
    (found,) = outer.report.activities

    assert "superseded" == inner.outcome
    assert "completed" != found.state
    assert found.ended_at is not None


def test_root_waits_for_live_descendants() -> None:
    """A turn whose child turn still runs on another thread ends after it, and tells it to stop."""
    begun = threading.Event()
    inner: list[turnctl.Turn] = []

    def work() -> None:
        with turnctl.turn("worker") as turn:
            inner.append(turn)
            begun.set()
            turn.sleep(60)

    with turnctl.turn("root") as root:
        worker = Background(copy_context().run, work)
        assert begun.wait(BOUND)
    was_over = inner[0].is_over
    worker.result()

    assert was_over
    assert ("completed", "cancelled") == (root.outcome, inner[0].outcome)
    assert ("parent", "its parent has ended") == (inner[0].cause, inner[0].token.reason)
    assert ("ended", ()) == (root.report.execution, root.report.alive)


def test_child_turn_that_ignores_the_stop_is_named() -> None:
    """The root gives up after its grace, and the report claims no end while the child turn lives."""
    begun, go = threading.Event(), threading.Event()
    inner: list[turnctl.Turn] = []

    def work() -> None:
        with turnctl.turn("worker", grace=0) as turn:
            inner.append(turn)
            begun.set()
            go.wait(BOUND * 2)

    started = time.monotonic()
    with turnctl.turn("root", grace="50ms") as root:
        worker = Background(copy_context().run, work)
        assert begun.wait(BOUND)
    took = time.monotonic() - started
    report = root.report
    go.set()
    worker.result()

    assert took < 5
    assert "unproven" == report.execution
    assert (f"turn {inner[0].turn_id}",) == report.alive
    assert ["abandoned"] == [a.state for a in report.activities]
    assert "kill" == inner[0].token.level
    report.validate()


def test_turn_begun_while_its_parent_ends_is_refused() -> None:
    """Once the parent is decided it takes no more children: ``TurnOver``, and nothing is left."""
    errors: list[BaseException | None] = []
    contexts: list[Context] = []

    def late() -> None:
        errors.append(Background(contexts[0].run, lambda: turnctl.turn("late").begin()).error())

    with call_at("turn.end.leaving", late), turnctl.turn() as outer:
        contexts.append(copy_context())

    assert isinstance(errors[0], TurnOver)
    assert [] == registry.all_turns()
    assert "completed" == outer.outcome


# -- grace --------------------------------------------------------------------------------------------------------


def test_grace_runs_from_the_first_cancel() -> None:
    """The turn's grace counts from the stop that was accepted first; a repeat moves nothing."""
    with turnctl.turn(grace="10s") as turn:
        before = turn.kill_at()
        turn.stop()
        first = turn.kill_at()
        turn.stop()
        turn.stop("again", grace="60s")
        again = turn.kill_at()
        record = turn.token.record

    assert before is None
    assert record is not None
    assert record.at + 10 == first
    assert first == again


@pytest.mark.parametrize(
    ("options", "seconds"),
    [({"grace": "2s"}, 2.0), ({"grace": 0}, 0.0), ({"kill": True}, 0.0), ({"kill": True, "grace": "9s"}, 0.0)],
)
def test_escalation_only_shortens_the_grace(options: dict[str, object], seconds: float) -> None:
    """A later stop with less grace, or a kill, ends it sooner."""
    with turnctl.turn(grace="10s") as turn:
        turn.stop()
        first = turn.kill_at()
        before = time.monotonic()
        turn.stop(**options)  # type: ignore[arg-type]
        shorter = turn.kill_at()

    assert first is not None
    assert shorter is not None
    assert before + seconds <= shorter <= time.monotonic() + seconds < first


def test_grace_of_the_stop_replaces_the_turns() -> None:
    """The first stop may give its own grace, longer or shorter; after that it only shrinks."""
    with turnctl.turn(grace="1s") as turn:
        turn.stop(grace="30s")
        first = turn.kill_at()
        turn.stop(grace="40s")
        second = turn.kill_at()
        turn.stop(grace="3s")
        third = turn.kill_at()

    assert first is not None
    assert first == second
    assert third is not None
    assert third < first


def test_soft_stop_spends_no_grace() -> None:
    """Nothing is killed for it; the grace begins with the cancel that follows."""
    with turnctl.turn(grace="10s") as turn:
        turn.stop(soft=True)
        soft = (turn.kill_at(), turn.stop_wanted())
        turn.stop()
        hard = turn.kill_at()

    assert (None, False) == soft
    assert hard is not None


def test_soft_stop_with_a_grace_is_still_soft() -> None:
    """A grace given with a soft stop is kept for the cancel that may follow, and kills nothing before."""
    with turnctl.turn() as turn:
        turn.stop(soft=True, grace="0s")

        assert turn.kill_at() is None


def test_soft_stop_lets_the_step_finish_and_ends_cancelled() -> None:
    """A body that ends under it ends ``cancelled``, and the sentence says how."""
    steps: list[int] = []
    with turnctl.turn() as turn:
        for n in range(10):
            if turn.stopping:
                break
            turnctl.check()
            steps.append(n)
            turn.stop(soft=True)
            turnctl.check()

    assert [0] == steps
    assert ("cancelled", "soft", False) == (turn.outcome, turn.report.level, turn.event.is_set())
    assert "stopped by the user after finishing the step in hand" in str(turn.report)


@pytest.mark.parametrize("late", [{}, {"grace": "60s"}, {"soft": True}])
@pytest.mark.parametrize("stop_first", [True, False])
def test_late_stop_never_lengthens_the_rest(late: dict[str, object], stop_first: bool) -> None:
    """A stop while the turn is finishing moves the time of killing never to later."""
    thing = Thing(ends="never")
    times: list[float | None] = []

    def press() -> None:
        assert thing.in_end.wait(BOUND)
        times.append(turn.kill_at())
        turn.stop(**late)  # type: ignore[arg-type]
        times.append(turn.kill_at())
        thing.finish()

    with turnctl.turn(grace="5s") as turn:
        own(turn, thing)
        if stop_first:
            turn.stop()
        presser = Background(press)
    presser.result()

    assert times[0] is not None
    assert times[1] is not None
    assert times[1] <= times[0]


def test_stop_result_is_what_wait_gives() -> None:
    """``turn.stop(wait=)`` from another thread returns answer and report."""
    begun = threading.Event()
    turns: list[turnctl.Turn] = []

    def body() -> None:
        with turnctl.turn() as turn:
            turns.append(turn)
            begun.set()
            turn.sleep(60)

    worker = Background(body)
    assert begun.wait(BOUND)
    result = turns[0].stop("enough", by="ann", wait=BOUND)
    worker.result()

    assert isinstance(result, StopResult)
    assert result.over
    assert result.report is not None
    assert "ended" == result.report.execution
    assert result.answer.record is result.report.stop


def test_turn_nested_in_a_child_token_follows_it() -> None:
    """A turn begun inside ``with turn.child()`` is stopped with that child, and the outer turn goes on."""
    with turnctl.turn() as outer:
        with outer.child() as child:
            with turnctl.turn() as inner:
                child.cancel("enough")
                turnctl.check()
        outer.check()

    assert ("cancelled", "parent") == (inner.outcome, inner.cause)
    assert "completed" == outer.outcome
