"""Stops and timeouts on real trees: everything ends, within bounds, and the outcome says what is true."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path

import pytest
from commands import FakeTurn, Gate, alive, has_group, nap, python, state_of, timed
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import CancelledError
from turnctl.processes import CommandTimedOut
from turnctl.processes.command import run
from turnctl.records.process import Completed, ProcessOutcome
from turnctl.testing import call_at, pause_at

#: moves from pid to pid, and ends after a while in case it is not ended
HOPPER = (
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "last = time.monotonic() + 20\n"
    "while time.monotonic() < last:\n"
    "    if os.fork(): time.sleep(0.005); os._exit(0)\n"
)
SUPPORT = str(Path(__file__).parent.parent / "support")


@pytest.fixture(autouse=True, params=["warden", "group"])
def _custody(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise holds with a warden and without."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")


def is_guarded() -> bool:
    return "TURNCTL_CONTAINMENT" not in os.environ


def signals(outcome: ProcessOutcome) -> list[str]:
    return [sent.signal for sent in outcome.signals]


def stopped(
    owner: FakeTurn,
    gate: Gate,
    command: str,
    grace_s: float | None = None,
    tag: str = "",
    count: int = 0,
    **options: object,
) -> Completed:
    """Run a shell command, stop its owner when it has opened the gate, and give what the exception carried.

    With ``count`` it waits until that many processes have ``tag`` in their argv, besides.
    """
    call = Background(lambda: run(owner, command, shell=True, **options))  # type: ignore[arg-type]
    gate.wait()
    assert until(lambda: not count or len(alive(tag)) == count), alive(tag)
    owner.stop(grace_s)
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    return error.partial


# -- the tool's own timeout -----------------------------------------------------------------------------------


def test_timeout_is_a_result(owner: FakeTurn) -> None:
    """A whole shell job is gone soon after its timeout, and the call returns instead of raising."""
    tag = nap()
    with timed() as passed:
        done = run(owner, f"{tag} & {tag}", shell=True, timeout=1)

    assert 1 + owner.grace_s > passed() >= 1
    assert [] == alive(tag)
    assert (True, False) == (done.outcome.timed_out, done.outcome.stopped)
    assert -signal.SIGTERM == done.returncode
    assert (["SIGTERM"], 3, 0) == (signals(done.outcome), done.outcome.ended, done.outcome.killed)
    assert "completed" == owner.activities[0].record().state


def test_timeout_with_check_raises_with_output(owner: FakeTurn) -> None:
    """With check=True it is subprocess's TimeoutExpired, with what was written until then."""
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        run(owner, "echo begun; sleep 60", shell=True, timeout=0.2, check=True, text=True)

    assert isinstance(caught.value, CommandTimedOut)
    assert ("begun\n", 0.2) == (caught.value.stdout, caught.value.timeout)


def test_exit_before_the_timeout_is_no_timeout(owner: FakeTurn) -> None:
    """A command that ends in time is not marked, however close it was."""
    done = run(owner, ["true"], timeout=30)

    assert (0, False) == (done.returncode, done.outcome.timed_out)


# -- the ladder -----------------------------------------------------------------------------------------------


def test_stop_raises_with_what_was_read(owner: FakeTurn, gate: Gate) -> None:
    """A stop ends the tree and raises at the call, with all output from before it."""
    tag = nap()
    partial = stopped(owner, gate, f"echo one; echo two >&2; {tag} & echo > {gate}; {tag}", text=True)

    assert ("one\n", "two\n", -signal.SIGTERM) == (partial.stdout, partial.stderr, partial.returncode)
    assert (True, True, False) == (partial.outcome.stopped, partial.outcome.exited, partial.outcome.timed_out)
    assert [] == alive(tag)
    assert "cancelled" == owner.activities[0].record().state
    assert "stopped: ended by SIGTERM" == owner.activities[0].record().detail


def test_stop_can_be_returned(owner: FakeTurn, gate: Gate) -> None:
    """With on_stop="return" the host gets the partial result first and asks the turn later."""
    call = Background(lambda: run(owner, f"echo > {gate}; sleep 60", shell=True, on_stop="return", check=True))
    gate.wait()
    owner.stop()

    assert call.result().outcome.stopped


