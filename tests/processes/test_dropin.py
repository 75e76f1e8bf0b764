"""Commands of the stand-in for ``subprocess`` under a turn: owned, ended, and waited for at checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess as standard
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Gate, alive, nap, timed
from standins import BOUND, Background, until

import turnctl
from turnctl import BadArgument, CancelledError, TurnctlError
from turnctl.processes import kept, subprocess
from turnctl.testing import call_at, pause_at

pytestmark = pytest.mark.usefixtures("wardens")  # without them: test_subprocess.py

PIPE = subprocess.PIPE


def stopped_while(fn: Callable[[], object], ready: Callable[[], object], **options: Any) -> tuple[Any, Any]:
    """Run ``fn`` in a turn that is stopped once ``ready()`` is back; the error that came out, and the report."""
    caught: list[CancelledError] = []
    with turnctl.turn(**options) as turn:
        stopper = Background(lambda: (ready(), turn.stop()))
        try:
            fn()
        except CancelledError as error:
            caught.append(error)
            raise
    stopper.result()
    return caught[0], turn.report


# -- the stop -------------------------------------------------------------------------------------------------------


def test_stop_ends_the_tree_of_run(gate: Gate) -> None:
    """``run`` raises once the whole tree is gone, with what had been written in ``partial``."""
    tag = nap()
    code = f"echo out; echo err >&2; {tag} & echo > {gate}; {tag}; true"
    error, report = stopped_while(lambda: subprocess.run(code, shell=True, capture_output=True, text=True), gate.wait)

    assert ("out\n", "err\n", -15) == (error.partial.stdout, error.partial.stderr, error.partial.returncode)
    assert [] == alive(tag)
    assert error.partial.outcome.empty_proven
    assert "cancelled" == report.outcome
    assert 1 == len(report.processes)


@pytest.mark.parametrize("name", ["call", "check_call", "check_output", "getoutput", "getstatusoutput"])
def test_stop_ends_every_function(name: str, gate: Gate) -> None:
    """Each of the short functions is ended by the stop with all that it started."""
    tag = nap()
    code = f"{tag} & echo > {gate}; {tag}; true"
    options = {} if name.startswith("get") else {"shell": True}
    error, _ = stopped_while(lambda: getattr(subprocess, name)(code, **options), gate.wait)

    assert error.partial.outcome.stopped
    assert [] == alive(tag)


def test_stop_before_the_start_starts_nothing(tmp_path: Path) -> None:
    """In a stopped turn nothing is started, and every call is a checkpoint."""
    with turnctl.turn() as turn:
        turn.cancel()
        for fn in (subprocess.run, subprocess.Popen, subprocess.call):
            with pytest.raises(CancelledError):
                fn(["touch", str(tmp_path / "there")])

    assert [] == list(tmp_path.iterdir())
    assert () == turn.report.processes


WAITS: dict[str, Callable[[Any], object]] = {
    "wait": lambda process: process.wait(),
    "wait with a time": lambda process: process.wait(timeout=BOUND),
    "communicate": lambda process: process.communicate(),
    "communicate with a time": lambda process: process.communicate(timeout=BOUND),
    "read": lambda process: process.stdout.read(),
    "read of some": lambda process: process.stdout.read(10),
    "readline": lambda process: process.stdout.readline(),
    "iteration": lambda process: list(process.stdout),
    "read of stderr": lambda process: process.stderr.read(),
    "end of a with": lambda process: process.__exit__(None, None, None),
    "turnctl.wait": turnctl.wait,
}


@pytest.mark.parametrize("name", WAITS)
@pytest.mark.parametrize("text", [False, True])
def test_blocking_methods_are_checkpoints(name: str, text: bool, gate: Gate) -> None:
    """A stop wakes who is blocked on the command or its output at once, though it takes its time to end."""
    if text and name in ("wait", "wait with a time", "end of a with", "turnctl.wait"):
        return  # there is no text in them
    code = f"trap '' TERM; echo > {gate}; sleep 60"
    process: list[Any] = []
    with turnctl.turn(grace="100ms") as turn, timed() as passed:
        process.append(subprocess.Popen(["sh", "-c", code], stdout=PIPE, stderr=PIPE, text=text))
        stopper = Background(lambda: (gate.wait(), turn.cancel()))
        try:
            WAITS[name](process[0])
        finally:
            after = passed()
            stopper.result()
            for file in (process[0].stdout, process[0].stderr):
                file.close()

    assert turn.cancelled
    assert -signal.SIGKILL == process[0].poll()
    assert after < BOUND


def test_wait_elsewhere_obeys_the_owner(gate: Gate) -> None:
    """A thread that knows of no turn is woken by the stop of the command's own."""
    with turnctl.turn() as turn:
        process = subprocess.Popen(["sh", "-c", f"echo > {gate}; sleep 60"], stdout=PIPE)
        readers = [Background(process.wait), Background(process.stdout.read)]  # type: ignore[union-attr]
        gate.wait()
        turn.cancel()
        errors = [reader.error() for reader in readers]
        process.stdout.close()  # type: ignore[union-attr]

    assert [CancelledError, CancelledError] == [type(error) for error in errors]


