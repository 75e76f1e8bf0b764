"""Adopting a process that turnctl did not start: proved, ended with the turn, reported, or let go again."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import alive, nap, state_of
from shapes import shape
from standins import BOUND, Background, until
from warding import parent_of

import turnctl
from turnctl.errors import BadArgument, CancelledError, TurnOver
from turnctl.testing import pause_at


@pytest.fixture
def started(leak_check: object) -> Iterator[Any]:
    """Starts processes as a host does; at the end of the test they are killed and waited for."""
    made: list[subprocess.Popen[bytes]] = []

    def start(command: Any, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("stdout", subprocess.DEVNULL)
        made.append(subprocess.Popen(command, shell=isinstance(command, str), **options))
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def orphan(tag: str) -> int:
    """A process that is no child of this one, nor of one that it started."""
    code = "import os, sys\nif os.fork(): os._exit(0)\nos.setsid(); print(os.getpid(), flush=True)\n"
    code += "os.close(1); os.execvp('sleep', ['sleep', sys.argv[1]])"
    out = subprocess.run([sys.executable, "-I", "-S", "-c", code, tag.split()[1]], stdout=-1, check=True).stdout
    return int(out)


def test_child_is_ended_with_its_tree(started: Any) -> None:
    """It and what it started end with the turn, and the ``Popen`` has the right status."""
    tag = nap()
    process = started(f"{tag} & {tag}")
    assert until(lambda: len(alive(tag)) == 3)
    with turnctl.turn() as turn:
        adopted = turn.adopt(process)

        assert (process.pid, None) == (adopted.pid, adopted.poll())
    assert [] == alive(tag)
    assert -15 == process.returncode
    assert -15 == process.wait(BOUND)
    (outcome,) = turn.report.processes
    assert (process.pid, -15, True, "best-effort") == (
        outcome.pid,
        outcome.returncode,
        outcome.stopped,
        outcome.containment,
    )
    assert not outcome.empty_proven
    assert any("it was adopted" in note for note in outcome.notes)
    assert "ended" == turn.report.execution


def test_orphan_is_ended(leak_check: object) -> None:
    """A process that is no child of ours is ended as well; its status is not known, and the outcome says so."""
    tag = nap()
    pid = orphan(tag)
    with turnctl.turn() as turn:
        turn.adopt(pid)
    (outcome,) = turn.report.processes

    assert [] == alive(tag)
    assert (True, None, 1) == (outcome.exited, outcome.returncode, outcome.ended)
    assert any("exit status is not known" in note for note in outcome.notes)


def test_wait_is_a_checkpoint(started: Any) -> None:
    """Waiting for it gives its status, and a stop wakes the wait."""
    quick = started("exit 7", stdin=subprocess.DEVNULL)
    slow = started(nap())
    with turnctl.turn() as turn:
        try:
            adopted = turn.adopt(quick)
        except BadArgument:  # it has ended already
            pass
        else:
            assert 7 == adopted.wait(BOUND)
        adopted = turn.adopt(slow)
        call = Background(adopted.wait)
        assert until(lambda: adopted._changed._waiters)
        turn.stop()

        assert isinstance(call.error(), CancelledError)
    assert -15 == slow.returncode
    assert 7 == quick.wait(BOUND)


def test_status_is_the_hosts_to_take(started: Any) -> None:
    """A host that waits on another thread gets the status, and so does the outcome."""
    process = started("read x; exit 5", stdin=subprocess.PIPE)
    with turnctl.turn() as turn:
        adopted = turn.adopt(process)
        waiting = Background(process.wait)
        process.stdin.close()

        assert 5 == waiting.result()
        adopted.wait(BOUND)
    assert turn.report.processes[0].exited
    assert turn.report.processes[0].returncode in (5, None)


def test_child_without_its_object_is_left_to_be_waited_for(started: Any) -> None:
    """A child that was given by its number is not reaped here: its maker's wait still works."""
    process = started(nap())
    with turnctl.turn() as turn:
        turn.adopt(process.pid)

    assert "Z" == state_of(process.pid)
    assert -15 == turn.report.processes[0].returncode
    assert -15 == process.wait(BOUND)