def test_ignored_term_is_killed_after_the_grace(owner: FakeTurn, gate: Gate) -> None:
    """What ignores TERM is killed when the grace has passed, and not before."""
    tag = nap()
    partial = stopped(owner, gate, f"trap '' TERM; {tag} & echo > {gate}; {tag}", grace_s=0.3)
    asked, killed = partial.outcome.signals

    assert ("SIGTERM", "SIGKILL", "group", "group") == (asked.signal, killed.signal, asked.scope, killed.scope)
    # the grace counts from the stop, which was a moment before the signal
    assert 0.2 <= killed.after_s - asked.after_s < BOUND
    assert (-signal.SIGKILL, 3, 3) == (partial.returncode, partial.outcome.ended, partial.outcome.killed)
    assert [] == alive(tag)


def test_no_grace_kills_at_once(owner: FakeTurn, gate: Gate) -> None:
    """A grace of 0 asks nobody."""
    partial = stopped(owner, gate, f"trap '' TERM; echo > {gate}; sleep 60; sleep 60", grace_s=0)

    # once more, if something was born between the look and the KILL
    assert {"SIGKILL"} == set(signals(partial.outcome))


def test_escalation_shortens_the_grace(owner: FakeTurn, gate: Gate) -> None:
    """A second stop with less grace kills what the first one still waits for."""
    tag = nap()
    call = Background(lambda: run(owner, f"trap '' TERM; echo > {gate}; {tag}; {tag}", shell=True, grace=60))
    gate.wait()
    with pause_at("processes.ladder.asked") as asked:
        owner.stop(grace_s=60)
        assert asked.reached.wait(BOUND)
        asked.release()
        with timed() as passed:
            owner.stop(grace_s=0)
            error = call.error()

    assert BOUND > passed()
    assert isinstance(error, CancelledError)
    assert [] == alive(tag)


def test_repeated_stop_does_not_extend(owner: FakeTurn, gate: Gate) -> None:
    """A second stop with more grace changes nothing."""
    call = Background(lambda: run(owner, f"trap '' TERM; echo > {gate}; sleep 60; sleep 60", shell=True))
    gate.wait()
    with timed() as passed:
        owner.stop(grace_s=0.2)
        owner.stop(grace_s=60)
        call.error()

    assert BOUND > passed()


def test_own_grace_is_the_shorter_one(owner: FakeTurn, gate: Gate) -> None:
    """A command's own grace ends before the turn's, where it is shorter."""
    with timed() as passed:
        partial = stopped(owner, gate, f"trap '' TERM; echo > {gate}; sleep 60; sleep 60", grace_s=60, grace="100ms")

    assert BOUND > passed()
    # KILL once more, if something was born between the look and the first
    assert ["SIGTERM", "SIGKILL"] == sorted(set(signals(partial.outcome)), reverse=True)


def test_stop_signal_can_be_chosen(owner: FakeTurn, gate: Gate) -> None:
    """The first signal of the ladder is the one that was given."""
    partial = stopped(
        owner, gate, f"trap 'echo int; exit 7' INT; echo > {gate}; while :; do sleep 0.01; done", stop_signal="INT"
    )

    assert (b"int\n", 7, ["SIGINT"]) == (partial.stdout, partial.returncode, signals(partial.outcome))


def test_clean_exit_on_term_is_told_as_it_was(owner: FakeTurn, gate: Gate) -> None:
    """A command that answers TERM with exit 0 was stopped and exited 0: what is true."""
    partial = stopped(owner, gate, f"trap 'echo bye; exit 0' TERM; echo > {gate}; while :; do sleep 0.01; done")

    assert (b"bye\n", 0, True) == (partial.stdout, partial.returncode, partial.outcome.stopped)
    assert "cancelled" == owner.activities[0].record().state


def test_killed_command_never_reports_exit_0(owner: FakeTurn, gate: Gate) -> None:
    """What a stop killed is recorded as stopped, with the signal as its status, never as failed."""
    partial = stopped(owner, gate, f"trap '' TERM; echo > {gate}; sleep 60; exit 0", grace_s=0.1)

    assert -signal.SIGKILL == partial.returncode
    assert ("cancelled", "stopped: ended by SIGKILL") == (
        owner.activities[0].record().state,
        owner.activities[0].record().detail,
    )


# -- shapes of trees ------------------------------------------------------------------------------------------


