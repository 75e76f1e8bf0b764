"""Keeping what a command writes in what outlives this process, where its turn works on a task that does.

It is kept as soon as it is read from the pipe, before anybody else has it, so that a slow reader is nothing to it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from turnctl.processes.tapping import STREAMS
from turnctl.tokens.ruled import Keeper, keeper_for

if TYPE_CHECKING:
    from turnctl.processes.capture import Cut
    from turnctl.processes.output import Sink
    from turnctl.processes.spec import Spec
    from turnctl.tokens.activities import Owner

__all__ = ["recorded"]


class _Recorded:
    """A sink whose bytes are kept as well."""

    __slots__ = ("_inner", "_keeper")

    def __init__(self, inner: Sink, keeper: Keeper) -> None:
        self._inner = inner
        self._keeper = keeper

    @property
    def is_full(self) -> bool:
        return self._inner.is_full

    @property
    def is_gone(self) -> bool:
        return self._inner.is_gone

    @property
    def cut(self) -> Cut | None:
        return self._inner.cut

    def feed(self, data: bytes) -> None:
        self._keeper.write(data)
        self._inner.feed(data)

    def finish(self) -> None:
        self._keeper.finish()
        self._inner.finish()


def recorded(owner: Owner, spec: Spec, sinks: Sequence[Sink | None]) -> list[Sink | None]:
    """The sinks of stdout and stderr, each kept by the name of its stream; as they are where nobody keeps them."""
    found = list(sinks)
    for at, (name, sink) in enumerate(zip(STREAMS, sinks, strict=True)):
        keeper = None if sink is None else keeper_for(owner, _name(spec, name), os.path.basename(spec.argv[0]))
        if sink is not None and keeper is not None:
            found[at] = _Recorded(sink, keeper)
    return found


def _name(spec: Spec, name: str) -> str:
    """What comes on one pipe is told as what it is."""
    return "stdout+stderr" if name == "stdout" and spec.stderr == "stdout" else name
