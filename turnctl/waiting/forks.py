"""Telling, for the price of one look, whether a thing was made by this process or by the one it was forked from."""

from __future__ import annotations

import os

__all__ = ["era"]

#: An object that a forked child has another of: keep it, and compare with ``is``.
era = object()


def _begin_anew() -> None:
    global era
    era = object()


os.register_at_fork(after_in_child=_begin_anew)
