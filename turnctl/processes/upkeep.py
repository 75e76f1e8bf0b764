"""The launchers of this process: started when they are needed, replaced when they do not fit, let go.

A launcher is started for the first command, and again whenever there is none that fits: after a fork, a change of user,
root, namespace, control group or capabilities, or its death. A warden that has proved a command empty is kept warm.

Invariants
  U1  A launcher serves only requests of the moment's ``key`` that it was started under.
  U2  In a forked child nothing here is used, and its copies are closed at once: they are the parent's.
  U3  A warm warden is in the list or in one hand. One that said anything since it was put there is not used.

Lock: ``_starting``, for the start of a launcher alone. May block: ``fitting``, for that start, at most ``READY_S``, and
``Launcher.ask``.
Safe in every thread; not in a signal handler.
Not promised: a host that is copied by a fork in C, without Python's hooks, leaves sockets open in the copy; the pidfd
still tells of the host's death, but not of its exec.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from errno import EAGAIN, EINVAL
from functools import lru_cache
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from turnctl.processes import link
from turnctl.processes.ends import inode_of, is_ours, let_go
from turnctl.processes.kernel import open_pidfd
from turnctl.processes.moment import Moment, take
from turnctl.processes.reaping import Child, child_of_ours, reap_children

if TYPE_CHECKING:
    import _socket

    from turnctl.processes.patience import Patience

__all__ = ["Launcher", "Unavailable", "fitting", "refusal", "shutdown"]

Kind = Literal["session", "group"]

#: warm wardens that are kept at most
MOST_WARM = 8
#: how long a launcher may take to be there
READY_S = 10.0
#: how long it may take no request, when hundreds of them wait; then somebody has stopped it
TAKES_S = 10.0
_TRIES = 5
#: how long a helper that is our child is waited for, which is about to end; later it is only looked at
REAPING_MS = 1000
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH", "TURNCTL_FAILPOINT", "TURNCTL_LAUNCHER_LOG")

# run by the new interpreter: leave the host's family first, then load only our own files, without the package
_BOOT = """\
import sys, posix
if posix.fork(): posix._exit(0)
for n, p in (("turnctl", sys.argv[1]), ("turnctl.processes", sys.argv[1] + "/processes")):
    m = sys.modules[n] = type(sys)(n)
    m.__path__ = [p]
