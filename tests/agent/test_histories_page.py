"""The examples of the page about histories, models and tools run as they stand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pages import examples

import turnctl
from turnctl.agent import Call, Message


def test_a_broken_history_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    """The first example says what the page says it does."""
    found = examples("histories.md")

    assert capsys.readouterr().out.startswith("cancelled, outcome unknown: ")
    assert 4 == len(found["whole"])
    assert 3 == len(found["history"])


def test_what_a_run_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    """The three calls of the example have their three words, and a time-out is one."""
    examples("histories.md", "What a run leaves")

    assert [
        "a - x.txt",
        "b - cancelled, outcome unknown",
        "c - stopped before it started",
        "timeout",
    ] == capsys.readouterr().out.splitlines()


def test_models_are_one_line() -> None:
    """Each way to make a model gives one that can be asked."""
    found = examples("histories.md", "Models")

    def client(http_client: Any) -> Any:
        create = SimpleNamespace(create=lambda **request: {"content": [], "stop_reason": "end_turn"})
        return SimpleNamespace(chat=SimpleNamespace(completions=create), messages=create)

    http = SimpleNamespace(Client=lambda timeout: timeout)
    chat = found["openai_model"](SimpleNamespace(OpenAI=client), http)
    claude = found["anthropic_model"](SimpleNamespace(Anthropic=client), http)

    assert 0 == chat.request([Message.user("go")])["temperature"]
    assert "end" == claude.complete([Message.user("go")]).stop
    assert "ollama/qwen3" == found["any_model"](print).model


def test_tools_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The schema has the choices, wrong arguments are told, and the mail passes the gate."""
    found = examples("histories.md", "Tools", Call=Call)
    with turnctl.turn() as turn:
        sent = found["send"].invoke(Call("c", "send", {"to": "ann", "text": "hi"}), turn)

    assert [
        "['mail', 'files']",
        "search was not called: text has to be a string, not 3",
    ] == capsys.readouterr().out.splitlines()
    assert ("250 ok", "mail.send") == (sent.result.text, turn.report.effects[0].kind)
