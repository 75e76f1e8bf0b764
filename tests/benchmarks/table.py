"""Interleaved rounds, medians, and a table of ratios with a verdict. No timing fails anything."""

from __future__ import annotations

import platform
import random
import statistics
import sys
import timeit
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Row", "head", "median_of", "per_call_ns", "show"]


class Row(NamedTuple):
    """One line: what was measured, in which unit, against what, and the ratio that it should stay under."""

    name: str
    value: float
    unit: str
    against: str = ""
    base: float | None = None
    target: float | None = None  # a ratio to the base, or without a base a value
    at_least: bool = False

    @property
    def ratio(self) -> float | None:
        return None if not self.base else self.value / self.base

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        measured = self.value if self.base is None else self.value / self.base
        holds = measured >= self.target if self.at_least else measured <= self.target
        sign = ">=" if self.at_least else "<="
        return f"{'holds' if holds else 'MISSED'} ({sign} {self.target:g})"


def per_call_ns(calls: dict[str, tuple[str, dict[str, object]]], rounds: int = 9) -> dict[str, float]:
    """Nanoseconds for each statement, its rounds taken in turn with the others', the median of all."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    timers = {}
    for name, (statement, scope) in calls.items():
        timer = timeit.Timer(statement, globals=dict(scope))
        number = max(timer.autorange()[0] // 20, 1)
        timers[name] = (timer, number)
    for _ in range(rounds):
        for name, (timer, number) in timers.items():
            found[name].append(timer.timeit(number) / number * 1e9)
    return {name: statistics.median(values) for name, values in found.items()}


def median_of(work: dict[str, Callable[[], float]], rounds: int = 9) -> dict[str, float]:
    """The median of what each returns, taken in turn, in another order each time: each leaves its own cold caches."""
    found: dict[str, list[float]] = {name: [] for name in work}
    order = list(work)
    chance = random.Random(1)  # an order that is the same in every run
    for _ in range(rounds):
        chance.shuffle(order)
        for name in order:
            found[name].append(work[name]())
    return {name: statistics.median(values) for name, values in found.items()}


def head() -> str:
    return f"{platform.python_implementation()} {sys.version.split()[0]}, {platform.system()} {platform.release()}"


def show(title: str, rows: list[Row]) -> None:
    print(f"\n## {title}\n")
    print("| what | measured | against | ratio | target |")
    print("|---|---|---|---|---|")
    for row in rows:
        against = "" if row.base is None else f"{row.against} {row.base:.4g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        print(f"| {row.name} | {row.value:.4g} {row.unit} | {against} | {ratio} | {row.verdict} |")
