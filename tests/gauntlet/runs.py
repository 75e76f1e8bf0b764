"""One run of the gauntlet: a kind under a supervisor, stopped in a mode, and who is left of it.

Modes: ``own`` is the supervisor's own limit of time, or where it has none TERM and, after the grace, KILL to it;
``term``, ``int`` and ``kill`` are one such signal to the supervisor, and nothing more.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from typing import NamedTuple

from census import Census
from kinds import KINDS, MOVING_S, Kind, Maker
from launch import clean_environment
from supervisors import ALL, GRACE_S, Interpreter

MODES = ("own", "term", "int", "kill")
#: the time after which nothing may be left. A supervisor that was killed leaves a grace of one second.
LEFT_S = 1.0 + 2.0
#: the own limit of time, and the one that is never reached
LIMIT_S, NEVER_S = 1.5, 50.0
_SIGNALS = {"term": signal.SIGTERM, "int": signal.SIGINT, "kill": signal.SIGKILL}
_STANDS_S, _ALL_SEEN_S = 20.0, 5.0
_LOOK_S = 0.05
_OWN = Interpreter()


class Result(NamedTuple):
    """Of one run: who stood before, who was left; ``seconds`` is from the stop until nobody was, or to the count.

    With an ``error`` it did not start, or was not counted: then nothing is known of it, least of all that it is clean.
    """

    kind: str
    supervisor: str
    mode: str
    stood: int = 0
    survivors: int = 0
    zombies: int = 0
    helpers: int = 0
    is_running: bool = False
    seconds: float = 0.0
    error: str = ""

    @property
    def is_clean(self) -> bool:
        return not (self.survivors or self.zombies or self.helpers or self.is_running or self.error)

    def __str__(self) -> str:
        what = f"{self.supervisor} / {self.kind} / {self.mode}: "
        if self.error:
            return what + self.error
        told = [f"{self.stood} stood", f"{self.survivors} left", f"{self.zombies} zombies", f"{self.helpers} helpers"]
        return what + ", ".join(told) + (", the supervisor still runs" if self.is_running else "")


def run(
    maker: Maker,
    kind: str,
    supervisor: str,
    mode: str,
    *,
    uid: int | None = None,
    python: Interpreter = _OWN,
    left_s: float = LEFT_S,
) -> Result:
    """Have it stand, stop it, count, and end what is left. Raises ``Missing`` if this machine lacks what it needs."""
    limit = LIMIT_S if mode == "own" else NEVER_S
    for _ in range(3):
        tag = f"60.{random.randrange(10**8, 10**9)}"
        census = Census(tag)
        argv = ALL[supervisor].argv(python, limit, maker.command(kind, tag, python.program))
        user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=clean_environment(),
            **user,
        ) as process:
            try:
                error, stood = _await_standing(process, census, KINDS[kind])
                if not error:
                    return _stop_and_count(process, census, Result(kind, supervisor, mode, stood), limit, left_s)
            finally:
                _clean_up(process, census)
        if mode != "own":
            break
        limit *= 3  # a busy machine: it was ended before it stood
    return Result(kind, supervisor, mode, error=error)


def _await_standing(process: subprocess.Popen[bytes], census: Census, kind: Kind) -> tuple[str, int]:
    """Wait until the kind has said that it is ready and all of it is seen; what went wrong, and how many there are."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], _STANDS_S)[0]:
        return "it never was ready", 0
    if not os.read(process.stdout.fileno(), 4096):
        return f"it was over before it was ready (status {process.wait()})", 0
    give_up_at = time.monotonic() + _ALL_SEEN_S
    while True:
        is_over = process.poll() is not None  # one that ends by itself may be
        living, _ = census.look(but=process.pid)
        census.look_above()
        if len(living) >= kind.least or is_over:
            return "", len(living)
        if time.monotonic() > give_up_at:
            # of pids that change not all are seen
            return "" if kind.is_moving else f"only {len(living)} of its {kind.least} processes ever stood", len(living)
        time.sleep(0.01)


def _stop_and_count(
    process: subprocess.Popen[bytes], census: Census, result: Result, limit: float, left_s: float
) -> Result:
    supervisor, mode = ALL[result.supervisor], result.mode
    begun = time.monotonic()
    count_at = begun + left_s
    if mode != "own":
        if process.poll() is None:
            process.send_signal(_SIGNALS[mode])
    elif supervisor.has_limit:
        count_at += limit
    else:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    if KINDS[result.kind].is_moving:
        # nobody can say that it is gone before it has come to rest
        count_at = max(count_at, begun + MOVING_S + 1.0)
    quiet = 0
    while True:
        living, zombies = census.look(but=process.pid)
        helpers = census.helpers_left()
        is_running = process.poll() is None
        now = time.monotonic()
        if now >= count_at:
            break
        quiet = 0 if living or zombies or helpers or is_running else quiet + 1
        if quiet >= 4 and not KINDS[result.kind].is_moving:
            break
        time.sleep(_LOOK_S)
    return result._replace(
        survivors=len(living),
        zombies=len(zombies),
        helpers=len(helpers),
        is_running=is_running,
        seconds=now - begun,
    )


def _clean_up(process: subprocess.Popen[bytes], census: Census) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    census.end_all(but=process.pid)
    for pid, _ in census.seen:  # a sister of the command may be our own child
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    if process.stdout is not None:
        process.stdout.close()
