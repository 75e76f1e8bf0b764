"""The page of the loop tells what is true."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from loops import Played, calls

import turnctl
from turnctl.agent import AgentLoop, Call, Message
from turnctl.agent.parts import HOOKS, MEMORY
from turnctl.records.runs import EventKind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agent.md"


def test_examples_of_the_page_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each block of code on the page runs as it stands, one after the other, with models that are played."""
    sent: list[str] = []

    def stopped() -> None:
        turn = turnctl.current_turn()
        assert turn is not None
        turn.cancel("enough")

    def send_mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "250 ok"

    class Client:
        """A provider of our own: asked once, and then read piece by piece."""

        def ask_piecewise(self, told: list[Any], tools: list[Any]) -> Iterator[tuple[str, Any]]:
            assert ["read_file"] == [one["name"] for one in tools]
            yield "let me see", None
            wanted = (
                [] if "answers" in told[-1] else [{"id": "1", "name": "read_file", "arguments": {"path": "README"}}]
            )
            yield "", {"text": told[-1]["text"], "calls": wanted, "tokens_in": 5, "tokens_out": 2}

    mail = Message.assistant("", [Call("c1", "send_mail", {"to": "ann"})])
    scope = {
        "client": Client(),
        "mailing_model": Played(mail, "told"),
        "polite_model": Played(mail, "told her"),
        "folder": tmp_path,
        "slow_model": Played(calls("read_file", path="README"), stopped),
        "other_model": Played("It says hello still."),
        "send_mail": send_mail,
    }
    shown = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), scope)
        shown[block] = capsys.readouterr().out
        if "user pressed Stop" in block:
            assert scope["loop"].cancel_signal.is_cancelled()
            assert scope["loop"].run("this one").cancelled
    told = "".join(shown.values())

    assert ("cancelled", "completed", "refused") == (
        scope["cancelled"].stop_reason,
        scope["completed"].stop_reason,
        scope["late"].kind,
    )
    assert (["ann", "ann"], "told") == (sent, scope["result"].text)
    assert told.startswith("completed It says: turnctl makes agents stoppable.\nturnctl makes agents stoppable.\n")
    assert "[('approved', 'policy')]\nsend_mail {'to': 'ann'}\ntold her\n" in told
    assert "run_started\nstep_started\nreply\n" in told
    assert told.endswith("cancelled\nIt says hello still. True\n")


def test_the_page_has_every_argument() -> None:
    """The table of arguments is that of the signature, with the defaults and in the order."""
    table = PAGE.read_text(encoding="utf-8").partition("## All arguments")[2]
    rows = re.findall(r"^\| (`.*?`) \| (?:`(.*?)`)? ?\|", table, re.MULTILINE)
    told = [(name, default) for names, default in rows for name in re.findall(r"`(\w+)`", names)]
    parameters = list(inspect.signature(AgentLoop).parameters.values())
    wanted = [(one.name, "" if one.default is one.empty else repr(one.default)) for one in parameters]

    assert wanted == told
    for method in (AgentLoop.run, AgentLoop.stream, AgentLoop.resume, AgentLoop.resume_stream):
        assert ["timeout", "task"] == list(inspect.signature(method).parameters)[2:]


def test_the_page_has_every_hook_and_event() -> None:
    """Each hook, each function of a memory and each kind of event has its row."""
    page = PAGE.read_text(encoding="utf-8")
    named = {name for row in re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}

    assert set() == {*HOOKS, *MEMORY, *get_args(EventKind)} - named
