"""Wardens: what they start, what they tell, and that nothing below them outlives its end."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import alive, nap, python, state_of
from shapes import NAMES, shape, shape_of
from standins import until
from warding import KILL, TERM, Command, by_host, parent_of, run, tag

from turnctl.processes import launch, link
from turnctl.processes.kin import UNSEEN, Member
from turnctl.processes.steps import Ladder
from turnctl.processes.sweep import Below
from turnctl.processes.warden import Warden

pytestmark = pytest.mark.usefixtures("wardens")

SOON = 0.3


@pytest.fixture(autouse=True)
def _launchers(leak_check: object) -> Iterator[None]:
    yield
    launch.shutdown()


# -- nothing outlives it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("kills its parent", "leaves a daemon")])
def test_stopped_shape_is_gone(name: str) -> None:
    """Whatever shape a command takes, a stop ends with the kernel's word that nothing of it is left."""
    mark = tag()
    with Command(shape(name, mark)) as command:
        command.line()
        command.warded.stop(((TERM, SOON),))
        facts = command.ended()

    assert (True, ()) == (facts["empty"], facts["survivors"])
    assert [] == alive(mark)


@pytest.mark.parametrize("name", ["plain", "deaf daemon", "hopper", "storm", "crowd"])
def test_killed_shape_is_gone(name: str) -> None:
    """The same with no grace at all."""
    mark = tag()
    with Command(shape(name, mark)) as command:
        command.line()
        command.warded.hurry(0.0)
        facts = command.ended()

    assert facts["empty"]
    assert [] == alive(mark)


def test_leader_that_kills_its_warden_ends() -> None:
    """A command that kills its supervisor is ended by the launcher, with all that it started, and the host is told."""
    mark = tag()
    with Command(shape("kills its parent", mark)) as command:
        killed, facts = command.until("killed"), command.ended()

    assert ("killed", -signal.SIGKILL) == killed
    assert facts["empty"]
    assert [] == alive(mark)


def test_others_survive_the_death_of_a_warden() -> None:
    """The launcher ends the orphans of one warden and touches no other command."""
    mark, other = tag(), nap()
    with Command(other.split()) as spared, Command(shape("daemon", mark)) as command:
        command.line()
        os.kill(parent_of(command.pid), KILL)
        facts = command.ended()

        assert facts["empty"]
        assert [] == alive(mark)
        assert [spared.pid] == alive(other)


# -- what a command that ends by itself leaves -------------------------------------------------------------------------


def test_leftovers_are_told_and_kept() -> None:
    """By default what is left over is listed and lives until it is stopped."""
    mark = tag()
    with Command(shape("leaves a daemon", mark), leftovers="end") as command:
        status, (_, left) = command.until("exited")[1], command.until("leftovers")

        assert 0 == status
        assert alive(mark) == [one[0] for one in left]
        assert b"sleep" == left[0][4]

        command.warded.stop(((TERM, SOON),))

        assert command.ended()["empty"]
    assert [] == alive(mark)


def test_leftovers_are_ended_at_once() -> None:
    """With ``end-now`` they get the ladder without being asked for."""
    mark = tag()
    with Command(shape("leaves a daemon", mark), leftovers="end-now") as command:
        facts = command.ended()

    assert (True, "leftovers", 0) == (facts["empty"], facts["cause"], facts["status"])
    assert [] == alive(mark)


def test_leftovers_are_waited_for() -> None:
    """With ``wait`` the end comes when they have ended by themselves, and nobody is signalled."""
    with Command(["sh", "-c", "(setsid sh -c 'read x' <&3) & exit 4"], leftovers="wait", piped=False) as command:
        facts = command.ended()

    assert (4, True, "") == (facts["status"], facts["empty"], facts["cause"])
    assert [] == command.signals()


def test_quick_leftover_is_none() -> None:
    """What ends right after the main process is not told of as left over."""
    with Command(["sh", "-c", "sleep 0.02 & exit 0"]) as command:
        command.ended()

    assert "leftovers" not in command.kinds()