def test_wait_goes_with_a_command_that_is_handed_over() -> None:
    """Who waits for a command obeys the turn that it was handed over to, and its old turn no more."""
    with turnctl.turn() as new:
        with turnctl.turn(inherit=False) as old:
            process = subprocess.Popen(["sleep", "60"])
            waiting = Background(process.wait)
            old.detach(process, owner=new)
            old.cancel()
        assert waiting.is_running
        new.cancel()
        error = waiting.error()

    assert isinstance(error, CancelledError)
    assert (new.token, -signal.SIGTERM) == (error.token, process.poll())


def test_wait_for_a_command_of_nobody_obeys_the_turn() -> None:
    """Of a server that was started with no turn, a turn that is stopped lets go, and the server goes on."""
    with subprocess.Popen(["cat"], stdin=PIPE, stdout=PIPE) as server:
        stopped: list[bool] = []
        for fn in (server.wait, server.stdout.readline):  # type: ignore[union-attr]
            with turnctl.turn(timeout="100ms") as turn:
                fn()
            stopped.append(turn.cancelled)
        server.stdin.write(b"still there\n")  # type: ignore[union-attr]
        server.stdin.flush()  # type: ignore[union-attr]
        line = server.stdout.readline()  # type: ignore[union-attr]
        server.stdin.close()  # type: ignore[union-attr]

    assert ([True, True], b"still there\n") == (stopped, line)
    assert 0 == server.returncode


def test_token_below_the_turn_ends_its_commands() -> None:
    """A bound token with a time of its own ends what was started under it, and the turn goes on."""
    with turnctl.turn() as turn:
        with turn.child(timeout=0.2) as token:
            subprocess.run(["sleep", "60"])
        done = subprocess.run(["true"])

    assert token.cancelled
    assert 0 == done.returncode
    assert "completed" == turn.report.outcome


def test_swallowed_stop_is_raised_again() -> None:
    """A stop that was swallowed comes again at the next wait, and the turn ends cancelled."""
    with turnctl.turn(grace=0) as turn:
        process = subprocess.Popen(["sleep", "60"])
        turn.cancel()
        raised = 0
        for _ in range(3):
            try:
                process.wait()
            except CancelledError:
                raised += 1

    assert 3 == raised
    assert "cancelled" == turn.report.outcome


def test_interrupted_read_keeps_what_came(gate: Gate) -> None:
    """What a read to the end had before a stop interrupted it is there for the next one."""
    with subprocess.Popen(
        ["sh", "-c", f"echo part; echo > {gate}; cat"], stdin=PIPE, stdout=PIPE, bufsize=0
    ) as process:
        gate.wait()
        with turnctl.turn(timeout="100ms") as turn:
            process.stdout.read()  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]
        rest = process.stdout.read()  # type: ignore[union-attr]

    assert turn.cancelled
    assert b"part\n" == rest