from turnctl.processes.launcher import main
main(int(sys.argv[2]), int(sys.argv[3]), in_session=sys.argv[4] == "group")
"""


class Unavailable(OSError):
    """There can be no launcher here; the text says why."""


class Launcher:
    """One launcher as the host sees it."""

    def __init__(self, control: _socket.socket, moment: Moment) -> None:
        self.control = control
        self._inode = inode_of(control)
        self.moment = moment
        #: each with its number and what its socket is known by
        self._warm: list[tuple[_socket.socket, int, int]] = []
        self._numbers = count(1)
        #: its pid, which is its own as long as ``is_alive``
        self.pid = 0
        #: where this process adopts orphans, or is the first of its container: then the launcher is its child
        self.child: Child | None = None
        self.is_gone = False

    def is_alive(self) -> bool:
        """Whether it is there as far as its socket tells: the first thing that it says after ``ready`` is farewell."""
        return not self.is_gone and is_ours(self.control, self._inode) and not _is_readable(self.control)

    def warden(self) -> tuple[_socket.socket, int, _socket.socket | None]:
        """A socket to a warm warden and its number, or to one that is still to be asked for, with its other end."""
        while self._warm:
            try:
                sock, ward, inode = self._warm.pop()
            except IndexError:
                break
            if is_ours(sock, inode) and not _is_readable(sock):
                return sock, ward, None
            let_go(sock, inode)
        sock, end = link.pair()
        return sock, next(self._numbers), end

    def ask(self, ward: int, end: _socket.socket, patience: Patience | None = None) -> None:
        """Have a warden forked for that end. Blocks for ``TAKES_S`` at most, until it has room for the request.

        Raises ``Broken`` if there is no launcher any more, ``Unavailable`` if it has no room, although it was
        continued, and ``StopWanted``, for ``patience``. In each case the request has not left this program.
        """
        ready = select.poll()
        ready.register(self.control.fileno(), select.POLLOUT)
        if patience is not None:
            ready.register(patience.fd, select.POLLIN)
        until = monotonic() + TAKES_S
        while True:
            try:
                link.send(self.control, ("warden", ward), (end.fileno(),))
                return
            except BlockingIOError:
                if monotonic() >= until:
                    break
            self._continue()
            if patience is None:
                ready.poll(int(TAKES_S * 1000))
            else:
                patience.wait_unless_stopped(ready, until)
        raise Unavailable(EAGAIN, f"the launcher (process {self.pid}) has taken no request for {TAKES_S:g} s, and "
                                  "was told to go on; if it is ended, another one is started")  # fmt: skip

    def rouse(self, ward: int) -> None:
        """Have that warden continued, if somebody stopped it. Does not wait."""
        self._tell("rouse", ward)

    def replace(self, ward: int) -> None:
        """Have that warden killed, which does not answer: the launcher ends what it held, and tells of it."""
        self._tell("replace", ward)

    def _tell(self, kind: str, ward: int) -> None:
        self._continue()
        try:
            if is_ours(self.control, self._inode):
                link.send(self.control, (kind, ward))
        except (link.Broken, OSError):
            pass  # it is gone, or stopped itself: then there is nobody who could

    def _continue(self) -> None:
        """Continue it, if somebody stopped it: if it is alive after a pidfd was opened, that is of nobody else."""
        fd = open_pidfd(self.pid) if self.pid else None
        if fd is None:
            return
        try:
            if self.is_alive():
                signal.pidfd_send_signal(fd, signal.SIGCONT)
        except OSError:
            pass  # it has just ended
        finally:
            os.close(fd)

    def keep(self, sock: _socket.socket, ward: int) -> bool:
        """Keep a warden for the next command, if it is wanted."""
        if self.is_gone or len(self._warm) >= MOST_WARM:
            return False
        self._warm.append((sock, ward, inode_of(sock)))
        self._close_warm(only_if_gone=True)  # let go of meanwhile: then nobody else closes it
        return True

    def close(self) -> None:
        """Let go of it and of its idle wardens; those with a command go on."""
        self.is_gone = True
        self._close_warm()
        let_go(self.control, self._inode)
        if self.child is not None:
            self.child.let_go(0)
            self.child = None

    def _close_warm(self, *, only_if_gone: bool = False) -> None:
        while self._warm and (self.is_gone or not only_if_gone):
            try:
                sock, _, inode = self._warm.pop()
            except IndexError:
                return
            let_go(sock, inode)


_current: dict[str, Launcher] = {}
_starting = threading.Lock()
_is_at_exit = False


def fitting(kind: Kind, moment: Moment) -> Launcher:
    """The launcher for this moment, a new one if there is none."""
    found = _current.get(kind)
    if found is not None and found.moment.key == moment.key and found.is_alive():
        return found
    with _starting:
        found = _current.get(kind)
        if found is not None:
            if found.moment.key == moment.key and found.is_alive():
                return found
            del _current[kind]
            found.close()
        for _ in range(_TRIES):
            fresh = _start_launcher(kind, moment)
            again = take()
            if again.key == moment.key:
                _current[kind] = fresh
                _let_go_at_exit()
                return fresh
            fresh.close()  # another thread changed who we are meanwhile
            moment = again
        raise Unavailable(EINVAL, "the user or the namespaces of this process kept changing while a launcher started")


def _let_go_at_exit() -> None:
    """The launcher would end with this process anyway; so our ends of its sockets are closed in order."""
    global _is_at_exit
    if not _is_at_exit:
        _is_at_exit = True
        atexit.register(shutdown)


def refusal() -> str | None:
    """Why there can be no launcher here; None if nothing speaks against it."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no child subreapers"
    if getattr(sys, "frozen", False):
        return "this program is frozen and has no interpreter of its own"
    if not _is_python(sys.executable):
        return f"sys.executable is {sys.executable!r}, which is no Python interpreter"
    return None


