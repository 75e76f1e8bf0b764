"""SHA-256 of short texts, without what loading OpenSSL costs: more than all else that a small run has to load for it.

The same digests as those of ``hashlib``, which is faster for long data, and is used where Python has no other.
"""

from __future__ import annotations

import sys
from importlib import import_module

__all__ = ["hex_of"]

try:
    _sha256 = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
except ImportError:  # a Python that was built without
    _sha256 = import_module("hashlib").sha256


def hex_of(data: bytes) -> str:
    """The digest of ``data``, in hexadecimal digits."""
    found: str = _sha256(data).hexdigest()
    return found
