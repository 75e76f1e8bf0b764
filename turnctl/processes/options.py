"""The options of ``run`` and ``popen`` as types, for the functions that pass them on; and their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, Literal, TypedDict

from turnctl.processes.containment import Choice, Require
from turnctl.processes.request import Leftovers
from turnctl.processes.spec import Stream, Tty
from turnctl.processes.targets import TeeTo
from turnctl.processes.tee import Tee

__all__ = ["PopenOptions", "RunOptions"]


class PopenOptions(TypedDict, total=False):
    """What ``turnctl.popen`` takes besides the command."""

    shell: bool
    cwd: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None
    env: Mapping[Any, Any] | None
    stdin: Stream
    capture: bool
    merge_stderr: bool
    stdout: Stream
    stderr: Stream
    text: bool
    encoding: str | None
    errors: str | None
    timeout: float | str | None
    grace: float | str | None
    stop_signal: int | str
    tty: Tty | None
    tty_size: tuple[int, int] | None
    tty_echo: bool
    close_fds: bool
    on_start: Callable[[int], None] | None
    before_exec: Callable[[], None] | None
    containment: Choice | None
    require: Require | None
    leftovers: Leftovers
    owner: object | None
    max_output: int | str | None
    idle_timeout: float | str | None
    tee: TeeTo | Tee | None
    tee_lines: bool
    tee_backpressure: bool
    env_extra: Mapping[Any, Any] | None
    env_unset: Iterable[str] | None
    pass_fds: Iterable[int | IO[Any]]
    umask: int | None
    nice: int | None
    limits: Mapping[str, int | float | str | None] | None
    core_dumps: bool
    shield: bool


class RunOptions(PopenOptions, total=False):
    """What ``turnctl.run`` takes besides the command."""

    input: bytes | str | None
    check: bool
    mark_cut: bool
    on_stop: Literal["raise", "return"]
