"""The kinds of process trees of the gauntlet: each is a command that says ``ready`` and then is hard to end.

A kind adds to the shapes of ``tests/support/shapes.py`` how many processes it has when it stands, and how long its pids
go on changing, during which nobody can count them. Every process has the tag in its argv; all of them end by
themselves after a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple, Self

from shapes import body_of, shape_of

#: how long the kinds that change their pids do so
MOVING_S = 3.0

_HEAD = """
MOVING_S = float(sys.argv[2])
def linger():
    'Stay as this very process, which has not loaded another program.'
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(1)
    os._exit(0)
def libc():
    import ctypes
    return ctypes.CDLL(None, use_errno=True)
def number(**by_machine):
    return by_machine[os.uname().machine]
def moving():
    end = time.monotonic() + MOVING_S
    return lambda: time.monotonic() < end
def shell(line):
    os.execvp("sh", ["sh", "-c", line, tag])
"""


class Kind(NamedTuple):
    """What a kind does, the number of its processes, whether their pids change, and the program that it needs."""

    body: str
    least: int = 1
    is_moving: bool = False
    needs: str = ""


KINDS = {
    # one process group, or nearly
    "child": Kind("if os.fork() == 0: stay()\nready(); stay()", 2),
    "deaf child": Kind("deaf()\nif os.fork() == 0: stay()\nready(); stay()", 2),
    "nohup": Kind("""shell('nohup sleep "$0" >/dev/null 2>&1 & echo ready; exec sleep "$0"')""", 2),
    "pipeline": Kind(
        """shell('echo ready; sh -c "while sleep 0.2; do echo; done" "$0" | sed -u "s/$0//" | tr "$0" y >/dev/null')""",
        4,
    ),
    "all blocked": Kind(
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nif os.fork() == 0: stay()\nready(); stay()", 2
    ),
    "stopped": Kind(body_of("stopped"), 2),
    "only a thread": Kind(body_of("only a thread")),
    "never reaps": Kind(
        """
if os.fork() == 0:
    for _ in range(20):
        if os.fork() == 0: os._exit(0)
    away(); ready(); stay()
stay()
""",
        3,
    ),
    "in vfork": Kind(
        # whoever starts a program waits in the kernel until it is loaded, and this one waits for a writer before that
        """
import tempfile
folder = tempfile.mkdtemp()
os.mkfifo(folder + "/fifo")
kept = os.open(folder + "/fifo", os.O_PATH)
os.unlink(folder + "/fifo"); os.rmdir(folder)
if os.fork() == 0:
    os.setsid()
    for_ever = [(os.POSIX_SPAWN_OPEN, 0, f"/proc/self/fd/{kept}", os.O_RDONLY, 0)]
    os.posix_spawn("/bin/true", ["true", tag], {}, file_actions=for_ever)
ready(); linger()
""",
        3,
    ),
    # sessions and orphans
    "grandchild away": Kind("if os.fork() == 0: away(); ready(); stay()\nstay()", 3),
    "daemon": Kind(body_of("daemon"), 2),
    "deaf daemon": Kind(body_of("deaf daemon"), 2),
    "daemon without a trace": Kind(
        """
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.closerange(3, 65536); os.chdir("/"); os.umask(0)
        os.execve("/bin/sleep", ["sleep", tag], {})
    os._exit(0)
os.waitpid(middle, 0)
ready(); stay()
""",
        2,
    ),
    "adopts": Kind(body_of("adopts"), 2),
    "chain": Kind(body_of("chain"), 21),
    "crowd": Kind(body_of("crowd"), 61),
    "leaves a holder": Kind("if os.fork() == 0: stay()\nready()"),
    "leaves a daemon": Kind(body_of("leaves a daemon")),
    # terminals of its own
    "job control": Kind(
        """
import pty
pid, terminal = pty.fork()
if pid == 0:
    line = 'sleep "$0" & sleep "$0" & (trap "" HUP; exec sleep "$0") & wait'
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i", "-c", line, tag])
ready()
try:
    while os.read(terminal, 4096): pass
except OSError: pass
linger()
""",
        5,
        needs="bash",
    ),
    "deaf to the hang-up": Kind(
        """
import pty
signal.signal(signal.SIGHUP, signal.SIG_IGN)
pid, terminal = pty.fork()
if pid == 0: stay()
ready(); stay()
""",
        2,
    ),
    # changing faster than can be read
    "relay": Kind(
        """
deaf(); signal.signal(signal.SIGCHLD, signal.SIG_IGN)
is_on = moving()
def run(lane):
    while is_on():
        time.sleep(0.2 + lane % 10 * 0.02)
        if os.fork(): os._exit(0)
        if lane % 3 == 0: os.setsid()
    stay()
for lane in range(100):
    if os.fork() == 0: run(lane)
ready(); stay()
""",
        50,
        is_moving=True,
    ),
    "hopper": Kind(
        """
deaf()
is_on = moving()
if os.fork() == 0:
    while is_on():
        if os.fork(): os._exit(0)
        os.setsid()
    stay()
ready(); stay()
""",
        is_moving=True,
    ),
    "tight hopper": Kind(
        "deaf(); ready(); os.execv(sys.argv[3], ['hop', tag, sys.argv[2]])", is_moving=True, needs="gcc"
    ),
    "storm": Kind(body_of("storm"), is_moving=True),
    "forks when asked": Kind(body_of("forks when asked")),
    "two guards": Kind(
        """
