"""From the options that concern output to the sinks of a command; all of them checked before anything is started."""

from __future__ import annotations

from collections.abc import Sequence

from turnctl.errors import BadArgument
from turnctl.processes.output import Sink
from turnctl.processes.sizes import parse_size
from turnctl.processes.spec import Spec, Stream
from turnctl.processes.targets import One, TeeTo, make_targets, read_tee
from turnctl.processes.tee import Tee, Teed
from turnctl.processes.text import Coding

__all__ = ["STREAMS", "Tap"]

STREAMS = ("stdout", "stderr")


class Tap:
    """What is to become of stdout and stderr: kept, handed on, both or neither."""

    def __init__(
        self,
        *,
        capture: bool,
        stdout: Stream,
        stderr: Stream,
        max_output: int | str | None,
        tee: TeeTo | Tee | None,
        tee_lines: bool,
        tee_backpressure: bool,
    ) -> None:
        """Raises ``BadArgument`` or ``TypeError``; opens nothing."""
        self.max_output = parse_size(max_output, what="max_output")
        self._ready = tee if isinstance(tee, Tee) else None
        self._chosen: dict[str, One] = {} if isinstance(tee, Tee) else read_tee(tee)
        self._names = set(self._chosen) if self._ready is None else set(self._ready.lanes)
        self._lines = tee_lines
        self._backpressure = tee_backpressure
        if tee is None and (tee_lines or tee_backpressure):
            raise BadArgument(
                "tee_lines and tee_backpressure say how output is handed on; tee says to whom, and is missing"
            )
        self._kept = {name for name, given in (("stdout", stdout), ("stderr", stderr)) if capture or given is not None}

    def default(self, name: str) -> str:
        """What the stream is connected to where nothing is said of it."""
        return "pipe" if name in self._kept or name in self._names else "inherit"

    def check(self, spec: Spec) -> None:
        """Raise ``BadArgument`` for an option that has nothing to work on."""
        piped = {name for name in STREAMS if getattr(spec, name) == "pipe"}
        if self._names and not self._names & piped:
            raise BadArgument("tee has nothing to hand on: the streams that it names go elsewhere or to each other")
        if self.max_output is not None and not self._kept & piped:
            raise BadArgument("max_output has nothing to limit: no stream is captured")
        if spec.idle_s is not None and not piped:
            raise BadArgument(
                "idle_timeout has no output to watch: no stream is captured; use capture=True, or hand it on with tee"
            )

    def keeps(self, spec: Spec, name: str) -> bool:
        """Whether the stream is to be kept, or read through the handle."""
        return name in self._kept and getattr(spec, name) == "pipe"

    def make(
        self, spec: Spec, coding: Coding | None, kept: Sequence[Sink | None]
    ) -> tuple[list[Sink | None], Tee | None]:
        """The sinks to read stdout and stderr into, around what is kept of them, and the tee.

        Opens files; raises ``OSError``.
        """
        piped = [name for name in STREAMS if getattr(spec, name) == "pipe"]
        tee = self._ready
        if tee is None and self._chosen:
            targets = make_targets({name: one for name, one in self._chosen.items() if name in piped})
            tee = Tee(targets, lines=self._lines, coding=_lenient(coding), backpressure=self._backpressure)
        sinks = list(kept)
        if tee is not None:
            for at, name in enumerate(STREAMS):
                if name in piped and name in tee.lanes:
                    sinks[at] = Teed(kept[at], tee.lanes[name])
        return sinks, tee


def _lenient(coding: Coding | None) -> Coding:
    """To show output is no reason to fail at a byte that is no character, unless that was asked for by name."""
    if coding is None:
        return Coding(errors="replace")
    return coding if coding.errors != "strict" else Coding(coding.encoding, "replace")
