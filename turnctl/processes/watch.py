"""The descriptors that a single-threaded loop waits for, each with what is to be done when it is ready. Stand-alone."""

from select import POLLIN, poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Watch"]


class Watch:
    """A ``poll`` and what belongs to each of its descriptors, which stay the caller's."""

    __slots__ = ("poll", "then")

    def __init__(self) -> None:
        self.poll = poll()
        self.then: dict[int, Callable[[], None]] = {}

    def add(self, fd: int, then: "Callable[[], None]") -> None:
        """Have ``then`` called when ``fd`` is ready; nothing for -1."""
        if fd >= 0:
            self.then[fd] = then
            self.poll.register(fd, POLLIN)

    def remove(self, fd: int) -> None:
        """Wait for it no more."""
        if self.then.pop(fd, None) is not None:
            self.poll.unregister(fd)

    def move_up(self, above: int) -> dict[int, int]:
        """Give every descriptor below ``above`` a number from there on; old numbers to new ones."""
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        moved: dict[int, int] = {}
        for fd in sorted(self.then):
            if fd < above:
                moved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, above)
        for old, new in moved.items():
            then = self.then[old]
            self.remove(old)
            self.add(new, then)
        return moved
