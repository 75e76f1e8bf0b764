"""One command under supervision: the loop that watches it, moves its output, and ends it when that is due.

Invariants (who drives the loop, and how others reach it, stands in ``drive``)
  S1  The command is admitted by its owner before it is started; a refused admission starts nothing.
  S2  The loop waits in one ``poll``: on the pipes, on what its custody watches, and a wake-up descriptor.
  S3  A command is let go of last: after it was found or proved to be gone, or when it was given up.
  S4  Every phase ends: running by exit, timeout or stop; draining after ``SILENCE_S`` without output or
      ``DRAINING_S`` in all, and once it is known whether anything is left; ending by grace and drain; handing,
      when those who are given the output take the rest of it, as ``consumers`` says.
  S5  At each wake-up exit, stop and timeout are read before any of them is acted on. A stop goes before an
      exit, an exit before a timeout, and a timeout before silence; what was seen besides is kept as evidence.

A command that has ended by itself and left processes behind is *left*: it keeps its place with the owner, it
is held on to, the pipes stay open, and nobody drives until a stop or the owner's end. How a command is held, by a
warden or as a group of processes, is its ``custody``'s.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from turnctl import points
from turnctl.processes import leaving
from turnctl.processes.account import Account
from turnctl.processes.begin import begin
from turnctl.processes.closing import Closing
from turnctl.processes.consumers import Consumers
from turnctl.processes.custody import Custody, Found
from turnctl.processes.leader import reap_abandoned
from turnctl.processes.output import Pump, Sink, Source
from turnctl.processes.patience import Patience, StopWanted
from turnctl.processes.pipes import Pipes
from turnctl.processes.pty import Pty
from turnctl.processes.spawn import name_a_line
from turnctl.processes.spec import Spec
from turnctl.processes.tee import Tee
from turnctl.processes.tree import is_still
from turnctl.processes.undisturbed import Undisturbed
from turnctl.records.process import ProcessOutcome, pid_words
from turnctl.spelling import in_words
from turnctl.tokens.activities import Owner
from turnctl.tokens.threads import needing_threads
from turnctl.waiting.attention import is_main
from turnctl.waiting.wakeup import Wakeup

__all__ = ["Supervision"]

SILENCE_S = 0.2
DRAINING_S = 1.0
#: how long a command that was ended for its owner waits until the owner knows of its stop
HEARING_S = 1.0
#: what leftovers may add to the output after the main process has ended
DRAINING_BYTES = 8 * 1024 * 1024


class Supervision(Closing):
    """A command from admission to its end; also what its owner holds of it (``tokens.activities.Owned``)."""

    def __init__(
        self,
        spec: Spec,
        owner: Owner,
        *,
        stdout: Sink | None,
        stderr: Sink | None,
        stdin: Source | None,
        keeps_leftovers: bool,
        tee: Tee | None = None,
        changed: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(spec, owner)
        self._consumers = Consumers(stdout, stderr, tee, spec.idle_s)
        self.account = Account(spec, self._consumers)
        #: a stop was seen before everything had ended
        self.interrupted = False
        self._source = stdin
        self._keeps_leftovers = keeps_leftovers
        self._changed = changed
        self._unwatch = lambda: None
        self._deadline: float | None = None
        self._exited_at = 0.0
        self._taken_at_exit = 0
        self._there: list[Found] = []
        #: the terminal that was made for it
        self.pty: Pty | None = None

    # -- starting --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the command and supervise it on this thread until it is over or left."""
        self._drive_here(self._run)

    def _run(self) -> None:
        self._start()
        self._unless_struck(self._attend)

    def launch(self) -> None:
        """Start the command on this thread and supervise it on one of its own."""
        self._is_waited_for = False
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
        custody: Custody | None = None
        pipes: Pipes | None = None
        quiet = Undisturbed()
        quiet.begin()
        self._wakeup = Wakeup(bytewise=is_main())
        try:
            leaving.enter(self)
            self._activity = self._owner.admit(self)
        except BaseException:
            leaving.leave(self)
            self._consumers.drop()
            self._wakeup.close()
            quiet.end()
            raise
        try:
            points.reach("processes.run.admitted")
            if self._activity.has_record:
                self._have_recorded(quiet)
            with needing_threads(self.name):
                self._unwatch = self._owner.watch(self._on_bell)
            quiet.let_in()  # a signal that has come by now counts before the start
            if self._is_stop_wanted():
                self._refuse()
            with needing_threads(self.name):
                self._consumers.begin(self.wake)
            pipes = Pipes(self.spec)
            try:
                custody = self._hold(pipes, self._wakeup)
            finally:
                pipes.close_theirs()
            with needing_threads(self.name):
                self._take_over(custody, pipes, self._wakeup)
        except BaseException as error:
            if pipes is not None:
                pipes.close_ours()
            if custody is not None:
                self._custody = None
                custody.undo()
            self._close_unstarted(error)
            name_a_line(self.spec, error)
            quiet.end()
            raise
        self._unless_struck(lambda: self._announce(quiet))

    def _hold(self, pipes: Pipes, wakeup: Wakeup) -> Custody:
        patience = Patience(wakeup.fd, wakeup.clear, self._start_is_over_at)
        try:
            return begin(self.spec, self.account, pipes, wakeup.ring, self.grace_s, self._foresee(), patience)
        except StopWanted:
            self._refuse()

    def _close_unstarted(self, error: BaseException) -> None:
        self.phase = "over"
        leaving.leave(self)
        if self.pty is not None:
            self.pty.close()
        self._activity.close("failed", f"could not be started: {in_words(error)}")
        self._unwatch()
        self._consumers.drop()
        if self._wakeup is not None:
            self._wakeup.close()

    def _take_over(self, custody: Custody, pipes: Pipes, wakeup: Wakeup) -> None:
        self.account.started_at = monotonic()
        if self.spec.timeout_s is not None:
            self._deadline = self.account.started_at + self.spec.timeout_s
        self._consumers.idle.begin()
        pump = self._pump = Pump()
        pump.watch(wakeup.fd)
        custody.watch(pump)
        self._custody = custody
        self.phase = "running"
        ours = pipes.ours
        for name, sink in self._consumers.sinks.items():
            if name in ours and sink is not None:
                pump.read_from(ours[name], sink)
                del ours[name]
        self._activity.identify(custody.pid)
        self.pty, pipes.pty = pipes.pty, None
        if "stdin" in ours and self._source is not None:
            if self.pty is not None:
                self._source.last_words = self.pty.last_words
            pump.write_to(ours["stdin"], self._source)
            del ours["stdin"]

    def _announce(self, quiet: Undisturbed) -> None:
        quiet.end()
        points.reach("processes.run.spawned")
        custody = self._held
        if self.spec.on_start is not None and custody.pid is not None:
            self.spec.on_start(custody.pid)

    @property
    def _held(self) -> Custody:
        assert self._custody is not None
        return self._custody

    # -- the loop --------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        wakeup = self._wakeup
        assert wakeup is not None
        while True:
            self._answer_moves()
            until = self._advance(monotonic())
            if self.phase == "over":
                self._refuse_moves()
                return
            if self.phase == "left" and not self._is_called:
                return
            for fd in self._pump.wait(until, full_too=self.phase == "draining"):
                if fd == wakeup.fd:
                    wakeup.clear()
                    self._tell_foreseen()
                    while self._to_send:
                        self._held.signal(self._to_send.popleft())
                    self._tell()
                if self.account.ended_at is None:
                    self._held.notice(None if fd == wakeup.fd else fd, self._pump)

    def _advance(self, now: float) -> float | None:
        """Decide what the facts mean, act on it, and say how long to wait for more of them."""
        if self.phase == "running":
            return self._while_running(now)
        if self.phase == "draining":
            return self._while_draining(now)
        if self.phase == "waiting":
            return self._while_waiting(now)
        if self.phase == "left" and self._asked:
            return self._begin_ending(now, "stop")
        if self.phase == "ending":
            return self._while_ending()
        if self.phase == "handing":
            return self._while_handing(now)
        return None

    def _while_running(self, now: float) -> float | None:
        custody = self._held
        ended = custody.look()
        if ended:
            points.reach("processes.exit.observed")
        wanted = self._is_stop_wanted()
        ahead = custody.began_by_itself in ("signal", "deadline")  # the owner's stop, before the owner knew
        timed_out = self._deadline is not None and now >= self._deadline and not ended
        timed_out = timed_out or custody.began_by_itself == "timeout"
        is_idle = not (ended or wanted or timed_out) and self._consumers.idle.has_passed(self._pump)
        if wanted or timed_out or is_idle or custody.began_by_itself:
            self.interrupted = wanted
            self.account.stopped = ahead or (wanted and not ended)  # the order of ahead is looked at in the end
            self.account.timed_out = timed_out or is_idle
            self.account.was_idle = is_idle
            return self._begin_ending(now, "stop" if wanted or ahead else "timeout")
        if ended:
            self.phase = "draining"
            self._exited_at = monotonic()
            self._taken_at_exit = self._pump.taken
            self._tell()
            points.reach("processes.exit.draining")
            return self._while_draining(self._exited_at)
        return self._sooner(custody.look_at(now), self._deadline, self._consumers.idle.ends_at(self._pump))

    def _while_draining(self, now: float) -> float | None:
        custody = self._held
        if self._is_stop_wanted() or custody.began_by_itself:
            self.interrupted = self._is_stop_wanted()
            self.account.left(tuple(one.survivor for one in custody.left_behind()))
            return self._begin_ending(now, "stop" if self.interrupted else custody.began_by_itself)
        silent_at = max(self._exited_at, self._pump.taken_at) + SILENCE_S
        until = min(silent_at, self._exited_at + DRAINING_S)
        is_much = self._pump.taken - self._taken_at_exit > DRAINING_BYTES
        if self._pump.is_reading and now < until and not is_much:
            return self._sooner(until)
        return self._settle(now)

    def _settle(self, now: float) -> float | None:
        """The main process has ended by itself and its output is in: is anything left?"""
        left = self._held.leftovers()
        if left is None:
            return self._sooner()
        self.account.output_held = self._pump.is_reading
        if not left:
            return self._finish([])
        self._there = left
        self.account.left(tuple(one.survivor for one in left))
        policy = self.spec.leftovers
        if policy == "wait":
            self.phase = "waiting"
            return self._while_waiting(now)
        self._pump.finish()
        if policy == "end-now" or not (self._keeps_leftovers or policy == "detach"):
            return self._begin_ending(now, "leftovers")
        return self._hand_out("left")

    def _while_waiting(self, now: float) -> float | None:
        """The main process has ended, and what it left is waited for; its output is still read."""
        custody = self._held
        timed_out = self._deadline is not None and now >= self._deadline
        timed_out = timed_out or custody.began_by_itself == "timeout"
        if self._is_stop_wanted() or timed_out or custody.began_by_itself:
            self.interrupted = self._is_stop_wanted()
            self.account.timed_out = timed_out
            return self._begin_ending(now, "stop" if self.interrupted else "timeout")
        left = custody.leftovers()
        if not left:
            self.account.output_held = self._pump.is_reading and not custody.empty_proven
            return self._finish([])
        custody.await_end(left, self._pump)
        return self._sooner(self._deadline)

    # -- the ending ------------------------------------------------------------------------------------------

    def _begin_ending(self, now: float, cause: str) -> float | None:
        self._asked_at = now
        self.phase = "ending"
        self.account.was_for_leftovers = cause == "leftovers"
        self._held.begin(cause, self._kill_at())
        self._tell()
        return self._while_ending()

    def _while_ending(self) -> float | None:
        custody = self._held
        if not self.interrupted and self._is_stop_wanted():
            self.interrupted = True
            self.account.stopped = self.account.stopped or not custody.look()
        until = custody.go_on(self._kill_at(), self._pump)
        if until is None and custody.began_by_itself in ("signal", "deadline") and not self.interrupted:
            # the owner is about to hear of what has ended its command
            until = self._asked_at + HEARING_S if monotonic() < self._asked_at + HEARING_S else None
        if until is not None:
            return self._sooner(until)
        if not custody.was_asked_in_time():
            # it had ended before that reached it
            self.account.stopped = self.account.was_idle = False
            self.account.timed_out = self.account.timed_out and bool(self.account.leftovers)
        return self._finish(custody.survivors())

    def _is_over(self) -> None:
        leaving.leave(self)

    def strike(self) -> None:
        """Have it killed although another thread drives: the last thing to do when the program ends."""
        custody = self._custody
        if custody is not None and self.account.ended_at is None:
            custody.strike()

    # -- what others see --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed()

    @property
    def name(self) -> str:
        return self.spec.title

    def _thread_name(self) -> str:
        custody = self._custody
        return f"turnctl-process-{custody.pid if custody is not None else 'new'}"

    def alive(self) -> tuple[str, ...]:
        """What of it still runs, in words for a report."""
        custody = self._custody
        if self.phase in ("left", "handing", "over"):
            there = [(one.entry.pid, one.entry.name) for one in self._there if is_still(one.entry)]
        else:
            there = [] if custody is None else [(custody.pid or 0, self.name)]
        return (*(f"process {pid_words(pid)} ({name})" for pid, name in there), *self._consumers.alive())

    def outcome(self) -> ProcessOutcome | None:
        """What is known of the command; None if it was never started."""
        return None if self._custody is None else self.account.outcome(self._custody)

    def _handed_outcome(self, to: Owner | None) -> ProcessOutcome | None:
        return None if self._custody is None else self.account.handed(self._custody, None if to is None else to.turn_id)
