"""One thread, any sequence of operations: tokens, turns and sessions do what the model says (P2, P3, P4)."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model import Op, World, look, run
from stage import Stage

LEVELS = st.sampled_from(["soft", "cancel", "kill"])
GRACES = st.sampled_from([None, None, 0, 0.5, 3, 60])
SESSIONS = ["chat", "desk"]
_numbers = itertools.count()


class TokensAndTurns(RuleBasedStateMachine):
    """Every operation is done twice, by the product and by the model; answers and states have to agree."""

    def __init__(self) -> None:
        super().__init__()
        # turn ids and sessions belong to the whole process
        self.prefix = f"{next(_numbers)}/"
        self.stage = Stage()
        self.world = World()
        self.made = 0
        self.watched: dict[str, Any] = {}
        self.kill_at: dict[str, float] = {}

    def teardown(self) -> None:
        self.stage.end_all()

    def do(self, op: Op) -> Any:
        self.world, expected = run(self.world, op)
        told = self.stage.do(op)

        assert expected == told, op
        return told

    def new(self, kind: str) -> str:
        self.made += 1
        return f"{self.prefix}{kind}{self.made}"

    def pick(self, data: st.DataObject, *, turns: bool | None = None) -> str:
        names = [name for name, tok in self.world.tokens.items() if turns is None or tok.is_turn is turns]
        return data.draw(st.sampled_from(names))

    def reason(self) -> str:
        self.made += 1
        return f"request {self.made}"

    @property
    def turns(self) -> list[str]:
        return [name for name, tok in self.world.tokens.items() if tok.is_turn]

    @rule(
        data=st.data(),
        session=st.sampled_from([None, *SESSIONS]),
        policy=st.sampled_from(["displace", "displace", "retire", "refuse", "wait"]),
        inside=st.booleans(),
    )
    def begin(self, data: st.DataObject, session: str | None, policy: str, inside: bool) -> None:
        parents: tuple[str, ...] = ()
        if inside and self.turns:
            parents = (self.pick(data, turns=True),)
        name = None if session is None else self.prefix + session
        if policy == "wait" and name in self.world.slots:
            return  # one thread would wait for ever
        self.do(Op("begin", self.new("turn"), session=name, policy=policy, parents=parents))

    @precondition(lambda self: self.world.tokens)
    @rule(data=st.data(), level=LEVELS, grace=GRACES)
    def cancel(self, data: st.DataObject, level: str, grace: float | None) -> None:
        self.do(Op("cancel", self.pick(data), reason=self.reason(), level=level, grace=grace))

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), level=LEVELS, grace=GRACES, by_id=st.booleans())
    def stop_turn(self, data: st.DataObject, level: str, grace: float | None, by_id: bool) -> None:
        kind = "stop_id" if by_id else "stop_turn"
        self.do(Op(kind, self.pick(data, turns=True), reason=self.reason(), level=level, grace=grace))

    @rule(data=st.data(), session=st.sampled_from(SESSIONS), level=LEVELS, expecting=st.booleans())
    def stop_session(self, data: st.DataObject, session: str, level: str, expecting: bool) -> None:
        expected = self.pick(data, turns=True) if expecting and self.turns else None
        self.do(Op("stop_session", self.prefix + session, reason=self.reason(), level=level, expected=expected))

    @precondition(lambda self: self.world.tokens)
    @rule(data=st.data())
    def set_event(self, data: st.DataObject) -> None:
        self.do(Op("set", self.pick(data)))

    @precondition(lambda self: self.world.tokens)
    @rule(data=st.data())
    def ask_for_event(self, data: st.DataObject) -> None:
        name = self.pick(data)
        self.watched[name] = self.stage.tokens[name].event

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), outcome=st.sampled_from(["completed", "failed"]))
    def end(self, data: st.DataObject, outcome: str) -> None:
        name = self.pick(data, turns=True)
        if any(name in tok.follows and tok.is_turn for tok in self.world.tokens.values()):
            return  # it would spend its grace on a turn inside it that nobody ends
        if any(inner.outer is self.stage.turns[name] for inner in self.open_inside()):
            return
        self.do(Op("end", name, outcome=outcome))

    def open_inside(self) -> list[Any]:
        return [_Inner(turn) for turn in self.stage.turns.values() if not turn.is_over]

    @precondition(lambda self: self.world.tokens)
    @rule(data=st.data(), several=st.booleans())
    def child(self, data: st.DataObject, several: bool) -> None:
        parents = (self.pick(data), self.pick(data)) if several else (self.pick(data),)
        self.do(Op("child", self.new("child"), parents=tuple(dict.fromkeys(parents))))

    @precondition(lambda self: len(self.turns) < len(self.world.tokens))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.do(Op("close", self.pick(data, turns=False)))

    @invariant()
    def states_agree(self) -> None:
        for name, tok in self.world.tokens.items():
            assert look(tok) == self.stage.look(name), name

    @invariant()
    def events_show_the_trip(self) -> None:
        for name, event in self.watched.items():
            assert self.stage.tokens[name].cancelled is event.is_set(), name

    @invariant()
    def grace_is_never_extended(self) -> None:
        for name, turn in self.stage.turns.items():
            at = turn.kill_at()
            if at is None:
                continue
            given = self.world.tokens[name].grace

            assert at <= self.kill_at.get(name, at), name
            assert given is None or at <= time.monotonic() + given, name
            self.kill_at[name] = at


class _Inner:
    def __init__(self, turn: Any) -> None:
        self.outer = turn._outer


@pytest.fixture(autouse=True, scope="module")
def _few_or_many(request: pytest.FixtureRequest) -> None:
    examples = 5_000 if request.config.getoption("--stress") else 500
    TestMachine.settings = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


TestMachine = TokensAndTurns.TestCase