def test_objects_of_others_are_taken(started: Any) -> None:
    """A ``psutil.Process`` and a ``multiprocessing.Process`` can be adopted."""
    import psutil

    process = started(nap())
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    with turnctl.turn() as turn:
        turn.adopt(psutil.Process(process.pid))
        turn.adopt(worker)

    assert (-15, -15) == (process.wait(BOUND), worker.exitcode)
    worker.join()
    worker.close()


def test_daemon_of_the_adopted_is_known(started: Any) -> None:
    """What descended from it when it was adopted is ended also if it has left since."""
    tag = nap()
    gate, there = os.pipe()
    code = (
        "import os, sys\nif os.fork() == 0:\n os.setsid(); os.execvp('sleep', ['sleep', sys.argv[1]])\n"
        f"os.read({gate}, 1)\n"
    )
    process = started([sys.executable, "-I", "-S", "-c", code, tag.split()[1]], pass_fds=(gate,))
    os.close(gate)
    assert until(lambda: len([p for p in alive(tag) if p != process.pid]) == 1)
    with turnctl.turn() as turn:
        adopted = turn.adopt(process)
        os.close(there)
        assert 0 == adopted.wait(BOUND)
        assert 1 == len(alive(tag))
        assert 1 == len(adopted.outcome().leftovers)
    assert [] == alive(tag)


@pytest.mark.parametrize("name", ["deaf", "away", "stopped", "chain", "crowd"])
def test_shapes_are_gone(started: Any, name: str) -> None:
    """Deaf, stopped and crowded trees are ended, as for a command without a warden."""
    mark = nap().split()[1]
    process = started(shape(name, mark), stdout=subprocess.PIPE, start_new_session=True)
    assert b"ready\n" == process.stdout.readline()
    with turnctl.turn(grace="0.2s") as turn:
        turn.adopt(process)

    assert [] == alive(mark)
    assert process.returncode is not None


def test_own_group_of_the_program_is_spared(started: Any) -> None:
    """A child in this program's group is signalled alone, and its siblings live on."""
    tag, other = nap(), nap()
    process, sibling = started(tag.split()), started(other.split())
    assert os.getpgid(process.pid) == os.getpgrp()
    with turnctl.turn() as turn:
        turn.adopt(process)

    assert ([], [sibling.pid]) == (alive(tag), alive(other))


# -- letting it go -----------------------------------------------------------------------------------------------------


def test_released_one_lives_on(started: Any) -> None:
    """After ``release`` the turn ends nothing of it, and its report says that it was released."""
    tag = nap()
    process = started(tag.split())
    with turnctl.turn() as turn:
        adopted = turn.adopt(process)
        assert adopted.release()
        assert not adopted.release()
    report = turn.report

    assert [process.pid] == alive(tag)
    assert ("completed", "ended", ()) == (report.outcome, report.execution, report.alive)
    assert [("detached", "released: it is this program's own again")] == [
        (a.state, a.detail) for a in report.activities
    ]
    assert process.poll() is None


@pytest.mark.parametrize("point", ["processes.move.deciding", "processes.move.stored"])
def test_stop_before_the_release_wins(started: Any, point: str) -> None:
    """A stop that is accepted before the release is decided ends it, and the release says False."""
    process = started(nap())
    with turnctl.turn() as turn:
        adopted = turn.adopt(process)
        with pause_at(point) as pause:
            call = Background(adopted.release)
            assert pause.reached.wait(BOUND)
            turn.stop()

        assert call.result() is False
    assert -15 == process.wait(BOUND)


def test_it_can_be_adopted_again(started: Any) -> None:
    """One turn has it at a time: a second adoption is refused until it was released; and it can be handed over."""
    tag = nap()
    process = started(tag.split())
    other = turnctl.turn(inherit=False)
    other.begin()
    with turnctl.turn(inherit=False) as turn:
        adopted = turn.adopt(process)
        with pytest.raises(BadArgument, match="which a turn has already"):
            other.adopt(process)
        adopted.release()
        again = other.adopt(process)
        other.detach(again, owner=turn)
        other.end()

        assert [process.pid] == alive(tag)
    assert [] == alive(tag)


