"""Limits are checked before anything is started, hold for the command alone, and are told where they ended it."""

from __future__ import annotations

import math
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import FakeTurn, python

from turnctl.errors import BadArgument, BadDuration, ContainmentUnavailable
from turnctl.processes.command import popen, run
from turnctl.processes.limits import Limits, read_limits

pytestmark = pytest.mark.usefixtures("wardens")

CPU, FILE, CORE = resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({"cpu": 2}, ((CPU, 2, 3),)),
        ({"cpu": "1m"}, ((CPU, 60, 61),)),
        ({"cpu": 0.2}, ((CPU, 1, 2),)),
        ({"file_size": "1MiB"}, ((FILE, 2**20, 2**20),)),
        ({"file_size": 10}, ((FILE, 10, 10),)),
        ({"nofile": "64"}, ((resource.RLIMIT_NOFILE, 64, 64),)),
        ({"processes": 0}, ((resource.RLIMIT_NPROC, 0, 0),)),
        ({"memory": "1GiB"}, ((resource.RLIMIT_AS, 2**30, 2**30),)),
        ({}, ()),
        (None, ()),
    ],
)
def test_limits_are_read(given: Any, rows: object) -> None:
    """Times round up to whole seconds and get one more before the kernel kills; the rest is soft and hard alike."""
    assert rows == read_limits(given).rows


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nofil": 1}, "unknown limit 'nofil'; did you mean nofile?"),
        ({"RLIMIT_NPROC": 1}, "did you mean processes?"),
        ({"zzz": 1}, "there are: core, cpu, data"),
        ({3: 1}, "unknown limit 3"),
        ({"nofile": -1}, "limit nofile is -1; give a whole number"),
        ({"nofile": "many"}, "limit nofile is 'many'"),
        ({"nofile": True}, "limit nofile is True"),
        ({"nofile": 1.5}, "limit nofile is 1.5"),
        ({"nofile": 2**70}, "limit nofile is"),
        ({"memory": "5 parsec"}, "limit memory '5 parsec' is no size; write it like"),
        ({"memory": -5}, "limit memory -5 must not be negative"),
    ],
)
@pytest.mark.parametrize("start", [run, popen])
def test_wrong_limit_is_named(owner: FakeTurn, start: Any, given: Any, message: str) -> None:
    """By name, with what would be right, and nothing is started."""
    with pytest.raises(BadArgument) as caught:
        start(owner, ["true"], limits=given)

    assert message in str(caught.value)
    assert [] == owner.activities


def test_time_is_a_duration() -> None:
    """A time that cannot be used is refused as every duration is."""
    for wrong in (0, -1, "5", "soon", math.nan):
        with pytest.raises(BadDuration, match="limit cpu"):
            read_limits({"cpu": wrong})


def test_command_line_needs_units() -> None:
    """With units required a bare number of seconds or bytes is refused, a count is not."""
    with pytest.raises(BadDuration, match="it has no unit; write it like 5s"):
        read_limits({"cpu": "5"}, unit_required=True)
    with pytest.raises(BadArgument, match="limit memory '5' has no unit; write 5B or 5MiB"):
        read_limits({"memory": "5"}, unit_required=True)

    assert 5 == read_limits({"nofile": "5"}, unit_required=True).rows[0][1]


