"""A file that comes into its place whole (``turnctl.beside``), and only while the turn admits work.

For tools that may be abandoned in the middle: a thread that a stop left behind, or a program that was killed, has
changed nothing as long as it has not come to the end of the ``with``.

Invariants
  G1  The place holds the old file, whole, until the new one is there, whole.
  G2  Before the rename the stop is looked at, *then* the chance to land is taken; the end of the turn takes the same
      chance. ``list.pop`` is atomic, so it is one of the two: nothing lands once the turn is over.
  G3  A kill leaves nothing, or what the next who writes the same file takes away.

May block: the disk, at the ``fsync`` and the rename. Not promised: that a stop which is accepted after the last look
keeps the file from landing (the report has its time); anything about a file that several writers stage at once, but
that it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.beside import Beside
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.spelling import described, visible
from turnctl.tokens.event import TurnEvent

if TYPE_CHECKING:
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.turn import TurnCore

__all__ = ["MODES", "staged"]

MODES = ("w", "wb", "x", "xb")


@contextlib.contextmanager
def staged(
    turn: TurnCore,
    path: str | os.PathLike[str],
    mode: str,
    *,
    named: bool,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
) -> Iterator[IO[Any]]:
    """See ``Turn.staged``."""
    if mode not in MODES:
        raise BadArgument(f"the mode of a staged file is one of {', '.join(MODES)}, not {mode!r}")
    spelled: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(spelled, str) or not spelled or "\0" in spelled:
        raise BadArgument(f"the path of a staged file is a non-empty str or a path of str without NUL, not {path!r}")
    if spelled.endswith(os.sep):
        raise BadArgument(f"the path of a staged file names a file, and {path!r} a folder")
    turn.token.check()
    place = _place(os.path.realpath(spelled), is_new=mode.startswith("x"))
    landing = _Landing(place)
    landing.activity = turn.activities.admit("file", landing.name, landing)
    try:
        with place.opened(named=named) as raw:
            file: IO[Any] = raw
            if "b" not in mode:
                file = io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline=newline)
            yield file
            if not file.closed:
                file.flush()
            place.sync()
            points.reach("staging.landing")
            turn.token.check()
            landing.land()
    except CancelledError:
        landing.close("cancelled", f"{place.path} is as it was")
        raise
    except BaseException as error:
        landing.close("failed", described(error))
        raise


def _place(path: str, *, is_new: bool) -> Beside:
    try:
        before = os.stat(path)
    except FileNotFoundError:
        return Beside(path, is_new=is_new)
    if not stat.S_ISREG(before.st_mode):
        raise BadArgument(f"staged() replaces regular files, and {visible(path)} is none; write to it directly")
    if is_new:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    return Beside(path, before=before)


class _Landing:
    """The step at which the file comes into its place, owned by the turn (``tokens.activities.Owned``)."""

    kind = "file"

    def __init__(self, place: Beside) -> None:
        self._place = place
        self.name = place.path
        self.activity: Activity | None = None
        self._chance = [True]
        self._done = TurnEvent()

    def _take(self) -> bool:
        try:
            return self._chance.pop()
        except IndexError:
            return False

    def land(self) -> None:
        """Move the file into its place; ``TurnOver`` if the turn has ended (G2)."""
        if not self._take():
            raise TurnOver(f"the turn ended before {self.name} was complete; the file is as it was")
        try:
            points.reach("staging.moving")
            self._place.land()
        except OSError as error:
            self.close("failed", described(error))
            raise
        except BaseException as error:  # a Ctrl-C that struck in here, before the rename or after it
            self.close("unknown", f"{type(error).__name__} while {self.name} was being put in its place")
            raise
        self.close("completed")

    def close(self, state: Any, detail: str | None = None) -> None:
        assert self.activity is not None
        self._take()
        if not self.activity.close(state, detail) and not self._done.is_set():
            self.activity.note_late(detail or f"{self.name} was put in its place")
        self._done.set()

    # -- being owned --------------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Nothing lands from here on, unless it is landing already."""
        if self._take():
            self._done.set()
            if self.activity is not None:
                self.activity.close("cancelled", f"the turn ended before it was complete; {self.name} is as it was")

    def end(self, kill_at: Callable[[], float]) -> None:
        self.ask()
        while not self._done.is_set():
            left = kill_at() - clock.monotonic()
            if left <= 0:
                break
            self._done.wait(left)
        if self.activity is not None and not self._done.is_set():
            self.activity.close("unknown", f"{self.name} was being put in its place when the turn ended")

    def alive(self) -> tuple[str, ...]:
        return ()

    def outcome(self) -> None:
        return None
