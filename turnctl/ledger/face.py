"""The ledger as a host uses it: submit a task, cancel it from anywhere, ask what became of it.

Who may do what is decided by a function of the host's, which is called before any transaction, without a lock. Without
one, requests within the tenant of the task pass, and all others are refused. What is refused for want of authority, and
what does not exist, is told in the same words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from turnctl import log
from turnctl.clock import parse_duration, wall
from turnctl.errors import BadArgument, LedgerRefused
from turnctl.ledger import dealings
from turnctl.ledger.adapters import refuse_incapable
from turnctl.ledger.attachment import Attachment, error_of
from turnctl.ledger.failpoints import reach
from turnctl.ledger.graves import known
from turnctl.ledger.moves import none
from turnctl.ledger.names import new_id
from turnctl.ledger.owned import close_activity
from turnctl.ledger.task import LedgerTask
from turnctl.records.accounts import Reconciled, Request, TaskReport
from turnctl.records.changes import By, Refusal
from turnctl.records.tasks import PROMISES
from turnctl.tokens.ids import check_name

if TYPE_CHECKING:
    from types import TracebackType

    from turnctl.ledger.adapters import Adapter, Asked
    from turnctl.ledger.compensating import Compensation
    from turnctl.ledger.store import Store
    from turnctl.records.retention import Bundled, Purged
    from turnctl.records.tasks import Cancellation, Policy, PromiseLevel, Scope, Task
    from turnctl.tokens.turn import TurnCore

__all__ = ["Ledger", "open_ledger"]

_NOT_YOURS = "there is no such task, or it is not for you to {what}; tenant= says on whose behalf you ask"


Authorise = Callable[[Request], "bool | str"]


def within_tenant(request: Request) -> bool:
    """What holds without a function of the host's: everybody of the tenant may, nobody else."""
    return request.tenant == request.task.tenant


def open_ledger(url: str | os.PathLike[str] | None = None, *, authorise: Authorise | None = None) -> Ledger:
    """Open a ledger: by default the durable one in the user's state directory, made on first use.

    ``url`` is the path of a SQLite file, or "memory:" for one that is not durable and lives as long as the object.
    ``authorise(request)`` gives True or False, or a text that is kept with the cancellation as the reference of the
    authorisation; it must be quick, and may be called from any thread. Raises ``StoreError`` with what to do where the
    file is not to be trusted, and leaves it as it is. Blocks for the disk; close the ledger, or use it with ``with``.
    """
    url = os.fspath(url) if isinstance(url, os.PathLike) else url
    if url is not None and not isinstance(url, str):
        raise BadArgument(f'the url of a ledger is a path of str, "memory:" or None, not {url!r}')
    if authorise is not None and not callable(authorise):
        raise BadArgument(f"authorise is a function of one request, not {authorise!r}")
    if url == "memory:":
        from turnctl.ledger.memory import MemoryStore

        return Ledger(MemoryStore(), authorise=authorise)
    from turnctl.ledger.whereabouts import open_durable

    return Ledger(open_durable(url), authorise=authorise)


