"""What help shows is so: every command says what it is, by examples that run, with the statuses that it has."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forked import waited
from shelf import gone, opened
from shells import program

from turnctl.cli.pages.model import Page
from turnctl.cli.pages.tree import pages

EVERY = {page.name: page for page in pages()}
CALLS = sorted({one.call for page in EVERY.values() for one in page.examples})
#: what stands between single quotes is no business of the shell
IN_SHELL = [call for call in CALLS if re.search(r"[|&$>]|^python", re.sub("'[^']*'", "", call))]
PLAIN = [call for call in CALLS if call not in IN_SHELL]
#: the calls of turnctl in the examples for a shell
PARTS = sorted({part.strip() for call in IN_SHELL for part in re.findall(r"turnctl [^|&>)]*", call)})
#: of these the status of turnctl is not that of the call, or is one that says that there was nothing to do
WRONG = {2, 5, 70, 125, 126, 127}
#: what is waited for in an example
SHORT = {"TURNCTL_STOP_WAIT": "100ms", "TURNCTL_WATCH_TIMEOUT": "100ms", "TURNCTL_RUN_RECORD": "no"}
#: programs that examples name, and what stands in for them here
STANDINS = {"make": "echo made", "python": f'exec {sys.executable} "$@"'}


@pytest.mark.parametrize("page", EVERY.values(), ids=lambda page: page.name)
def test_every_command_says_what_it_is(page: Page) -> None:
    """A summary that is one sentence, examples of itself, help for each option, exit statuses: new commands as well."""
    assert re.fullmatch(r"[A-Z][^\n]{9,76}\.", page.summary)
    assert page.synopsis.startswith(f"{page.name} [OPTIONS]")
    assert len(page.examples) >= 1
    assert any(page.name in one.call or page.name == "turnctl ledger" for one in page.examples)
    assert [] == [one.names for group in page.groups for one in group.options if not one.help.endswith(".")]
    assert {"2", "N" if page.name == "turnctl run" else "0"} <= codes_of(page)
    assert [] == [one.what for one in page.examples if one.what.endswith(".") or "\n" in one.call]


@pytest.fixture(scope="module")
def _filled(_made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory that has what the examples name."""
    folder = tmp_path_factory.mktemp("examples") / "state"
    shutil.copytree(_made, folder)
    folder.chmod(0o700)
    with opened(folder) as shelf:
        inc = shelf.turn("t2nn3cq4d8", session="night", task="named", command=["make", "all"], holder=gone())
        shelf.effect(inc, "e-9f3c", "k9", "unknown")
    return folder


@pytest.fixture
def world(_filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples need, where they are called."""
    state = tmp_path / "state"
    shutil.copytree(_filled, state)
    state.chmod(0o700)
    places = program(tmp_path / "bin")
    here = tmp_path / "here"
    here.mkdir()
    for name, line in STANDINS.items():
        (places / name).write_text(f"#!/bin/sh\n{line}\n")
        (places / name).chmod(0o755)
    for name in ("job", "sound"):
        (here / name).write_text("#!/bin/sh\necho done\n")
        (here / name).chmod(0o755)
    (here / "agent.py").write_text("print('done')\n")
    (here / "lookups.py").write_text("def sent(effect):\n    return None\n")
    shutil.copy(state / "ledger.sqlite3", here / "backup.sqlite3")
    (here / "backup.sqlite3").chmod(0o600)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", f"{places}:/usr/bin:/bin")
    for name, value in {**SHORT, "TURNCTL_STATE_DIR": str(state), "HOME": str(tmp_path), "SHELL": "/bin/bash"}.items():
        monkeypatch.setenv(name, value)
    return here


def codes_of(page: Page) -> set[str]:
    """The statuses that it names."""
    return {one for word, _ in page.codes for one in word.split(", ")}


def page_of(call: str) -> Page:
    """The page of the command that is called."""
    words = [word for word in shlex.split(call) if not word.startswith("-")]
    return next(EVERY[name] for name in (" ".join(words[:n]) for n in (3, 2, 1)) if name in EVERY)


def strike_soon() -> None:
    """What goes on for ever has a Ctrl-C before long."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 0.3)


@pytest.mark.parametrize("call", [*PLAIN, *PARTS])
def test_example_runs(world: Path, call: str) -> None:
    """As it stands, and its status is one that its command has."""
    is_endless = re.search(r" -f\b|--watch|turnctl (top|watch)", call) is not None
    found = waited(*shlex.split(call)[1:], before=strike_soon if is_endless else lambda: None)
    told = codes_of(page_of(call))
    if is_endless:
        told.add(str(-signal.SIGINT))
    if page_of(call).name == "turnctl run":
        told.add(str(found.status))  # that of the command

    if call.startswith("turnctl top") and "--json" not in call:
        assert (2, True) == (found.status, "terminal" in found.err), found  # it needs one, and says what to do
        return
    assert "Traceback" not in found.err
    assert found.status not in WRONG, found
    assert str(found.status) in told, found


@pytest.mark.parametrize("call", IN_SHELL)
def test_example_for_a_shell_is_one(call: str) -> None:
    """A shell can read it; the calls of turnctl in it run as the others do."""
    shell = shutil.which("bash") or shutil.which("sh")
    if shell is None:
        pytest.skip("there is no shell, so no example for one was read")

    assert 0 == subprocess.run([shell, "-n", "-c", call], check=False, timeout=30).returncode


def test_the_verifier_of_an_example_runs(world: Path) -> None:
    """What one example writes the next one reads."""
    verifier = waited("bundle", "--verifier").out
    (world / "verifier.py").write_text(verifier)
    waited("bundle", "@", "-o", "job.bundle")

    assert "python verifier.py job.bundle --timeline" in CALLS
    assert 0 == subprocess.run([sys.executable, "verifier.py", "job.bundle", "--timeline"], check=False, timeout=30,
                               stdout=subprocess.DEVNULL).returncode  # fmt: skip
