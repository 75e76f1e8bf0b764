"""On a terminal: each key goes once to whom it is meant for, and afterwards the terminal is as it was."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from commands import alive, nap, state_of
from launch import turnctl_argv
from ptys import CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, Screen, Shell, on_terminal, program, session_of
from shapes import shape
from standins import until
from warding import tag as some_tag

pytestmark = pytest.mark.slow

# by the wake-up descriptor: a handler in Python may have to wait until a read that has just begun comes back
COUNTER = """
import os, select, signal
signal.signal(signal.SIGINT, lambda *_: None)
came, end = os.pipe()
os.set_blocking(end, False)
signal.set_wakeup_fd(end)
count = 0
print("ready", flush=True)
while True:
    ready = select.select([came, 0], [], [])[0]
    for _ in os.read(came, 99) if came in ready else b"":
        count += 1
        print("pressed", count, flush=True)
    if 0 in ready and not os.read(0, 99):
        break
print("in all", count, flush=True)
"""

# no shell script: one that is just forking when a key comes loses it or cannot be stopped, with or without turnctl
SLEEPER = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def shell(tmp_path: Path, leak_check: object) -> Iterator[Shell]:
    """A shell with job control, and turnctl on its PATH."""
    with Shell(tmp_path) as shell:
        yield shell


def assert_normal(shell: Shell) -> None:
    """The shell has its terminal back and works."""
    assert shell.is_in_front()
    assert "works" in shell.run("echo works")


def test_command_reads_the_terminal(shell: Shell) -> None:
    """A command reads what is typed, as if turnctl were not there, and the shell has the terminal again."""
    shell.line("turnctl run cat")
    shell.send("typed\n")
    shell.see("typed")
    shell.send(CTRL_D)
    shown = shell.prompt()

    assert "turnctl" not in shown
    assert 0 == shell.exit_status()
    assert_normal(shell)


def test_interpreter_keeps_ctrl_c(shell: Shell) -> None:
    """Ctrl-C at an interactive Python is one KeyboardInterrupt in it, and it goes on computing."""
    shell.line("turnctl run -- python3 -iq")
    shell.see(">>> ")
    between = ""
    while ">>> " not in between:
        # again, if it came in the moment between the prompt and the read, where Python itself overlooks it
        shell.send(CTRL_C)
        shell.expect_exact([">>> ", pexpect.TIMEOUT], timeout=1.5)
        between = shell.before + str(shell.after)
    shell.send("print(6 * 7)\n")
    shell.see("42")
    shell.send("exit(5)\n")
    shown = shell.prompt()

    assert 1 == between.count("KeyboardInterrupt")
    assert "turnctl" not in shown
    assert 5 == shell.exit_status()


def test_key_arrives_exactly_once(shell: Shell, tmp_path: Path) -> None:
    """A program that counts its interrupts gets one for each Ctrl-C, also through a shell in between."""
    shell.line(f"turnctl run -- sh -c 'trap : INT; {program(tmp_path, COUNTER)}; exit $?'")
    shell.see("ready")
    for count in (1, 2):
        shell.send(CTRL_C)
        shell.see(f"pressed {count}")
    shell.send(CTRL_D)
    shell.see("in all 2")
    shell.prompt()

    assert 0 == shell.exit_status()


def test_ctrl_c_ends_a_plain_command(shell: Shell, tmp_path: Path) -> None:
    """A command that does nothing about Ctrl-C dies of it; turnctl says nothing and dies of it too."""
    tag = nap()
    shell.line(f"turnctl run -- {program(tmp_path, SLEEPER)} '{tag}'")
    shell.see("ready")
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert 128 + signal.SIGINT == shell.exit_status()
    assert "turnctl" not in shown
    assert [] == alive(tag)
    assert_normal(shell)


def test_ctrl_c_breaks_the_loop_around_it(shell: Shell, tmp_path: Path) -> None:
    """The shell sees a death by SIGINT, so Ctrl-C ends the loop that the command stands in."""
    shell.line(f"for i in 1 2 3; do turnctl run -- {program(tmp_path, SLEEPER)}; done")
    shell.see("ready")
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "ready" not in shown


def test_ctrl_backslash_is_like_ctrl_c(shell: Shell, tmp_path: Path) -> None:
    """Ctrl-backslash ends the command and turnctl by SIGQUIT, and turnctl leaves no core file."""
    shell.run("ulimit -c 0")
    shell.line(f"turnctl run -- {program(tmp_path, SLEEPER)}")
    shell.see("ready")
    shell.send(CTRL_BACKSLASH)
    shell.prompt()

    assert 128 + signal.SIGQUIT == shell.exit_status()


def test_ignored_ctrl_c_stops_the_command(shell: Shell) -> None:
    """Where the command ignores Ctrl-C the press is not lost: it stops the turn, with everything in it."""
    tag = nap()
    shell.line(f"turnctl run -- sh -c 'trap \"\" INT; echo ready; {tag} & {tag}'")
    shell.see("ready")
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "turnctl: stop accepted (Ctrl-C)" in shown
    assert "turnctl: stopped by Ctrl-C, which took" in shown
    assert 128 + signal.SIGINT == shell.exit_status()
    assert [] == alive(tag)
    assert_normal(shell)


def test_second_ctrl_c_kills(shell: Shell) -> None:
    """A command that ignores every request is killed at the second press, long before its grace has passed."""
    tag = nap()
    shell.line(f"turnctl run --grace 10m -- sh -c 'trap \"\" INT TERM; echo ready; {tag}'")
    shell.see("ready")
    shell.send(CTRL_C)
    shell.see("KILL in 10m")
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "2 needed SIGKILL" in shown
    assert 128 + signal.SIGINT == shell.exit_status()
    assert [] == alive(tag)
    assert_normal(shell)


def test_three_presses_stop_one_that_catches(shell: Shell, tmp_path: Path) -> None:
    """Three presses within two seconds stop also a program that handles each of them."""
    shell.line(f"turnctl run -- {program(tmp_path, COUNTER)}")
    shell.see("ready")
    accepted = ["stop accepted (Ctrl-C)", pexpect.TIMEOUT]
    for count in range(1, 30):  # more than three, where the machine is so busy that two melt into one or come late
        shell.send(CTRL_C)
        if shell.expect_exact(["stop accepted (Ctrl-C)", "pressed"]) == 0:
            break
        # what else it would mean to press on: the second and the third press of a stop
        if count >= 3 and shell.expect_exact(accepted, timeout=1.0) == 0:
            break
    shell.prompt()

    assert 128 + signal.SIGINT == shell.exit_status()


def test_settings_are_restored_after_a_kill(shell: Shell, tmp_path: Path) -> None:
    """A command that had the terminal raw and was killed leaves it as it was before."""
    before = shell.modes()
    raw = program(
        tmp_path,
        "import time, tty; tty.setraw(0); print('raw', flush=True); time.sleep(60)",
    )
    shell.line(f"turnctl run --grace 0s -- {raw}")
    shell.see("raw")
    changed = shell.modes()
    os.kill(shell.foreground, signal.SIGKILL)
    shell.prompt()

    assert before != changed
    assert before == shell.modes()
    assert 128 + signal.SIGKILL == shell.exit_status()
    assert_normal(shell)


def test_settings_are_restored_after_the_timeout(shell: Shell, tmp_path: Path) -> None:
    """The same when the timeout ends it."""
    before = shell.modes()
    raw = program(tmp_path, "import time, tty; tty.setraw(0); time.sleep(60)")
    shown = shell.run(f"turnctl run --grace 0s --timeout 400ms -- {raw}")

    assert "1 needed SIGKILL" in shown
    assert before == shell.modes()
    assert 124 == shell.exit_status()


def test_settings_that_were_meant_stay(shell: Shell) -> None:
    """A command that ends by itself may have been there to set the terminal: stty through turnctl works."""
    before = shell.modes()
    shell.run("turnctl run stty -ixon")
    after = shell.modes()
    shell.run("turnctl run stty ixon")

    assert before != after
    assert before == shell.modes()


def test_command_has_the_foreground_from_the_start(shell: Shell, tmp_path: Path) -> None:
    """The first thing that a command does may be to look whether it is in the foreground: it always is."""
    code = "import os; print('front', os.tcgetpgrp(0) == os.getpgrp() == os.getpid(), os.getsid(0) != os.getpid())"
    look = program(tmp_path, code)
    shown = shell.run(f"for i in 1 2 3; do turnctl run -- {look}; done")

    assert 3 == shown.count("front True True")


def test_failed_start_gives_the_terminal_back(shell: Shell) -> None:
    """A command that cannot be found has had the foreground for a moment; the shell has it again."""
    shown = shell.run("turnctl run no-such-command")

    assert "command not found: no-such-command" in shown
    assert 127 == shell.exit_status()
    assert_normal(shell)


def test_reader_in_the_background_hangs_nothing(shell: Shell) -> None:
    """A process of the command that was stopped for reading the terminal is ended with the command."""
    shown = shell.run("turnctl run --grace 10m -- bash -c 'set -m; cat & wait; kill %1 || :; exit 5'")

    assert "turnctl" not in shown.replace("turnctl: the command has ended", "").split("none left")[-1]
    assert 5 == shell.exit_status()
    assert_normal(shell)


def test_ctrl_z_stops_the_job_and_fg_goes_on(shell: Shell) -> None:
    """Ctrl-Z gives the shell its terminal; after fg the command reads again, and ends as ever."""
    shell.line("turnctl run cat")
    shell.send("one\n")
    shell.see("one")
    shell.send(CTRL_Z)
    stopped = shell.prompt()
    in_front = shell.is_in_front()
    shell.line("fg")
    shell.send("two\n")
    shell.see("two")
    shell.send(CTRL_D)
    shell.prompt()

    assert "Stopped" in stopped
    assert in_front
    assert 0 == shell.exit_status()
    assert_normal(shell)


def test_ctrl_z_stops_the_script_around_it(shell: Shell, tmp_path: Path) -> None:
    """A script that called turnctl is stopped with it, so that the shell sees its job stopped."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nturnctl run cat\necho after $?\n")
    script.chmod(0o755)
    shell.line(str(script))
    shell.send("one\n")
    shell.see("one")
    shell.send(CTRL_Z)
    stopped = shell.prompt()
    shell.line("fg")
    shell.send(CTRL_D)
    shown = shell.prompt()

    assert "Stopped" in stopped
    assert "after 0" in shown


