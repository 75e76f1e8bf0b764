"""Why this machine refuses a way of holding commands, and what could be done about it, in words.

What is refused is found out by trying. Settings are read here to explain a refusal, never to foresee one.
"""

from __future__ import annotations

import os
from errno import EINVAL, ENOENT, ENOMEM, ENOSPC, ENOSYS, EPERM

__all__ = ["explain"]

_USERS = "namespaces of users"


def explain(step: str, errno: int) -> tuple[str, str]:
    """Why, and the remedy, for a step that was refused with this errno. The remedy is empty where none is known."""
    kind, _, what = step.partition(":")
    text = os.strerror(errno) if errno else "no reason was given"
    if kind == "namespace":
        return _namespace(what, errno, text)
    return _cgroup(what, errno, text)


def _namespace(what: str, errno: int, text: str) -> tuple[str, str]:
    if what == "proc":
        return ("on a terminal a namespace needs /proc, which is not there", "mount /proc, or use containment='warden'")
    if what == "gone":
        return ("its first process was ended by somebody at the moment of the start", "try again")
    if what == "unshare" and errno == ENOSPC:
        return (
            "no more namespaces may be made (user.max_user_namespaces or max_pid_namespaces is reached, or 0)",
            "as root: sysctl -w user.max_user_namespaces=10000",
        )
    if errno in (EINVAL, ENOSYS) and what in ("unshare", "fork"):
        return (f"this kernel was built without {_USERS} or of processes ({text})", "")
    if errno == EPERM:
        return _not_permitted(what)
    if errno == ENOMEM and what == "fork":
        return ("no process could be started in a new namespace; this user's limit of processes may be reached", "")
    return (f"a namespace could not be made: {what} was refused ({text})", "")


def _not_permitted(what: str) -> tuple[str, str]:
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return (f"{_USERS} are for root alone here", "as root: sysctl -w kernel.unprivileged_userns_clone=1")
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            f"AppArmor restricts {_USERS} of ordinary programs",
            "an AppArmor profile with userns, or as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        )
    if _seccomp():
        return (
            "a seccomp filter, as containers have one, forbids namespaces to this program",
            "start the container with a profile that allows unshare, or with --privileged",
        )
    if _is_in_chroot():
        return (f"this program runs in a changed root directory, where {_USERS} may not be made", "use pivot_root")
    return (f"this program may not make namespaces here ({what} was refused)", "")


def _cgroup(what: str, errno: int, text: str) -> tuple[str, str]:
    if what == "none":
        return ("no version 2 hierarchy of control groups is mounted", "mount -t cgroup2 none /sys/fs/cgroup, as root")
    if what == "kill" or (what == "open" and errno == ENOENT):
        return ("the kernel is older than cgroup.kill (5.14)", "")
    return (
        f"the control group of this program is not delegated to its user ({what}: {text})",
        "start it by systemd-run --user --scope -p Delegate=yes, or in a group that was given to this user",
    )


def _setting(name: str) -> str:
    try:
        with open(f"/proc/sys/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _seccomp() -> bool:
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
            return any(line.startswith("Seccomp:") and line.split()[1] == "2" for line in file)
    except OSError:
        return False


def _is_in_chroot() -> bool:
    """Whether the root is not that of a mount, which is what the kernel looks at."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return not any(line.split()[4] == "/" for line in file)
    except OSError:
        return False
