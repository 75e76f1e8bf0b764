"""``given`` of hypothesis without its clocks: how long an example takes says how busy the machine is, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import hypothesis
from hypothesis import HealthCheck, settings

F = TypeVar("F", bound=Callable[..., Any])


def given(*strategies: Any, **named: Any) -> Callable[[F], F]:
    """As ``hypothesis.given``; an example may take its time, and so may finding one."""
    unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    return lambda fn: unhurried(hypothesis.given(*strategies, **named)(fn))  # type: ignore[return-value]
