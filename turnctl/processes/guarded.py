"""A command under a warden, alone or with a namespace or a control group: the kernel says when nothing is left.

The decisions stay here, with the loop: a stop, a timeout and who asked for less grace are told to the warden as they
come. It carries them out, and tells what it did. It has orders for the case that this process cannot tell it anything:
the command's own timeout, a moment later than it would be told, and the loss of this process.

Invariants
  I1  ``empty_proven`` is True only where the warden, or the launcher in its place, has said ``empty``, or by I2.
  I2  Where both are gone, the command counts as still there: nothing is known of it. But one in a namespace is killed
      with that by the kernel, which is asked (``lastword``).
  I3  A warden that has not begun to kill ``MARGIN_S`` after it was to, or has not come to an end ``DRAIN_S`` later, is
      killed by the launcher, which ends the command in its place. Nobody is given up before that.
  I4  What the warden tells of the order of exit and ask goes before what this side believed.
"""

from __future__ import annotations

import select
import signal
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from turnctl import points
from turnctl.processes.account import Account
from turnctl.processes.custody import LEFT_OVER, Custody, Found
from turnctl.processes.foresight import Foresight, lent
from turnctl.processes.job import Job
from turnctl.processes.ladder import DRAIN_S
from turnctl.processes.lastword import LastWord
from turnctl.processes.signames import name_of
from turnctl.processes.spec import Spec
from turnctl.processes.table import Entry
from turnctl.records.process import Escapes

if TYPE_CHECKING:
    from turnctl.processes.output import Pump
    from turnctl.processes.request import Hold, Steps
    from turnctl.processes.warded import Warded

__all__ = ["MARGIN_S", "ORPHANED_S", "Guarded", "found_of"]

#: what a command has at most to end by itself when this process, or its launcher, is gone
ORPHANED_S = 1.0
#: beyond grace and drain, for the warden to say how it ended
MARGIN_S = 2.0
NO_PROC = "its /proc lists the processes outside, not its own: this machine refuses another one"
_KILL, _CONT = int(signal.SIGKILL), int(signal.SIGCONT)
_CAUSES = {
    "signal": "a signal had come that this program did not read in time",
    "deadline": "the deadline of its turn had passed, and this program did not say so in time",
    "host": "its warden took this program to be gone",
    "owner": "its warden had lost its connection to this program",
    "launcher": "its launcher was gone, which another process must have ended",
    "warden": "its warden was gone, which another process must have ended",
    "both": "its warden and the launcher were gone, which another process must have ended",
}


