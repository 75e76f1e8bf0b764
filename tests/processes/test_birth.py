"""Starting a program as a child of a warden: what goes wrong there leaves nothing open."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

import pytest

from turnctl.processes import birth

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wardens need Linux")


def test_refused_number_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the pipe of the start cannot be moved out of the way it is closed, and the start is refused (B2)."""
    report, told = os.pipe2(os.O_CLOEXEC)

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe2", lambda _: (report, told))
        patch.setattr(fcntl, "fcntl", refuse)
        with pytest.raises(birth.NotStarted) as caught:
            birth._fork_exec({"keep": ((told, 0),), "std": (-1, -1, -1)}, ())

    assert (errno.EMFILE, "setup") == (caught.value.errno, caught.value.what)
    for fd in (report, told):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
