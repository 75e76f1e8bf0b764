"""Which custody a command gets, and that it is never a weaker one in silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import FakeTurn, Gate, alive, nap, python, state_of
from standins import BOUND, Background, until
from warding import ends, parent_of

from turnctl import processes
from turnctl.errors import BadArgument, CancelledError, ContainmentUnavailable
from turnctl.processes import begin, launch, link, upkeep
from turnctl.processes.command import popen, run
from turnctl.processes.levels import capabilities
from turnctl.processes.upkeep import Launcher

pytestmark = pytest.mark.usefixtures("wardens")


def test_command_is_proved_to_have_ended(owner: FakeTurn) -> None:
    """With a warden the outcome says complete and proven, without a note."""
    outcome = run(owner, ["true"], require="complete").outcome

    assert ("complete", True, ()) == (outcome.containment, outcome.empty_proven, outcome.notes)


@pytest.mark.usefixtures("grouped")
def test_weaker_custody_says_why(owner: FakeTurn) -> None:
    """Without one it says best-effort, and why."""
    outcome = run(owner, ["true"]).outcome

    assert ("best-effort", False) == (outcome.containment, outcome.empty_proven)
    assert ("containment is best-effort: TURNCTL_CONTAINMENT=group asks for it",) == outcome.notes


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("start", [run, popen])
def test_required_custody_is_never_weaker(owner: FakeTurn, tmp_path: Path, start: object) -> None:
    """With require="complete" nothing is started where that is not to be had."""
    with pytest.raises(ContainmentUnavailable, match="touch .*: not started, since its end could not be proved: TURN"):
        start(owner, ["touch", tmp_path / "made"], require="complete")  # type: ignore[operator]

    assert not (tmp_path / "made").exists()
    assert "failed" == owner.activities[0].record().state


def test_before_exec_has_no_warden(owner: FakeTurn) -> None:
    """A function of this program cannot run in the warden's child, so the command is ours."""
    outcome = run(owner, ["true"], before_exec=lambda: None).outcome

    assert "best-effort" == outcome.containment
    assert "before_exec= runs in a fork of this program" in outcome.notes[0]