@lru_cache(maxsize=4)
def _is_python(executable: str | None) -> bool:
    return bool(executable) and os.path.basename(executable or "").lower().startswith(("python", "pypy"))


def _start_launcher(kind: Kind, moment: Moment) -> Launcher:
    why = refusal()
    if why is not None:
        raise Unavailable(EINVAL, f"no launcher can be started: {why}")
    ours, theirs = link.pair()
    me = open_pidfd(os.getpid())
    child: Child | None = None
    try:
        child = Child(_spawn(kind, theirs.fileno(), -1 if me is None else me))
        theirs.close()
        launcher = Launcher(ours, moment)
        launcher.pid = _await_ready(ours)
        launcher.child = child_of_ours(launcher.pid)
    except BaseException:
        ours.close()
        if child is not None:
            child.kill()
        raise
    finally:
        theirs.close()
        if me is not None:
            os.close(me)
        if child is not None:
            child.let_go(REAPING_MS)
    return launcher


def _spawn(kind: Kind, control: int, me: int) -> int:
    """Start the interpreter that forks the launcher and ends at once; its pid.

    Not by ``posix_spawn``: the C library then has its own two signals ignored in all that descends from the child.
    """
    import _posixsubprocess

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    argv = [sys.executable, *flags, "-c", _BOOT, package, str(control), str(me), kind]
    env = [os.fsencode(f"{name}={os.environ[name]}") for name in _KEPT_ENVIRONMENT if name in os.environ]
    kept = [fd for fd in (control, me) if fd >= 0]
    fork_exec: Any = _posixsubprocess.fork_exec
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    log = os.environ.get("TURNCTL_LAUNCHER_LOG")
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if log else null
    report, told = os.pipe2(os.O_CLOEXEC)
    # until it hears them itself, no signal reaches it: it begins in the host's process group
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid: int = fork_exec(
            argv,
            (os.fsencode(sys.executable),),
            True,
            tuple(sorted((*kept, told))),
            None,
            env,
            *(null, -1, -1, null, -1, errors),
            *(report, told),
            True,
            False,
            -1,
            *(None, None, None, -1),
            None,
            True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for fd in {null, errors, told, report}:
            os.close(fd)
    return pid


def _await_ready(control: _socket.socket) -> int:
    ready = select.poll()
    ready.register(control.fileno(), select.POLLIN)
    if not ready.poll(int(READY_S * 1000)):
        raise Unavailable(EINVAL, f"the launcher said nothing for {READY_S:g} s; set TURNCTL_LAUNCHER_LOG to see why")
    try:
        got = link.receive(control)
    except link.Broken:
        got = None
    if got is None or got[0][0] != "ready":
        raise Unavailable(EINVAL, "the launcher could not be started; set TURNCTL_LAUNCHER_LOG to a file to see why")
    return int(got[0][2])


def _is_readable(sock: _socket.socket) -> bool:
    ready = select.poll()
    try:
        ready.register(sock.fileno(), select.POLLIN)
    except ValueError:
        return True
    return bool(ready.poll(0))


def shutdown() -> None:
    """Let go of the launchers: they end as soon as none of their wardens has a command. For tests and for exits."""
    while True:
        try:
            _, launcher = _current.popitem()
        except KeyError:
            break
        try:
            if launcher.is_alive():
                link.send(launcher.control, ("shutdown",))
        except (link.Broken, OSError):
            pass  # it is gone, which is what was wanted
        launcher.close()
    reap_children(REAPING_MS)


def _forget() -> None:
    """In a forked child: what is here belongs to the parent (U2)."""
    global _starting
    _starting = threading.Lock()
    for launcher in list(_current.values()):
        launcher.close()
    _current.clear()


os.register_at_fork(after_in_child=_forget)
