"""The whole trial of one program: a run without a stop, then one for each place where it is stopped."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from turnctl.cli.codes import Code
from turnctl.cli.problems import Problem
from turnctl.cli.trials.judging import Stop, judged
from turnctl.cli.trials.places import Delay, chosen_checkpoints, chosen_moments
from turnctl.cli.trials.running import Limits, Seen, run
from turnctl.clock import format_duration
from turnctl.processes.signames import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnctl.cli.trials.places import Place
    from turnctl.turns import Turn

__all__ = ["Asked", "Interrupted", "Trial"]

SCHEMA = "turnctl.trial/1"
_SAID = 300


class Interrupted(Exception):
    """The trial was ended from outside; what it had found by then stands."""


class Asked(NamedTuple):
    """What the command line asked for."""

    argv: tuple[str, ...]
    folder: str | None
    limits: Limits
    most: int
    seed: int
    at: tuple[float, ...]
    setup: str | None
    check: str | None


class Trial:
    """Made once; ``stops`` is gone through once."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.notes: list[str] = []
        self.found: list[Stop] = []
        #: how many places there were
        self.places = 0
        self.is_at_checkpoints = False
        self.lasted_s: float | None = None
        self._chosen: Sequence[Place] = ()
        self._turn: Turn | None = None
        self._is_interrupted = False

    def interrupt(self) -> None:
        """End the run that goes on, with all that it started, and begin no other. From a signal handler."""
        self._is_interrupted = True
        if self._turn is not None:
            self._turn.cancel("turnctl trial", by="interrupted")

    def _begins(self, turn: Turn) -> None:
        self._turn = turn
        if self._is_interrupted:  # it came in between
            turn.cancel("turnctl trial", by="interrupted")

    def look(self) -> None:
        """Run it without a stop, and choose where it is stopped. Raises ``Problem`` where that shows nothing, and
        ``OSError`` where it cannot be started, ``Interrupted``."""
        asked = self._asked
        if asked.at:
            self._chosen = [Delay(one) for one in sorted(set(asked.at))]
            self.places = len(self._chosen)
            return
        seen, broken = self._run(None)
        self._refuse(seen, broken)
        self.lasted_s = round(seen.ended_at - seen.began_at, 4)
        checkpoints = seen.journal.seen
        self.is_at_checkpoints = bool(checkpoints)
        if checkpoints:
            self._chosen, self.places = chosen_checkpoints(checkpoints, asked.most, asked.seed), len(checkpoints)
            if seen.journal.is_too_long:
                self.notes.append("it passes more checkpoints than are remembered: only the first ones are tried")
        else:
            if seen.journal.is_armed:
                self.notes.append("it has turns, and they pass no checkpoint: it is stopped from outside")
            self._chosen = chosen_moments(seen.lines, self.lasted_s, asked.most, asked.seed)
            self.places = max(len(self._chosen), seen.lines + 1)
        if len(self._chosen) < self.places:
            left_out = self.places - len(self._chosen)
            self.notes.append(f"{left_out} of {self.places} places are left out: more than --max-stops {asked.most}")

    def _refuse(self, seen: Seen, broken: str | None) -> None:
        """A program that does not come to a good end by itself has nothing to be compared with."""
        status = None if seen.outcome is None else seen.outcome.returncode
        last = f": {' '.join(seen.tail[-1].split())[:_SAID]}" if seen.tail else ""
        if seen.forced is not None:
            text = f"it had not ended {format_duration(self._asked.limits.timeout_s)} after its start, without any stop"
            hint = "give it an end, more time by --timeout, or say by --at when it is to be stopped"
            raise Problem("endless", text, hint, Code.TIME_PASSED)
        if status != 0:
            how = (
                "ended" if status is None else f"died of {name_of(-status)}" if status < 0 else f"failed with {status}"
            )
            text = f"it {how} without any stop{last}"
            raise Problem("failed", text, "mend that first: a stop could not be told from it", Code.NOT_SO)
        if broken is not None:
            text = f"the check fails without any stop: {broken}"
            raise Problem("broken", text, "mend that first: a stop could not be told from it", Code.NOT_SO)

    @property
    def planned(self) -> int:
        """How many stops there are going to be."""
        return len(self._chosen)

    def stops(self) -> Iterator[Stop]:
        """One run after the other, with what each came to. Raises ``Interrupted``."""
        for n, place in enumerate(self._chosen, 1):
            seen, broken = self._run(place)
            stop = judged(n, place, seen, self._asked.limits, self.is_at_checkpoints, broken)
            if not stop.is_reached and not stop.problems:
                self.notes.append(f"not reached again: {place}")
            self.found.append(stop)
            yield stop

    def _run(self, place: Place | None) -> tuple[Seen, str | None]:
        asked = self._asked
        if self._is_interrupted:
            raise Interrupted
        said = None if asked.setup is None else _shell(asked.setup, asked)
        if said is not None and not self._is_interrupted:
            raise Problem("setup", f"--setup: {said}", "each run needs it", Code.NOT_SO)
        seen = run(asked.argv, asked.folder, place, asked.limits, self._begins)
        if self._is_interrupted:
            raise Interrupted
        return seen, None if asked.check is None else _shell(asked.check, asked)

    def as_dict(self) -> dict[str, Any]:
        """As one document, schema ``turnctl.trial/1``."""
        return {
            "schema": SCHEMA,
            "command": list(self._asked.argv),
            "stopped_at": "checkpoints" if self.is_at_checkpoints else "moments",
            "places": self.places,
            "lasted_s": self.lasted_s,
            "seed": self._asked.seed,
            "stops": [one.as_dict() for one in self.found],
            "problems": sum(len(one.problems) for one in self.found),
            "notes": self.notes,
        }


def _shell(command: str, asked: Asked) -> str | None:
    """What a command of the user says where it fails."""
    try:
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=asked.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=asked.limits.timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command} took longer than {format_duration(asked.limits.timeout_s)}"
    if ended.returncode == 0:
        return None
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    said = f": {' '.join(lines[-1].split())[:_SAID]}" if lines else ""
    return f"{command} failed with {ended.returncode}{said}"
