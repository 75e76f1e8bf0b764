"""Scopes below a shell that goes on: everything that was started in it is ended, and the shell never is."""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Iterator

import pytest
from commands import alive, nap, state_of
from shapes import shape
from standins import BOUND, Background, until

import turnctl
from turnctl.errors import BadArgument
from turnctl.processes import Process
from turnctl.processes.guarded import Guarded


class Shell:
    """A ``bash`` that is kept for a conversation, started by a turn of its own, or by ``subprocess``."""

    def __init__(self, how: str) -> None:
        self.outer = turnctl.turn(inherit=False, grace="0.5s")
        self.outer.begin()
        read, write = os.pipe()
        self.out = os.fdopen(read, "rb", buffering=0)
        self.process: Process | subprocess.Popen[bytes]
        if how == "popen":
            self.process = subprocess.Popen(
                ["bash"], stdin=subprocess.PIPE, stdout=write, stderr=subprocess.DEVNULL, start_new_session=True
            )
        else:
            self.process = self.outer.popen(["bash"], stdin="pipe", stdout=write, stderr="null")
        os.close(write)
        self.pid: int = self.process.pid

    def say(self, line: str) -> None:
        data = line.encode() + b"\n"
        if isinstance(self.process, Process):
            self.process.write(data)
        else:
            assert self.process.stdin is not None
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def answer(self) -> str:
        assert select.select([self.out], [], [], BOUND)[0], "the shell said nothing"
        return os.read(self.out.fileno(), 65536).decode()

    def ask(self, line: str) -> str:
        """Have it run a line; what that said, up to a word at its end."""
        self.say(f"{line}\necho D''ONE")
        said = ""
        while "DONE\n" not in said:
            said += self.answer()
        return said.replace("DONE\n", "").strip()

    def close(self) -> None:
        if isinstance(self.process, subprocess.Popen):
            self.process.kill()
            self.process.communicate()
        self.outer.stop(kill=True)
        self.outer.end()
        self.out.close()


