"""``python -m turnctl.agent.demo``: an agent that can be stopped in every phase, without a key and without a network.

The model is a script that takes its time; the shell is a real one. Press Ctrl-C whenever you like, and read what
happened. ``--stop-in PHASE`` stops it there by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import turnctl
from turnctl.agent import AgentLoop, Call, Message, Reply, Retry, Tool, history_problems, to_anthropic, to_openai

if TYPE_CHECKING:
    from turnctl.agent import RunResult

__all__ = ["PHASES", "main"]

#: what the run goes through, in order, and what is going on there
PHASES = {
    "writing": "the model writes its answer, word by word",
    "command": "a shell runs, with a process in the background that ignores SIGTERM",
    "back-off": "the model could not be reached; the loop waits before it tries again",
    "thinking": "the model has been asked, and nothing comes",
    "parallel": "two tools at once: a function that never looks up, and a shell",
    "asking": "a tool wants to send something, and needs your word",
    "compacting": "the history is made shorter",
    "file": "a tool writes notes.txt, which is there whole or not at all",
}
_COMMAND = "(trap '' TERM; sleep {0}) & for part in one two three; do echo $part; sleep {1}; done; wait"
_OLD, _NEW = "the notes of last week\n", "one\ntwo\nthree\n"

say = functools.partial(print, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; the exit status is 130 after a Ctrl-C, 143 after a SIGTERM, 1 if it failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m turnctl.agent.demo", description=__doc__)
    parser.add_argument("--stop-in", choices=PHASES, metavar="PHASE", help=f"stop by itself in: {', '.join(PHASES)}")
    parser.add_argument("--yes", action="store_true", help="allow what the agent asks for")
    parser.add_argument("--pace", type=float, default=1.0, metavar="X", help="how slow it is; 1 by default")
    options = parser.parse_args(arguments)
    if not 0 < options.pace <= 100:
        parser.error(f"argument --pace: more than 0 and at most 100, not {options.pace:g}")
    with tempfile.TemporaryDirectory(prefix="turnctl-demo-") as folder, contextlib.chdir(folder):
        notes = Path("notes.txt")
        notes.write_text(_OLD, encoding="utf-8")
        demo = _Demo(options.pace, options.stop_in, options.yes)
        with _told_to_the_end():
            with turnctl.handle_signals():
                result = demo.loop.run("Look around, and write down what you see.")
            demo.wait()
            _tell(result, demo, notes.read_text(encoding="utf-8"))
    if result.cause == "signal":  # by the name that its reason has; that of SIGINT is Ctrl-C
        return 128 + getattr(signal, result.record.reason or "", signal.SIGINT)
    return 1 if result.stop_reason == "failed" else 0


@contextlib.contextmanager
def _told_to_the_end() -> Iterator[None]:
    """A Ctrl-C too many, when nothing runs any more, does not keep from anybody what happened."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_somebody_there() -> bool:
    """Whether there is a terminal to ask; stdin may be closed, and is None then."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class _Demo:
    """The loop and its parts; ``phase`` is where it is."""

    def __init__(self, pace: float, stop_in: str | None, yes: bool) -> None:
        self._pace = pace
        self._stop_in = stop_in
        self._timer: threading.Timer | None = None
        self.phase = ""
        self.loop = AgentLoop(
            _Model(self),
            [
                Tool(self.shell),
                Tool(self.count_words),
                Tool(self.send, approval=self.needs_a_word, effect="mail.send"),
                Tool(self.write_notes),
            ],
            compactor=self.compact,
            ask=self.ask if yes or stop_in == "asking" or not _is_somebody_there() else "terminal",
            retry=Retry(attempts=3, wait=3 * pace),
            parallel=2,
            grace=1.0,
        )
        self._yes = yes

    # -- the phases ---------------------------------------------------------------------------------------------------

    def enter(self, phase: str) -> None:
        """Say what is going on now, and have it stopped if it is to be stopped there."""
        if phase == self.phase:
            return
        self.phase = phase
        say(f"\n[{phase}] {PHASES[phase]}")
        if phase == self._stop_in:
            self._timer = threading.Timer(0.5 * self._pace, self.loop.cancel, (f"--stop-in {phase}",))
            self._timer.start()

    def wait(self) -> None:
        if self._timer is not None:
            self._timer.join()

    def pause(self, seconds: float) -> None:
        """Block as a plain function does that knows nothing of stops."""
        time.sleep(seconds * self._pace)

    # -- what the loop is made of -------------------------------------------------------------------------------------

    def shell(self, command: str) -> str:
        """Run a command for the shell."""
        self.enter("command" if self.phase == "writing" else "parallel")
        done = turnctl.run(command, shell=True, text=True)  # noqa: S604 - the demo's own commands
        return str(done.stdout)

    def count_words(self, text: str) -> int:
        """Count words, slowly."""
        self.pause(8)
        return len(text.split())

    def send(self, to: str, text: str) -> str:
        """Send a message. (It only says so.)"""
        return f"sent to {to}: {text}"

    def write_notes(self, lines: list[str]) -> str:
        """Write notes.txt."""
        self.enter("file")
        turn = turnctl.current_turn()
        assert turn is not None
        with turn.staged("notes.txt", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
                self.pause(1)
        return "written"

    def needs_a_word(self, _: Mapping[str, Any]) -> bool:
        """Whether somebody is asked before something is sent: always, and this is where the phase begins."""
        self.enter("asking")
        return True

    def ask(self, approval: Any) -> bool | None:
        say(f"  {approval}", end=" ")
        self.pause(2)
        if not self._yes:
            say("\n  (nobody can be asked: stdin is no terminal; see --yes)")
            return None
        say("y (--yes)")
        return True

    def compact(self, messages: list[Message]) -> list[Message] | None:
        if len(messages) < 7:
            return None
        self.enter("compacting")
        self.pause(3)
        return [messages[0], *messages[-2:]]


class _Model:
    """A model by script: what it says in each step, and how long it takes."""

    def __init__(self, demo: _Demo) -> None:
        self._demo = demo
        self._step = 0
        self._has_failed = False

    def stream(self, _messages: list[Message], _tools: list[Any]) -> Iterator[str | Reply]:
        """As a real one: text as it comes, and the whole reply at the end."""
        demo = self._demo
        if self._step == 1 and not self._has_failed:
            self._has_failed = True
            demo.enter("back-off")
            raise ConnectionError("the line is busy")
        self._step += 1
        text, calls = self._script(self._step)
        if self._step == 1:
            demo.enter("writing")
        elif self._step == 2:
            demo.enter("thinking")
            demo.pause(4)
        for word in text.split(" "):
            say(("  " if word == text.split(" ")[0] else "") + word, end=" ")
            yield word + " "
            demo.pause(0.3 if self._step == 1 else 0.05)
        say()
        yield Reply(Message("assistant", (text, *calls)))

    def _script(self, step: int) -> tuple[str, list[Call]]:
        pace = self._demo._pace
        if step == 1:
            command = _COMMAND.format(6 * pace, 1.5 * pace)
            return "Let me see what there is, and what it does.", [Call("c1", "shell", {"command": command})]
        if step == 2:
            return "Two things at once.", [
                Call("c2", "count_words", {"text": "one two three"}),
                Call("c3", "shell", {"command": f"sleep {3 * pace}; echo slept"}),
            ]
        if step == 3:
            return "Somebody should know.", [Call("c4", "send", {"to": "ann", "text": "it works"})]
        if step == 4:
            lines = _NEW.split()
            return "And now the notes.", [Call("c5", "write_notes", {"lines": lines})]
        return "That is all.", []


# -- what is told at the end ------------------------------------------------------------------------------------------


def _tell(result: RunResult, demo: _Demo, notes: str) -> None:
    say(f"\n\nThe run {_how(result, demo)}.")
    for step in result.record.steps:
        for call in step.calls:
            took = (
                "" if call.started_at is None or call.ended_at is None else f", {call.ended_at - call.started_at:.1f} s"
            )
            say(f"  step {step.number}: {call.tool}: {call.status.replace('_', ' ')}{took}")
    for gate in result.record.gates:
        say(f"  asked about {gate.tool}: {gate.kind}")
    if result.partial:
        say(f"  of the reply there was: {result.partial!r}; it is in the transcript, and not fed")
    for activity in result.report.activities:
        if activity.state in ("abandoned", "unknown"):
            say(f"  left behind: {activity.name}: {activity.detail}")
    found = {_OLD: "the old one, whole", _NEW: "the new one, whole"}.get(notes, "neither the old one nor the new one")
    say(f"  notes.txt is {found}")
    left = [name for process in result.report.processes for name in process.survivors]
    say(f"  processes that are left: {', '.join(map(str, left)) or 'none'}")
    say("\nWhat the model is told next time:")
    for message in demo.loop.history.feed:
        say(f"  {message.role}: {_short(message)}")
    feed = demo.loop.history.feed
    problems = history_problems(to_openai(feed)) + history_problems(to_anthropic(feed)[1])
    say(f"OpenAI and Anthropic would take it: {'yes' if not problems else '; '.join(problems)}")


def _how(result: RunResult, demo: _Demo) -> str:
    if result.stop_reason == "completed":
        return "has completed"
    if result.stop_reason == "failed":
        return f"has failed: {result.record.error}"
    why = result.record.reason or result.cause
    return f"was stopped ({why}) in the phase {demo.phase!r}"


def _short(message: Message) -> str:
    parts = []
    for part in message.parts:
        if isinstance(part, Call):
            parts.append(f"calls {part.name}")
        else:
            parts.append(" ".join(str(getattr(part, "text", part)).split()))
    line = "; ".join(parts)
    return line if len(line) <= 100 else line[:97] + "..."


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read has gone
    sys.exit(141)
