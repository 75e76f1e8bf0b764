"""``turnctl doctor --settings``: every setting, as text or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from turnctl.cli.checks.config import described, readable
from turnctl.cli.settings.places import user_file
from turnctl.cli.settings.taking import Taken
from turnctl.cli.settings.view import problems, views
from turnctl.cli.table import lines
from turnctl.spelling import visible

if TYPE_CHECKING:
    from turnctl.cli.settings.view import View

__all__ = ["as_dict", "as_text"]

SCHEMA = "turnctl.settings/1"


def as_dict(ctx: click.Context, taken: Taken) -> dict[str, Any]:
    """One document, schema ``turnctl.settings/1``."""
    tables, _ = readable(taken.files)
    return {
        "schema": SCHEMA,
        "files": described(taken.files),
        "user_file": user_file(),
        "problems": _wrong(taken),
        "settings": [one.as_dict() for one in views(ctx, tables)],
    }


def as_text(ctx: click.Context, taken: Taken, *, width: int | None, only_given: bool) -> str:
    """The files, and a line for each setting; ``only_given`` leaves out what nobody has set."""
    tables, _ = readable(taken.files)
    text = []
    if not only_given:
        why = {one.path: "" if one.data is not None else f" (not read: {one.why})" for one in taken.files}
        text += [f"{one.kind:<8} {visible(one.path)}{visible(why[one.path])}" for one in taken.files]
        user = user_file()
        if user is not None and not any(one.kind in ("user", "named") for one in taken.files):
            text.append(f"{'user':<8} {visible(user)} (not there)")
        text += [f"{'wrong':<8} {visible(one)}" for one in _wrong(taken)]
        text.append("")
    rows = [
        (f"{one.command} {one.key}".strip(), _shown(one), one.origin, one.where or "-")
        for one in views(ctx, tables)
        if one.origin != "default" or not (only_given or one.files == "call")
    ]
    return "\n".join([*text, *lines(("SETTING", "VALUE", "ORIGIN", "WHERE"), rows, width=width)]) + "\n"


def _wrong(taken: Taken) -> list[str]:
    """What cannot be used of what the files say, each once."""
    tables, wrong = readable(taken.files)
    found = (taken.problem, *wrong, *problems(tables))
    return list(dict.fromkeys(one.message for one in found if one is not None))


def _shown(one: View) -> str:
    if one.value is None:
        return "-"
    if isinstance(one.value, bool):
        return str(one.value).lower()
    return " ".join(one.value) if isinstance(one.value, (list, tuple)) else str(one.value)
