"""What a command has of this program: what it was given and what it inherits, with a warden or without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import FakeTurn, python
from warding import by_host, everybodys_python

from turnctl.errors import BadArgument
from turnctl.processes.command import popen, run
from turnctl.processes.hygiene import compose_env

ENV = ["/usr/bin/env"]


@pytest.fixture(params=["warden", "group"], autouse=True)
def custody(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")
    return str(request.param)


def _lines(text: object) -> list[str]:
    return sorted(str(text).splitlines())


# -- environment -------------------------------------------------------------------------------------------------------


def test_secrets_can_be_withheld(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and patterns take variables out of what the command sees; this program keeps them."""
    for name in ("OPENAI_API_KEY", "GH_TOKEN", "NPM_TOKEN", "TOKENS", "gh_token"):
        monkeypatch.setenv(name, "secret")
    shown = run(owner, ENV, env_unset=["OPENAI_API_KEY", "*_TOKEN"], text=True).stdout

    assert {"TOKENS", "gh_token"} == {line.split("=")[0] for line in _lines(shown) if line.endswith("=secret")}
    assert any(line.startswith("PATH=") for line in _lines(shown))
    assert "secret" == os.environ["GH_TOKEN"]


def test_environment_is_added_to(owner: FakeTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    """env_extra comes last: it replaces, and is not taken out by a pattern."""
    monkeypatch.setenv("A_TOKEN", "old")
    shown = run(owner, ENV, env_extra={"A_TOKEN": "new", "B": "1"}, env_unset=["*"], text=True).stdout

    assert ["A_TOKEN=new", "B=1"] == _lines(shown)


def test_given_environment_is_changed_likewise(owner: FakeTurn) -> None:
    """The same on top of env=, text and bytes mixed; the mapping that was given stays as it was."""
    env: dict[Any, Any] = {"A": "1", b"B": b"2", "C": "3"}
    shown = run(owner, ENV, env=env, env_unset=["A"], env_extra={b"C": "4", "B": "5"}, text=True).stdout

    assert ["B=5", "C=4"] == _lines(shown)
    assert {"A": "1", b"B": b"2", "C": "3"} == env


def test_program_is_found_by_the_commands_path(owner: FakeTurn, tmp_path: Path) -> None:
    """A PATH that is given so is the one that the program is looked for in."""
    path = tmp_path / "only-here"
    path.write_text("#!/bin/sh\necho found\n")
    path.chmod(0o755)

    assert b"found\n" == run(owner, ["only-here"], env_extra={"PATH": str(tmp_path)}).stdout


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"env_unset": "GH_TOKEN"}, TypeError, r"env_unset is 'GH_TOKEN'; give a list of names or patterns"),
        ({"env_unset": [1]}, TypeError, "env_unset has 1, of type int"),
        ({"env_unset": ["A=1"]}, BadArgument, "env_unset has 'A=1', which no name can be"),
        ({"env_unset": [""]}, BadArgument, "env_unset has ''"),
        ({"env_extra": [("A", "1")]}, TypeError, "env_extra is of type list"),
        ({"env_extra": {"A": 1}}, TypeError, "the value of 'A' in env is 1, of type int"),
        ({"env_extra": {"A=": "1"}}, BadArgument, "env has the name 'A='"),
        ({"env_extra": {"A": "a\0b"}}, BadArgument, "NUL character"),
        ({"env": [], "env_unset": ["A"]}, TypeError, "env is of type list"),
        ({"umask": "077"}, TypeError, "umask is '077', of type str"),
        ({"umask": True}, TypeError, "umask is True"),
        ({"umask": 0o1777}, BadArgument, "umask=1023 is out of range"),
        ({"umask": -1}, BadArgument, "umask=-1 is out of range"),
        ({"nice": 20}, BadArgument, "nice=20 is out of range"),
        ({"nice": "5"}, TypeError, "nice is '5'"),
        ({"pass_fds": 5}, TypeError, "pass_fds is 5; give a list"),
        ({"pass_fds": [987]}, BadArgument, r"pass_fds\[0\]=987 is no open descriptor"),
        ({"pass_fds": ["x"]}, TypeError, r"pass_fds\[0\] is 'x'"),
        ({"pass_fds": [1]}, BadArgument, "pass_fds has 1, a standard stream"),
        ({"rlimits": {}}, TypeError, "here it is limits="),
    ],
)
@pytest.mark.parametrize("start", [run, popen])
def test_wrong_option_starts_nothing(owner: FakeTurn, start: Any, options: Any, kind: Any, message: str) -> None:
    """What cannot be meant is told by its name, with what would be right."""
    with pytest.raises(kind, match=message):
        start(owner, ["true"], **options)

    assert [] == owner.activities


def test_unchanged_environment_stays_itself() -> None:
    """Where nothing is asked for, nothing is copied."""
    given = {"A": "1"}

    assert given is compose_env(given, None, [])
    assert compose_env(None, None, None) is None


