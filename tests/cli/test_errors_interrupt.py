"""Ctrl-C in the commands that wait or work: dead of it, with a word on what is left as it is, and nothing held."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from everycommand import paths
from forked import forked
from launch import Ended, ask
from shelf import IDS

from turnctl.ledger.opening import open_sqlite

Capture = pytest.CaptureFixture[str]

RUNNING = IDS[5]
#: those that answer at once and change nothing, or say themselves what Ctrl-C does: dead of it, without a word
QUIET = {"adapters", "completion", "doctor", "effects", "help", "ps", "report", "show", "status"}
#: those with tests of Ctrl-C in their own files
ELSEWHERE = {"logs", "run", "top", "trial", "watch"}


def press_at(name: str, number: int = signal.SIGINT) -> Callable[[], None]:
    """In the process: Ctrl-C when that function is called, in the place of what it would do."""

    def before() -> None:
        place, _, attribute = name.replace(":", ".").rpartition(".")
        module, _, within = name.partition(":") if ":" in name else (place, "", "")
        owner: Any = import_module(module)
        for part in within.split(".")[:-1]:
            owner = getattr(owner, part)

        def struck(*args: Any, **more: Any) -> Any:
            os.kill(os.getpid(), number)
            raise AssertionError("it went on after the signal")

        setattr(owner, attribute, struck)

    return before


#: command: (its call, where it is struck, what it says, what to do)
STRUCK = {
    "stop": (
        *(f"stop {RUNNING}", "turnctl.cli.stopping._wait_for"),
        f"the stop of {RUNNING} stays accepted, and is not waited for any more",
        f"turnctl status {RUNNING} says how it stands",
    ),
    "stop, while asking": (
        *(f"stop {RUNNING}", "turnctl.cli.stopping.stop_turn"),
        f"whether the stop of {RUNNING} was accepted is not known here",
        f"turnctl status {RUNNING} says how it stands",
    ),
    "reconcile": (
        *("reconcile @3", "turnctl.cli.reconcile._ask"),
        "answers that were kept stay, and what nobody has told of is as unknown as before",
        "turnctl reconcile again asks about the rest",
    ),
    "ledger verify": (
        *("ledger verify", "turnctl.ledger.verify.verify_chain"),
        "nothing was changed, and no verdict was reached",
        "run it again",
    ),
    "ledger backup": (
        *("ledger backup {out}", "turnctl.ledger.copying.verify"),
        "the ledger is as it was, and {out} is there only if it is whole",
        "run it again",
    ),
    "ledger prune": (
        *("ledger prune --older-than 1s", "turnctl.ledger.purging:_Purge._bury"),
        "what was taken away is gone as a whole, and the rest is as it was",
        "turnctl ledger prune again goes on",
    ),
    "bundle": (
        *("bundle @ -o {out}", "turnctl.ledger.bundling.bundle_of"),
        "nothing was written, and the ledger is as it was",
        "run it again",
    ),
}


@pytest.mark.parametrize("name", STRUCK)
def test_ctrl_c_says_what_is_left(shelf: Path, tmp_path: Path, capfd: Capture, name: str) -> None:
    """Dead of SIGINT (130 to a shell) with one line and a hint; nobody else is kept waiting, and nothing lies about."""
    call, at, message, hint = STRUCK[name]
    out = str(tmp_path / "out" / "copy")
    Path(out).parent.mkdir()
    ended = forked(*call.replace("{out}", out).split(), before=press_at(at)).ended()

    assert Ended(-2, "", f"turnctl: interrupted: {message.replace('{out}', out)}\nturnctl: hint: {hint}\n") == ended
    assert [] == os.listdir(Path(out).parent)
    with closing(open_sqlite(shelf / "ledger.sqlite3", busy_s=0.5)) as store:
        store.transact(lambda books: None)
    assert 0 == ask(capfd, "ledger", "verify").status
    if name == "stop":
        assert "cancel" in ask(capfd, "status", RUNNING).out or "draining" in ask(capfd, "status", RUNNING).out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_ends_say_it_as_well(shelf: Path, number: signal.Signals) -> None:
    """So is it with the other signals that end a program from outside."""
    ended = forked("stop", RUNNING, before=press_at("turnctl.cli.stopping._wait_for", number)).ended()

    assert -number == ended.status
    assert f"turnctl: interrupted: the stop of {RUNNING} stays accepted" in ended.err


def test_commands_that_only_look_die_without_a_word(shelf: Path) -> None:
    """There is nothing to be said of them."""
    ended = forked("ps", before=press_at("turnctl.cli.ps.lines")).ended()

    assert Ended(-2, "", "") == ended


def test_ignored_ctrl_c_stays_ignored(shelf: Path) -> None:
    """Where a script has SIGINT ignored, as for its background jobs, a stop goes on."""

    def before() -> None:
        import turnctl.cli.stopping as stopping

        wait = stopping._wait_for
        signal.signal(signal.SIGINT, signal.SIG_IGN)

        def struck(*args: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            wait(*args)

        stopping._wait_for = struck

    ended = forked("stop", "--wait", "50ms", RUNNING, before=before).ended()

    assert 6 == ended.status
    assert "interrupted" not in ended.err


def test_second_press_does_not_wait_for_words(shelf: Path) -> None:
    """What is said at the first press holds nobody up who presses again."""

    def before() -> None:
        import turnctl.cli.interrupts as interrupts

        press_at("turnctl.cli.stopping._wait_for")()
        interrupts.say = lambda *_lines: os.kill(os.getpid(), signal.SIGTERM)

    assert Ended(-signal.SIGTERM, "", "") == forked("stop", "-q", RUNNING, before=before).ended()


def test_end_of_input_at_the_question_stops_nothing(
    shelf: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-D at the question is a no, with status 1."""
    import sys

    import click

    def ended(*args: Any, **more: Any) -> bool:
        raise click.Abort

    monkeypatch.setattr("click.confirm", ended)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    found = ask(capfd, "stop", "--all")

    assert (
        Ended(1, "", "turnctl: error: nothing was stopped\nturnctl: hint: name the turns that are to be stopped\n")
        == found
    )


def test_every_command_has_its_word_on_ctrl_c() -> None:
    """A command that is added later says which of these it is."""
    known = QUIET | ELSEWHERE | {name.split(",")[0] for name in STRUCK}

    assert set(paths()) == known
