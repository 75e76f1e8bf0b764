"""Throwing ``CancelledError`` into a function that runs on a thread of ours, and only while it runs.

CPython can have an exception raised in another thread at that thread's next step. Used bluntly it arrives after the
function has come back, in the middle of somebody's bookkeeping, or in another call on the same thread.

Invariants
  I1  The function's thread publishes its frame (``_frame``) while the function runs, and withdraws it *before* it
      takes back what may still be pending; nothing of a throw outlives ``run``.
  I2  A throw happens only while the thread stands in a frame that was looked at: one of the user's own code, above the
      published frame, with no frame of turnctl and no finalizer between them (``waiting.striking``). Looking once more
      and throwing are one step of C code, in which the interpreter switches no threads; a thread that stood there
      raises there, or, from C code that was called there, when it returns.
  I3  Every function of turnctl begins with a place where a pending throw is raised. So none is pending inside a
      wait, a callback or the entry of a shield, and none is thrown there (I2).
  I4  What the function brought is stored in the same step that ends it: a throw that comes later cannot lose it.
  I5  At most one throw is pending. It is not repeated while the function handles a ``CancelledError``.
  I6  A throw that falls into a finalizer all the same is not lost unseen: the interpreter hands it to
      ``sys.unraisablehook``, which is watched for as long as the function is being interrupted (``watching``).

Never blocks. Not promised: that the function ends (C code, ``except BaseException``), or that its own ``finally``
blocks are spared on the ordinary way; a ``with turnctl.shield()`` spares them. Not to be had without the GIL or on
other interpreters: ``throw`` then says False.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from operator import and_, attrgetter, eq, is_, itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from turnctl import points
from turnctl.errors import CancelledError
from turnctl.tokens.event import release_all
from turnctl.tokens.frames import calls_the_body
from turnctl.tokens.shielding import shield_over
from turnctl.tokens.sites import frame_of, undisturbed_frames
from turnctl.waiting.striking import why_not_into

if TYPE_CHECKING:
    from _thread import LockType
    from contextvars import Context
    from types import FrameType

    from turnctl.tokens.token import CancelToken

__all__ = ["Injection", "Interrupted"]

_set: Callable[[int, Any], int] | None = None
_nothing: Any = None
_ROUNDS = 10_000  # each is a step at which the interpreter raises what is pending
_place = attrgetter("f_lasti")


class Interrupted(CancelledError):
    """The ``CancelledError`` that was thrown into a blocking call; to the function it is like any other."""

    _of: ClassVar[Injection | None] = None

    def __init__(self, *_: object) -> None:
        injection = type(self)._of  # only a class can be thrown: each injection has one of its own
        if injection is None:
            super().__init__("the call was interrupted")
            return
        injection.delivered += 1
        token = injection.token
        if not token.cancelled:
            super().__init__("the call was interrupted: its turn has ended", token=token)
            return
        made = token._error()
        super().__init__(f"{made}; the call was interrupted", record=made.record, token=token)


class Injection:
    """The one call on a thread that may be interrupted."""

    def __init__(self, token: CancelToken) -> None:
        self.token = token
        self.thrown = 0
        self.delivered = 0
        #: how many of these fell into a finalizer, which ends there and tells nobody
        self.lost = 0
        #: who waits for one to be lost
        self.waiters: list[LockType] = []
        #: why the last ``throw`` threw nothing
        self.obstacle: str | None = None
        self._ident = 0
        self._context: Context | None = None
        self._frame: FrameType | None = None
        self._marker: type[Interrupted] | None = None

    @calls_the_body
    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function on this thread; while it runs, ``throw`` may be called on others."""
        # a dict that makes its item by calling the function: the value is stored before another step is made (I4)
        box: defaultdict[int, Any] = defaultdict(partial(fn, *args, **kwargs))
        self._ident = threading.get_ident()
        failed: BaseException | None = None
        self._frame = sys._getframe()
        try:
            box[0]
        except BaseException as error:  # noqa: BLE001 - raised below
            failed = error
        try:
            self._frame = None
            # I1. Let it come instead of taking it back: that would leave the interpreter's own mark up where nothing
            # clears it (3.11, 3.12), and the thread on its slow way for good, under a tracer for ever at one place
            for _ in range(_ROUNDS):
                if not self.is_pending:
                    break
            else:
                _set(self._ident, _nothing)  # type: ignore[misc] # it was lost on its way
        except Interrupted:
            pass  # too late: the function is back, and what it brought counts
        points.reach("inject.back")
        if box:
            return box[0]
        try:
            assert failed is not None
            raise failed
        finally:
            failed = None  # its traceback holds this frame

    @property
    def is_pending(self) -> bool:
        """Whether something was thrown that has not been raised yet."""
        return self.thrown > self.delivered

    def throw(self, context: Context) -> bool:
        """Have ``CancelledError`` raised in the function, if it stands where that may be; whether it was thrown.

        ``context`` is the one that the function runs in.
        """
        if self.is_pending:  # I5
            return False
        ident = self._ident
        frame = frame_of(ident)
        self.obstacle = self._look_at(frame, context)
        if self.obstacle is not None or frame is None:
            return False
        if self._marker is None:
            self._marker = type("Interrupted", (Interrupted,), {"_of": self, "__module__": __name__})
        at = frame.f_lasti
        points.reach("inject.looked")
        self.thrown += 1  # before: who comes back reads it
        assert _set is not None
        # From here on one call of C code: take the thread's frame again, compare, throw (I2)
        now = map(itemgetter(ident), iter(sys._current_frames, None))
        stands = map(and_, map(is_, now, (frame,)), map(eq, map(_place, (frame,)), (at,)))
        try:
            with undisturbed_frames():
                thrown = next(map(_set, compress((ident,), stands), (self._marker,)), 0)
        except KeyError:
            thrown = 0  # the thread has ended
        if not thrown:
            self.thrown -= 1
            self.obstacle = "it was on its way from one place to the next"
        return bool(thrown)

    def _look_at(self, frame: FrameType | None, context: Context) -> str | None:
        """Why the function is to be left alone for now; None if it may be struck."""
        if not _load():
            return "this interpreter has no way to do so"
        mine = self._frame
        if frame is None or mine is None:
            return "it was on its way in or out"
        if frame is mine:
            return "it stood in C code that nothing of Python called"
        if context.copy().run(shield_over, self.token, self._ident) is not None:
            return "it was under a shield"
        handled: Any = sys._current_exceptions().get(self._ident)
        if isinstance(handled, tuple):  # 3.11
            handled = handled[1]
        if isinstance(handled, CancelledError):
            return "it was cleaning up after a stop"
        return why_not_into(frame, mine, handled)

    # -- throws that fall into finalizers (I6) ----------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count, for the length of a ``with``, the throws of this call that the interpreter could raise nowhere."""
        before = sys.unraisablehook

        def hook(unraisable: Any) -> None:
            kind = unraisable.exc_type
            if getattr(kind, "_of", None) is self and issubclass(kind, Interrupted):
                self.lost += 1  # ours, and told by the account of the call
                release_all(self.waiters)
            else:
                before(unraisable)

        sys.unraisablehook = hook
        try:
            yield
        finally:
            if sys.unraisablehook is hook:  # or somebody has set theirs around it, and it goes on handing over
                sys.unraisablehook = before


def _load() -> bool:
    """Find the interpreter's function; whether there is one that keeps what is promised above."""
    global _set, _nothing
    if _set is not None:
        return True
    has_gil: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    if sys.implementation.name != "cpython" or (has_gil is not None and not has_gil()):
        return False
    try:
        import ctypes

        made = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)
        _nothing = ctypes.py_object()
        _set = made(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
    except (ImportError, AttributeError):
        return False  # built without it
    return True
