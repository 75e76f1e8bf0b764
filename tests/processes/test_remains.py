"""Finding what nobody holds any more: by the mark in its environment, by descent, by its control group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from commands import alive
from launch import ROOT, clean_environment
from shapes import shape
from standins import until
from warding import KILL, ends, parent_of, tag

import turnctl
from turnctl.processes import Leftover, leftovers, marks
from turnctl.processes.remains import mark_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux")
_HOST = """
import sys, turnctl
options = dict(env={}) if sys.argv[1] == "whole" else dict(env_extra={"A": "b"}) if sys.argv[1] == "extra" else {}
if sys.argv[1] == "withheld": options = dict(env_unset=["TURNCTL_*"])
with turnctl.popen(sys.argv[2:], capture=False, **options) as process:
    print(process.pid, flush=True)
    process.wait()
"""


@contextmanager
def orphaned(*argv: str, env: str = "inherited") -> Iterator[str]:
    """A command whose host, warden and launcher were killed at one moment; what has its tag is ended afterwards."""
    mark = argv[-1]
    host = subprocess.Popen(
        [sys.executable, "-c", _HOST, env, *argv],
        stdout=subprocess.PIPE,
        env={**clean_environment(), "PYTHONPATH": ROOT},
    )
    try:
        assert host.stdout is not None
        lines = sorted([host.stdout.readline(), host.stdout.readline()])
        assert b"ready\n" == lines[1]
        warden = parent_of(int(lines[0]))
        struck = [host.pid, warden, parent_of(warden)]
        for number in (signal.SIGSTOP, KILL):
            for pid in struck:
                os.kill(pid, number)
        host.wait()
        assert all(ends(pid) for pid in struck[1:])
        yield mark
    finally:
        if host.poll() is None:
            host.kill()
        host.wait()
        for pid in alive(mark):
            os.kill(pid, KILL)
        assert until(lambda: not alive(mark))
        if host.stdout is not None:
            host.stdout.close()


def found(mark: str) -> dict[int, Leftover]:
    return {one.pid: one for one in leftovers() if mark in one.argv}


@pytest.mark.parametrize("env", ["inherited", "extra"])
def test_orphan_of_three_deaths_is_found(env: str) -> None:
    """Who lives on when host, warden and launcher die at one moment is found, with its identity, and left alone."""
    with orphaned(*shape("deaf daemon", tag()), env=env) as mark:
        there = alive(mark)
        one = found(mark)

        assert there == sorted(one)
        assert {"mark"} == {each.found_by for each in one.values()}
        assert all(each.user == os.getuid() and each.warden > 1 and each.start > 0 for each in one.values())
        assert there == alive(mark)


def test_descendant_without_a_mark_is_found() -> None:
    """Who has dropped the environment is found below somebody who has it."""
    mark = tag()
    line = 'env -i sleep "$0" & echo ready; wait'
    with orphaned("sh", "-c", line, mark):
        # between its fork and its program the second one is a copy of the first, environment and all
        assert until(lambda: ["descent", "mark"] == sorted(each.found_by for each in found(mark).values()))


@pytest.mark.parametrize("env", ["whole", "withheld"])
def test_environment_given_whole_has_no_mark(env: str) -> None:
    """Nothing is put into an environment that was given, nor where the name was to be taken out; so none is found."""
    with orphaned(*shape("plain", tag()), env=env) as mark:
        assert 1 == len(alive(mark))
        assert {} == found(mark)


def test_held_command_is_no_leftover() -> None:
    """While somebody holds it a command is not named, though it has the mark."""
    mark = tag()
    with turnctl.popen(shape("deaf daemon", mark), capture=True, grace=0) as process:
        assert b"ready\n" == next(iter(process))
        read = mark_of(process.pid)

        assert read is not None
        assert (parent_of(process.pid), True) == (read.warden[0], read.is_held())
        assert {} == found(mark)


@pytest.mark.parametrize(("env", "expected"), [({"TURNCTL_HELD_BY": "1.2.3.4.5"}, True), ({}, False)])
def test_mark_of_a_process_that_becomes_another_program(env: dict[str, str], expected: bool) -> None:
    """One that goes from program to program never seems to be without its mark, nor with one that it has not."""
    line = 'exec /bin/sh -c "$0" "$0"'
    with subprocess.Popen(["/bin/sh", "-c", line, line], env=env) as process:
        try:
            assert {expected} == {mark_of(process.pid) is not None for _ in range(2000)}
        finally:
            process.kill()


def test_mark_is_replaced_in_a_nested_program() -> None:
    """The command of a command names its own warden, once."""
    code = "import turnctl; print(turnctl.run(['env'], text=True).stdout.count('TURNCTL_HELD_BY='))"
    done = turnctl.run([sys.executable, "-c", code], env_extra={"PYTHONPATH": ROOT}, text=True)

    assert "1\n" == done.stdout


@pytest.mark.parametrize("text", [b"", b"1.2.3", b"1.2.3.4.x", b"-1.2.3.4.5"])
def test_mark_that_is_none_is_not_believed(text: bytes) -> None:
    """An environment says nothing if its mark cannot be read."""
    assert None is marks.read_mark([b"A=b", b"TURNCTL_HELD_BY=" + text])


def test_recycled_holder_does_not_hold() -> None:
    """A pid counts with its start time: another process under a warden's number holds nothing."""
    read = marks.read_mark([b"TURNCTL_HELD_BY=%d.1.%d.1.7" % (os.getpid(), os.getppid())])

    assert read is not None
    assert not read.is_held()
