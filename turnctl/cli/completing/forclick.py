"""The answer in click's own form, for the shells whose script is click's: PowerShell."""

from __future__ import annotations

import os

from turnctl.cli.completing.answer import found_at

__all__ = ["SHELL", "VARIABLE", "answer"]

#: what click's script calls us by
VARIABLE = "_TURNCTL_COMPLETE"
SHELL = "powershell"


def answer() -> int:
    """Write what fits to stdout; silent on any error, as ``completing.answer`` is."""
    try:
        from click.shell_completion import CompletionItem, get_completion_class

        from turnctl.cli.group import cli

        made = get_completion_class(SHELL)
        if made is None:
            return 1
        form = made(cli, {}, "turnctl", VARIABLE)
        words, last = form.get_completion_args()
        found = found_at(["turnctl", *words], last)
        items = [CompletionItem(word, help=what or None) for word, what in found.words]
        if found.kind in ("files", "folders"):
            items = [CompletionItem(last, type={"files": "file", "folders": "dir"}[found.kind])]
        os.write(1, "".join(f"{form.format_completion(item)}\n" for item in items).encode("utf-8", "replace"))
    except BaseException:  # noqa: BLE001 - nothing is said in the middle of what a person is writing
        return 1
    return 0
