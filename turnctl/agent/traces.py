"""The traceback of the error that a failed run is told by: where it came from, and nothing of the run besides.

A traceback holds the frames that it passed, each frame the one that called it, and each its variables: so a result
that somebody keeps would keep the run, its loop, and whatever stood on the stack of who called ``run``. Rejected: text
in place of the traceback, with which no debugger can do anything, and ``traceback.clear_frames``, which takes the
variables of the host's own function as well, the ones that tell why it failed, and ends a generator of the host's that
rests.

For the one thread that closes the run. Does not block.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import FrameType, TracebackType

from turnctl.waiting.driving import Driver

__all__ = ["lighten"]

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DRIVE = Driver.drive.__code__


def lighten(error: BaseException) -> None:
    """Have ``error`` keep what the host needs: the lines that it passed in the work of the run, the variables of the
    host's functions there. Frames of who called ``run`` go, and variables of frames of ours.

    An error that has not been on the thread of the work, since there was none, keeps no traceback: it says all itself.
    """
    for one in _chained(error):
        one.__traceback__ = _of_the_work(one.__traceback__)
        _empty(one.__traceback__)


def _of_the_work(trace: TracebackType | None) -> TracebackType | None:
    """What of it is on the thread of the work: behind the frame of who waits for that."""
    at = trace
    while at is not None and at.tb_frame.f_code is not _DRIVE:
        at = at.tb_next
    found = trace if at is None else at.tb_next
    if found is not None and any(frame.f_code is _DRIVE for frame in _stack(found.tb_frame)):
        return None
    return found


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _chained(error: BaseException) -> list[BaseException]:
    """It, what it came of, and what is in it, where it is a group; each once."""
    found = [error]
    for one in found:
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *inner):
            if other is not None and not any(other is known for known in found):
                found.append(other)
    return found


def _empty(trace: TracebackType | None) -> None:
    if trace is None:
        return
    frames = list(_stack(trace.tb_frame))
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames:
        if frame.f_code.co_filename.startswith(_HOME):
            try:
                frame.clear()
            except RuntimeError:  # it runs still
                continue