# -- descriptors -------------------------------------------------------------------------------------------------------


def test_passed_descriptors_keep_their_numbers(owner: FakeTurn) -> None:
    """The command finds what was passed under the same numbers, and nothing else beyond its three streams."""
    read, write = os.pipe()
    high = os.dup2(read, 90)
    others = [os.dup2(read, number, inheritable=True) for number in range(100, 160)]
    try:
        os.write(write, b"word")
        code = f"import os; print([n for n in range(300) if _is(n)], os.read({high}, 9))"
        code = (
            "import os\ndef _is(n):\n    try: os.fstat(n)\n    except OSError: return False\n    return True\n" + code
        )
        with open(os.devnull) as file:
            number = file.fileno()
            done = run(owner, python(code), pass_fds=[high, file], text=True)
    finally:
        for fd in (read, write, high, *others):
            os.close(fd)

    assert f"{sorted({0, 1, 2, number, high})} b'word'\n" == done.stdout, done.stderr


def test_all_or_some_are_handed_on(owner: FakeTurn) -> None:
    """close_fds=False and pass_fds contradict each other, which is said."""
    read, write = os.pipe()
    try:
        with pytest.raises(BadArgument, match="close_fds=False hands on all that is inheritable"):
            run(owner, ["true"], pass_fds=[read], close_fds=False)
    finally:
        os.close(read)
        os.close(write)


# -- mask, signals -------------------------------------------------------------------------------------------


def test_mask_of_files_is_the_commands(owner: FakeTurn, tmp_path: Path) -> None:
    """A file that it makes has the permissions that its mask leaves; this program's mask is as before."""
    before = os.umask(0o022)
    try:
        run(owner, ["touch", tmp_path / "private"], umask=0o077)
        run(owner, ["touch", tmp_path / "usual"])
        run(owner, ["touch", tmp_path / "open"], umask=0)
    finally:
        now = os.umask(before)

    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("private", "usual", "open")]
    assert [0o600, 0o644, 0o666] == modes
    assert 0o022 == now


def _signals(status: Any) -> dict[bytes, int]:
    pairs = [line.split(b":") for line in status.splitlines()]
    return {name: int(value, 16) for name, value in pairs if name in (b"SigBlk", b"SigIgn", b"SigCgt", b"ShdPnd")}


def _captured(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, capture_output=True)


def test_signals_are_as_subprocess_leaves_them(owner: FakeTurn) -> None:
    """Ignored and blocked signals are this thread's, PIPE and XFSZ at their default, and nothing is caught."""
    argv = ["cat", "/proc/self/status"]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        ours, theirs = (_signals(how(argv).stdout) for how in (lambda argv: run(owner, argv), _captured))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
        for number, handler in before.items():
            signal.signal(number, handler)

    assert theirs == ours
    assert (1 << signal.SIGUSR1 - 1) == ours[b"SigBlk"]
    assert {signal.SIGINT, signal.SIGHUP} == {n for n in range(1, 32) if ours[b"SigIgn"] >> n - 1 & 1}
    assert 0 == ours[b"SigCgt"]


# -- errors of the start -----------------------------------------------------------------------------------------------


