"""Redacted, nothing is left of what others wrote, and everything of what turnctl measured."""

from __future__ import annotations

import json

from sketches import TURN, Sketch, stopped

from turnctl.report.document import document
from turnctl.report.drawing import picture_of
from turnctl.report.facts import Facts
from turnctl.report.html import html
from turnctl.report.markdown import markdown
from turnctl.report.redact import redacted
from turnctl.report.svg import svg
from turnctl.report.trace import trace

SECRET = "hunter2"


def secretive() -> Facts:
    """Each text that a host or a person can give has the word in it."""
    made = Sketch()
    made.activity("call", f"post {SECRET}", 0.5, 1.0, detail=f"failed: {SECRET}")
    made.activity(f"my {SECRET}", "x", 0.5, 1.0, sent=((f"wave {SECRET}", 0.75),))
    made.process(4121, f"login --password {SECRET}", 1.0, 2.0)
    made.effect(f"mail.{SECRET}", SECRET, 1.5, 1.75)
    made.effect("pay", "k", 1.5, None, "unknown", closed_by=SECRET, adapter=SECRET, request_ref=SECRET)
    made.stop(1.8, by=SECRET, reason=SECRET)
    facts = made.facts(2.0, command=[SECRET], name=SECRET, state="stopped, effects unresolved", outcome="cancelled")
    facts.effects[0]["receipt"] = {"source": SECRET, "body": SECRET}
    assert facts.report is not None
    facts.report["notes"] = [SECRET]
    facts.report["summary"] = SECRET
    facts.report["intent"]["record"]["site"] = f"/home/{SECRET}.py:1 in f"
    facts.report["execution"]["alive"] = [SECRET]
    turn = {**facts.turn, "session_id": SECRET, "folder": f"/{SECRET}"}
    turn["task"] = {"tenant": SECRET, "task_id": SECRET, "inc": f"i-{SECRET}"}
    return facts._replace(
        turn=turn, output={"streams": {"stdout": f"/{SECRET}"}}, report={**facts.report, SECRET.upper(): 1}
    )


def test_no_text_of_others_is_left() -> None:
    """In none of the formats."""
    facts = redacted(secretive())
    picture = picture_of(facts)
    made = [write(picture, made_by="turnctl 0") for write in (svg, markdown, trace)]
    made += [write(picture, facts, made_by="turnctl 0") for write in (html, document)]

    assert [False] * 5 == [SECRET in text.lower() for text in made]
    assert [True] * 5 == ["edacted" in text for text in made]


def test_without_it_each_is_there() -> None:
    """So that the test above would see one."""
    facts = secretive()

    assert 20 < document(picture_of(facts), facts, made_by="turnctl 0").count(SECRET)


def test_what_was_measured_stays() -> None:
    """Times, words, numbers and ids are as before, and the picture has the same shapes."""
    before, after = picture_of(stopped()), picture_of(redacted(stopped()))

    assert (TURN, before.state, before.end, before.grace) == (after.turn_id, after.state, after.end, after.grace)
    for one, other in zip(before.lanes, after.lanes, strict=True):
        assert [(i.word, i.look, i.spans, i.marks) for i in one.items] == [
            (i.word, i.look, i.spans, i.marks) for i in other.items
        ]


def test_equal_texts_stay_equal() -> None:
    """The same word has the same number wherever it stands, and no hash from which it could be found."""
    facts = redacted(secretive())
    text = json.dumps(facts._asdict())

    assert facts.turn["session_id"] == facts.turn["name"] == facts.turn["intent"]["by"]
    assert facts.turn["session_id"].startswith("text-")
    assert "0" * 64 not in text
