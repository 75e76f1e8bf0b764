"""What ``turnctl run`` gives or denies its command, and how a wrong option is told."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from forked import ran
from launch import ask

from turnctl.processes.shielding import shield_refusal


def test_command_is_limited() -> None:
    """Limits, mask and environment are the command's as they were asked for."""
    script = 'ulimit -n; umask; echo "$A"; env | grep -c _TOKEN'
    options = [
        "--limit",
        "nofile=50",
        "--limit",
        "cpu=1m",
        "--umask",
        "077",
        "--env",
        "A=b=c",
        "--unset-env",
        "*_TOKEN",
    ]
    status, out, _ = ran("run", *options, "--", "sh", "-c", script, env={"GH_TOKEN": "secret", "A": "old"})

    assert ["50", "0077", "b=c", "0"] == out.split("\n")[:4]
    assert 1 == status  # grep's, that found none


def test_environment_gives_the_same() -> None:
    """Each of them can be given by a variable, several words apart by spaces; an option is stronger."""
    env = {
        "TURNCTL_RUN_LIMIT": "nofile=50 core=0B",
        "TURNCTL_RUN_UMASK": "027",
        "TURNCTL_RUN_UNSET_ENV": "A B*",
        "A": "1",
        "BC": "2",
        "C": "3",
    }
    _, out, _ = ran("run", "sh", "-c", 'ulimit -n; umask; echo "$A$BC$C"', env=env)
    _, stronger, _ = ran("run", "--umask", "022", "sh", "-c", "umask", env=env)

    assert "50\n0027\n3\n" == out
    assert "0022\n" == stronger


def test_death_by_a_limit_is_told(tmp_path: Path) -> None:
    """stderr and the summary say which limit it was."""
    summary = tmp_path / "s.json"
    args = ["--limit", "cpu=1s", "--no-core-dumps", "--summary", str(summary)]
    status, _, err = ran("run", *args, "--", "sh", "-c", "while :; do :; done")

    told = "XCPU is what the kernel sends at the limit that it had: cpu=1s"
    assert (152, f"turnctl: the command was ended by SIGXCPU (status 152): {told}\n") == (status, err)
    assert "SIGXCPU" == json.loads(summary.read_text())["command_signal"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--limit", "cpu=1"], "limit cpu '1' cannot be used: it has no unit; write it like 1s"),
        (["--limit", "memory=512"], "limit memory '512' has no unit; write 512B or 512MiB"),
        (["--limit", "nproc=5"], "unknown limit 'nproc'; did you mean processes?"),
        (["--limit", "cpu"], "'cpu' has no =; write it like cpu=30s, memory=2GiB or nofile=256"),
        (["--limit", "nofile=99999999999"], "above the hard limit of this program"),
        (["--limit", "core=0B", "--no-core-dumps"], "--limit core and --no-core-dumps cannot both be given"),
        (["--umask", "8"], "'8' is no mask of permissions; write it in octal"),
        (["--umask", "7777"], "'7777' is no mask"),
        (["--env", "A"], "'A' has no =; write it as NAME=VALUE"),
        (["--env", "=b"], "'=b' has no name"),
        (["--unset-env", "A=b"], "'A=b' is no name"),
        (["-e", "A=b"], "there is no option -e; here it is --env"),
    ],
)
def test_wrong_option_is_told(capfd: pytest.CaptureFixture[str], option: list[str], message: str) -> None:
    """With 2, before anything is run."""
    status, out, err = ask(capfd, "run", *option, "--", "echo", "ran")

    assert (2, "") == (status, out)
    assert message in err


def test_refused_option_is_no_fault(tmp_path: Path) -> None:
    """What needs a warden is refused with 125 where there is none, in the summary too; nothing is run."""
    summary = tmp_path / "s.json"
    args = ["--limit", "cpu=1s", "--summary", str(summary), "--", "echo", "ran"]
    status, out, err = ran("run", *args, env={"TURNCTL_CONTAINMENT": "group"})

    assert (125, "") == (status, out)
    assert "turnctl: error: could not run echo with limits: only a warden can do that: " in err
    assert "fault of turnctl" not in err
    assert "only a warden" in json.loads(summary.read_text())["not_started"]


@pytest.mark.skipif(shield_refusal() != "", reason=f"no shield here: {shield_refusal()}")
def test_shielded_command_cannot_kill_turnctl() -> None:
    """KILL to what supervises it is refused to the command, which goes on."""
    status, out, _ = ran("run", "--shield", "sh", "-c", f"kill -9 $PPID || kill -0 {os.getpid()} || echo still here")

    assert (0, "still here\n") == (status, out)
