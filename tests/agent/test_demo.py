"""``python -m turnctl.agent.demo``: what a newcomer sees who stops it, in every phase."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from standins import BOUND

from turnctl.agent import demo
from turnctl.agent.demo import PHASES, main

FED = {
    "writing": ["user"],
    "command": ["user", "assistant", "tool"],
    "back-off": ["user", "assistant", "tool"],
    "thinking": ["user", "assistant", "tool"],
    "parallel": ["user", "assistant", "tool", "assistant", "tool"],
    "asking": ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"],
    "compacting": ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"],
    "file": ["user", "assistant", "tool", "assistant", "tool"],
}
SAID = {
    "writing": "it is in the transcript, and not fed",
    "command": "step 1: shell: cancelled unknown",
    "back-off": "step 1: shell: completed",
    "thinking": "left behind: _Model.stream: left behind",
    "parallel": "step 2: count_words: cancelled unknown",
    "asking": "asked about send: cancelled",
    "compacting": "left behind: _Demo.compact: left behind",
    "file": "step 4: write_notes: cancelled unknown",
}


@pytest.mark.parametrize("phase", PHASES)
def test_stop_in_each_phase(phase: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is stopped there, nothing is left, the old file is whole, and the history is one that providers take."""
    status = main(["--stop-in", phase, "--yes", "--pace", "0.15"])
    told = capfd.readouterr().out.partition("The run ")[2]
    fed = told.partition("What the model is told next time:")[2]

    assert 0 == status
    assert told.startswith(f"was stopped (--stop-in {phase}) in the phase {phase!r}.")
    assert SAID[phase] in told
    assert "notes.txt is the old one, whole" in told
    assert "processes that are left: none" in told
    assert FED[phase] == [line.split(":")[0].strip() for line in fed.splitlines() if line.startswith("  ")]
    assert "OpenAI and Anthropic would take it: yes" in told


def test_run_to_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody stops it: every phase is seen, and the new file is there."""
    status = main(["--yes", "--pace", "0.02"])
    told = capfd.readouterr().out

    assert 0 == status
    assert list(PHASES) == [phase for phase in PHASES if f"[{phase}]" in told]
    assert "The run has completed." in told
    assert "notes.txt is the new one, whole" in told


def test_nobody_to_ask_is_no(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, and without --yes, nothing is sent."""
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - closed below
    try:
        main(["--pace", "0.02"])
    finally:
        sys.stdin.close()
    told = capfd.readouterr().out

    assert "asked about send: unanswered" in told
    assert "step 3: send: denied" in told


def test_ctrl_c_is_told(tmp_path: Path) -> None:
    """A real one, while nothing comes from the model: what happened is told, and the status is that of a Ctrl-C."""
    command = [sys.executable, "-m", "turnctl.agent.demo", "--yes", "--pace", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("[thinking]"):
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=3 * BOUND)

    assert (130, "") == (process.returncode, err)
    assert "The run was stopped (Ctrl-C) in the phase 'thinking'." in out


def test_another_signal_is_told_by_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    """A SIGTERM is no Ctrl-C; the status is that of a program that it has ended."""

    def enter(self: Any, phase: str) -> None:
        self.phase = phase
        if phase == "writing":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo._Demo, "enter", enter)
        status = main(["--pace", "0.05", "--yes"])

    assert 143 == status
    assert "The run was stopped (SIGTERM) in the phase 'writing'." in capfd.readouterr().out


def test_ctrl_c_too_many_keeps_nothing_back(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed again when the run is over: what happened is told to its end, and Ctrl-C is what it was."""
    tell = demo._tell

    def pressed(*given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        tell(*given)

    monkeypatch.setattr(demo, "_tell", pressed)
    main(["--stop-in", "writing", "--yes", "--pace", "0.05"])

    assert "OpenAI and Anthropic would take it: yes" in capfd.readouterr().out
    assert signal.default_int_handler == signal.getsignal(signal.SIGINT)


def test_closed_stdin_is_nobody(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was started with stdin closed has none at all."""
    monkeypatch.setattr(sys, "stdin", None)
    main(["--pace", "0.02"])

    assert "asked about send: unanswered" in capfd.readouterr().out


@pytest.mark.parametrize("pace", ["0", "-1", "nan", "101"])
def test_pace_that_cannot_be(pace: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It is refused in one line."""
    with pytest.raises(SystemExit) as caught:
        main([f"--pace={pace}"])

    assert 2 == caught.value.code
    assert "argument --pace: more than 0 and at most 100" in capfd.readouterr().err