def test_stop_while_stdin_is_full(gate: Gate) -> None:
    """``communicate`` with input that nobody takes is a checkpoint as well."""
    code = f"trap '' TERM; echo > {gate}; sleep 60"
    error, _ = stopped_while(
        lambda: subprocess.run(["sh", "-c", code], input=bytes(1_000_000)), gate.wait, grace="100ms"
    )

    assert -signal.SIGKILL == error.partial.returncode


def test_shield_holds_the_stop_back(gate: Gate) -> None:
    """Inside a shield a command runs to its end; the stop is raised behind it."""
    done: list[Any] = []
    with turnctl.turn() as turn:
        with turnctl.shield():
            process = subprocess.Popen(["sh", "-c", f"read x < {gate}; echo done"], stdout=PIPE)
            turn.cancel()
            gate.open()
            done.append(process.communicate()[0])
        turnctl.check()

    assert [b"done\n"] == done
    assert turn.cancelled


# -- the end of the turn --------------------------------------------------------------------------------------------


def test_end_of_the_turn_ends_what_runs() -> None:
    """What still runs at the end of the turn is ended with it, dropped handles and leftovers too."""
    tag = nap()
    with turnctl.turn(grace="1s") as turn:
        process = subprocess.Popen(tag.split())
        done = subprocess.run(f"{tag} & setsid {tag} & true", shell=True)
        lives = len(alive(tag))

    assert (0, 3) == (done.returncode, lives)
    assert [] == alive(tag)
    assert -signal.SIGTERM == process.wait() == process.returncode
    assert "completed" == turn.report.outcome


def test_kill_reaches_the_main_process_alone() -> None:
    """As in the standard library ``kill`` spares what the command has started: that is the turn's to end."""
    tag = nap()
    with turnctl.turn():
        process = subprocess.Popen(f"{tag} & echo; wait", shell=True, stdout=PIPE)
        process.stdout.readline()  # type: ignore[union-attr]
        process.kill()
        status = process.wait()
        spared = len(alive(tag))
        process.stdout.close()  # type: ignore[union-attr]

    assert (-signal.SIGKILL, 1) == (status, spared)
    assert [] == alive(tag)


def test_run_without_a_turn_leaves_the_background_alone(gate: Gate) -> None:
    """With no turn what a command leaves behind goes on, and is let go of once it has ended."""
    done = subprocess.run(f"(read x < {gate}; true) & true", shell=True)
    there = len(kept._kept)
    gate.open()

    assert (0, 1) == (done.returncode, there)
    assert until(lambda: (kept.look_through(), not kept._kept)[1])


def test_end_of_the_program_ends_them() -> None:
    """With no turn a command that still runs, and what was left, ends with the program."""
    tag = nap()
    code = (
        "from turnctl.processes import subprocess\n"
        f"subprocess.Popen({tag.split()!r}).returncode = 0; subprocess.run('{tag} & true', shell=True)"
    )
    standard.run([sys.executable, "-c", code], check=True, timeout=BOUND)

    assert [] == alive(tag)


def test_killed_program_leaves_nothing() -> None:
    """A program that is killed while it runs commands leaves none of them."""
    tag = nap()
    code = (
        "import os; from turnctl.processes import subprocess\n"
        f"subprocess.Popen('{tag} & setsid {tag} & echo ready; wait', shell=True); os.read(0, 1)"
    )
    argv = [sys.executable, "-c", code]
    with standard.Popen(argv, stdin=PIPE, stdout=PIPE, stderr=standard.DEVNULL) as program:
        assert program.stdout is not None
        program.stdout.readline()
        lives = len(alive(tag)) - len(alive("os.read(0, 1)"))
        program.kill()

    assert lives >= 2
    assert until(lambda: not alive(tag))


# -- what differs ---------------------------------------------------------------------------------------------------


def test_command_has_a_session_of_its_own() -> None:
    """It is no member of this session or group, so that a terminal's keys do not reach it twice."""
    out = subprocess.check_output(["sh", "-c", "ps -o sid=,pgid= -p $$ || cut -d' ' -f6,5 /proc/$$/stat"], text=True)

    assert str(os.getsid(0)) not in out.split()


