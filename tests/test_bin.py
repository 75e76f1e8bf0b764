"""The scripts in bin/ set a bare checkout up: once, one at a time, told on stderr, whole or not at all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import turnctl

CHECKOUT = Path(__file__).resolve().parent.parent
FAKE_PYTHON = Path(__file__).parent / "support" / "fake_python.sh"
BOUND = 30
TOOLS = ["sh", "readlink", "mkdir", "cmp", "cp", "mv", "ln", "rm", "find", "cat", "chmod", "env"]


class Checkout:
    """A copy of what bin/ needs, at a path with spaces, and a stand-in for Python that is quick and noted."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "a bare checkout"
        shutil.copytree(CHECKOUT / "bin", self.root / "bin")
        shutil.copy(CHECKOUT / "pyproject.toml", self.root)
        self.venv = self.root / ".venv"
        self.log = tmp_path / "calls"
        self.log.touch()
        self.fifo = tmp_path / "fifo"
        os.mkfifo(self.fifo)
        os.mkfifo(f"{self.fifo}.ready")
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHON": str(FAKE_PYTHON),
            "FAKE_LOG": str(self.log),
            "FAKE_REAL": sys.executable,
            "FAKE_FIFO": str(self.fifo),
        }

    def start(self, script: str | Path, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "bin" / script, *args],
            env={**self.env, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            start_new_session=True,
        )

    def run(self, script: str | Path, *args: str, stdin: str = "", **env: str) -> tuple[int, str, str]:
        process = self.start(script, *args, **env)
        out, err = process.communicate(stdin, timeout=BOUND)
        return process.returncode, out, err

    def calls(self, what: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(what)]

    def blocked_pip(self) -> int:
        """The pid of the pip that now waits; its set-up was started with FAKE_PIP=block."""
        return int(Path(f"{self.fifo}.ready").read_text().split()[1])

    def made(self) -> set[str]:
        return {entry.name for entry in self.venv.iterdir()}


def session_members(session: int) -> list[int]:
    """The processes whose session is ``session``, as /proc has them."""
    members = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):
            continue
        if fields[3] == str(session):
            members.append(int(entry.name))
    return members


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_first_use_sets_up_and_runs(checkout: Checkout) -> None:
    """The first use makes .venv, speaks on stderr alone, and hands arguments and stdin on."""
    status, out, err = checkout.run("turnctl", "a b", "--c", stdin="typed")

    assert 0 == status
    assert "ran: a b --c\ntyped" == out
    assert f"first use: making {checkout.venv} with Python 3.99.0" in err
    assert "pip says something" in err


def test_later_use_sets_nothing_up(checkout: Checkout) -> None:
    """Once set up, nothing is said, and no Python is started but the one that is turnctl."""
    checkout.run("turnctl")
    before = checkout.log.read_text()

    assert (0, "ran: again\n", "") == checkout.run("turnctl", "again")
    assert f"{before}-P -S {checkout.root}/bin/../bin/start.py again\n" == checkout.log.read_text()


