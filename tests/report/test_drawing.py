"""What there is to draw of a turn: what is known as it is known, and what is not as a gap."""

from __future__ import annotations

import pytest
from sketches import START, TURN, Sketch, completed, stopped

from turnctl.records.states import STATES
from turnctl.report.drawing import look_of, picture_of
from turnctl.report.picture import Item, Picture, Span


def lane(picture: Picture, key: str) -> dict[str, Item]:
    """The items of a lane by name."""
    return {item.name: item for one in picture.lanes if one.key == key for item in one.items}


def test_what_went_well_has_its_times() -> None:
    """Each item from its begin to its end; a command from where it ran on."""
    picture = picture_of(completed())
    (turn,) = lane(picture, "turn").values()

    assert ("completed", "done", (Span(0.0, 5.0, "going"),), 5.0) == (turn.word, turn.look, turn.spans, turn.took)
    assert (Span(0.5, 2.0, "going"),) == lane(picture, "activities")["call openai chat"].spans
    make = lane(picture, "processes")["[4121] make test"]
    assert ("completed, exit 0", 2.0) == (make.word, make.took)
    assert (Span(2.0, 2.5, "starting"), Span(2.5, 4.5, "going")) == make.spans
    assert (Span(4.5, 4.75, "going"),) == lane(picture, "effects")["mail.send to bob"].spans
    assert (None, None, ()) == (picture.stop, picture.grace, picture.gaps)


def test_stop_divides_what_ran() -> None:
    """What goes on after it was accepted is drawn as being stopped; the grace is as long as is on record."""
    picture = picture_of(stopped())
    command = lane(picture, "processes")["[4121] sh -c 'sleep 99'"]

    assert (4.0, "stop accepted +4s by ana: wrong repo") == (picture.stop and (picture.stop.begin, picture.stop.words))
    assert (4.0, 4.75, "grace of 750ms") == picture.grace
    assert ("cancelled, SIGKILL", "stopped") == (command.word, command.look)
    assert ["starting", "going", "stopping"] == [span.kind for span in command.spans]
    assert [(4.0, "TERM"), (4.75, "KILL")] == [(mark.at, mark.word) for mark in command.marks]


def test_what_is_not_known_is_a_gap() -> None:
    """It is never drawn as what has ended, and each is counted in words."""
    picture = picture_of(stopped())
    activities, effects = lane(picture, "activities"), lane(picture, "effects")
    post, deaf = activities["http POST api"], activities["thread deaf one"]
    bob = effects["mail.send to bob"]

    assert ("cut off, its end not known", (Span(3.0, 5.0, "unknown"),), True) == (post.word, post.spans, post.is_open)
    assert ("left running", "unknown", True, None) == (deaf.word, deaf.look, deaf.is_open, deaf.took)
    assert ("unknown: it may have happened", (Span(1.5, 5.0, "unknown"),)) == (bob.word, bob.spans)
    assert picture.gaps == (
        "Of 2 activities how or when they ended.",
        "Of 1 effect what became of it: it may have happened.",
    )


def test_effects_say_what_was_told() -> None:
    """A receiver's no is one, and what was never sent is no success."""
    effects = lane(picture_of(stopped()), "effects")

    assert {
        "mail.send to ana": ("completed", "done"),
        "mail.send to bob": ("unknown: it may have happened", "unknown"),
        "pay.charge 17": ("rejected", "failed"),
        "mail.send to eve": ("never sent", "never"),
    } == {name: (item.word, item.look) for name, item in effects.items()}
    assert ["starting"] == [span.kind for span in effects["mail.send to eve"].spans]


def test_running_turn_goes_on() -> None:
    """So does all that has no end, up to now, and the picture says that it is not the end."""
    made = Sketch()
    made.process(4121, "make test", 1.0, None)
    made.effect("mail.send", "to eve", 2.0, None, "pending")
    picture = picture_of(made.facts(None, state="running", outcome=None, execution="running", seen=9.0))

    assert (True, 9.0) == (picture.now, picture.end)
    make = lane(picture, "processes")["[4121] make test"]
    assert ("running", "going", (Span(1.0, 9.0, "going"),), True) == (make.word, make.look, make.spans, make.is_open)
    assert "on its way" == lane(picture, "effects")["mail.send to eve"].word
    assert picture.gaps == ("What comes after 2026-11-30T12:00:09.000Z: it goes on.",)


