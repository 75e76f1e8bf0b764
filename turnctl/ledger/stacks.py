"""Where the threads of a program stand, asked from another process: a file beside the ledger, answered into itself.

Who asks makes an empty file named after the incarnation that a turn works on, and rings the bell of the ledger. The
program that has such a turn hears it on the thread of its ledger, which only looks which files there are; a thread of
its own, which is there for that alone, reads the stacks and writes them into the file.

Invariants
  S1  The turn is not touched: stacks are read in one look at the interpreter's frames, without its locals, and written
      by a thread that holds nothing. Nobody waits for that thread.
  S2  However many ask, stacks are read by one thread, at most every ``_APART_S``; all who have asked by then get them.
  S3  Only files are answered that belong to this user, are regular, empty, have one name and lie in a folder that is
      closed to others: nothing else can be written to by asking.
  S4  What is told are places in code and the source lines there, as they are on disk now; no value of any variable.

Not promised: an answer. A program that stands still, computes in C code without letting go of the interpreter, or is
gone gives none, and who asks waits for a bounded time.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from turnctl import log
from turnctl.clock import wall
from turnctl.ledger.ears import open_ear, ring
from turnctl.tokens.sites import DEEPEST, frames_now, raw_stack, resolved
from turnctl.tokens.sites import is_ours as is_own

if TYPE_CHECKING:
    from turnctl.tokens.turn import TurnCore

__all__ = ["answer", "ask", "at_work", "begins", "ends"]

_APART_S = 0.05
#: files of askers that are gone
_STALE_S = 60.0
_NAME = re.compile(r"([\w-]{1,128})\.[0-9a-f]{16}")
_THREAD = "turnctl-stacks"

#: by incarnation the turn that works on it here, and the process that this was said in
at_work: dict[str, tuple[int, TurnCore]] = {}


def begins(inc: str, turn: TurnCore) -> None:
    """That turn works on it from now on."""
    at_work[inc] = (os.getpid(), turn)


def ends(inc: str) -> None:
    """It does not any more."""
    at_work.pop(inc, None)


def _folder(path: str) -> str:
    return f"{path}.asks"


# -- answering ----------------------------------------------------------------------------------------------------


def answer(path: str) -> None:
    """Have those answered who ask for turns of this process. For the thread of a ledger: looks, and does not block."""
    try:
        names = os.listdir(_folder(path))
    except OSError:
        return  # nobody asks
    if any(_turn_of(name) is not None for name in names):
        _answerer.wake(path)


def _turn_of(name: str) -> TurnCore | None:
    found = _NAME.fullmatch(name)
    pid, turn = at_work.get(found[1], (0, None)) if found is not None else (0, None)
    return turn if pid == os.getpid() else None  # a forked child has its parent's entries


class _Answerer:
    """The thread that answers, while there is somebody to be answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # for a few steps only
        self._wanted: set[str] = set()
        self._thread: threading.Thread | None = None

    def wake(self, path: str) -> None:
        with self._lock:
            self._wanted.add(path)
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread to be had: whoever asks is not answered
                self._thread = None
                log.warning("ledger.stacks_unanswered", error=str(error))

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                paths, self._wanted = self._wanted, set()
            for path in paths:
                try:
                    _answer_all(path)
                except OSError as error:
                    log.warning("ledger.stacks_unanswered", path=path, error=str(error))
            with self._lock:
                is_more = bool(self._wanted)
            if is_more:
                time.sleep(_APART_S)  # S2


_answerer = _Answerer()


def _forget() -> None:
    global _answerer
    _answerer = _Answerer()
    at_work.clear()


os.register_at_fork(after_in_child=_forget)


def _answer_all(path: str) -> None:
    folder = _opened(_folder(path))
    try:
        threads = None
        for name in os.listdir(folder):
            turn = _turn_of(name)
            file = None if turn is None else _empty(name, folder)
            if file is None or turn is None:
                continue
            try:
                if threads is None:
                    threads = _threads()
                _write(file, _told(turn, threads))
            finally:
                os.close(file)
    finally:
        os.close(folder)