def test_types_are_told() -> None:
    """What is no mapping, and no truth value, is a ``TypeError``."""
    with pytest.raises(TypeError, match="limits is of type list; give names and amounts"):
        read_limits(["cpu"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="limit memory is 1.5, of type float"):
        read_limits({"memory": 1.5})
    with pytest.raises(TypeError, match="core_dumps is 0"):
        read_limits(None, core_dumps=0)  # type: ignore[arg-type]
    with pytest.raises(BadArgument, match="limits has core, and core_dumps=False"):
        read_limits({"core": 0}, core_dumps=False)


def test_hard_limit_is_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than this program's hard limit is refused for every user, with the limit named."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 200))

    assert 200 == read_limits({"nofile": 200}).rows[0][1]
    assert (200, 200) == read_limits({"cpu": 200}).rows[0][1:]
    with pytest.raises(BadArgument, match="limit nofile=201 is above the hard limit of this program, 200"):
        read_limits({"nofile": 201})
    with pytest.raises(BadArgument, match="limit memory=none is above the hard limit of this program, 200 bytes"):
        read_limits({"memory": None})


# -- in the command ----------------------------------------------------------------------------------------------------

_SHOW = "import resource as r; print(*[r.getrlimit(n) for n in ({})])"


def test_limits_hold_in_the_command_alone(owner: FakeTurn) -> None:
    """The command has them, this program and the next command of the same warden do not."""
    names = ("CPU", "AS", "NOFILE", "FSIZE", "STACK", "NPROC", "DATA", "MEMLOCK")
    numbers = [getattr(resource, f"RLIMIT_{name}") for name in names]
    ours = [resource.getrlimit(number) for number in numbers]
    argv = python(_SHOW.format(", ".join(map(str, numbers))))
    given = {"cpu": 7, "memory": "1GiB", "nofile": 50, "file_size": 99, "stack": "4MiB", "processes": 999}
    shown = run(owner, argv, limits={**given, "data": "1GiB", "locked_memory": 0}, text=True)
    after = run(owner, argv, text=True)

    pairs = [(7, 8), *((n, n) for n in (2**30, 50, 99, 2**22, 999, 2**30, 0))]
    assert " ".join(map(str, pairs)) + "\n" == shown.stdout, shown.stderr
    assert " ".join(map(str, ours)) + "\n" == after.stdout
    assert ours == [resource.getrlimit(number) for number in numbers]


def test_time_of_the_processor_is_limited(owner: FakeTurn) -> None:
    """A command that computes on is ended by XCPU, and the outcome says by which limit."""
    outcome = run(owner, ["sh", "-c", "while :; do :; done"], limits={"cpu": 1}).outcome

    assert -signal.SIGXCPU == outcome.returncode
    assert ("XCPU is what the kernel sends at the limit that it had: cpu=1s",) == outcome.notes
    assert outcome.empty_proven


def test_size_of_a_file_is_limited(owner: FakeTurn, tmp_path: Path) -> None:
    """A command that writes more is ended by XFSZ, told with its limit."""
    code = f"import os; fd = os.open({str(tmp_path / 'f')!r}, os.O_WRONLY | os.O_CREAT)\n"
    code = "import _signal; _signal.signal(25, _signal.SIG_DFL)\n" + code + "while True: os.write(fd, bytes(4096))"
    outcome = run(owner, python(code), limits={"file_size": "16KiB"}, core_dumps=False).outcome

    assert -signal.SIGXFSZ == outcome.returncode
    assert ("XFSZ is what the kernel sends at the limit that it had: file_size=16 KiB",) == outcome.notes
    assert 16384 == (tmp_path / "f").stat().st_size


def test_descriptors_and_memory_are_limited(owner: FakeTurn) -> None:
    """What is beyond them is refused to the command by the kernel."""
    code = """
import os
try:
    while True: os.dup(0)
except OSError as error: print(error.errno)
try: bytearray(2**31)
except MemoryError: print("no memory")
"""
    done = run(owner, python(code), limits={"nofile": 20, "memory": "1GiB"}, text=True)

    assert "24\nno memory\n" == done.stdout


def test_ended_by_a_limit_that_is_not_ours() -> None:
    """A death by such a signal is told as what it is, without a limit that nobody gave."""
    limits = Limits()

    assert "XCPU is what the kernel sends at a limit (cpu); turnctl set none" == limits.told_by(-signal.SIGXCPU)
    assert "" == limits.told_by(-signal.SIGKILL) == limits.told_by(0) == limits.told_by(None)


@pytest.mark.skipif(not os.path.exists("/proc/sys/kernel/core_pattern"), reason="cannot tell where cores go")
def test_no_core_is_written(owner: FakeTurn, tmp_path: Path) -> None:
    """core_dumps=False leaves no core, also of a child, and its limit spares a program that cores are piped to."""
    done = run(owner, ["sh", "-c", "sh -c 'kill -ABRT $$'; ulimit -c; kill -ABRT $$"], cwd=tmp_path, core_dumps=False)
    shown = run(owner, python(_SHOW.format(f"{CORE},")), core_dumps=False, text=True)

    most = min(1, resource.getrlimit(CORE)[1]) if resource.getrlimit(CORE)[1] != resource.RLIM_INFINITY else 1
    assert -signal.SIGABRT == done.returncode
    assert [] == list(tmp_path.iterdir())
    assert f"{(most, most)}\n" == shown.stdout


def test_priority_is_added(owner: FakeTurn) -> None:
    """nice= counts from this program's own priority, which stays, and ends at the lowest there is."""
    show = python("import os; print(os.nice(0))")
    shown = [run(owner, show, nice=n, text=True).stdout for n in (3, 19)]

    assert [f"{min(19, os.nice(0) + n)}\n" for n in (3, 19)] == shown
    assert f"{os.nice(0)}\n" == run(owner, show, text=True).stdout


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("options", [{"limits": {"cpu": 1}}, {"core_dumps": False}, {"nice": 1}, {"shield": True}])
@pytest.mark.parametrize("start", [run, popen])
def test_never_ignored_without_a_warden(owner: FakeTurn, start: Any, options: Any, tmp_path: Path) -> None:
    """Where there is no warden they are refused by name, with the reason, and nothing is started."""
    name = next(iter(options))
    with pytest.raises(ContainmentUnavailable, match=f"only a warden can carry out {name}: TURNCTL_CONTAINMENT=group"):
        start(owner, ["touch", tmp_path / "made"], **options)

    assert [] == list(tmp_path.iterdir())


def test_never_ignored_with_before_exec(owner: FakeTurn) -> None:
    """A command that is to run a function of this program first has no warden, so no limits by it either."""
    with pytest.raises(ContainmentUnavailable, match="nice and limits: before_exec= runs in a fork"):
        run(owner, ["true"], limits={"cpu": 1}, nice=1, before_exec=lambda: None)
