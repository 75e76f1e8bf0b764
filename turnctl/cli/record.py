"""The record of a run: the options for it, opening the ledger for it, and what is said where it cannot be kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from turnctl.cli.common import state_dir_option
from turnctl.cli.folder import current
from turnctl.cli.options import Size
from turnctl.cli.talk import explain, note
from turnctl.processes.sizes import format_size, parse_size
from turnctl.spelling import in_words

if TYPE_CHECKING:
    from turnctl.cli.streams import Outputs
    from turnctl.ledger.runs import Recorded, Run

__all__ = ["NO_RECORD", "NotRecorded", "Record", "Wanted", "record_options", "wanted"]

#: how long a busy ledger is waited for: with very many runs at once on a slow disk each has its turn within that
_BUSY_S = 10.0


class NotRecorded(Exception):
    """There can be no record, and it was required; ``error`` says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Wanted(NamedTuple):
    """What the command line asked for."""

    record: bool
    is_required: bool
    log: bool
    log_max: str
    state_dir: str | None
    label: str | None = None

    @property
    def keeps(self) -> bool:
        """Whether output is to be kept."""
        return self.record and self.log


NO_RECORD = Wanted(record=False, is_required=False, log=False, log_max="1MiB", state_dir=None)

_OPTIONS = (
    click.option(
        "--record",
        type=click.Choice(["yes", "no", "required"]),
        default="yes",
        show_default=True,
        envvar="TURNCTL_RUN_RECORD",
        show_envvar=True,
        help="Keep a record in the ledger. Where that is not possible: yes says so, and runs; required runs nothing.",
    ),
    click.option("--no-record", is_flag=True, help="The same as --record no."),
    click.option(
        "--log/--no-log",
        default=True,
        show_default=True,
        envvar="TURNCTL_RUN_LOG",
        show_envvar=True,
        help="Keep the output in the record as well. Then it goes through turnctl, but for that to a terminal.",
    ),
    click.option(
        "--log-max",
        type=Size(),
        default="1MiB",
        show_default=True,
        envvar="TURNCTL_RUN_LOG_MAX",
        show_envvar=True,
        help="Of each stream keep so much: the first half of it, and the end.",
    ),
    state_dir_option(),
)


def record_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give these options to a command; it gets what ``wanted`` takes."""
    for option in reversed(_OPTIONS):
        fn = option(fn)
    return fn


def wanted(record: str, no_record: bool, log: bool, log_max: str, state_dir: str | None, label: str | None) -> Wanted:
    """What was given, checked."""
    size = parse_size(log_max, what="--log-max")
    if size is None or size < 4:
        raise click.UsageError("--log-max has to be some size, such as 64KiB; --no-log keeps nothing")
    is_kept, is_required = record != "no" and not no_record, record == "required" and not no_record
    return Wanted(is_kept, is_required, log, log_max, state_dir, label)


class Record:
    """The record of one run: opened when it is made, and never in its way."""

    def __init__(self, asked: Wanted, command: tuple[str, ...], folder: str | None, outputs: Outputs) -> None:
        """Blocks for the ledger. Raises ``NotRecorded`` where there can be none, and it was required."""
        #: what the turn of the run works on; None where nothing is recorded
        self.task: Run | None = None
        self._asked = asked
        self._error: Exception | None = None
        if asked.record:
            try:
                self.task = _open(asked, command, folder, outputs)
            except Exception as error:  # whatever it is, the command does not depend on it
                if asked.is_required:
                    raise NotRecorded(error) from error
                self._error = error

    @property
    def _recorded(self) -> Recorded | None:
        return None if self.task is None else self.task.recorded

    @property
    def is_kept(self) -> bool:
        """Whether the turn is on record, once it has begun."""
        return self._recorded is not None and self._recorded.is_on_record

    @contextmanager
    def required(self) -> Iterator[None]:
        """Has what goes wrong at the begin of the turn raised as ``NotRecorded``."""
        try:
            yield
        except Exception as error:
            if self.task is not None and self.task.is_required and not self.is_kept:
                raise NotRecorded(error) from error
            raise

    def begun(self) -> None:
        """The turn has begun: say so where it is not recorded."""
        error = self._error or (None if self._recorded is None else self._recorded.trouble)
        if error is not None:
            note(f"this run is not recorded: {in_words(error)} (--no-record does without, and without this line)")
        elif self.is_kept:
            kept = self.environment()
            explain(f"this is turn {kept['TURNCTL_TURN_ID']}, on record in {kept['TURNCTL_STATE_DIR']}")

    def environment(self) -> dict[str, str]:
        """What the command is told of its record."""
        assert self._recorded is not None
        folder = os.path.dirname(self.task.store.path)  # type: ignore[union-attr]
        return {"TURNCTL_TURN_ID": self._recorded.task_id, "TURNCTL_STATE_DIR": folder}

    def started(self, pid: int) -> None:
        """The command has that number."""
        if self._recorded is not None:
            self._recorded.started(pid)

    def account(self) -> None:
        """The turn is over: say what is missing in its record."""
        recorded = self._recorded
        if recorded is None or not recorded.is_on_record:
            return
        missing = [] if recorded.trouble is None else [in_words(recorded.trouble)]
        missing += [
            f"{format_size(lost)} of {name} could not be kept ({why})" for name, lost, why in recorded.not_kept()
        ]
        for one in missing:
            note(f"the record of this run is incomplete: {one}")

    def leave(self, alive: list[str]) -> None:
        """The run is not waited for any more."""
        if self._recorded is not None:
            self._recorded.leave(alive)

    def close(self) -> None:
        """Give the ledger back. May be called again."""
        if self.task is not None:
            self.task.store.close()


def _open(asked: Wanted, command: tuple[str, ...], folder: str | None, outputs: Outputs) -> Run:
    from turnctl.errors import StoreMissing
    from turnctl.ledger.opening import init, open_sqlite
    from turnctl.ledger.runs import Run
    from turnctl.ledger.whereabouts import default_file

    path = default_file(asked.state_dir)
    try:
        store = open_sqlite(path, busy_s=_BUSY_S)
    except StoreMissing:
        init(path)
        store = open_sqlite(path, busy_s=_BUSY_S)
    return Run(
        store,
        command,
        folder=os.path.join(current(), folder or "").rstrip("/") or "/",
        output=outputs.told if asked.log else None,
        limit=parse_size(asked.log_max, what="--log-max"),
        is_required=asked.is_required,
        label=asked.label,
    )
