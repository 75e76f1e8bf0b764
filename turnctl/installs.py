"""``turnctl.install`` with what every room has to offer; each is loaded only where it is asked for."""

from __future__ import annotations

from turnctl.errors import BadArgument
from turnctl.waiting.installing import Change, Installed
from turnctl.waiting.installing import install as install_these

__all__ = ["install"]


def install(
    *, threads: bool = False, single_turn: bool = False, subprocess: bool = False, http: bool = False
) -> Installed:
    """Change the process for code that cannot be edited; nothing is changed that is not asked for.

    ``threads``: new threads, and the jobs of a ``ThreadPoolExecutor``, run in a copy of the context that started or
    submitted them, and so obey its turn. ``single_turn``: code with no turn and no session bound obeys the only turn
    of the process; with two or more it obeys none, as without. ``subprocess``: ``run``, ``Popen``, ``call``,
    ``check_call``, ``check_output``, ``getoutput`` and ``getstatusoutput`` of the standard library, and so
    ``os.popen``, start commands of the current turn; names that were imported from it before are not reached, and
    ``asyncio`` keeps its own. ``http``: the requests of HTTP clients that were imported before (httpx and all that is
    built on it; see docs/httpx.md) end with a stop of the turn that makes them; ``BadArgument`` if none was,
    ``ClientChanged`` if the internals of one are not what turnctl knows.
    Installs are counted; ``uninstall()`` undoes the last one, the end of the ``with`` its own. Thread-safe, never
    blocks, not a checkpoint.
    """
    for name, given in (("subprocess", subprocess), ("http", http)):
        if given is not True and given is not False:
            raise BadArgument(f"install({name}=...) is True or False, not {given!r}")
    more: dict[str, tuple[Change, ...]] = {}
    if subprocess:
        from turnctl.processes.replacing import changes

        more["subprocess"] = changes()
    if http:
        from turnctl.integrations.everywhere import changes as changes_of_clients

        more["http"] = changes_of_clients()
    return install_these(threads=threads, single_turn=single_turn, more=more)
