"""``install(subprocess=True)``: the standard library's names start commands of the turn, and are put back."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from commands import Gate, alive, nap
from standins import BOUND, Background

import turnctl
from turnctl import BadArgument
from turnctl.processes import capabilities, dropin

pytestmark = pytest.mark.usefixtures("wardens")

NAMES = ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")
BEFORE = {name: getattr(subprocess, name) for name in NAMES}


@pytest.fixture(autouse=True)
def _all_undone() -> Iterator[None]:
    yield

    assert BEFORE == {name: getattr(subprocess, name) for name in NAMES}


def is_supervised(process: Any) -> bool:
    """Whether turnctl holds that command."""
    return isinstance(process, dropin.Popen) and process._supervision is not None


def test_names_are_replaced_and_put_back() -> None:
    """Inside the ``with`` each name is another one; afterwards it is the very object that it was."""
    with turnctl.install(subprocess=True) as installed:
        replaced = [name for name in NAMES if getattr(subprocess, name) is not BEFORE[name]]
        shown = repr(installed)

    assert list(NAMES) == replaced
    assert "<Installed subprocess>" == shown


def test_code_that_knows_nothing_obeys_the_turn(gate: Gate) -> None:
    """A plain ``subprocess.run`` is ended by the stop, with all that it started."""
    tag = nap()
    with turnctl.install(subprocess=True), turnctl.turn() as turn:
        stopper = Background(lambda: (gate.wait(), turn.stop()))
        subprocess.run(f"{tag} & echo > {gate}; {tag}; true", shell=True, check=False)
    stopper.result()

    assert "cancelled" == turn.report.outcome
    assert [] == alive(tag)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("call", (["sh", "-c", "exit 3"],), 3),
        ("check_call", (["true"],), 0),
        ("check_output", (["echo", "a"],), b"a\n"),
        ("getoutput", ("echo a",), "a"),
        ("getstatusoutput", ("exit 2",), (2, "")),
    ],
)
def test_each_function_is_the_turns(name: str, args: Any, expected: object) -> None:
    """Every replaced function gives what it gave, and is listed in the report."""
    with turnctl.install(subprocess=True), turnctl.turn() as turn:
        got = getattr(subprocess, name)(*args)

    assert expected == got
    assert 1 == len(turn.report.processes)


def test_os_popen_is_the_turns() -> None:
    """``os.popen`` goes through ``subprocess.Popen``, and so is one of the turn's commands."""
    with turnctl.install(subprocess=True), turnctl.turn() as turn, os.popen("echo a") as file:
        text = file.read()

    assert "a\n" == text
    assert 1 == len(turn.report.processes)


def test_installs_are_counted() -> None:
    """The names stay replaced until the last install is undone."""
    with turnctl.install(subprocess=True):
        inside = subprocess.Popen
        with turnctl.install(subprocess=True, threads=True):
            assert inside is subprocess.Popen
        assert inside is subprocess.Popen


def test_name_that_was_imported_before_is_not_reached() -> None:
    """A reference from before starts a plain child, whose handle is an instance of the new class all the same."""
    early = BEFORE["Popen"]
    with turnctl.install(subprocess=True):
        process = early(["true"])
        known = isinstance(process, subprocess.Popen)
        derived = issubclass(early, subprocess.Popen)
    process.wait()

    assert (True, True, False) == (known, derived, is_supervised(process))


def test_class_can_be_derived_from_and_outlives_the_install() -> None:
    """A class that was derived while it was installed starts plain children afterwards."""
    with turnctl.install(subprocess=True):

        class Mine(subprocess.Popen):  # type: ignore[type-arg]
            pass

        early = Mine(["true"])
        is_one_of_it = isinstance(BEFORE["Popen"].__new__(BEFORE["Popen"]), Mine)
        early.wait()
    late = Mine(["sh", "-c", "exit 3"], stdout=subprocess.PIPE)
    out = late.communicate()

    assert (True, False, False) == (is_supervised(early), is_supervised(late), is_one_of_it)
    assert ((b"", None), 3) == (out, late.returncode)


def test_somebody_on_top_stays_with_a_warning() -> None:
    """What others have put on top stays; ours is below it, warns, and passes on what it is asked."""
    installed = turnctl.install(subprocess=True)
    ours = subprocess.Popen

    class Theirs(ours):  # type: ignore[valid-type,misc]
        pass

    subprocess.Popen = Theirs  # type: ignore[misc]
    try:
        with pytest.warns(RuntimeWarning, match=r"subprocess.Popen was replaced by .* after turnctl.install"):
            installed.uninstall()
        process = subprocess.Popen(["true"])
        below = ours(["true"])
        statuses = (process.wait(), below.wait())
        with turnctl.install(subprocess=True):
            on_top = subprocess.Popen(["true"])
            on_top.wait()
        after = subprocess.Popen
    finally:
        subprocess.Popen = BEFORE["Popen"]  # type: ignore[misc]

    assert (0, 0) == statuses
    assert (False, False, True) == (is_supervised(process), is_supervised(below), is_supervised(on_top))
    assert Theirs is after


def test_shows_the_signature_that_it_stands_for() -> None:
    """Who inspects the class or a function finds its parameters."""
    with turnctl.install(subprocess=True):
        shown = [inspect.signature(getattr(subprocess, name)) for name in NAMES]

    assert [inspect.signature(BEFORE[name]) for name in NAMES] == shown


def test_asyncio_keeps_its_own() -> None:
    """A subprocess of asyncio has its status and output, in a turn too."""

    async def main() -> tuple[bytes, int | None]:
        process = await asyncio.create_subprocess_exec("sh", "-c", "echo a; exit 7", stdout=subprocess.PIPE)
        out, _ = await process.communicate()
        return out, process.returncode

    with turnctl.install(subprocess=True), turnctl.turn() as turn:
        got = asyncio.run(main())

    assert (b"a\n", 7) == got
    assert () == turn.report.processes


def test_multiprocessing_is_untouched() -> None:
    """A process of multiprocessing is started and joined as before."""
    with turnctl.install(subprocess=True), turnctl.turn():
        process = multiprocessing.get_context("fork").Process(target=os._exit, args=(3,))
        process.start()
        process.join(BOUND)

    assert 3 == process.exitcode
    process.close()


def test_turnctl_itself_is_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What turnctl starts for itself is no command of the turn, and commands without a warden are started as ever."""
    monkeypatch.setenv("TURNCTL_CONTAINMENT", "group")
    with turnctl.install(subprocess=True), turnctl.turn() as turn:
        capabilities()
        none = turn.report.processes
        done = turn.run(["echo", "a"])
        also = subprocess.run(["echo", "b"], stdout=subprocess.PIPE, check=True)

    assert () == none
    assert (b"a\n", b"b\n") == (done.stdout, also.stdout)
    assert 2 == len(turn.report.processes)


def test_argument_is_checked() -> None:
    """``subprocess`` is True or False, and nothing is changed otherwise."""
    with pytest.raises(BadArgument, match=r"install\(subprocess=...\) is True or False, not 'yes'"):
        turnctl.install(subprocess="yes")  # type: ignore[arg-type]


def test_import_and_other_installs_load_nothing_of_it() -> None:
    """Neither ``import turnctl`` nor another install loads ``subprocess``."""
    code = (
        "import sys, turnctl\n"
        "with turnctl.install(single_turn=True): pass\n"
        "print('subprocess' in sys.modules, 'turnctl.processes.dropin' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=BOUND, check=True)

    assert "False False\n" == done.stdout
