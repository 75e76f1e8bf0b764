"""Starting a command under a warden: the host's side of the launcher.

Invariants
  H1  A command is started at most once: it is asked for again only where the kernel or the launcher says that nobody
      read the first request.
  H2  Closing a ``Warded`` whose command still runs ends the command, as the death of this process does.

May block: ``start``, until the program has been loaded, and for the start of a launcher (see ``upkeep``). Safe in every
thread; not in a signal handler.
"""

from __future__ import annotations

import itertools
import os
from errno import EINVAL
from typing import Any

from turnctl import points
from turnctl.processes import link
from turnctl.processes.moment import take
from turnctl.processes.patience import Patience
from turnctl.processes.request import Hold, Request, Uncontained, compose, error_of, kind_of
from turnctl.processes.upkeep import Launcher, Unavailable, fitting, refusal, shutdown
from turnctl.processes.warded import Warded

__all__ = [
    "Hold",
    "Request",
    "Unavailable",
    "Uncontained",
    "Warded",
    "refusal",
    "shutdown",
    "start",
]

_TRIES = 5
_numbers = itertools.count(1)


def start(request: Request, patience: Patience | None = None) -> Warded:
    """Start a command under a warden. Blocks until it is loaded, or ``patience`` has come to an end.

    Raises what ``subprocess.Popen`` raises, with the right file name, where it cannot be started; ``Unavailable``
    where there can be no launcher, or it takes no request; ``StopWanted`` if a stop came while it took none. With
    ``pid`` None it is not known whether it was started: its warden was killed at that very moment, and ``read`` tells
    what became of it, or has not answered yet. Thread-safe; not a checkpoint.
    """
    for _ in range(_TRIES):
        moment = take()
        launcher = fitting(kind_of(request), moment)
        body, fds, opened = compose(request, moment, launcher.moment)
        try:
            warded = _ask(launcher, body, fds, patience)
        finally:
            if opened >= 0:
                os.close(opened)
        if warded is None:
            continue
        try:
            answer = warded.await_start(patience)
        except BaseException:
            try:
                warded.hurry(0.0)
            except OSError:
                pass  # it does not read: that its socket is closed ends it as well, and what struck is raised
            finally:
                warded.close()
            raise
        if answer[0] == "failed":
            warded.read()
            warded.close()
            raise error_of(request, answer[1], answer[2])
        if answer[0] in ("unstarted", "leaving"):
            warded.close()
            continue
        if answer[0] == "silent":
            warded.hurry(0.0)
            return warded
        points.reach("processes.launch.started")
        return warded
    raise Unavailable(EINVAL, f"{_TRIES} launchers in a row were gone before they could start the command; "
                              "something on this machine ends them")  # fmt: skip


def _ask(launcher: Launcher, body: dict[str, Any], fds: tuple[int, ...], patience: Patience | None) -> Warded | None:
    """Send the request; None if it certainly was not begun."""
    sock, ward, end = launcher.warden()
    number = body["number"] = next(_numbers)
    try:
        link.send(sock, ("run", body), fds)
        points.reach("processes.launch.composed")
        if end is not None:
            launcher.ask(ward, end, patience)
        points.reach("processes.launch.asked")
    except link.Broken:
        sock.close()
        if end is not None:
            launcher.is_gone = True
        return None
    except BaseException:
        sock.close()
        raise
    finally:
        if end is not None:
            end.close()
    return Warded(sock, launcher, ward, number)
