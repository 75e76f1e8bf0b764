"""The page of the loop tells what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from loops import Played, calls

import turnctl
from turnctl.agent import Call, Message

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agent.md"


def test_examples_of_the_page_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each block of code on the page runs as it stands, one after the other, with models that are played."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    sent: list[str] = []

    def stopped() -> None:
        turn = turnctl.current_turn()
        assert turn is not None
        turn.cancel("enough")

    def send_mail(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "250 ok"

    scope = {
        "model": Played(calls("read_file", path="README"), "It says hello.", "fresh", "It is free."),
        "mailing_model": Played(Message.assistant("", [Call("c1", "send_mail", {"to": "ann"})]), "told"),
        "files": {"README": "hello"},
        "folder": tmp_path,
        "slow_model": Played(calls("read_file", path="README"), stopped),
        "other_model": Played("It says hello still."),
        "send_mail": send_mail,
    }
    for n, block in enumerate(blocks):
        if n == 1:
            assert "completed It says hello." in capsys.readouterr().out
        exec(compile(block, str(PAGE), "exec"), scope)
        if n == 1:
            assert scope["loop"].cancel_signal.is_cancelled()
            assert scope["loop"].run("this one").cancelled
    shown = capsys.readouterr().out

    assert ("cancelled", "fresh", "refused") == (
        scope["cancelled"].stop_reason,
        scope["completed"].text,
        scope["late"].kind,
    )
    assert (["ann"], "told") == (sent, scope["result"].text)
    assert "[('approved', 'policy')]" in shown
    assert "run_ended\n" in shown
    assert "cancelled\nIt says hello still. True\n" in shown
