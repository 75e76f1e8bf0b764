"""The log of a token: how a stop and the end are entered, decided, and made visible.

``list.append`` is atomic, so the position in the log decides every race; the slots are only a copy for readers.

Invariants
  T1  The first stop in the log before the retirement is the record; later ones raise the level or shorten the
      grace, never more. Stops behind the retirement change nothing.
  T2  The first retirement stands. Its outcome is ``cancelled`` if a stop precedes it, else the one proposed.
  T3  ``cancelled`` is stored only if a stop of level ``cancel`` or more precedes the retirement. ``_due``, which is
      all that a checkpoint reads, is stored with it, or for a pause (``tokens.pausing``); it never goes back.
  T4  Whoever finds an entry whose consequences are not all visible makes them visible (``_settle``) before it
      answers. So an answer never runs ahead of the flag, however long the first canceller is held up.
  T5  A child is put on the parent's list and *then* reads the parent's log; the parent writes its log and *then*
      reads the list (the argument of ``tokens.event``).
  T6  The flag is stored before the parts are looked for; parts are entered in the log before the flag is read.
  T7  A retirement may be overruled once, by an authority that had accepted a stop before (``tokens.ruled``): that stop
      then counts as if it preceded it.

Lock order: there are no locks. May block: nothing in this file. Every function may be called from any thread, a
signal handler, a finalizer, or a callback of the same token. Inline callbacks run on the canceller's stack, after
all flags and wake-ups, those below first. Not promised: that ``cancelled`` means that anything has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl import points
from turnctl.clock import monotonic
from turnctl.records.stops import accepted
from turnctl.tokens.entries import CANCEL, Entry, Parts, Retirement, Stop, adds, answer, derive, outcome_of, read
from turnctl.tokens.event import release_all
from turnctl.tokens.scope import unlink
from turnctl.tokens.tree import all_below

if TYPE_CHECKING:
    from turnctl.records.stops import Outcome, StopAnswer

__all__ = ["TokenCore"]


class TokenCore:
    """The mechanism under every token; ``turnctl.tokens.token`` gives it its public face."""

    __slots__ = ("__weakref__", "_due", "_log", "_parent", "_parts", "cancelled")

    cancelled: bool
    _due: bool

    def __init__(self) -> None:
        self.cancelled = False
        self._due = False
        self._log: list[Entry] = []
        self._parts: Parts | None = None
        self._parent: TokenCore | tuple[TokenCore, ...] | None = None

    def _ids(self) -> tuple[str | None, str | None]:
        return None, None

    def _source(self) -> str | None:
        return None

    # -- a stop -----------------------------------------------------------------------------------------------

    def _enter(self, stop: Stop, *, inline: bool = True) -> StopAnswer:
        try:
            log = self._log
            count = len(log)
            head = log[0] if count == 1 else None
            if count == 0 or type(head) is Parts:
                if points.hook is not None:
                    points.reach("token.cancel.entering")
                log.append(stop)
                if points.hook is not None:
                    points.reach("token.cancel.entered")
                if len(log) == count + 1:
                    # nobody else has entered anything, so this is the one on record: the short way to the waiters
                    if stop.level != "soft":
                        self.cancelled = self._due = True
                        if points.hook is not None:
                            points.reach("token.cancel.flagged")
                    if len(log) == count + 1:  # T6: the parts are looked for after the flag has been stored
                        if type(head) is Parts:
                            self._show(head)
                            if head.kids or head.calls:
                                self._carry(inline)
                        # what is done here is done while the woken threads come up
                        return accepted(stop, *self._ids())
                self._settle(inline=inline)
                return answer(log, stop, *self._ids())
            return self._enter_late(stop, inline)
        except BaseException:
            # a raising handler, or an exception thrown into this thread: what was entered is still made visible (T4)
            self._settle(inline=inline)
            raise

    def _enter_late(self, stop: Stop, inline: bool) -> StopAnswer:
        """Enter a stop where there are others, or the end, unless it changes nothing."""
        log = self._log
        first, level, grace, end = read(log)
        if end is not None or (first is not None and not adds(stop, level, grace)):
            self._settle(inline=inline)  # T4
            return answer(log, None, *self._ids())
        points.reach("token.cancel.entering")
        log.append(stop)
        points.reach("token.cancel.entered")
        self._settle(inline=inline)
        return answer(log, stop, *self._ids())

    # -- making entries visible -------------------------------------------------------------------------------

    def _settle(self, *, inline: bool = True) -> None:
        """Make everything that the log says visible: flag, event, waiters, children, callbacks, retirement.

        Without ``inline`` the inline callbacks are left to the bridge: the caller stands under a foreign lock.
        """
        first, level, _, end = read(self._log)
        if first is not None:
            if level >= CANCEL:
                self.cancelled = self._due = True
                points.reach("token.cancel.flagged")
            parts = self._parts_now()
            if parts is not None:
                self._show(parts)
                if parts.kids or parts.calls:
                    self._carry(inline)
        if end is not None:
            self._wind_up()

    def _show(self, parts: Parts) -> None:
        """Wake this token's waiters and ring its bells, after the flag has been stored."""
        if parts.cells:
            event = parts.cells.get("event")
            if event is not None and self.cancelled:
                event._flag = True
                if event._waiters is not parts.waiters:
                    release_all(event._waiters)
        if parts.bells:
            for bell in list(parts.bells):
                bell()
        release_all(parts.waiters)  # last: what is done after it delays the waiter

    def _nudge(self) -> None:
        """Wake every waiter here and below, to look again; changes nothing."""
        for token in all_below(self):
            parts = token._parts_now()
            if parts is not None:
                token._show(parts)

    def _carry(self, inline: bool) -> None:
        """Carry the stop down the tree, then run inline callbacks, leaves first. A loop: trees may be deep."""
        found: list[TokenCore] = [self]
        derived: list[Stop] = []
        for token in found:
            parts = token._parts_now()
            if parts is None:
                continue
            if token is not self:
                token._show(parts)
            if not parts.kids:
                continue
            if not derived:
                derived = derive(self._log, self._source())
            for ref in list(parts.kids):  # T5
                kid = ref()
                if kid is not None and kid._follow(derived):
                    found.append(kid)
        if inline:
            for token in reversed(found):  # from the leaves up: what is below is told before what it belongs to
                token._run_inline()

    def _follow(self, derived: list[Stop]) -> bool:
        """Enter what a parent was asked; whether there is more to do below or around this token."""
        more = False
        for one in derived:
            more = self._enter_derived(one) or more
        return more

    def _enter_derived(self, derived: Stop) -> bool:
        log = self._log
        if not log:
            log.append(derived)
            if len(log) == 1:
                if derived.level != "soft":
                    self.cancelled = self._due = True
                # read again after the store: parts that came in between have read the log and not the flag
                return len(log) != 1
        first, level, grace, end = read(log)
        if end is not None and first is None:
            return False
        if end is None and (first is None or adds(derived, level, grace)):
            log.append(derived)
            first, level, grace, end = read(log)
        if level >= CANCEL:
            self.cancelled = self._due = True
        return first is not None

    def _run_inline(self) -> None:
        parts = self._parts_now()
        if parts is None or not self.cancelled:
            return
        for registration in list(parts.calls):
            if registration.inline:
                registration._run_once()

    # -- the end ----------------------------------------------------------------------------------------------

    def _retire(self, proposed: Outcome) -> bool:
        """Decide the outcome and retire, in one step; False if it had been done before (T2)."""
        log = self._log
        if log and read(log)[3] is not None:
            self._settle()
            return False
        end = Retirement(proposed)
        points.reach("token.end.entering")
        log.append(end)
        points.reach("token.end.entered")
        if len(log) == 1:  # it is alone, so it stands; who enters a stop from here on finds it, and settles (T4)
            self._wind_up()
            return True
        self._settle()
        return read(log)[3] is end

    def _overrule(self, proposed: Outcome, stop: Stop | None = None) -> None:
        """Correct a decision that a higher authority has made otherwise: with ``stop`` it is cancelled by that.

        What was answered meanwhile stays answered: that it had ended.
        """
        end = read(self._log)[3]
        if end is not None:
            end.proposed = proposed
            end.overruled = end.overruled or stop
            self._settle()

    def _wind_up(self) -> None:
        parts = self._parts_now()
        if parts is not None:
            event = parts.cells.get("event")
            if event is not None:
                event._retire()
            release_all(parts.waiters)
            for bell in list(parts.bells):
                bell()
            if not self.cancelled:
                for registration in list(parts.calls):  # they will never run, and would keep what they refer to
                    if parts.calls.pop(registration, registration) is None:
                        registration._drop()
        if self._parent is not None:
            unlink(self)

    # -- the parts --------------------------------------------------------------------------------------------

    def _parts_now(self) -> Parts | None:
        parts = self._parts
        if parts is None:
            for entry in self._log:
                if type(entry) is Parts:
                    return entry
        return parts

    def _grow(self) -> Parts:
        """The parts, made if need be. Two threads that make them at once get the same: the log decides."""
        parts = self._parts_now()
        if parts is None:
            self._log.append(Parts())
            parts = self._parts_now()
            assert parts is not None
        self._parts = parts
        return parts

    def _stops(self) -> list[Stop]:
        """Every stop that counts, in order (T1)."""
        found: list[Stop] = []
        for entry in self._log:
            if type(entry) is Retirement:
                if entry.overruled is not None:
                    found.append(entry.overruled)
                break
            if type(entry) is Stop:
                found.append(entry)
        return found

    def _state(self) -> str:
        first, level, _, end = read(self._log)
        if end is not None:
            text = f"retired {outcome_of(first, end)}"
        elif level >= CANCEL:
            text = "cancelled"
        elif first is not None:
            text = "stopping"
        else:
            text = "live"
        if first is not None:
            text += f" cause={first.cause} {monotonic() - first.at:.3g}s ago"
        return text
