"""Launchers: what they are to the host, and that the death of anybody leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive
from shapes import shape
from standins import until
from warding import KILL, TERM, Command, by_host, ends, everybodys_python, is_gone, parent_of, program_of, run, tag

from turnctl.processes import launch
from turnctl.processes.table import last_pid

pytestmark = pytest.mark.usefixtures("wardens")

#: Promised: nothing is left two seconds after a death.
GONE_S = 20.0
#: with a short grace for the loss of the host, and a command that spares nobody
SHORT = ((TERM, 0.1),)

WARDEN_POINTS = ["born", "asked", "started", "told", "exited", "asked-tree", "ladder", "killed", "empty"]
LAUNCHER_POINTS = ["born", "ready", "asked", "forked"]


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


#: for what looks into helpers, which bar everybody else, or starts a program as another user
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="needs root")


def launcher_of(command: Command) -> int:
    return parent_of(parent_of(command.pid))


# -- whose it is -------------------------------------------------------------------------------------------------------


def test_launcher_is_no_child_of_the_host() -> None:
    """The host gets no child: not the launcher, no warden, no command."""
    with Command(shape("plain", tag())) as command:
        command.line()
        launcher = launcher_of(command)

        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        assert os.getpid() != parent_of(launcher)
        assert os.getsid(launcher) == launcher


@AS_ROOT
def test_launcher_holds_nothing_of_the_host() -> None:
    """It has the null device as 0 to 2, one socket and a pidfd of the host, and what it made itself."""
    extra = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        with Command(shape("plain", tag())) as command:
            command.line()
            held = [Path(f"/proc/{launcher_of(command)}/fd/{n}").readlink().as_posix() for n in range(3)]
            others = {
                path.readlink().as_posix().split(":")[0] for path in Path(f"/proc/{launcher_of(command)}/fd").iterdir()
            }
    finally:
        os.close(extra)

    assert ["/dev/null"] * 3 == held
    assert {"/dev/null", "socket", "pipe", "anon_inode"} == others


def test_launcher_ends_with_shutdown() -> None:
    """``shutdown`` ends launcher and warm wardens at once."""
    with Command(["sh", "-c", "echo $PPID"]) as command:
        warden = int(command.line())
        launcher = parent_of(warden)
        command.ended()
    launch.shutdown()

    assert ends(launcher)
    assert ends(warden)


@pytest.mark.parametrize("point", ["", "warden-leaving", "launcher-leaving"])
def test_idle_launcher_ends(point: str) -> None:
    """With no command for a while, wardens and launcher end by themselves, and the next command gets new ones."""
    code = """
import turnctl.processes.upkeep as upkeep
upkeep._BOOT = upkeep._BOOT.replace("\\nmain(", (
    "\\nimport turnctl.processes.launcher as l, turnctl.processes.warden as w; l.IDLE_S = w.IDLE_S = 0.2\\nmain("))
with Command(["sh", "-c", "echo $PPID"]) as command:
    warden = int(command.line())
    launcher = parent_of(warden)
    command.ended()
say(warden, launcher)
sys.stdin.readline()
facts, out = run(["sh", "-c", "echo $PPID"])
say(facts["status"], int(out) not in (warden, launcher))
"""
    with by_host(code, env=os.environ | {"TURNCTL_FAILPOINT": point}) as host:
        warden, launcher = map(int, host.line().split())

        assert ends(warden)
        assert ends(launcher)

        host.process.stdin.write("\n")  # type: ignore[union-attr]
        host.process.stdin.flush()  # type: ignore[union-attr]

        assert "0 True" == host.line()


def test_killed_launcher_is_replaced() -> None:
    """A killed launcher ends its commands, and the next start has a new one."""
    mark = tag()
    with Command(shape("daemon", mark), orphaned=SHORT) as command:
        command.line()
        launcher = launcher_of(command)
        os.kill(launcher, KILL)
        facts = command.ended()

        assert (True, "launcher") == (facts["empty"], facts["cause"])
    facts, _ = run(["true"])

    assert 0 == facts["status"]
    assert [] == alive(mark)


def test_start_survives_the_death_of_a_warm_warden() -> None:
    """A warm warden that was killed is not asked, or the request is made again elsewhere: it is run exactly once."""
    for _ in range(5):
        with Command(["sh", "-c", "echo $PPID"]) as command:
            warden = int(command.line())
            command.ended()
        os.kill(warden, KILL)
        facts, out = run(["echo", "once"])

        assert (0, b"once\n") == (facts["status"], out)


def test_start_survives_a_stopped_then_killed_warden() -> None:
    """A request that a warden had in its hands unread when it was killed is made again, by the launcher's word."""
    with Command(["sh", "-c", "echo $PPID"]) as command:
        warden = int(command.line())
        command.ended()
    os.kill(warden, signal.SIGSTOP)
    code = f"import os, time; time.sleep(0.2); os.kill({warden}, 9)"
    killer = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    facts, out = run(["echo", "once"])
    killer.wait()

    assert (0, b"once\n") == (facts["status"], out)


