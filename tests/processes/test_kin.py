"""Who lives below a warden, where little tells of it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from turnctl.processes import kin

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux")


def test_children_are_found_at_the_limit_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc the newest number is learned by a fork; where there can be none, all numbers are asked about."""

    def refuse() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    with subprocess.Popen(["sleep", "60"]) as child:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fork", refuse)
            patch.setattr(kin, "MOST_PROBED", child.pid + 10)
            found = kin._probed(child.pid)
        child.kill()

    assert child.pid in found
