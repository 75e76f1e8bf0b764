"""A command in a control group of its own (version 2), as its warden holds it, and the groups that lie about.

Stand-alone but for what the host asks about groups. The group is a *leaf* below the one that this program is in, which
has to be delegated to its user. The warden stays outside and stays a subreaper: what leaves the leaf is still found.

Invariants
  L1  The command is in the leaf before it is loaded, so everything that it starts begins there.
  L2  Nothing is left if and only if ``wait`` says ECHILD *and* the kernel says that the leaf has no process.
  L3  A leaf is only ever removed empty, which the kernel sees to. Its name tells who made it, by pid and start time.

Killing is one write that the kernel carries out for all in the leaf, and in groups below it, whatever forks meanwhile;
then, as for every command, whoever is found below the warden.
"""

import os
from errno import EINVAL, ENOENT
from select import EPOLLET, EPOLLPRI, epoll

from turnctl.processes.birth import NotStarted, start
from turnctl.processes.kernel import SIGKILL, failpoint
from turnctl.processes.kin import Member, is_dead, read_member
from turnctl.processes.sweep import Below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Bagged", "Leaf", "begin", "find_leaves", "tidy"]

PREFIX = "turnctl"


class Leaf:
    """A control group of a command, by its folder."""

    __slots__ = ("name", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.path.basename(path)

    def makers(self) -> list[tuple[int, int]]:
        """Pid and start time of the host and of the warden that it was made by; empty for another's group."""
        words = self.name.split("-")
        if len(words) != 6 or words[0] != PREFIX or not all(word.isdigit() for word in words[1:]):
            return []
        numbers = [int(word) for word in words[1:]]
        return [(numbers[0], numbers[1]), (numbers[2], numbers[3])]

    def is_orphaned(self) -> bool:
        """Whether nobody who made it is there any more."""
        return not any(_is_there(pid, start) for pid, start in self.makers())

    def pids(self) -> list[int]:
        """Who is in it or in a group below it, as known to this process."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            text = _read(f"{folder}/cgroup.procs")
            found += [int(word) for word in text.split() if word != b"0"]
        return found

    def write(self, name: str, text: bytes) -> None:
        fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)

    def remove(self) -> bool:
        """Remove it with the groups below it, if nobody is in any; whether it is gone."""
        for folder, _, _ in os.walk(self.path, topdown=False):
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno != ENOENT:
                    return False
        return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            parts = [file.read(65536) or b""]
            while parts[-1]:
                parts.append(file.read(65536) or b"")
            return b"".join(parts)
    except OSError:
        return b""


def _is_there(pid: int, start: int) -> bool:
    member = read_member(pid)
    return member is not None and member.start == start and not is_dead(member)


def find_leaves(folder: str) -> list[Leaf]:
    """The groups of commands in a folder, whoever made them."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [Leaf(f"{folder}/{name}") for name in names if name.startswith(f"{PREFIX}-")]
    return [leaf for leaf in found if leaf.makers()]


def tidy(folder: str) -> None:
    """Remove empty groups whose makers are gone, as one that was killed leaves them."""
    for leaf in find_leaves(folder):
        if leaf.is_orphaned():
            leaf.remove()


class Bagged(Below):
    """What lives below the warden, and in the leaf."""

    def __init__(self, pid: int, leaf: Leaf, events: int) -> None:
        super().__init__(pid)
        self.leader = pid
        self._leaf = leaf
        self._events = events
        self._has_killed = False
        # a file of the kernel's is always readable: what it tells of a change is of another kind
        self._changes = epoll()
        self._changes.register(events, EPOLLPRI | EPOLLET)

    @property
    def fd(self) -> int:
        return self._changes.fileno()

    def hear(self) -> bool:
        self._changes.poll(0)
        return True

    def close(self) -> None:
        self._changes.close()
        os.close(self._events)
        self._leaf.remove()

    def reap(self, ended: "Callable[[int, int], None] | None" = None) -> bool:
        return super().reap(ended) and not self._is_populated()

    def holds_only_dead(self) -> bool:
        return super().holds_only_dead() and not self._is_populated()

    def _is_populated(self) -> bool:
        try:
            return b"populated 1" in os.pread(self._events, 256, 0)  # read, so that the next change is told
        except OSError:
            return False  # it was removed, which only an empty one can be

    def members(self) -> list[Member]:
        found = super().members()
        known = {member.pid for member in found}
        strays = [read_member(pid) for pid in self._leaf.pids() if pid not in known]
        return found + [member for member in strays if member is not None and member.state not in "ZXx"]

    def ask(self, signum: int) -> None:
        super().ask(signum)
        try:
            self._leaf.write("cgroup.freeze", b"0")  # as CONT for the stopped: what is frozen cannot answer
        except OSError:
            pass  # it has no freezer, or is gone

    def sweep(self, wake: int) -> None:
        members, inside = self.members(), set(self._leaf.pids())
        try:
            self._leaf.write("cgroup.kill", b"1")
        except OSError:
            super().sweep(wake)
            return
        if not self._has_killed:
            self._has_killed = True
            self._note(SIGKILL, "cgroup", self.leader)
        for member in members:
            self.seen.add((member.pid, member.start))
            if member.pid in inside:
                self.struck.add((member.pid, member.start))
        self.killed.update(inside)
        if any(member.pid not in inside for member in super().members()):
            super().sweep(wake)  # who has left the leaf


def begin(request: "dict[str, Any]", fds: tuple[int, ...], lift: "Callable[[int], None]") -> Bagged:
    """Start the command of a request in a leaf of its own. Raises ``NotStarted``; then nothing is left."""
    folder, host = request["folder"], request["host"]
    tidy(folder)
    me = read_member(os.getpid())
    path = f"{folder}/{PREFIX}-{host[0]}-{host[1]}-{os.getpid()}-{0 if me is None else me.start}-{request['number']}"
    try:
        os.mkdir(path)
    except OSError as error:
        raise NotStarted(error.errno or EINVAL, "cgroup:mkdir") from None
    failpoint("warden-leaf")
    leaf = Leaf(path)
    entered = events = -1
    try:
        try:
            if not os.path.exists(f"{path}/cgroup.kill"):
                raise NotStarted(ENOENT, "cgroup:kill")
            entered = _open_above(f"{path}/cgroup.procs", os.O_WRONLY, request, fds)
            events = _open_above(f"{path}/cgroup.events", os.O_RDONLY, request, fds)
        except OSError as error:
            raise NotStarted(error.errno or EINVAL, "cgroup:open") from None
        pid = start(dict(request, entered=entered), fds, lift)
        return Bagged(pid, leaf, events)
    except BaseException:
        if events >= 0:
            os.close(events)
        leaf.remove()
        raise
    finally:
        if entered >= 0:
            os.close(entered)


def _open_above(path: str, flags: int, request: "dict[str, Any]", fds: tuple[int, ...]) -> int:
    """Open a file under a number that the command is not given anything by."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    above = max((2, *fds, *[target for target, _ in request["keep"]])) + 1
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        return int(fcntl(fd, F_DUPFD_CLOEXEC, above))
    finally:
        os.close(fd)
