"""``turnctl adapters``: what each adapter that ships establishes by its word, and which promises it can keep."""

from __future__ import annotations

import click

from turnctl.cli.answering import Answering
from turnctl.cli.stdout import put, put_document

__all__ = ["adapters"]

_EXAMPLES = (
    ("turnctl adapters", "before a task is submitted: which promises its effects can keep"),
    ("turnctl adapters --json", "the same for programs"),
)
_STATUSES = (("0", "told"), ("2", "wrong use of turnctl"))
_HELP = """
    An effect gets out through an adapter. What an adapter's acknowledgement of a cancellation establishes is its
    evidence, and no more; a time-out, a reset or a closed stream establishes nothing. Shown is what each can do at the
    most: without a look-up of the host's its effects are unreconcilable, which means that nobody can be asked what
    became of one; without a cancel of the host's it keeps the first two promises.
"""


@click.command(
    "adapters",
    cls=Answering,
    short_help="Show what the adapters for effects establish, and can promise.",
    help=_HELP,
    examples=_EXAMPLES,
    tables=[("Exit status", _STATUSES)],
)
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
def adapters(as_json: bool) -> None:
    """Show them."""
    from turnctl.ledger.adapters import EVIDENCE, shipped

    if as_json:
        plain = [
            {
                "adapter": one.name,
                "evidence": one.evidence,
                "establishes": EVIDENCE[one.evidence],
                "promises": list(one.promises),
                "is_idempotent": one.is_idempotent,
                "key_horizon_s": one.key_horizon_s,
            }
            for one in shipped()
        ]
        put_document({"schema": "turnctl.adapters/1", "adapters": plain})
        return
    for one in shipped():
        again = "no"
        if one.is_idempotent:
            hours = "for ever" if one.key_horizon_s is None else f"within {one.key_horizon_s / 3600:g} h"
            again = f"under the same id, {hours}, while the task runs"
        put(f"{one.name}\n")
        put(f"  evidence    {one.evidence}: {EVIDENCE[one.evidence]}\n")
        put(f"  promises    {', '.join(one.promises)}\n")
        put(f"  sent again  {again}\n")
