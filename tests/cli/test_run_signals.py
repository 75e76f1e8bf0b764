"""Signals to ``turnctl run``: first stop, second kill, third leave; and turnctl dies of what stopped it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Gate, alive, nap
from launch import call, clean_environment, finish, start, turnctl_argv
from standins import until

from turnctl.processes.signames import name_of

AT_POINT = """
import os, signal
from turnctl import points
def hook(name):
    if name == {point!r}:
        os.kill(os.getpid(), signal.{name})
points.hook = hook
"""


@pytest.fixture
def gate(tmp_path: Path, leak_check: object) -> Gate:
    """A place where a command says that it is ready."""
    return Gate(tmp_path / "gate")


def ready_then(gate: Gate, script: str, *, trap: str = "") -> list[str]:
    """A shell command that sets its traps and opens the gate, then does ``script``."""
    return ["sh", "-c", f"{trap and f'trap {trap}; '}echo ready >{gate}; {script}"]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_first_signal_stops_and_is_died_of(gate: Gate, name: str) -> None:
    """A signal to turnctl stops the whole tree; then turnctl dies of that very signal."""
    number = signal.Signals[name]
    tag = nap()
    process = start("run", "--", *ready_then(gate, f"{tag} & {tag}"))
    gate.wait()
    process.send_signal(number)
    status, _, err = finish(process)
    gate.close()

    assert -number == status
    assert [] == alive(tag)
    assert f"turnctl: stop accepted ({'Ctrl-C' if name == 'SIGINT' else name})\n" in err
    assert "none left" in err.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGPROF, signal.SIGABRT, signal.SIGIO, signal.SIGRTMIN + 1])
def test_every_deadly_signal_stops(gate: Gate, number: int) -> None:
    """A signal that would end turnctl by default stops the command first, and is died of then, without a core file."""
    tag = nap()
    process = start("run", "--", *ready_then(gate, f"{tag} & {tag}"))
    gate.wait()
    process.send_signal(number)
    status, _, err = finish(process)
    gate.close()

    assert -number == status
    assert [] == alive(tag)
    assert f"turnctl: stop accepted ({name_of(number)})\n" in err


def test_each_signal_that_ends_a_process_is_a_press() -> None:
    """All that ends a process by default is handled, but for what tells of a fault, PIPE and what cannot be caught."""
    show = (
        "import os; os.kill(os.getpid(), 0); bits = int(open('/proc/%s/status' % os.environ['HOST']).read()"
        ".split('SigCgt:')[1].split()[0], 16); print([n for n in range(1, 65) if bits >> n - 1 & 1])"
    )
    before = "import os; os.environ['HOST'] = str(os.getpid())"
    out = call("run", sys.executable, "-I", "-S", "-c", show, before=before).out
    named = re.findall(r"\w+", "HUP INT QUIT TRAP ABRT USR1 USR2 ALRM TERM STKFLT XCPU VTALRM PROF IO PWR SYS")
    expected = {signal.Signals[f"SIG{name}"] for name in named} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))

    assert expected == set(json.loads(out)) - {32, 33}  # these two are the C library's own


def test_deadly_signal_stops_where_the_four_are_ignored(gate: Gate) -> None:
    """Also in a job whose INT, TERM, HUP and QUIT are ignored, and which ignores USR2, USR1 stops and USR2 does not."""
    tag = nap()
    ignore = "import signal\nfor n in (1, 2, 3, 12, 15): signal.signal(n, signal.SIG_IGN)"
    process = start("run", "--grace", "0s", "--", *ready_then(gate, tag), before=ignore)
    gate.wait()
    process.send_signal(signal.SIGUSR2)
    process.send_signal(signal.SIGUSR1)
    status, _, err = finish(process)
    gate.close()

    assert -signal.SIGUSR1 == status
    assert [] == alive(tag)
    assert "stop accepted (SIGUSR1)" in err


def test_second_signal_kills(gate: Gate) -> None:
    """A command that ignores TERM has its grace until the second press, whichever signal that is."""
    tag = nap()
    process = start("run", "--grace", "10m", "--", *ready_then(gate, tag, trap="'' TERM INT"))
    gate.wait()
    assert process.stderr is not None
    process.send_signal(signal.SIGTERM)
    until(lambda: len(alive(tag)) > 0)
    first = [process.stderr.readline() for _ in range(2)]
    process.send_signal(signal.SIGINT)
    status, _, err = finish(process)
    gate.close()

    assert first[1].endswith("SIGTERM first, KILL in 10m\n")
    assert err.startswith("turnctl: killing what is left now; once more to stop waiting for it\n")
    assert "needed SIGKILL" in err
    assert -signal.SIGTERM == status
    assert [] == alive(tag)


def test_third_signal_leaves(gate: Gate, tmp_path: Path) -> None:
    """The third press stops waiting: what is left is named, the summary is written, the status is 123."""
    tag = nap()
    summary = tmp_path / "summary"
    process = start("run", "--summary", str(summary), "--", *ready_then(gate, f"exec {tag}"))
    gate.wait()
    # all three are there before it can act on the first
    process.send_signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    assert until(lambda: process.poll() is not None)
    for pid in alive(tag):
        os.kill(pid, signal.SIGKILL)  # it has our end of the pipe as well
    status, _, err = finish(process)
    gate.close()
    found = json.loads(summary.read_text())

    assert 123 == status
    assert "turnctl: stopped waiting; still there: " in err.splitlines()[-1]
    assert (123, None) == (found["exit_status"], found["exit_signal"])
    assert "stopping" == found["execution"]["state"]
    assert found["execution"]["alive"]


def test_hang_up_counts_once(gate: Gate) -> None:
    """A hang-up is told by the kernel and by the shell: two of them are one press, and the grace runs."""
    tag = nap()
    # no trap where the child is forked, or one that comes before it has loaded its program is lost on it
    script = f"{tag} & trap 'exit 3' TERM; echo ready >{gate}; wait"
    process = start("run", "--grace", "10m", "--", "sh", "-c", script)
    gate.wait()
    process.send_signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGHUP)
    status, _, err = finish(process)
    gate.close()

    assert -signal.SIGHUP == status
    assert "killing" not in err
    assert [] == alive(tag)


def test_first_stop_decides_the_status(gate: Gate) -> None:
    """A signal after the deadline changes nothing: the status is that of the stop that was accepted first."""
    tag = nap()
    command = ready_then(gate, tag, trap="'' TERM")
    process = start("run", "--timeout", "300ms", "--grace", "10m", "--", *command)
    gate.wait()
    assert process.stderr is not None
    until(lambda: "stop accepted (timeout" in process.stderr.readline())  # type: ignore[union-attr]
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    status = finish(process).status
    gate.close()

    assert 124 == status
    assert [] == alive(tag)


@pytest.mark.parametrize("point", ["turn.begin.registered", "processes.run.admitted"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_signal_before_the_start_starts_nothing(tmp_path: Path, point: str, name: str) -> None:
    """A signal that comes before the command is started: it is not started, and turnctl dies of the signal."""
    marker = tmp_path / "ran"
    ended = call("run", "touch", str(marker), before=AT_POINT.format(point=point, name=name))

    assert -signal.Signals[name] == ended.status
    assert not marker.exists()


def test_signal_while_loading_starts_nothing(tmp_path: Path) -> None:
    """The same while turnctl is still being loaded."""
    marker = tmp_path / "ran"
    before = """