class Ledger:
    """Tasks, their cancellations and effects, as one store keeps them. Made by ``open_ledger``; thread-safe."""

    def __init__(self, store: Store, *, authorise: Authorise | None = None) -> None:
        self.store = store
        self._authorise = authorise or within_tenant

    @property
    def durable(self) -> bool:
        """Whether what was acknowledged outlives this process and the power."""
        return self.store.durable

    def close(self) -> None:
        """Give everything back. End the turns that work on its tasks first."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- tasks ----------------------------------------------------------------------------------------------------

    def submit(
        self,
        tenant: str,
        task_id: str,
        *,
        promise: PromiseLevel = "no-new-actions",
        policy: Policy = "suppress",
        adapters: Iterable[Adapter] = (),
        parent: TurnCore | None = None,
        by: str = "host",
    ) -> LedgerTask:
        """A new incarnation of a task, which a turn may work on from now on.

        ``promise`` is what stopping it shall mean: ``stop-generating``, ``no-new-actions`` (after the acceptance none
        is admitted), ``ask-provider`` (and providers are asked to cancel what is under way) or ``prevent-delivery``
        (and they confirm it); one that an adapter of ``adapters`` cannot keep is refused. ``policy`` says what a
        cancellation does to effects that were admitted and not sent: ``suppress`` or ``deliver``. ``parent`` is a turn
        that works on a task of the same tenant and of this ledger: the new one is its child, for another process to
        take up by its ``inc``, and is cancelled with it, also when it ends. Raises ``LedgerRefused`` where the task id
        is open, the promise cannot be kept, or the parent was cancelled. Blocks for the store.
        """
        for what, given in (("tenant", tenant), ("task_id", task_id)):
            if not check_name(given):
                raise BadArgument(f"the {what} of a task is a non-empty str, not {given!r}")
        if promise not in PROMISES:
            raise BadArgument(f"unknown promise {promise!r}; use one of {', '.join(PROMISES)}")
        if policy not in ("suppress", "deliver"):
            raise BadArgument(f"unknown policy {policy!r}; use suppress or deliver")
        refuse_incapable(task_id, promise, adapters)
        inc, asked = new_id("i"), By(by, "worker", wall())
        if parent is not None:
            return self._submit_below(parent, asked, inc, tenant, task_id, promise, policy)
        answer = self.store.transact(
            lambda books: dealings.submit(books, asked, inc, tenant, task_id, promise=promise, policy=policy),
            point="submit",
        )
        if isinstance(answer, Refusal):
            raise error_of(answer)
        return LedgerTask(self, tenant, task_id, inc)

    def _submit_below(
        self, parent: TurnCore, asked: By, inc: str, tenant: str, task_id: str, promise: PromiseLevel, policy: Policy
    ) -> LedgerTask:
        of = getattr(parent, "_ruling", None)
        if isinstance(of, Attachment) and not of.gen and parent.token.cancelled:  # begun when its own parent had gone
            raise LedgerRefused(f"turn {parent.turn_id} was cancelled as it began: no child any more", code="cancelled")
        row = self.store.read(lambda books: books.task(of.inc)) if isinstance(of, Attachment) else None
        if not isinstance(of, Attachment) or of.store is not self.store or row is None or row.tenant != tenant:
            raise BadArgument(
                f"the parent of a task is a turn that works on one of the same ledger and tenant, not {parent!r}"
            )
        answer = self.store.transact(
            lambda books: dealings.register_child(
                books, asked, of.inc, of.gen, inc, task_id, promise=promise, policy=policy
            ),
            point="child",
        )
        if isinstance(answer, Refusal):
            if answer.code == "cancelled":
                of.heard()
            raise error_of(answer)
        reach("child.before_spawn")
        return LedgerTask(self, tenant, task_id, inc)

    def task(self, tenant: str, task_id: str) -> LedgerTask | None:
        """The newest incarnation of a task id, whatever its state; None where there was none. Reads the store."""
        found = self.store.read(lambda books: books.latest(tenant, task_id))
        return None if found is None else LedgerTask(self, found.tenant, found.task_id, found.inc)

    def incarnation(self, inc: str) -> LedgerTask | None:
        """The incarnation with that id, such as one that another process was given. Reads the store."""
        found = self.store.read(lambda books: books.task(inc))
        return None if found is None else LedgerTask(self, found.tenant, found.task_id, found.inc)

    def row_of(self, task: LedgerTask) -> Task:
        """What is on record of it; ``LedgerRefused`` where it was purged."""
        found = self.store.read(lambda books: books.task(task.inc) or none(books, task.inc))
        if isinstance(found, Refusal):
            raise error_of(found)
        return found

    # -- stopping -------------------------------------------------------------------------------------------------

    def cancel(
        self,
        task: LedgerTask | str,
        *,
        by: str,
        tenant: str | None = None,
        reason: str | None = None,
        scope: Scope = "subtree",
        kill: bool = False,
    ) -> Cancellation | Refusal:
        """Cancel a task for good, in every process: the record of it, or why not, which is false in a boolean context.

        ``task`` is a task, or the id of its incarnation; ``by`` who asks, ``tenant`` on whose behalf, which a task
        brings with it. The first cancellation stays on record and is what later ones get. Once this has returned a
        record nothing new is admitted for the task, nor, with ``scope`` "subtree", for what is below it; running turns
        are told at once. It does not say that anything has ended, or that nothing got out: ``report`` does. A refusal's
        ``code`` is ``already_completed``, ``stale_incarnation`` or ``not_authorised``. Blocks for the store, ahead of
        other work. Not a checkpoint, and not for signal handlers: those stop the turn.
        """
        inc, tenant = self._named(task, tenant)
        for what, given in (("by", by), ("reason", reason)):
            if not isinstance(given, str) and (what == "by" or given is not None):
                raise BadArgument(f"{what} of a cancellation is a str, not {given!r}")
        if not by.strip():
            raise BadArgument("by of a cancellation names who asks, and is empty")
        if scope not in ("self", "subtree"):
            raise BadArgument(f"unknown scope {scope!r}; use self or subtree")
        allowed = self._allowed("cancel", inc, by, tenant)
        if isinstance(allowed, Refusal):
            return allowed
        asked = By(by, "canceller", wall())
        answer = self.store.transact(
            lambda books: dealings.cancel(
                books,
                asked,
                inc,
                lambda: new_id("cr"),
                scope=scope,
                reason=reason,
                auth_ref=allowed or None,
                level="kill" if kill else "cancel",
            ),
            urgent=True,
            point="cancel",
        )
        return answer if isinstance(answer, Refusal) else answer.cr

    def _named(self, task: LedgerTask | str, tenant: str | None) -> tuple[str, str | None]:
        if isinstance(task, LedgerTask):
            return task.inc, task.tenant if tenant is None else tenant
        if not check_name(task):
            raise BadArgument(f"a task is what submit() gave, or the id of an incarnation, not {task!r}")
        return task, tenant

    def _allowed(
        self, action: Literal["cancel", "compensate", "reconcile", "close"], inc: str, by: str, tenant: str | None
    ) -> str | Refusal:
        """The reference of the authorisation, empty where there is none; or the refusal, noted where there is one."""
        row = self.store.read(lambda books: known(books, inc))
        granted = False if row is None else self._authorise(Request(action, by, tenant, row))
        if granted:
            return granted if isinstance(granted, str) else ""
        log.warning("ledger.not_authorised", action=action, inc=inc, by=by, tenant=tenant)
        if row is not None:
            asked = By(by, "canceller", wall())
            self.store.transact(
                lambda books: dealings.note(books, asked, inc, f"{action}.refused", inc, {"code": "not_authorised"})
            )
        return Refusal("not_authorised", _NOT_YOURS.format(what=action))

    # -- afterwards -----------------------------------------------------------------------------------------------

    def report(self, task: LedgerTask | str) -> TaskReport:
        """What is known of a task: intent, execution and effects apart, what is still missing, and a line for people.

        Reads the store. Raises ``LedgerRefused`` for one that is not there.
        """
        from turnctl.ledger.accounts import report_on

        inc, _ = self._named(task, None)
        return report_on(self.store, inc)

    def reconcile(
        self,
        probes: Mapping[str, Asked] | Iterable[Adapter],
        *,
        by: str = "reconciler",
        tenant: str | None = None,
        effects: Iterable[str] | None = None,
    ) -> list[Reconciled]:
        """Ask receivers about each effect whose outcome is unknown, under its own id, and keep what they say.

        ``probes`` are adapters with a ``lookup``, or functions by the name of the adapter or the kind of effect. First
        workers that are proven dead are noted as gone. Nothing is sent, admitted or reopened: a probe that cannot tell
        leaves ``unknown``, and the answer says who should look. ``tenant`` limits it to one; without, it is asked on
        behalf of each task's own, as far as ``authorise`` grants it; ``effects`` limits it to those ids. Blocks for the
        probes, which run without a lock, and for the store. A checkpoint before each probe.
        """
        from turnctl.ledger.reconciling import reconcile

        return reconcile(self, probes, by=by, tenant=tenant, effects=effects)

    def close_unknown(self, effect_id: str, *, by: str, reason: str, tenant: str | None = None) -> None:
        """Decide that nobody will ever know what became of an effect: it stays unknown, closed by ``by``.

        ``tenant`` is the one on whose behalf that is decided: that of the task, where ``authorise`` says nothing else.
        """
        effect = self.store.read(lambda books: books.effect(effect_id))
        allowed = self._allowed("close", "" if effect is None else effect.inc, by, tenant)
        if isinstance(allowed, Refusal):
            raise error_of(allowed)
        asked = By(by, "operator", wall())
        found = self.store.transact(lambda books: dealings.close_unknown(books, asked, effect_id, reason=reason))
        if isinstance(found, Refusal):
            raise error_of(found)

    def close_activity(
        self, task: LedgerTask | str, ref: str, *, by: str, reason: str, tenant: str | None = None
    ) -> None:
        """Decide that nobody will prove that something which a task owned is gone: it is severed, closed by ``by``.

        ``ref`` is that of one of the report's ``activities``. Refused while its worker lives. Blocks for the store.
        """
        inc, tenant = self._named(task, tenant)
        allowed = self._allowed("close", inc, by, tenant)
        asked = By(by, "operator", wall())
        found: object = allowed
        if not isinstance(allowed, Refusal):
            found = self.store.transact(lambda books: close_activity(books, asked, inc, ref, reason=reason))
        if isinstance(found, Refusal):
            raise error_of(found)

    def compensate(
        self,
        effect_id: str,
        kind: str,
        *,
        by: str,
        key: str,
        payload: Any = b"",
        auth_ref: str | None = None,
        tenant: str | None = None,
        adapter: Adapter | None = None,
    ) -> Compensation:
        """A new effect that makes another one good; enter it with ``with``, as the effect of a turn.

        A stop authorises none: ``authorise`` has to grant ``compensate``, and its text, or ``auth_ref``, names the
        decision. The original keeps its disposition, whatever becomes of this one. Raises ``LedgerRefused``.
        """
        from turnctl.ledger.compensating import compensation

        effect = self.store.read(lambda books: books.effect(effect_id))
        allowed = self._allowed("compensate", "" if effect is None else effect.inc, by, tenant)
        if isinstance(allowed, Refusal) or effect is None:
            raise error_of(allowed if isinstance(allowed, Refusal) else Refusal("no_such_task", _NOT_YOURS))
        return compensation(self.store, effect, kind, key, payload, by, allowed or auth_ref, adapter)

    def bundle(
        self,
        task: LedgerTask | str,
        path: str | os.PathLike[str],
        *,
        payloads: bool = True,
        scope: Scope = "subtree",
    ) -> Bundled:
        """Write all that is on record of a task, and with ``scope`` "subtree" of what is below it, into a new file.

        One that ``python verifier.py FILE`` accepts or refuses without turnctl (docs/bundle.md). ``payloads=False``
        leaves their bytes out, and keeps their hashes. Raises ``LedgerRefused`` where there is no such task, and
        ``BadArgument`` where there is such a file. Blocks for the store and the disk.
        """
        from turnctl.ledger.bundling import write_bundle

        inc, _ = self._named(task, None)
        if scope not in ("self", "subtree"):
            raise BadArgument(f"unknown scope {scope!r}; use self or subtree")
        found = write_bundle(self.store, inc, path, payloads=payloads, scope=scope)
        if isinstance(found, Refusal):
            raise error_of(found)
        return found

    def purge(
        self,
        *,
        older_than: float | str = "30d",
        keep_tombstones: float | str = "90d",
        dry_run: bool = False,
        include_detached: bool = False,
        export: str | os.PathLike[str] | None = None,
    ) -> Purged:
        """Take away what is over for longer than ``older_than`` and wholly told of; see docs/ledger.md for what stays.

        What is left of an incarnation is its tombstone, so that what comes late for it is answered
        ``stale_incarnation``, and its task id goes on counting; tombstones older than ``keep_tombstones`` are dropped,
        with a record of how many. In short transactions; a cancellation waits for one of them at most. May be killed
        at any moment, and be called again. ``include_detached`` purges what let go of work, too; ``export`` is a folder
        that gets a bundle of each tree before it goes. Blocks for all of it.
        """
        from turnctl.ledger.purging import purge

        return purge(
            self.store,
            older_than_s=parse_duration(older_than, what="older_than", zero=True) or 0.0,
            tombstones_s=parse_duration(keep_tombstones, what="keep_tombstones", zero=True) or 0.0,
            dry_run=dry_run,
            include_detached=include_detached,
            export=None if export is None else os.fspath(export),
        )

    def __repr__(self) -> str:
        return f"<Ledger {self.store.authority}{'' if self.durable else ', not durable'}>"