def _opened(folder: str) -> int:
    """The folder, which is this user's alone (S3)."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(fd)
    if found.st_uid == os.geteuid() and not found.st_mode & 0o077:
        return fd
    os.close(fd)
    raise PermissionError(1, "it belongs to somebody else, or is open to others", folder)


def _empty(name: str, folder: int) -> int | None:
    """The file of somebody who asks; None where it is none (S3), or has its answer."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None  # taken back meanwhile
    found = os.fstat(fd)
    is_fit = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    if is_fit and found.st_size == 0:
        return fd
    os.close(fd)
    return None


def _write(fd: int, text: dict[str, Any]) -> None:
    data = memoryview(json.dumps(text).encode() + b"\n")
    while data:
        data = data[os.write(fd, data) :]


# -- reading ------------------------------------------------------------------------------------------------------


def _threads() -> dict[int, dict[str, Any]]:
    """All threads by ident, each with its stack, the innermost line first."""
    raw = {ident: raw_stack(frame) for ident, frame in frames_now().items()}  # S1: no frame is kept
    names = {one.ident: one.name for one in threading.enumerate()}
    main = threading.main_thread().ident
    found = {}
    for ident, stack in raw.items():
        name = names.get(ident)
        if name == _THREAD:
            continue
        found[ident] = {
            "name": name or f"ident {ident}",
            "is_main": ident == main,
            "stack": [_place(*resolved(one)) for one in stack],
            "is_cut": len(stack) >= DEEPEST,
        }
    return found


def _place(file: str, line: int, function: str) -> dict[str, Any]:
    from linecache import getline

    code = getline(file, line).strip()
    is_ours = is_own(file) or file == threading.__file__
    return {"file": file, "line": line, "function": function, "code": code or None, "is_ours": is_ours}


def _told(turn: TurnCore, threads: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """What one turn is told: its own threads first."""
    from turnctl.waiting.diagnosis import owned_threads  # few are ever asked

    roles = owned_threads(turn)
    if turn._is_framed:
        roles.setdefault(turn._beginner, "body of the turn")
    rows = [{**one, "role": roles.get(ident)} for ident, one in threads.items()]
    rows.sort(key=lambda one: (one["role"] != "body of the turn", one["role"] is None))
    version = ".".join(map(str, sys.version_info[:3]))
    return {"pid": os.getpid(), "python": version, "at": wall(), "threads": rows}


# -- asking -------------------------------------------------------------------------------------------------------


def ask(path: str, inc: str, *, within_s: float) -> dict[str, Any] | None:
    """What the program says that has a turn at work on ``inc``; None where it says nothing in time.

    Blocks until then. Raises ``OSError`` where the folder of the ledger cannot be written to.
    """
    if _NAME.fullmatch(f"{inc}.{'0' * 16}") is None:
        return None  # no program would take it for a name
    until = time.monotonic() + within_s
    file = _made(path, f"{inc}.{os.urandom(8).hex()}")
    try:
        ear = open_ear(file)
        try:
            ring(f"{path}.bell")
            while (left_s := until - time.monotonic()) > 0:
                ear.wait(left_s)
                found = _read(file)
                if found is not None:
                    return found
            return _read(file)
        finally:
            ear.close()
    finally:
        with suppress(OSError):
            os.unlink(file)
        with suppress(OSError):
            os.rmdir(_folder(path))  # unless others ask


def _made(path: str, name: str) -> str:
    """An empty file to be answered into."""
    folder = _folder(path)
    while True:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
            os.chmod(folder, 0o700)  # whatever the umask
        try:
            fd = _opened(folder)
        except FileNotFoundError:
            continue  # somebody who was through has just taken it away
        try:
            _sweep(fd)
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=fd))
        except FileNotFoundError:
            continue
        finally:
            os.close(fd)
        return os.path.join(folder, name)


def _sweep(folder: int) -> None:
    """Take away what those left who were killed while they asked."""
    before = time.time() - _STALE_S
    for name in os.listdir(folder):
        with suppress(OSError):
            if _NAME.fullmatch(name) and os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
                os.unlink(name, dir_fd=folder)


def _read(file: str) -> dict[str, Any] | None:
    try:
        with open(file, "rb") as opened:
            text = opened.read()
    except OSError:
        return None
    if not text.endswith(b"\n"):
        return None  # nothing yet, or not all of it
    found: dict[str, Any] = json.loads(text)
    return found
