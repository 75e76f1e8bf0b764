"""Handing what a turn owns over to another one: a command, what a command left, an adopted process, an activity.

The new owner ends it and reports it; the old one's report says to whom it went. An owner has to be there to end what it
is given, so it is a live turn of this program: text that would name one elsewhere is refused (``owner_of`` is the one
place where other kinds of owner are to be made).

Blocks only until the thread that drives the command has decided, which it does at once; not a checkpoint. What a stop
or an end of either turn does in between stands in ``docs/guarantees.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnctl.errors import BadArgument, TurnOver
from turnctl.processes.moving import Movable, contract_of, words_of
from turnctl.processes.unowned import Unowned
from turnctl.records.process import Completed
from turnctl.tokens.activities import Activity
from turnctl.tokens.ids import check_name
from turnctl.tokens.token import TurnToken
from turnctl.tokens.turn import TurnCore

if TYPE_CHECKING:
    from turnctl.processes.request import Leftovers
    from turnctl.tokens.activities import Owner

__all__ = ["detach", "heir_of", "owner_of"]


def owner_of(given: object, holder: Owner) -> TurnCore:
    """The live turn that ``given`` stands for. Raises ``BadArgument``, or ``TurnOver`` for one that has ended."""
    if isinstance(given, TurnToken):
        given = given._turn or _refuse_over(given.turn_id)
    if isinstance(given, str):
        raise BadArgument(
            f"owner={given!r} is text, and an owner outside this program needs a ledger: a turn that works on a task, "
            "with turn(task=...); else give a turn of this program that is running"
        )
    if not isinstance(given, TurnCore):
        raise BadArgument(f"owner is {given!r}; give the running turn that is to end and report it")
    if given is holder:
        raise BadArgument(f"owner is turn {given.turn_id} itself, whose it is already; give another turn")
    given.token  # noqa: B018 - refuses one that has not begun
    if given.is_over or given.stop_wanted() or given.activities.is_closed:
        _refuse_over(given.turn_id)
    return given


def _refuse_over(turn_id: str) -> TurnCore:
    raise TurnOver(f"turn {turn_id} is being stopped or has ended, so it cannot own anything more", turn_id=turn_id)


def heir_of(leftovers: Leftovers, owner: object | None, holder: Owner) -> TurnCore | None:
    """Who gets the leftovers of a command; None but for ``detach``."""
    if leftovers == "detach":
        if owner is None:
            raise BadArgument(
                'leftovers="detach" needs owner=, the running turn that is to end them; to keep them until this turn '
                'ends, use leftovers="end"'
            )
        return owner_of(owner, holder)
    if owner is not None:
        raise BadArgument(f'owner= is for leftovers="detach" alone; with {leftovers!r} leave it out')
    return None


def detach(turn: TurnCore, what: object, owner: object, contract: str | None = None) -> None:
    """Hand ``what`` over from ``turn`` to ``owner``; see ``Turn.detach``."""
    if owner is None:
        raise BadArgument(
            "detach() needs owner=, a running turn that is to end it; without a ledger nothing is left unowned"
        )
    if contract is not None and not check_name(contract):
        raise BadArgument(f"contract is a text that says under what the new owner has it, not {contract!r}")
    if _is_task(what):
        _detach_task(turn, what, owner, contract)
        return
    found = _find(turn, what)
    if isinstance(owner, str) and (found if isinstance(found, Activity) else found.activity).has_record:
        _let_go(turn, found, owner, contract)
        return
    heir = owner_of(owner, turn)
    if isinstance(found, Activity):
        _detach_activity(found, heir, contract)
        return
    if found.is_foreign:
        raise BadArgument(f"{found.name} belongs to the process that started it, not to its forked child")
    came_back = found.activity.detaching(words_of(heir), contract or contract_of(heir))
    try:
        move = found.move(heir)
        why = "" if move.wait() else move.why
    except BaseException as error:
        came_back(str(error))
        raise
    if why:
        came_back(why)
        raise TurnOver(
            f"{found.name} was not handed over to turn {heir.turn_id}, since {why}; it stays with turn {turn.turn_id}",
            turn_id=turn.turn_id,
        )


def _is_task(what: object) -> bool:
    return isinstance(getattr(what, "inc", None), str) and hasattr(what, "tenant")


def _detach_task(turn: TurnCore, what: object, owner: object, contract: str | None) -> None:
    """A task that was submitted below the turn's own: it runs on when that one is cancelled."""
    ruling = turn._ruling
    if ruling is None:
        raise BadArgument(f"{what!r} is no task below turn {turn.turn_id}, which works on none")
    if isinstance(owner, str):
        ruling.lets_go(what, _outside(owner), _with_contract(owner, contract))
    else:
        heir = owner_of(owner, turn)
        ruling.lets_go(what, words_of(heir), contract or contract_of(heir))