# -- the moment --------------------------------------------------------------------------------------------------------


def test_forked_host_gets_its_own() -> None:
    """A forked child uses no launcher of its parent, and its exit leaves the parent's commands alone."""
    code = """
with Command(["sleep", "60"], piped=False) as command:
    mine = parent_of(parent_of(command.pid))
    pid = os.fork()
    if pid == 0:
        facts, out = run(["sh", "-c", "echo $PPID"])
        theirs = parent_of(int(out))
        launch.shutdown()
        os._exit(3 if theirs != mine else 4)
    say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), parent_of(command.pid) != 1)
"""
    with by_host(code) as host:
        assert "3 True\n" == host.finished()


def test_daemonised_host_gets_its_own() -> None:
    """A host that forks and whose first half ends loses what the first half started, and starts anew."""
    code = """
command = Command(["sleep", "60"], piped=False, orphaned=((15, 0.1),))
say(command.pid)
if os.fork():
    os._exit(0)
os.setsid()
say(run(["echo", "again"])[1].decode().strip())
"""
    with by_host(code) as host:
        old = int(host.line())

        assert "again" == host.line()
        assert ends(old)


def test_replaced_image_leaves_nothing() -> None:
    """A host that executes another program loses its commands."""
    mark = tag()
    code = """
command = Command(["sleep", sys.argv[1]], piped=False, orphaned=((15, 0.1),))
say(command.pid)
os.execvp("sleep", ["sleep", "60"])
"""
    with by_host(code, mark) as host:
        pid = int(host.line())

        assert ends(pid)
        assert [host.process.pid] == alive(mark) or [] == alive(mark)
        assert host.process.poll() is None


def test_nested_three_deep_leaves_nothing() -> None:
    """A command that uses launchers of its own, whose commands do so too, ends whole with the outermost."""
    mark = tag()
    code = """
from warding import program_of
inner = ["sleep", sys.argv[1]] if sys.argv[2] == "0" else program_of(open(sys.argv[3]).read(), sys.argv[1],
    str(int(sys.argv[2]) - 1), sys.argv[3])
command = Command(inner, piped=False, stdout=1, leftovers="end-now")
say(command.pid)
command.ended(60)
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        with by_host(code, mark, "2", file.name) as host:
            pids = [int(host.line()) for _ in range(3)]
            host.kill()

            assert all(ends(pid) for pid in pids)
            assert until(lambda: not alive(mark), within=GONE_S)


def test_nested_host_leaves_no_leftovers() -> None:
    """A command that used a launcher of its own and ended without ``shutdown`` has left nothing over."""
    code = "run(['true']); say('done'); os._exit(0)"
    with Command(program_of(code)) as command:
        command.line()
        facts = command.ended()

    assert (0, True) == (facts["status"], facts["empty"])
    assert "leftovers" not in command.kinds()


def _makes_namespaces() -> bool:
    """Whether this machine lets us have namespaces of our own: root in a container often may not."""
    unshare = shutil.which("unshare")
    if unshare is None or os.getuid() != 0:
        return False
    return subprocess.run([unshare, "-mpf", "--mount-proc", "true"], capture_output=True, check=False).returncode == 0


NEEDS_UNSHARE = pytest.mark.skipif(not _makes_namespaces(), reason="no namespaces of our own are to be had here")


@NEEDS_UNSHARE
def test_first_process_of_a_container_keeps_no_zombie() -> None:
    """Where the host is pid 1, and so the parent of every orphan, it reaps the launchers that it let go of."""
    code = """
