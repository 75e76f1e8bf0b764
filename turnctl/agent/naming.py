"""Ids that are not taken yet, and such that a provider takes them.

Pure: the same id gives the same one wherever it stands, so that a result finds its call. What is kept is never renamed;
this is for what is sent, and for what ``close_calls`` gives.
"""

from __future__ import annotations

import hashlib

__all__ = ["LONGEST_ID", "fresh", "is_too_long", "short"]

#: characters that the id of a call may have on each wire. OpenAI's refuse more; of Anthropic's the strictest host does.
LONGEST_ID = {"openai": 40, "anthropic": 64, "responses": 64}
#: litellm puts what Gemini wants back into the id of a call, behind this; it takes it away for everybody else
_SIGNED = "__thought__"


def is_too_long(call_id: str, longest: int, *, signed: bool = True) -> bool:
    """Whether it has more characters; one that has a signature in it is as long as it has to be, if ``signed``."""
    return len(call_id) > longest and not (signed and _SIGNED in call_id)


def short(call_id: str, longest: int, *, signed: bool = True) -> str:
    """``call_id``, or one of 37 characters that is made of it where it is too long."""
    if not is_too_long(call_id, longest, signed=signed):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def fresh(wanted: str, taken: set[str], longest: int | None = None) -> str:
    """``wanted``, or the first of ``wanted-2``, ``wanted-3`` and so on that is not taken; it is taken from then on.

    One with a number is cut so that it has no more than ``longest`` characters.
    """
    found, n = wanted, 2
    while found in taken:
        end = f"-{n}"
        found, n = f"{wanted if longest is None else wanted[: longest - len(end)]}{end}", n + 1
    taken.add(found)
    return found