@pytest.mark.parametrize(("ignored", "status"), [(False, -signal.SIGINT), (True, 0)])
def test_interrupt_in_start_up_is_silent(tmp_path: Path, ignored: bool, status: int) -> None:
    """Ctrl-C while Python loads its own parts ends turnctl by that signal without a word; if ignored, it stays so."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\n")
    path = os.pathsep.join([str(tmp_path), str(Path(turnctl.__file__).parent.parent)])
    argv = [sys.executable, "-P", "-S", CHECKOUT / "bin" / "start.py", "--version"]
    before = "trap '' INT; " if ignored else ""
    line = ["sh", "-c", f'{before}exec "$@"', "sh", *argv]
    done = subprocess.run(line, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=BOUND)

    assert (status, "") == (done.returncode, done.stderr)


def test_symlinks_lead_to_the_checkout(checkout: Checkout, tmp_path: Path) -> None:
    """A chain of links, relative ones too, and a linked folder find the checkout that they lead to."""
    away = tmp_path / "else where"
    away.mkdir()
    (away / "one").symlink_to(checkout.root / "bin" / "turnctl")
    (away / "two").symlink_to("one")
    (away / "folder").symlink_to(checkout.root / "bin")

    for path in (away / "one", away / "two", away / "folder" / "turnctl"):
        assert "ran: x\n" == checkout.run(path, "x")[1]
    assert 1 == len(checkout.calls("-m pip"))


def test_ten_at_once_set_up_once(checkout: Checkout) -> None:
    """Ten that start together make one environment, and each of them runs."""
    processes = [checkout.start("turnctl", str(n)) for n in range(10)]
    ends = [process.communicate(timeout=BOUND) for process in processes]

    assert [f"ran: {n}\n" for n in range(10)] == [out for out, _ in ends]
    assert 1 == len(checkout.calls("-m venv"))
    assert 1 == len(checkout.calls("-m pip"))


def test_interrupted_set_up_is_one_line(checkout: Checkout) -> None:
    """Ctrl-C in the set-up ends it with one line and by that signal, and the next use begins anew."""
    process = checkout.start("turnctl", FAKE_PIP="block")
    checkout.blocked_pip()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=BOUND)
    lines = err.splitlines()

    assert -signal.SIGINT == process.returncode
    assert "" == out
    assert "turnctl: interrupted; .venv is set up at the next use" == lines[-1]
    assert "Traceback" not in err
    assert (0, "ran: x\n") == checkout.run("turnctl", "x")[:2]


def test_interrupted_while_waiting_for_another(checkout: Checkout) -> None:
    """Ctrl-C to one that waits for the set-up of another ends it with one line, and the other goes on."""
    first = checkout.start("turnctl", "first", FAKE_PIP="block")
    checkout.blocked_pip()
    second = checkout.start("turnctl", "second")
    assert second.stderr is not None
    second.stderr.readline()
    os.killpg(second.pid, signal.SIGINT)
    err = second.communicate(timeout=BOUND)[1]
    checkout.fifo.write_text("go\n")

    assert -signal.SIGINT == second.returncode
    assert "turnctl: interrupted; .venv is set up at the next use\n" == err
    assert "ran: first\n" == first.communicate(timeout=BOUND)[0]


def test_interrupted_module_shows_no_traceback(checkout: Checkout) -> None:
    """A real Python that runs a module of the set-up dies of Ctrl-C in silence."""
    code = f'. "{checkout.root}/bin/venv.sh"; venv_module "{sys.executable}" slow'
    (checkout.root / "slow.py").write_text("print(1, flush=True)\nimport time\ntime.sleep(60)\n")
    found_here = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    process = subprocess.Popen(
        ["sh", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=checkout.root,
        env=found_here,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert b"1\n" == process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    err = process.communicate(timeout=BOUND)[1]

    assert b"" == err


@pytest.mark.parametrize("close", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_first_use_with_closed_streams(checkout: Checkout, close: str) -> None:
    """Without a stderr to speak on the first use sets up all the same."""
    line = f'"{checkout.root}/bin/turnctl" x {close}'
    done = subprocess.run(["sh", "-c", line], env=checkout.env, check=False, timeout=BOUND, stdin=subprocess.DEVNULL)

    assert (done.returncode == 0) == (">&- 2" not in close)
    assert (0, "ran: y\n", "") == checkout.run("turnctl", "y")


def test_second_waits_and_says_so(checkout: Checkout) -> None:
    """One that finds a set-up going on says that it waits, then runs by what the other made."""
    first = checkout.start("turnctl", "first", FAKE_PIP="block")
    checkout.blocked_pip()
    second = checkout.start("turnctl", "second")
    assert second.stderr is not None
    waiting = second.stderr.readline()
    checkout.fifo.write_text("go\n")
    ends = [process.communicate(timeout=BOUND)[0] for process in (first, second)]

    assert "turnctl: waiting for another set-up of .venv to end\n" == waiting
    assert ["ran: first\n", "ran: second\n"] == ends
    assert 1 == len(checkout.calls("-m pip"))


def test_killed_set_up_is_made_anew(checkout: Checkout) -> None:
    """A set-up that was killed half-way is found, said, removed and done again."""
    killed = checkout.start("turnctl", FAKE_PIP="block")
    checkout.blocked_pip()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=BOUND)
    (checkout.venv / "half").touch()
    status, out, err = checkout.run("turnctl", "x")

    assert (0, "ran: x\n") == (status, out)
    assert "an earlier set-up did not finish" in err
    assert "half" not in checkout.made()


def test_pip_of_a_killed_script_is_waited_for(checkout: Checkout) -> None:
    """Where the script was killed and its pip lives on, nobody works on .venv beside that pip."""
    killed = checkout.start("turnctl", FAKE_PIP="block")
    pip = checkout.blocked_pip()
    for pid in session_members(killed.pid):
        if pid != pip:
            os.kill(pid, signal.SIGKILL)
    second = checkout.start("turnctl", "x")
    assert second.stderr is not None
    waiting = second.stderr.readline()
    checkout.fifo.write_text("go\n")
    killed.communicate(timeout=BOUND)
    out, err = second.communicate(timeout=BOUND)

    assert "turnctl: waiting for another set-up of .venv to end\n" == waiting
    assert "an earlier set-up did not finish" in err
    assert "ran: x\n" == out


def test_failed_set_up_leaves_nothing(checkout: Checkout) -> None:
    """Without a network it fails with 125 and a reason, keeps nothing half-done, and can be repeated."""
    status, out, err = checkout.run("turnctl", FAKE_PIP="fail")

    assert (125, "") == (status, out)
    assert "no network\nturnctl: could not install turnctl (see above)" in err
    assert {".lock"} == checkout.made()
    assert (0, "ran: x\n") == checkout.run("turnctl", "x")[:2]


def test_changed_project_is_installed_again(checkout: Checkout) -> None:
    """When pyproject.toml changed, to a newer or an older file, it is installed again, once."""
    project = checkout.root / "pyproject.toml"
    checkout.run("turnctl")
    project.write_text(project.read_text() + "\n# changed\n")
    os.utime(project, (1_000_000_000, 1_000_000_000))
    _, out, err = checkout.run("turnctl", "x")

    assert "ran: x\n" == out
    assert "installing turnctl into" in err
    assert 2 == len(checkout.calls("-m pip"))
    assert (0, "ran: y\n", "") == checkout.run("turnctl", "y")


def test_touched_project_is_not_installed_again(checkout: Checkout) -> None:
    """A pyproject.toml that only has another time stamp costs one comparison."""
    checkout.run("turnctl")
    os.utime(checkout.root / "pyproject.toml")

    assert (0, "ran: x\n", "") == checkout.run("turnctl", "x")
    assert 1 == len(checkout.calls("-m pip"))
    before = checkout.log.read_text()
    checkout.run("turnctl")
    assert before == "".join(checkout.log.read_text().splitlines(True)[:-1])


def test_failed_change_leaves_nothing_finished(checkout: Checkout) -> None:
    """A change that could not be installed does not leave the old environment to be taken for the new one."""
    project = checkout.root / "pyproject.toml"
    checkout.run("turnctl")
    project.write_text(project.read_text() + "\n# changed\n")

    assert 125 == checkout.run("turnctl", FAKE_PIP="fail")[0]
    assert (0, "ran: x\n") == checkout.run("turnctl", "x")[:2]
    assert 2 == len(checkout.calls("-m venv"))


def test_moved_checkout_is_set_up_anew(checkout: Checkout, tmp_path: Path) -> None:
    """An environment that was made at another path is not used: its scripts name that path."""
    checkout.run("turnctl")
    checkout.root = checkout.root.rename(tmp_path / "moved")
    _, out, err = checkout.run("turnctl", "x")

    assert "ran: x\n" == out
    assert "moved/.venv" in err
    assert 2 == len(checkout.calls("-m venv"))


def test_venv_of_somebody_else_is_kept(checkout: Checkout) -> None:
    """A .venv that the scripts did not make is installed into, and not deleted when that fails."""
    bin_folder = checkout.venv / "bin"
    bin_folder.mkdir(parents=True)
    shutil.copy(FAKE_PYTHON, bin_folder / "python")
    (checkout.venv / "pyvenv.cfg").write_text("home = theirs\n")
    failed = checkout.run("turnctl", FAKE_PIP="fail")[0]

    assert 125 == failed
    assert {"bin", "pyvenv.cfg"} == checkout.made()
    assert (0, "ran: x\n") == checkout.run("turnctl", "x")[:2]
    assert [] == checkout.calls("-m venv")
    assert (0, "ran: y\n", "") == checkout.run("turnctl", "y")
    assert "home = theirs\n" == (checkout.venv / "pyvenv.cfg").read_text()


def test_missing_python_is_named(checkout: Checkout) -> None:
    """A PYTHON that is not there is an error that names it."""
    status, out, err = checkout.run("turnctl", PYTHON="/no/python")

    assert (125, "") == (status, out)
    assert "turnctl: PYTHON=/no/python was not found; turnctl needs Python 3.11 or newer\n" == err
    assert not checkout.venv.exists()


def test_old_python_is_passed_over(checkout: Checkout, tmp_path: Path) -> None:
    """An old python3 is passed over for a newer one; with none the error lists what was tried."""
    path = tmp_path / "path"
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(shutil.which(tool) or "")
    (path / "python3").write_text("#!/bin/sh\necho is Python 3.9\nexit 1\n")
    (path / "python3.12").write_text("#!/bin/sh\necho stand-in: this version is not chosen >&2\nexit 127\n")
    for script in path.glob("python*"):
        script.chmod(0o755)
    status, out, err = checkout.run("turnctl", PATH=str(path), PYTHON="")

    assert (125, "") == (status, out)
    assert "found none; python3 is Python 3.9; python3.12 cannot be run. Install one" in err
    (path / "python3.11").symlink_to(FAKE_PYTHON)
    assert (0, "ran: x\n") == checkout.run("turnctl", "x", PATH=str(path), PYTHON="")[:2]


def test_tests_get_their_extra(checkout: Checkout) -> None:
    """bin/test adds the test extra to what is there, once, and passes its arguments to pytest."""
    checkout.run("turnctl")
    first = checkout.run("test", "-q", "tests/x")
    second = checkout.run("test", "-q", "tests/x")

    assert "installing turnctl with test into" in first[2]
    assert (0, f"pytest in {checkout.root}, safe path 1\n", "") == second
    assert ["-m pytest -q tests/x"] * 2 == checkout.calls("-m pytest")
    assert [".", ".[test]"] == [call.split()[-1] for call in checkout.calls("-m pip")]
    assert (0, "ran: x\n", "") == checkout.run("turnctl", "x")


def test_killed_addition_spoils_what_was_there(checkout: Checkout) -> None:
    """When adding an extra was killed, what had been set up before is not trusted either."""
    checkout.run("turnctl")
    killed = checkout.start("test", FAKE_PIP="block")
    checkout.blocked_pip()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=BOUND)
    status, out, err = checkout.run("turnctl", "x")

    assert (0, "ran: x\n") == (status, out)
    assert "an earlier set-up did not finish" in err
    assert 2 == len(checkout.calls("-m venv"))


def test_tests_run_elsewhere_if_asked(checkout: Checkout) -> None:
    """With TURNCTL_TEST_PYTHON no .venv is made, and that interpreter runs pytest."""
    status, out, _ = checkout.run("test", TURNCTL_TEST_PYTHON=str(FAKE_PYTHON))

    assert (0, f"pytest in {checkout.root}, safe path 1\n") == (status, out)
    assert not checkout.venv.exists()


def test_check_knows_one_option(checkout: Checkout) -> None:
    """bin/check refuses what it does not know before it sets anything up."""
    assert (2, "", "usage: bin/check [-h | --stress | --gauntlet [OPTION...]]\n") == checkout.run("check", "--fast")
    assert not checkout.venv.exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_bare_checkout_really_runs(tmp_path: Path) -> None:
    """Ten at once in a bare checkout, with the real Python and pip, all print the version."""
    root = tmp_path / "real checkout"
    shutil.copytree(CHECKOUT / "bin", root / "bin")
    shutil.copytree(CHECKOUT / "turnctl", root / "turnctl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, root)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TURNCTL_"))}
    environment |= {"PYTHON": sys.executable, "PIP_NO_COMPILE": "1"}  # it is used ten times
    processes = [
        subprocess.Popen(
            [root / "bin" / "turnctl", "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        for _ in range(10)
    ]
    ends = [process.communicate(timeout=350) for process in processes]
    if any("could not install" in err for _, err in ends) and not os.environ.get("CI"):
        pytest.skip("no network: the real set-up was not tried")

    assert [0] * 10 == [process.returncode for process in processes], ends
    assert 1 == len({out for out, _ in ends})
    assert "0.1.0" in ends[0][0]
    assert 1 == sum("first use" in err for _, err in ends)