run(["true"]); launch.shutdown(); run(["true"]); launch.shutdown()
try: os.waitpid(-1, os.WNOHANG); say("a child")
except ChildProcessError: say("none", os.getpid())
"""
    with by_host(code, before=["unshare", "-pf", "--mount-proc"]) as host:
        assert "none 1\n" == host.finished()


@NEEDS_UNSHARE
@pytest.mark.parametrize("name", ["deaf daemon", "away", "crowd", "stopped", "kills its parent"])
def test_proof_needs_no_proc(name: str) -> None:
    """Without /proc everything is found and ended all the same, and the proof is the kernel's."""
    mark = tag()
    code = """
from shapes import shape
with Command(shape(sys.argv[2], sys.argv[1])) as command:
    command.line()
    if "kills" not in sys.argv[2]: command.warded.stop(((TERM, 0.2),))
    facts = command.ended()
    say(facts["empty"], facts["survivors"])
"""
    before = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    while True:
        began = last_pid()
        try:
            with by_host(code, mark, name, before=before) as host:
                told = host.finished()
            break
        except AssertionError:
            now = last_pid()
            if began is None or now is None or now >= began:
                raise
            # the numbers went round just then: where nothing tells how many there can be, asking about all takes 10 s

    assert [] == alive(mark)
    assert "True ()\n" == told


@NEEDS_UNSHARE
def test_proof_holds_where_others_are_hidden() -> None:
    """With a /proc that hides other users' processes an ordinary user's commands are ended as ever."""
    mark = tag()
    code = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from shapes import shape
for name in ("deaf daemon", "crowd", "daemon"):
    with Command(shape(name, sys.argv[1])) as command:
        command.line()
        command.warded.stop(((TERM, 0.2),))
        say(command.ended()["empty"])
"""
    before = ["unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh"]
    with by_host(code, mark, before=before, interpreter=everybodys_python()) as host:
        assert "True\nTrue\nTrue\n" == host.finished()
    assert [] == alive(mark)


@NEEDS_UNSHARE
def test_member_of_another_user_is_named() -> None:
    """A member that became root under an ordinary user's command is a survivor with its user and the reason."""
    setpriv, mark = shutil.which("setpriv"), tag()
    if setpriv is None:
        pytest.skip("there is no setpriv to make a set-uid copy of")
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    raised = folder / "raised"
    shutil.copy(setpriv, raised)
    raised.chmod(0o4755)
    code = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
inner = "import os, sys, time; argv = ['raised', '--reuid', '0', 'sleep', sys.argv[1]]"
inner += f"; os.spawnv(os.P_NOWAIT, {sys.argv[2]!r}, argv)"
with Command([sys.executable, "-c", inner + "; time.sleep(60)", sys.argv[1]], drain_s=0.5) as command:
    say("on"); sys.stdin.readline()
    command.warded.hurry(0.0)
    facts = command.ended()
    say(facts["empty"], [(one[2], one[4], one[5]) for one in facts["survivors"]])
"""
    try:
        with by_host(code, mark, str(raised), interpreter=everybodys_python()) as host:
            host.line()
            assert until(lambda: any(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in alive(mark)))
            host.process.stdin.write("\n")  # type: ignore[union-attr]
            host.process.stdin.flush()  # type: ignore[union-attr]
            told = host.line()
    finally:
        for pid in alive(mark):
            os.kill(pid, KILL)
        shutil.rmtree(folder)

    assert "False [(0, b'sleep', 'belongs to user 0, whom this program may not signal')]" == told


@NEEDS_UNSHARE
def test_recycled_number_is_not_signalled() -> None:
    """Somebody else who was given the number of a member that has ended is never signalled."""
    code = """