def test_command_is_no_child() -> None:
    """Nobody here can take its status away, and nobody finds it by waiting."""
    process = subprocess.Popen(["sleep", "60"])
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    process.kill()

    assert -signal.SIGKILL == process.wait()


def test_foreign_group_is_refused() -> None:
    """``process_group`` takes 0, and no group that turnctl does not hold; nothing is started."""
    with pytest.raises(BadArgument, match="join a group that turnctl does not hold; use 0"):
        subprocess.run(["true"], process_group=os.getpgid(0))


def test_unknown_status_is_no_success() -> None:
    """Where the status is not known because the warden was killed, it is 255, and the outcome says so."""
    process = subprocess.Popen(["sleep", "60"])
    os.kill(_parent_of(process.pid), signal.SIGKILL)
    status = process.wait(BOUND)
    outcome = process.outcome()  # type: ignore[attr-defined]

    assert (255, None) == (status, outcome.returncode)
    assert any("not known" in note for note in outcome.notes)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_forked_child_may_not_wait() -> None:
    """A forked child owns no command: ``wait`` says so, ``poll`` knows nothing, and a signal is not sent."""
    process = subprocess.Popen(["sleep", "60"])
    pid = os.fork()
    if pid == 0:
        try:
            process.kill()
            assert process.poll() is None
            process.wait()
        except TurnctlError:
            os._exit(7)
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    runs = process.poll() is None
    process.kill()

    assert (7, True, -9) == (status, runs, process.wait())


def test_late_wait_of_communicate_names_its_own_time(gate: Gate) -> None:
    """Where the output ends before the command does, the error has the whole time, and the output."""
    code = f"echo out; exec >&-; echo > {gate}; exec sleep 60"
    with subprocess.Popen(["sh", "-c", code], stdout=PIPE) as process:
        gate.wait()
        with pytest.raises(standard.TimeoutExpired) as caught:
            process.communicate(timeout=0.2)
        process.kill()

    assert (0.2, b"out\n") == (caught.value.timeout, caught.value.output)


# -- races ----------------------------------------------------------------------------------------------------------


def test_stop_between_look_and_wait_is_not_lost() -> None:
    """A stop that comes right before the poll of a wait wakes it."""
    with turnctl.turn(grace=0) as turn:
        process = subprocess.Popen(["sleep", "60"])
        with call_at("processes.attending.asked", turn.cancel), timed() as passed:
            process.wait()

    assert turn.cancelled
    assert passed() < BOUND


def test_stop_after_the_exit_is_seen_first() -> None:
    """Where the command has ended and the stop is there, the wait raises, and the status is known all the same."""
    with turnctl.turn() as turn:
        process = subprocess.Popen(["sh", "-c", "exit 3"])
        assert until(lambda: process.poll() is not None)
        turn.cancel()
        process.wait()

    assert turn.cancelled
    assert 3 == process.returncode


def test_stop_at_the_moment_of_the_start(tmp_path: Path) -> None:
    """A stop between the start and the first look ends the command; its pipes are closed by the handle's end."""
    with turnctl.turn(grace=0) as turn:
        with pause_at("processes.run.spawned") as paused:
            started = Background(turnctl.bind(lambda: subprocess.run(["sleep", "60"], stdout=PIPE)))
            assert paused.reached.wait(BOUND)
            turn.cancel()
        error = started.error()

    assert isinstance(error, CancelledError)
    assert -signal.SIGKILL == error.partial.returncode  # type: ignore[union-attr]


def test_one_import_changes() -> None:
    """The example of the docs runs as it stands there."""
    page = Path(__file__).parents[2] / "docs" / "processes.md"
    code = page.read_text(encoding="utf-8").partition("<!-- one import changes -->")[2].split("```")[1]
    names: dict[str, Any] = {}
    exec(code.removeprefix("python"), names)

    assert "cancelled" == names["turn"].report.outcome
    assert names["said"].startswith("stopped by the user")
    assert "none left" in names["said"]