class Guarded(Custody):
    """The way with a warden."""

    def __init__(
        self, warded: Warded, spec: Spec, account: Account, foresight: Foresight, held_by: Hold, job: Job | None
    ) -> None:
        super().__init__(job)
        self.held_by = held_by
        if held_by != "warden":
            self.why_unknown = f"its {held_by} was ended as a whole, by us or somebody else, before it was told"
        if warded.details.get("proc") is False:
            account.note(NO_PROC)
        self._warded = warded
        self._signum = spec.stop_signal
        self._title = spec.title
        self._account = account
        self._left: list[Found] | None = None
        self._survivors: list[Found] = []
        self._kill_at: float | None = None
        self._has_killed = False
        self._replaced_at: float | None = None
        self._asked_after: float | None = None
        self._exited_after: float | None = None
        self._facts: dict[str, Any] = {}
        self._waiting: dict[int, Callable[[Any], object]] = {}
        self._foresight = foresight
        self._last_word: LastWord | None = None
        self._lost_at = 0.0
        self.pid = warded.pid
        #: what was to be sent for the terminal, and has not been told of as sent
        self._for_job: list[int] = []
        if job is not None:
            job.is_guarded, job.send, job.note = True, self._send, account.note
            if self.pid is not None:
                job.begun(self.pid)

    # -- what the warden says --------------------------------------------------------------------------------

    def _hear(self) -> None:
        for message in self._warded.read():
            heard = getattr(self, f"_on_{message[0]}", None)
            if heard is not None:
                heard(*message[1:])

    def _on_exited(self, status: int, after: float) -> None:
        self.has_ended, self.returncode, self._exited_after = True, status, after
        if self.job is not None and self.held_by == "namespace":
            self.job.ended()  # a group that somebody outside is in keeps its namespace from ending
        self._tell_waiting()
        self._end_job(is_asked=self._is_asked)

    @property
    def _is_asked(self) -> bool:
        return self._kill_at is not None or bool(self.began_by_itself)

    def _on_leftovers(self, members: list[Any]) -> None:
        self._left = [found_of(member, LEFT_OVER) for member in members]

    def _on_asked(self, cause: str, after: float) -> None:
        self._asked_after = self._account.asked_after_s = after
        if self.job is not None:
            self.job.ending()
        if self._kill_at is None:
            self.began_by_itself = cause
            if cause in _CAUSES:
                self._account.note(f"it was ended because {_CAUSES[cause]}")
            if cause in ("signal", "deadline"):
                self._account.learned()

    def _on_stopped(self, signum: int) -> None:
        # what was told before the warden has sent our CONT is of a stop that is over
        if self.job is not None and _CONT not in self._for_job:
            self.job.stopped(signum)

    def _send(self, signum: int) -> None:
        """Send to the command's group, for the job that it is; no part of its ending."""
        self._for_job.append(signum)
        self._ask(self._warded.signal, signum, group=True)

    def _on_signals(self, sent: list[tuple[float, int, str, int]]) -> None:
        for one in list(sent) if self._for_job else ():
            if one[2] == "group" and one[1] in self._for_job:
                self._for_job.remove(one[1])
                sent.remove(one)
        self._account.told(sent)
        if any(signum != _KILL for _, signum, _, _ in sent):
            points.reach("processes.ladder.asked")
        if any(signum == _KILL for _, signum, _, _ in sent):
            self._has_killed = True
            points.reach("processes.ladder.killed")

    def _on_killed(self, status: int) -> None:
        self.why_unknown = f"its warden was {_ended_by(status)}"
        self.began_by_itself = self.began_by_itself or "warden"
        self._account.note(f"it was ended because {_CAUSES['warden']}")

    def _on_ended(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._survivors = [found_of(member, member[5]) for member in facts["survivors"]]
        self.empty_proven = facts["empty"]
        if facts["status"] is not None:
            self.returncode = facts["status"]
        elif self.empty_proven and not self.why_unknown:
            self.why_unknown = "another process traces its main process, and has not let go of it"
        self.has_ended = self.has_ended or self.empty_proven or facts["status"] is not None
        ended = max(0, facts["seen"] - len(self._survivors))
        self.counts = (ended, min(ended, facts.get("killed", 0)))
        if "strays" in facts and self.held_by != "namespace":
            self.escapes = Escapes(*facts["strays"])
        self._tell_waiting()

    def _on_lost(self) -> None:
        self.why_unknown = "its warden and the launcher are gone"
        self.began_by_itself = self.began_by_itself or "lost"
        self._give_up("its warden and the launcher are gone, so nothing is known of it")
        first = self._warded.details.get("init")
        if first is not None:
            self._last_word = LastWord(*first)
            self._lost_at = monotonic()

    def _await_last_word(self, pump: Pump) -> float | None:
        """Both are gone: when to ask the kernel again, None once it is known, or will not be."""
        last_word = self._last_word
        if last_word is None or self.empty_proven:
            return None
        if last_word.is_gone():
            self._survivors = []
            self.has_ended = self.empty_proven = True
            self._account.note(f"it was ended with its namespace because {_CAUSES['both']}")
            return None
        until = self._lost_at + MARGIN_S
        if last_word.fd < 0 or monotonic() >= until:
            return None
        pump.watch(last_word.fd)
        return until

    def _give_up(self, reason: str) -> None:
        known = self._left or [Found(Entry(self.pid or 0, 0, 0, 0, "?", 0, self._title.encode()[:15]), reason)]
        self._survivors = [Found(one.entry, reason) for one in known]

    # -- those below the main process ------------------------------------------------------------------------

    def mark(self, ref: int, told: Callable[[Any], object]) -> None:
        """Have ``told`` called with who lives below the warden now. Any thread; see ``cull``."""
        self._request(ref, told, self._warded.mark)

    def cull(
        self, ref: int, spared: list[tuple[int, int]], kill_at: float, signum: int, told: Callable[[Any], object]
    ) -> None:
        """Have all but the main process and ``spared`` ended, and ``told`` called with the facts. Any thread.

        Asked again with the same ``ref`` it is ended sooner. ``told`` is called once, on the thread that drives, and
        must not block; with None where the main process ends first.
        """
        steps = steps_until(signum, kill_at - monotonic())
        self._request(ref, told, self._warded.cull, spared, steps, DRAIN_S)

    def _request(self, ref: int, told: Callable[[Any], object], request: Any, *args: Any) -> None:
        self._waiting[ref] = told
        if not self.has_ended:
            self._ask(request, ref, *args)
        self._tell_if_over()

    def _tell_if_over(self) -> None:
        if self.has_ended or self._warded.is_over:  # read after it was stored: who drives may have told the others
            self._tell_waiting()

    def _on_marked(self, ref: int, identities: list[tuple[int, int]]) -> None:
        self._answer(ref, identities)

    def _on_culled(self, ref: int, facts: dict[str, Any]) -> None:
        self._answer(ref, facts)

    def _answer(self, ref: int, what: Any) -> None:
        told = self._waiting.pop(ref, None)
        if told is not None:
            told(what)

    def _tell_waiting(self) -> None:
        for ref in list(self._waiting):
            self._answer(ref, None)

    # -- while it runs ---------------------------------------------------------------------------------------

    def watch(self, pump: Pump) -> None:
        if not self._warded.is_over:
            pump.watch(self._warded.fileno())

    def notice(self, fd: int | None, pump: Pump) -> None:
        if fd is None:
            if self.job is not None:
                self.job.look()
            return
        self._hear()
        if self._warded.is_over:
            pump.unwatch(fd)

    def look(self) -> bool:
        self._hear()
        return self.has_ended

    def foresee(self, foresight: Foresight) -> bool:
        old, self._foresight = self._foresight, foresight
        is_news = foresight != old and not self._warded.is_over
        if is_news:
            try:
                with lent(foresight) as ear:
                    self._ask(self._warded.unheard, foresight.due_s, foresight.numbers, ear)
            except OSError as error:
                # no descriptor to be had for the ear: that is no reason to end the command
                self._ask(self._warded.unheard, foresight.due_s, (), -1)
                self._account.note(
                    f"while this program does not run, no signal to it ends the command: {error.strerror}"
                )
        return is_news

    def left_behind(self) -> list[Found]:
        return self._left or []  # the warden may have ended them by now

    def leftovers(self) -> list[Found] | None:
        if self._warded.is_over:
            return list(self._survivors)
        return self._left

    def signal(self, signum: int) -> None:
        self._ask(self._warded.signal, signum)

    # -- the ending ------------------------------------------------------------------------------------------

    def begin(self, cause: str, kill_at: float) -> None:
        self._kill_at = kill_at
        if self.job is not None:
            self.job.ending()
        if not self._warded.is_over:
            self._ask(self._warded.stop, steps_until(self._signum, kill_at - monotonic()), cause)
            self._warded.rouse()

    def go_on(self, kill_at: float, pump: Pump) -> float | None:
        assert self._kill_at is not None
        warded = self._warded
        self._hear()
        if warded.is_over:
            return self._await_last_word(pump)
        if kill_at < self._kill_at:
            self._kill_at = kill_at
            self._ask(warded.hurry, max(0.0, kill_at - monotonic()))
        now = monotonic()
        if self._replaced_at is None:
            until = self._kill_at + MARGIN_S + (DRAIN_S if self._has_killed else 0.0)
            if now < until:
                return until
            self._replaced_at = now
            warded.replace()
        until = self._replaced_at + DRAIN_S + MARGIN_S
        if now < until:
            return until
        self._give_up("its warden and the launcher do not answer; somebody may have stopped them")
        pump.unwatch(warded.fileno())
        return None

    def _ask(self, request: Any, *args: Any, **options: Any) -> None:
        try:
            request(*args, **options)
        except TimeoutError as error:
            self._account.note(str(error))

    def survivors(self) -> list[Found]:
        return self._survivors

    def was_asked_in_time(self) -> bool:
        if self._asked_after is None:
            return not self._facts or bool(self._facts["cause"])
        return self._exited_after is None or self._asked_after <= self._exited_after

    def finish(self) -> None:
        self._end_job(is_asked=self._is_asked)
        self._warded.close()
        if self._last_word is not None:
            self._last_word.close()
        self._tell_waiting()

    def undo(self) -> None:
        warded = self._warded
        self._end_job(is_asked=True)
        self._ask(warded.hurry, 0.0)
        until = monotonic() + DRAIN_S + MARGIN_S
        while True:
            warded.read()
            left = until - monotonic()
            if warded.is_over or left <= 0:
                break
            ready = select.poll()
            ready.register(warded.fileno(), select.POLLIN)
            ready.poll(left * 1000)
        warded.close()

    def strike(self) -> None:
        self._ask(self._warded.hurry, 0.0)


def steps_until(signum: int, seconds: float) -> Steps:
    """The signal, and KILL after so many seconds; KILL at once where there is no time."""
    return ((signum, seconds),) if seconds > 0 else ()


def found_of(member: tuple[int, int, int, str, bytes, str], reason: str) -> Found:
    pid, start, _, state, comm, _ = member
    return Found(Entry(pid, 0, 0, 0, state, start, comm), reason)


def _ended_by(status: int) -> str:
    return f"ended by {name_of(-status)}" if status < 0 else f"gone with status {status}"
