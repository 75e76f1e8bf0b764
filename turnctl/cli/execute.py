"""Running one command as a turn of this process: from the checked arguments to how this process has to end."""

# annotations are values here: NamedTuple compiles each that is a text, which is most of the time it takes

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import turnctl.processes.command  # noqa: F401 - what ``Turn.run`` loads, before the time of its timeout runs
from turnctl import log
from turnctl.cli import summary
from turnctl.cli.ending import Ending
from turnctl.cli.environment import undo_coercion
from turnctl.cli.members import members, warden_of
from turnctl.cli.presses import Presses
from turnctl.cli.record import NO_RECORD, Record, Wanted
from turnctl.cli.status import ExitStatus, decide
from turnctl.cli.streams import BOTH, read_outputs
from turnctl.cli.talk import complain, explain, names, say
from turnctl.clock import format_duration, parse_duration
from turnctl.processes.containment import Choice
from turnctl.processes.limits import read_limits
from turnctl.processes.request import Leftovers as Policy
from turnctl.processes.signames import name_of
from turnctl.processes.sizes import parse_size
from turnctl.processes.table import is_readable
from turnctl.processes.terminal import Terminal
from turnctl.records.process import Completed, ProcessOutcome, pid_words
from turnctl.records.stops import StopRecord
from turnctl.records.words import who
from turnctl.spelling import in_words
from turnctl.tokens.ruled import keeper_for
from turnctl.turns import Turn

if TYPE_CHECKING:
    from turnctl.cli.foreground import Foreground
    from turnctl.cli.relay import Relay
    from turnctl.cli.window import Window

__all__ = ["Execution", "NotStarted", "Plan"]


#: deaths that shells do not mention either: a key of the terminal, a reader that has seen enough
_SILENT = (signal.SIGINT, signal.SIGPIPE)


class Plan(NamedTuple):
    """What the command line asked for, checked."""

    argv: tuple[str, ...]
    timeout: str | None
    grace: str
    stop_signal: int
    folder: str | None
    containment: Choice
    max_output: str | None
    idle_timeout: str | None
    leftovers: Policy
    summary: str | None
    quiet: bool
    #: more of what ``turn.run`` takes
    options: dict[str, Any]
    tty: str = "inherit"
    record: Wanted = NO_RECORD
    session: str | None = None


#: what a command has to be started, beyond its timeout
START_S = 10.0


