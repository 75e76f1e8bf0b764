"""Commands in a pid namespace: one KILL ends all, whoever else dies, and numbers that are told are those outside."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import alive, python
from shapes import shape
from standins import Background, until
from warding import KILL, TERM, Command, by_host, ends, everybodys_python, parent_of, run, tag

from turnctl.processes import launch, link, nsinit

#: Promised: nothing is left two seconds after a death.
GONE_S = 20.0
INIT_POINTS = ["born", "armed", "started", "empty"]
IN_NAMESPACE: dict[str, Any] = {"hold": "namespace"}


def _may_make_namespaces() -> bool:
    """Whether this machine lets this user have a pid namespace, asked of a program that is not ours."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    options = ["-pf"] if os.getuid() == 0 else ["-Upf"]
    return subprocess.run([unshare, *options, "true"], capture_output=True, check=False).returncode == 0


pytestmark = [
    pytest.mark.usefixtures("wardens"),
    pytest.mark.skipif(not _may_make_namespaces(), reason="no pid namespaces are to be had here"),
]
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


# -- nothing outlives it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deaf daemon", "stopped", "forks when asked", "hopper", "storm", "only a thread"])
def test_stopped_shape_is_gone(name: str) -> None:
    """Whatever shape a command takes, a stop ends with the death of its namespace, and its own status is told."""
    mark = tag()
    with Command(shape(name, mark), **IN_NAMESPACE) as command:
        command.line()
        command.warded.stop(((TERM, 0.1),))
        facts = command.ended()

    assert (True, ()) == (facts["empty"], facts["survivors"])
    assert facts["status"] in (0, -TERM, -KILL)
    assert [] == alive(mark)


def test_leader_cannot_reach_its_warden() -> None:
    """A command that kills its parent hits the first process of its namespace, which it cannot reach either."""
    mark = tag()
    with Command(shape("kills its parent", mark), **IN_NAMESPACE) as command:
        command.line()
        assert until(lambda: len(alive(mark)) == 3)
        command.warded.hurry(0.0)
        facts = command.ended()

    assert (-KILL, True) == (facts["status"], facts["empty"])
    assert "killed" not in command.kinds()
    assert [] == alive(mark)


def test_orphan_of_the_moment_is_asked() -> None:
    """A member that loses its parent to the same signal is asked all the same, and has its grace."""
    inner = "trap 'echo asked; exit' TERM; echo ready; while :; do sleep 0.02; done"
    for _ in range(3):
        with Command(["sh", "-c", f'setsid sh -c "{inner}" & wait'], **IN_NAMESPACE) as command:
            command.line()
            command.warded.stop(((TERM, 8.0),))
            facts = command.ended()

            assert (-TERM, 0, b"asked\n") == (facts["status"], facts["killed"], command.all_output())


def test_leftover_is_named_and_ended() -> None:
    """What a command leaves behind is told by the number that it has outside, and ends when asked."""
    mark = tag()
    with Command(shape("leaves a daemon", mark), **IN_NAMESPACE) as command:
        left = [member[0] for member in command.until("leftovers")[1]]

        assert alive(mark) == left
        command.warded.stop(((TERM, 5.0),))
        assert command.ended()["empty"]
    assert [] == alive(mark)


# -- what is told ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -15 $$", -15)])
def test_status_is_told_truly(ending: str, status: int) -> None:
    """The exit status, and a death by signal, are what the command did, not what its namespace did."""
    facts, _ = run(["sh", "-c", ending], **IN_NAMESPACE)

    assert (status, True) == (facts["status"], facts["empty"])


def test_command_is_an_ordinary_process() -> None:
    """It is not the first of its namespace, keeps its user and folder, leads its session, and sees itself in /proc."""
    code = "import os; print(os.getpid() > 1, os.getppid(), os.getuid(), os.getgid(), os.getsid(0) == os.getpid())"
    code += "; print(os.getcwd(), os.readlink('/proc/self') == str(os.getpid()), os.listdir('/proc/self/fd'))"
    _, out = run(python(code), cwd="/usr", **IN_NAMESPACE)

    assert f"True 1 {os.getuid()} {os.getgid()} True\n/usr True ['0', '1', '2', '3']\n" == out.decode()


