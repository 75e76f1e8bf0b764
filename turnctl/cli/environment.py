"""The environment as it was handed to us: Python itself changes it before it runs any of our code.

Where the locale is the C one, Python sets LC_CTYPE to one with UTF-8 (locale coercion), for itself and for all that it
starts. The command was not meant to have that. What the kernel handed over at the exec stays readable; where it is not
(no /proc), nothing is undone.
"""

from __future__ import annotations

import os

__all__ = ["undo_coercion"]

_NAME = "LC_CTYPE"


def undo_coercion() -> None:
    """Give LC_CTYPE back as it was at the exec. Only commands notice: our own locale has been set by then."""
    try:
        with open("/proc/self/environ", "rb") as file:
            given = file.read()
    except OSError:
        return
    prefix = os.fsencode(_NAME) + b"="
    # as getenv sees it: of two the first counts
    before = next((item[len(prefix) :] for item in given.split(b"\0") if item.startswith(prefix)), None)
    if before is None:
        os.environ.pop(_NAME, None)
    else:
        os.environb[os.fsencode(_NAME)] = before
