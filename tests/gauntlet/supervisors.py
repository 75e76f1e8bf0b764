"""Who is put to the test: turnctl in its ways, and what else people use to end a command."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from launch import ROOT

#: seconds between asking and killing, where one can say so
GRACE_S = 0.5
_HOSTS = str(Path(__file__).parent / "hosts.py")
_SITES = [path for path in sys.path if path.endswith("site-packages")]


class Interpreter(NamedTuple):
    """A program that runs Python, with what must be added to its path so that it finds what is tested."""

    program: str = sys.executable
    path: tuple[str, ...] = (ROOT,)

    def argv(self, code: str, *args: str) -> list[str]:
        return [self.program, "-I", "-B", "-c", f"import sys; sys.path[:0] = {list(self.path)!r}\n{code}", *args]


def interpreter_for(uid: int) -> Interpreter | str:
    """One that an ordinary user may run and that finds what is tested, or why there is none."""
    why = ""
    for program, path in ((sys.executable, (ROOT,)), ("/usr/bin/python3", (ROOT, *_SITES))):
        found = Interpreter(program, path)
        code = f"import turnctl.cli.main, turnctl.processes.launch, psutil; open({_HOSTS!r}).close()"
        check = found.argv(code + "; assert sys.version_info >= (3, 11)")
        try:
            subprocess.run(check, user=uid, group=uid, extra_groups=[], capture_output=True, check=True, cwd="/")
        except (OSError, subprocess.CalledProcessError) as error:
            why = f"user {uid} can run none of the interpreters here with what is tested: {error}"
            continue
        return found
    return why


class Supervisor(NamedTuple):
    """How a command is run under it; ``has_limit``: it ends the command itself when a time has passed."""

    argv: Callable[[Interpreter, float, list[str]], list[str]]
    has_limit: bool = True
    program: str = ""
    module: str = ""

    def missing(self) -> str:
        """What this machine lacks for it; empty if nothing."""
        if self.program and shutil.which(self.program) is None:
            return f"{self.program} is not installed"
        if self.module and importlib.util.find_spec(self.module) is None:
            return f"{self.module} is not installed"
        return ""


def _turnctl(*options: str) -> Callable[[Interpreter, float, list[str]], list[str]]:
    def argv(python: Interpreter, limit: float, command: list[str]) -> list[str]:
        words = ["run", "--timeout", f"{limit:g}s", "--grace", f"{GRACE_S:g}s", *options, "--", *command]
        return python.argv("from turnctl.cli.main import main; main()", *words)

    return argv


def _host(name: str) -> Callable[[Interpreter, float, list[str]], list[str]]:
    def argv(python: Interpreter, limit: float, command: list[str]) -> list[str]:
        code = f"import runpy; runpy.run_path({_HOSTS!r}, run_name='__main__')"
        return python.argv(code, name, str(limit), str(GRACE_S), "--", *command)

    return argv


def _before(*words: str) -> Callable[[Interpreter, float, list[str]], list[str]]:
    def argv(python: Interpreter, limit: float, command: list[str]) -> list[str]:
        return [*[word.format(limit=limit, grace=GRACE_S, python=python.program) for word in words], *command]

    return argv


OURS = {
    "turnctl run": Supervisor(_turnctl()),
    "SDK": Supervisor(_host("sdk")),
    "run, namespace": Supervisor(_turnctl("--containment", "namespace")),
}
_PROCESSKIT = (
    *("{python}", "-m", "processkit", "run", "--timeout", "{limit:g}", "--timeout-grace", "{grace:g}"),
    *("--kill-on-parent-death", "--"),
)
_BWRAP = (
    *("bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-user", "--unshare-pid", "--die-with-parent"),
    "--",
)
RIVALS = {
    "timeout -k": Supervisor(_before("timeout", "-k", "{grace:g}", "{limit:g}"), program="timeout"),
    "tini -s -g": Supervisor(_before("tini", "-s", "-g", "--"), has_limit=False, program="tini"),
    "dumb-init": Supervisor(_before("dumb-init"), has_limit=False, program="dumb-init"),
    "setsid -w": Supervisor(_before("setsid", "-w"), has_limit=False, program="setsid"),
    "subprocess.run": Supervisor(_host("run")),
    "Popen, killpg": Supervisor(_host("group")),
    "psutil": Supervisor(_host("psutil"), module="psutil"),
    "processkit": Supervisor(_before(*_PROCESSKIT), module="processkit"),
    "bwrap": Supervisor(_before(*_BWRAP), has_limit=False, program="bwrap"),
}
ALL = OURS | RIVALS


def namespace_refusal(python: Interpreter, uid: int | None) -> str:
    """Why the machine gives no namespace to this user, or that one; empty if it does."""
    code = """
from turnctl.processes import capabilities
print(*[one.reason for one in capabilities() if one.name == "namespace" and not one.is_available])
"""
    user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
    done = subprocess.run(python.argv(code), capture_output=True, text=True, check=True, cwd="/", **user)
    return done.stdout.strip()