import time
from turnctl.processes import kin
def family():
    out, there = os.pipe()
    come, go = os.pipe()
    middle = os.fork()
    if middle == 0:
        os.read(come, 1)
        inner = os.fork()
        if inner == 0:
            time.sleep(60)
        os.write(there, b"%d" % inner)
        os.waitpid(inner, 0)
        os.write(there, b"reaped")
        time.sleep(60)
    return middle, go, out
first, second = family(), family()
os.write(first[1], b"x")
inner = int(os.read(first[2], 20))
(member,) = [one for one in kin.walk([first[0]]) if one.pid == inner]
os.kill(inner, 9)
os.read(first[2], 20)
with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(inner - 1))
os.write(second[1], b"x")
other = int(os.read(second[2], 20))
say(other == inner, kin.send(member, 9), os.path.exists(f"/proc/{inner}/stat"))
for pid in (first[0], second[0], other): os.kill(pid, 9)
os._exit(0)
"""
    with by_host(code, before=["unshare", "-pf", "--mount-proc"]) as host:
        assert "True 3 True" == host.line()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_other_user_gets_another_launcher() -> None:
    """A host that drops its user has commands of the new user, whoever the launcher was started by."""
    code = """
say(run(["id", "-u"])[1].decode().strip())
os.setgroups([65534]); os.setgid(65534); os.setuid(65534)
say(run(["sh", "-c", "id -u; id -g; id -G"])[1].decode().split())
"""
    with by_host(code, interpreter=everybodys_python()) as host:
        assert "0\n['65534', '65534', '65534']\n" == host.finished()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can drop a capability from the bounding set")
def test_lost_capability_is_lost_to_commands() -> None:
    """A capability that the host gave up, and no_new_privs, hold for the next command."""
    code = """
from turnctl.processes.kernel import prctl
argv = ["grep", "-E", "CapBnd|NoNewPrivs", "/proc/self/status"]
run(argv)
prctl(24, 13); prctl(38, 1)
import subprocess
say(run(argv)[1] == subprocess.run(argv, capture_output=True).stdout)
"""
    with by_host(code) as host:
        assert "True\n" == host.finished()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change its root directory")
def test_changed_root_holds_for_commands(tmp_path: Path) -> None:
    """A host that changes its root has commands in the new one, or none."""
    code = """
say(run(["sh", "-c", "test -e /etc/passwd && echo there"])[1])
os.chroot(sys.argv[1]); os.chdir("/")
try:
    say(run(["/bin/sh", "-c", "echo here"])[1])
except OSError as error:
    say(type(error).__name__)
"""
    with by_host(code, str(tmp_path)) as host:
        lines = host.finished().splitlines()

    assert "b'there\\n'" == lines[0]
    assert lines[1] in ("Unavailable", "FileNotFoundError")


# -- deaths ------------------------------------------------------------------------------------------------------------


def test_killed_host_leaves_nothing() -> None:
    """SIGKILL to the host ends its commands after their grace, then wardens and launcher."""
    mark = tag()
    code = """
from shapes import shape
command = Command(shape("deaf daemon", sys.argv[1]), orphaned=((15, 0.1),))
command.line()
say(parent_of(command.pid), parent_of(parent_of(command.pid)))
sys.stdin.readline()
"""
    with by_host(code, mark) as host:
        warden, launcher = map(int, host.line().split())
        host.kill()

        assert until(lambda: not alive(mark), within=GONE_S)
        assert ends(warden)
        assert ends(launcher)


_WITH_WARDEN = """
from shapes import shape
command = Command(shape("deaf daemon", sys.argv[1]), orphaned=((15, 0.1),))
command.line()
say(parent_of(command.pid), parent_of(parent_of(command.pid)))
sys.stdin.readline()
"""


@pytest.mark.parametrize("times", ["once", "again and again"])
def test_stopped_warden_hears_of_the_hosts_death(times: str) -> None:
    """A stopped warden is continued when the host has gone, and replaced if somebody keeps it stopped."""
    mark = tag()
    with by_host(_WITH_WARDEN, mark) as host:
        warden, launcher = map(int, host.line().split())
        os.kill(warden, signal.SIGSTOP)
        stops = f"import os\nwhile True: os.kill({warden}, 19)" if times != "once" else ""
        stopper = subprocess.Popen([sys.executable, "-I", "-S", "-c", stops], stderr=subprocess.DEVNULL)
        host.kill()
        try:
            assert until(lambda: not alive(mark), within=GONE_S)
            assert ends(launcher)
        finally:
            stopper.kill()
            stopper.wait()


def test_stopped_warden_hears_of_the_launchers_death() -> None:
    """The kernel continues a stopped warden when its launcher is killed, so that it ends its command."""
    mark = tag()
    with by_host(_WITH_WARDEN, mark) as host:
        warden, launcher = map(int, host.line().split())
        os.kill(warden, signal.SIGSTOP)
        os.kill(launcher, KILL)

        assert until(lambda: not set(alive(mark)) - {host.process.pid}, within=GONE_S)
        assert ends(warden)


@AS_ROOT
@pytest.mark.parametrize("hold", ["warden", "namespace"])
def test_command_cannot_trace_who_holds_it(hold: str) -> None:
    """A command of an ordinary user can neither trace its warden or launcher nor take descriptors of theirs."""
    code = """
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from turnctl.processes import launch
try:
    command = Command(["sleep", sys.argv[1]], piped=False, hold=sys.argv[2])
