"""Settings: which files there are, whether all that they say can be used, and the variables beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from turnctl.cli.checks.check import Finding, Look
from turnctl.cli.settings.places import Found, user_file
from turnctl.cli.settings.problem import SettingsProblem
from turnctl.cli.settings.tables import Table, read
from turnctl.cli.settings.view import bad_variables, problems, strange_variables

__all__ = ["described", "looks", "readable"]


def looks(files: Sequence[Found], problem: SettingsProblem | None) -> Iterator[tuple[str, Look]]:
    """What there is to look at: ``files`` are those of this call, and ``problem`` what kept it from using them."""
    yield "config.files", partial(_files, files, problem)
    yield "config.values", partial(_values, files)
    yield "config.environment", _environment


def described(files: Sequence[Found]) -> list[dict[str, object]]:
    """The files as plain values."""
    return [{"kind": one.kind, "path": one.path, "used": one.data is not None, "why": one.why or None} for one in files]


def readable(files: Sequence[Found]) -> tuple[list[Table], list[SettingsProblem]]:
    """The tables of those that can be read, and what is wrong with the others."""
    tables, wrong = [], []
    for one in files:
        try:
            if one.data is not None:
                tables.append(read(one))
        except SettingsProblem as error:
            wrong.append(error)
    return tables, wrong


def _files(files: Sequence[Found], problem: SettingsProblem | None) -> Finding:
    details = {"files": described(files), "user_file": user_file()}
    if problem is not None and not files:
        return Finding("fail", problem.message, problem.hint, details)
    strange = [one for one in files if one.is_strange]
    if strange:
        text = "; ".join(f"{one.path} was not read: {one.why}" for one in strange)
        remedy = f"turnctl --config {strange[0].path} reads a copy of it that is yours; else remove it"
        return Finding("warn", text, remedy, details)
    used = [one.path for one in files if one.data is not None]
    passed = [f"{one.path} is passed over" for one in files if one.data is None]
    return Finding("ok", ", ".join(used + passed) or "no file of settings", details=details)


def _values(files: Sequence[Found]) -> Finding:
    tables, wrong = readable(files)
    wrong += problems(tables)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        details = {"problems": [{"message": one.message, "hint": one.hint} for one in wrong]}
        return Finding("fail", f"{wrong[0].message}{more}", wrong[0].hint, details)
    return Finding("ok", "all that is set can be used" if tables else "nothing is set by a file")


def _environment() -> Finding:
    bad, strange = bad_variables(), strange_variables()
    details = {"bad": bad, "unknown": [name for name, _ in strange]}
    if bad:
        return Finding("fail", "; ".join(bad), "set it to what can be used, or unset it", details)
    if strange:
        text = ", ".join(f"{name} (did you mean {near}?)" if near else name for name, near in strange)
        return Finding("warn", f"no variable of turnctl: {text}", f"unset {strange[0][0]}", details)
    return Finding("ok", "every variable that begins with TURNCTL_ is one", details=details)
