"""One thread, any sequence of operations: tokens, turns and sessions do what the model says (P2, P3, P4)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from model import Op, World, look, run
from stage import Stage

# few draws for each step: most of the time goes into drawing
WHICH = st.integers(0, 59)  # of the tokens that are there
ADDRESSES = ["cancel", "cancel", "stop_turn", "stop_id", "stop_session", "stop_expected", "set"]
STOPS = st.sampled_from(list(itertools.product(ADDRESSES, ["soft", "cancel", "kill"], [None, None, 0, 0.5, 60])))
POLICIES = ["displace", "displace", "retire", "refuse", "wait"]
BEGINNINGS = st.sampled_from(list(itertools.product([None, "chat", "desk"], POLICIES, [True, False], [True, False])))
_numbers = itertools.count()


class TokensAndTurns(RuleBasedStateMachine):
    """Product and model do every operation; what they answer and show has to agree (P2, P3, P4)."""

    def __init__(self) -> None:
        super().__init__()
        # turn ids and sessions belong to the whole process
        self.prefix = f"{next(_numbers)}/"
        self.stage = Stage()
        self.world = World()
        self.made = itertools.count(1)
        self.turns: list[str] = []
        self.begun: list[str] = []
        self.events: dict[str, Any] = {}
        self.kill_at: dict[str, float] = {}

    def teardown(self) -> None:
        self.stage.end_all()

    def do(self, op: Op) -> Any:
        self.world, expected = run(self.world, op)
        told = self.stage.do(op)

        assert expected == told, op
        return told

    @rule(which=WHICH, how=BEGINNINGS)
    def begin(self, which: int, how: tuple[str | None, str, bool, bool]) -> None:
        """Begin a turn, in a session or none, inside another one or none."""
        session, policy, inside, framed = how
        session = session and self.prefix + session
        if policy == "wait" and session in self.world.slots:
            return  # one thread would wait for ever
        parents = (self.begun[which % len(self.begun)],) if inside and self.begun else ()
        name = f"{self.prefix}turn{next(self.made)}"
        told = self.do(Op("begin", name, session=session, policy=policy, parents=parents, framed=framed))
        if name in self.world.tokens:
            self.turns.append(name)  # also one that could not begin: it must answer like one that is over
        if told == "begun":
            self.begun.append(name)

    @precondition(lambda self: self.turns)
    @rule(which=WHICH, how=STOPS)
    def stop(self, which: int, how: tuple[str, str, float | None]) -> None:
        """Ask for a stop, by any of the addresses and in any strength."""
        kind, level, grace = how
        names = list(self.world.tokens) if kind in ("cancel", "set") else self.turns
        name = names[which % len(names)]
        op = Op(kind, name, reason=f"request {next(self.made)}", level=level, grace=grace)
        if kind in ("stop_session", "stop_expected"):
            expected = name if kind == "stop_expected" else None
            op = op._replace(kind="stop_session", name=self.prefix + "chat", expected=expected)
        self.do(op)

    @precondition(lambda self: self.turns)
    @rule(which=WHICH, outcome=st.sampled_from(["completed", "failed"]))
    def end(self, which: int, outcome: str) -> None:
        """End a turn, whatever became of it before."""
        name = self.turns[which % len(self.turns)]
        if any(tok.outer == name and not tok.over for tok in self.world.tokens.values()):
            return  # it would spend its grace on a turn inside it that nobody ends
        self.do(Op("end", name, outcome=outcome))

    @precondition(lambda self: self.turns)
    @rule(which=WHICH, several=st.booleans())
    def child(self, which: int, several: bool) -> None:
        """Make a token that follows one or two others."""
        names = list(self.world.tokens)
        parents = {names[(which + i) % len(names)]: None for i in range(2 if several else 1)}
        self.do(Op("child", f"{self.prefix}child{next(self.made)}", parents=tuple(parents)))

    @precondition(lambda self: len(self.turns) < len(self.world.tokens))
    @rule(which=WHICH)
    def close(self, which: int) -> None:
        """Close a child, once or again."""
        names = [name for name, tok in self.world.tokens.items() if not tok.is_turn]
        self.do(Op("close", names[which % len(names)]))

    @precondition(lambda self: len(self.events) < len(self.world.tokens))
    @rule(which=WHICH)
    def ask_for_event(self, which: int) -> None:
        """Ask for a token's public event, at any time of its life."""
        names = list(self.world.tokens)
        name = names[which % len(names)]
        self.events[name] = self.stage.tokens[name].event

    @invariant()
    def nothing_differs(self) -> None:
        """Outcome, record, level and flag are those of the model; the public event shows the trip."""
        for name, tok in self.world.tokens.items():
            assert look(tok) == self.stage.look(name), name
        for name, event in self.events.items():
            assert self.stage.tokens[name].cancelled is event.is_set(), name

    @invariant()
    def grace_is_never_extended(self) -> None:
        """The time at which asking turns into killing only ever comes nearer."""
        for name in self.turns:
            at = self.stage.turns[name].kill_at()
            if at is None:
                continue

            assert at <= self.kill_at.get(name, at), name
            self.kill_at[name] = at


@pytest.fixture(autouse=True, scope="module")
def _few_or_many(request: pytest.FixtureRequest) -> None:
    TestMachine.settings = settings(
        max_examples=2_000 if request.config.getoption("--stress") else 200,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


TestMachine = TokensAndTurns.TestCase
TestMachine.pytestmark = [pytest.mark.timeout(300)]  # to find the shortest failing sequence takes time
