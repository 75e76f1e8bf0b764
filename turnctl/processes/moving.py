"""Giving a command that runs, or what it left behind, to another owner, or letting it go: in one step.

Invariants
  H1  The thread that drives the command decides, between two looks at what is wanted; it answers each request once.
  H2  Before that the command is the old owner's, after it the new one's; at no moment nobody's, and never both's to
      end. Each holds a stand-in meanwhile, which goes by the decision.
  H3  A stop, or the end, of either owner that was accepted before the decision has it refused; one that came later is
      the new owner's alone to give. The old owner's stand-in is stored and *then* its stop is read again; an owner that
      ends stores that and *then* reads what it holds. So one of the two sees the other.

May block: ``move``, until the driving thread looks up, which it does at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from turnctl import points
from turnctl.errors import CancelledError, TurnctlError
from turnctl.processes.account import Account
from turnctl.processes.demand import Demanded
from turnctl.processes.spec import Spec
from turnctl.processes.undisturbed import Undisturbed
from turnctl.tokens.activities import Activity, Owner

if TYPE_CHECKING:
    from turnctl.records.process import Completed, ProcessOutcome

__all__ = ["Movable", "Move", "contract_of", "words_of"]

_RELEASED = "released: it is this program's own again"


def words_of(owner: Owner) -> str:
    """What a ledger calls a turn of this program as an owner: the incarnation that it works on, else the turn."""
    return getattr(getattr(owner, "_ruling", None), "inc", None) or f"turn {owner.turn_id}"


def contract_of(owner: Owner) -> str:
    """What holds where nothing else was agreed."""
    return f"ends with turn {owner.turn_id}"


class Move:
    """One request. ``to`` is the new owner; None has the command let go, which ends nothing."""

    __slots__ = ("_answered", "_is_moved", "activity", "to", "unwatch", "why", "words")

    def __init__(self, command: Movable, to: Owner | None, words: str = _RELEASED) -> None:
        """Take the place at the new owner. Raises ``TurnOver`` if that takes no more."""
        self.to = to
        self.words = words if to is None else f"to turn {to.turn_id}"
        self.why = ""
        self._is_moved = False
        self._answered = threading.Event()
        self.activity: Activity | None = None
        self.unwatch: Callable[[], object] = _nothing
        if to is not None:
            self.activity = to.admit(_Arriving(command, self))
            try:
                self.activity.own()
                self.unwatch = to.watch(command._on_bell)
            except BaseException:
                self.refuse("it could not be recorded or watched for its new owner")
                raise

    def accept(self) -> None:
        self._is_moved = True
        self._answered.set()

    def refuse(self, why: str) -> None:
        """Leave everything as it is. A second answer changes nothing."""
        if self._answered.is_set():
            return
        self.why = why
        self.unwatch()
        if self.activity is not None:
            self.activity.close("cancelled", f"was not handed over: {why}")
            self.activity.owned = None
        self._answered.set()

    @property
    def is_moved(self) -> bool | None:
        """Whether it was done; None until that has been decided."""
        return self._is_moved if self._answered.is_set() else None

    def wait(self) -> bool:
        """Block until it has been decided; whether it was done."""
        self._answered.wait()
        return self._is_moved


class _Arriving:
    """What the new owner holds until it is decided."""

    def __init__(self, command: Movable, move: Move) -> None:
        self.kind = command.kind
        self.name = command.name
        self._command = command
        self._move = move

    def ask(self) -> None:
        if self._move.is_moved:
            self._command.ask()  # else the decision reads the owner's stop by itself (H3)

    def end(self, kill_at: Callable[[], float]) -> None:
        if self._move.wait():
            self._command.end(kill_at)

    def alive(self) -> tuple[str, ...]:
        return self._command.alive() if self._move.is_moved else ()

    def outcome(self) -> ProcessOutcome | None:
        return self._command.outcome() if self._move.is_moved else None


class _Handed:
    """What the old owner keeps: the outcome as it was, and nothing to end once it is decided."""

    def __init__(self, command: Movable, move: Move, outcome: ProcessOutcome | None) -> None:
        self.kind = command.kind
        self.name = command.name
        self._command = command
        self._move = move
        self._outcome = outcome

    def ask(self) -> None:
        if self._move.is_moved is False:
            self._command.ask()

    def end(self, kill_at: Callable[[], float]) -> None:
        if not self._move.wait():
            self._command.end(kill_at)

    def alive(self) -> tuple[str, ...]:
        return self._command.alive() if self._move.is_moved is False else ()

    def outcome(self) -> ProcessOutcome | None:
        return self._command.outcome() if self._move.is_moved is False else self._outcome


class Movable(Demanded):
    """The side of a supervised command that can change its owner."""

    kind = "process"
    #: whether it can be let go of, so that nothing ends it with this program
    can_be_released = False
    account: Account
    _unwatch: Callable[[], object]

    def __init__(self, spec: Spec, owner: Owner) -> None:
        super().__init__(spec, owner)
        self._moves: list[Move] = []
        #: told of the new owner
        self.on_moved: Callable[[Owner], object] = lambda _: None
        #: what the last one who gave it away keeps in its report
        self.handed: ProcessOutcome | None = None

    @property
    def name(self) -> str:
        raise NotImplementedError

    def alive(self) -> tuple[str, ...]:
        raise NotImplementedError

    def outcome(self) -> ProcessOutcome | None:
        raise NotImplementedError

    def _handed_outcome(self, to: Owner | None) -> ProcessOutcome | None:
        """What the old owner's report says of it from now on."""
        raise NotImplementedError

    def is_of(self, completed: Completed) -> bool:
        """Whether that is the result of this command."""
        now = self.outcome()
        return now is not None and now.pid == completed.outcome.pid and now.leftovers == completed.outcome.leftovers

    # -- its row in a ledger -----------------------------------------------------------------------------------

    def _have_recorded(self, quiet: Undisturbed) -> None:
        """Have it on record before it is started. The store may have to be waited for, which a signal must reach."""
        quiet.end()
        try:
            self._activity.own()
        except CancelledError:
            self._activity.close("cancelled", "stopped before it was started")
            raise
        quiet.begin()
        self.account.on_signal = self._signalled
        points.reach("processes.run.recorded")

    def _signalled(self, name: str) -> None:
        """A signal was sent to it; told to whoever owns it now, if it is to end it."""
        custody = self._custody
        if self.phase in ("ending", "over") or (custody is not None and custody.began_by_itself):
            self._activity.signalled(name)

    def _identify(self) -> None:
        """Say to its activity which process it is."""
        self.account.on_signal = self._signalled
        self._activity.identify(None if self._custody is None else self._custody.pid)

    def _let_go(self) -> None:
        """End the supervision and leave what it was of alone."""
        raise NotImplementedError

    @property
    def activity(self) -> Activity:
        """Its entry with whoever owns it now."""
        return self._activity

    @property
    def owner(self) -> Owner:
        """Whose it is now."""
        return self._owner

    @property
    def _is_called(self) -> bool:
        return self._asked or bool(self._moves)

    # -- asking for it: any thread ---------------------------------------------------------------------------

    def move(self, to: Owner | None, words: str = _RELEASED) -> Move:
        """Have it become ``to``'s, or let go with None; blocks until that is decided. See ``Move`` for the answer."""
        move = Move(self, to, words)
        self._moves.append(move)
        self.wake()
        if self.phase == "left":
            try:
                self._drive_in_background()
            except RuntimeError:  # no thread to be had
                self._drive_here(self._go_on)
        if self.phase == "over":  # read after the request was stored: who drove may not have seen it
            self._refuse_moves()
        move.wait()
        return move

    # -- deciding: the thread that drives --------------------------------------------------------------------

    def _answer_moves(self) -> None:
        while self._moves and self.phase != "over":
            self._answer(self._moves.pop(0))
        if self.phase == "over":
            self._refuse_moves()

    def _refuse_moves(self) -> None:
        while True:
            try:
                move = self._moves.pop(0)
            except IndexError:
                return
            move.refuse("it has ended already")

    def _answer(self, move: Move) -> bool:
        """Decide (H1); whether it was done."""
        points.reach("processes.move.deciding")
        why = self._why_not(move)
        if why:
            move.refuse(why)
            return False
        activity = self._activity
        handed = self._handed_outcome(move.to)
        activity.owned = _Handed(self, move, handed)
        points.reach("processes.move.stored")
        why = self._why_not(move)
        if why:
            activity.owned = self
            move.refuse(why)
            return False
        to, undo, self.handed = move.to, self._unwatch, handed
        if to is None:
            activity.close_here("detached", move.words)
            self._let_go()
        else:
            assert move.activity is not None
            self._owner, self._unwatch, self._activity = to, move.unwatch, move.activity
            move.activity.owned = self
            self._identify()
            self.on_moved(to)
            activity.close_here("detached", move.words)
            if self.phase == "left" and to.stop_wanted():
                self._asked = True
        move.accept()
        undo()
        self._tell_foreseen()
        return True

    def _why_not(self, move: Move) -> str:
        if self._asked or self.phase == "ending" or self._owner.stop_wanted():
            return "it is being ended"
        if move.to is not None and move.to.stop_wanted():
            return f"turn {move.to.turn_id} is being stopped or has ended"
        return ""

    def _hand_over(self, to: Owner) -> str:
        """Do it here and now, on the thread that drives; why it was refused, else empty."""
        try:
            came_back = self._activity.detaching(words_of(to), contract_of(to))
        except (TurnctlError, CancelledError) as error:
            return str(error)
        try:
            move = Move(self, to)
        except (TurnctlError, CancelledError, RuntimeError) as error:
            came_back(str(error))
            return str(error)
        if not self._answer(move):
            came_back(move.why)
        return move.why


def _nothing() -> None:
    pass
