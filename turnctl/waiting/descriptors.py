"""Waiting for descriptors together with the stop: one ``poll`` over both.

The stop rings a descriptor of ours that stands in the same ``poll``. It is made for a wait that really blocks, and
gone when the wait is over.

Invariants
  S1  The bell is hung up, *then* the token is looked at. The bell is cleared, *then* the token is looked at. So a
      stop at any moment either is seen or wakes the ``poll``.
  S2  What is ready is looked at after the stop was, by a ``poll`` that does not block; nothing is ever read here.

May block: until a descriptor, the stop or the time. The time of ``poll`` is that of the machine, whatever clock is in
use.
"""

from __future__ import annotations

import math
import os
import select as _select
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from turnctl import points
from turnctl.errors import BadArgument
from turnctl.tokens.shielding import shielded_until
from turnctl.waiting.parking import end_of, left_until, must_raise
from turnctl.waiting.slices import kind_of
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["READ", "WRITE", "select", "wait_ready"]

READ, WRITE = _select.POLLIN, _select.POLLOUT
_LONGEST_MS = 2**31 - 1
_HIGHEST = 2**31 - 1


def select(
    token: CancelToken | None, fds: Iterable[Any], write: Iterable[Any] = (), timeout: float | str | None = None
) -> list[Any]:
    """Block until one of ``fds`` can be read or one of ``write`` written; those that are ready, in the order given.

    Takes descriptors and objects with ``fileno()``. One that was closed by its other end or has an error is ready,
    as the next read or write says why; one that stands in both comes once, when it is ready for either. An empty
    list when ``timeout`` (seconds or "5s") has passed. Raises ``CancelledError`` as soon as ``token`` trips, also if
    something is ready: nothing has been read. A checkpoint; blocks without polling. Closing a descriptor wakes
    nobody who waits for it.
    """
    ends_at = end_of(timeout)
    things: dict[int, Any] = {}
    masks: dict[int, int] = {}
    for mask, group in ((READ, fds), (WRITE, write)):
        if not isinstance(group, Iterable):
            raise BadArgument(f"select() takes lists of descriptors, not {kind_of(group)}; give [fd], or () for none")
        for thing in group:
            fd = _fileno(thing)
            things.setdefault(fd, thing)
            masks[fd] = masks.get(fd, 0) | mask
    if not masks and ends_at is None:
        raise BadArgument("select() was given nothing to wait for and no timeout; give a descriptor, or use sleep()")
    _refuse_unopened(masks)
    ready = wait_ready(token, masks, ends_at)
    return [things[fd] for fd in things if fd in ready]


def _fileno(thing: Any) -> int:
    fd = thing if isinstance(thing, int) else getattr(thing, "fileno", lambda: None)()
    if not isinstance(fd, int) or isinstance(thing, bool):
        raise BadArgument(f"select() takes descriptors and objects with a fileno(), not {kind_of(thing)}")
    if fd < 0:
        raise BadArgument(f"{thing!r} is closed and can never become ready; take it off the list first")
    if fd > _HIGHEST:
        raise BadArgument(f"{thing!r} is no descriptor: there is none above {_HIGHEST}")
    return fd


def _refuse_unopened(masks: dict[int, int]) -> None:
    poller = _select.poll()
    for fd in masks:
        poller.register(fd, 0)
    for fd, mask in poller.poll(0):
        if mask & _select.POLLNVAL:
            raise BadArgument(f"descriptor {fd} is not open and can never become ready; take it off the list first")


def wait_ready(token: CancelToken | None, masks: dict[int, int], ends_at: float | None) -> set[int]:
    """Block until one of the descriptors is ready for its ``READ`` or ``WRITE``; those that are. A checkpoint."""
    poller = _select.poll()
    for fd, mask in masks.items():
        poller.register(fd, mask)
    if token is None:
        return _until_time(poller, ends_at)
    token.check()
    points.reach("waiting.asked")
    ready = _ready(poller, 0)
    if ready or left_until(ends_at) == 0:
        return ready
    wakeup = Wakeup()
    bells = token._grow().bells
    try:
        poller.register(wakeup.fd, READ)
        bells.append(wakeup.ring)  # S1
        return _watch(token, poller, wakeup, ends_at)
    finally:
        if wakeup.ring in bells:
            bells.remove(wakeup.ring)
        wakeup.close()


def _watch(token: CancelToken, poller: _select.poll, wakeup: Wakeup, ends_at: float | None) -> set[int]:
    while True:
        token.check()
        points.reach("waiting.asked")
        ready = _ready(poller, 0) - {wakeup.fd}  # S2
        left = left_until(ends_at)
        if ready or left == 0:
            return ready
        held = left_until(shielded_until(token)) if token.cancelled else None
        limits = [one for one in (left, held) if one is not None]
        _ready(poller, min(limits, default=None))
        points.reach("waiting.woken")
        if not must_raise(token):  # or there is no next round
            wakeup.clear()  # S1


def _until_time(poller: _select.poll, ends_at: float | None) -> set[int]:
    while True:
        left = left_until(ends_at)
        ready = _ready(poller, left)
        if ready or left == 0:
            return ready


def _ready(poller: _select.poll, seconds: float | None) -> set[int]:
    # rounded up: a wait that ends a little early would come back for nothing
    found = poller.poll(None if seconds is None else min(math.ceil(seconds * 1000), _LONGEST_MS))
    for fd, mask in found:
        if mask & _select.POLLNVAL:
            raise OSError(9, f"{os.strerror(9)}: descriptor {fd} was closed while it was waited for")
    return {fd for fd, _ in found}
