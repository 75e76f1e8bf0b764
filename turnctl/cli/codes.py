"""The exit statuses of every command but ``run``, which has those of the command that it runs (``cli.status``)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code"]


class Code(IntEnum):
    """What the status of a command that asks, stops or proves means. Of several turns the highest one counts."""

    #: what was asked is so: the turn runs or is completed; a stop has settled, or was accepted with ``--no-wait``
    OK = 0
    #: it is not so: the turn failed or was lost; a check failed
    NOT_SO = 1
    #: wrong use, or a wrong setting
    USAGE = 2
    #: the turn was over already, or is cancelled and settled
    OVER = 3
    #: there is no such turn, effect or log; or the name fits several
    NO_SUCH = 4
    #: the state directory cannot be used: its owner, its modes, a newer schema; or the authority is missing
    UNUSABLE = 5
    #: the time for waiting has passed, and it still drains
    TIME_PASSED = 6
    #: it has stopped, and the outcome of effects is not known
    UNRESOLVED = 7
    #: a fault of turnctl itself
    BUG = 70
