"""``stop_everywhere``: run a function once per checkpoint with a stop right there, and tell what did not stop well.

Each run has a turn and a thread of its own, so that a body which does not stop can be left behind and named. The first
run lists the checkpoints, the second sees whether they are the same and what the function leaves behind unstopped; then
one run for each, the stop made on the thread that is at it, before it raises. Nothing is left to chance but what other
threads of the function do meanwhile.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import turnctl
from turnctl.clock import format_duration, parse_duration
from turnctl.errors import BadArgument
from turnctl.testing.leaks import LeakCheck, own_tmpdir
from turnctl.tokens.callables import check_plain
from turnctl.tokens.sites import back, frame_of

__all__ = ["Checkpoint", "Everywhere", "Problem", "stop_everywhere"]

Kind = Literal["late", "swallowed", "leaking", "breaking", "raised"]
_HOME = os.path.dirname(os.path.abspath(turnctl.__file__)) + os.sep
_MEANING = {
    "late": "went on for too long after the stop",
    "swallowed": "swallowed the stop and went on",
    "leaking": "left something behind",
    "breaking": "left a broken history",
    "raised": "raised something else while it stopped",
}
_ENDLESS = 1000  # further checkpoints after which a body is held, since it will not stop
_let_go = threading.Event()  # set by our own tests only
_real_monotonic = time.monotonic


@dataclass(frozen=True)
class Checkpoint:
    """A place where the function could be stopped: a line of it, and the how manieth arrival there this was."""

    file: str
    line: int
    function: str
    nth: int

    @property
    def place(self) -> str:
        """``file:line in function``."""
        return f"{self.file}:{self.line} in {self.function}"

    def __str__(self) -> str:
        return self.place if self.nth == 1 else f"{self.place} (arrival {self.nth})"


@dataclass(frozen=True)
class Problem:
    """One thing that went wrong: ``where`` is the line to look at, ``stopped_at`` the checkpoint with the stop.

    ``stopped_at`` is None for what happens without any stop. Lines are "file:line in function".
    """

    kind: Kind
    where: str
    text: str
    stopped_at: Checkpoint | None

    def __str__(self) -> str:
        at = "without any stop" if self.stopped_at is None else f"stopped at {self.stopped_at}"
        return f"{self.kind}: {self.where} {_MEANING[self.kind]}\n    {at}: {self.text}"


@dataclass(frozen=True)
class Everywhere:
    """What ``stop_everywhere`` found. ``stops`` is how many runs were stopped, ``skipped`` how many checkpoints were
    not tried, for the limit or because they were not reached again; ``notes`` says so in words.
    """

    checkpoints: tuple[Checkpoint, ...]
    stops: int
    skipped: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()

    def raise_if_any(self) -> None:
        """Raise ``AssertionError`` with all of it if there is a problem."""
        if self.problems:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        count = len(self.problems)
        found = "no problem" if not count else "1 problem" if count == 1 else f"{count} problems"
        head = f"stopped at {self.stops} of {len(self.checkpoints)} checkpoints: {found}"
        return "\n".join([head, *(f"  {problem}" for problem in self.problems), *(f"  {note}" for note in self.notes)])


def stop_everywhere(
    fn: Callable[..., object],
    *,
    setup: Callable[[], Any] | None = None,
    check: Callable[..., object] | None = None,
    late: float | str = "1s",
    late_checkpoints: int = 10,
    limit: int = 300,
    grace: float | str = "1s",
    timeout: float | str = "30s",
) -> Everywhere:
    """Run ``fn(turn)`` once to list its checkpoints, then once per checkpoint with a stop there; say what went wrong.

    ``setup()`` makes what each run works on: it is then called as ``fn(turn, state)``, and after each run, stopped or
    not, ``check(state)`` raises if the state is broken (without ``setup``: ``check()``). Found are: *late* (still
    running ``late`` after the stop, or past ``late_checkpoints`` further checkpoints), *swallowed* (the stop was caught
    and work went on to another checkpoint), *leaking* (a thread, descriptor, child process or temporary file is left),
    *breaking* (``check`` raised) and *raised* (another exception came out). Runs that are not stopped have to come back
    within ``timeout``; at most ``limit`` stops are made, each distinct line first.

    ``fn`` has to do the same each time, and runs on a thread of its own, which is left behind if it does not stop:
    then no more runs are made. Blocks for all the runs. What an unstopped run raises is raised.
    """
    for what, given in (("stop_everywhere()", fn), ("setup=", setup), ("check=", check)):
        if given is not None or given is fn:
            check_plain(what, given)
    for what, number, least in (("limit", limit, 1), ("late_checkpoints", late_checkpoints, 0)):
        if type(number) is not int or number < least:
            raise BadArgument(f"{what} of stop_everywhere() is a whole number of {least} or more, not {number!r}")
    late_s, timeout_s = parse_duration(late, what="late"), parse_duration(timeout, what="timeout")
    parse_duration(grace, what="grace", zero=True)
    assert late_s is not None and timeout_s is not None  # noqa: PT018
    with _tmpdir() as tmpdir:
        tester = _Tester(fn, setup, check, late_s, late_checkpoints, grace, timeout_s, tmpdir)
        return tester.all(limit)


@contextmanager
def _tmpdir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name, own_tmpdir(Path(name)):
        yield Path(name)


class _Run:
    """One run of the function, stopped at one checkpoint or at none."""

    def __init__(self, stop_at: Checkpoint | None, allowed: int) -> None:
        self.stop_at = stop_at
        self.seen: list[Checkpoint] = []
        self.after: list[Checkpoint] = []
        self.stopped = threading.Event()
        self.left_body = threading.Event()
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.turn: turnctl.Turn | None = None
        self.thread: threading.Thread | None = None
        self.too_far: Checkpoint | None = None
        self._allowed = allowed
        self._counts: Counter[tuple[str, int, str]] = Counter()
        self._lock = threading.Lock()
        self.held = threading.Event()

    def at_checkpoint(self) -> None:
        frame = _of_the_user(sys._getframe(1))
        if frame is None:
            return  # a thread of turnctl's own
        place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        with self._lock:
            self._counts[place] += 1
            here = Checkpoint(*place, self._counts[place])
            self.seen.append(here)
            if self.stopped.is_set():
                self.after.append(here)
                if len(self.after) == self._allowed + 1:
                    self.too_far = here
            endless = len(self.after) > _ENDLESS
            due = here == self.stop_at
        if endless:
            self.held.set()
            _let_go.wait()  # it would run for ever: it is held here, and reported
        if due:
            assert self.turn is not None
            self.turn.cancel("stop_everywhere", by=f"stop_everywhere at {here}")
            self.stopped.set()


class _Tester:
    def __init__(
        self,
        fn: Callable[..., object],
        setup: Callable[[], Any] | None,
        check: Callable[..., object] | None,
        late_s: float,
        late_checkpoints: int,
        grace: float | str,
        timeout_s: float,
        tmpdir: Path,
    ) -> None:
        self._fn = fn
        self._setup = setup
        self._check = check
        self._late_s = late_s
        self._late_checkpoints = late_checkpoints
        self._grace = grace
        self._timeout_s = timeout_s
        self._tmpdir = tmpdir
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._stuck = False

    def all(self, limit: int) -> Everywhere:
        first = self._unstopped(warm=True)
        second = self._unstopped(warm=False)
        steady = set(second)
        if first != second:
            self._notes.append(
                f"two runs passed {len(first)} and {len(second)} checkpoints, not all the same: stops were made at "
                "those that both passed; the function has to do the same each time"
            )
        todo = [one for one in first if one in steady]
        chosen = sorted(todo, key=lambda one: one.nth > 1)[:limit]  # each line first; sorting is stable
        stops = 0
        for one in sorted(chosen, key=todo.index):
            if self._stuck:
                break
            stops += self._stop_at(one)
        skipped = len(first) - stops
        if len(todo) > limit:
            self._notes.append(f"{len(todo) - limit} checkpoints were not tried: more than limit={limit}")
        return Everywhere(tuple(first), stops, skipped, tuple(self._problems), tuple(self._notes))

    # -- runs -------------------------------------------------------------------------------------------------

    def _unstopped(self, *, warm: bool) -> list[Checkpoint]:
        leaks = LeakCheck(self._tmpdir)
        run = _Run(None, self._late_checkpoints)
        state = self._start(run)
        if not run.done.wait(self._timeout_s):
            raise TimeoutError(
                f"the function did not come back within {format_duration(self._timeout_s)} without any stop; it stands "
                f"at {_where(run.thread)}"
            )
        if run.error is not None:
            raise run.error
        self._end(run)
        if warm:
            return run.seen  # what is made once and kept is no leak
        for text in leaks.found(within=1.0):
            self._problems.append(Problem("leaking", _name(self._fn), text.strip(), None))
        self._check_state(state, None)
        return run.seen

    def _stop_at(self, at: Checkpoint) -> int:
        leaks = LeakCheck(self._tmpdir)
        run = _Run(at, self._late_checkpoints)
        state = self._start(run)
        give_up_at = _real_monotonic() + self._timeout_s
        while not run.stopped.wait(0.05):
            if run.done.is_set() or _real_monotonic() > give_up_at:
                break
        if not run.stopped.is_set():
            run.done.wait(max(give_up_at - _real_monotonic(), 0))
            self._notes.append(f"not reached again: {at}")
            self._give_up_if_stuck(run, at)
            return 0
        found_late = not run.left_body.wait(self._late_s)
        if found_late:
            took = format_duration(self._late_s)
            self._add("late", _where(run.thread), f"it was still running {took} after the stop", at)
        while not run.done.wait(0.05):
            if run.held.is_set() or _real_monotonic() > give_up_at:
                self._give_up_if_stuck(run, at)
                return 1
        self._end(run)
        self._judge(run, at, found_late)
        for text in leaks.found(within=1.0):
            self._add("leaking", at.place, text.strip(), at)
        self._check_state(state, at)
        return 1

    def _start(self, run: _Run) -> Any:
        state = None if self._setup is None else self._setup()
        args = () if self._setup is None else (state,)

        def body() -> None:
            try:
                with turnctl.turn(grace=self._grace, inherit=False) as turn:
                    run.turn = turn
                    turn.trace_checkpoints(run.at_checkpoint)
                    try:
                        self._fn(turn, *args)
                    finally:
                        run.left_body.set()
            except BaseException as error:  # noqa: BLE001 - judged by the thread that started this one
                run.error = error
            finally:
                run.left_body.set()
                run.done.set()

        run.thread = threading.Thread(
            target=copy_context().run, args=(body,), name=f"stop_everywhere {_name(self._fn)}", daemon=True
        )
        run.thread.start()
        return state

    def _end(self, run: _Run) -> None:
        assert run.thread is not None
        run.thread.join(self._timeout_s)

    def _give_up_if_stuck(self, run: _Run, at: Checkpoint) -> None:
        if run.done.is_set():
            self._end(run)
            return
        self._stuck = True
        self._judge_swallowing(run, at)
        self._notes.append(
            f"the run that was stopped at {at} did not end, and stands at {_where(run.thread)}; its thread was left "
            "behind, and no more runs were made"
        )

    # -- judging ----------------------------------------------------------------------------------------------

    def _judge(self, run: _Run, at: Checkpoint, found_late: bool) -> None:
        swallowed = self._judge_swallowing(run, at)
        if run.too_far is not None and not (swallowed or found_late):
            text = f"it passed {len(run.after)} more checkpoints, this being the first beyond {self._late_checkpoints}"
            self._add("late", run.too_far.place, text, at)
        error = run.error
        if error is not None:  # the turn has absorbed what its own stop raised
            where = _raised_at(error) or at.place
            foreign = "the stop of another turn, " if isinstance(error, turnctl.CancelledError) else ""
            self._add("raised", where, f"{foreign}{type(error).__name__}: {error}", at)

    def _judge_swallowing(self, run: _Run, at: Checkpoint) -> bool:
        if run.turn is None:
            return False
        found = run.turn.diagnose().swallowed
        for one in found:
            times = "" if one.count == 1 else f", {one.count} times"
            text = f"raised at {one.raised_at}, and it went on to {one.next_at}{times}"
            self._add("swallowed", one.swallowed_at or one.raised_at, text, at)
        return bool(found)

    def _check_state(self, state: Any, at: Checkpoint | None) -> None:
        if self._check is None:
            return
        try:
            if self._setup is None:
                self._check()
            else:
                self._check(state)
        except Exception as error:  # noqa: BLE001 - this is what it is asked for
            where = _name(self._fn) if at is None else at.place
            self._add("breaking", where, f"{type(error).__name__}: {error}", at)

    def _add(self, kind: Kind, where: str, text: str, at: Checkpoint | None) -> None:
        if not any((one.kind, one.where, one.text) == (kind, where, text) for one in self._problems):
            self._problems.append(Problem(kind, where, text, at))


def _of_the_user(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        frame = back(frame)
    return None if frame is None or frame.f_code.co_filename == threading.__file__ else frame


def _where(thread: threading.Thread | None) -> str:
    """The innermost line of the user's code that a thread stands at."""
    frame = None if thread is None else frame_of(thread.ident)
    library = os.path.dirname(os.__file__) + os.sep  # passed over as well, where the user's code called it
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HOME, "<")) and (not name.startswith(library) or "site-packages" in name):
            return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = back(frame)
    return "a place that is not known"


def _raised_at(error: BaseException) -> str | None:
    """The innermost line of the user's code that an exception came through."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_HOME):
            found = f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return found


def _name(fn: Callable[..., object]) -> str:
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", type(fn).__qualname__).replace(".<locals>", "")
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