def test_lost_turn_ends_in_a_gap() -> None:
    """From the last that is on record on nothing is known, however long ago that is."""
    made = Sketch()
    made.process(4121, "make test", 1.0, None)
    made.effect("mail.send", "to eve", 4.0, None, "pending")
    lost = "the machine was started again"
    picture = picture_of(made.facts(None, state="lost", outcome=None, execution="lost", lost=lost, seen=300000.0))
    (turn,) = lane(picture, "turn").values()

    assert (False, 5.0) == (picture.now, picture.end)
    assert (Span(0.0, 4.0, "going"), Span(4.0, 5.0, "unknown")) == turn.spans
    assert "end not on record" == lane(picture, "processes")["[4121] make test"].word
    assert "unknown: it may have happened" == lane(picture, "effects")["mail.send to eve"].word
    assert lost in picture.gaps[0]


def test_stop_of_a_lost_turn_is_at_its_time() -> None:
    """A stop long after the last that is on record of the turn is drawn when it was accepted."""
    made = Sketch()
    made.process(4121, "make test", 1.0, None)
    made.stop(60.0)
    facts = made.facts(None, state="lost", outcome=None, execution="lost", lost="gone", seen=90.0)
    picture = picture_of(facts)
    (turn,) = lane(picture, "turn").values()

    assert picture.stop is not None
    assert (60.0, "stop accepted +1m by ana: wrong repo") == (picture.stop.begin, picture.stop.words)
    assert (Span(0.0, 1.0, "going"), Span(1.0, 75.0, "unknown")) == turn.spans
    assert 75.0 == picture.end


def test_end_that_is_not_proven_is_open() -> None:
    """What the turn did is known, and that something of it may go on is said, with what that is."""
    facts = Sketch().facts(1.0, state="finishing", execution="unproven")
    assert facts.report is not None
    facts.report["execution"]["alive"] = ["thread deaf one"]
    picture = picture_of(facts)
    (turn,) = lane(picture, "turn").values()

    assert (True, (Span(0.0, 1.0, "going"),)) == (turn.is_open, turn.spans)
    assert picture.gaps == ("Whether all that it started has ended: thread deaf one may go on.",)


def test_turn_without_report_says_so() -> None:
    """What only the ledger was told is no more than that."""
    picture = picture_of(Sketch().facts(1.0, has_report=False))

    assert picture.gaps == ("Its own report: it has left none, so only what the ledger was told is here.",)


def test_clock_set_back_is_told_and_made_good() -> None:
    """What came later in the log is drawn later, and no span is negative."""
    made = Sketch()
    made.activity("call", "before", 0.5, 2.0)
    made.activity("call", "after", 2.5 - 3600, 4.0 - 3600)
    picture = picture_of(made.facts(5.0 - 3600, in_order_of_time=False))

    assert ["call before", "call after"] == list(lane(picture, "activities"))
    after = lane(picture, "activities")["call after"]
    assert (2.0, 3.5, 1.5) == (after.begin, after.end, after.took)
    assert 4.5 == picture.end
    assert any("it was set back, by at least 1h" in gap for gap in picture.gaps)


def test_clock_set_forward_is_told() -> None:
    """Where the clock that is never set has measured less than the other one."""
    made = Sketch()
    made.stop(1.0)
    picture = picture_of(
        made.facts(3602.0, state="cancelled, settled", outcome="cancelled", stop_took_s=1.0, grace_s=5.0)
    )

    assert any("it was set forward by about 1h while the turn was stopped" in gap for gap in picture.gaps)


def test_grace_is_what_was_seen_or_nothing() -> None:
    """Up to the first KILL where no length is on record, and said to be missing where there was none either."""
    killed, asked = Sketch(), Sketch()
    for made, sent in ((killed, (("SIGTERM", 1.0), ("SIGKILL", 1.5))), (asked, (("SIGTERM", 1.0),))):
        made.stop(1.0)
        made.process(4121, "sleep 9", 0.5, 1.75, returncode=-9, detail="cancelled: stopped", sent=sent)
    words = {"state": "cancelled, settled", "outcome": "cancelled"}

    assert (1.0, 1.5, "grace, 500ms until the first KILL") == picture_of(killed.facts(2.0, **words)).grace
    picture = picture_of(asked.facts(2.0, **words))
    assert picture.grace is None
    assert "How long the grace was: no length of it is on record, and nothing was killed." in picture.gaps


def test_stop_before_and_after_is_not_in_between() -> None:
    """One that was accepted before the turn began is at its begin; one after its end is none of its."""
    late = Sketch()
    facts = late.facts(1.0)
    event = {**facts.events[0], "n": 9, "kind": "cancel.accepted", "at": START + 50, "subject": "cr-1", "actor": "ana"}

    assert picture_of(facts._replace(events=(*facts.events, event))).stop is None
    early = {**event, "n": 0, "at": START - 50}
    picture = picture_of(facts._replace(events=(early, *facts.events)))
    assert (0.0, 0.0, "stop accepted before it began") == picture.stop