def test_detached_outlives_the_host_of_its_socket() -> None:
    """With ``detach`` what is left over goes on when the command is let go of."""
    mark = tag()
    command = Command(shape("leaves a daemon", mark), leftovers="detach")
    command.until("leftovers")
    (left,) = alive(mark)
    warden = parent_of(left)
    command.close()
    launch.shutdown()

    assert not until(lambda: not alive(mark), within=0.3)

    os.kill(left, KILL)

    assert until(lambda: not os.path.exists(f"/proc/{warden}"))


# -- the ladder --------------------------------------------------------------------------------------------------------


def test_group_is_asked_in_one_step() -> None:
    """Who is in the main process's group gets one signal by its number, others one by one, parents first."""
    mark = tag()
    with Command(shape("away", mark)) as command:
        command.line()
        command.warded.stop(((TERM, 5.0),))
        facts = command.ended()

    assert [(TERM, "group"), (TERM, "process")] == command.signals()
    assert (-TERM, True, "stop") == (facts["status"], facts["empty"], facts["cause"])


def test_stopped_processes_are_continued() -> None:
    """A stopped process takes the signal because CONT follows it: no KILL is needed."""
    with Command(shape("stopped", tag())) as command:
        command.line()
        assert until(lambda: state_of(command.pid) == "T")
        command.warded.stop(((TERM, 10.0),))
        command.ended()

    assert {TERM, signal.SIGCONT} == {number for number, _ in command.signals()}


def test_signals_beyond_number_hold_up_nothing() -> None:
    """A command that floods its warden with signals which the kernel queues is ended in time all the same."""
    mark = tag()
    body = """
import resource
deaf()
warden = os.getppid()
resource.prlimit(warden, resource.RLIMIT_SIGPENDING, (2000, 2000))  # leave some to the rest of this machine
def flood(count):
    for _ in range(count): os.kill(warden, signal.SIGRTMAX)
flood(5000)
end = time.monotonic() + 6
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < end: flood(5000)
        os._exit(0)
ready(); stay()
"""
    with Command(shape_of(body, mark)) as command:
        command.line()
        command.warded.stop(((TERM, 0.1),))
        facts = command.ended(within=3.0)

    assert facts["empty"]
    assert [] == alive(mark)


def test_a_warden_that_was_sent_signals_serves_no_other() -> None:
    """Signals that a command has sent to its warden do not wait there for the next command."""
    body = "os.kill(os.getppid(), signal.SIGRTMAX); ready()"
    with Command(shape_of(body, tag())) as command:
        facts = command.ended()

    assert facts["empty"]
    assert not facts["reusable"]


class _Elusive(Below):
    """Somebody is below, and no look finds him."""

    def reap(self, ended: object = None) -> bool:
        return False

    def holds_only_dead(self) -> bool:
        return False

    def members(self) -> list[Member]:
        return []


def test_who_is_not_seen_is_not_taken_to_be_gone() -> None:
    """A warden that gives up without having found anybody does not say that nobody is left."""
    ours, theirs = link.pair()
    warden = Warden(theirs, -1, -1, -1)
    warden._request = {"number": 1, "drain": 0.0}
    warden._below = _Elusive(os.getpid())
    warden._ladder = Ladder(0.0, (), "stop")
    warden._climb(time.monotonic())
    told = link.receive(ours)
    ours.close()
    theirs.close()

    assert told is not None
    facts = told[0][1]
    assert ("ended", False, (UNSEEN,)) == (told[0][0], facts["empty"], facts["survivors"])


def test_steps_are_taken_in_order() -> None:
    """Each step is taken in its turn, and KILL after the last."""
    with Command(["sh", "-c", "trap '' INT TERM; echo; while :; do sleep 60; done"]) as command:
        command.line()
        began = time.monotonic()
        command.warded.stop(((signal.SIGINT, 0.1), (TERM, 0.1)))
        command.ended()
        took = time.monotonic() - began

    assert [signal.SIGINT, TERM, KILL] == [number for number, scope in command.signals() if scope == "group"]
    assert took >= 0.2


