"""One command under supervision: the loop that watches it, moves its output, and ends it when that is due.

Invariants (who drives the loop, and how others reach it, stands in ``drive``)
  S1  The command is admitted by its owner before it is started; a refused admission starts nothing.
  S2  The loop waits in one ``poll``: on the pipes, a descriptor of the main process, those of the members
      while a ladder goes on, and a wake-up descriptor.
  S3  The main process is reaped last: after a look at the tree that found nobody, or when the tree was given
      up.
  S4  Every phase ends: running by exit, timeout or stop; draining after ``SILENCE_S`` without output or
      ``DRAINING_S`` in all; ending by the ladder's grace and drain.
  S5  At each wake-up exit, stop and timeout are read before any of them is acted on. A stop goes before an
      exit and an exit before a timeout, and what was seen besides is kept as evidence.

A command that has ended by itself and left processes behind is *left*: it keeps its place with the owner, the
main process stays unreaped, the pipes stay open, and nobody drives until a stop or the owner's end.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from time import monotonic

from turnctl import points
from turnctl.errors import TurnOver
from turnctl.processes import leaving
from turnctl.processes.account import Account
from turnctl.processes.demand import Demanded
from turnctl.processes.ladder import Ladder
from turnctl.processes.leader import Leader, reap_abandoned
from turnctl.processes.output import Pump, Sink, Source
from turnctl.processes.spawn import Started, start, undo
from turnctl.processes.spec import Spec
from turnctl.processes.table import Entry
from turnctl.processes.threads import needing_threads
from turnctl.processes.tree import Tree, is_still
from turnctl.processes.undisturbed import Undisturbed
from turnctl.records.process import ProcessOutcome
from turnctl.tokens.activities import Activity, Owner
from turnctl.waiting.attention import is_main
from turnctl.waiting.wakeup import Wakeup

__all__ = ["Supervision"]

SILENCE_S = 0.2
DRAINING_S = 1.0
#: what leftovers may add to the output after the main process has ended
DRAINING_BYTES = 8 * 1024 * 1024
#: between two looks at a traced process, whose status its tracer may hold back
TRACED_PAUSE_S = 0.05
LEFT_OVER = "still running when the command had ended"


class Supervision(Demanded):
    """A command from admission to its end; also what its owner holds of it (``tokens.activities.Owned``)."""

    kind = "process"

    def __init__(
        self,
        spec: Spec,
        owner: Owner,
        *,
        stdout: Sink | None,
        stderr: Sink | None,
        stdin: Source | None,
        keeps_leftovers: bool,
        changed: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(spec, owner)
        self.account = Account(spec)
        #: a stop was seen before everything had ended
        self.interrupted = False
        self._sinks = (stdout, stderr)
        self._source = stdin
        self._keeps_leftovers = keeps_leftovers
        self._changed = changed
        self._unwatch: Callable[[], object] = lambda: None
        self._deadline: float | None = None
        self._exited_at = 0.0
        self._taken_at_exit = 0
        self._is_due = False
        self._is_traced = False
        self._there: list[Entry] = []
        self._leader: Leader | None = None
        self._ladder: Ladder | None = None
        # set by _start, before anything can ask for them
        self._activity: Activity
        self._tree: Tree
        self._pump: Pump

    # -- starting --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the command and supervise it on this thread until it is over or left."""
        self._drive_here(self._run)

    def _run(self) -> None:
        self._start()
        self._unless_struck(self._attend)

    def launch(self) -> None:
        """Start the command on this thread and supervise it on one of its own."""
        self._drive_here(self._start)
        try:
            with needing_threads(self.name):
                self._drive_in_background()
        except BaseException:
            self.end(monotonic)
            raise

    def _unless_struck(self, work: Callable[[], None]) -> None:
        """Do ``work``; if an exception strikes, end the command before it goes on. A second one kills at once."""
        try:
            work()
        except BaseException:
            self._asked = True
            for _ in range(3):
                try:
                    self._go_on()
                    break
                except BaseException:  # noqa: BLE001 - the first one is raised below
                    self._limits.append(monotonic)
            raise

    def _start(self) -> None:
        reap_abandoned()
        started: Started | None = None
        quiet = Undisturbed()
        quiet.begin()
        self._wakeup = Wakeup(bytewise=is_main())
        try:
            leaving.enter(self)
            self._activity = self._owner.admit(self)
        except BaseException:
            leaving.leave(self)
            self._wakeup.close()
            quiet.end()
            raise
        try:
            points.reach("processes.run.admitted")
            with needing_threads(self.name):
                self._unwatch = self._owner.watch(self._on_bell)
            quiet.end()  # a signal that has come by now counts before the start
            quiet.begin()
            self._refuse_if_stopped()
            started = start(self.spec)
            with needing_threads(self.name):
                self._take_over(started, self._wakeup)
        except BaseException as error:
            if started is not None:
                undo(started)
            self._close_unstarted(error)
            quiet.end()
            raise
        self._unless_struck(lambda: self._announce(quiet))

    def _refuse_if_stopped(self) -> None:
        if self._is_stop_wanted():
            self._activity.close("cancelled", "stopped before it was started")
            self._owner.check()
            raise TurnOver("the turn has ended, so the command was not started", turn_id=self._owner.turn_id)

    def _close_unstarted(self, error: BaseException) -> None:
        self.phase = "over"
        leaving.leave(self)
        self._activity.close("failed", f"could not be started: {error}")
        self._unwatch()
        if self._wakeup is not None:
            self._wakeup.close()

    def _take_over(self, started: Started, wakeup: Wakeup) -> None:
        self.account.started_at = monotonic()
        if self.spec.timeout_s is not None:
            self._deadline = self.account.started_at + self.spec.timeout_s
        leader = Leader(started.pid, wakeup.ring)
        self._tree = Tree(leader)
        pump = self._pump = Pump()
        pump.watch(wakeup.fd)
        if leader.fd is not None:
            pump.watch(leader.fd)
        for fd, sink in zip((started.stdout, started.stderr), self._sinks, strict=True):
            if fd is not None and sink is not None:
                pump.read_from(fd, sink)
        if started.stdin is not None and self._source is not None:
            pump.write_to(started.stdin, self._source)
        self._leader = leader
        self.phase = "running"

    def _announce(self, quiet: Undisturbed) -> None:
        quiet.end()
        points.reach("processes.run.spawned")
        if self.spec.on_start is not None:
            self.spec.on_start(self._tree.leader.pid)

    # -- the loop --------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        wakeup = self._wakeup
        assert wakeup is not None
        while True:
            until = self._advance(monotonic())
            if self.phase == "over" or (self.phase == "left" and not self._asked):
                return
            for fd in self._pump.wait(until, full_too=self.phase == "draining"):
                if fd == wakeup.fd:
                    wakeup.clear()
                    self._tell()
                else:
                    self._forget(fd)
                # the tree is worth a look when the last one that was waited for has ended
                self._is_due = self._is_due or (not self._tree.held and self._tree.leader.look())

    def _forget(self, fd: int) -> None:
        self._pump.unwatch(fd)
        if fd == self._tree.leader.fd:
            self._is_traced = not self._tree.leader.look()
        else:
            self._tree.let_go(fd)

    def _advance(self, now: float) -> float | None:
        """Decide what the facts mean, act on it, and say how long to wait for more of them."""
        if self.phase == "running":
            return self._while_running(now)
        if self.phase == "draining":
            return self._while_draining(now)
        if self.phase == "left" and self._asked:
            return self._begin_ladder(now)
        if self.phase == "ending":
            return self._while_ending()
        return None

    def _while_running(self, now: float) -> float | None:
        ended = self._tree.leader.look()
        if ended:
            points.reach("processes.exit.observed")
        wanted = self._is_stop_wanted()
        timed_out = self._deadline is not None and now >= self._deadline and not ended
        if wanted or timed_out:
            self.interrupted = wanted
            self.account.stopped = wanted and not ended
            self.account.timed_out = timed_out
            return self._begin_ladder(now)
        if ended:
            self.phase = "draining"
            self._exited_at = monotonic()
            self._taken_at_exit = self._pump.taken
            self._tell()
            points.reach("processes.exit.draining")
            return self._while_draining(self._exited_at)
        if self._is_traced:
            return self._sooner(now + TRACED_PAUSE_S, self._deadline)
        return self._sooner(self._deadline)

    def _while_draining(self, now: float) -> float | None:
        if self._is_stop_wanted():
            self.interrupted = True
            return self._begin_ladder(now)
        silent_at = max(self._exited_at, self._pump.taken_at) + SILENCE_S
        until = min(silent_at, self._exited_at + DRAINING_S)
        is_much = self._pump.taken - self._taken_at_exit > DRAINING_BYTES
        if self._pump.is_reading and now < until and not is_much:
            return self._sooner(until)
        return self._settle(now)

    def _settle(self, now: float) -> float | None:
        """The main process has ended by itself and its output is in: is anything left?"""
        left = self._tree.leftovers()
        self.account.output_held = self._pump.is_reading
        if not left:
            self._finish([])
            return None
        self._there = left
        self.account.leftovers = tuple(self._tree.survivor(member, LEFT_OVER) for member in left)
        self._pump.finish()
        if not self._keeps_leftovers:
            return self._begin_ladder(now)
        self.phase = "left"
        self._tell()
        return None

    # -- the ending ------------------------------------------------------------------------------------------

    def _begin_ladder(self, now: float) -> float | None:
        self._asked_at = now
        self._ladder = Ladder(kill_at=self._kill_at())
        self.phase = "ending"
        self._is_due = True
        self._tell()
        return self._while_ending()

    def _while_ending(self) -> float | None:
        ladder, tree = self._ladder, self._tree
        assert ladder is not None
        if not self.interrupted and self._is_stop_wanted():
            self.interrupted = True
            self.account.stopped = not tree.leader.look()
        ladder.shorten(self._kill_at())
        now = monotonic()  # after the limits were read: a kill that was asked for just now is due
        if not self._is_due and now < ladder.look_at:
            return self._sooner(ladder.look_at)
        self._is_due = False
        members = tree.members()
        self.account.saw(members)
        move = ladder.step(now, alive=len(members), unkilled=tree.count_unkilled(members))
        if move in ("ask", "kill"):
            if move == "ask":
                self._ask_all(members)
            else:
                self._kill_all(members)
            move = ladder.step(now, alive=len(members), unkilled=0)
        if move == "wait":
            tree.hold(members)
            for fd in tree.held:
                self._pump.watch(fd)
            return self._sooner(ladder.look_at)
        self._finish(members)
        return None

    def _ask_all(self, members: list[Entry]) -> None:
        number = self.spec.stop_signal
        self.account.sent(number, self._tree.signal(members, number))
        # a stopped process takes the signal only once it goes on
        stopped = [member for member in members if member.state == "T"]
        woken = [member.pid for member in stopped if self._tree.signal_one(member, signal.SIGCONT)]
        self.account.sent(signal.SIGCONT, [("process", pid) for pid in woken])
        points.reach("processes.ladder.asked")

    def _kill_all(self, members: list[Entry]) -> None:
        self.account.sent(signal.SIGKILL, self._tree.signal(members, signal.SIGKILL))
        self.account.killed.update(member.identity for member in members)
        points.reach("processes.ladder.killed")

    def _finish(self, survivors: list[Entry]) -> None:
        """Nothing was found any more, or what is there is given up: close the account and all that is
        open.
        """
        leader, tree = self._tree.leader, self._tree
        if tree.is_blind:
            leader.signal_group(signal.SIGKILL)
            self.account.note("the process table cannot be read here: only the command's own group was ended")
        self._pump.drain()
        self._pump.close()
        self._there = survivors
        self.account.survivors = tuple(tree.survivor(member) for member in survivors)
        tree.close()
        if not leader.reap():
            leader.abandon()
        self._unwatch()
        self.account.ended_at = monotonic()
        self._activity.close(*self.account.verdict(leader.returncode))
        self.phase = "over"
        leaving.leave(self)
        if self._wakeup is not None:
            self._wakeup.close()
        self._tell()
        points.reach("processes.run.over")

    def strike(self) -> None:
        """Send KILL to the group although another thread drives: the last thing to do when the program ends."""
        leader = self._leader
        if leader is not None and self.phase != "over":
            leader.signal_group(signal.SIGKILL)

    # -- what others see --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()

    @property
    def name(self) -> str:
        return self.spec.title

    def _thread_name(self) -> str:
        return f"turnctl-process-{self._leader.pid if self._leader else 'new'}"

    def alive(self) -> tuple[str, ...]:
        """What of it still runs, in words for a report."""
        if self.phase in ("left", "over"):
            there = [(entry.pid, entry.name) for entry in self._there if is_still(entry)]
        else:
            there = [] if self._leader is None else [(self._leader.pid, self.name)]
        return tuple(f"process {pid} ({name})" for pid, name in there)

    def outcome(self) -> ProcessOutcome | None:
        """What is known of the command; None if it was never started."""
        return None if self._leader is None else self.account.outcome(self._leader, self._tree.containment)