def test_receipt_after_the_end_is_told_as_late() -> None:
    """It makes the picture no longer."""
    made = Sketch()
    made.effect("mail.send", "to bob", 1.0, None)
    facts = made.facts(2.0)
    told = {**facts.events[-1], "n": 9, "kind": "effect.completed", "at": START + 7202, "subject": "e-" + "0" * 32}
    picture = picture_of(facts._replace(events=(*facts.events, told)))
    effect = lane(picture, "effects")["mail.send to bob"]

    assert (2.0, "completed, told 2h after its end", True) == (picture.end, effect.word, effect.is_open)


def test_process_without_a_row_has_no_time() -> None:
    """What only the report tells of has no place on the line, and is there all the same."""
    made = Sketch()
    made.process(4121, "make test", 1.0, 2.0)
    made.activities.clear()
    picture = picture_of(made.facts(3.0))
    item = lane(picture, "processes")["[4121] make test"]

    assert ((), "exit 0, when is not on record", "unknown") == (item.spans, item.word, item.look)
    assert picture.gaps == ("Of 1 process the time.",)


def test_status_that_is_not_zero_is_no_success() -> None:
    """The command has come back, and whether that is well only its caller knows."""
    made = Sketch()
    made.process(4121, "grep x", 1.0, 2.0, returncode=1, detail="completed: exit status 1")
    item = lane(picture_of(made.facts(3.0)), "processes")["[4121] grep x"]

    assert ("completed, exit 1", "ended") == (item.word, item.look)


def test_row_and_report_tell_of_one_process() -> None:
    """Under two names: the row of a command has that of its program, the report all of it."""
    made = Sketch()
    made.process(4121, "make", 1.0, 2.5, detail="")
    facts = made.facts(3.0)
    assert facts.report is not None
    told = {"kind": "process", "name": "make test", "state": "completed", "started_at": START + 1.25}
    facts.report["activities"].append({**told, "ended_at": START + 2.5, "detail": "exit status 0"})
    items = lane(picture_of(facts), "processes")

    assert {"[4121] make test": "completed, exit 0"} == {name: item.word for name, item in items.items()}


def test_child_turn_is_an_activity() -> None:
    """Which has no row of its own here, and its times from the report."""
    facts = Sketch().facts(3.0)
    assert facts.report is not None
    told = {"kind": "turn", "name": "t2nnepxtwyqp6mb", "state": "failed", "detail": None}
    facts.report["activities"].append({**told, "started_at": START + 1, "ended_at": START + 2})
    item = lane(picture_of(facts), "activities")["turn t2nnepxtwyqp6mb"]

    assert ("failed", (Span(1.0, 2.0, "going"),)) == (item.word, item.spans)


def test_survivor_is_named() -> None:
    """A command that could not be ended goes on beyond the picture."""
    made = Sketch()
    one = {"pid": 99, "name": "dd", "reason": "uninterruptible", "started_at": 0.0, "state": "D"}
    made.process(4121, "dd", 1.0, 2.0, survivors=(one,))
    item = lane(picture_of(made.facts(3.0)), "processes")["[4121] dd"]

    assert ("1 left alive", "unknown", True) == (item.word, item.look, item.is_open)
    assert "left alive: dd [99]: uninterruptible" in item.about


def test_other_attempts_are_listed() -> None:
    """All turns at the task, with their incarnation; one alone is no list."""
    one = {"turn_id": TURN, "inc": "i-1", "seq": 1, "gen": 1, "state": "lost", "begun_at": START, "ended_at": None}
    other = {**one, "turn_id": "t-other", "seq": 2, "state": "completed", "ended_at": START + 1}

    assert () == picture_of(Sketch().facts(1.0, attempts=(one,))).attempts
    assert (
        ("1", "1", f"{TURN} (this one)", "lost", "2026-11-30T12:00:00.000Z", "not on record"),
        ("2", "1", "t-other", "completed", "2026-11-30T12:00:00.000Z", "2026-11-30T12:00:01.000Z"),
    ) == picture_of(Sketch().facts(1.0, attempts=(one, other))).attempts


@pytest.mark.parametrize("state", STATES)
def test_no_state_with_a_doubt_looks_done(state: str) -> None:
    """Only what is completed and settled has the look of it."""

    assert ("done" == look_of(state)) == (state == "completed")