def test_children_of_the_program_are_named_if_asked(started: Any) -> None:
    """The diagnosis lists children that no turn has as not ours; the turn leaves them alone."""
    mine, taken = started(nap().split()), started(nap().split())
    with turnctl.turn() as turn:
        turn.adopt(taken)
        turn.popen(["sleep", "60"])
        found = turn.diagnose()

        assert (f"process {mine.pid} (sleep)",) == found.not_ours
        assert f"not ours, started by the program itself: process {mine.pid} (sleep)" in str(found)
        turn.stop(kill=True)
    assert mine.poll() is None


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("wardens")
def test_refusals_name_the_reason(started: Any) -> None:
    """Who may not be ended here is refused, and nothing is signalled or recorded."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = started(["true"])
    assert until(lambda: state_of(dead.pid) == "Z")
    with turnctl.turn(inherit=False) as turn:
        command = turn.popen(["sleep", "60"])
        for process, words in (
            (0, "0 is no pid"),
            (-5, "-5 is no pid"),
            (True, "True is no process"),
            ("bash", "'bash' is no process"),
            (1, "process 1 is never ended"),
            (os.getpid(), "is this program itself"),
            (os.getpgrp(), ("leads the group", "is this program itself", "among those that started")),
            (gone, "has ended"),
            (dead, "has ended"),
            (command.pid, "which a turn has already"),
            (parent_of(command.pid), "is a helper of turnctl"),
            (parent_of(parent_of(command.pid)), "is a helper of turnctl"),
        ):
            wanted = words if isinstance(words, tuple) else (words,)
            with pytest.raises(BadArgument) as caught:
                turn.adopt(process)

            assert any(word in str(caught.value) for word in wanted), (process, str(caught.value))
        if os.getppid() > 1:
            with pytest.raises(BadArgument, match=re.escape("this program")):
                turn.adopt(os.getppid())
        assert ["process"] == [a.kind for a in turn.report.activities]
        command.kill()


def test_recycled_number_is_refused(started: Any) -> None:
    """A ``psutil.Process`` whose number is another's by now is not adopted."""
    import psutil

    process = started(nap())
    known = psutil.Process(process.pid)
    known._ident = (known.pid, 1.0)  # as if it had been read of one that is gone
    known._gone = False
    with turnctl.turn() as turn, pytest.raises(BadArgument, match="has ended"):
        turn.adopt(known)

    assert process.poll() is None


def test_turn_that_is_over_adopts_nothing(started: Any) -> None:
    """The process is left alone, and no descriptor of it is kept."""
    process = started(nap())
    with turnctl.turn() as turn:
        pass
    with pytest.raises(TurnOver):
        turn.adopt(process)

    assert process.poll() is None


def test_refused_thread_leaves_it_alone(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread is to be had the process is not adopted, and lives on."""
    process = started(nap())
    with turnctl.turn() as turn:
        assert turn.bridge is not None

        def refuse(self: object) -> None:
            raise RuntimeError("can't start new thread")

        from turnctl.processes.adopted import Adoption

        monkeypatch.setattr(Adoption, "_drive_in_background", refuse)
        with pytest.raises((RuntimeError, OSError)):
            turn.adopt(process)

        assert process.poll() is None
    assert process.poll() is None


def test_other_users_process_is_refused(leak_check: object) -> None:
    """A process that may not be signalled is refused, with the name of the user."""
    if os.getuid() != 0:
        with turnctl.turn() as turn, pytest.raises(BadArgument):
            turn.adopt(1)
        return
    tag = nap()
    folder = str(Path(turnctl.__file__).parent.parent)
    command = [sys.executable, "-c", _AS_NOBODY, folder, str(orphan(tag))]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    pid = alive(tag)[0]

    assert "user 0's, whom this program may not signal" in out
    os.kill(pid, 9)


_AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import turnctl, turnctl.processes.adopted
with turnctl.turn() as turn:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    try:
        turn.adopt(int(sys.argv[2]))
    except turnctl.BadArgument as error:
        print(error)
"""
