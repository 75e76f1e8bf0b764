"""Which ways of holding commands this machine offers to this process now, each with the reason and the remedy.

Each is tried, not guessed: an interpreter is started that starts a command under each, which takes some tens of
milliseconds the first time. What was found is kept for as long as this process has the same user, capabilities,
namespaces and control group; a setting that an administrator changes meanwhile is not seen.
"""

from __future__ import annotations

import marshal
import os
import sys
from typing import NamedTuple

from turnctl.processes.delegated import own_folder
from turnctl.processes.moment import take
from turnctl.processes.remedies import explain
from turnctl.processes.request import Request, compose
from turnctl.processes.upkeep import refusal
from turnctl.records.process import STRENGTHS, Containment, Holder

__all__ = ["Capabilities", "Capability", "capabilities"]

# load only our own files, without the package
_BOOT = """\
import sys
for n, p in (("turnctl", sys.argv[1]), ("turnctl.processes", sys.argv[1] + "/processes")):
    m = sys.modules[n] = type(sys)(n)
    m.__path__ = [p]
from turnctl.processes.trial import main
main()
"""
_TOO_LONG_S = 20

_known: dict[object, dict[str, str]] = {}


class Capability(NamedTuple):
    """A way of holding commands, how strong it is, whether it is to be had, why not or by what, and the remedy."""

    name: Holder
    strength: Containment
    is_available: bool
    reason: str
    remedy: str = ""


class Capabilities(tuple[Capability, ...]):  # noqa: SLOT001 - a tuple can have no slots of its own
    """The ways, strongest first, and ``landlock_abi``: the kernel's version of Landlock, 0 without it."""

    landlock_abi: int = 0


def capabilities() -> Capabilities:
    """What there is. Blocks for tens of milliseconds the first time; starts and reaps one child. Thread-safe."""
    refused = refusal()
    said = {} if refused else _try()
    found = Capabilities(_read(name, refused, said) for name in STRENGTHS)
    found.landlock_abi = int(said.get("landlock", "0") or 0)
    return found


_REASONS: dict[Holder, str] = {
    "namespace": "tried: a pid namespace with a first process of our own",
    "cgroup": "tried: a control group below that of this program",
    "warden": "tried: a child subreaper",
    "group": "process groups, and what descends from their members",
}


def _read(name: Holder, refused: str | None, said: dict[str, str]) -> Capability:
    strength = STRENGTHS[name]
    if name == "group":
        return Capability(name, strength, True, _REASONS[name])
    if refused is not None:
        return Capability(name, strength, False, refused, _REMEDY)
    answer = said.get(name, "it could not be tried")
    if name == "warden" or ":" not in answer:
        is_good = answer in ("", "- no-proc")
        reason = _REASONS[name] if is_good else answer
        if answer == "- no-proc":
            reason += "; its /proc is that of outside, since another may not be mounted"
        return Capability(name, strength, is_good, reason)
    step, _, errno = answer.partition(" ")
    return Capability(name, strength, False, *explain(step, int(errno)))


_REMEDY = "run it on Linux with an ordinary interpreter, python3"


def _try() -> dict[str, str]:
    folder = own_folder()
    try:
        moment = take()
    except OSError:
        return {}
    key = (moment.key, folder)
    if key in _known:
        return _known[key]
    import subprocess

    itself = sys.executable
    program = Request([itself, "-I", "-S", "-c", "pass"], env={}, cwd="/", hold="cgroup", folder=folder)
    request = marshal.dumps(compose(program, moment, moment)[0] | {"number": 0})
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    argv = [itself, *flags, "-c", _BOOT, package]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TOO_LONG_S, check=False, input=request)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = {name: why for name, _, why in (line.partition(" ") for line in lines)}
    if not folder:
        said["cgroup"] = "cgroup:none 0"
    if done.returncode == 0:
        _known[key] = said
    return said