def test_stopped_job_can_be_ended(shell: Shell, tmp_path: Path) -> None:
    """A stop that comes while the job is stopped takes effect as soon as it is continued."""
    tag = nap()
    shell.line(f"turnctl run -- {program(tmp_path, SLEEPER)} '{tag}'")
    shell.see("ready")
    shell.send(CTRL_Z)
    shell.prompt()
    shell.line("kill %1; fg")
    shown = shell.prompt()

    assert "stopped by SIGTERM" in shown
    assert [] == alive(tag)
    assert_normal(shell)


def test_job_goes_on_in_the_background(shell: Shell) -> None:
    """After Ctrl-Z and bg the command runs on, and the shell keeps the terminal to the end."""
    shell.line("turnctl run -- sh -c 'echo ready; read x; echo was $x'")
    shell.see("ready")
    shell.send(CTRL_Z)
    shell.prompt()
    shell.run("bg")
    # it wants to read: the shell is told again, not the terminal taken
    assert until(lambda: "Stopped" in shell.run("jobs"))
    assert shell.is_in_front()
    shell.line("fg")
    shell.send("said\n")
    shell.see("was said")
    shell.prompt()
    assert 0 == shell.exit_status()


def test_background_job_leaves_the_foreground(shell: Shell) -> None:
    """Started with & it takes nothing from the shell, and fg brings it to the front."""
    shell.run("turnctl run cat &")
    assert until(lambda: "Stopped" in shell.run("jobs"))
    assert shell.is_in_front()
    shell.line("fg")
    shell.send("read\n")
    shell.see("read")
    shell.send(CTRL_D)
    shell.prompt()
    assert 0 == shell.exit_status()


