"""The exit statuses of every command but ``run``, which has those of the command that it runs (``cli.status``)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["MEANINGS", "Code"]


class Code(IntEnum):
    """What the status of a command that asks, stops or proves means. ``MEANINGS`` says it.
    Of several turns the highest one counts."""

    OK = 0
    NOT_SO = 1
    USAGE = 2
    OVER = 3
    NO_SUCH = 4
    UNUSABLE = 5
    TIME_PASSED = 6
    UNRESOLVED = 7
    BUG = 70


#: what each means, for help and documents
MEANINGS = {
    Code.OK: "what was asked is so: the turn runs or is completed; the stop is settled, or was accepted with --no-wait",
    Code.NOT_SO: "it is not so: the turn failed or was lost; a check failed; something is not as it was written",
    Code.USAGE: "wrong use, or a wrong setting",
    Code.OVER: "the turn was over already, or is cancelled and settled",
    Code.NO_SUCH: "there is no such turn, effect or ledger, or the name fits several",
    Code.UNUSABLE: "the state directory cannot be used: its owner, its modes, a newer schema, damage",
    Code.TIME_PASSED: "the time for waiting has passed, and it still drains",
    Code.UNRESOLVED: "it has stopped, and the outcome of effects is not known",
    Code.BUG: "a fault of turnctl itself; turnctl --debug shows where",
}
