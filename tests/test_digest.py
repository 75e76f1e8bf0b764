"""Digests of short texts."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
from launch import ROOT

from turnctl.digest import hex_of

_WITHOUT = f"""
import sys
sys.path.insert(0, {ROOT!r})
sys.modules["_sha256"] = sys.modules["_sha2"] = None
from turnctl.digest import hex_of
print(hex_of(b"abc"))
"""


@pytest.mark.parametrize("data", [b"", b"abc", bytes(range(256)) * 300])
def test_digests_are_those_of_hashlib(data: bytes) -> None:
    """Whatever is digested, the digest is the one of ``hashlib``."""

    assert hashlib.sha256(data).hexdigest() == hex_of(data)


def test_python_without_its_own_is_served() -> None:
    """Where Python was built without an implementation of its own, that of OpenSSL is taken."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", _WITHOUT], capture_output=True, text=True, timeout=30, check=False
    )

    assert f"{hex_of(b'abc')}\n" == done.stdout
