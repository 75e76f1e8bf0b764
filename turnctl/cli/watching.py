"""A list of turns that is shown again and again: drawn anew on a terminal, and as what has changed elsewhere.

Without rich, so that it is there wherever turnctl is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from turnctl.cli.opened import opened
from turnctl.cli.stdout import is_terminal, put

if TYPE_CHECKING:
    from turnctl.ledger.glance import Glance

__all__ = ["watch_list"]

Found = Sequence[tuple[str, "Glance"]]


class Shows(Protocol):
    """How turns are written."""

    @property
    def is_table(self) -> bool: ...

    def put(self, found: Found, *, has_header: bool = True) -> None: ...

    def table(self, found: Found) -> list[str]: ...


def watch_list(shows: Shows, look: Callable[[], Found], state_dir: str | None, seconds: float) -> NoReturn:
    """Look again and again, until a signal ends this or nobody reads any more. What it shows stays where it is."""
    if shows.is_table and is_terminal() and os.environ.get("TERM", "dumb") not in ("", "dumb"):
        _draw(shows, look, seconds)
    _tell(shows, look, state_dir, seconds)


def _draw(shows: Shows, look: Callable[[], Found], seconds: float) -> NoReturn:
    put("\x1b[2J")
    while True:
        lines = shows.table(look())
        most = os.get_terminal_size(1).lines - 1  # the cursor stands in the last one
        if most > 1 and len(lines) > most:
            lines = [*lines[: most - 1], f"and {len(lines) - most + 1} more turns"]
        # without wrapping: the terminal cuts what is too wide for it
        put("\x1b[?7l\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J\x1b[?7h")
        time.sleep(seconds)


def _tell(shows: Shows, look: Callable[[], Found], state_dir: str | None, seconds: float) -> NoReturn:
    """All that there is, then each turn that is new, or another, or no longer in the list: that one as it is now."""
    last: dict[str, Glance] = {}
    is_first = True
    while True:
        found = {one.turn_id: (name, one) for name, one in look()}
        changed = [found[turn_id] for turn_id in found if last.get(turn_id) != found[turn_id][1]]
        changed += _gone([turn_id for turn_id in last if turn_id not in found], state_dir)
        if changed or is_first:
            shows.put(changed, has_header=is_first)
        last, is_first = {turn_id: one for turn_id, (_, one) in found.items()}, False
        time.sleep(seconds)


def _gone(turn_ids: Sequence[str], state_dir: str | None) -> list[tuple[str, Glance]]:
    there = opened(state_dir) if turn_ids else None
    if there is None:
        return []
    with there:
        return [(turn_id, one) for turn_id in turn_ids for one in there.named(turn_id, 1)]
