"""A command under its warden, as the host holds it."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Any

from turnctl.processes import link
from turnctl.processes.request import Steps, plain

if TYPE_CHECKING:
    import _socket

    from turnctl.processes.patience import Patience
    from turnctl.processes.upkeep import Launcher

__all__ = ["Warded"]

_ANSWERS = ("started", "failed", "ended", "lost", "unstarted", "leaving")


class _Closed:
    """What a ``Warded`` has for a socket when its warden was kept for another."""

    def fileno(self) -> int:
        return -1


_CLOSED: Any = _Closed()


class Warded:
    """A command under its warden. Owned by whoever supervises it; the requests may be sent from any thread."""

    __slots__ = (
        *("_came", "_launcher", "_number", "_sock", "_ward", "_was_unread"),
        *("began", "details", "is_over", "is_reusable", "pid"),
    )

    def __init__(self, sock: _socket.socket, launcher: Launcher, ward: int, number: int) -> None:
        self._sock = sock
        self._launcher = launcher
        # by which the launcher knows the warden
        self._ward = ward
        # goes with each request, so that a late one never reaches the warden's next command
        self._number = number
        self._came: list[link.Message] = []
        self._was_unread = False
        #: None while it is not known to have been started
        self.pid: int | None = None
        #: when it was started, on the kernel's monotonic clock
        self.began = 0.0
        #: more about how it is held
        self.details: dict[str, Any] = {}
        #: whether its last message (``ended`` or ``lost``) has been received
        self.is_over = False
        self.is_reusable = False

    def fileno(self) -> int:
        """Readable when there is something to ``read``."""
        return self._sock.fileno()

    def read(self) -> list[link.Message]:
        """What has been told since the last call; see ``link`` for the kinds. Never blocks.

        ``("lost",)`` is the last message where the warden and the launcher are both gone: nothing is known then.
        """
        self._receive()
        came, self._came = self._came, []
        return came

    def _receive(self) -> None:
        while self._receive_one() is not None:
            pass

    def _receive_one(self) -> link.Message | None:
        """The next message, which is noted; None if there is none now, or never again."""
        while not self.is_over:
            try:
                got = link.receive(self._sock)
            except link.Broken as broken:
                if broken.unread:
                    # told before what was sent last: that is still to be read, up to the plain end
                    self._was_unread = True
                    continue
                return self._note(("unstarted",) if self._was_unread and self._knows_nothing else ("lost",))
            if got is None:
                return None
            for fd in got[1]:
                os.close(fd)
            return self._note(got[0])
        return None

    @property
    def _knows_nothing(self) -> bool:
        return self.pid is None and not self._came

    def _note(self, message: link.Message) -> link.Message:
        self._came.append(message)
        if message[0] == "started":
            self.pid, self.began, self.details = message[1:4]
        elif message[0] == "ended":
            self.is_over, self.is_reusable = True, message[1]["reusable"]
        elif message[0] == "failed":
            self.is_over = self.is_reusable = True
        elif message[0] in ("lost", "unstarted", "leaving"):
            self.is_over = True
        return message

    def await_start(self, patience: Patience | None = None) -> link.Message:
        """Block until it is known what became of the request; ``("silent",)`` if ``patience`` ended before."""
        ready = select.poll()
        ready.register(self._sock.fileno(), select.POLLIN)
        if patience is not None:
            ready.register(patience.fd, select.POLLIN)
        while True:
            if patience is None:
                ready.poll()
            elif not patience.wait(ready, self.rouse):
                return ("silent",)
            while (message := self._receive_one()) is not None:
                if message[0] in _ANSWERS:
                    if message[0] == "started":
                        self._came.pop()
                    return message

    # -- requests: none of them blocks but for a warden that does not read ---------------------------------------------

    def stop(self, steps: Steps, cause: str = "stop") -> None:
        """Begin the ladder with these steps; if one goes on, it kills no later than this one would."""
        self._send("stop", plain(steps), cause)

    def hurry(self, within_s: float) -> None:
        """Begin to end it, and kill it ``within_s`` from now at the latest."""
        self._send("hurry", float(within_s))

    def unheard(self, due_s: float | None, numbers: tuple[int, ...], ear: int) -> None:
        """Replace what it is to obey although this process does not tell of it (``processes.unheard``)."""
        self._send("unheard", due_s, numbers, fds=() if ear < 0 else (ear,))

    def rouse(self) -> None:
        """Have the warden continued, if somebody stopped it."""
        self._launcher.rouse(self._ward)

    def replace(self) -> None:
        """Have the launcher kill the warden, which does not answer, and end the command in its place."""
        self._launcher.replace(self._ward)

    def signal(self, signum: int, *, group: bool = False) -> None:
        """Send a signal to the main process, or to its group in one step."""
        self._send("signal", int(signum), "group" if group else "process")

    def mark(self, ref: int) -> None:
        """Ask for a ``marked`` message: who lives below the warden now, as pid and start."""
        self._send("mark", ref)

    def cull(self, ref: int, spared: list[tuple[int, int]], steps: Steps, drain_s: float) -> None:
        """Begin to end all but the main process and ``spared``, told by ``culled``; sooner, if it was begun before."""
        self._send("cull", ref, spared, plain(steps), float(drain_s))

    def _send(self, *message: Any, fds: tuple[int, ...] = ()) -> None:
        sock = self._sock
        for _ in range(2):
            if sock.fileno() < 0:
                return  # closed: nothing of it is left to be asked for
            try:
                link.send(sock, (message[0], self._number, *message[1:]), fds)
                return
            except BlockingIOError:
                ready = select.poll()
                ready.register(sock.fileno(), select.POLLOUT)
                ready.poll(1000)
            except link.Broken:
                return  # it is over, as ``read`` will tell
        raise TimeoutError(f"the warden of process {self.pid} does not take requests; it may be stopped itself")

    def close(self) -> None:
        """Let go. Ends the command if it still runs; keeps a warden that proved itself for the next one."""
        sock = self._sock
        if sock.fileno() >= 0:
            if self.is_reusable:
                self._sock = _CLOSED
                if not self._launcher.keep(sock, self._ward):
                    sock.close()
            else:
                sock.close()