def test_grace_is_never_extended() -> None:
    """A later stop with more time changes nothing; one with less, and ``hurry``, kill sooner."""
    with Command(shape("deaf", tag())) as command:
        command.line()
        command.warded.stop(((TERM, 60.0),))
        command.warded.stop(((TERM, 0.2),))
        command.warded.stop(((TERM, 60.0),))

        assert command.ended()["empty"]


def test_hurry_shortens_a_grace() -> None:
    """``hurry`` during a long grace kills at once."""
    with Command(shape("deaf", tag())) as command:
        command.line()
        command.warded.stop(((TERM, 60.0),))
        command.warded.hurry(0.0)

        assert -KILL == command.ended()["status"]


def test_timeout_needs_no_host() -> None:
    """The timeout of a request begins the ladder without anything being asked."""
    with Command(nap().split(), timeout_s=0.1, piped=False) as command:
        facts = command.ended()

    assert ("timeout", -TERM) == (facts["cause"], facts["status"])


def test_deadline_of_the_owner_can_be_told_later() -> None:
    """A deadline that is told while the command runs ends it where it comes before the timeout."""
    with Command(nap().split(), timeout_s=60.0, piped=False) as command:
        command.warded.unheard(0.05, (), -1)

        assert "deadline" == command.ended()["cause"]


def test_letting_go_ends_it() -> None:
    """A command whose ``Warded`` is closed is ended, as if the host had died."""
    mark = tag()
    command = Command(shape("deaf daemon", mark), orphaned=((TERM, 0.1),))
    command.line()
    command.close()

    assert until(lambda: not alive(mark))


def test_host_that_does_not_read_is_no_obstacle() -> None:
    """A warden whose socket is full ends its command on time."""
    mark = tag()
    with Command(["sh", "-c", f"while :; do kill -STOP $$; done & exec sleep {mark}"], timeout_s=0.3, piped=False) as c:
        for _ in range(3000):
            c.warded.signal(signal.SIGCONT)  # each is told of

        assert until(lambda: not alive(mark))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a launcher and its wardens write what goes wrong with themselves."""
    launch.shutdown()
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("TURNCTL_LAUNCHER_LOG", str(path))
    yield path
    launch.shutdown()


def test_error_of_a_warden_is_in_the_log(log: Path) -> None:
    """A warden that an error ends says so where one can read it; the launcher ends what it held."""
    mark = tag()
    with Command(["sleep", mark], piped=False) as command:
        link.send(command.warded._sock, ("stop", command.warded._number))  # no such request
        facts = command.ended()

    assert (("killed", 70), True) == (next(m for m in command.messages if m[0] == "killed"), facts["empty"])
    assert "TypeError" in log.read_text()
    assert [] == alive(mark)


def test_end_that_comes_at_once_is_no_error(log: Path) -> None:
    """A command that is over before a request to hurry has been carried out leaves its warden as it should be."""
    for _ in range(20):
        with Command(["sleep", "60"], piped=False) as command:
            command.warded.hurry(0.0)
            assert command.ended()["empty"]

    assert "" == log.read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can see what a warden has open")
def test_warden_without_descriptors_goes_on(log: Path) -> None:
    """A message whose descriptor it has no number for is passed over, and the command is not ended for it."""
    with Command(nap().split(), piped=False) as command:
        warden = parent_of(command.pid)
        _, hard = limits = resource.prlimit(warden, resource.RLIMIT_NOFILE)
        numbers = {int(name) for name in os.listdir(f"/proc/{warden}/fd")}
        free = next(number for number in range(1000) if number not in numbers)
        resource.prlimit(warden, resource.RLIMIT_NOFILE, (free, hard))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command.warded.unheard(60.0, (TERM,), ours.fileno())
            command.warded.signal(signal.SIGCONT)
            command.until("signals")
        resource.prlimit(warden, resource.RLIMIT_NOFILE, limits)
        command.warded.stop(((TERM, 60.0),))
        facts = command.ended()

    assert (-TERM, True, "stop") == (facts["status"], facts["empty"], facts["cause"])
    assert "" == log.read_text()


# -- what a command gets -----------------------------------------------------------------------------------------------


def test_status_and_output() -> None:
    """Output goes to the descriptor that was given, and the exit status is told exactly."""
    facts, out = run(["sh", "-c", "echo hello; exit 7"])

    assert (7, b"hello\n") == (facts["status"], out)


def test_death_by_signal_is_told() -> None:
    """A command that dies of a signal has minus its number as status."""
    facts, _ = run(["sh", "-c", "kill -SEGV $$"])

    assert -signal.SIGSEGV == facts["status"]


def test_own_session_and_null_input() -> None:
    """A command has a session of its own, and reads end-of-file unless it was given something."""
    facts, out = run(python("import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '')"))

    assert b"True True\n" == out
    assert 0 == facts["status"]


def test_own_group_in_the_same_session() -> None:
    """With ``group`` it stays in this session, where the terminal is, in a process group of its own."""
    facts, out = run(python("import os; print(os.getsid(0), os.getpgrp() == os.getpid())"), terminal="group")

    assert f"{os.getsid(0)} True\n".encode() == out
    assert facts["empty"]


def test_foreground_is_handed_over_before_the_command_is_loaded() -> None:
    """On a terminal the command's group holds the foreground from its first instruction on."""
    code = """
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    inner = ["sh", "-c", "ps -o stat= -p $$; read x; echo got $x"]
    with Command(inner, terminal="group", foreground=0, piped=False, stdin=0, stdout=1, stderr=2) as command:
        command.ended()
    launch.shutdown()
    os._exit(0)
os.write(fd, b"word\\n")
out = b""
while b"got word" not in out:
    out += os.read(fd, 1000)
say("+" in out.decode().replace("word", ""))
os.waitpid(pid, 0)
"""
    with by_host(code) as host:
        assert "True" == host.line()


