"""The handle of a running command: lines, stdin, waiting, stopping."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import FakeTurn, Gate, alive, nap, timed
from standins import BOUND, Background, until

from turnctl.errors import BadArgument, CancelledError, TurnctlError, TurnOver
from turnctl.processes import Process
from turnctl.processes import text as text_module
from turnctl.processes.command import Unowned, popen
from turnctl.testing import call_at, pause_at


def test_lines_come_while_it_runs(owner: FakeTurn, gates: Callable[[], Gate]) -> None:
    """Each line is there as soon as it is written, long before the end."""
    go = gates()
    process = popen(owner, f"echo one; read x < {go}; echo two; exit 3", shell=True, text=True)
    lines = iter(process)
    first = next(lines)
    running = process.returncode
    go.open()

    assert ("one\n", None, ["two\n"], 3) == (first, running, list(lines), process.wait())


def test_streams_are_read_apart(owner: FakeTurn) -> None:
    """stdout and stderr have lines of their own; merged there is one stream."""
    apart = popen(owner, "echo out; echo err >&2", shell=True)
    merged = popen(owner, "echo out; echo err >&2", shell=True, merge_stderr=True)

    assert apart.stderr is not None
    assert ([b"out\n"], [b"err\n"]) == (list(apart), list(apart.stderr))
    assert ([b"out\n", b"err\n"], None) == (list(merged), merged.stderr)


def test_uncaptured_output_has_no_lines(owner: FakeTurn) -> None:
    """A handle without captured stdout says so instead of giving nothing."""
    process = popen(owner, ["true"], capture=False)
    with pytest.raises(TurnctlError, match="has no lines to read: its stdout was not captured"):
        iter(process)

    assert 0 == process.wait()


def test_outcome_before_the_end(owner: FakeTurn, gate: Gate) -> None:
    """While it runs the handle knows its pid and no status; afterwards what is true."""
    process = popen(owner, f"echo $$ > {gate}; sleep 60", shell=True)
    pid = int(gate.wait())
    before = process.outcome()
    process.kill()
    status = process.wait()

    assert (pid, False, None) == (process.pid, before.exited, before.returncode)
    assert (-signal.SIGKILL, ["SIGKILL"]) == (status, [sent.signal for sent in process.outcome().signals])
    assert process.outcome().stopped


def test_wait_times_out_as_in_subprocess(owner: FakeTurn) -> None:
    """A wait that is too short raises TimeoutExpired, and the command goes on."""
    process = popen(owner, ["sleep", "60"])
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        process.wait("20ms")

    assert (["sleep", "60"], 0.02) == (caught.value.cmd, caught.value.timeout)
    assert None is process.returncode
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)


def test_stop_ends_the_tree_and_tells(owner: FakeTurn, gate: Gate) -> None:
    """Stopping one command is no stop of the turn: the tree is gone, the outcome returned, the turn goes on."""
    tag = nap()
    process = popen(owner, f"trap '' TERM; {tag} & echo > {gate}; {tag}; true", shell=True)
    gate.wait()
    outcome = process.stop("100ms")

    assert (True, -signal.SIGKILL) == (outcome.stopped, outcome.returncode)
    assert ["SIGTERM", "SIGKILL"] == [sent.signal for sent in outcome.signals][:2]
    assert [] == alive(tag)
    assert outcome == process.stop()
    assert "cancelled" == owner.activities[0].record().state
    assert b"still\n" == next(iter(popen(owner, ["echo", "still"])))


def test_stop_from_two_threads_shortens(owner: FakeTurn, gate: Gate) -> None:
    """A second stop with less grace hurries the first; both come back with the same outcome."""
    process = popen(owner, f"trap '' TERM; echo > {gate}; sleep 60; sleep 60", shell=True, grace=60)
    gate.wait()
    first = Background(lambda: process.stop())
    assert until(lambda: process.outcome().signals)
    with timed() as passed:
        second = process.stop(0)

    assert BOUND > passed()
    assert second == first.result()


def test_with_ends_the_command(owner: FakeTurn) -> None:
    """Leaving the with leaves nothing running, however it is left."""
    tag = nap()
    with pytest.raises(KeyError), popen(owner, f"{tag} & {tag}", shell=True):
        raise KeyError

    assert [] == alive(tag)


def test_with_keeps_the_status_of_an_ended_command(owner: FakeTurn) -> None:
    """A command that has ended by itself is not marked as stopped by the end of the with."""
    with popen(owner, "exit 3", shell=True) as process:
        process.wait()

    assert (3, False) == (process.returncode, process.outcome().stopped)


def test_stop_of_the_turn_wakes_a_reader(owner: FakeTurn) -> None:
    """A reader that waits for a line gets the stop at once, while the command is still being ended."""
    tag = nap()
    process = popen(owner, f"trap '' TERM; echo one; {tag}; {tag}", shell=True, text=True)
    seen: list[object] = []
    reader = Background(lambda: seen.extend(process))
    assert until(lambda: seen and process.stdout is not None and process.stdout._changed._waiters)  # type: ignore[attr-defined]
    owner.stop(grace_s=60)

    assert isinstance(reader.error(), CancelledError)
    assert alive(tag)
    owner.end(0)
    assert [] == alive(tag)


def test_stop_of_the_turn_wakes_a_waiter(owner: FakeTurn, gate: Gate) -> None:
    """A thread in wait gets the stop, and the command is ended."""
    process = popen(owner, f"echo > {gate}; sleep 60", shell=True)
    gate.wait()
    waiter = Background(lambda: process.wait())
    assert until(lambda: process._changed._waiters)  # type: ignore[attr-defined]
    owner.stop()

    assert isinstance(waiter.error(), CancelledError)
    assert until(lambda: process.returncode == -signal.SIGTERM)


def test_timeout_ends_it_without_a_reader(owner: FakeTurn) -> None:
    """A command's own timeout holds although nobody looks, and wait gives its status."""
    process = popen(owner, ["sleep", "60"], timeout=0.1)

    assert -signal.SIGTERM == process.wait(BOUND)
    assert (True, False) == (process.outcome().timed_out, process.outcome().stopped)