def test_relative_folder_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder, and one that is given from there, are the host's."""
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)

    assert f"{tmp_path}\n".encode() == run(["pwd", "-P"], **IN_NAMESPACE)[1]
    assert f"{tmp_path}/below\n".encode() == run(["pwd", "-P"], cwd="below", **IN_NAMESPACE)[1]


def test_pid_is_the_one_outside() -> None:
    """The pid that is told is the one by which everybody else knows the command."""
    mark = tag()
    with Command(["sleep", mark], piped=False, **IN_NAMESPACE) as command:
        assert until(lambda: [command.pid] == alive(mark))


def test_descriptor_has_its_number() -> None:
    """What is handed on has its number in the command, also one that the helpers would use themselves."""
    code = """
read, write = os.pipe()
for number in range(5, 10): os.dup2(write, number)
for number in (5, 6, 7, 9):
    with Command(["sh", "-c", f"echo {number} >&{number}"], piped=False, pass_fds=(number,), hold="namespace") as one:
        one.ended()
    say(os.read(read, 100))
"""
    with by_host(code) as host:
        assert "".join(f"{line!r}\n" for line in (b"5\n", b"6\n", b"7\n", b"9\n")) == host.finished()


@pytest.mark.parametrize(
    ("argv", "options", "error"),
    [
        (["/nonexistent"], {}, FileNotFoundError),
        (["/etc/passwd"], {}, PermissionError),
        (["true"], {"cwd": "/nonexistent"}, FileNotFoundError),
    ],
)
def test_error_of_the_start_is_exact(argv: list[str], options: dict[str, Any], error: type[OSError]) -> None:
    """What cannot be started raises what it raises elsewhere, with the name, and leaves no namespace."""
    with pytest.raises(error) as raised:
        Command(argv, **options, **IN_NAMESPACE)

    assert raised.value.filename in (argv[0], options.get("cwd"))


# -- who may die -------------------------------------------------------------------------------------------------------

_VICTIMS = {
    "init": ["init"],
    "warden": ["warden"],
    "launcher": ["launcher"],
    "warden and launcher": ["warden", "launcher"],
    "all three": ["host", "warden", "launcher"],
}
_HOST = """
if sys.argv[3] != "0": os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
from shapes import shape
command = Command(shape(sys.argv[2], sys.argv[1]), hold="namespace", orphaned=((TERM, 0.1),))
command.line()
init = parent_of(command.pid)
say(init, parent_of(init), parent_of(parent_of(init)))
sys.stdin.readline()
"""


@pytest.mark.parametrize("user", ["0", pytest.param("65534", marks=AS_ROOT)])
@pytest.mark.parametrize("victims", list(_VICTIMS))
def test_nothing_survives_a_death(victims: str, user: str) -> None:
    """Whoever is killed, and all at one moment too, nothing is left: no grace is given where nobody could end it."""
    mark = tag()
    interpreter = everybodys_python() if user != "0" else None
    with by_host(_HOST, mark, "deaf daemon", user, interpreter=interpreter) as host:
        init, warden, launcher = map(int, host.line().split())
        pids = {"init": init, "warden": warden, "launcher": launcher, "host": host.process.pid}
        assert until(lambda: 2 == len({*alive(mark)} - {host.process.pid}))  # one is becoming what it stays
        struck = [pids[name] for name in _VICTIMS[victims]]
        for pid in struck:
            os.kill(pid, signal.SIGSTOP)
        for pid in struck:
            os.kill(pid, KILL)

        assert ends(init)
        assert until(lambda: set(alive(mark)) <= {host.process.pid}, within=GONE_S)


def test_killed_init_is_told() -> None:
    """If somebody kills the first process, all is gone, and the status is not known."""
    mark = tag()
    with Command(shape("daemon", mark), **IN_NAMESPACE) as command:
        command.line()
        os.kill(parent_of(command.pid), KILL)
        facts = command.ended()

    assert (None, True, ()) == (facts["status"], facts["empty"], facts["survivors"])
    assert [] == alive(mark)


