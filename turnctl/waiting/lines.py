"""Reading a line from standard input as ``input()`` does, but waking at once when the turn is stopped.

Invariants
  L1  Nothing is read before ``poll`` says that it is there, and one ``peek`` per ``poll``: so no thread of ours is
      blocked in a read, where nothing could wake it.
  L2  What was read and is not returned goes back into the buffer of ``sys.stdin``, in order: a stop loses no half
      line, and the next reader, ours or any other of this process, begins with it. A half line that is longer than
      that buffer (8 KiB as a rule) cannot go there: it is kept for the next reader of ours alone.
  L3  What ``sys.stdin`` had read ahead comes first.
  L4  One thread of ours reads at a time; the others wait their turn, and wake for their own stops.

How L2 and L3 are kept. A text stream does not tell what it has read ahead. So for a moment its file is pointed at a
pipe of ours: reading a line then gives what is buffered and never blocks. A line end stands in that pipe; if it is gone
afterwards, no whole line was buffered. Pushing back is the same in reverse: the pipe holds the text, and a ``peek``
takes it into the buffer. The descriptor itself, which other processes share, is never changed.

May block: ``read_line``, until there is a line, the end of the input, the stop or the timeout. Not promised: anything
while another thread or process reads the same input by itself; that a line is edited with ``readline`` where
``waiting.editing`` cannot (the terminal's own editing works there: erase, kill line, end of file), or that what was
typed with it before a stop is seen by any other reader than ours; more than a plain ``input()`` where ``sys.stdin`` is
no buffered text file, or owns its descriptor (``open(..., closefd=False)`` does not, nor what Python makes).
"""

from __future__ import annotations

import io
import os
import select
import sys
from _thread import LockType, allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from turnctl import clock, points
from turnctl.errors import CancelledError, TurnOver
from turnctl.spelling import described
from turnctl.tokens import registry
from turnctl.tokens.event import park, release_all
from turnctl.tokens.shielding import shielded_until
from turnctl.waiting import editing
from turnctl.waiting.wakeup import Wakeup

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["read_line"]


def read_line(token: CancelToken | None, prompt: str = "", timeout_s: float | None = None) -> str:
    """Read a line as ``input()`` does: ``prompt`` to standard output, no line end, ``EOFError`` at the end.

    A checkpoint that wakes at once from the read when the turn is stopped; what was typed by then stays for the next
    reader (beyond the 8 KiB of the buffer of ``sys.stdin``: for the next that comes this way). ``timeout_s`` in
    seconds of real time ends it with ``TimeoutError``. Without a token, or where
    ``sys.stdin`` has no descriptor (a captured or replaced one), it is a plain ``input()``, which nothing wakes.
    Raises ``TurnOver`` once the turn's outcome has been decided without a stop.
    """
    prompt = str(prompt)  # as the builtin does with whatever it is given
    if token is None and timeout_s is None:
        return input(prompt)
    if token is not None:
        token.check()
    turn = registry.enclosing(token)
    activity = None
    if turn is not None:
        from turnctl.waiting.asks import name_of_prompt

        activity = turn.activities.admit("ask", name_of_prompt(prompt))
    elif token is not None and token.retired:
        raise TurnOver(f"{token!r} has ended and reads no more lines; begin a new turn")
    try:
        line = _read(token, prompt, timeout_s)
    except BaseException as error:
        if activity is not None:
            if isinstance(error, CancelledError):
                activity.close("cancelled", "withdrawn: nobody has declined it")
            else:
                activity.close("failed", described(error))
        raise
    if activity is not None:
        activity.close("completed", "answered")
    return line


def _read(token: CancelToken | None, prompt: str, timeout_s: float | None) -> str:
    source = _descriptor_of(sys.stdin)
    if source is None:
        return input(prompt)
    stdin, buffer, raw, fd = source
    os.fstat(fd)  # one that was closed is told before a descriptor of ours can get its number
    ends_at = None if timeout_s is None else clock.monotonic() + timeout_s
    with _my_turn(token), _woken(token) as wakeup:
        sys.audit("builtins.input", prompt)
        if sys.stderr is not None:
            sys.stderr.flush()
        held = _kept.pop(stdin, b"") + _read_ahead(stdin, buffer, raw, fd)
        if not held and editing.is_possible(fd):
            return _edit(stdin, prompt, lambda: _wait(token, fd, wakeup, ends_at, prompt))
        try:
            if sys.stdout is not None:
                sys.stdout.write(prompt)
                sys.stdout.flush()
            while not held.endswith(b"\n"):
                _wait(token, fd, wakeup, ends_at, prompt)
                found = buffer.peek(1)
                if not found:
                    break  # the end: a line without its end counts, as with input()
                end = found.find(b"\n") + 1
                held += buffer.read(end or len(found))
            taken, held = held, b""
        finally:
            if held:
                _push_back(stdin, buffer, raw, fd, held)
    if not taken:
        raise EOFError("EOF when reading a line")
    line = taken.removesuffix(b"\n").decode(stdin.encoding, stdin.errors or "strict")
    if stdin.newlines is not None:  # it has translated the line end that ``_read_ahead`` showed it, so it does others
        line = line.removesuffix("\r")
    sys.audit("builtins.input/result", line)
    return line


def _edit(stdin: io.TextIOWrapper, prompt: str, wait: Callable[[], None]) -> str:
    errors = stdin.errors or "strict"
    sys.stdout.flush()
    line = editing.edit(prompt.encode(stdin.encoding, errors), wait)
    if line is None:
        raise EOFError
    text = line.decode(stdin.encoding, errors)
    sys.audit("builtins.input/result", text)
    return text


