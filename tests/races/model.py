"""What tokens, turns and sessions must do: a model in plain values that the product is held against.

Written from ``docs/guarantees.md`` and not from the code. A world is a value; an operation takes it through one or
more steps, each of which is atomic. Most operations have one step. Those that the tables show as a sequence have
more, because others may come in between: an end decides, then ends what is left, then is over; a displacement
trips, retires, frees the slot and takes it. ``run`` takes all steps at once, for one thread; ``checker`` looks for an
interleaving of the steps of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

LEVELS = {"soft": 1, "cancel": 2, "kill": 3}

#: a request as it is on record: cause and reason
Label = tuple[str, str]


class Tok(NamedTuple):
    """What is true of one token, and of the turn that it belongs to."""

    record: Label | None = None
    level: int = 0
    grace: float | None = None
    outcome: str | None = None
    follows: tuple[str, ...] = ()
    is_turn: bool = False
    session: str | None = None
    outer: str | None = None  # the turn whose frame it was begun in
    framed: bool = True  # held by a ``with``
    gate: bool = False  # somebody is ending it
    ending: bool = False  # decided by its own end, and what it owned is being ended
    listed: bool = True  # a stop by turn id finds it
    over: bool = False


class Answer(NamedTuple):
    kind: str
    record: Label | None = None
    outcome: str | None = None
    why: str | None = None


class Op(NamedTuple):
    """One operation; ``name`` is the token, turn or session that it is aimed at."""

    kind: str
    name: str
    reason: str = ""
    cause: str = "user"
    level: str = "cancel"
    grace: float | None = None
    expected: str | None = None
    outcome: str = "completed"
    session: str | None = None
    policy: str = "displace"
    parents: tuple[str, ...] = ()
    framed: bool = True


class Done(NamedTuple):
    """The step was the last one; ``result`` is what the caller is told."""

    result: Any


class World:
    """Every token by name, and which turn holds each session. A value: changes give a new one."""

    __slots__ = ("_key", "slots", "tokens")

    def __init__(self, tokens: dict[str, Tok] | None = None, slots: dict[str, str] | None = None) -> None:
        self.tokens = tokens or {}
        self.slots = slots or {}
        self._key: Any = None

    def having(self, name: str, **changes: Any) -> World:
        tok = self.tokens.get(name, Tok())
        new = tok._replace(**changes)
        return self if new == tok and name in self.tokens else World({**self.tokens, name: new}, self.slots)

    def holding(self, session: str, turn: str | None) -> World:
        if self.slots.get(session) == turn:
            return self
        slots = {name: holder for name, holder in self.slots.items() if name != session}
        if turn is not None:
            slots[session] = turn
        return World(self.tokens, slots)

    def key(self) -> Any:
        if self._key is None:
            self._key = (tuple(sorted(self.tokens.items())), tuple(sorted(self.slots.items())))
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, World) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        return f"World({self.tokens}, {self.slots})"


# -- stops ----------------------------------------------------------------------------------------------------


def _stop(world: World, name: str, op: Op) -> tuple[World, Answer]:
    """A request to the token ``name``: the first one stays on record, later ones only press harder."""
    tok = world.tokens[name]
    if tok.outcome == "superseded":
        return world, Answer("refused", None, "superseded", "retired")
    if tok.outcome is not None:
        return world, Answer("already_ended", tok.record, tok.outcome)
    kind = "already_cancelled" if tok.record else "accepted"
    record = tok.record or (op.cause, op.reason)
    return _press(world, name, record, LEVELS[op.level], op.grace), Answer(kind, record)


def _press(world: World, name: str, record: Label, level: int, grace: float | None) -> World:
    """Nothing falls: a level only rises, a grace only shrinks, the record stays."""
    tok = world.tokens[name]
    if tok.outcome is not None:
        return world
    given = [g for g in (tok.grace, grace) if g is not None]
    return world.having(name, record=tok.record or record, level=max(tok.level, level), grace=min(given, default=None))


def _push(world: World, name: str) -> World:
    """A stop reaches what follows the token, with cause ``parent`` and its own reason, and what follows that."""
    tok = world.tokens[name]
    if tok.record is None:
        return world
    for kid in list(world.tokens):
        if name in world.tokens[kid].follows:
            world = _push(_press(world, kid, ("parent", tok.record[1]), tok.level, tok.grace), kid)
    return world


def _told(world: World, name: str, result: Any) -> tuple[World, Any]:
    """Before it is answered, a request sees to it that the stop has reached what follows: one more step."""
    if any(name in tok.follows for tok in world.tokens.values()):
        return world, ("push", name, result)
    return world, Done(result)


def _stop_turn(world: World, name: str, op: Op) -> tuple[World, Answer]:
    """The same, asked of the turn: one that was displaced and still drains is already cancelled."""
    tok = world.tokens[name]
    if tok.outcome == "cancelled" and not tok.ending and not tok.over:
        return world, Answer("already_cancelled", tok.record)
    return _stop(world, name, op)


def _cancel(world: World, op: Op, pc: Any) -> Steps:
    world, answer = _stop(world, op.name, op)
    yield _told(world, op.name, answer)


def _set(world: World, op: Op, pc: Any) -> Steps:
    if world.tokens[op.name].outcome is not None:
        yield world, Done(None)  # nothing is told, so nothing has to be shown before
        return
    world, _ = _stop(world, op.name, op._replace(cause="event", reason="event set", level="cancel", grace=None))
    yield _told(world, op.name, None)


def _stop_by_turn(world: World, op: Op, pc: Any) -> Steps:
    world, answer = _stop_turn(world, op.name, op)
    yield _told(world, op.name, answer)


def _stop_by_id(world: World, op: Op, pc: Any) -> Steps:
    if pc != 0:
        yield from _stop_by_turn(world, op._replace(name=pc[1]), pc)
    elif op.name not in world.tokens or not world.tokens[op.name].listed:
        yield world, Done(Answer("refused", why="no_turn"))
    else:
        yield world, ("found", op.name)


def _stop_by_session(world: World, op: Op, pc: Any) -> Steps:
    holder = world.slots.get(op.name)
    if pc != 0:
        yield from _stop_by_turn(world, op._replace(name=pc[1]), pc)
    elif holder is None:
        yield world, Done(Answer("refused", why="no_turn"))
    elif op.expected is not None and holder != op.expected:
        yield world, Done(Answer("refused", why="retired"))
    else:
        yield world, ("found", holder)


# -- ends -----------------------------------------------------------------------------------------------------


def _decide(world: World, name: str, proposed: str) -> tuple[World, bool]:
    """Decide and retire in one step; whether this call did it."""
    tok = world.tokens[name]
    if tok.outcome is not None:
        return world, False
    return world.having(name, outcome="cancelled" if tok.record else proposed, follows=()), True


def _end(world: World, op: Op, pc: Any) -> Steps:
    tok = world.tokens[op.name]
    if pc == 0:
        if tok.over:
            yield world, Done(False)
        elif not tok.gate:  # else it waits until the other end is over
            yield world.having(op.name, gate=True), "decide"
    elif pc == "decide":
        world, won = _decide(world, op.name, op.outcome)
        yield world, ("rest", won)
    elif pc[0] == "rest":
        world = _push(world, op.name)
        yield world.having(op.name, ending=True), ("leave", pc[1])
    else:
        yield _leave(world, op.name, pc)


def _leave(world: World, name: str, pc: Any) -> tuple[World, Any]:
    """Give up the id, then the session, then be over; a stop may come in between."""
    step, result = pc
    if step == "leave":
        return world.having(name, listed=False), ("free", result)
    if step == "free":
        session = world.tokens[name].session
        if session is not None and world.slots.get(session) == name:
            world = world.holding(session, None)
        return world, ("over", result)
    return world.having(name, over=True), Done(result)


def _close(world: World, op: Op, pc: Any) -> Steps:
    world, won = _decide(world, op.name, "completed")
    yield world, Done(won)


# -- beginnings -----------------------------------------------------------------------------------------------


def _child(world: World, op: Op, pc: Any) -> Steps:
    """Born tripped if a parent is; refused where nothing could ever stop it."""
    parents = [world.tokens[p] for p in op.parents]
    if any(p.outcome is not None and p.record is None for p in parents):
        yield world, Done("over")
        return
    world = world.having(op.name, follows=tuple(op.parents))
    for parent in parents:
        if parent.record is not None:
            world = _press(world, op.name, ("parent", parent.record[1]), parent.level, parent.grace)
    yield world, Done("born")


def _begin(world: World, op: Op, pc: Any) -> Steps:
    name, session = op.name, op.session
    if pc == 0:
        outer = op.parents[0] if op.parents else None
        while outer is not None and world.tokens[outer].over:
            outer = world.tokens[outer].outer
        while outer is not None and session is not None:
            enclosing = world.tokens[outer]
            if enclosing.session != session or enclosing.framed:
                break
            outer = enclosing.outer  # left behind without a ``with``: it is there to be displaced
        holder = outer
        while holder is not None and session is not None:
            if world.tokens[holder].session == session:
                yield world, Done(("busy", holder))
                return
            holder = world.tokens[holder].outer
        world = world.having(name, is_turn=True, session=session, outer=outer, framed=op.framed)
        if outer is not None:
            parent = world.tokens[outer]
            if parent.outcome is not None:
                yield world, ("undo", "over")
                return
            world = world.having(name, follows=(outer,))
            if parent.record is not None:
                world = _press(world, name, ("parent", parent.record[1]), parent.level, parent.grace)
        yield world, "claim"
    elif pc == "claim":
        holder = None if session is None else world.slots.get(session)
        if holder is None:
            yield (world if session is None else world.holding(session, name)), Done("begun")
        elif op.policy == "refuse":
            yield world, ("undo", ("busy", holder))
        elif op.policy == "wait" or (op.policy == "retire" and world.tokens[holder].ending):
            return  # not before the slot is free
        else:
            yield world, (op.policy, holder)
    elif pc[0] == "undo":
        world, _ = _decide(world, name, "failed")
        yield world, ("leave", pc[1])
    elif pc[0] in ("leave", "free", "over"):
        yield _leave(world, name, pc)
    elif pc[0] == "displace":
        world, _ = _stop(world, pc[1], Op("cancel", pc[1], reason=f"displaced by turn {name}", cause="displaced"))
        yield world, ("displaced", pc[1])
    elif pc[0] in ("retire", "displaced"):
        world = _push(world, pc[1])
        world, _ = _decide(world, pc[1], "superseded" if pc[0] == "retire" else "cancelled")
        yield world, ("vacate", pc[1])
    else:
        assert session is not None
        yield (world.holding(session, None) if world.slots.get(session) == pc[1] else world), "claim"


# -- looks ----------------------------------------------------------------------------------------------------


def _outcome(world: World, op: Op, pc: Any) -> Steps:
    yield world, Done(world.tokens[op.name].outcome)


def _record(world: World, op: Op, pc: Any) -> Steps:
    yield world, Done(world.tokens[op.name].record)


def _look(world: World, op: Op, pc: Any) -> Steps:
    """Everything at once; only when nothing else goes on."""
    tok = world.tokens.get(op.name)
    yield world, Done(None if tok is None else look(tok))


def look(tok: Tok) -> tuple[str | None, Label | None, int, bool, bool]:
    """Outcome, record, level, whether it is tripped, whether its turn is over."""
    return tok.outcome, tok.record, tok.level, tok.level >= LEVELS["cancel"], tok.over


Steps = Iterable[tuple[World, Any]]

_STEPS: dict[str, Callable[[World, Op, Any], Steps]] = {
    "begin": _begin,
    "cancel": _cancel,
    "child": _child,
    "close": _close,
    "end": _end,
    "look": _look,
    "outcome": _outcome,
    "record": _record,
    "set": _set,
    "stop_id": _stop_by_id,
    "stop_session": _stop_by_session,
    "stop_turn": _stop_by_turn,
}


def advance(world: World, op: Op, pc: Any) -> list[tuple[World, Any]]:
    """Each way in which ``op`` can take its next step; ``pc`` is 0 at its start. None: it has to wait."""
    if isinstance(pc, tuple) and pc[0] == "push":
        return [(_push(world, pc[1]), Done(pc[2]))]
    return list(_STEPS[op.kind](world, op, pc))


def run(world: World, op: Op) -> tuple[World, Any]:
    """All of ``op`` with nobody else about: the world after it and what the caller is told."""
    pc: Any = 0
    while not isinstance(pc, Done):
        (world, pc), *others = advance(world, op, pc) or [(world, Done("would wait"))]
        assert not others
    return world, pc.result
