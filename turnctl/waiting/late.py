"""What became of a call after the stop: evidence that is kept and never returned."""

from __future__ import annotations

from typing import Any, Protocol

from turnctl.clock import parse_duration

__all__ = ["Coming", "LateResult"]


class Coming(Protocol):
    """What may still come of a call; ``result`` and ``error`` count once it has ended."""

    @property
    def name(self) -> str: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def result(self) -> Any: ...

    @property
    def error(self) -> BaseException | None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class LateResult:
    """What became of a call that a stop interrupted: evidence, for as long as somebody holds it.

    ``value`` and ``error`` are None until ``is_done``. Thread-safe.
    """

    def __init__(self, worker: Coming) -> None:
        self._worker = worker

    @property
    def is_done(self) -> bool:
        """Whether the function has come back, with a value or an exception."""
        return self._worker.has_ended

    def wait(self, timeout: float | str | None = None) -> bool:
        """Block until it has, or ``timeout`` has passed; whether it has. Not a checkpoint."""
        return self._worker.wait(parse_duration(timeout, what="timeout", zero=True, none=True))

    @property
    def value(self) -> Any:
        """What the function returned."""
        return self._worker.result if self.is_done else None

    @property
    def error(self) -> BaseException | None:
        """What it raised."""
        return self._worker.error if self.is_done else None

    def __repr__(self) -> str:
        if not self.is_done:
            text = "has not come back"
        elif self.error is not None:
            text = f"raised {type(self.error).__name__}"
        else:
            text = "returned"
        return f"<LateResult of {self._worker.name}: {text}>"
