"""The first process of a pid namespace that holds one command: its reaper, and the handle on which all of it hangs.

Stand-alone, forked by a warden. When this process ends, however it ends, the kernel kills everybody in the namespace
before its death is told: so one KILL ends all at once, whatever forks meanwhile and whoever it became.

A *maker* makes the namespaces (of pids and of mounts; of users too, where this user needs one for that), forks the
first process in them and ends, by which that one becomes the warden's child.

Invariants
  T1  It lives no longer than the warden: the kernel is told to kill it then, before the command is started, and after
      that it is asked whether the warden is still there. It also ends at the end of the socket.
  T2  It ends by itself when ``wait`` has said ECHILD, and after it has told how the main process ended; a warden that
      is slow to read gets it when it does.
  T3  It holds no descriptor of the command once that has been started.
  T4  The command keeps its user and group. Where a user namespace was needed, no other ids are known in it.
  T5  No mount made in here is seen outside.

With the warden it speaks by ``link``: it is told ``go``, ``signal(count, number, scope)`` and ``kill``, and tells
``starting``, ``failed(errno, what)``, ``started(details)`` with its child as the sender's pid, so that the kernel
translates that, ``exited(status)``, ``stopped(signal)``, ``continued`` and ``sent(count, reached)``.
"""

import marshal
import os
from _socket import SCM_CREDENTIALS, SOL_SOCKET, socket
from errno import EINVAL, EPERM
from select import POLLIN, POLLOUT, poll
from sys import byteorder

from turnctl.processes import link
from turnctl.processes.birth import NotStarted, start
from turnctl.processes.kernel import SIGKILL, bar_tracers, call, close_all_but, failpoint, hear_children, prctl, rename
from turnctl.processes.sweep import Below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["TITLE", "make"]

TITLE = b"turnctl: init"

NEW_MOUNTS, NEW_USERS, NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
#: how long a warden may take to read what it is told last
PARTING_S = 60.0
_SLAVE, _RECURSIVE = 0x80000, 0x4000
_NO_SUID_DEV_EXEC = 2 | 4 | 8
_PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """A step that this machine does not let us take."""

    def __init__(self, error: OSError, step: str) -> None:
        super().__init__(step)
        self.errno = error.errno or EINVAL
        self.step = f"namespace:{step}"


def make(control: socket, request: "dict[str, Any]", fds: tuple[int, ...]) -> int:
    """Be the maker, in a fork of the warden; the exit status, for the maker and for the first process."""
    line = link.Line(control)
    try:
        bar_tracers(False)  # the maps of ids are written in its own /proc
        proc = _open_proc()
        if request["cwd_fd"] >= 0:
            # before the mounts are copied: a folder that is entered later would be one of the old ones
            _enter(fds[request["cwd_fd"]])
        has_users = _unshare()
        try:
            child = os.fork()
        except OSError as error:
            raise Refused(error, "fork") from None
    except Refused as refused:
        line.send("failed", refused.errno, refused.step)
        return 1
    except NotStarted as error:
        line.send("failed", error.errno, error.what)
        return 1
    if child:
        return 0
    try:
        return _Init(line, proc).run(dict(request, cwd_fd=-1), fds, has_users)
    except NotStarted as error:
        line.send("failed", error.errno, error.what)
    except Refused as refused:
        line.send("failed", refused.errno, refused.step)
    return 1


def _open_proc() -> int:
    """The list of processes outside, in which a process of the namespace finds its number there; -1 without one."""
    try:
        return os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1


def _enter(folder: int) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise NotStarted(error.errno or EINVAL, "chdir") from None


