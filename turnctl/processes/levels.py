"""Which levels of containment this machine offers to this process now, each with the reason.

A level is tried, not guessed, where trying leaves nothing behind. Takes some tens of milliseconds: one interpreter is
started. What it says holds for the moment: a change of user or of limits may change it.
"""

from __future__ import annotations

import os
import sys
from typing import Literal, NamedTuple

from turnctl.processes.upkeep import refusal

__all__ = ["Capability", "capabilities"]

Name = Literal["namespace", "cgroup", "warden", "group"]

# run by an interpreter of its own, which has one thread: may it adopt orphans, and may it be alone with its children?
_TRIAL = """
import os, sys
try:
    import _ctypes
    libc = _ctypes.dlopen(None, 0)
    call = lambda name, *args: _ctypes.call_cdeclfunction(_ctypes.dlsym(libc, name), args)
    print("warden:" if call("prctl", 36, 1, 0, 0, 0) == 0 else "warden:the kernel refuses child subreapers", flush=True)
except Exception as error:
    print(f"warden:foreign functions cannot be called ({error})")
    sys.exit()
if call("unshare", 0x10000000 | 0x20000000) != 0:
    print("namespace:a user and process namespace may not be made here")
    sys.exit()
try:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if os.getpid() == 1 else 1)
    print("namespace:" if os.waitpid(pid, 0)[1] == 0 else "namespace:its first process was not the first")
except OSError as error:
    print(f"namespace:no process could be started in it ({error.strerror})")
"""


class Capability(NamedTuple):
    """A level, whether it is to be had, and why not or by what."""

    name: Name
    is_available: bool
    reason: str


def capabilities() -> tuple[Capability, ...]:
    """The levels, strongest first. Blocks for tens of milliseconds; starts and reaps one child."""
    refused = refusal()
    said = {} if refused else _try()
    return (
        _level("namespace", refused or said.get("namespace", "it could not be tried"), "tried"),
        _level("cgroup", _why_no_cgroup(), "tried in this process's own control group"),
        _level("warden", refused or said.get("warden", "it could not be tried"), "a child subreaper, tried"),
        Capability("group", True, "process groups, and what descends from their members"),
    )


def _level(name: Name, why_not: str, why: str) -> Capability:
    return Capability(name, not why_not, why_not or why)


def _try() -> dict[str, str]:
    import subprocess

    argv = [sys.executable, "-I", "-S", "-c", _TRIAL]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=20, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return {name: why for name, _, why in (line.partition(":") for line in lines)}


def _why_no_cgroup() -> str:
    """Why commands cannot have control groups of their own; empty if they can."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no control groups"
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            own = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1] for line in file if line.split()[2:3] == ["cgroup2"]]
    except OSError as error:
        return f"the control groups cannot be read ({error.strerror})"
    if own is None or not mounts:
        return "no version 2 hierarchy is mounted"
    folder = mounts[0] + own.rstrip("/")
    trial = f"{folder}/turnctl-trial-{os.getpid()}"
    try:
        os.mkdir(trial)
    except OSError as error:
        return f"{folder} is not delegated to this user ({error.strerror})"
    try:
        return "" if os.path.exists(f"{trial}/cgroup.kill") else "the kernel is older than cgroup.kill"
    finally:
        os.rmdir(trial)