_Source = tuple[io.TextIOWrapper, io.BufferedReader, io.FileIO, int]


def _descriptor_of(stdin: object) -> _Source | None:
    """The layers of an ordinary text file, down to its descriptor; None for anything else."""
    if type(stdin) is not io.TextIOWrapper:
        return None
    try:
        buffer = stdin.buffer
        raw = getattr(buffer, "raw", None)
        if type(buffer) is not io.BufferedReader or type(raw) is not io.FileIO or raw.closefd:
            return None  # one that owns its descriptor would close it when it is pointed elsewhere
        return stdin, buffer, raw, raw.fileno()
    except ValueError:
        return None  # closed: input() says so


def _wait(token: CancelToken | None, fd: int, wakeup: Wakeup, ends_at: float | None, prompt: str) -> None:
    """Block until ``fd`` can be read; raises for a stop or for the time."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(wakeup.fd, select.POLLIN)
    while True:
        wakeup.clear()
        if token is not None:
            token.check()  # looked at before the input, and after each ring
        now = clock.monotonic()
        if ends_at is not None and ends_at <= now:
            raise TimeoutError(f"no line was typed in time at the prompt {prompt!r}")
        until = ends_at
        if token is not None and token.cancelled:
            held = shielded_until(token) or now
            until = held if until is None else min(until, held)
        points.reach("lines.polling")
        ready = poll.poll(None if until is None else max(until - now, 0.001) * 1000)
        if any(one == fd for one, _ in ready):
            if token is not None:
                token.check()  # both there: the stop wins, and the line stays
            return


# -- what sys.stdin holds -----------------------------------------------------------------------------------------


def _read_ahead(stdin: io.TextIOWrapper, buffer: io.BufferedReader, raw: io.FileIO, fd: int) -> bytes:
    """Take the next line, or the part of it, that ``sys.stdin`` has read ahead, without blocking (L3)."""
    pushed = _pushed.pop(stdin, b"")
    if pushed:
        with _pointed_at_a_pipe(raw, fd, b""):
            if buffer.peek(1) == pushed:  # nobody has read since; taken as bytes, since it may end within a character
                return buffer.read(pushed.find(b"\n") + 1 or len(pushed))
    with _pointed_at_a_pipe(raw, fd, b"\n") as pipe:
        line = stdin.readline()
        left = select.poll()
        left.register(pipe, select.POLLIN)
        if not any(mask & select.POLLIN for _, mask in left.poll(0)):
            line = line[:-1]  # the end that stood in the pipe
    return line.encode(stdin.encoding, stdin.errors or "strict")


#: what was pushed back into the buffer of a stream
_pushed: WeakKeyDictionary[io.TextIOWrapper, bytes] = WeakKeyDictionary()
#: half lines that are longer than the buffer of their stream, for the next reader of ours
_kept: WeakKeyDictionary[io.TextIOWrapper, bytes] = WeakKeyDictionary()


def _push_back(stdin: io.TextIOWrapper, buffer: io.BufferedReader, raw: io.FileIO, fd: int, held: bytes) -> None:
    """Put a half line back to where the next reader begins (L2)."""
    with _pointed_at_a_pipe(raw, fd, b""):
        behind = buffer.peek(1)  # there is something only if an exception struck between peek and read
        buffer.read(len(behind))
    if len(held) + len(behind) > io.DEFAULT_BUFFER_SIZE:
        _kept[stdin] = held + behind
        return
    with _pointed_at_a_pipe(raw, fd, held + behind):
        buffer.peek(1)
    _pushed[stdin] = held + behind


@contextmanager
def _pointed_at_a_pipe(raw: io.FileIO, fd: int, content: bytes) -> Iterator[int]:
    """Have ``raw`` read ``content`` and then the end, instead of its own descriptor ``fd``."""
    name, closes = raw.name, raw.closefd
    end, begin = os.pipe()
    try:
        os.write(begin, content)
        os.close(begin)
        raw.__init__(end, "rb", closefd=False)  # type: ignore[misc]
        try:
            yield end
        finally:
            raw.__init__(fd, "rb", closefd=closes)  # type: ignore[misc]
            raw.name = name
    finally:
        os.close(end)


# -- being woken, and taking turns --------------------------------------------------------------------------------


@contextmanager
def _woken(token: CancelToken | None) -> Iterator[Wakeup]:
    """A descriptor that can be read once ``token`` has changed, or a signal has come to the main thread."""
    wakeup = Wakeup(bytewise=True)
    bells = None if token is None else token._grow().bells
    try:
        wakeup.listen()
        if bells is not None:
            bells.append(wakeup.ring)
        yield wakeup
    finally:
        if bells is not None:
            bells.remove(wakeup.ring)
        wakeup.close()


_lock = allocate_lock()
_waiting: list[LockType] = []


@contextmanager
def _my_turn(token: CancelToken | None) -> Iterator[None]:
    """Be the one thread that reads (L4)."""
    mine = _lock.acquire(False)

    def have_it() -> bool:
        nonlocal mine
        mine = mine or _lock.acquire(False)
        return mine

    try:
        while not mine:
            if token is None:
                park(have_it, None, _waiting)
                continue
            token.check()
            held = None
            if token.cancelled:
                held = max((shielded_until(token) or 0.0) - clock.monotonic(), 0.0)
            was = token.cancelled
            park(lambda: have_it() or token.cancelled != was, held, _waiting, token._grow().waiters)  # noqa: B023
        yield
    finally:
        if mine:
            _lock.release()
            release_all(_waiting)


def _reset_in_child() -> None:
    global _lock
    _lock = allocate_lock()
    _waiting.clear()


os.register_at_fork(after_in_child=_reset_in_child)