def _unshare() -> bool:
    """Make the namespaces; whether one of users was needed."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        call("unshare", NEW_MOUNTS | NEW_PIDS)
        return False
    except OSError as error:
        if error.errno != EPERM:
            raise Refused(error, "unshare") from None
    try:
        call("unshare", NEW_MOUNTS | NEW_PIDS | NEW_USERS)
    except OSError as error:
        raise Refused(error, "unshare") from None
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError as error:
            raise Refused(error, "map") from None
    return True


class _Init:
    """The first process, with its loop. ``run`` returns the exit status."""

    def __init__(self, line: link.Line, proc: int) -> None:
        self._line = line
        self._proc = proc
        self._watches_stops = False
        self._below = Below(1)

    def run(self, request: "dict[str, Any]", fds: tuple[int, ...], has_users: bool) -> int:
        failpoint("init-born")
        self._arm()
        failpoint("init-armed")
        has_proc = self._mount()
        self._watches_stops = request["watch_stops"]
        rename(TITLE)  # bars tracers too, before there is a command that could be one
        self._line.send("starting")
        pid = start(dict(request, proc=self._lifted_proc(request, fds)), fds, self._lift)
        os.chdir("/")
        failpoint("init-started")
        close_all_but((self._line.fileno(),))
        wake = hear_children()
        self._below.leader = pid
        self._tell_started(pid, {"proc": has_proc, "users": has_users})
        self._attend(wake)
        failpoint("init-empty")
        return 0

    def _arm(self) -> None:
        """Hang on the warden (T1). It says ``go`` when the maker is reaped, so that it is our parent."""
        line = self._line
        ready = poll()
        ready.register(line.fileno(), POLLIN)
        ready.poll()
        try:
            line.receive()  # go
            if prctl(_PR_SET_PDEATHSIG, SIGKILL) != 0:
                raise Refused(OSError(EINVAL, ""), "arm")
            line.receive()  # says at once if it was gone before
        except link.Broken:
            os._exit(1)

    def _mount(self) -> bool:
        """A list of processes of our own at /proc; whether that was possible."""
        try:
            call("mount", b"none", b"/", None, _SLAVE | _RECURSIVE, None)
        except OSError as error:
            raise Refused(error, "mount") from None
        try:
            call("mount", b"proc", b"/proc", b"proc", _NO_SUID_DEV_EXEC, None)
        except OSError:
            return False
        return True

    def _lifted_proc(self, request: "dict[str, Any]", fds: tuple[int, ...]) -> int:
        """The list outside, if the command's number is to be told from within; above every number that is given out."""
        if request["announce"] is None:
            return -1
        if self._proc < 0:
            raise Refused(OSError(EINVAL, ""), "proc")
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        above = max((2, *fds, *[target for target, _ in request["keep"]])) + 1
        return int(fcntl(self._proc, F_DUPFD_CLOEXEC, above))

    def _lift(self, above: int) -> None:
        sock = self._line.sock
        if sock.fileno() < above:
            from fcntl import F_DUPFD_CLOEXEC, fcntl

            self._line.sock = socket(fileno=fcntl(sock.fileno(), F_DUPFD_CLOEXEC, above))
            sock.close()

    def _tell_started(self, pid: int, details: "dict[str, Any]") -> None:
        who = b"".join([number.to_bytes(4, byteorder) for number in (pid, os.getuid(), os.getgid())])
        packet = bytes((link.VERSION, 0)) + marshal.dumps(("started", details))
        try:
            self._line.sock.sendmsg([packet], [(SOL_SOCKET, SCM_CREDENTIALS, who)])
        except OSError:
            os._exit(1)  # the warden is gone

    # -- while it runs -------------------------------------------------------------------------------------------------

    def _attend(self, wake: int) -> None:
        line, below = self._line, self._below
        moved = poll()
        moved.register(wake, POLLIN)
        moved.register(line.fileno(), POLLIN)
        has_told = False
        while True:
            if self._watches_stops and below.status is None:
                news = below.stops()
                if news:
                    line.send(*news)
            is_empty = below.reap()
            if below.status is not None and not has_told:
                has_told = True
                line.send("exited", below.status)
            if is_empty:
                line.part(PARTING_S)
                return
            moved.modify(line.fileno(), POLLIN | POLLOUT if line.is_waiting else POLLIN)
            moved.poll()
            line.flush()
            try:
                os.read(wake, 65536)
            except BlockingIOError:
                pass
            self._hear()

    def _hear(self) -> None:
        line, below = self._line, self._below
        while True:
            try:
                got = line.receive()
            except (link.Broken, OSError, ValueError, EOFError):
                os._exit(1)
            if got is None:
                return
            message = got[0]
            if message[0] == "signal":
                _, count, signum, scope = message
                reached = below.signal_group(signum) if scope == "group" else below.signal_leader(signum)
                line.send("sent", count, reached)
            elif message[0] == "kill":
                try:
                    os.kill(-1, SIGKILL)  # all but ourselves, in one step
                except OSError:
                    pass  # there is nobody, or none that may be killed: the warden goes on by killing us
