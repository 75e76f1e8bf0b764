"""What is to hold a command: the words for it, how a choice is read, and what is tried in which order.

A command is never held by less than was asked for in silence: a level that was named, or required, is refused where it
is not to be had. ``auto`` is the strongest that changes nothing for the command (docs/adr/0007).
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple, get_args

from turnctl.errors import BadArgument
from turnctl.records.process import STRENGTHS, Holder

__all__ = ["SWITCH", "Choice", "Require", "Wish", "read_wish"]

Choice = Literal["auto", "namespace", "cgroup", "warden", "group"]
Require = Literal["atomic", "complete"]

#: the environment variable for what is chosen where a call says nothing
SWITCH = "TURNCTL_CONTAINMENT"
#: weakest first; what satisfies a requirement satisfies those before it
_ORDER = ("best-effort", "complete", "atomic")
#: what ``auto`` tries in turn, by what is required. A control group changes less for the command than a namespace
_AUTO: dict[Require | None, tuple[Holder, ...]] = {
    None: ("warden", "group"),
    "complete": ("warden",),
    "atomic": ("cgroup", "namespace"),
}


class Wish(NamedTuple):
    """What was chosen, what is required, and in which words it was chosen."""

    choice: Choice = "auto"
    require: Require | None = None
    by: str = ""

    @property
    def holders(self) -> tuple[Holder, ...]:
        """What is tried in turn; empty where the choice does not satisfy the requirement."""
        if self.choice == "auto":
            return _AUTO[self.require]
        if self.require is not None and _ORDER.index(STRENGTHS[self.choice]) < _ORDER.index(self.require):
            return ()
        return (self.choice,)


def read_wish(containment: Choice | None, require: Require | None) -> Wish:
    """Check what a call says, and ask the environment where it says nothing. Raises ``BadArgument``."""
    if require not in (None, *get_args(Require)):
        raise BadArgument(f"unknown require {require!r}; use atomic or complete, or leave it out")
    if containment is None:
        from_environment = os.environ.get(SWITCH) or "auto"
        return Wish(_checked(from_environment, SWITCH), require, f"{SWITCH}={from_environment}")
    return Wish(_checked(containment, "containment"), require, f"containment={containment!r}")


def _checked(choice: object, what: str) -> Choice:
    for known in get_args(Choice):
        if choice == known:
            return known  # type: ignore[no-any-return]
    raise BadArgument(f"unknown {what} {choice!r}; use one of {', '.join(get_args(Choice))}")