def test_group_that_outlives_its_leader_ends(owner: FakeTurn, gate: Gate) -> None:
    """When the main process ends on TERM and its child does not, the ladder goes on until it is gone (promise 13)."""
    tag = nap()
    partial = stopped(
        owner, gate, f"(trap '' TERM; echo > {gate}; {tag}; {tag}) & trap 'exit 5' TERM; wait", grace_s=0.3
    )

    assert (5, ["SIGTERM", "SIGKILL"]) == (partial.returncode, signals(partial.outcome))
    assert [] == alive(tag)


def test_child_forked_on_term_ends(owner: FakeTurn, gate: Gate) -> None:
    """A process that is born of the answer to TERM is found and killed."""
    tag = nap()
    partial = stopped(
        owner,
        gate,
        f"trap \"(trap '' TERM; {tag}; {tag}) & exit 0\" TERM; echo > {gate}; while :; do sleep 0.01; done",
        grace_s=0.3,
    )

    assert [] == alive(tag)
    assert "SIGKILL" in signals(partial.outcome)


def test_clean_up_after_term_is_left_in_peace(owner: FakeTurn, gate: Gate, tmp_path: Path) -> None:
    """A helper that the answer to TERM starts is not asked to end itself while there is grace."""
    partial = stopped(
        owner,
        gate,
        f"trap 'sleep 0.3 && touch {tmp_path}/cleaned; exit 0' TERM; echo > {gate}; while :; do sleep 0.01; done",
    )

    assert (0, ["SIGTERM"]) == (partial.returncode, signals(partial.outcome))
    assert (tmp_path / "cleaned").exists()


def test_session_leader_below_is_still_a_descendant(owner: FakeTurn, gate: Gate) -> None:
    """A grandchild with a session of its own is found by its parent and ended by its identity."""
    tag = nap()
    partial = stopped(owner, gate, f"setsid sh -c 'echo > {gate}; {tag}; true' & wait", tag=tag, count=3)

    assert [] == alive(tag)
    assert ["group", "process", "process"] == [sent.scope for sent in partial.outcome.signals]


def test_sessions_below_sessions_end(owner: FakeTurn, gate: Gate) -> None:
    """Each level of a chain of sessions that ignore TERM is ended."""
    tag = nap()
    inner = f'trap "" TERM; echo > {gate}; {tag}; true'
    command = f"setsid sh -c 'setsid sh -c '\\''{inner}'\\'' & wait' & wait"
    partial = stopped(owner, gate, command, grace_s=0.3)

    assert [] == alive(tag)
    assert "SIGKILL" in signals(partial.outcome)


def test_stopped_child_is_continued(owner: FakeTurn, gates: Callable[[], Gate]) -> None:
    """A job that stopped itself gets TERM and is woken, so that it need not be killed."""
    ready = gates()
    call = Background(lambda: run(owner, f"trap 'exit 9' TERM; echo $$ > {ready}; kill -STOP $$; true", shell=True))
    pid = int(ready.wait())
    assert until(lambda: state_of(pid) == "T")
    owner.stop()
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert (9, ["SIGTERM", "SIGCONT"]) == (error.partial.returncode, signals(error.partial.outcome))


