"""What this machine lets a warden do, tried by doing it, in an interpreter of its own that has one thread. Stand-alone.

Writes a line for each level: its name, and what was refused, if anything was: the step and its errno. A command is
started under each, which ends at once.
"""

import os
from select import poll

from turnctl.processes.birth import NotStarted
from turnctl.processes.holds import begin
from turnctl.processes.kernel import adopt_orphans, hear_children
from turnctl.processes.shielding import landlock_abi

__all__ = ["main"]


def main(interpreter: str, folder: str) -> None:
    """Try all. ``folder`` is the control group that this program is in, or empty."""
    wake = hear_children()
    try:
        adopt_orphans()
    except (ImportError, OSError) as error:
        _tell("warden", str(error))
        return
    _tell("warden", "")
    for hold in ("namespace", "cgroup") if folder else ("namespace",):
        _tell(hold, _refused(hold, interpreter, folder, wake))
    _tell("landlock", str(landlock_abi()))


def _tell(name: str, what: str) -> None:
    os.write(1, f"{name} {what}\n".encode())


def _refused(hold: str, interpreter: str, folder: str, wake: int) -> str:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    program = os.fsencode(interpreter)
    request = {
        "argv": [program, b"-I", b"-S", b"-c", b"pass"],
        "programs": (program,),
        "env": [],
        "std": (0, 0, 0),
        "keep": (),
        "cwd": None,
        "cwd_fd": -1,
        "session": True,
        "foreground": -1,
        "announce": None,
        "watch_stops": False,
        "restore": True,
        "umask": -1,
        "limits": (),
        "hold": hold,
        "folder": folder,
        "host": (os.getpid(), 0),
        "number": 0,
        **dict.fromkeys(("closed", "ignored", "mask"), ()),
        **dict.fromkeys(("nice", "processors", "uid", "gid", "groups")),
    }
    try:
        below = begin(request, (null,), lambda _above: None)
    except NotStarted as error:
        return f"{error.what} {error.errno}"
    finally:
        os.close(null)
    moved = poll()
    moved.register(wake, 1)
    while not below.reap():
        moved.poll(1000)
        try:
            os.read(wake, 65536)
        except BlockingIOError:
            pass
    below.close()
    return "" if below.details.get("proc", True) else "- no-proc"
