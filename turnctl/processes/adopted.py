"""A process that turnctl did not start, as the turn's: ended with it by the ladder, and in its report.

Who it is has been proved (``stranger``). What belongs to it is found by descent, group and session, so containment is
``best-effort``: what daemonised before it was adopted, or does so later between two looks, is not found. A process that
was given by its ``Popen`` keeps its status there; another child of this program is left for its maker to wait for.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnctl.processes.grouped import Grouped
from turnctl.processes.moving import Move
from turnctl.processes.process import Process
from turnctl.processes.scoped import scoped
from turnctl.processes.spec import Spec, make_spec
from turnctl.processes.stranger import LOOK_AGAIN_S, Stranger, prove, tree_of
from turnctl.processes.supervise import Supervision
from turnctl.tokens.threads import needing_threads

if TYPE_CHECKING:
    from turnctl.processes.account import Account
    from turnctl.processes.custody import Custody
    from turnctl.processes.output import Pump
    from turnctl.processes.pipes import Pipes
    from turnctl.processes.table import Entry
    from turnctl.tokens.activities import Owner
    from turnctl.waiting.wakeup import Wakeup

__all__ = ["Adopted", "adopt", "spec_for"]

_NOTE = "it was adopted: what belongs to it is found by descent, group and session"


class Keeping(Grouped):
    """An adopted process, as the loop holds it."""

    why_unknown = "it is no child of this program, or another part of it took the status"

    def __init__(self, stranger: Stranger, spec: Spec, account: Account, wake: Callable[[], None]) -> None:
        super().__init__(stranger.pid, spec, account, wake)
        self.leader = stranger

    def watch(self, pump: Pump) -> None:
        assert isinstance(self.leader, Stranger)
        self.tree = tree_of(self.leader)
        if self.leader.fd is not None:
            pump.watch(self.leader.fd)

    def look_at(self, now: float) -> float | None:
        return now + LOOK_AGAIN_S if self.leader.fd is None else super().look_at(now)

    def undo(self) -> None:
        """It was there before, so it is left alone."""
        self.leader.reap()

    def let_go(self) -> None:
        self.tree.close()
        self.leader.reap()

    def strike(self) -> None:
        for member in self.tree.members():
            self.tree.signal_one(member, signal.SIGKILL)


class Adoption(Supervision):
    """The supervision of an adopted process: from its admission, without a start, to its end or release."""

    can_be_released = True

    def __init__(self, stranger: Stranger, spec: Spec, owner: Owner, changed: Callable[[], None]) -> None:
        super().__init__(spec, owner, stdout=None, stderr=None, stdin=None, keeps_leftovers=True, changed=changed)
        self._stranger = stranger

    def launch(self) -> None:
        self._drive_here(self._start)
        try:
            with needing_threads(self.name):
                self._drive_in_background()
        except BaseException:
            move = Move(self, None)
            self._moves.append(move)
            self._drive_here(self._answer_moves)
            raise

    def _hold(self, pipes: Pipes, wakeup: Wakeup) -> Custody:  # noqa: ARG002 - it has its own
        self.account.note(_NOTE)
        return Keeping(self._stranger, self.spec, self.account, wakeup.ring)

    def _let_go(self) -> None:
        custody = self._held
        assert isinstance(custody, Keeping)
        self._pump.close()
        custody.let_go()
        self.phase = "over"
        self._is_over()
        if self._wakeup is not None:
            self._wakeup.close()
        self._tell()


class Adopted(Process):
    """A process that a turn has adopted; made by ``turn.adopt``.

    It ends with its turn at the latest: asked, and killed after the grace, with what was found to belong to it.
    ``wait`` is a checkpoint. ``returncode`` is known for a child of this program alone. Its streams are not turnctl's.
    Leaving its ``with`` ends it, as with any handle; ``release`` lets it go on.
    """

    def __init__(self, stranger: Stranger, spec: Spec, owner: Owner) -> None:
        self._owner = owner
        self._coding = None
        self._changed = threading.Condition()
        self._source = None
        self.stdout = self.stderr = None
        self._supervision = Adoption(stranger, spec, scoped(owner), self._notify)
        self._supervision.on_moved = self._go_to
        self.args = spec.given
        self.pid = stranger.pid
        self._supervision.launch()

    def release(self) -> bool:
        """Let it be this program's own again, which ends nothing; whether that was done.

        False if it has ended, or is being ended. The turn's report says that it was released. Blocks for a moment at
        most; not a checkpoint.
        """
        self._refuse_in_fork()
        return self._supervision.move(None).wait()


def adopt(owner: Owner, process: Any, *, grace: float | str | None, stop_signal: int | str) -> Adopted:
    """Make ``process`` the owner's; see ``Turn.adopt``."""
    scoped(owner).check()
    entry, fd = prove(process, what="cannot be adopted")
    stranger = Stranger(entry, fd, None if isinstance(process, int) else process)
    try:
        return Adopted(stranger, spec_for(entry, grace=grace, stop_signal=stop_signal), owner)
    except BaseException:
        stranger.reap()
        raise


def spec_for(entry: Entry, *, grace: float | str | None, stop_signal: int | str, title: str | None = None) -> Spec:
    """What stands for the command of a process that is there already."""
    try:
        with open(f"/proc/{entry.pid}/cmdline", "rb") as file:
            argv = [part.decode("utf-8", "backslashreplace") for part in file.read(65536).split(b"\0")[:-1]]
    except OSError:
        argv = []
    return make_spec(
        [title] if title is not None else argv or [entry.name or str(entry.pid)],
        shell=False,
        cwd=None,
        env=None,
        stdin="null",
        stdout="null",
        stderr="null",
        timeout=None,
        grace=grace,
        stop_signal=stop_signal,
        tty=None,
        close_fds=True,
        on_start=None,
        before_exec=None,
    )