@pytest.mark.parametrize("point", [*(f"init-{name}" for name in INIT_POINTS), "warden-made", "warden-started"])
def test_killed_at_a_point_leaves_nothing(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who dies in the middle of a start leaves nothing, and what may have run is never told as not started."""
    monkeypatch.setenv("TURNCTL_FAILPOINT", point)
    mark = tag()
    argv = shape("leaves a daemon" if point == "init-empty" else "deaf daemon", mark)
    if point in ("init-born", "init-armed"):
        with pytest.raises(launch.Uncontained) as refused:
            Command(argv, **IN_NAMESPACE)

        assert "namespace:gone" == refused.value.step
    else:
        with Command(argv, **IN_NAMESPACE) as command:
            if point == "init-empty":
                command.until("leftovers")
                command.warded.hurry(0.0)
            facts = command.ended()

        assert facts["empty"]
        assert (command.warded.pid is None) == (point != "init-empty")
    assert until(lambda: not alive(mark), within=GONE_S)


def test_stopped_init_holds_nothing_up() -> None:
    """A first process that somebody has stopped is asked in vain, and killed on time."""
    mark = tag()
    with Command(shape("deaf daemon", mark), **IN_NAMESPACE) as command:
        command.line()
        os.kill(parent_of(command.pid), signal.SIGSTOP)
        command.warded.stop(((TERM, 0.1),))
        facts = command.ended()

    assert facts["empty"]
    assert [] == alive(mark)


# -- where the machine refuses a part of it ----------------------------------------------------------------------------


@AS_ROOT
def test_without_own_proc_it_is_told_so() -> None:
    """Where no /proc of its own may be mounted, the command runs with that of outside, and this is told."""
    mark = tag()
    code = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from shapes import shape
with Command(shape("deaf daemon", sys.argv[1]), hold="namespace") as command:
    command.line()
    command.warded.stop(((TERM, 0.1),))
    say(command.warded.details["proc"], command.ended()["empty"])
"""
    before = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /proc/version && exec "$@"', "sh"]
    with by_host(code, mark, before=before, interpreter=everybodys_python()) as host:
        assert "False True\n" == host.finished()
    assert [] == alive(mark)


@AS_ROOT
def test_refused_namespace_is_named() -> None:
    """Where no namespace may be made nothing is started; the step and the errno are told."""
    code = """
try: Command(["true"], hold="namespace")
except launch.Uncontained as error: say(error.step, error.errno)
"""
    before = ["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_pid_namespaces && exec "$@"', "sh"]
    with by_host(code, before=before) as host:
        assert "namespace:unshare 28\n" == host.finished()


class _Ended:
    """What an init has below it: a main process that has ended, and others until they are let go."""

    status = 3

    def __init__(self) -> None:
        self.is_empty = False

    def reap(self) -> bool:
        return self.is_empty


def test_status_reaches_a_warden_that_was_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """How the main process ended is told when the warden reads again, though nothing else happens then."""
    monkeypatch.setattr(nsinit._Init, "_hear", lambda _: None)
    ours, theirs = link.pair()
    wake, rung = os.pipe()
    os.set_blocking(wake, False)
    init = nsinit._Init(link.Line(theirs), -1)
    below = init._below = _Ended()  # type: ignore[assignment]
    told = []
    try:
        while True:
            link.send(theirs, ("stopped", 19))
    except BlockingIOError:
        pass
    loop = Background(init._attend, wake)
    try:
        assert until(lambda: init._line.is_waiting)
        while (got := link.receive(ours)) is not None:
            told.append(got[0])
        until(lambda: not init._line.is_waiting)
        while (got := link.receive(ours)) is not None:
            told.append(got[0])
    finally:
        below.is_empty = True
        os.write(rung, b"x")
        loop.result()
        for fd in (wake, rung):
            os.close(fd)
        ours.close()
        theirs.close()

    assert ("exited", 3) == told[-1]