def _outside(owner: str) -> str:
    if not check_name(owner):
        raise BadArgument(f"an owner outside this program is a non-empty str, not {owner!r}")
    return owner


def _with_contract(owner: str, contract: str | None) -> str:
    if contract is None:
        raise BadArgument(f"owner={owner!r} is outside this program: say under what it has it, with contract=")
    return contract


def _let_go(turn: TurnCore, found: Movable | Activity, owner: str, contract: str | None) -> None:
    """Let it go to an owner outside of this program, which the ledger keeps; nothing here ends it any more."""
    given = _with_contract(_outside(owner), contract)
    if isinstance(found, Activity):
        if not found.is_open:
            raise BadArgument(f"the {found.kind} {found.name} has ended, so there is nothing to detach")
        came_back = found.detaching(owner, given)
        if not found.close_here("detached", f"to {owner}"):
            came_back("it had ended already")
        return
    if not found.can_be_released:
        raise BadArgument(
            f"{found.name} was started through turnctl and ends with this program, so no owner outside can have it; "
            "give a running turn, or start it in another way and adopt it"
        )
    came_back = found.activity.detaching(owner, given)
    move = found.move(None, words=f"to {owner}")
    if not move.wait():
        came_back(move.why)
        raise TurnOver(f"{found.name} was not let go of, since {move.why}", turn_id=turn.turn_id)


def _find(turn: TurnCore, what: object) -> Movable | Activity:
    command = getattr(what, "_supervision", None)  # of a handle, also of the stand-in for subprocess.Popen
    if isinstance(command, Movable):
        return _of_turn(turn, command)
    if isinstance(what, Completed):
        for activity in turn.activities.all():
            one = activity.owned
            if activity.is_open and isinstance(one, Movable) and one.is_of(what):
                return one
        raise BadArgument("that command has left nothing behind that is still this turn's, so nothing can be detached")
    if isinstance(what, Activity):
        if what not in turn.activities.all():
            raise BadArgument(f"the {what.kind} {what.name} is no activity of turn {turn.turn_id}")
        if what.owned is None:
            return what
        if isinstance(what.owned, Movable):
            return _of_turn(turn, what.owned)
    kind = getattr(what, "kind", None) or type(what).__name__
    raise BadArgument(
        f"a {kind} cannot be detached: it obeys the token of the turn that it was started in. What can be: the handle "
        "of turn.popen or turn.adopt, the result of turn.run with leftovers, the activity that turn.activity gives"
    )


def _of_turn(turn: TurnCore, command: Movable) -> Movable:
    if command.phase == "over":
        raise BadArgument(f"{command.name} has ended, so there is nothing to detach")
    if isinstance(command.owner, Unowned):
        raise BadArgument(f"{command.name} was started outside any turn, so turn {turn.turn_id} cannot give it away")
    if command.owner.turn_id != turn.turn_id:
        raise BadArgument(f"{command.name} belongs to turn {command.owner.turn_id}, not to turn {turn.turn_id}")
    return command


def _detach_activity(activity: Activity, heir: TurnCore, contract: str | None) -> None:
    """What only its own code ends: the account of it goes over, and its end is recorded there."""
    if not activity.is_open:
        raise BadArgument(f"the {activity.kind} {activity.name} has ended, so there is nothing to detach")
    came_back = activity.detaching(words_of(heir), contract or contract_of(heir))
    try:
        successor = heir.activities.admit(activity.kind, activity.name)
    except BaseException as error:
        came_back(str(error))
        raise
    successor.started_at = activity.started_at
    activity.successor = successor  # before the close, so that an end that comes in between is passed on
    if not activity.close_here("detached", f"to turn {heir.turn_id}"):
        activity.successor = None
        came_back("it had ended already")
        state, _, detail = activity.end or ("unknown", 0.0, None)
        successor.close(state, detail)