def test_pager_behind_it_keeps_the_terminal(shell: Shell, tmp_path: Path) -> None:
    """In a pipeline the foreground stays with the pipeline: the pager can read keys."""
    pager = program(
        tmp_path,
        """
import sys
text = sys.stdin.read()
print("pages:", len(text.split()), flush=True)
print("key:", open("/dev/tty").readline().strip(), flush=True)
""",
    )
    shell.line(f"turnctl run seq 1000 | {pager}")
    shell.see("pages: 1000")
    shell.send("q\n")
    shell.see("key: q")
    shell.prompt()
    assert_normal(shell)


def test_ctrl_z_in_a_pipeline_stops_the_command_too(shell: Shell, tmp_path: Path) -> None:
    """Where the foreground stays with the pipeline, Ctrl-Z stops the command as well, and fg continues it."""
    tag = nap()
    shell.line(f"turnctl run -- {program(tmp_path, SLEEPER)} '{tag}' | cat")
    shell.see("ready")
    [pid] = [p for p in alive(tag) if os.getpgid(p) == p and os.getpgid(p) != shell.foreground]
    shell.send(CTRL_Z)
    stopped = shell.prompt()
    is_stopped = until(lambda: state_of(pid) == "T")
    shell.line("fg")
    goes_on = until(lambda: state_of(pid) in "SR")
    shell.send(CTRL_C)
    shell.prompt()

    assert "Stopped" in stopped
    assert is_stopped
    assert goes_on
    assert [] == alive(tag)
    assert_normal(shell)