def test_stops_of_a_terminal_command_are_told() -> None:
    """With ``watch_stops`` the host hears when the main process is stopped and when it goes on."""
    with Command(nap().split(), terminal="group", watch_stops=True, piped=False) as command:
        os.kill(command.pid, signal.SIGSTOP)
        stopped = command.until("stopped")
        command.warded.signal(signal.SIGCONT, group=True)
        command.until("continued")

    assert ("stopped", int(signal.SIGSTOP)) == stopped


def test_nothing_else_is_inherited() -> None:
    """The command has descriptors 0, 1 and 2 and those that were handed over, under their own numbers."""
    read, write = os.pipe()
    other = os.dup2(read, 77)
    try:
        code = (
            "import os; found = sorted(int(n) for n in os.listdir('/proc/self/fd'))\n"
            "print(*[n for n in found if os.path.exists(f'/proc/self/fd/{n}')], os.read(77, 2))"
        )
        os.write(write, b"ok")
        for _ in range(2):
            facts, out = run(python(code), pass_fds=(other,))
            os.write(write, b"ok")

            assert b"0 1 2 77 b'ok'\n" == out
            assert 0 == facts["status"]
    finally:
        for fd in (read, write, other):
            os.close(fd)


def test_numbers_of_the_wardens_own_can_be_handed_over() -> None:
    """Descriptors that the command wants under numbers that its warden uses itself arrive, and the warden goes on."""
    code = """
import os
pipes = [os.pipe() for _ in range(12)]
numbers = sorted(number for pair in pipes for number in pair)
for number, (read, write) in enumerate(pipes):
    os.write(write, b"%d" % number)
for _ in range(3):
    facts, out = run(["sh", "-c", "ls /proc/self/fd | wc -l; echo $PPID"], pass_fds=tuple(numbers))
    print(facts["empty"], out.split()[0].decode(), len({out.split()[1]}))
argv = [sys.executable, "-c", f"import os, time; os.write(1, os.read({pipes[5][0]}, 9)); time.sleep(60)"]
with Command(argv, pass_fds=tuple(numbers)) as command:
    print(command.line(), end=" ")
    command.warded.stop(((TERM, 5.0),))
    print(command.ended()["empty"])
"""
    lines = by_host(code).finished().splitlines()

    # 0, 1, 2, those handed over, and the directory that ls reads
    assert ["True 28 1"] * 3 == lines[:3]
    assert ["b'5' True"] == lines[3:]


