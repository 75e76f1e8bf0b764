"""A file that is there whole or not at all: written beside its place, and moved there only while the turn admits work.

For tools that may be abandoned in the middle: a thread that a stop left behind, or a program that was killed, has
changed nothing as long as it has not come to the end of the ``with``.

Invariants
  G1  The place holds the old file, whole, until one rename puts the new one there, whole, on the disk already.
  G2  Before the rename the stop is looked at, *then* the chance to land is taken; the end of the turn takes the same
      chance. ``list.pop`` is atomic, so it is one of the two: nothing lands once the turn is over.
  G3  What was not moved has no name where the system can have it so (``O_TMPFILE``), so a kill leaves nothing. Where it
      has one it is locked while its writer lives; the next who writes the same file takes away what nobody holds.

May block: the disk, at the ``fsync`` and the rename. Not promised: that a stop which is accepted after the last look
keeps the file from landing (the report has its time); that hard links, access lists and extended attributes of the old
file are those of the new one; anything about a file that several writers stage at once, but that it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from turnctl import clock, points
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.spelling import described, visible
from turnctl.tokens.event import TurnEvent

if TYPE_CHECKING:
    from turnctl.tokens.activities import Activity
    from turnctl.tokens.turn import TurnCore

__all__ = ["MODES", "staged"]

fcntl: Any
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # pragma: no cover - not on Windows: what a kill left there stays
    fcntl = None

MODES = ("w", "wb", "x", "xb")

_MARK = ".staged-"
#: what a system or a file system says that has no files without a name
_NO_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


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
    place = _Place(os.path.realpath(spelled), is_new=mode.startswith("x"))
    landing = _Landing(place)
    landing.activity = turn.activities.admit("file", landing.name, landing)
    try:
        with place.opened(named) as raw:
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


class _Place:
    """Where the file is to be, and what is written beside it."""

    def __init__(self, path: str, *, is_new: bool) -> None:
        self.path = path
        self.folder, self.base = os.path.split(path)
        self.is_new = is_new
        self._name: str | None = None
        self._fd = -1
        self._before: os.stat_result | None = None
        try:
            self._before = os.stat(path)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(self._before.st_mode):
            raise BadArgument(f"staged() replaces regular files, and {visible(path)} is none; write to it directly")
        if is_new:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    @contextlib.contextmanager
    def opened(self, named: bool) -> Iterator[io.BufferedWriter]:
        """A file to write to, gone again at the end unless ``land`` has moved it."""
        _clear(self.folder, self.base)
        self._fd = self._open(named)
        try:
            # by its name, where it has one: ``file.name`` is then good for a program that is to write it. A descriptor
            # of its own, so that the body may close it
            with open(self._name or "", "wb", opener=lambda *_: os.dup(self._fd)) as file:
                yield file
        finally:
            os.close(self._fd)
            if self._name is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._name)

    def _open(self, named: bool) -> int:
        fd = None if named else _nameless(self.folder)
        if fd is None:
            self._name = self._beside()
            fd = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks: then nobody clears up (G3)
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if self._before is not None:
            self._take_after(fd, self._before)
        return fd

    def _beside(self) -> str:
        return os.path.join(self.folder, f"{_begin(self.base)}{secrets.token_hex(6)}")

    def _take_after(self, fd: int, before: os.stat_result) -> None:
        """The owner and the permissions of the file that is replaced, as far as this user may give them."""
        if not hasattr(os, "fchown"):  # pragma: no cover - Windows
            return
        mine = os.fstat(fd)
        if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
            for owner in ((before.st_uid, before.st_gid), (-1, before.st_gid)):
                with contextlib.suppress(PermissionError):
                    os.fchown(fd, *owner)
                    break
        os.fchmod(fd, stat.S_IMODE(before.st_mode))

    def sync(self) -> None:
        os.fsync(self._fd)

    def land(self) -> None:
        """Put what was written in its place, in one step (G1)."""
        if self._name is None:
            if self.is_new:
                self._link(self.path)
                self._sync_folder()
                return
            self._name = self._beside()
            self._link(self._name)
        if self.is_new:
            os.link(self._name, self.path)  # unlike a rename it replaces nothing
        else:
            os.replace(self._name, self.path)
            self._name = None
        self._sync_folder()

    def _link(self, to: str) -> None:
        # os.link follows the link of /proc only when it is given a folder's descriptor, which an absolute path ignores
        os.link(f"/proc/self/fd/{self._fd}", to, src_dir_fd=self._fd, follow_symlinks=True)

    def _sync_folder(self) -> None:
        # without it a crash of the machine may still show the old file
        try:
            fd = os.open(self.folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:  # a folder that may be written and not read
            return
        try:
            with contextlib.suppress(OSError):  # a file system that does not do this for folders
                os.fsync(fd)
        finally:
            os.close(fd)


def _begin(base: str) -> str:
    # the longest name that there may be has 255 bytes
    return f".{os.fsdecode(os.fsencode(base)[:100])}{_MARK}"


def _nameless(folder: str) -> int | None:
    """A file without a name in ``folder``; None where that cannot be had, or could not be given a name later."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_RDWR | flag | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in _NO_NAMELESS:
            return None  # a folder that is missing is told by the next open, which names it
        raise


def _clear(folder: str, base: str) -> None:
    """Take away what writers of the same file left behind who were killed (G3)."""
    if fcntl is None:
        return
    ours = re.compile(re.escape(_begin(base)) + "[0-9a-f]{12}")
    try:
        found = [name for name in os.listdir(folder) if ours.fullmatch(name)]
    except OSError:
        return  # the open that follows says what is wrong with the folder
    for name in found:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # held, gone or not ours: it is left
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(fd)


class _Landing:
    """The step at which the file comes into its place, owned by the turn (``tokens.activities.Owned``)."""

    kind = "file"

    def __init__(self, place: _Place) -> None:
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