class NotStarted(Exception):
    """The command could not be started; ``error`` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class Execution:
    """One run of a plan. Used by the main thread, once; its handlers interrupt it there."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        #: counts from the moment when the command runs
        self._timeout_s = parse_duration(plan.timeout, what="--timeout", none=True)
        start_s = None if self._timeout_s is None else self._timeout_s + START_S
        watches = plan.max_output is not None or plan.idle_timeout is not None
        self._watches = watches
        self._outputs = read_outputs(keeps=plan.record.keeps, watches=watches, tty=plan.tty)
        self._record = Record(plan.record, plan.argv, plan.folder, self._outputs)
        self._turn = Turn(plan.session, timeout=start_s, grace=plan.grace, inherit=False, task=self._record.task)
        self._foreground: Foreground | Window | None = None
        self._relay: Relay | None = None
        self._leader: int | None = None
        self._warden: int | None = None
        self._unsaid: list[StopRecord] = []
        self._is_waited_for = False

    def run(self) -> Ending:
        """Run the command to its end, and everything that it started; says on stderr what a person has to know.

        Blocks until then. Raises ``NotStarted`` where the command could not be started, ``NotRecorded`` where it has no
        record, which was required.
        """
        try:
            return self._run()
        finally:
            self._record.close()

    def _run(self) -> Ending:
        undo_coercion()
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or the status would be lost
        terminal = Terminal.find()
        if self._plan.tty == "new":
            from turnctl.cli.window import Window

            self._foreground = Window(terminal, is_stopping=self._is_stopping)
        elif terminal is not None and self._plan.tty == "inherit":
            from turnctl.cli.foreground import Foreground

            self._foreground = Foreground(terminal, is_stopping=self._is_stopping, quiet=self._plan.quiet)
        with Presses(self._turn, self._leave, quiet=self._plan.quiet):
            is_restored = False
            try:
                with suppress(SystemExit), self._record.required(), self._turn:
                    self._turn.on_cancel(self._tell_of_stop)
                    self._record.begun()
                    try:
                        completed = self._run_command()
                    except BaseException:
                        self._pass_on(gives_up=True)
                        raise
                    self._pass_on(gives_up=False)
                    self._tell_of_leftovers(completed)
                    if completed.returncode != 0:
                        # its turn has failed as well, if it was not stopped: docs/adr/0019
                        raise SystemExit(1)
                is_restored = self._died_of_itself()
            finally:
                self._give_terminal_back(restore=not is_restored)
            return self._account()

    @property
    def is_started(self) -> bool:
        """Whether the command has run, if only for a moment."""
        return self._leader is not None

    def _is_stopping(self) -> bool:
        turn = self._turn
        return turn._token is not None and (turn.stopping or turn.outcome is not None)

    def _run_command(self) -> Completed:
        plan = self._plan
        options: dict[str, Any] = {"stdin": "inherit", "capture": False}
        if self._foreground is not None:
            options |= self._foreground.options()
        started = options.get("on_start")

        def on_start(pid: int) -> None:
            self._leader = pid
            if self._timeout_s is not None:
                self._turn.set_timeout(self._timeout_s)
            self._warden = warden_of(pid)
            self._record.started(pid)
            self._say_the_rest()
            log.event("run.started", turn=self._turn.turn_id, pid=pid, command=plan.argv[0])
            explain(
                f"{plan.argv[0]} runs as process {pid}; a stop asks it by {name_of(plan.stop_signal)} and kills it "
                f"after {plan.grace}"
            )
            if started is not None:
                started(pid)

        options = {**plan.options, **options, "on_start": on_start}
        if self._record.is_kept:
            options["env_extra"] = self._record.environment() | options.get("env_extra", {})
        if self._watches or (self._outputs.through and self._record.is_kept):
            from turnctl.cli.relay import Relay

            self._relay = Relay(self._outputs, parse_size(plan.max_output, what="--max-output"))
            idle_s = parse_duration(plan.idle_timeout, what="--idle-timeout", none=True)
            options |= {"tee": self._relay, "idle_timeout": idle_s, "merge_stderr": self._outputs.is_joint}
        if plan.tty == "new" and self._foreground is not None:
            self._foreground.kept = keeper_for(self._turn, BOTH, "")  # type: ignore[union-attr]
        try:
            return self._turn.run(
                plan.argv,
                cwd=plan.folder,
                close_fds=False,  # what the caller left open is meant for the command; nothing of ours is
                stop_signal=plan.stop_signal,
                containment=plan.containment,
                leftovers=plan.leftovers,
                **options,
            )
        except OSError as error:
            if self.is_started:
                raise
            raise NotStarted(error) from error

    def _pass_on(self, *, gives_up: bool) -> None:
        """Have all that a terminal of its own has shown on record, before the end of the turn closes that."""
        if self._plan.tty == "new" and self._foreground is not None:
            self._turn.set_timeout(None)  # the command is over
            self._foreground.pass_on(gives_up=gives_up)  # type: ignore[union-attr]

    def _died_of_itself(self) -> bool:
        """Whether the command chose its end, so that what it did to the terminal's settings was meant."""
        report = self._turn.report
        status = report.processes[-1].returncode if report.processes else None
        return report.stop is None and status is not None and 0 <= status < 128

    def _give_terminal_back(self, *, restore: bool) -> None:
        if self._foreground is not None:
            self._foreground.end(restore=restore)

    # -- what is said -----------------------------------------------------------------------------------------

    def _say(self, *lines: str) -> None:
        if not self._plan.quiet:
            say(*lines)

    def _members(self) -> list[tuple[str, int]]:
        return members(self._leader, self._warden)

    def _tell_of_stop(self) -> None:
        """Runs on the turn's bridge thread, beside the ending itself."""
        record = self._turn.token.record
        assert record is not None
        log.event("run.stopped", turn=self._turn.turn_id, cause=record.cause, reason=record.reason)
        self._say(f"stop accepted ({record.reason or who(record)})", *self._waiting_for())
        self._unsaid.append(record)
        if self._leader is not None:
            self._say_the_rest()

    def _waiting_for(self) -> list[str]:
        record, found = self._turn.token.record, self._members()
        self._is_waited_for = bool(found)
        return [f"waiting for {_counted(found)}, {self._what_is_sent(record)}"] if found and record is not None else []

    def _say_the_rest(self) -> None:
        """After a stop that came in the moment of the start, when nobody could be named yet."""
        try:
            self._unsaid.pop()
        except IndexError:
            return  # nothing was stopped, or another thread says it
        if not self._is_waited_for:
            for line in self._waiting_for():
                self._say(line)

    def _what_is_sent(self, record: StopRecord) -> str:
        at = self._turn.kill_at()
        if self._plan.stop_signal == signal.SIGKILL or (at is not None and at <= record.at):
            return "KILL now"  # nobody is asked
        left = 0.0 if at is None else at - time.monotonic()
        killed = f"KILL in {format_duration(round(left, 1))}" if left > 0 else "KILL now"
        return f"{name_of(self._plan.stop_signal)} first, {killed}"

    def _tell_of_leftovers(self, completed: Completed) -> None:
        left = completed.outcome.leftovers
        if left and self._plan.leftovers == "end":
            found = [(one.name, one.pid) for one in left]
            grace = self._turn.grace_s
            is_asked = grace > 0 and self._plan.stop_signal != signal.SIGKILL
            how = f"ending them, KILL in {format_duration(grace)}" if is_asked else "killing them now"
            self._say(f"the command has ended and left {_counted(found)}: {how}")

    # -- the account ------------------------------------------------------------------------------------------

    def _account(self) -> Ending:
        report = self._turn.report
        ending = decide(report, keys=() if self._foreground is None else self._foreground.keys)
        process = report.processes[-1] if report.processes else None
        log.event(
            "run.over", turn=report.turn_id, outcome=report.outcome, state=report.state, status=int(ending.status)
        )
        self._write_summary(ending)
        self._record.account()
        if process is not None and self._relay is not None:
            for line in self._relay.said(process):
                say(line)  # also where all is to be quiet: nothing is lost in silence
        if process is not None and process.timed_out_by == "idle":
            self._say(f"the command wrote nothing for {self._plan.idle_timeout} and was ended")
        elif process is not None and report.stop is None and process.signal not in (None, *_SILENT):
            limit = read_limits(self._plan.options.get("limits")).told_by(process.returncode)
            ended_by = f"the command was ended by {name_of(process.signal)} (status {ending.status})"
            self._say(f"{ended_by}: {limit}" if limit else ended_by)
        is_ended = report.stop is not None or (process is not None and process.timed_out)
        if is_ended or report.execution != "ended" or self._has_ended_leftovers(process):
            self._say(str(report))
            if process is not None and process.escapes is not None and str(process.escapes):
                self._say(f"of these processes: {process.escapes}")
        if process is not None and process.exited and process.returncode is None:
            for note in process.notes:  # why there is none
                self._say(note)
        for survivor in process.survivors if process is not None else ():
            self._say(f"still there: {survivor.name} {pid_words(survivor.pid)}: {survivor.reason}")
        if process is not None and not is_readable():
            self._say("the processes of this machine cannot be seen here: only the command's own group was ended")
        return ending

    def _has_ended_leftovers(self, process: ProcessOutcome | None) -> bool:
        """Whether it left something behind that did not just end by itself while it was waited for."""
        if process is None or not process.leftovers:
            return False
        return self._plan.leftovers == "end" or process.leftovers_fate != "gone"

    def write_not_started(self, ending: Ending, reason: str) -> None:
        """The summary of a command that could not be started."""
        self._write_summary(ending, not_started=reason)

    def _write_summary(
        self, ending: Ending, alive: list[tuple[str, int]] | None = None, not_started: str | None = None
    ) -> None:
        if self._plan.summary is None:
            return
        report = self._turn.report
        values = report.as_dict()
        process = report.processes[-1] if report.processes else None
        status = None if process is None else process.returncode
        ended_by = None if status is None or status >= 0 else name_of(-status)
        values |= {
            "command": list(self._plan.argv),
            "command_status": status if ended_by is None else None,
            "command_signal": ended_by,
            "exit_status": int(ending.status),
            "exit_signal": None if ending.signal is None else name_of(ending.signal),
            "not_started": not_started,
        }
        if alive:
            values["execution"]["alive"] = [f"process {pid} ({name})" for name, pid in alive]
        try:
            summary.write(self._plan.summary, values)
        except OSError as error:
            complain(
                f"the summary could not be written to {self._plan.summary}: {in_words(error, of=self._plan.summary)}"
            )

    def _leave(self) -> None:
        """The third press: stop waiting. Runs in the signal handler, and does not return."""
        try:
            alive = self._members()
            self._write_summary(Ending(ExitStatus.UNRESOLVED), alive)
            self._record.leave([f"process {pid} ({name})" for name, pid in alive])
            self._say(f"stopped waiting; still there: {names(alive) or 'nothing that could be found'}")
            self._give_terminal_back(restore=True)
        finally:
            os._exit(ExitStatus.UNRESOLVED)


def _counted(found: list[tuple[str, int]]) -> str:
    return f"{len(found)} process{'es' if len(found) != 1 else ''} ({names(found)})"