def test_ctrl_z_just_after_the_start_stops_both(shell: Shell, tmp_path: Path) -> None:
    """Ctrl-Z that reaches turnctl when the command runs, but is not known to it yet, stops the command as well (F6)."""
    held, go = tmp_path / "held", tmp_path / "go"
    before = f"""
import os, time
from turnctl import points
def hold(name):
    while name == "processes.run.spawned" and not os.path.exists({str(go)!r}):
        open({str(held)!r}, "w").close()
        time.sleep(0.01)
points.hook = hold"""
    script = tmp_path / "late"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(turnctl_argv(before=before))} "$@"\n')
    script.chmod(0o755)
    tag = nap()
    shell.line(f"late run -- {program(tmp_path, SLEEPER)} '{tag}' | cat")
    shell.see("ready")
    assert until(held.exists)
    [pid] = [p for p in alive(tag) if os.getpgid(p) == p and os.getpgid(p) != shell.foreground]
    job = [p for p in session_of(shell.pid) if os.getpgid(p) == shell.foreground]
    shell.send(CTRL_Z)
    assert until(lambda: any(state_of(p) == "T" for p in job))
    go.touch()
    stopped = shell.prompt()
    is_stopped = until(lambda: state_of(pid) == "T")
    shell.line("fg")
    goes_on = until(lambda: state_of(pid) in "SR")
    shell.send(CTRL_C)
    shell.prompt()

    assert "Stopped" in stopped
    assert is_stopped
    assert goes_on
    assert [] == alive(tag)
    assert_normal(shell)


def test_command_in_a_pipeline_gets_the_terminal(shell: Shell) -> None:
    """In a pipeline a command that does read the terminal is handed it when it wants it."""
    shell.line("turnctl run -- sh -c 'read x </dev/tty; echo was $x' | cat")
    shell.send("typed\n")
    shell.see("was typed")
    shell.prompt()
    assert_normal(shell)


def test_script_keeps_reading_beside_it() -> None:
    """What a script without job control puts in the background does not take the terminal from the script."""
    tag = nap()
    job = shlex.join(turnctl_argv("run", "--", "sh", "-c", f"echo ready; exec {tag}"))
    code = f"{job} & read x; echo got $x; kill $!; wait $!"
    with Screen(["sh", "-c", code]) as screen:
        screen.see("ready")
        screen.send("typed\n")
        screen.see("got typed")

        assert 128 + signal.SIGTERM == screen.ended()
    assert [] == alive(tag)


def test_reader_in_a_scripts_background_says_so() -> None:
    """What cannot have the terminal stays stopped, turnctl says so, and its timeout ends it all the same."""
    job = shlex.join(turnctl_argv("run", "--timeout", "1s", "--", "sh", "-c", "read x </dev/tty"))
    with Screen(["sh", "-c", f"{job} & wait $!"]) as screen:
        screen.see("turnctl: the command was stopped by SIGTTIN and waits for SIGCONT")

        assert 124 == screen.ended()


def test_stop_from_elsewhere_is_seen_by_the_shell(shell: Shell, tmp_path: Path) -> None:
    """A command that is stopped by SIGSTOP is a stopped job to the shell, and fg continues it."""
    tag = nap()
    shell.line(f"turnctl run -- {program(tmp_path, SLEEPER)} '{tag}'")
    shell.see("ready")
    os.kill(shell.foreground, signal.SIGSTOP)
    stopped = shell.prompt()
    shell.line("fg")
    assert until(lambda: not shell.is_in_front() and state_of(shell.foreground) == "S")
    shell.send(CTRL_C)
    shell.prompt()

    assert "Stopped" in stopped
    assert 128 + signal.SIGINT == shell.exit_status()


def test_nested_ones_pass_keys_on(shell: Shell, tmp_path: Path) -> None:
    """turnctl in turnctl in turnctl: a press reaches the innermost command, and what it ignores stops them all."""
    tag = nap()
    nested = "turnctl run -- " * 3
    shell.line(f"{nested} {program(tmp_path, SLEEPER)} '{tag}'")
    shell.see("ready")
    shell.send(CTRL_C)
    plain = shell.prompt()
    first = shell.exit_status()
    (tmp_path / "out").touch()
    shell.line(f"{nested} sh -c 'trap \"\" INT; echo ready; {tag}' >{tmp_path}/out")
    assert until(lambda: "ready" in (tmp_path / "out").read_text())
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert "turnctl" not in plain
    assert "stop accepted (Ctrl-C)" in shown
    assert 128 + signal.SIGINT == first == shell.exit_status()
    assert [] == alive(tag)
    assert_normal(shell)


