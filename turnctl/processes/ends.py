"""Sockets of ours that outlast a command, in a program that may close every descriptor and give the numbers out again.

A program that turns itself into a daemon does so. Then the number that our socket object holds is nobody's, or that of
a file of the program's own, which is neither to be written to nor closed. A socket has an inode number that no other
one has while it is there, so whether the number is still ours is looked up, for the price of one ``fstat``.

Not promised: anything between the look and the use, where another thread closes descriptors that are not its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import _socket

__all__ = ["inode_of", "is_ours", "let_go"]


def inode_of(sock: _socket.socket) -> int:
    """What tells it from every other one."""
    return os.fstat(sock.fileno()).st_ino


def is_ours(sock: _socket.socket, inode: int) -> bool:
    """Whether its number still is that socket."""
    try:
        return os.fstat(sock.fileno()).st_ino == inode
    except (OSError, ValueError):
        return False


def let_go(sock: _socket.socket, inode: int) -> None:
    """Close it; or forget its number, if that is somebody else's by now."""
    if is_ours(sock, inode):
        sock.close()
    else:
        sock.detach()
