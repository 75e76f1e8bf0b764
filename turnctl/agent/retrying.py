"""Whether a failed exchange with the model is tried again, and whether the model is left alone for a while.

A stop is no failure: none of this is told of it. Nothing here blocks, and nothing is a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable

from turnctl import clock
from turnctl.agent.windows import kind_of
from turnctl.clock import parse_duration
from turnctl.errors import BadArgument
from turnctl.tokens.callables import check_plain

__all__ = ["Breaker", "Retry"]

_PASSING = frozenset({"rate_limit", "overloaded", "server", "timeout", "connection"})


def _may_pass(error: Exception) -> bool:
    """Whether it may pass by itself (``agent.windows``)."""
    return kind_of(error) in _PASSING


class Retry:
    """How often an exchange is tried (``attempts``, the first one too), and how long it waits in between.

    It waits ``wait`` after the first failure, twice that after the second and so on, at most ``longest``; durations are
    seconds or "500ms". ``when(error)`` says whether an error may pass; by default those of an overloaded or failing
    server, of the transport and of rate limits do.
    """

    def __init__(
        self,
        attempts: int = 3,
        wait: float | str = "500ms",
        longest: float | str = "30s",
        when: Callable[[Exception], bool] | None = None,
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise BadArgument(f"attempts is a whole number of 1 or more, not {attempts!r}")
        if when is not None and not callable(when):
            raise BadArgument(f"when is a function of an error, or None, not {when!r}")
        if when is not None:
            check_plain("when of a Retry", when)
        self.attempts = attempts
        self.wait_s = parse_duration(wait, what="wait", zero=True) or 0.0
        self.longest_s = parse_duration(longest, what="longest", zero=True) or 0.0
        self._when = when or _may_pass

    @property
    def _asks_host(self) -> bool:
        """Whether a function of the host says what is tried again, which may block."""
        return self._when is not _may_pass

    def delay_after(self, attempt: int, error: Exception) -> float | None:
        """Seconds to wait after that many attempts; None for giving it up."""
        if attempt >= self.attempts or not self._when(error):
            return None
        return float(min(self.wait_s * 2 ** (attempt - 1), self.longest_s))

    def __repr__(self) -> str:
        return f"Retry(attempts={self.attempts}, wait={self.wait_s:g}, longest={self.longest_s:g})"


class Breaker:
    """After ``limit`` failures in a row the model is not asked for ``rest``; then one attempt decides.

    May be shared by loops in several threads. What it counts are failures, never stops.
    """

    def __init__(self, limit: int = 5, rest: float | str = "30s") -> None:
        if type(limit) is not int or limit < 1:
            raise BadArgument(f"limit is a whole number of 1 or more, not {limit!r}")
        self.limit = limit
        self.rest_s = parse_duration(rest, what="rest", zero=True) or 0.0
        self._failed_at: list[float] = []

    @property
    def failures(self) -> int:
        """How many there were since the last success."""
        return len(self._failed_at)

    def allows(self) -> bool:
        """Whether the model may be asked now."""
        failed_at = self._failed_at
        return len(failed_at) < self.limit or clock.monotonic() - failed_at[-1] >= self.rest_s

    def failed(self, error: Exception) -> None:  # noqa: ARG002 - for those who tell errors apart
        """An exchange failed."""
        self._failed_at.append(clock.monotonic())

    def succeeded(self) -> None:
        """An exchange came to its end."""
        self._failed_at = []

    def __repr__(self) -> str:
        return f"<Breaker {'closed' if self.allows() else 'open'}, {self.failures} of {self.limit} failures>"
