"""Eight threads at once: every recorded history can be explained by the model, step by step (P2, P3)."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from checker import Call, explanation, listing
from crew import Crew, shaken
from model import Answer, Op, World, run
from stage import Stage

THREADS = 8
ROUNDS = 2_000
STRESS_ROUNDS = 20_000

Scenario = tuple[list[Op], list[list[Op]]]


@pytest.fixture(scope="module")
def rounds(request: pytest.FixtureRequest) -> int:
    return STRESS_ROUNDS if request.config.getoption("--stress") else ROUNDS


@pytest.fixture
def crew() -> Iterator[Crew]:
    with Crew(THREADS) as made:
        yield made


class Recorder:
    """Runs one history and keeps what each call was told, with stamps from one counter."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.calls: list[Call] = []
        self._stamp = itertools.count().__next__  # one C call, so no two threads get the same number

    def do(self, op: Op) -> Any:
        invoked = self._stamp()
        if random.random() < 0.3:
            time.sleep(0)  # let others begin as well, but not all: what overlaps everything is easily explained
        result = self.stage.do(op)
        token = self.stage.tokens.get(op.name)
        # read before anything else: an answer never runs ahead of the flag
        shows = token is None or token.cancelled or token.retired
        self.calls.append(Call(op, invoked, self._stamp(), result))
        if isinstance(result, Answer) and result.kind in ("accepted", "already_cancelled"):
            assert shows or op.level == "soft", f"told before it showed: {op}"
        return result

    def run(self, program: list[Op]) -> None:
        for op in program:
            self.do(op)


def stop_of(chance: random.Random, name: str, reason: str) -> Op:
    return Op(
        chance.choice(["cancel", "cancel", "stop_turn", "stop_id", "set"]),
        name,
        reason=f"{name}: {reason}",
        level=chance.choice(["soft", "cancel", "cancel", "kill"]),
        grace=chance.choice([None, None, 0, 5]),
    )


def two_turns(chance: random.Random, prefix: str) -> Scenario:
    """Two turns, one with a child: stopped, ended and looked at."""
    a, b, c = (prefix + name for name in "abc")
    setup = [Op("begin", a), Op("begin", b), Op("child", c, parents=(a,))]
    programs = []
    for i in range(THREADS):
        name = chance.choice([a, a, a, b, c])
        kind = chance.choice(["stop", "stop", "stop", "end", "end", "look", "child"])
        if kind == "stop":
            op = stop_of(chance, name, str(i))
            if name == c:
                op = op._replace(kind="cancel")
        elif kind == "end":
            op = Op("close", c) if name == c else Op("end", name, outcome=chance.choice(["completed", "failed"]))
        elif kind == "child":
            op = Op("child", f"{prefix}k{i}", parents=(a,))
        else:
            op = Op(chance.choice(["outcome", "record"]), name)
        programs.append([op])
    return setup, programs


def one_session(chance: random.Random, prefix: str) -> Scenario:
    """A session and its turn: displaced, retired, stopped by every address and ended."""
    session, a = prefix + "session", prefix + "a"
    setup = [Op("begin", a, session=session)] if chance.random() < 0.9 else []
    programs: list[list[Op]] = []
    for i in range(THREADS):
        kind = chance.choice(["begin", "stop", "stop", "session", "session", "end", "look"])
        calls = sum(map(len, programs))
        if calls + THREADS - i > 8:
            programs.append([])
        elif kind == "begin" and sum(p[0].kind == "begin" for p in programs if p) < 3:
            new = f"{prefix}n{i}"
            policy = chance.choice(["displace", "displace", "retire", "refuse"])
            begin = Op("begin", new, session=session, policy=policy)
            then = [Op("end", new)] if chance.random() < 0.3 else []
            programs.append([begin, *then])
        elif kind == "session" or not setup:
            expected = chance.choice([None, a])
            programs.append([Op("stop_session", session, reason=f"session: {i}", expected=expected)])
        elif kind == "stop":
            programs.append([stop_of(chance, a, str(i))])
        elif kind == "end":
            programs.append([Op("end", a, outcome=chance.choice(["completed", "failed"]))])
        else:
            programs.append([Op(chance.choice(["outcome", "record"]), a)])
    return setup, programs


@pytest.mark.switchinterval
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", [two_turns, one_session])
def test_every_history_can_be_explained(
    scenario: Callable[[random.Random, str], Scenario], crew: Crew, rounds: int
) -> None:
    """Whatever eight threads are told fits one order of steps, and every stop has one answer (P2, P3)."""
    chance = random.Random()
    overlapping = 0
    for n in range(rounds // 2):
        setup, programs = scenario(chance, f"h{n}/")
        recorder = Recorder()
        world = World()
        for op in setup:
            world, expected = run(world, op)
            assert expected == recorder.stage.do(op)
        with shaken():
            crew.round([partial(recorder.run, program) for program in programs])
        during = list(recorder.calls)
        for name in list(recorder.stage.tokens):
            recorder.do(Op("look", name))

        assert explanation(recorder.calls, world) is not None, "nothing explains\n" + listing(recorder.calls)
        check_promises(recorder, during)
        overlapping += any(overlap(x, y) for x, y in itertools.combinations(during, 2))
        recorder.stage.end_all()

    assert overlapping > rounds // 10, "the threads hardly met: the histories say little"


def overlap(x: Call, y: Call) -> bool:
    return x.invoked < y.returned and y.invoked < x.returned


def check_promises(recorder: Recorder, calls: list[Call]) -> None:
    """Asked once more without the model: what the promises say in so many words."""
    for name, token in recorder.stage.tokens.items():
        answers = [
            call.result
            for call in calls
            if call.op.name == name and isinstance(call.result, Answer) and call.result.kind == "accepted"
        ]
        ended = [call for call in calls if call.op.name == name and call.op.kind in ("end", "close") and call.result]
        record = token.record

        assert len(answers) <= 1, listing(calls)
        assert len(ended) <= 1, listing(calls)
        assert not answers or token.outcome in (None, "cancelled"), listing(calls)
        assert (
            record is None
            or record.cause in ("parent", "displaced", "event")
            or ((record.reason or "").startswith((f"{name}:", "session:")))
        ), listing(calls)
