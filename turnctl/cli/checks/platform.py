"""What this machine can contain, and how: each way is tried, not guessed."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from turnctl.cli.checks.check import Finding, Look
from turnctl.processes.kernel import open_pidfd
from turnctl.processes.levels import capabilities
from turnctl.processes.shielding import shield_refusal
from turnctl.processes.table import is_readable

if TYPE_CHECKING:
    from turnctl.processes.levels import Capability

__all__ = ["looks"]

#: which way of holding commands turnctl cannot promise much without
_NEEDED = "warden"
_MEANS = {
    "namespace": "commands can be held by a pid namespace, which the kernel ends at once",
    "cgroup": "commands can be held by a control group, which the kernel ends at once",
    "warden": "orphans come back to turnctl, whatever they do",
    "group": "process groups, and what descends from their members",
}


def looks() -> Iterator[tuple[str, Look]]:
    """What there is to look at."""
    yield "platform.system", _system
    yield "platform.processes", _processes
    yield "platform.pidfd", _pidfd
    found = capabilities()
    for one in found:
        yield f"platform.{one.name}", partial(_way, one)
    yield "platform.landlock", partial(_landlock, found.landlock_abi)


def _system() -> Finding:
    name = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    details = {"system": platform.system(), "release": platform.release(), "python": sys.version}
    if platform.system() == "Linux":
        return Finding("ok", name, details=details)
    return Finding("warn", f"{name}: elsewhere than on Linux stops are best-effort", "run it on Linux", details)


def _processes() -> Finding:
    if is_readable():
        return Finding("ok", "the processes of this machine can be seen")
    remedy = "mount /proc, without hidepid, where turnctl runs"
    return Finding("warn", "the processes of this machine cannot be seen: survivors cannot be named", remedy)


def _pidfd() -> Finding:
    fd = open_pidfd(os.getpid())
    if fd is None:
        text = "processes have no descriptors here: who is signalled is told by its number and start alone"
        return Finding("warn", text, "a kernel from 5.3 on, and a sandbox that allows pidfd_open")
    os.close(fd)
    return Finding("ok", "processes have descriptors: no signal can reach a stranger")


def _way(one: Capability) -> Finding:
    details = {"strength": one.strength, "reason": one.reason}
    if one.is_available:
        return Finding("ok", f"{_MEANS[one.name]} ({one.strength})", details=details)
    status = "fail" if one.name == _NEEDED else "warn"
    without = "stops are best-effort without it" if one.name == _NEEDED else f"not to be had: {one.reason}"
    summary = f"{one.reason}: {without}" if one.name == _NEEDED else without
    return Finding(status, summary, one.remedy, details)  # type: ignore[arg-type]


def _landlock(abi: int) -> Finding:
    refusal, details = shield_refusal(), {"abi": abi}
    if not refusal:
        return Finding("ok", "a command can be kept from signalling others (--shield)", details=details)
    return Finding("warn", f"--shield cannot be had: {refusal}", "a newer kernel, or a sandbox that allows it", details)