except launch.Uncontained:
    say("skip"); sys.exit()
pid = command.pid
for _ in range(2 + (sys.argv[2] == "namespace")):
    pid = parent_of(pid)
    try:
        say(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        say("refused")
command.__exit__(None, None, None)
"""
    with by_host(code, tag(), hold, interpreter=everybodys_python()) as host:
        told = host.finished()
    if told == "skip\n":
        pytest.skip("this machine allows no namespaces to users")

    assert ["refused"] * (3 if hold == "namespace" else 2) == told.split("\n")[:-1]


def test_copied_socket_does_not_fake_a_living_host() -> None:
    """A process that holds copies of the host's sockets does not keep its commands alive: the pidfd tells."""
    mark = tag()
    code = """
import ctypes
command = Command(["sleep", sys.argv[1]], piped=False, orphaned=((15, 0.1),))
copy = ctypes.CDLL(None).fork()  # without Python's hooks
if copy == 0:
    os.execvp("sleep", ["sleep", "30"]) if 0 else ctypes.CDLL(None).pause()
say(copy, command.pid)
sys.stdin.readline()
"""
    with by_host(code, mark) as host:
        copy, pid = map(int, host.line().split())
        host.kill()
        try:
            assert ends(pid)
        finally:
            os.kill(copy, KILL)


def test_copy_of_the_host_is_told_apart() -> None:
    """While a forked worker lives on, the death of the host ends the host's commands."""
    mark = tag()
    code = """
command = Command(["sleep", sys.argv[1]], piped=False, orphaned=((15, 0.1),))
copy = os.fork()
if copy == 0:
    import time; time.sleep(30); os._exit(0)
say(copy, command.pid)
sys.stdin.readline()
"""
    with by_host(code, mark) as host:
        copy, pid = map(int, host.line().split())
        host.kill()
        try:
            assert ends(pid)
        finally:
            os.kill(copy, KILL)


@pytest.mark.parametrize("point", ["composed", "asked", "started"])
def test_host_killed_at_a_point_leaves_nothing(point: str) -> None:
    """A host that dies in the middle of starting a command leaves nothing, whether or not it was started."""
    mark = tag()
    code = """
from shapes import shape
run(["true"]); launch.shutdown()
def strike(name):
    if name == "processes.launch." + sys.argv[2]: os.kill(os.getpid(), KILL)
points.hook = strike
Command(shape("deaf daemon", sys.argv[1]), orphaned=((15, 0.1),))
"""
    with by_host(code, mark, point) as host:
        host.process.wait()

        assert -KILL == host.process.returncode
        assert until(lambda: not alive(mark), within=GONE_S)


@pytest.mark.parametrize("point", [f"warden-{name}" for name in WARDEN_POINTS])
def test_warden_killed_at_a_point_leaves_nothing(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warden that dies at any named place leaves nothing, and the host gets an end that is true."""
    monkeypatch.setenv("TURNCTL_FAILPOINT", point)
    mark = tag()
    name = "leaves a daemon" if point == "warden-exited" else "deaf daemon"
    try:
        command = Command(shape(name, mark), leftovers="end")
    except launch.Unavailable:
        assert "warden-born" == point  # each new warden dies before it has read the request
        assert [] == alive(mark)
        return
    with command:
        if command.warded.pid is not None and point != "warden-exited":
            if point != "warden-told":
                command.line()
            command.warded.stop(((TERM, 0.2),))
        facts = command.ended()

        assert facts["empty"]
        assert "killed" in command.kinds()
        assert until(lambda: not alive(mark), within=GONE_S)


@pytest.mark.parametrize("point", [f"launcher-{name}" for name in LAUNCHER_POINTS])
def test_launcher_killed_at_a_point_leaves_nothing(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher that dies at any named place leaves nothing: not started, or started and ended."""
    monkeypatch.setenv("TURNCTL_FAILPOINT", point)
    mark = tag()
    try:
        command = Command(shape("deaf daemon", mark), orphaned=SHORT)
    except launch.Unavailable:
        assert until(lambda: not alive(mark), within=GONE_S)
        return
    with command:
        facts = command.ended()

        assert (True, "launcher") == (facts["empty"], facts["cause"])
        assert [] == alive(mark)


def test_end_is_told_in_spite_of_an_unread_stop() -> None:
    """A stop that nobody reads any more does not keep the end from being told."""
    mark = tag()
    with Command(shape("deaf daemon", mark)) as command:
        command.line()
        warden = parent_of(command.pid)
        os.kill(warden, signal.SIGSTOP)
        command.warded.stop(((TERM, 0.2),))
        os.kill(warden, KILL)
        for _ in range(200):
            command.warded.stop(((TERM, 0.2),))

        assert command.ended()["empty"]
    assert [] == alive(mark)


def test_launcher_killed_while_it_ends_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warden and launcher killed one after the other: the host is told that nothing is known."""
    monkeypatch.setenv("TURNCTL_FAILPOINT", "launcher-bereaved")
    mark = tag()
    with Command(shape("plain", mark)) as command:
        command.line()
        os.kill(parent_of(command.pid), KILL)
        command.until("lost")
        for pid in alive(mark):
            os.kill(pid, KILL)

    assert command.warded.is_over
    assert not command.warded.is_reusable


def test_last_words_wait_for_a_slow_host() -> None:
    """What is said in the place of a killed warden is not lost to a host that has much to read before it."""
    mark = tag()
    with Command(["sleep", mark], piped=False) as command:
        warden = parent_of(command.pid)
        for _ in range(1000):  # each is told of, and nothing is read
            command.warded.signal(signal.SIGCONT)
        os.kill(warden, KILL)
        assert until(lambda: not alive(mark))
        assert ends(warden)
        facts = command.ended()

    assert ("killed", -KILL) in command.messages
    assert (None, True, ()) == (facts["status"], facts["empty"], facts["survivors"])


def test_many_at_once_leave_nothing() -> None:
    """Fifty commands at once, then the death of the launcher: all are gone, and no warden is left."""
    mark = tag()
    held = [Command(["sleep", mark], piped=False, orphaned=SHORT) for _ in range(50)]
    launcher = launcher_of(held[0])
    wardens = {parent_of(command.pid) for command in held}
    os.kill(launcher, KILL)
    for command in held:
        with command:
            assert command.ended()["empty"]

    assert 50 == len(wardens)
    assert [] == alive(mark)
    assert until(lambda: all(is_gone(pid) for pid in wardens))


@AS_ROOT
def test_sequence_leaves_no_more_than_a_launcher() -> None:
    """After many commands one after the other there is one warden, and the launcher has not grown."""
    run(["true"])
    with Command(["sh", "-c", "echo $PPID"]) as command:
        warden = int(command.line())
        command.ended()
    launcher = parent_of(warden)
    before = _size(launcher), _descriptors(launcher), _descriptors(warden)
    for _ in range(100):
        run(["true"], piped=False)

    assert [warden] == [int(one) for one in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]
    assert before == (_size(launcher), _descriptors(launcher), _descriptors(warden))


def _size(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line for line in status.splitlines() if line.startswith("VmData"))


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
