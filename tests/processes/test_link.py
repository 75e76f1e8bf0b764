"""The protocol: whole messages, descriptors that close on exec, and what the end of the other side tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from turnctl.processes import link


@pytest.fixture
def ends(leak_check: object) -> Iterator[Any]:
    pair = link.pair()
    yield pair
    for one in pair:
        one.close()


@pytest.mark.parametrize("size", [0, 1, 47_000, 49_000, 300_000, 5_000_000])
def test_message_arrives_whole(ends: Any, size: int) -> None:
    """A message of any size arrives as it was sent, with nothing of the next."""
    ours, theirs = ends
    message = ("run", {"env": [b"x" * size, b"\xff"], "cwd": None, "nice": -3, "after": 0.25})
    link.send(ours, message)
    link.send(ours, ("next",))

    assert (message, ()) == link.receive(theirs)
    assert (("next",), ()) == link.receive(theirs)
    assert link.receive(theirs) is None


@pytest.mark.parametrize("size", [10, 200_000])
def test_descriptors_arrive_closed_on_exec(ends: Any, size: int) -> None:
    """Descriptors come in order, close on exec, and are the sender's as before."""
    ours, theirs = ends
    read, write = os.pipe()
    link.send(ours, ("run", b"x" * size), (write, read))
    got = link.receive(theirs)
    assert got is not None
    _, (their_write, their_read) = got
    os.write(their_write, b"through")

    assert b"through" == os.read(read, 10)
    assert [False, False] == [os.get_inheritable(fd) for fd in (their_write, their_read)]
    for fd in (read, write, their_write, their_read):
        os.close(fd)


def test_most_descriptors_fit(ends: Any) -> None:
    """As many descriptors as are promised go with a message, also with a large one."""
    ours, theirs = ends
    fd = os.open("/dev/null", os.O_RDONLY)
    link.send(ours, ("run", b"x" * 100_000), (fd,) * link.MOST_DESCRIPTORS)
    got = link.receive(theirs)
    assert got is not None

    assert link.MOST_DESCRIPTORS == len(got[1])
    for one in (fd, *got[1]):
        os.close(one)


def test_end_is_told(ends: Any) -> None:
    """Messages sent before the end arrive, then ``Broken``."""
    ours, theirs = ends
    link.send(ours, ("last",))
    ours.close()

    assert (("last",), ()) == link.receive(theirs)
    with pytest.raises(link.Broken) as caught:
        link.receive(theirs)
    assert not caught.value.unread
    with pytest.raises(link.Broken):
        link.send(theirs, ("late",))


def test_unread_request_is_told(ends: Any) -> None:
    """Who sent something that nobody had read when the other side closed is told so."""
    ours, theirs = ends
    link.send(ours, ("run",))
    theirs.close()

    with pytest.raises(link.Broken) as caught:
        link.receive(ours)
    assert caught.value.unread


def test_request_lost_in_flight_is_told(ends: Any) -> None:
    """The same for a socket that was itself on its way when its receiver died."""
    ours, theirs = ends
    first, second = link.pair()
    link.send(first, ("run",))
    link.send(ours, ("warden",), (second.fileno(),))
    second.close()
    theirs.close()

    with pytest.raises(link.Broken) as caught:
        link.receive(first)
    assert caught.value.unread
    first.close()


def test_other_version_is_refused(ends: Any) -> None:
    """A message of another version is an error, not a guess; its descriptors are closed."""
    ours, theirs = ends
    ours.send(bytes((link.VERSION + 1, 0)) + b"whatever")

    with pytest.raises(OSError, match="protocol version"):
        link.receive(theirs)


def test_full_socket_does_not_block(ends: Any) -> None:
    """A ``Line`` whose other side does not read keeps what it has to say, drops chatter, and says the rest in order."""
    ours, theirs = ends
    line = link.Line(ours)
    for number in range(3000):
        line.send("signals", number, b"x" * 1000)
    line.send("ended", 1)
    heard = []
    while line.is_waiting or not heard or heard[-1][0] != "ended":
        got = link.receive(theirs)
        if got is None:
            line.flush()
        else:
            heard.append(got[0])

    assert line.dropped
    assert list(range(len(heard) - 1)) == [message[1] for message in heard[:-1]]
    assert ("ended", 1) == heard[-1]


def test_nobody_reads_any_more(ends: Any) -> None:
    """A ``Line`` to nobody swallows what it is told, and says that it is broken."""
    ours, theirs = ends
    line = link.Line(ours)
    theirs.close()
    line.send("ended", 1)

    assert line.is_broken
    assert not line.is_waiting


def test_last_words_are_read_in_spite_of_a_reset(ends: Any) -> None:
    """What the other side sent before it closed is read, also if it had not read all that was sent to it."""
    ours, theirs = ends
    link.send(ours, ("stop",))
    link.send(theirs, ("ended",))
    theirs.close()
    line = link.Line(ours)

    assert (("ended",), ()) == line.receive()
    with pytest.raises(link.Broken) as caught:
        line.receive()
    assert not caught.value.unread