def _error(start: Any, argv: list[Any], **options: Any) -> tuple[object, ...]:
    with pytest.raises((OSError, ValueError)) as caught:
        start(argv, **options)
    error = caught.value
    if isinstance(error, OSError):
        name = error.filename
        return type(error), error.errno, name if name is None else os.fspath(name), error.strerror
    return (ValueError,)


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["no-such-program"], {}),
        (["/no/such/program"], {}),
        (["./no-such-program"], {"cwd": "/usr"}),
        (["/etc/passwd"], {}),
        (["/etc"], {}),
        (["/etc/passwd/x"], {}),
        (["x" * 5000], {}),
        ([b"/no/\xff"], {}),
        ([Path("/no/such/path")], {}),
        (["true"], {"cwd": "/no/such/folder"}),
        (["true"], {"cwd": "/etc/passwd"}),
        (["true"], {"cwd": Path("/no/such/folder")}),
        (["no-such-program"], {"cwd": "/no/such/folder"}),
        (["no-such-program"], {"env": {"PATH": "/no:/where"}}),
        (["true", *["x" * 100_000] * 100], {}),
        (["true"], {"env": {f"V{n}": "x" * 100_000 for n in range(100)}}),
        (["true", "a\0b"], {}),
        (["a\0b"], {}),
        (["true"], {"cwd": "/us\0r"}),
        (["true"], {"env": {"A": "\0"}}),
        (["true"], {"env": {"A=B": "1"}}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_errors_are_those_of_subprocess(owner: FakeTurn, argv: list[Any], options: Any) -> None:
    """Type, errno, file name and words of what cannot be started are the standard library's."""
    expected = _error(subprocess.Popen, argv, **options)
    found = _error(lambda argv, **more: run(owner, argv, **more), argv, **options)

    assert expected == found


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user, which only root can become")
def test_forbidden_folders_and_programs(tmp_path: Path) -> None:
    """For an ordinary user too: a folder that may not be entered, a program in it, a file that may not be run."""
    closed, plain = tmp_path / "closed", tmp_path / "plain"
    closed.mkdir(mode=0o700)
    plain.write_text("#!/bin/sh\n")
    for path in (tmp_path, *list(tmp_path.parents)[:3]):
        os.chmod(path, path.stat().st_mode | 0o055)
    code = """
import subprocess
from turnctl import run as ours
os.setgroups([65534]); os.setgid(65534); os.setuid(65534)
def error(start, argv, **options):
    try:
        start(argv, **options)
    except OSError as found:
        return type(found).__name__, found.errno, str(found.filename)
closed, plain = sys.argv[1:]
for argv, options in ((["true"], {"cwd": closed}), ([closed + "/x"], {}), ([plain], {})):
    say(error(ours, argv, **options) == error(subprocess.run, argv, **options), error(ours, argv, **options)[0])
"""
    with by_host(code, str(closed), str(plain), interpreter=everybodys_python()) as host:
        assert ["True PermissionError"] * 3 == host.finished().splitlines()


# -- what is inherited -------------------------------------------------------------------------------------------------


def test_nothing_of_the_warden_leaks(owner: FakeTurn) -> None:
    """What a process has besides is as under ``subprocess``: memory killer, timers, death signal, dumps, subreaper."""
    code = """
import ctypes, os
libc, number = ctypes.CDLL(None), ctypes.c_int(-1)
def asked(option):
    number.value = -1
    libc.prctl(option, ctypes.byref(number), 0, 0, 0)
    return number.value
print("death signal", asked(2), "subreaper", asked(37))
for option in (3, 7, 27, 30, 39, 42): print(option, libc.prctl(option, 0, 0, 0, 0))
print(os.nice(0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0)), os.getgroups(), os.getresuid())
for name in ("oom_score_adj", "coredump_filter", "personality", "limits", "cgroup", "loginuid", "uid_map"):
    try: print(name, open("/proc/self/" + name).read())
    except OSError as error: print(name, error.errno)
for name in sorted(os.listdir("/proc/self/ns")): print(name, os.readlink("/proc/self/ns/" + name))
print(*[line for line in open("/proc/self/status") if line.startswith(
    ("Umask", "Uid", "Gid", "Groups", "Cap", "NoNew", "Seccomp", "Spec", "Cpus", "Mems", "Sig", "THP"))
    and not line.startswith("SigQ")])
"""
    argv = [sys.executable, "-I", "-c", code]
    ours = run(owner, argv, text=True)
    theirs = subprocess.run(argv, capture_output=True, text=True)

    assert theirs.stdout.splitlines() == str(ours.stdout).splitlines(), ours.stderr
    assert ours.stdout is not None
    assert str(ours.stdout).startswith("death signal 0 subreaper 0\n")


def test_credentials_are_those_of_the_moment() -> None:
    """All that a program changes in itself between two commands holds for the second: C1 of the launcher."""
    code = '''
import ctypes, resource, signal, subprocess
from turnctl import run as ours
show = [sys.executable, "-I", "-S", "-c", """
import os, resource
print(os.getcwd(), os.environ.get("MARK"), os.nice(0), [resource.getrlimit(n) for n in range(16)])
for name in sorted(os.listdir("/proc/self/ns")): print(name, os.readlink("/proc/self/ns/" + name))
kept = "Umask", "Uid", "Gid", "Groups", "Sig", "NoNew", "Cpus_allowed_list", "Cap", "Seccomp"
for line in open("/proc/self/status"):
    if line.startswith(kept) and not line.startswith("SigQ"): print(line)
"""]
ours(show)
def handed_over():
    os.chdir("/usr"); os.umask(0o027); os.nice(2); os.environ["MARK"] = "now"
    resource.setrlimit(resource.RLIMIT_NOFILE, (99, 100))
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
libc = ctypes.CDLL(None)
changes = [handed_over, lambda: libc.prctl(38, 1, 0, 0, 0)]
if os.getuid() == 0:
    changes += [
        lambda: libc.unshare(0x04000000),
        lambda: os.setgroups([65534]),
        lambda: (os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)),
    ]
before = None
for change in changes:
    change()
    mine, theirs = ours(show).stdout, subprocess.run(show, capture_output=True).stdout
    say(mine == theirs, mine != before)
    before = mine
'''
    with by_host(code, interpreter=everybodys_python()) as host:
        lines = host.finished().splitlines()

    assert ["True True"] * (2 if os.getuid() else 5) == lines
