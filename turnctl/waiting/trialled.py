"""A program that ``turnctl trial`` runs: it tells of each checkpoint of its turns, and stops itself at one of them.

Armed by the environment variable ``TURNCTL_TRIAL`` alone, which is taken out of the environment by the first process
that has a turn, so that what this one starts is not armed. Its value names a pipe to tell by, a file by whose making
that process is the first, and the checkpoint at which a stop is made, if one is. A checkpoint is known by its place and
by the how manieth arrival there it is, as in ``turnctl.testing.stop_everywhere``; the stop is made on the thread that
is at it, before it raises.

A program is never harmed by what goes wrong here: a pipe that cannot be written to is not written to.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from turnctl import log
from turnctl.tokens.reporting import report_of
from turnctl.tokens.sites import in_words, site_of
from turnctl.tokens.swallowing import swallowed
from turnctl.tokens.token import TurnToken
from turnctl.tokens.tracing import add_tracer
from turnctl.tokens.turn import TurnCore

__all__ = ["VARIABLE", "arm"]

VARIABLE = "TURNCTL_TRIAL"
#: a line of this length is written in one piece
_LONGEST = 4096
#: what a slow reader is waited for, with what has to arrive
_WAIT_S = 1.0
_MOST = 3


def arm() -> None:
    """Have the turns of this process tell of themselves, if the environment asks for it."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return
    try:
        asked = json.loads(text)
        os.close(os.open(asked["claim"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        pipe = os.open(asked["pipe"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileExistsError:
        return  # another process of the same trial was first
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("trial.not_armed", error=str(error))
        return
    trial = _Trial(pipe, None if asked.get("stop") is None else tuple(asked["stop"]))
    begin, leave = TurnCore.begin, TurnCore._leave

    def begins(self: TurnCore) -> TurnToken:
        token = begin(self)
        trial.begun(self)
        return token

    def leaves(self: TurnCore) -> None:
        leave(self)
        trial.over(self)

    # nothing is paid for this where no trial is made
    TurnCore.begin = begins  # type: ignore[method-assign]
    TurnCore._leave = leaves  # type: ignore[method-assign]


class _Trial:
    """One run of the program."""

    def __init__(self, pipe: int, stop_at: tuple[str, int, str, int] | None) -> None:
        self._pipe = pipe
        self._stop_at = stop_at
        self._process = os.getpid()
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._lock = threading.Lock()
        self._turns: set[str] = set()

    def begun(self, turn: TurnCore) -> None:
        """Listen to it, unless it is below one that is listened to."""
        if os.getpid() == self._process and (turn._outer is None or not turn._inherit):
            self._turns.add(turn.turn_id)
            add_tracer(turn.token, lambda _: self._at_checkpoint(turn))
            self._tell(True, kind="begun", turn=turn.turn_id)

    def _at_checkpoint(self, turn: TurnCore) -> None:
        place = site_of(sys._getframe(1))
        if place is None or os.getpid() != self._process:
            return  # a thread of turnctl's own; a forked child
        with self._lock:
            self._counts[place] += 1
            here = (*place, self._counts[place])
        is_due = here == self._stop_at
        self._tell(is_due, kind="stopped" if is_due else "at", at=here, turn=turn.turn_id, t=time.monotonic())
        if is_due:
            turn.cancel("turnctl trial", by=f"turnctl trial at {in_words(place)}")

    def over(self, turn: TurnCore) -> None:
        """Tell what became of it."""
        if turn.turn_id not in self._turns or os.getpid() != self._process:
            return
        self._turns.discard(turn.turn_id)
        at = time.monotonic()
        report = report_of(turn)
        found = [
            {"raised_at": in_words(one.raised_at), "next_at": in_words(one.next_at), "by": by and in_words(by)}
            for one, by in swallowed(turn.token)[:_MOST]
        ]
        self._tell(
            True,
            kind="over",
            turn=turn.turn_id,
            t=at,
            outcome=report.outcome,
            alive=[str(one)[:200] for one in report.alive[:_MOST]],
            unresolved=report.effects_unresolved,
            swallowed=found,
        )

    def _tell(self, must: bool, **values: Any) -> None:
        data = json.dumps(values).encode() + b"\n"
        if len(data) > _LONGEST:
            return
        until = time.monotonic() + _WAIT_S
        with suppress(OSError):
            while True:
                try:
                    os.write(self._pipe, data)
                    return
                except BlockingIOError:
                    if not must or time.monotonic() > until:
                        return  # whoever tries it is slow: one arrival is not known to it
                    time.sleep(0.001)
