"""Two more lives for ``ledger_lives``: who purges a ledger, and who records a command in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import turnctl

if TYPE_CHECKING:
    from ledger_lives import Life

__all__ = ["purge", "record"]


def purge(life: Life) -> None:
    """Purge two tasks piece by piece, and then what was left of them; a third one stays."""
    from turnctl.ledger import purging

    with life.open() as ledger:
        life.submit(ledger, "kept")
        gone = []
        for name in "ab":
            task = ledger.submit("acme", name)
            gone.append(task.inc)
            with turnctl.turn(task=task, grace=1) as turn:
                for key in "1234":
                    with turn.effect("mail.send", key=key, payload=f"letter {key}") as effect:
                        effect.reject("not wanted")
        purging.ROWS = 6
        life.arm()
        ledger.purge(older_than=0)
        for inc in gone:
            life.tell("purged", inc=inc)
        ledger.purge(older_than=0, keep_tombstones=0)


def record(life: Life) -> None:
    """Run a command as ``turnctl run`` does, with its record."""
    from turnctl.ledger.runs import Run

    life.arm()
    with life.open() as ledger:
        command = ["sleep", "0.3"]
        run = Run(ledger.store, command, folder=life.folder, output=None, limit=None, is_required=True)
        with turnctl.turn(task=run, grace=1, inherit=False) as turn:  # type: ignore[arg-type]
            recorded = run.recorded
            assert recorded is not None
            life.leased(turn)
            process = turn.popen(command, capture=False)
            recorded.started(process.pid)
            process.wait()
        assert recorded.trouble is None, recorded.trouble
        life.tell("over", inc=recorded.inc, state="completed")
