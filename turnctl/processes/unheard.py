"""A stop that the host cannot tell of: signals it has not read yet, and the deadline of the owner of a command.

Stand-alone, a part of the warden. A host whose interpreter is held by a long call to C, or which is stopped or swapped
out, makes no stop, although a signal has come or its deadline has passed. The C handler writes each signal into the
socket that is the host's wake-up descriptor. The warden has the reading end too: it only looks (``MSG_PEEK``), and
takes nothing away from the host.

Invariants
  Z1  A signal counts when it is still unread ``HOLD_OFF_S`` after it came: a host that runs reads it long before.
  Z2  Nothing is read, so the host hears of each signal as ever.
  Z3  Only numbers that were named count, one press for each byte that waits.
"""

import os
from _socket import MSG_DONTWAIT, MSG_PEEK, socket
from select import EPOLLET, EPOLLIN, epoll

TYPE_CHECKING = False

__all__ = ["HOLD_OFF_S", "Unheard"]

#: what the host has to read a signal by itself
HOLD_OFF_S = 0.05


class Unheard:
    """What one command's owner may be unable to tell of."""

    __slots__ = ("_edges", "_numbers", "_socket", "due_at", "look_at")

    def __init__(self) -> None:
        self._numbers: tuple[int, ...] = ()
        self._socket: socket | None = None
        self._edges: epoll | None = None
        #: when the deadline passes, and when to look for signals next
        self.due_at: float | None = None
        self.look_at: float | None = None

    @property
    def fd(self) -> int:
        """What is to be polled for ``on_edge``, or -1."""
        return -1 if self._edges is None else self._edges.fileno()

    def expect(self, due_at: "float | None", numbers: tuple[int, ...], fd: int, now: float) -> None:
        """Replace what is expected. A copy is made of ``fd``; -1 is for the one that is there already.

        Raises ``OSError`` where ``fd`` is no socket, or there are too many descriptors; then nothing has changed.
        """
        if fd >= 0:
            copy = os.dup(fd)
            try:
                ear = socket(fileno=copy)
            except OSError:
                os.close(copy)
                raise
            self.close()
            self._socket = ear
            # edges, since what is not read would have the loop spin
            self._edges = epoll()
            self._edges.register(ear.fileno(), EPOLLIN | EPOLLET)
        self.due_at = due_at
        self._numbers = numbers
        self.look_at = now + HOLD_OFF_S if numbers else None  # something may have come before

    def on_edge(self, now: float) -> None:
        """Something has come; the host may be about to read it."""
        if self._edges is not None:
            self._edges.poll(0)
            self.look_at = now + HOLD_OFF_S

    def next_at(self) -> "float | None":
        """When ``found`` is to be asked."""
        return min([at for at in (self.due_at, self.look_at) if at is not None], default=None)

    def found(self, now: float) -> tuple[str, int]:
        """What there is to obey now: the cause, or empty; and how many presses of a signal wait unread."""
        presses = 0
        if self.look_at is not None and now >= self.look_at:
            self.look_at = None
            presses = self._unread()
        if presses:
            return "signal", presses
        if self.due_at is not None and now >= self.due_at:
            self.due_at = None
            return "deadline", 0
        return "", 0

    def _unread(self) -> int:
        if self._socket is None:
            return 0
        try:
            waiting = self._socket.recv(256, MSG_PEEK | MSG_DONTWAIT)
        except OSError:
            return 0  # nothing is there
        return sum(1 for byte in waiting if byte in self._numbers)

    def close(self) -> None:
        """Expect nothing any more, and let go of the descriptors; ``fd`` is polled no more."""
        if self._edges is not None:
            self._edges.close()
        if self._socket is not None:
            self._socket.close()
        self._edges = self._socket = None
