"""``turnctl run --dry-run``: what would be run, where, held and ended how, and recorded where. Starts nothing.

Not promised: that it can be held so. What this machine offers is found by trying, which ``turnctl doctor`` does.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from shlex import join
from typing import TYPE_CHECKING, Any

from turnctl.cli.folder import current
from turnctl.clock import parse_duration
from turnctl.errors import StoreError, StoreMissing
from turnctl.processes.signames import name_of
from turnctl.spelling import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnctl.cli.execute import Plan

__all__ = ["Preview"]

SCHEMA = "turnctl.plan/1"
_HELD_BY = {
    "auto": "a warden, or else its process group",
    "namespace": "a namespace; it is not run without",
    "cgroup": "a control group; it is not run without",
    "warden": "a warden; it is not run without",
    "group": "its process group alone, which a daemon escapes",
}


class Preview:
    """What a plan would come to, as far as can be seen without starting anything."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.folder = os.path.join(current(), plan.folder or "").rstrip("/") or "/"
        #: why it could not be started; None where nothing speaks for that
        self.trouble: OSError | None = None
        self.program = self._found()
        self.ledger, self.not_recorded = self._ledger()

    def _found(self) -> str | None:
        """Where its program is."""
        name, asked = self._plan.argv[0], self._plan.options.get("env_extra", {})
        if os.sep in name:
            places = [self.folder]
        else:
            path = asked.get("PATH", os.environ.get("PATH", os.defpath))
            places = [os.path.join(self.folder, one) for one in path.split(os.pathsep)]
        found = [path for one in places if os.path.exists(path := os.path.join(one, name))]
        fit = [one for one in found if os.access(one, os.X_OK) and not os.path.isdir(one)]
        if fit:
            return os.path.normpath(fit[0])
        number = errno.EACCES if found else errno.ENOENT
        self.trouble = OSError(number, os.strerror(number))
        return None

    def _ledger(self) -> tuple[str | None, str | None]:
        """The ledger that would have the record, or why none would."""
        asked = self._plan.record
        if not asked.record:
            return None, "none is asked for"
        from turnctl.ledger.glance import Glances
        from turnctl.ledger.whereabouts import default_path

        try:
            path = default_path(asked.state_dir)
            with suppress(StoreMissing):  # the run makes it
                Glances(path).close()
        except StoreError as error:
            return None, " ".join(str(error).split())
        return str(path), None

    @property
    def is_refused(self) -> bool:
        """Whether nothing would be run for want of a record."""
        return self.ledger is None and self._plan.record.is_required

    def as_dict(self) -> dict[str, Any]:
        """As one document, schema ``turnctl.plan/1``. What is given as text has its unit."""
        plan = self._plan
        return {
            "schema": SCHEMA,
            "command": list(plan.argv),
            "program": self.program,
            "not_started": None if self.trouble is None else self.trouble.strerror,
            "folder": self.folder,
            "session_id": plan.session,
            "label": plan.record.label,
            "tty": plan.tty,
            "containment": plan.containment,
            "signal": name_of(plan.stop_signal),
            "grace": plan.grace,
            "timeout": plan.timeout,
            "idle_timeout": plan.idle_timeout,
            "leftovers": plan.leftovers,
            "max_output": plan.max_output,
            "limits": plan.options.get("limits", {}),
            "umask": None if "umask" not in plan.options else f"{plan.options['umask']:03o}",
            "core_dumps": plan.options.get("core_dumps", True),
            "shield": plan.options.get("shield", False),
            "env_added": sorted(plan.options.get("env_extra", {})),
            "env_taken": list(plan.options.get("env_unset", ())),
            "summary": plan.summary,
            "record": {"ledger": self.ledger, "not_recorded": self.not_recorded, "required": plan.record.is_required},
            "log": plan.record.log_max if plan.record.keeps and self.ledger else None,
        }

    def text(self) -> str:
        """For people, a line each."""
        return "".join(f"{name:<12}  {visible(value)}\n" for name, value in self._rows())

    def _rows(self) -> Iterator[tuple[str, str]]:
        plan, found = self._plan, self.as_dict()
        yield "would run", join(plan.argv)
        yield "program", self.program or f"cannot be started: {found['not_started']}"
        yield "folder", self.folder
        for name, value in (("session", plan.session), ("label", plan.record.label)):
            if value is not None:
                yield name, value
        yield "held by", _HELD_BY[plan.containment]
        yield "stopped", self._ending()
        yield "timeout", plan.timeout or "none"
        if plan.idle_timeout is not None:
            yield "idle timeout", plan.idle_timeout
        yield "leftovers", "are ended" if plan.leftovers == "end" else "are waited for"
        yield "limits", ", ".join(self._limits()) or "none"
        changed = [f"{name} added" for name in found["env_added"]] + [f"{name} taken" for name in found["env_taken"]]
        if changed:
            yield "environment", ", ".join(changed)
        yield "record", self.ledger or f"none: {self.not_recorded}"
        yield "output", f"kept, {found['log']} of each stream" if found["log"] else "not kept"
        if plan.summary is not None:
            yield "summary", plan.summary

    def _ending(self) -> str:
        name, grace = name_of(self._plan.stop_signal), self._plan.grace
        if name == "SIGKILL" or not parse_duration(grace, what="--grace", zero=True):
            return "SIGKILL at once"
        return f"{name} first, SIGKILL after {grace}"

    def _limits(self) -> Iterator[str]:
        options = self._plan.options
        yield from (f"{name}={value}" for name, value in options.get("limits", {}).items())
        if self._plan.max_output is not None:
            yield f"{self._plan.max_output} of output"
        if "umask" in options:
            yield f"umask {options['umask']:03o}"
        if "core_dumps" in options:
            yield "no core dumps"
        if options.get("shield"):
            yield "shield"
