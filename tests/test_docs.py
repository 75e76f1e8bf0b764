"""The documents name what exists, and each promise is named by a test."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import turnctl

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_names_files_that_exist(page: Path) -> None:
    """A link and a path in a document lead somewhere."""
    text = page.read_text(encoding="utf-8")
    links = [page.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    paths = [ROOT / path for path in re.findall(r"`((?:tests|docs|bin|turnctl)/[\w./-]+)`", text)]

    assert [] == [str(path) for path in [*links, *paths] if not path.exists()]


def test_each_promise_is_named_by_a_test() -> None:
    """The table of promises and the tests know of each other."""
    table = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    kept = {int(number) for number in re.findall(r"^\| P(\d+) \|", table, re.MULTILINE)}
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = {int(n) for n in re.findall(r"(?:promise |\bP|and )(\d+)\b", tests)}

    assert len(kept) >= 12
    assert set() == kept - named


def test_readme_is_one_screen_and_a_bit() -> None:
    """A newcomer reads it to the end."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 120


def test_examples_of_the_waiting_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Each block of code on the page runs as it stands, with a model and tools that are played."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/waiting.md").read_text(encoding="utf-8"), re.DOTALL)
    replies = iter([SimpleNamespace(command="echo seen"), SimpleNamespace(command=None, text="done"), "answer"])
    client = SimpleNamespace(complete=lambda _: next(replies), close=print, stream=lambda _: iter("ab"))
    scope = {"client": client, "fetch": len, "message": "m", "search": str.upper, "show": print, "urls": ["a", "bcd"]}
    with turnctl.turn() as scope["turn"]:
        for block in blocks:
            exec(compile(block, "docs/waiting.md", "exec"), scope)
            if "agent" in scope and "said" not in scope:
                scope["said"] = scope["agent"]("chat", client, "hello")
    shown = capsys.readouterr().out

    assert ("done", "answer") == (scope["said"], scope["answer"])
    assert "a\nb\n" in shown
    assert "NEEDLE" in shown


def test_examples_of_the_ledger_page_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each block of code on the page runs as it stands, one after the other, with a receiver that is played."""
    monkeypatch.setenv("TURNCTL_STATE_DIR", str(tmp_path / "turnctl"))
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/ledger.md").read_text(encoding="utf-8"), re.DOTALL)
    journal: dict[str, str] = {}

    def send(line: str, effect_id: str) -> str:
        journal[effect_id] = line
        return "250 ok"

    with turnctl.open_ledger() as ledger:
        task = ledger.submit("acme", "report-43")
        with turnctl.turn(task=task) as turn, turn.effect("mail.send", key="lost", payload="c") as sent:
            send("c", sent.effect_id)
            turn.cancel(cause="shutdown")
    scope = {"lines": ["a", "b"], "send": send}
    for n, block in enumerate(blocks):
        if n == 2:
            scope["look_up"] = lambda effect_id: turnctl.ledger.Answer("completed", journal[effect_id])
        exec(compile(block, "docs/ledger.md", "exec"), scope)
    shown = capsys.readouterr().out
    with turnctl.open_ledger() as ledger:
        made_good = ledger.report(ledger.task("acme", "report-42")).effects[-1]

    assert 4 == len(journal)
    assert ("mail.recall", "completed", "250 ok") == (made_good.kind, made_good.disposition, made_good.receipt)
    assert "; 2 effects already happened: mail.send 'line-0', mail.send 'line-1'; no decision is needed" in shown
    assert "accepted - stopped, effects unresolved; stop requested by alice (wrong list)" in shown
    assert "lost completed None" in shown


def test_examples_of_the_store_page_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The block of code on the page runs as it stands."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/store.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, "docs/store.md", "exec"), {"path": tmp_path / "own" / "ledger.sqlite3"})

    assert "sound\n" == capsys.readouterr().out


def test_example_of_the_bundle_page_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The block of code on the page runs as it stands, over a task that is there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with turnctl.open_ledger() as ledger:
        ledger.submit("acme", "report-42")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/bundle.md").read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, "docs/bundle.md", "exec"), {"turnctl": turnctl})

    assert "1 logs; keep this apart" in capsys.readouterr().out
    assert (tmp_path / "report-42.bundle").is_file()


def test_examples_of_the_page_on_tools_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block of code on the page runs as it stands."""
    monkeypatch.chdir(tmp_path)
    Path("draft.html").write_text("<p>")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/abandon.md").read_text(encoding="utf-8"), re.DOTALL)
    scope = {"turnctl": turnctl, "answer": ["[1, ", "2]"]}
    exec(compile(blocks[0], "docs/abandon.md", "exec"), scope)
    with turnctl.turn() as scope["turn"]:
        exec(compile(blocks[1], "docs/abandon.md", "exec"), scope)

    assert 2 == len(blocks)
    assert "[1, 2]" == Path("notes.json").read_text()
    assert "<p>" == Path("page.html").read_text()