def test_requesting_moment_holds() -> None:
    """Directory, mask of files, environment, limits, priority and signal mask are those of the call, each time."""
    code = (
        "import os, resource, signal; u = os.umask(0); "
        "print(os.getcwd(), oct(u), os.environ.get('MARK'), resource.getrlimit(resource.RLIMIT_NOFILE)[0], "
        "os.nice(0), sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))))"
    )
    run(["true"])  # so that the launcher is there before anything changes
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.getcwd()
    umask = os.umask(0o027)
    try:
        os.chdir("/usr")
        os.environ["MARK"] = "now"
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 7, hard))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        _, out = run(python(code))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        del os.environ["MARK"]
        os.chdir(before)
        os.umask(umask)
    _, after = run(python(code))

    assert f"/usr 0o27 now {soft - 7} {os.nice(0)} [{int(signal.SIGUSR1)}]\n".encode() == out
    assert f"{before} {oct(umask)} None {soft} {os.nice(0)} []\n".encode() == after


def test_options_change_the_command_alone() -> None:
    """Limits, priority and processors that a request asks for hold in the command, and not in the next one."""
    code = "import os, resource; print(resource.getrlimit(resource.RLIMIT_CPU), os.nice(0), os.sched_getaffinity(0))"
    one = min(os.sched_getaffinity(0))
    limits = ((resource.RLIMIT_CPU, 30, 40),)
    _, out = run(python(code), limits=limits, nice=os.nice(0) + 5, processors=(one,))
    _, after = run(python(code))

    assert f"(30, 40) {os.nice(0) + 5} {{{one}}}\n".encode() == out
    assert f"{resource.getrlimit(resource.RLIMIT_CPU)} {os.nice(0)} {os.sched_getaffinity(0)}\n".encode() == after


def test_dispositions_are_as_subprocess_leaves_them() -> None:
    """A command has the same ignored and blocked signals as one that ``subprocess`` starts."""
    argv = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        _, out = run(argv)
        theirs = subprocess.run(argv, capture_output=True).stdout
    finally:
        signal.signal(signal.SIGUSR2, before)
    _, after = run(argv)

    assert theirs == out
    assert subprocess.run(argv, capture_output=True).stdout == after


# -- errors of the start -----------------------------------------------------------------------------------------------


def _error(start: object, *args: object, **options: object) -> tuple[object, ...]:
    with pytest.raises(OSError) as caught:
        start(*args, **options)  # type: ignore[operator]
    error = caught.value
    return type(error), error.errno, error.filename, error.strerror


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["no-such-program"], {}),
        (["/etc/passwd"], {}),
        (["/etc"], {}),
        (["true"], {"cwd": "/no/such/folder"}),
        (["true"], {"cwd": "/etc/passwd"}),
        (["./nothing"], {"cwd": "/usr"}),
        (["no-such-program"], {"cwd": "/no/such/folder"}),
        (["x" * 5000], {}),
    ],
)
def test_errors_are_those_of_subprocess(argv: list[str], options: dict[str, str]) -> None:
    """What cannot be started raises what ``subprocess`` raises: type, errno, file name and words."""
    expected = _error(subprocess.run, argv, **options)

    assert expected == _error(Command, argv, **options)
    assert expected == _error(Command, argv, nice=os.nice(0) + 1, **options)  # the slower form of the start


