"""What the gauntlet found, as tables. A run that did not start, or was not counted, is in no number but its own."""

from __future__ import annotations

from runs import Result

__all__ = ["by_kind", "by_supervisor"]


def by_supervisor(results: list[Result], names: list[str], modes: list[str]) -> list[str]:
    """The lines of a table: of how many kinds that were run something was left, and how many were not run."""
    lines = [_line("supervisor", *modes, "zombies in"), _rule(len(modes) + 2)]
    for name in names:
        of_it = [one for one in results if one.supervisor == name]
        cells = [_summary([one for one in of_it if one.mode == mode]) for mode in modes]
        lines.append(_line(name, *cells, str(sum(bool(one.zombies) for one in of_it if not one.error))))
    return lines


def _summary(results: list[Result]) -> str:
    runs = [one for one in results if not one.error]
    failed = len(results) - len(runs)
    return f"{sum(bool(one.survivors) for one in runs)} of {len(runs)}" + (f" ({failed} not run)" if failed else "")


def by_kind(results: list[Result], names: list[str], mode: str, kinds: list[str]) -> list[str]:
    """The lines of a table of one mode: who was left of each kind under each supervisor."""
    lines = [_line(mode, *names), _rule(len(names) + 1)]
    for kind in kinds:
        cells = []
        for name in names:
            found = [one for one in results if (one.kind, one.supervisor, one.mode) == (kind, name, mode)]
            cells.append(_cell(found[0]) if found else "-")
        lines.append(_line(kind, *cells))
    return lines


def _cell(result: Result) -> str:
    if result.error:
        return "not run"
    return f"{result.survivors}{' z' * bool(result.zombies)}{' running' * result.is_running}"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(columns: int) -> str:
    return "|---" * columns + "|"
