"""Which files may set which options; see docs/adr/0017-what-a-project-may-set.md.

A project's file says how long, by which signal a command is asked, and how things look. It sets nothing that protects
the user, that says where something is written, what is kept or shown, or what is run: whoever wrote a repository wrote
that file too.
What is not named here belongs to one call, and no file sets it.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Files", "files_for"]

#: none, since it belongs to one call; the user's; a project's as well
Files = Literal["call", "user", "project"]

_PROJECT: dict[tuple[str, ...], str] = {
    ("run",): "timeout grace signal idle-timeout max-output leftovers tty",
    ("stop",): "grace wait",
    ("reconcile",): "timeout",
    ("ps",): "no-trunc",
    ("logs",): "timestamps",
}
_USER: dict[tuple[str, ...], str] = {
    ("run",): "containment limit no-core-dumps umask env unset-env shield record log log-max summary",
    ("stop",): "by no-wait ok-if-finished",
    ("reconcile",): "by",
    ("ps",): "all number",
    ("logs",): "lines",
    ("watch",): "until interval timeout",
    ("top",): "interval sort",
    ("effects",): "all",
    ("ledger", "prune"): "older-than keep-tombstones export include-detached",
    ("bundle",): "no-payloads",
    ("doctor",): "strict",
    ("report",): "format redact",
    ("trial",): "max-stops timeout grace",
}


def files_for(path: tuple[str, ...], key: str) -> Files:
    """Which files may set the option ``key`` of the command at ``path``."""
    if key in _PROJECT.get(path, "").split():
        return "project"
    return "user" if key in _USER.get(path, "").split() else "call"