def test_refused_launcher_is_not_asked_for_again(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no launcher can be started the next commands do not wait for another try."""
    tries: list[object] = []

    def refuse(request: object, *_: object) -> object:
        tries.append(request)
        raise launch.Unavailable(22, "none to be had")

    monkeypatch.setattr(launch, "start", refuse)
    monkeypatch.setattr(begin, "_refused", None)
    notes = [run(owner, ["true"]).outcome.notes for _ in range(3)]

    assert [("containment is best-effort: none to be had",)] * 3 == notes
    assert 1 == len(tries)


def test_unknown_requirement_is_refused(owner: FakeTurn) -> None:
    """A word that is no level is told at once."""
    with pytest.raises(BadArgument, match="unknown require 'most'"):
        run(owner, ["true"], require="most")  # type: ignore[arg-type]


# -- what is handed over ----------------------------------------------------------------------------------------------


def test_inheritable_descriptors_are_handed_on(owner: FakeTurn) -> None:
    """close_fds=False hands on what is inheritable under its number, and nothing else."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        shown = run(owner, python("import os; print(os.listdir('/proc/self/fd'))"), close_fds=False, text=True).stdout
    finally:
        os.close(read)
        os.close(write)

    assert f"'{write}'" in str(shown)
    assert f"'{read}'" not in str(shown)


def _host(code: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("options", ["pass_fds=(251,)", "close_fds=False"])
def test_descriptor_above_the_limit_is_handed_on(options: str) -> None:
    """One whose number only an earlier limit allowed is handed on as well, without a warden, which is told."""
    code = (
        "import os, resource\nfrom turnctl.processes.command import Unowned, run\n"
        "os.dup2(1, 251)\nos.set_inheritable(251, True)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        f"done = run(Unowned(), ['sh', '-c', '[ -e /proc/self/fd/251 ] && echo there'], {options})\n"
        "print(done.stdout, *done.outcome.notes)\n"
        "print(run(Unowned(), ['true']).outcome.containment)\n"
    )
    told, after = _host(code).stdout.splitlines()

    assert "b'there\\n' containment is best-effort: descriptor 251 is to be handed on, and only those below 100" in told
    assert "complete" == after


def test_closed_streams_are_closed_in_the_command() -> None:
    """A standard stream that this program has closed, and the command inherits, is closed there too."""
    code = (
        "import os, sys\nfrom turnctl.processes.command import Unowned, run\n"
        "os.close(0)\n"
        "done = run(Unowned(), '[ -e /proc/$$/fd/0 ] && echo open || echo closed', shell=True, stdin='inherit')\n"
        "print(done.stdout, done.outcome.containment)\n"
    )
    host = _host(code)

    assert ("b'closed\\n' complete\n", "") == (host.stdout, host.stderr)


def test_group_in_our_session(owner: FakeTurn) -> None:
    """tty="inherit" is a group of its own in this program's session, and has a warden all the same."""
    done = run(owner, "echo $$ $(ps -o sid= -o pgid= -p $$)", shell=True, text=True, tty="inherit")
    pid, sid, pgid = map(int, str(done.stdout).split())

    assert (os.getsid(0), pid, "complete") == (sid, pgid, done.outcome.containment)


# -- somebody ends the helpers ----------------------------------------------------------------------------------------


def test_killed_warden_is_told(owner: FakeTurn, gate: Gate) -> None:
    """The launcher ends the command in the warden's place: proven, with an unknown status and the reason."""
    tag = nap()
    process = popen(owner, f"setsid {tag} & echo > {gate}; {tag}", shell=True)
    gate.wait()
    assert until(lambda: len(alive(tag)) == 3)
    os.kill(parent_of(process.pid), signal.SIGKILL)
    process.wait(10)
    outcome = process.outcome()

    assert [] == alive(tag)
    assert (None, True, True, False) == (
        outcome.returncode, outcome.exited, outcome.empty_proven, outcome.stopped,
    )  # fmt: skip
    assert "it was ended because its warden was gone, which another process must have ended" in outcome.notes
    assert "the exit status is not known: its warden was ended by SIGKILL" in outcome.notes
    assert "unknown" == owner.activities[0].record().state


def test_killed_launcher_ends_the_command(owner: FakeTurn, gate: Gate) -> None:
    """Its warden ends it: proven, and told."""
    tag = nap()
    call = Background(lambda: run(owner, f"{tag} & echo $$ > {gate}; {tag}; true", shell=True))
    pid = int(gate.wait())
    os.kill(parent_of(parent_of(pid)), signal.SIGKILL)
    outcome = call.result().outcome

    assert [] == alive(tag)
    assert (-signal.SIGTERM, True, False) == (outcome.returncode, outcome.empty_proven, outcome.stopped)
    assert ("it was ended because its launcher was gone, which another process must have ended",) == outcome.notes
    assert 0 == run(owner, ["true"]).returncode


def test_killed_together_nothing_is_claimed(owner: FakeTurn, gate: Gate) -> None:
    """Warden and launcher killed at one moment: the command may live, and is named as left."""
    tag = nap()
    started: list[int] = []
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec {tag}", shell=True, on_start=started.append))
    pid = int(gate.wait())
    assert until(lambda: started)  # the command may be ahead of the news of its start
    warden = parent_of(pid)
    launcher = parent_of(warden)
    os.kill(launcher, signal.SIGSTOP)
    os.kill(warden, signal.SIGKILL)
    os.kill(launcher, signal.SIGKILL)
    outcome = call.result().outcome
    os.kill(pid, signal.SIGKILL)

    assert (None, False, False) == (outcome.returncode, outcome.exited, outcome.empty_proven)
    (left,) = outcome.survivors
    assert (pid, "its warden and the launcher are gone, so nothing is known of it") == (left.pid, left.reason)
    assert "abandoned" == owner.activities[0].record().state
    assert ends(pid)


def test_killed_together_the_namespace_has_ended(owner: FakeTurn, gate: Gate) -> None:
    """In a namespace the kernel ends the command with its warden, and is asked: nothing is left, and that is proved."""
    _need("namespace")
    tag = nap()
    started: list[int] = []
    line = f"setsid {tag} & echo on > {gate}; exec {tag}"
    call = Background(lambda: run(owner, line, shell=True, on_start=started.append, containment="namespace"))
    gate.wait()
    assert until(lambda: started)
    warden = parent_of(parent_of(started[0]))
    launcher = parent_of(warden)
    os.kill(launcher, signal.SIGSTOP)
    os.kill(warden, signal.SIGKILL)
    os.kill(launcher, signal.SIGKILL)
    outcome = call.result().outcome

    assert [] == alive(tag)
    assert (None, True, True, ()) == (outcome.returncode, outcome.exited, outcome.empty_proven, outcome.survivors)
    assert any("ended with its namespace because its warden and the launcher were gone" in n for n in outcome.notes)
    assert "unknown" == owner.activities[0].record().state


@pytest.mark.parametrize("whom", ["warden", "launcher and warden"])
def test_stopped_warden_is_continued_by_a_stop(owner: FakeTurn, gate: Gate, whom: str) -> None:
    """A stop has a stopped warden continued, by a launcher that is continued for it: nothing of the command is left."""
    tag = nap()
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec {tag}", shell=True, on_stop="return"))
    warden = parent_of(int(gate.wait()))
    for pid in (parent_of(warden), warden) if whom != "warden" else (warden,):
        os.kill(pid, signal.SIGSTOP)
    owner.stop(1.0)
    outcome = call.result().outcome

    assert (-signal.SIGTERM, True) == (outcome.returncode, outcome.empty_proven)
    assert [] == alive(tag)


def test_warden_that_stays_stopped_is_replaced(owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warden that cannot be continued is killed by the launcher, which ends the command: nothing of it is left."""
    monkeypatch.setattr("turnctl.processes.guarded.MARGIN_S", 0.2)
    monkeypatch.setattr("turnctl.processes.warded.Warded.rouse", lambda _: None)
    tag = nap()
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec {tag}", shell=True, on_stop="return"))
    warden = parent_of(int(gate.wait()))
    os.kill(warden, signal.SIGSTOP)
    owner.stop(0.1)
    outcome = call.result().outcome

    assert (None, True, ()) == (outcome.returncode, outcome.empty_proven, outcome.survivors)
    assert [] == alive(tag)


def test_silent_warden_and_launcher_do_not_hold_a_stop(
    owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where neither answers the command is given up, and nothing is claimed."""
    monkeypatch.setattr("turnctl.processes.guarded.DRAIN_S", 0.1)
    monkeypatch.setattr("turnctl.processes.guarded.MARGIN_S", 0.1)
    for name in ("rouse", "replace"):
        monkeypatch.setattr(f"turnctl.processes.warded.Warded.{name}", lambda _: None)
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec sleep 60", shell=True, on_stop="return"))
    pid = int(gate.wait())
    warden = parent_of(pid)
    os.kill(warden, signal.SIGSTOP)
    owner.stop(0.1)
    outcome = call.result().outcome

    assert (False, False) == (outcome.exited, outcome.empty_proven)
    assert "its warden and the launcher do not answer; somebody may have stopped them" == outcome.survivors[0].reason
    os.kill(warden, signal.SIGCONT)
    assert ends(pid)


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A launcher whose wardens stop themselves between the start of a command and the news of it."""
    processes.shutdown()
    monkeypatch.setenv("TURNCTL_FAILPOINT", "warden-started:stop")
    yield
    monkeypatch.undo()
    processes.shutdown()


def test_stop_rouses_a_warden_that_stopped_at_the_start(owner: FakeTurn, gate: Gate, stopping: None) -> None:
    """A stop while the command is being started has its warden continued, which then asks it to end as ever."""
    tag = nap()
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec {tag}", shell=True, on_stop="return"))
    warden = parent_of(int(gate.wait()))
    assert until(lambda: state_of(warden) == "T")  # the command may be ahead of that
    owner.stop(5.0)
    outcome = call.result().outcome

    assert (-signal.SIGTERM, True) == (outcome.returncode, outcome.empty_proven)
    assert [] == alive(tag)


def test_warden_stopped_at_the_start_does_not_hold_a_stop(
    owner: FakeTurn, gate: Gate, monkeypatch: pytest.MonkeyPatch, stopping: None
) -> None:
    """A stop goes on although the start of the command was never told, and nothing is claimed."""
    monkeypatch.setattr("turnctl.processes.demand.DRAIN_S", 0.1)
    monkeypatch.setattr("turnctl.processes.guarded.DRAIN_S", 0.1)
    monkeypatch.setattr("turnctl.processes.guarded.MARGIN_S", 0.1)
    for name in ("rouse", "replace"):
        monkeypatch.setattr(f"turnctl.processes.warded.Warded.{name}", lambda _: None)
    call = Background(lambda: run(owner, f"echo $$ > {gate}; exec sleep 60", shell=True, on_stop="return"))
    pid = int(gate.wait())
    warden = parent_of(pid)
    owner.stop(0.1)
    outcome = call.result().outcome

    assert (None, False, False) == (outcome.pid, outcome.exited, outcome.empty_proven)
    assert "its warden and the launcher do not answer; somebody may have stopped them" == outcome.survivors[0].reason
    assert "could not be ended: pid not known" == owner.activities[0].record().detail
    os.kill(warden, signal.SIGCONT)
    assert ends(pid)


@pytest.fixture
def deaf(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    """A launcher that somebody has stopped, with so many requests waiting that it has room for no other."""
    run(owner, ["true"])
    launcher = upkeep._current["session"]
    launcher._close_warm()
    launcher._warm.clear()
    monkeypatch.setattr(begin, "_refused", None)
    os.kill(launcher.pid, signal.SIGSTOP)
    try:
        while True:
            link.send(launcher.control, ("nothing",))
    except BlockingIOError:
        pass
    yield launcher
    monkeypatch.undo()
    os.kill(launcher.pid, signal.SIGCONT)
    processes.shutdown()


def test_stopped_launcher_without_room_is_continued(owner: FakeTurn, deaf: Launcher) -> None:
    """Who finds no room for a request has the launcher go on, and gets its command as ever."""
    outcome = run(owner, ["true"]).outcome

    assert (0, "complete", True) == (outcome.returncode, outcome.containment, outcome.empty_proven)


def test_launcher_without_room_is_waited_for_so_long(
    owner: FakeTurn, deaf: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that does not help the wait ends, and what is had instead says why; what must be proved is refused."""
    monkeypatch.setattr(upkeep, "TAKES_S", 0.1)
    monkeypatch.setattr(Launcher, "_continue", lambda _: None)
    why = f"the launcher (process {deaf.pid}) has taken no request for 0.1 s"
    with pytest.raises(ContainmentUnavailable) as caught:
        run(owner, ["true"], require="complete")
    begin._refused = None
    outcome = run(owner, ["true"]).outcome

    assert why in str(caught.value)
    assert ("best-effort", 0) == (outcome.containment, outcome.returncode)
    assert outcome.notes[0].startswith(f"containment is best-effort: {why}")


def test_stop_while_a_launcher_has_no_room(
    owner: FakeTurn, deaf: Launcher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stop ends that wait at once: nothing was started, and the command is told as stopped before."""
    waiting = threading.Event()
    monkeypatch.setattr(Launcher, "_continue", lambda _: waiting.set())
    call = Background(lambda: run(owner, ["touch", tmp_path / "file"]))
    assert waiting.wait(BOUND)
    began = time.monotonic()
    owner.stop(60.0)
    with pytest.raises(CancelledError):
        call.result()

    assert time.monotonic() - began < 1
    record = owner.activities[-1].record()
    assert ("cancelled", "stopped before it was started") == (record.state, record.detail)
    monkeypatch.undo()
    os.kill(deaf.pid, signal.SIGCONT)
    run(FakeTurn(), ["true"])
    assert not (tmp_path / "file").exists()


# -- what was chosen, or required -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("containment", "strength"),
    [("namespace", "atomic"), ("cgroup", "atomic"), ("warden", "complete"), ("group", "best-effort")],
)
def test_chosen_holder_is_told(owner: FakeTurn, containment: Any, strength: str) -> None:
    """What was chosen by name holds the command, and the outcome says which and how strong."""
    _need(containment)
    outcome = run(owner, ["true"], containment=containment).outcome

    assert (containment, strength) == (outcome.held_by, outcome.containment)
    assert (0, strength != "best-effort") == (outcome.returncode, outcome.empty_proven)


def _need(name: str) -> None:
    (found,) = [one for one in capabilities() if one.name == name]
    if not found.is_available:
        pytest.skip(f"no {name} here: {found.reason}")


def test_required_strength_is_found(owner: FakeTurn) -> None:
    """With require="atomic" what can be had of that strength is taken, or nothing is started."""
    names = [one.name for one in capabilities() if one.strength == "atomic" and one.is_available]
    if not names:
        with pytest.raises(ContainmentUnavailable, match="nothing could end it as a whole"):
            run(owner, ["true"], require="atomic")
        pytest.skip("neither a namespace nor a control group is to be had here")
    outcome = run(owner, ["true"], require="atomic").outcome

    assert ("atomic", True) == (outcome.containment, outcome.empty_proven)
    assert outcome.held_by in names


@pytest.mark.parametrize("containment", ["namespace", "cgroup", "warden"])
def test_chosen_holder_is_never_weaker(owner: FakeTurn, tmp_path: Path, containment: Any) -> None:
    """What was chosen by name and is not to be had starts nothing; the error has reason and remedy apart."""
    with pytest.raises(ContainmentUnavailable, match="not started, since it could not be held as") as refused:
        run(owner, ["touch", tmp_path / "made"], containment=containment, before_exec=lambda: None)

    assert (containment, "") == (refused.value.wanted, refused.value.remedy)
    assert "before_exec= runs in a fork of this program" == refused.value.missing
    assert not (tmp_path / "made").exists()


def test_refused_step_is_told_with_the_remedy(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine refuses is named, for each way that was tried."""

    def refuse(request: launch.Request, *_: object) -> object:
        raise launch.Uncontained(28 if request.hold == "namespace" else 13, f"{request.hold}:unshare")

    monkeypatch.setattr(launch, "start", refuse)
    monkeypatch.setattr(begin, "own_folder", lambda: "/nowhere")
    with pytest.raises(ContainmentUnavailable) as refused:
        run(owner, ["true"], require="atomic")

    assert "atomic" == refused.value.wanted
    assert "not delegated" in refused.value.missing
    assert "max_user_namespaces" in refused.value.missing
    assert "Delegate=yes" in refused.value.remedy
    assert refused.value.remedy in str(refused.value)


def test_weaker_choice_than_required_is_refused(owner: FakeTurn) -> None:
    """A choice that cannot satisfy the requirement starts nothing."""
    with pytest.raises(ContainmentUnavailable, match="containment='warden' asks for less"):
        run(owner, ["true"], containment="warden", require="atomic")


def test_stop_in_a_namespace(owner: FakeTurn, gate: Gate) -> None:
    """The ladder is the same: asked by outside numbers, killed as a whole, proved."""
    _need("namespace")
    tag = nap()
    code = f"trap '' TERM; setsid {tag} & {tag} & echo > {gate}; wait"
    call = Background(lambda: run(owner, code, shell=True, containment="namespace", on_stop="return"))
    gate.wait()
    assert until(lambda: len(alive(tag)) == 3)
    pids = set(alive(tag))
    owner.stop(0.2)
    outcome = call.result().outcome
    asked = {sent.pid for sent in outcome.signals if sent.signal == "SIGTERM"}
    killed = [sent.scope for sent in outcome.signals if sent.signal == "SIGKILL"]

    assert [] == alive(tag)
    assert (-signal.SIGKILL, True, 3) == (outcome.returncode, outcome.empty_proven, outcome.ended)
    assert {outcome.pid} < asked <= pids
    assert ["namespace"] == killed