def test_format_error_is_told(tmp_path: Path) -> None:
    """A file that is executable and no program is ENOEXEC, one whose interpreter is missing is ENOENT."""
    odd, lost = tmp_path / "odd", tmp_path / "lost"
    odd.write_bytes(b"\x00\x01\x02\x03")
    lost.write_text("#!/no/such/interpreter\n")
    for path in (odd, lost):
        path.chmod(0o755)

        assert _error(subprocess.run, [str(path)]) == _error(Command, [str(path)])


def test_large_arguments_arrive() -> None:
    """Arguments and environment of megabytes arrive whole."""
    large = "x" * 100_000
    env = {f"V{n}": large for n in range(12)} | {"PATH": os.environ["PATH"]}
    code = "import os, sys; print(len(sys.argv[1]), sum(len(v) for k, v in os.environ.items() if k[0] == 'V'))"
    _, out = run(python(code, large), env=env)

    assert b"100000 1200000\n" == out


def test_too_large_arguments_are_refused() -> None:
    """What is larger than the system takes is E2BIG, as with ``subprocess``."""
    argv = ["true", *["x" * 100_000] * 300]

    assert _error(subprocess.run, argv) == _error(Command, argv)


def test_bytes_that_are_no_text_pass() -> None:
    """Arguments, environment and directory may be any bytes."""
    _, out = run(["sh", "-c", 'printf %s "$1$V"', "sh", b"\xff\xfe"], env={b"V": b"\xfd", b"PATH": b"/usr/bin:/bin"})

    assert b"\xff\xfe\xfd" == out


# -- reuse -------------------------------------------------------------------------------------------------------------


def test_proved_warden_serves_again() -> None:
    """A warden that proved a command empty serves the next; one that had to end something does not."""
    with Command(["sh", "-c", "echo $PPID"]) as first:
        one = first.line()
        first.ended()
    with Command(["sh", "-c", "echo $PPID; exec sleep 60"]) as second:
        two = second.line()
        second.warded.stop(((TERM, 5.0),))
        second.ended()
    with Command(["sh", "-c", "echo $PPID"]) as third:
        three = third.line()
        third.ended()

    assert one == two
    assert two != three


def test_failed_start_leaves_the_warden_usable() -> None:
    """A program that does not exist costs no warden."""
    with Command(["sh", "-c", "echo $PPID"]) as first:
        one = first.line()
        first.ended()
    with pytest.raises(FileNotFoundError):
        Command(["no-such-program"])
    with Command(["sh", "-c", "echo $PPID"]) as second:
        two = second.line()
        second.ended()

    assert one == two


def test_idle_warden_holds_nothing_of_its_last_command() -> None:
    """Between two commands a warden has no descriptor of either, and stands in no directory of theirs."""
    read, write = os.pipe()
    with Command(["sh", "-c", "echo $PPID"], pass_fds=(write,), cwd="/usr") as command:
        warden = int(command.line())
        command.ended()
    os.close(write)

    assert b"" == os.read(read, 1)
    assert "/" == os.readlink(f"/proc/{warden}/cwd")
    os.close(read)


def test_name_matches_no_pattern_for_other_programs() -> None:
    """Neither the name nor the arguments of warden and launcher speak of an interpreter or of the command."""
    with Command(nap().split(), piped=False) as command:
        warden = parent_of(command.pid)
        shown = [
            Path(f"/proc/{pid}/{file}").read_bytes().rstrip(b"\0\n")
            for pid in (warden, parent_of(warden))
            for file in ("comm", "cmdline")
        ]

    assert [b"turnctl: warden", b"turnctl: warden", b"turnctl: launch", b"turnctl: launcher"] == shown


def test_signals_to_a_warden_do_nothing() -> None:
    """What a command sends to its supervisor, KILL aside, changes nothing."""
    with Command(["sh", "-c", "for s in TERM INT HUP QUIT USR1 TSTP ALRM; do kill -$s $PPID; done; echo; exit 5"]) as c:
        c.line()

        assert 5 == c.ended()["status"]