import os, signal, turnctl.processes.terminal as t
t.Terminal.find = classmethod(lambda cls: os.kill(os.getpid(), signal.SIGTERM))
"""

    assert -signal.SIGTERM == call("run", "touch", str(marker), before=before).status
    assert not marker.exists()


def test_signal_after_the_end_changes_nothing() -> None:
    """A signal that comes when everything has ended finds the status decided; turnctl finishes in peace."""
    before = """
import os, signal, turnctl.cli.execute as e
real = e.Execution._account
def account(self):
    os.kill(os.getpid(), signal.SIGTERM)
    return real(self)
e.Execution._account = account
"""

    assert 7 == call("run", "--", "sh", "-c", "exit 7", before=before).status


def test_ignored_interrupt_stays_ignored(gate: Gate, tmp_path: Path) -> None:
    """Where SIGINT was ignored from the start, as under a shell's &, turnctl and the command ignore it."""
    script = f"grep SigIgn /proc/self/status >{tmp_path}/ignored; echo ready >{gate}; exec {nap()}"
    argv = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *turnctl_argv("run", "--", "sh", "-c", script)]
    process = subprocess.Popen(argv, env=clean_environment(), stderr=subprocess.PIPE, text=True)
    gate.wait()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    gate.close()
    ignored = int((tmp_path / "ignored").read_text().split()[1], 16)

    assert ignored & 1 << (signal.SIGINT - 1)
    assert -signal.SIGTERM == process.returncode
    assert "Ctrl-C" not in err


def test_process_one_exits_instead_of_dying() -> None:
    """As process 1 of a container, which no signal can end, turnctl gives the status that shells show for it."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine lets us make no pid namespace")
    argv = [*inside, *turnctl_argv("run", "--", "sh", "-c", "kill -TERM 1; exec sleep 60")]
    done = subprocess.run(argv, env=clean_environment(), capture_output=True, text=True, timeout=30, check=False)

    assert 128 + signal.SIGTERM == done.returncode
    assert "turnctl: stopped by SIGTERM" in done.stderr
