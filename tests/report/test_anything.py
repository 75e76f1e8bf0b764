"""Whatever is on record, however odd its times and names, is drawn by every writer, in its place."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from xml.etree import ElementTree as ET

import pytest
from jsonschema import Draft202012Validator
from schemas import SCHEMAS
from sketches import HOSTILE, Sketch

from turnctl.report.document import document
from turnctl.report.drawing import picture_of
from turnctl.report.facts import Facts
from turnctl.report.html import html
from turnctl.report.markdown import markdown
from turnctl.report.redact import redacted
from turnctl.report.svg import svg
from turnctl.report.trace import trace

KINDS = ("call", "process", "turn", "scope", "http", HOSTILE)
DETAILS = (None, "", "completed", "failed: x", "abandoned: y", "unknown", "found to be gone: z", "detached: q")
DISPOSITIONS = ("completed", "rejected", "unknown", "suppressed", "pending", "provider_cancelled")


def anything(random: Random) -> Facts:
    """A turn at whose times nobody has looked."""

    def time() -> float:
        return random.choice([0, -1, -5000, *(random.random() * 5 for _ in range(4)), 6, 7200, 1e6, -1e9, 1e-7, 1e12])

    made = Sketch()
    for _ in range(random.choice([0, 1, 3, 61])):
        made.activity(
            random.choice(KINDS),
            random.choice(["x", HOSTILE, ""]),
            time(),
            random.choice([None, time(), time()]),
            detail=random.choice(DETAILS),
            pid=random.choice([None, 5]),
            sent=random.choice([(), (("SIGTERM", time()), ("SIGKILL", time())), (("stop", time()),)]),
            severed=random.random() < 0.2,
            stopped=random.choice([None, True, False]),
        )
    for n in range(random.choice([0, 2])):
        end = random.choice([None, time()])
        made.process(100 + n, "a b", time(), end, started=random.random(), returncode=random.choice([0, 1, -9, -99]))
    for _ in range(random.choice([0, 1, 4])):
        made.effect(
            random.choice(["k", HOSTILE]), "y", time(), random.choice([None, time()]), random.choice(DISPOSITIONS)
        )
    if random.random() < 0.6:
        made.stop(time(), reason=random.choice([None, HOSTILE]))
    end = random.choice([None, time(), 5.0])
    return made.facts(
        end,
        state=random.choice(["running", "lost", "completed", "failed", "cancelled, settled"]),
        outcome=None,
        execution=random.choice(["ended", "unproven", "lost", "running"]),
        lost=None if end is not None or random.random() < 0.5 else "gone",
        seen=time(),
        grace_s=random.choice([None, 0.0, 1.0, 1e9]),
        stop_took_s=random.choice([None, 0.0, 3.0]),
        has_report=random.random() < 0.8,
        in_order_of_time=random.random() < 0.7,
    )


@pytest.mark.parametrize("seed", range(4))
def test_anything_is_drawn(seed: int) -> None:
    """As it is, or redacted; spans follow each other within the picture, and each file is one of its kind."""
    random = Random(seed)
    for known in (anything(random) for _ in range(3)):
        for facts in (known, redacted(known)):
            picture = picture_of(facts)
            spans = [item.spans for lane in picture.lanes for item in lane.items]
            slices = json.loads(trace(picture, made_by="turnctl 0"))

            assert all(0 <= one.begin <= one.end <= picture.end for each in spans for one in each)
            assert all(one.end <= other.begin for each in spans for one, other in pairwise(each))
            ET.fromstring(svg(picture, made_by="turnctl 0"))
            Draft202012Validator(SCHEMAS["trace-1.json"]).validate(slices)
            json.loads(document(picture, facts, made_by="turnctl 0"))
            for text in (html(picture, facts, made_by="turnctl 0"), markdown(picture, made_by="turnctl 0")):
                assert [] == [c for c in text if not (c.isprintable() or c == "\n")]
