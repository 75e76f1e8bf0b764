"""The scripts of completion, in the shells themselves: words with spaces and colons as well."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from launch import clean_environment
from shelf import opened
from shells import needs, program, shell

from turnctl.cli.completing.scripts import script_for

SPACED = "my build: a"


@pytest.fixture
def spaced(shelf: Path) -> Path:
    """A state directory with a turn that runs in a session with spaces and a colon in its name."""
    with opened(shelf) as more:
        more.turn("t4gggggggg", session=SPACED, task="named", command=["make", "x"])
    return shelf


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_completes_on_a_terminal(spaced: Path, tmp_path: Path, name: str) -> None:
    """What a person gets is one word with what they meant, in quotes or not; what turnctl runs is completed as well."""
    (tmp_path / "my dir").mkdir()
    with shell(name, tmp_path, spaced) as found:
        folder = found.words(f"turnctl run -C {tmp_path}/my", "\\ dir")
        written = found.words("turnctl status session:my", "build:\\ a")
        within = found.words("turnctl stop --session 'my", "build: a'")
        inner = found.words("turnctl run -s x -- cat /etc/hostn", "/etc/hostname")

    assert ["run", "-C", f"{tmp_path}/my dir"] == [word.rstrip("/") for word in folder]
    assert ["status", f"session:{SPACED}"] == written
    assert ["stop", "--session", SPACED] == within
    assert ["run", "-s", "x", "--", "cat", "/etc/hostname"] == inner


@pytest.mark.parametrize(
    ("line", "words", "reply"),
    [
        ("turnctl status session:my", ["turnctl", "status", "session", ":", "my"], [r"my\ build:\ a"]),
        ("turnctl ps --state=runn", ["turnctl", "ps", "--state", "=", "runn"], ["running"]),
    ],
)
def test_bash_without_a_terminal(spaced: Path, tmp_path: Path, line: str, words: list[str], reply: list[str]) -> None:
    """With the words as bash itself breaks them; it needs no other package."""
    given = f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD={len(words) - 1}"
    code = (
        f"{script_for('bash')}\n{given}\nCOMP_WORDS=({shlex.join(words)})\n"
        f"_turnctl turnctl {shlex.quote(words[-1])} {shlex.quote(words[-2])}\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", code],
        env=clean_environment(PATH=f"{program(tmp_path / 'bin')}:/usr/bin:/bin", TURNCTL_STATE_DIR=str(spaced)),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (reply, "") == (done.stdout.splitlines(), done.stderr)


def test_zsh_loads_it_from_fpath(tmp_path: Path) -> None:
    """The file that --install writes is a function for compinit, which says on its first line what it is for."""
    path = needs("zsh")
    (tmp_path / "_turnctl").write_text(script_for("zsh"))
    code = f"fpath=({shlex.quote(str(tmp_path))}); autoload +X _turnctl && print -r -- ${{functions[_turnctl]}}"
    done = subprocess.run([path, "-f", "-c", code], capture_output=True, text=True, timeout=30, check=True)

    assert "#compdef turnctl" == script_for("zsh").splitlines()[0]
    assert "__complete zsh" in done.stdout
