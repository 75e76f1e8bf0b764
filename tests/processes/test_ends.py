"""A program that closes every descriptor, as one that becomes a daemon does, loses no file and no command by it."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import os, sys, turnctl
def say(text): print(turnctl.run(["echo", text], text=True).stdout, end="", flush=True)
say("before")
os.closerange(3, 4096)
if sys.argv[1] == "numbers given out again":
    folder = sys.argv[2]
    held = [os.open(f"{folder}/{n}", os.O_RDWR | os.O_CREAT) for n in range(30)]
if sys.argv[1] != "at the end":
    say("after")
if sys.argv[1] == "numbers given out again":
    files = [os.stat(f"{folder}/{n}") for n in range(30)]
    same = [os.fstat(fd).st_ino == file.st_ino and file.st_size == 0 for fd, file in zip(held, files)]
    print(all(same))
"""


def _said(*arguments: str) -> tuple[int, str, str]:
    program = [sys.executable, "-c", _PROGRAM, *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout, done.stderr


def test_next_command_has_a_new_launcher() -> None:
    """Where our sockets were closed by number the next command starts as the first one did."""

    assert (0, "before\nafter\n", "") == _said("next")


def test_exit_says_nothing_of_it() -> None:
    """What was closed for us is not closed again at the end, and nothing is printed."""

    assert (0, "before\n", "") == _said("at the end")


def test_files_with_our_numbers_are_left_alone(tmp_path) -> None:
    """A file of the program's own that has the number of a socket of ours is neither written to nor closed."""

    assert (0, "before\nafter\nTrue\n", "") == _said("numbers given out again", str(tmp_path))