def test_ctrl_z_without_a_shell_does_nothing() -> None:
    """Where no shell could continue it, Ctrl-Z does what it does to any such job: nothing."""
    with on_terminal("run", "cat") as screen:
        screen.send("one\n")
        screen.see("one")
        screen.send(CTRL_Z)
        screen.send("two\n")
        screen.see("two")
        screen.send(CTRL_D)

        assert 0 == screen.ended()


def test_death_by_ctrl_c_is_seen_by_the_parent() -> None:
    """Whoever started turnctl sees that SIGINT ended it."""
    with on_terminal("run", "--", "sh", "-c", f"trap '' INT; echo ready; {nap()}") as screen:
        screen.see("ready")
        screen.send(CTRL_C)

        assert -signal.SIGINT == screen.ended()


def test_hang_up_ends_the_command() -> None:
    """When the terminal goes away, so does the command, also one that ignores the hang-up."""
    tag = nap()
    with on_terminal("run", "--", "sh", "-c", f"trap '' HUP; echo ready; {tag}") as screen:
        screen.see("ready")
        screen.hang_up()

        assert until(lambda: not alive(tag))
        screen.ptyproc.wait()
        assert signal.SIGHUP == screen.ptyproc.signalstatus


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_daemon_of_a_terminal_ends_with_turnctl(number: int) -> None:
    """What has left session, group and parent is ended by a stop, and also where turnctl is killed (promise 10)."""
    mark = some_tag()
    with on_terminal("run", "--grace", "200ms", "--", *shape("deaf daemon", mark)) as screen:
        screen.see("ready")
        os.kill(screen.pid, number)

        assert -number == screen.ended()
        assert until(lambda: not alive(mark), within=10) if number == signal.SIGKILL else [] == alive(mark)


def test_command_on_a_terminal_is_proved_to_have_ended(tmp_path: Path) -> None:
    """On a terminal a command has a warden as well."""
    path = tmp_path / "s.json"
    with on_terminal("run", "--summary", str(path), "--", "true") as screen:
        assert 0 == screen.ended()
    (process,) = json.loads(path.read_text())["processes"]

    assert ("complete", True, []) == (process["containment"], process["empty_proven"], process["notes"])


def test_tostop_stops_nobody() -> None:
    """On a terminal that stops background writers turnctl still says its piece."""
    with on_terminal("run", "--timeout", "300ms", "--", "sh", "-c", f"stty tostop; {nap()}") as screen:
        screen.see("stop accepted (timeout of 0.3 s passed)")

        assert 124 == screen.ended()
        assert "none left" in screen.shown


def test_signal_to_turnctl_gives_the_terminal_back(shell: Shell) -> None:
    """SIGTERM from elsewhere stops the command in the foreground, and the shell has the terminal again."""
    tag = nap()
    shell.line(f"turnctl run -- sh -c 'echo ready; {tag}'")
    shell.see("ready")
    os.kill(shell.child(tag), signal.SIGTERM)
    shown = shell.prompt()

    assert "stopped by SIGTERM" in shown
    assert 128 + signal.SIGTERM == shell.exit_status()
    assert [] == alive(tag)
    assert_normal(shell)


def test_helper_at_the_keys_is_not_the_commands(shell: Shell) -> None:
    """The process that watches the keys holds no descriptor of the command, counts nowhere, and ends with turnctl."""
    tag = nap()
    shell.line(f"turnctl run --summary {shell.script.parent}/s -- sh -c 'trap \"\" INT; echo ready; {tag}'")
    shell.see("ready")
    [turnctl] = [p for p in alive(tag) if os.getpgid(p) != shell.foreground and os.getppid() != p][:1]
    sleepers = [p for p in alive(tag) if os.getpgid(p) == shell.foreground and p != turnctl]
    [helper] = [p for p in sleepers if Path(f"/proc/{p}/comm").read_text().strip() == "turnctl-keys"]
    held = {os.readlink(f"/proc/{helper}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{helper}/fd")}
    shell.send(CTRL_C)
    shown = shell.prompt()

    assert {"pipe"} == held
    assert "2 processes ended" in shown
    assert "turnctl-keys" not in shown
    assert not Path(f"/proc/{helper}").exists()
