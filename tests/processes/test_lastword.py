"""What the kernel says of a namespace when nobody else is left to tell of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from turnctl.processes.lastword import LastWord
from turnctl.processes.marks import own_namespace

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")


@pytest.mark.parametrize("is_reaped", [True, False])
def test_end_is_told(is_reaped: bool) -> None:
    """Who has ended is told as gone, whether its parent has taken note of that or not."""
    with subprocess.Popen(["sleep", "60"]) as process:
        last_word = LastWord(process.pid, own_namespace())
        before = last_word.is_gone()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        if is_reaped:
            process.wait()
        after = last_word.is_gone()
        last_word.close()
        later = LastWord(process.pid, own_namespace())
        found = later.is_gone()
        later.close()

    assert (False, True, True) == (before, after, found)


@pytest.mark.parametrize("namespace", [0, 1])
def test_number_of_another_namespace_says_nothing(namespace: int) -> None:
    """A number that is free here may be somebody's there: nothing is claimed."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    last_word = LastWord(process.pid, namespace)

    assert not last_word.is_gone()


def test_without_pidfds_a_holder_of_the_number_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no end can be told, somebody who has the number may be it."""
    monkeypatch.delattr(os, "pidfd_open")
    last_word = LastWord(os.getpid(), own_namespace())

    assert (-1, False) == (last_word.fd, last_word.is_gone())
