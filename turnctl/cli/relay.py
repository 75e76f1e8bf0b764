"""The command's output on its way through turnctl, for the options that have to see it.

Without them, and without a record, the command has the very stdout and stderr that turnctl was given. Else each of the
two, as ``streams`` has it, is a pipe, read here and written on in order, on a thread of its own:

- A reader that is slow holds the command up, as it would without turnctl; silence of that time does not count.
- A reader that is gone is passed on: the command's next write gets SIGPIPE, as it would without turnctl.
- After a stop the reader has a second to take what is there; what is lost then is counted.
- A stream that is closed is not ours to write to, and stays closed for the command.
"""

from __future__ import annotations

import errno
import os

from turnctl.cli.streams import Outputs
from turnctl.processes.sizes import format_size
from turnctl.processes.targets import Limited, Target, ToDescriptor
from turnctl.processes.tee import Tee
from turnctl.records.process import ProcessOutcome

__all__ = ["Relay"]

#: what may wait for a slow reader besides what lies in the pipes
_WAITING = 256 * 1024


class Relay(Tee):
    """Made for one command. Raises ``OSError`` where there is no stream to write to."""

    def __init__(self, outputs: Outputs, max_output: int | None) -> None:
        targets: dict[str, Target] = {}
        for name, fd in outputs.through.items():
            if outputs.is_joint and name == "stderr":
                continue  # it comes with the other
            target: Target = ToDescriptor(name, fd, passes_end_on=True)
            targets[name] = target if max_output is None else Limited(target, max_output)
        if not targets:
            raise OSError(errno.EBADF, "stdout and stderr are closed, so that there is no output to watch or limit")
        super().__init__(targets, backpressure=True, limit=_WAITING, patience_s=None)

    def alive(self) -> tuple[str, ...]:
        return ()  # its thread ends with this process, at once

    def said(self, outcome: ProcessOutcome) -> list[str]:
        """What a person has to know: what is missing, and what could not be written."""
        lines = [
            f"{format_size(cut.left_out)} of {cut.stream} were left out after the first {format_size(cut.offset)}"
            for cut in outcome.cuts
        ]
        for lane in self.lanes.values():
            error = lane.error
            if isinstance(error, OSError) and error.errno != errno.EPIPE:
                lines.append(f"{lane.name} could not be written: {os.strerror(error.errno or 0)}")
        if self.is_unfinished:
            lines.append(f"{format_size(outcome.tee_lost)} of output were lost: its reader did not take them")
        return lines