@pytest.fixture(params=["warden", "group", "popen"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, leak_check: object) -> Iterator[Shell]:
    """Each promise holds for a shell with a warden, without one, and for one that turnctl did not start."""
    monkeypatch.delenv("TURNCTL_CONTAINMENT", raising=False)
    if request.param == "group":
        monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")
    made = Shell(request.param)
    yield made
    made.close()


@pytest.fixture
def guarded(wardens: None, leak_check: object) -> Iterator[Shell]:
    made = Shell("warden")
    yield made
    made.close()


def test_work_is_ended_and_the_shell_goes_on(shell: Shell) -> None:
    """When the scope is left its jobs are gone, and the shell has kept what it knew."""
    tag = nap()
    with turnctl.turn(inherit=False) as turn:
        with turn.scope(shell.pid) as scope:
            shell.ask(f"x=42; {tag} & {tag} &")
            assert until(lambda: len(alive(tag)) == 2)
        outcome = scope.outcome()

        assert [] == alive(tag)
        assert "42" == shell.ask("echo $x")
        assert (2, 0, ()) == (outcome.ended, outcome.killed, outcome.survivors)
    assert (shell.pid, "completed", "ended") == (scope.leader, turn.report.outcome, turn.report.execution)
    assert [("scope", "completed")] == [(a.kind, a.state) for a in turn.report.activities]
    assert "42" == shell.ask("echo $x")


def test_stop_of_the_turn_ends_the_work(shell: Shell) -> None:
    """A stop ends what is below at once, also a job in the foreground, and the shell takes its next line."""
    tag = nap()
    with turnctl.turn(inherit=False) as turn:
        turn.scope(shell.pid)
        shell.say(f"x=1; {tag}; echo over $x")
        assert until(lambda: len(alive(tag)) == 1)
        turn.stop("enough")

        assert until(lambda: not alive(tag))
        assert "over 1" in shell.ask(":")
    assert "cancelled" == turn.report.outcome


def test_what_was_there_before_is_spared(shell: Shell) -> None:
    """A server that ran before the scope was opened goes on, with what it starts later."""
    before, later, new = nap(), nap(), nap()
    shell.ask(f"({before} & read x; {later} & wait) < <(sleep 0.4; echo go; sleep 60) &\n{before} &")
    assert until(lambda: len(alive(before)) == 2)
    with turnctl.turn(inherit=False) as turn, turn.scope(shell.pid):
        shell.ask(f"{new} &")
        assert until(lambda: len(alive(later)) == 1)

    assert [] == alive(new)
    assert (2, 1) == (len(alive(before)), len(alive(later)))


def test_without_only_new_all_is_ended(shell: Shell) -> None:
    """With ``only_new=False`` that goes too, but for who is named to be spared and what is below."""
    before, kept = nap(), nap()
    pid = int(shell.ask(f"{before} & ({kept} & wait) & echo $!"))
    assert until(lambda: alive(kept) and alive(before))
    with turnctl.turn(inherit=False) as turn, turn.scope(shell.pid, spare=[pid], only_new=False):
        pass

    assert [] == alive(before)
    assert 1 == len(alive(kept))
    assert "S" == state_of(pid)


def test_deaf_ones_are_killed_after_the_grace(shell: Shell) -> None:
    """What ignores the request is killed when the grace has passed."""
    tag = nap()
    with turnctl.turn(inherit=False, grace="0.3s") as turn:
        with turn.scope(shell.pid) as scope:
            shell.ask(f"(trap '' TERM; {tag} & wait; {tag}) & sleep 0.2")
        assert [] == alive(tag)
        assert scope.outcome().killed >= 1
        assert "SIGKILL" in [sent.signal for sent in scope.outcome().signals]
    assert "ok" == shell.ask("echo ok")


def test_shell_that_is_stopped_stays_so(guarded: Shell) -> None:
    """A leader that somebody has stopped is not continued by the look at it."""
    os.kill(guarded.pid, 19)
    assert until(lambda: state_of(guarded.pid) == "T")
    with turnctl.turn(inherit=False) as turn, turn.scope(guarded.pid) as scope:
        pass

    assert "T" == state_of(guarded.pid)
    assert scope.outcome().empty_proven
    os.kill(guarded.pid, 18)
    assert "ok" == guarded.ask("echo ok")


@pytest.mark.parametrize("name", ["daemon", "deaf daemon", "daemon without environment", "crowd", "storm", "hopper"])
def test_warden_finds_whatever_left_the_shell(guarded: Shell, name: str) -> None:
    """Below a shell with a warden nothing escapes: daemons, orphans and what is born meanwhile are ended and proved."""
    mark = nap().split()[1]
    words = shape(name, mark)
    with turnctl.turn(inherit=False, grace="0.2s") as turn:
        with turn.scope(guarded.process) as scope:
            guarded.say(" ".join(f"'{word}'" if "'" not in word else quoted(word) for word in words) + " &")
            assert "ready" in guarded.answer()
        outcome = scope.outcome()

        assert (True, "complete", ()) == (outcome.empty_proven, outcome.containment, outcome.survivors)
        assert [] == alive(mark)
    assert "42" == guarded.ask("echo 42")


def quoted(word: str) -> str:
    return "$'" + word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def test_shell_that_forks_all_the_time(guarded: Shell) -> None:
    """A leader that goes on forking is held still for the proof, and goes on afterwards."""
    tag = nap()
    guarded.say(f"for ((i = 0; i < 60; i++)); do {tag} & sleep 0.01; done; echo through")
    assert until(lambda: len(alive(tag)) > 3)
    with turnctl.turn(inherit=False, grace=0) as turn:
        with turn.scope(guarded.pid, only_new=False) as scope:
            pass
        assert scope.outcome().empty_proven
        with turn.scope(guarded.pid, only_new=False):
            assert "through" in guarded.answer()
    assert [] == alive(tag)


def test_group_and_table_are_no_proof(shell: Shell) -> None:
    """Without a warden the scope says that it was best effort."""
    with turnctl.turn(inherit=False) as turn, turn.scope(shell.pid) as scope:
        pass
    outcome = scope.outcome()

    assert outcome.empty_proven is (outcome.containment == "complete")
    assert ("warden" == outcome.held_by) is outcome.empty_proven


def test_shell_that_ends_meanwhile(shell: Shell) -> None:
    """If the leader ends first the scope says so, proves nothing, and does not say that it goes on."""
    with turnctl.turn(inherit=False) as turn:
        scope = turn.scope(shell.pid)
        shell.say("exit 3")
        assert 3 == shell.process.wait(BOUND)
        outcome = scope.end()
        (record,) = turn.report.activities

    assert not outcome.empty_proven
    assert any("the leader ended meanwhile" in note for note in outcome.notes)
    assert f"0 processes ended below process {shell.pid}, which has ended too" == record.detail


def test_what_could_not_be_proved_is_not_completed(guarded: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the warden finds nobody and has no proof either, the scope says that it is not known who is left."""
    facts = {"empty": False, "survivors": (), "seen": 1, "killed": 1, "signals": []}
    monkeypatch.setattr(Guarded, "cull", lambda *args: args[-1](facts))
    with turnctl.turn(inherit=False) as turn:
        outcome = turn.scope(guarded.pid).end()
        (record,) = turn.report.activities
    monkeypatch.undo()

    assert ("unknown", False) == (record.state, outcome.empty_proven)
    assert ("nobody was found any more, but that nobody is left could not be proved in time",) == outcome.notes


def test_warden_that_says_nothing_leaves_it_unknown(guarded: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the warden does not answer the scope ends, and says that it is not known who is left."""
    monkeypatch.setattr("turnctl.processes.spared.DRAIN_S", 0.05)
    monkeypatch.setattr("turnctl.processes.spared.MARGIN_S", 0.05)
    with turnctl.turn(inherit=False) as turn:
        scope = turn.scope(guarded.pid, only_new=False)
        monkeypatch.setattr(Guarded, "cull", lambda *_: None)
        scope.end(0)
        (record,) = turn.report.activities
    monkeypatch.undo()

    assert "unknown" == record.state
    assert "the warden of the leader does not answer, so it is not known who is left" == record.detail


def test_grace_is_shortened_while_it_ends(guarded: Shell) -> None:
    """A kill of the turn reaches a scope that is in its grace."""
    tag = nap()
    with turnctl.turn(inherit=False, grace="60s") as turn:
        scope = turn.scope(guarded.pid)
        guarded.ask(f"(trap '' TERM; {tag} & wait; {tag}) & sleep 0.2")
        turn.stop()
        assert until(lambda: scope._sparing.phase == "ending")
        turn.stop(kill=True)
        assert until(lambda: not alive(tag))


def test_two_threads_end_it_once(guarded: Shell) -> None:
    """Leaving it and the stop of the turn at one moment give one ending."""
    tag = nap()
    with turnctl.turn(inherit=False) as turn:
        scope = turn.scope(guarded.pid)
        guarded.ask(f"{tag} &")
        calls = [Background(scope.end), Background(turn.stop)]
        for call in calls:
            call.result()

        assert [] == alive(tag)
        assert 1 == scope.end().ended


def test_wrong_leaders_are_refused(shell: Shell) -> None:
    """A process that has ended, or this program, leads no scope; nor is who has ended spared."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    with turnctl.turn(inherit=False) as turn:
        for leader, spare, words in (
            (os.getpid(), (), "is this program itself"),
            (1, (), "process 1 is never ended"),
            (gone, (), "has ended"),
            ("bash", (), "'bash' is no process; give a pid"),
            (shell.pid, [gone.pid], "has ended, so there is nobody to be spared"),
        ):
            with pytest.raises(BadArgument, match=re.escape(words)):
                turn.scope(leader, spare=spare)
    assert () == turn.report.activities
