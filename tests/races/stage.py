"""The product, driven by the operations of ``model``, with results in the model's form."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

from model import LEVELS, Answer, Label, Op

import turnctl
from turnctl.tokens.current import bound
from turnctl.tokens.session import stop
from turnctl.tokens.token import CancelToken


class Stage:
    """The tokens and turns of one history by name; thread-safe as far as the product is."""

    def __init__(self) -> None:
        self.tokens: dict[str, CancelToken] = {}
        self.turns: dict[str, turnctl.Turn] = {}
        self._do: dict[str, Callable[[Op], Any]] = {
            "begin": self._begin,
            "cancel": lambda op: answer_of(self.tokens[op.name].cancel(op.reason, **_how(op))),
            "child": self._child,
            "close": lambda op: self.tokens[op.name].close(),
            "end": lambda op: turnctl.end_turn(self.tokens[op.name], op.outcome),
            "look": lambda op: self.look(op.name),
            "outcome": lambda op: self.tokens[op.name].outcome,
            "record": lambda op: label_of(self.tokens[op.name].record),
            "set": lambda op: self.tokens[op.name].event.set(),
            "stop_id": lambda op: answer_of(stop(turn_id=op.name, **_asked(op))),
            "stop_session": lambda op: answer_of(stop(op.name, expected_turn=op.expected, **_asked(op))),
            "stop_turn": lambda op: answer_of(self.turns[op.name].cancel(op.reason, **_how(op))),
        }

    def do(self, op: Op) -> Any:
        """Carry ``op`` out and return what the caller was told, as the model would say it."""
        return self._do[op.kind](op)

    def _begin(self, op: Op) -> Any:
        made = turnctl.turn(op.session, turn_id=op.name, on_busy=op.policy, grace=9)

        def begin() -> None:
            for parent in op.parents:
                bound.set(self.tokens[parent])
            if op.framed:
                made.__enter__()
            else:
                made.begin()

        try:
            Context().run(begin)
            return "begun"
        except turnctl.SessionBusy as error:
            return "busy", error.turn_id
        except turnctl.TurnOver:
            return "over"
        finally:
            if made._token is not None:
                self.turns[op.name], self.tokens[op.name] = made, made.token

    def _child(self, op: Op) -> Any:
        parents = [self.tokens[p] for p in op.parents]
        try:
            kid = parents[0].child() if len(parents) == 1 else CancelToken.any_of(*parents)
        except turnctl.TurnOver:
            return "over"
        self.tokens[op.name] = kid
        return "born"

    def look(self, name: str) -> Any:
        """What ``model.look`` says of a token."""
        token = self.tokens.get(name)
        if token is None:
            return None
        turn = self.turns.get(name)
        level = token.level
        return (
            token.outcome,
            label_of(token.record),
            0 if level is None else LEVELS[level],
            token.cancelled,
            turn is not None and turn.is_over,
        )

    def end_all(self) -> None:
        """End every turn, newest first, and close every token, so that nothing is left."""
        for name, token in reversed(list(self.tokens.items())):
            if name in self.turns:
                turnctl.end_turn(self.turns[name])
            else:
                token.close()


def _how(op: Op) -> dict[str, Any]:
    return {"cause": op.cause, "level": op.level, "grace": op.grace}


def _asked(op: Op) -> dict[str, Any]:
    return {
        "reason": op.reason,
        "cause": op.cause,
        "soft": op.level == "soft",
        "kill": op.level == "kill",
        "grace": op.grace,
    }


def label_of(record: turnctl.StopRecord | None) -> Label | None:
    """A record as the model names it. A stop that came through a parent carries the reason of the first one."""
    return None if record is None else (record.cause, record.reason or "")


def answer_of(answer: turnctl.StopAnswer | turnctl.StopResult) -> Answer:
    """An answer as the model gives it."""
    assert isinstance(answer, turnctl.StopAnswer)
    return Answer(answer.kind, label_of(answer.record), answer.outcome, answer.why)
