"""With ``readline`` loaded a line is edited as ``input()`` has it edited, and a stop still wakes at once."""

from __future__ import annotations

import os
import sys
import types

import pytest
from ptys import CTRL_C, CTRL_D, Screen

from turnctl.waiting import editing

PROGRAM = """
import sys, threading, termios, turnctl, readline
readline.set_completer(lambda text, n: ['completed'][n] if text == 'comp' and n == 0 else None)
readline.parse_and_bind('tab: complete')
before = termios.tcgetattr(0)
def told(what):
    print(what, 'restored' if termios.tcgetattr(0) == before else 'spoiled', flush=True)
with turnctl.handle_signals():
    with turnctl.turn() as turn:
{body}
    told(f'outcome {{turn.outcome}} {{turn.cause}}')
with turnctl.turn() as turn:
    told(repr(turn.input('next? ')))
told(repr(input('plain? ')))
"""


def on_terminal(body: str) -> Screen:
    indented = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return Screen([sys.executable, "-c", PROGRAM.format(body=indented)], PYTHONPATH=os.pathsep.join(sys.path))


def rest(screen: Screen, typed: str = "more\n", got: str = "'more'") -> None:
    """The terminal serves the next prompt of ours, and a plain one."""
    screen.see("next? ")
    screen.send(typed)
    screen.see(f"{got} restored")
    screen.see("plain? ")
    screen.send("end\n")
    screen.see("'end' restored")

    assert 0 == screen.ended()


def test_keys_edit_the_line() -> None:
    """Arrows, erasing, history and completion work, and several lines pasted at once come one by one."""
    body = """
told(repr(turn.input('name? ')))
told(repr(turn.input('again? ')))
told(repr(turn.input('tab? ')))
told(repr([turn.input('a? '), turn.input('b? '), turn.input('c? ')]))
"""
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send("Alcex\x7f\x1b[D\x1b[Di\n")
        screen.see("'Alice' restored")
        screen.see("again? ")
        screen.send("\x1b[A!\n")
        screen.see("'Alice!' restored")
        screen.see("tab? ")
        screen.send("comp\t\n")
        screen.see("'completed")
        screen.see("a? ")
        screen.send("one\ntwo\n\n")
        screen.see("['one', 'two', ''] restored")
        screen.see("outcome completed None restored")
        rest(screen)


def test_stop_wakes_the_editor_and_keeps_the_half_line() -> None:
    """A stop from another thread puts the terminal back; what was typed stands in the next line of ours."""
    body = "threading.Timer(0.5, turn.cancel).start()\nturn.input('name? ')"
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send("half")
        screen.see("outcome cancelled user restored")
        rest(screen, " line\n", "'half line'")


def test_ctrl_c_in_the_editor_stops_the_turn() -> None:
    """Ctrl-C is a signal in the editor too: the turn is stopped, the terminal is put back."""
    with on_terminal("turn.input('name? ')") as screen:
        screen.see("name? ")
        screen.send(CTRL_C)
        screen.see("outcome cancelled signal restored")
        rest(screen)


def test_end_of_input_in_the_editor() -> None:
    """Ctrl-D on an empty line is ``EOFError``, as with ``input()``."""
    body = "try:\n    turn.input('name? ')\nexcept EOFError as error:\n    told(f'end {error}')"
    with on_terminal(body) as screen:
        screen.see("name? ")
        screen.send(CTRL_D)
        screen.see("end  restored")
        rest(screen)


def test_not_without_readline_or_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that has not loaded readline, or whose input is no terminal, is not given it."""
    monkeypatch.delitem(sys.modules, "readline", raising=False)
    without = editing.is_possible(0)
    # a stand-in: the real one installs a handler that stays, and hangs the children of later terminal tests
    monkeypatch.setitem(sys.modules, "readline", types.ModuleType("readline"))

    assert (False, False, False) == (without, editing.is_possible(3), editing.is_possible(0))
