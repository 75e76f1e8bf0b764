"""What signals do to ``turnctl run``, in the words of its help and of the topic."""

from __future__ import annotations

__all__ = ["PRESSES"]

PRESSES = (
    (
        "the first",
        "INT, TERM, HUP, QUIT, or another that can be caught: all is asked to end, and killed after the grace",
    ),
    ("the second", "it is killed now"),
    ("the third", "turnctl stops waiting, says what is left, and exits with 123"),
    ("Ctrl-Z", "stops the command and turnctl; fg and bg go on with it"),
)
