"""``turnctl run`` with output that goes through it: limits, silence, slow readers and readers that are gone."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from commands import alive, nap
from forked import ran
from launch import clean_environment, finish, start, turnctl_argv
from standins import until

THROUGH = ("run", "--idle-timeout", "60s", "--")


def test_output_goes_through_as_it_is() -> None:
    """Both streams come through apart and whole, with the command's own status, and nothing is said."""
    script = "printf 'a\\000b'; printf err >&2; exit 3"

    assert (3, "a\0b", "err") == ran(*THROUGH, "sh", "-c", script)


def test_large_output_is_complete() -> None:
    """Megabytes come through in order, to a reader that takes its time."""
    code = "import sys\nfor n in range(400000): sys.stdout.write(f'{n}\\n')"
    ended = ran(*THROUGH, sys.executable, "-c", code)

    assert (0, "") == (ended.status, ended.err)
    assert "".join(f"{n}\n" for n in range(400000)) == ended.out


def test_limit_keeps_both_ends_and_says_so(tmp_path: Path) -> None:
    """The first half comes, the rest is counted, the last half follows at the end; stderr and the summary say it."""
    summary = tmp_path / "run.json"
    script = "printf 0123456789abcdef; printf xy >&2"
    status, out, err = ran("run", "-q", "--max-output", "6", "--summary", str(summary), "--", "sh", "-c", script)
    process = json.loads(summary.read_text())["processes"][0]

    assert (0, "012def") == (status, out)
    assert "xyturnctl: 10 bytes of stdout were left out after the first 3 bytes\n" == err
    assert [{"stream": "stdout", "offset": 3, "left_out": 10, "gaps": 1}] == process["cuts"]


def test_first_half_comes_at_once(tmp_path: Path) -> None:
    """What is within the first half is not held back until the end."""
    os.mkfifo(tmp_path / "go")
    process = start("run", "--max-output", "1k", "--", "sh", "-c", f"echo early; read x < {tmp_path}/go; echo late")
    assert process.stdout is not None
    first = process.stdout.readline()
    (tmp_path / "go").write_text("go\n")
    status, rest, err = finish(process)

    assert ("early\n", 0, "late\n", "") == (first, status, rest, err)


def test_silence_ends_it_as_a_deadline_does(tmp_path: Path) -> None:
    """A command that writes nothing for the time is ended with its tree; the status is 124 and the report says idle."""
    tag, summary = nap(), tmp_path / "run.json"
    script = f"echo begun; {tag} & {tag}"
    status, out, err = ran("run", "--idle-timeout", "500ms", "--summary", str(summary), "--", "sh", "-c", script)
    found = json.loads(summary.read_text())

    assert (124, "begun\n", []) == (status, out, alive(tag))
    assert "turnctl: the command wrote nothing for 500ms and was ended\n" in err
    assert ("idle", 124) == (found["processes"][0]["timed_out_by"], found["exit_status"])


def test_whoever_writes_lives() -> None:
    """Output on either stream counts, so that the command may run for longer than the time."""
    script = "for n in 1 2 3 4 5 6; do echo $n >&2; sleep 0.25; done"
    status, _, err = ran("run", "--idle-timeout", "1200ms", "--", "sh", "-c", script)

    assert (0, "1\n2\n3\n4\n5\n6\n") == (status, err)


def test_reader_that_is_gone_ends_the_command() -> None:
    """A closed pipe reaches the command as SIGPIPE, with no traceback: as the plain command would fare."""
    process = start(*THROUGH, "yes")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    status, _, err = finish(process)

    assert (141, "") == (status, err)


def test_reader_that_is_gone_ends_a_limited_command() -> None:
    """Also when what it writes is beyond the limit, and is kept back until it ends."""
    process = start("run", "--max-output", "1000B", "--", "yes")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    status, _, err = finish(process)

    assert 141 == status
    assert "Traceback" not in err


def test_stop_is_not_held_up_by_a_reader() -> None:
    """A reader that takes nothing delays the end by a second; the status stays that of the stop."""
    read, write = os.pipe()
    began = time.monotonic()
    argv = turnctl_argv("run", "--timeout", "400ms", "--idle-timeout", "30s", "--", "yes")
    process = subprocess.Popen(argv, stdout=write, stderr=subprocess.PIPE, text=True, env=clean_environment())
    os.close(write)
    _, err = process.communicate(timeout=15)
    took = time.monotonic() - began
    os.close(read)

    assert 124 == process.returncode
    assert took < 12
    assert " of output were lost: its reader did not take them\n" in err


def test_slow_reader_is_not_silence() -> None:
    """While the reader holds the command up, the command is not taken to be silent."""
    process = start("run", "--idle-timeout", "500ms", "--", "head", "-c", "2000000", "/dev/zero")
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    assert until(lambda: waiting_in(pipe) == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
    # from then on one that is really silent for so long is ended, and this one not
    silent = ran("run", "--idle-timeout", "500ms", "--", "sleep", "60").status
    still = process.poll()
    status, out, err = finish(process)

    assert (124, None, 0, 2_000_000, "") == (silent, still, status, len(out), err)


def waiting_in(pipe: int) -> int:
    """How many bytes can be read from it now."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_closed_stream_stays_closed() -> None:
    """A stdout that turnctl was given closed is closed for the command too; stderr still goes through."""
    argv = turnctl_argv(*THROUGH, "sh", "-c", "echo x; echo $? >&2")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *argv],
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        check=False,
    )

    assert 0 == done.returncode
    assert done.stderr.endswith("1\n") or done.stderr.endswith("2\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-output", "1x"], "is no size"),
        (["--max-output", "0"], "more than 0"),
        (["--max-output", "-5"], "is no size"),
        (["--idle-timeout", "0s"], "more than 0"),
        (["--idle-timeout", "5"], "no unit"),
    ],
)
def test_wrong_values_run_nothing(tmp_path: Path, options: list[str], message: str) -> None:
    """What is no limit is refused with what would be right."""
    status, out, err = ran("run", *options, "--", "touch", str(tmp_path / "ran"))

    assert (2, "", False) == (status, out, (tmp_path / "ran").exists())
    assert message in err


def test_none_undoes_the_environment() -> None:
    """The options have twins in the environment, which ``none`` sets aside."""
    env = {"TURNCTL_RUN_MAX_OUTPUT": "2", "TURNCTL_RUN_IDLE_TIMEOUT": "10m"}

    assert "ad" == ran("run", "--", "printf", "abcd", env=env).out
    assert ("abcd", "") == ran("run", "--max-output", "none", "--", "printf", "abcd", env=env)[1:]