deaf()
end = time.monotonic() + 20
ready()
while time.monotonic() < end:
    guarded = os.getpid()
    other = os.fork()
    if other == 0:
        os.setsid()
        while os.getppid() == guarded and time.monotonic() < end: time.sleep(0.002)
        continue  # whom it looked after has gone: it takes its place
    os.waitpid(other, 0)
stay()
""",
        2,
        is_moving=True,
    ),
    # hiding
    "odd name": Kind(
        """
deaf()
if os.fork() == 0:
    os.setsid()
    with open("/proc/self/comm", "wb") as file: file.write(b") Z 1 1\\n(x")
    ready(); linger()
linger()
""",
        2,
    ),
    "another argv when asked": Kind(
        """
def forget(*_):
    with open("/proc/self/stat", "rb") as file: field = file.read().rpartition(b")")[2].split()
    first, end = int(field[45]), int(field[46])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(first); memory.write(b"init".ljust(end - first, b"\\0"))
signal.signal(signal.SIGTERM, forget); signal.signal(signal.SIGINT, forget)
if os.fork() == 0:
    os.setsid(); ready(); linger()
linger()
""",
        2,
    ),
    "without a death signal": Kind(
        """
libc().prctl(1, 0, 0, 0, 0); daemon()
if os.fork() == 0: libc().prctl(1, 0, 0, 0, 0); stay()
ready(); stay()
""",
        3,
    ),
    "own namespace": Kind(
        # its first process hears no TERM; where no namespace is to be had, it is a daemon
        """
if os.fork() == 0:
    os.setsid()
    if libc().unshare(0x30000000 if os.getuid() else 0x20000000) == 0 and os.fork(): stay()
    if os.fork() == 0: stay()
    ready(); linger()
stay()
""",
        3,
    ),
    "sister": Kind(
        # cloned so that its parent is ours
        """
if libc().syscall(number(x86_64=56, aarch64=220), 0x8000 | 17, 0, 0, 0, 0) == 0:
    os.setsid(); stay()
ready(); stay()
""",
        2,
    ),
    "traced": Kind(
        """
traced = os.fork()
if traced == 0:
    os.setsid(); libc().ptrace(0, 0, 0, 0); os.kill(os.getpid(), signal.SIGSTOP); linger()
os.waitpid(traced, os.WUNTRACED)
deaf(); ready(); linger()
""",
        2,
    ),
    "forked by a thread": Kind(
        "import threading\none = threading.Thread(target=daemon); one.start(); one.join()\nready(); stay()", 2
    ),
    # against who holds it
    "kills its supervisor": Kind(
        # only one of the gauntlet: it has the tag in its argv, or our title
        """
away(); daemon(); ready(); time.sleep(0.5)
above = os.getppid()
try:
    with open(f"/proc/{above}/cmdline", "rb") as file: line = file.read()
    if above > 1 and (tag.encode() in line or line.startswith(b"turnctl")): os.kill(above, signal.SIGKILL)
except OSError: pass
stay()
""",
        3,
    ),
    "floods who holds it": Kind(
        # with signals that the kernel queues, each of them; only ours, which they do not end
        """
import resource
deaf(); daemon()
holder = os.getppid()
def is_held():
    with open(f"/proc/{holder}/cmdline", "rb") as file: return file.read().startswith(b"turnctl: ")
def flood():
    for _ in range(5000): os.kill(holder, signal.SIGRTMAX)
if is_held():
    resource.prlimit(holder, resource.RLIMIT_SIGPENDING, (2000, 2000))  # the rest of this machine needs some too
    flood()
end = time.monotonic() + 20
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        try:
            while is_held() and time.monotonic() < end: flood()
        except OSError: pass
        stay()
ready(); stay()
""",
        4,
    ),
}

_HOP = r"""
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **word) {
    double left = atof(word[2]);
    struct timespec now, begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        if (fork() > 0) _exit(0);
        setsid();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec + (now.tv_nsec - begun.tv_nsec) / 1e9 < left);
    for (count = 0; count < 60; count++) sleep(1);
    return 0;
}
"""


class Missing(Exception):
    """This machine lacks what a kind needs."""


class Maker:
    """Gives the commands of kinds, to any thread; a context manager, since one is compiled."""

    def __init__(self) -> None:
        self._compiling = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="turnctl-gauntlet-")
        os.chmod(self._folder.name, 0o755)

    def command(self, name: str, tag: str, interpreter: str) -> list[str]:
        """The command of a kind. Raises ``Missing``."""
        kind = KINDS[name]
        if kind.needs and shutil.which(kind.needs) is None:
            raise Missing(f"{name}: this machine has no {kind.needs}")
        if name == "own namespace" and not Path("/proc/self/ns/pid").exists():
            raise Missing(f"{name}: this kernel has no pid namespaces")
        hop = self._hop() if kind.needs == "gcc" else "-"
        return [interpreter, *shape_of(_HEAD + kind.body, tag, str(MOVING_S), hop)[1:]]

    def _hop(self) -> str:
        program = Path(self._folder.name, "hop")
        with self._compiling:  # runs beside each other want it at the same time
            if not program.exists():
                source = ["gcc", "-x", "c", "-O1", "-o", str(program), "-"]
                subprocess.run(source, input=_HOP.encode(), check=True, capture_output=True)
        return str(program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()
