"""``install``: opt-in changes to the process for code that cannot be edited, each undone by ``uninstall``.

``threads`` has ``Thread.start`` and ``ThreadPoolExecutor.submit`` copy the caller's context, as Python 3.14 can do for
threads by itself and no version does for the jobs of a pool. ``single_turn`` lets code that nothing is bound for obey
the only turn of the process. Other rooms add changes of their own (``more``).

Invariants
  I1  Each change is counted: it is made with the first ``install`` that asks for it and undone with the last
      ``uninstall``. What was found is put back, the same object (but for ``Lasting``).
  I2  Where somebody has put a function of theirs on top of ours, theirs stays: ours is below it and passes calls on
      unchanged from then on, and a ``RuntimeWarning`` says so. A later ``install`` goes on top of theirs.
  I3  A thread that turnctl itself starts, told by who starts it and not by its name, is left alone, and so is a pool's
      worker: it outlives the turn that happens to start it and must not carry that turn's context. Its jobs do.

Lock: ``_changes``, held for a few assignments. May block: nothing. Not promised: that threads started in C, by
``_thread``, or by ``multiprocessing.pool.ThreadPool`` for its workers, carry anything.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Self

from turnctl import log
from turnctl.errors import BadArgument, TurnctlError
from turnctl.tokens import current, registry
from turnctl.tokens.sites import is_ours

if TYPE_CHECKING:
    from turnctl.tokens.token import CancelToken

__all__ = ["Change", "Installed", "Lasting", "install", "uninstall"]


class Change:
    """One name of another module, replaced by one of ours while it is counted above zero.

    Rooms above this one make their own, and hand them to ``install``. ``make`` is called with the change, whose
    ``original`` is what it found, and whose ``count`` is 0 once ours has to do nothing any more.
    """

    def __init__(self, owner: Callable[[], Any], name: str, make: Callable[[Change], Callable[..., Any]]) -> None:
        self._owner = owner
        self._name = name
        self._make = make
        self._ours: Callable[..., Any] | None = None
        self.original: Callable[..., Any] | None = None
        self.count = 0

    def enter(self) -> None:
        self.count += 1
        if self.count > 1:
            return
        owner = self._owner()
        found = owner.__dict__[self._name]
        if found is not self._ours:  # else it was covered the last time, and is on top again
            self.original = found
            self._ours = self._make(self)
            setattr(owner, self._name, self._ours)

    def leave(self) -> str | None:
        """Take one off the count, and ours out with the last; what to tell if that is not to be had."""
        self.count -= 1
        if self.count > 0:
            return None
        owner = self._owner()
        now = owner.__dict__.get(self._name)
        if now is self._ours:
            setattr(owner, self._name, self.original)
            self._ours = self.original = None
            return None
        other = getattr(now, "__module__", now)
        return (
            f"{owner.__name__}.{self._name} was replaced by {other} after turnctl.install(); that one stays, with ours "
            "below it, which does nothing any more"
        )


class Lasting(Change):
    """One that stays once it was made, and does nothing for who did not ask.

    For one half of a pair that would be lost on what is under way when the other half is undone: a lock that ours
    waits for and the original frees, which wakes nobody; a connection that ours bound and the original gives back.
    """

    def leave(self) -> str | None:
        return None


def _thread_start(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def start(self: threading.Thread) -> None:
        if change.count > 0 and _is_for_us(self) and not is_ours(sys._getframe(1).f_code.co_filename):  # I3
            self.run = _Run(self)  # type: ignore[method-assign]
        try:
            original(self)
        except BaseException:
            if isinstance(self.__dict__.get("run"), _Run):
                del self.run
            raise

    return start


class _Run:
    """Stands for ``thread.run`` until the thread runs."""

    __slots__ = ("context", "run", "thread")

    def __init__(self, thread: threading.Thread) -> None:
        self.thread = thread
        self.run = thread.run
        self.context = copy_context()

    def __call__(self) -> None:
        self.thread.__dict__.pop("run", None)
        context, run = self.context, self.run
        del self.context, self.run, self.thread
        context.run(run)


def _is_for_us(thread: threading.Thread) -> bool:
    held = thread.__dict__
    if "_name" not in held or thread.ident is not None or "run" in held:
        return False  # not initialised or started before, which the original tells; or made so by somebody else
    # one that was given a context (Python 3.14) keeps that
    return held.get("_context") is None


def _pool_submit(change: Change) -> Callable[..., Any]:
    original: Any = change.original

    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if change.count <= 0:
            return original(self, fn, *args, **kwargs)
        # in an empty context: a worker that is started now keeps what it is started with (I3)
        return Context().run(original, self, copy_context().run, fn, *args, **kwargs)

    return submit


def _thread_class() -> Any:
    return threading.Thread


def _pool_class() -> Any:
    from concurrent.futures.thread import ThreadPoolExecutor

    return ThreadPoolExecutor


_changes = threading.RLock()
_threads = (Change(_thread_class, "start", _thread_start), Change(_pool_class, "submit", _pool_submit))
_adopting = 0
_told_ambiguous = False
_stack: list[Installed] = []


class Installed:
    """What one ``install`` changed; the end of its ``with``, or ``uninstall()``, undoes it."""

    def __init__(self, names: tuple[str, ...], changes: tuple[Change, ...]) -> None:
        self._names = names
        self._changes = changes
        self._is_in = False

    def _enter(self) -> Self:
        global _adopting, _told_ambiguous
        with _changes:
            for change in self._changes:
                change.enter()
            if "single_turn" in self._names:
                _adopting += 1
                _told_ambiguous = False
                current.adopter = _only_token
            self._is_in = True
            _stack.append(self)
        return self

    def uninstall(self) -> None:
        """Undo this one; may be called twice. Others that were installed stay."""
        global _adopting
        with _changes:
            if not self._is_in:
                return
            self._is_in = False
            _stack.remove(self)
            told = [text for change in reversed(self._changes) if (text := change.leave()) is not None]
            if "single_turn" in self._names:
                _adopting -= 1
                if _adopting == 0:
                    current.adopter = None
        for text in told:
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def __repr__(self) -> str:
        return f"<Installed {', '.join(self._names)}{'' if self._is_in else ', undone'}>"


def install(
    *,
    threads: bool = False,
    single_turn: bool = False,
    more: Mapping[str, tuple[Change, ...]] | None = None,
) -> Installed:
    """``turnctl.install`` without what rooms above this one have to offer, which comes as ``more``, by name."""
    for name, given in (("threads", threads), ("single_turn", single_turn)):
        if given is not True and given is not False:
            raise BadArgument(f"install({name}=...) is True or False, not {given!r}")
    found = {"threads": _threads if threads else (), **(more or {})}
    names = [name for name, changes in found.items() if changes]
    if single_turn:
        names.append("single_turn")
    if not names:
        raise BadArgument(
            "install() has nothing to install: give threads=True, single_turn=True, subprocess=True or http=True"
        )
    return Installed(tuple(names), tuple(change for changes in found.values() for change in changes))._enter()


def uninstall() -> None:
    """Undo the ``install`` that was made last. Raises ``TurnctlError`` if there is none."""
    with _changes:
        last = _stack[-1] if _stack else None
    if last is None:
        raise TurnctlError("nothing is installed: turnctl.install() was not called, or was undone already")
    last.uninstall()


def _only_token() -> CancelToken | None:
    """The token of the only turn that is not over. With several nobody can tell which is meant, so it is none.

    It refuses by finding nothing, and one line in the log, rather than by an error: a second turn would otherwise
    break code that ran well.
    """
    global _told_ambiguous
    turns = registry.all_turns()
    if len(turns) == 1:
        return turns[0]._token
    if turns and not _told_ambiguous:
        _told_ambiguous = True
        log.warning("single_turn.ambiguous", turns=" ".join(turn.turn_id for turn in turns))
    return None


def _begin_anew() -> None:
    global _changes
    _changes = threading.RLock()  # a thread that a fork does not have may hold the other one


os.register_at_fork(after_in_child=_begin_anew)
