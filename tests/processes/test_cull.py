"""Ending all below a main process: it is held still for the proof, and goes on afterwards."""

from __future__ import annotations

import os
from time import monotonic

import pytest
from commands import alive, nap
from warding import by_host

from turnctl.processes.cull import Cull
from turnctl.processes.steps import Ladder

_CODE = """
import time
from turnctl.processes import cull, kernel, kin, steps
kernel.adopt_orphans()
leader = os.fork()
if leader == 0:
    os.execvp("sleep", ["sleep", sys.argv[1]])
while b"sleep" != kin.read_member(leader).comm: time.sleep(0.001)
one = cull.Cull(leader, leader, [], steps.Ladder(time.monotonic(), (), "scope"), time.monotonic(), 5.0)
real, seen = one._is_empty, []
def is_empty():
    seen.append(kin.read_member(leader).state)
    return real()
one._is_empty = is_empty
facts = one.step(time.monotonic())
while kin.read_member(leader).state == "T": time.sleep(0.001)
say(seen, kin.read_member(leader).state in "RS", facts["empty"])
os.kill(leader, 9)
os.waitpid(leader, 0)
"""


def test_leader_stands_still_for_the_proof() -> None:
    """Emptiness is claimed only of a moment at which the main process was stopped; it is continued at once."""
    tag = nap()
    with by_host(_CODE, tag.split()[1]) as host:
        told = host.finished()

    assert "['T'] True True" == told.strip()
    assert [] == alive(tag)


class _Hopping(Cull):
    """Sees another process at each look, and never one that lives."""

    def __init__(self) -> None:
        self.looks = 0

    def _spared(self) -> set[int]:
        return set()

    def _roots(self, spared: set[int]) -> list[tuple[int, int]]:
        self.looks += 1
        return [(10**7 + self.looks, os.getpid())]


def test_who_changes_too_fast_is_taken_to_be_there() -> None:
    """A process that is another one at each look does not keep the look from coming to an end, and proves nothing."""

    assert not _Hopping()._is_empty()


def test_nobody_found_in_the_end_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the time is over and a last walk finds nobody, nothing is claimed."""
    one = Cull(0, 0, [], Ladder(0.0, (), "scope"), 0.0, 5.0)
    monkeypatch.setattr(one, "_sweep", lambda *, is_killing: None)
    monkeypatch.setattr(one, "_members", list)
    first = one.step(monotonic())
    one.ladder.killed_at = monotonic() - 5.0
    one._look_at = 0.0
    facts = one.step(monotonic())

    assert first is None
    assert facts is not None
    assert (False, ()) == (facts["empty"], facts["survivors"])
