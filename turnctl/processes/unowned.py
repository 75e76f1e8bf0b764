"""The owner of a command that is run without a turn: nobody can stop it, and it leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from turnctl.tokens.activities import Activity, Owned

__all__ = ["Unowned"]


class Unowned:
    """Supervises like a turn, but is never stopped. Leftovers are ended before ``run`` returns."""

    turn_id = "none"
    grace_s = 5.0

    def stop_wanted(self) -> bool:
        return False

    def kill_at(self) -> float | None:
        return None

    def held_until(self) -> float | None:
        return None

    def due_at(self) -> float | None:
        return None

    def watch(self, fn: Callable[[], None]) -> Callable[[], None]:  # noqa: ARG002 - there is nothing to tell
        return _nothing

    def admit(self, owned: Owned) -> Activity:
        return Activity(owned.kind, owned.name, owned)

    def check(self) -> None:
        pass


def _nothing() -> None:
    pass
