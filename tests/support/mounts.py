"""Folders that nothing can be written to, not by root either."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["shown"]


@contextmanager
def shown(folder: Path, at: Path) -> Iterator[Path]:
    """``folder`` as it is seen at ``at`` as well, where it can only be read. Skips where nothing can be mounted."""
    done = subprocess.run(["mount", "--bind", folder, at], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing can be mounted here, so there is no folder that root cannot write to (needs root)")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", at], check=True)
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)
