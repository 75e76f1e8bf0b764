"""What this machine lets a warden do, tried by doing it, in an interpreter of its own that has one thread. Stand-alone.

Writes a line for each level: its name, and what was refused, if anything was: the step and its errno. A command is
started under each, which ends at once.
"""

import marshal
import os
from select import poll

from turnctl.processes.birth import NotStarted
from turnctl.processes.holds import begin
from turnctl.processes.kernel import adopt_orphans, hear_children
from turnctl.processes.shielding import landlock_abi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]


def main() -> None:
    """Try all, with the request of a command that comes by stdin; its ``folder`` is our control group, or empty."""
    request = marshal.loads(os.read(0, 65536))  # noqa: S302 - written by our own other half
    wake = hear_children()
    try:
        adopt_orphans()
    except (ImportError, OSError) as error:
        _tell("warden", str(error))
        return
    _tell("warden", "")
    for hold in ("namespace", "cgroup") if request["folder"] else ("namespace",):
        _tell(hold, _refused(dict(request, hold=hold), wake))
    _tell("landlock", str(landlock_abi()))


def _tell(name: str, what: str) -> None:
    os.write(1, f"{name} {what}\n".encode())


def _refused(request: "dict[str, Any]", wake: int) -> str:
    try:
        below = begin(request, (), lambda _above: None)
    except NotStarted as error:
        return f"{error.what} {error.errno}"
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
