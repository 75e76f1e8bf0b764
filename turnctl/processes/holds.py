"""Starting the command of a request in the way that it is to be held. Stand-alone, for a warden."""

from turnctl.processes.birth import start
from turnctl.processes.marks import put
from turnctl.processes.sweep import Below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["begin"]


def begin(request: "dict[str, Any]", fds: tuple[int, ...], lift: "Callable[[int], None]") -> Below:
    """Start it; what lives of it. Raises ``NotStarted``; then nothing is left. See ``birth.start``."""
    if request.get("marked"):
        put(request["env"])
    kind = request["hold"]
    if kind == "namespace":
        from turnctl.processes import nested  # most commands need none

        return nested.begin(request, fds)
    if kind == "cgroup":
        from turnctl.processes import cgroups

        return cgroups.begin(request, fds, lift)
    pid = start(request, fds, lift)
    below = Below(pid)
    below.leader = pid
    below.session = pid if request["session"] else 0
    return below