def test_unread_output_holds_the_command_not_memory(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose output nobody reads waits; reading lets it go on; nothing is lost."""
    monkeypatch.setattr(text_module.Lines.__init__, "__defaults__", (100_000,))
    process = popen(owner, ["head", "-c", "1000000", "/dev/zero"])
    assert process.stdout is not None
    assert until(lambda: process.stdout.is_full)  # type: ignore[union-attr]
    held = process.returncode, process.stdout._fed.size
    total = sum(len(line) for line in process)

    assert None is held[0]
    assert 100_000 <= held[1] < 200_000
    assert (1_000_000, 0) == (total, process.wait())


def test_unread_output_does_not_hold_a_stop(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that waits for its reader is stopped like any other."""
    monkeypatch.setattr(text_module.Lines.__init__, "__defaults__", (1000,))
    process = popen(owner, ["yes"])
    assert process.stdout is not None
    assert until(lambda: process.stdout.is_full)  # type: ignore[union-attr]

    assert -signal.SIGTERM == process.stop().returncode


def test_output_of_an_ended_command_is_kept(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lay in the pipe when the command ended is there for a late reader, also beyond the limit."""
    monkeypatch.setattr(text_module.Lines.__init__, "__defaults__", (10,))
    process = popen(owner, ["echo", "x" * 5000])
    process.wait()

    assert [b"x" * 5000 + b"\n"] == list(process)


def test_leftover_does_not_hold_a_reader(owner: FakeTurn) -> None:
    """Lines end soon after the command although a leftover keeps the pipe; it ends with the turn."""
    tag = nap()
    process = popen(owner, f"echo one; {tag} &", shell=True)

    assert ([b"one\n"], 0) == (list(process), process.wait())
    assert alive(tag) == [left.pid for left in process.outcome().leftovers]
    owner.end()
    assert [] == alive(tag)


def test_stop_while_the_thread_lets_go_is_not_lost(owner: FakeTurn) -> None:
    """A stop that comes when the supervising thread is just leaving leftovers behind still ends them."""
    tag = nap()
    with pause_at("processes.drive.leaving") as leaving:
        process = popen(owner, f"{tag} >/dev/null 2>&1 &", shell=True)
        assert leaving.reached.wait(BOUND)
        owner.stop()
        left = alive(tag)
        leaving.release()
        gone = until(lambda: not alive(tag))

    assert 1 == len(left)
    assert gone
    assert until(lambda: process.outcome().ended == 1)


def test_stop_of_the_handle_ends_leftovers(owner: FakeTurn) -> None:
    """Stopping a command that has ended ends what it left behind; it was not stopped itself."""
    tag = nap()
    process = popen(owner, f"{tag} &", shell=True)
    process.wait()
    outcome = process.stop()

    assert [] == alive(tag)
    assert (0, False, 1) == (outcome.returncode, outcome.stopped, outcome.ended)


# -- stdin ----------------------------------------------------------------------------------------------------


def test_conversation(owner: FakeTurn) -> None:
    """What is written reaches the command, what it answers comes back, and closing ends it."""
    process = popen(owner, "while read x; do echo got $x; done", shell=True, stdin="pipe", text=True)
    answers = []
    for word in ("a", "b"):
        process.write(f"{word}\n")
        answers.append(next(iter(process)))
    process.close_stdin()

    assert (["got a\n", "got b\n"], 0) == (answers, process.wait())


def test_writer_waits_for_a_slow_command(owner: FakeTurn, gates: Callable[[], Gate]) -> None:
    """write blocks while the command does not take what was written, and goes on when it does."""
    go = gates()
    process = popen(owner, f"read x < {go}; wc -c", shell=True, stdin="pipe", text=True)
    writer = Background(lambda: (process.write("x" * 500_000), process.close_stdin()))
    assert until(lambda: process._changed._waiters)  # type: ignore[attr-defined]
    go.open()
    writer.result()

    assert ["500000\n"] == [str(line).lstrip() for line in process]


def test_writer_is_woken_by_a_stop(owner: FakeTurn) -> None:
    """A thread that waits to write gets the stop."""
    process = popen(owner, ["sleep", "60"], stdin="pipe")
    writer = Background(lambda: process.write(b"x" * 500_000))
    assert until(lambda: process._changed._waiters)  # type: ignore[attr-defined]
    owner.stop()

    assert isinstance(writer.error(), CancelledError)


def test_writing_to_the_deaf_is_a_broken_pipe(owner: FakeTurn) -> None:
    """A command that has ended or closed its stdin takes nothing: BrokenPipeError, also amid a write."""
    process = popen(owner, "exec <&-; sleep 60", shell=True, stdin="pipe")
    with pytest.raises(BrokenPipeError):
        while True:
            process.write(b"x" * 100_000)
    ended = popen(owner, ["true"], stdin="pipe")
    ended.wait()

    with pytest.raises(BrokenPipeError):
        ended.write(b"x")


def test_misuse_of_stdin_is_told(owner: FakeTurn) -> None:
    """Writing where there is no stdin, the wrong type, or after closing says what to do."""
    without = popen(owner, ["true"])
    raw = popen(owner, ["cat"], stdin="pipe")
    text = popen(owner, ["cat"], stdin="pipe", text=True)
    raw.close_stdin()

    with pytest.raises(TurnctlError, match='has no stdin to write to; start it with stdin="pipe"'):
        without.write(b"")
    with pytest.raises(TypeError, match="give bytes, or start the command with text=True"):
        raw.write("x")
    with pytest.raises(TypeError, match="with text=True give a str"):
        text.write(b"x")
    with pytest.raises(TurnctlError, match="has been closed"):
        raw.write(b"x")


# -- owners ---------------------------------------------------------------------------------------------------


def test_end_of_the_turn_ends_it(owner: FakeTurn) -> None:
    """A command that still runs when its turn ends is ended by it, thread included."""
    tag = nap()
    process = popen(owner, f"{tag}; true", shell=True)
    owner.end()

    assert [] == alive(tag)
    assert process.outcome().stopped
    assert [] == [one.name for one in threading.enumerate() if one.name.startswith("turnctl-process")]


def test_stopped_owner_starts_nothing(owner: FakeTurn, tmp_path: Path) -> None:
    """popen is a checkpoint before it starts anything, and takes nothing once the turn is decided."""
    owner.is_closed = True
    with pytest.raises(TurnOver):
        popen(owner, ["touch", tmp_path / "made"])
    owner.stop()
    with pytest.raises(CancelledError):
        popen(owner, ["touch", tmp_path / "made"])

    assert not (tmp_path / "made").exists()


def test_stop_right_after_the_start(owner: FakeTurn) -> None:
    """A stop in the first moment of a command ends it, and its handle tells."""
    with call_at("processes.run.spawned", owner.stop):
        process = popen(owner, ["sleep", "60"])

    assert until(lambda: process.outcome().returncode == -signal.SIGTERM)


def test_errors_of_the_start_are_those_of_run(owner: FakeTurn) -> None:
    """What cannot be started raises at the call, and nothing is left of it."""
    with pytest.raises(FileNotFoundError):
        popen(owner, ["no-such-program-here"])
    with pytest.raises(BadArgument):
        popen(owner, [])

    assert "failed" == owner.activities[0].record().state


def test_no_thread_to_be_had_ends_the_command(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can be started for it the command is ended again, and the error is that of an exhausted limit."""
    tag = nap()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(BlockingIOError, match="no thread is to be had"):
        popen(owner, f"{tag}; true", shell=True)

    assert [] == alive(tag)


def test_without_a_turn_it_is_ended_by_its_with(leak_check: object) -> None:
    """Without a turn a command can be started too, and leaves no leftovers when it ends."""
    tag = nap()
    with popen(Unowned(), f"{tag} & echo x", shell=True) as process:
        assert [b"x\n"] == list(process)
        process.wait()
        assert until(lambda: process._supervision.phase == "over")

    assert [] == alive(tag)


def test_two_hundred_handles_leave_nothing(owner: FakeTurn) -> None:
    """Handles of ended commands hold no descriptor and no thread, though the turn goes on."""
    processes = [popen(owner, ["true"], stdin="pipe") for _ in range(5)]
    for process in processes:
        process.wait()
    assert until(lambda: all(p._supervision.phase == "over" for p in processes))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        with popen(owner, ["true"], stdin="pipe") as process:
            process.wait()

    assert before >= len(os.listdir("/proc/self/fd"))  # fewer, where a spare warden has gone meanwhile
    assert 0 == owner.watched


def test_handle_shows_what_it_is(owner: FakeTurn) -> None:
    """The text of a handle names pid, command and phase."""
    process: Process = popen(owner, ["sleep", "60"])

    assert f"<Process {process.pid} 'sleep 60' running>" == repr(process)
    process.stop()
    assert f"<Process {process.pid} 'sleep 60' over>" == repr(process)


def test_poll_gives_status_and_never_blocks(owner: FakeTurn, gate: Gate) -> None:
    """None while it runs, then the status, as ``subprocess`` has it."""
    with popen(owner, f"read x < {gate}; exit 3", shell=True) as process:
        before = process.poll()
        gate.open()
        ended = until(lambda: process.poll() is not None)

        assert None is before
        assert ended
        assert 3 == process.poll() == process.wait()


def test_status_of_a_stopped_command_is_no_result(owner: FakeTurn, gate: Gate) -> None:
    """A waiter that wakes after the stop has ended the command gets the stop, not the status that this left."""
    process = popen(owner, f"echo > {gate}; sleep 60", shell=True)
    gate.wait()
    with pause_at("process.waiting") as pause:
        waiter = Background(lambda: process.wait())
        assert pause.reached.wait(BOUND)
        owner.stop()
        assert until(lambda: process.returncode == -signal.SIGTERM)
        pause.release()

        assert isinstance(waiter.error(), CancelledError)
    assert -signal.SIGTERM == process.returncode