def test_main_thread_that_ended_is_not_an_end(owner: FakeTurn, gate: Gate) -> None:
    """A process whose main thread has ended still computes: it is waited for, and ended when stopped."""
    code = (
        "import ctypes, os, threading, time\n"
        "def work():\n"
        "    while True: time.sleep(0.05)\n"
        "threading.Thread(target=work).start()\n"
        f"open({str(gate)!r}, 'w').write(str(os.getpid()))\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    call = Background(lambda: run(owner, [sys.executable, "-c", code]))
    pid = int(gate.wait())
    assert until(lambda: state_of(pid) == "Z")
    assert call.is_running
    owner.stop()
    error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert (-signal.SIGTERM, 1) == (error.partial.returncode, error.partial.outcome.ended)
    assert "" == state_of(pid)


def test_hundred_sessions_end_together(owner: FakeTurn, gate: Gate) -> None:
    """More members than are waited for at a time are ended all the same."""
    tag = nap()
    partial = stopped(
        owner,
        gate,
        f"for i in $(seq 100); do setsid {tag} & done; while [ $(pgrep -fc 'sleep {tag[6:]}') -lt 100 ]; do :; done;"
        f" echo > {gate}; wait",
    )

    assert 101 <= partial.outcome.ended
    assert [] == alive(tag)


# -- pipes ----------------------------------------------------------------------------------------------------


def test_full_output_pipe_does_not_hold_a_stop(owner: FakeTurn, gate: Gate) -> None:
    """A command that writes without end is stopped like any other, and its output is kept."""
    partial = stopped(owner, gate, f"echo y; echo > {gate}; exec yes")

    assert -signal.SIGTERM == partial.returncode
    assert (partial.stdout or b"").startswith(b"y\n")  # type: ignore[arg-type]


def test_full_input_pipe_does_not_hold_a_stop(owner: FakeTurn, gate: Gate) -> None:
    """Input that the command never reads keeps neither the call nor the stop."""
    partial = stopped(owner, gate, f"echo > {gate}; sleep 60; true", input=b"x" * 1_000_000)

    assert -signal.SIGTERM == partial.returncode


def test_closed_output_is_no_end(owner: FakeTurn) -> None:
    """A command that closes its streams and lives on is waited for, with its real status."""
    with timed() as passed:
        done = run(owner, "echo x; exec >&- 2>&-; sleep 0.4; exit 6", shell=True)

    assert (b"x\n", 6) == (done.stdout, done.returncode)
    assert passed() >= 0.4


def test_closed_output_can_be_stopped(owner: FakeTurn, gate: Gate) -> None:
    """A command without open streams is stopped at once."""
    tag = nap()
    partial = stopped(owner, gate, f"exec >&- 2>&-; echo > {gate}; {tag}; true")

    assert partial.outcome.stopped
    assert [] == alive(tag)


def test_stop_cuts_a_character_and_still_raises(owner: FakeTurn, gate: Gate) -> None:
    """Output that ends amid a character does not turn the stop into a decoding error."""
    partial = stopped(owner, gate, f"printf 'ab\\303'; echo > {gate}; sleep 60; true", encoding="utf-8")

    assert "ab\ufffd" == partial.stdout


def test_escaped_holder_of_the_pipe_does_not_hang(owner: FakeTurn, gate: Gate) -> None:
    """A process outside the tree that keeps the pipe open delays neither a stop nor an end."""
    tag = nap()
    # the parent of the session is gone before anybody looks: without a warden nobody can find it, or must wait for it
    with timed() as passed:
        done = run(owner, f"(setsid {tag} &) ; sleep 0.1; echo said", shell=True)
    strays = alive(tag)
    for pid in strays:
        os.kill(pid, signal.SIGKILL)

    assert BOUND > passed()
    assert b"said\n" == done.stdout
    assert "the output was still held open when the command had ended, and was read no further" in done.outcome.notes
    assert is_guarded() == (strays == [left.pid for left in done.outcome.leftovers])


# -- two things at once ---------------------------------------------------------------------------------------


def test_stop_between_admission_and_start(owner: FakeTurn, tmp_path: Path) -> None:
    """A stop that comes after the admission and before the start: nothing is started."""
    with call_at("processes.run.admitted", owner.stop), pytest.raises(CancelledError) as caught:
        run(owner, ["touch", tmp_path / "made"])

    assert None is caught.value.partial
    assert not (tmp_path / "made").exists()
    assert ("cancelled", "stopped before it was started") == (
        owner.activities[0].record().state,
        owner.activities[0].record().detail,
    )


def test_stop_right_after_the_start(owner: FakeTurn) -> None:
    """A stop in the first moment of a command ends it."""
    tag = nap()
    with call_at("processes.run.spawned", owner.stop), pytest.raises(CancelledError) as caught:
        run(owner, f"{tag}; true", shell=True)

    assert caught.value.partial is not None
    assert caught.value.partial.outcome.stopped
    assert [] == alive(tag)


def test_stop_and_exit_seen_together(owner: FakeTurn) -> None:
    """The stop decides what the call does; the outcome keeps the real status and that nothing was signalled."""
    with call_at("processes.exit.observed", owner.stop), pytest.raises(CancelledError) as caught:
        run(owner, "echo done; exit 3", shell=True)
    partial = caught.value.partial

    assert partial is not None
    assert (b"done\n", 3) == (partial.stdout, partial.returncode)
    assert (True, False, ()) == (partial.outcome.exited, partial.outcome.stopped, partial.outcome.signals)
    assert "completed" == owner.activities[0].record().state


def test_stop_after_the_exit_was_seen(owner: FakeTurn) -> None:
    """A stop that comes when the result is complete does not take it away."""
    with call_at("processes.run.over", owner.stop):
        done = run(owner, ["echo", "done"])

    assert (b"done\n", 0) == (done.stdout, done.returncode)


def test_stop_while_output_is_awaited(owner: FakeTurn) -> None:
    """A stop between the exit and the end of the output ends the leftovers and raises with the real status."""
    tag = nap()
    with call_at("processes.exit.draining", owner.stop), pytest.raises(CancelledError) as caught:
        run(owner, f"{tag} & echo x; exit 2", shell=True)
    partial = caught.value.partial

    assert partial is not None
    assert (b"x\n", 2, False) == (partial.stdout, partial.returncode, partial.outcome.stopped)
    assert (1, ["SIGTERM"]) == (partial.outcome.ended, signals(partial.outcome))
    assert [] == alive(tag)


def test_stop_and_timeout_seen_together(owner: FakeTurn) -> None:
    """Both are in the outcome; the stop decides what the call does, also with check."""
    with pause_at("processes.run.spawned") as spawned:
        call = Background(lambda: run(owner, ["sleep", "60"], timeout=0.01, check=True))
        assert spawned.reached.wait(BOUND)
        with timed() as passed:
            until(lambda: passed() > 0.05)
        owner.stop()
        spawned.release()
        error = call.error()

    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert (True, True) == (error.partial.outcome.timed_out, error.partial.outcome.stopped)


def test_stop_while_the_timeout_is_carried_out(owner: FakeTurn, gate: Gate) -> None:
    """A stop during the ladder of a timeout: both are told, and the earlier of the two graces holds."""
    call = Background(lambda: run(owner, "trap '' TERM; sleep 60; sleep 60", shell=True, timeout=0.2, grace=60))
    with pause_at("processes.ladder.asked") as asked:
        assert asked.reached.wait(BOUND)
        asked.release()
        with timed() as passed:
            owner.stop(grace_s=0.1)
            error = call.error()

    assert BOUND > passed()
    assert isinstance(error, CancelledError)
    assert error.partial is not None
    assert (True, True) == (error.partial.outcome.timed_out, error.partial.outcome.stopped)


def test_timeout_while_the_stop_is_carried_out(owner: FakeTurn, gate: Gate) -> None:
    """A timeout that passes during the ladder of a stop changes nothing."""
    partial = stopped(owner, gate, f"trap '' TERM; echo > {gate}; sleep 60; sleep 60", grace_s=0.5, timeout=0.4)

    assert (False, True) == (partial.outcome.timed_out, partial.outcome.stopped)


def test_shield_holds_a_stop_back(owner: FakeTurn, tmp_path: Path) -> None:
    """Under a shield a command starts and runs although a stop is wanted, and is stopped when the shield ends."""
    owner.stop()
    owner.held = float("inf")
    done = run(owner, ["echo", "clean"])
    owner.held = time.monotonic() + 0.2
    with timed() as passed, pytest.raises(CancelledError) as caught:
        run(owner, ["sleep", "60"])

    assert b"clean\n" == done.stdout
    assert BOUND > passed() >= 0.15
    assert caught.value.partial is not None


def test_end_of_the_turn_ends_a_call_on_another_thread(owner: FakeTurn, gate: Gate) -> None:
    """A turn that ends while a worker still runs a command ends it, and the worker gets what is true."""
    tag = nap()
    call = Background(lambda: run(owner, f"echo > {gate}; {tag}; true", shell=True))
    gate.wait()
    owner.end()

    assert [] == alive(tag)
    assert call.result().outcome.stopped


# -- other people's processes ---------------------------------------------------------------------------------


def test_stop_leaves_another_turn_alone(gates: Callable[[], Gate]) -> None:
    """Of two turns on two threads the stop of one never touches the other's command, a hundred times."""
    with FakeTurn() as other:
        ready = gates()
        tag = nap()
        lasting = Background(lambda: run(other, f"echo > {ready}; {tag}; true", shell=True))
        ready.wait()
        assert until(lambda: len(alive(tag)) == 2)
        before = alive(tag)
        again = gates()
        for _ in range(100):
            with FakeTurn() as owner:
                call = Background(lambda: run(owner, f"echo > {again}; sleep 60; true", shell=True))
                again.wait()
                owner.stop()
                assert isinstance(call.error(), CancelledError)

        assert before == alive(tag)
        assert lasting.is_running
        other.stop()
        assert isinstance(lasting.error(), CancelledError)
        assert [] == alive(tag)


def test_child_stopped_at_birth_spares_the_host(gate: Gate) -> None:
    """A command that is frozen in its first moment is ended, and the host's own group never gets a signal."""
    code = (
        "import os, signal, sys\n"
        "from turnctl.processes.command import run\n"
        "from turnctl import points\n"
        "from commands import FakeTurn\n"
        "seen = []\n"
        "for s in (signal.SIGTERM, signal.SIGCONT): signal.signal(s, lambda n, f: seen.append(n))\n"
        "for _ in range(30):\n"
        "    with FakeTurn(0.05) as owner:\n"
        "        def at(name):\n"
        "            if name == 'processes.run.spawned':\n"
        "                pid = owner.activities[0].owned.outcome().pid\n"
        "                assert os.getpgid(pid) == pid != os.getpgrp()\n"
        "                os.kill(pid, signal.SIGSTOP)\n"
        "                owner.stop()\n"
        "        points.hook = at\n"
        "        done = run(owner, ['sleep', '60'], on_stop='return')\n"
        "        assert done.outcome.stopped and done.returncode < 0, done\n"
        "print('alive', seen)\n"
    )
    path = os.pathsep.join([SUPPORT, *sys.path])
    host = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
        timeout=3 * BOUND,
    )

    assert (b"alive []\n", b"") == (host.stdout, host.stderr)


def test_pid_moving_chain_in_the_group_ends(owner: FakeTurn, gate: Gate) -> None:
    """A process that forks and ends again and again, so that it has another pid at each look, is ended."""
    partial = stopped(owner, gate, f"{shlex.join(python(HOPPER))} & echo > {gate}; sleep 60; true", grace_s=0.1)
    pid = partial.outcome.pid
    assert pid is not None

    assert not has_group(pid)


def test_pid_moving_leftover_is_named_and_ends(owner: FakeTurn) -> None:
    """The same as a leftover of a command that has ended by itself."""
    done = run(owner, python(HOPPER))
    pid = done.outcome.pid
    assert pid is not None
    owner.end(0.1)

    assert done.outcome.leftovers
    assert not has_group(pid)


def test_host_without_descriptors_still_ends_it(gate: Gate) -> None:
    """A host that has used up its descriptors ends its command by the group, and sees that when it can read again."""
    code = (
        "import os, sys\n"
        "from turnctl.processes.command import popen\n"
        "from commands import FakeTurn\n"
        "owner = FakeTurn(0.1)\n"
        "process = popen(owner, ['sh', '-c', f\"trap '' TERM; {os.environ['TAG']} & echo > {sys.argv[1]}; wait\"])\n"
        "sys.stdin.readline()\n"
        "spent = []\n"
        "try:\n"
        "    while True: spent.append(os.dup(0))\n"
        "except OSError: pass\n"
        "outcome = process.stop(0.1)\n"
        "print(process.returncode, len(outcome.survivors), sorted({s.signal for s in outcome.signals}))\n"
    )
    tag = nap()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(gate)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([SUPPORT, *sys.path]), "TAG": tag},
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
    ) as host:
        gate.wait()
        out, _ = host.communicate("go\n", timeout=BOUND)

    # the command's end gave back the descriptors of its pipes
    assert "-9 0 ['SIGKILL', 'SIGTERM']\n" == out
    assert [] == alive(tag)


def test_command_of_a_parent_waits_for_none_below() -> None:
    """A command of a turn in it that ignores the stop does not keep its parent's from being told at once (ADR 0020)."""
    ready = threading.Event()

    def inner() -> None:
        with turnctl.turn("inner", grace=BOUND) as turn:
            deaf = turn.popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"], stdout="pipe")
            assert b"ready\n" == next(iter(deaf))
            ready.set()
            deaf.wait()

    with turnctl.turn("outer", grace=BOUND) as turn:
        below = Background(copy_context().run, inner)
        assert ready.wait(BOUND)
        hears = turn.popen(["sleep", "60"])
        turn.cancel("enough")
        told = until(lambda: hears.returncode is not None, within=5)
        held_up = below.is_running
        turn.stop(kill=True)
        below.result()

    assert (True, True) == (told, held_up)
    assert -signal.SIGTERM == hears.returncode
