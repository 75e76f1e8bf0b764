"""The examples of the page run as they stand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from mcping import fake_server
from pages import examples
from programs import run_program

import turnctl


def test_server_of_the_page(tmp_path: Path) -> None:
    """Its tool finds lines, in the turn of its request."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    server = examples("mcp.md", "A server")["server"]
    with turnctl.turn():
        found = server.tools["search"].fn("tw", str(tmp_path))

    assert found.endswith("a.txt:2:two\n")
    assert {"pattern"} == set(server.tools["search"].schema["required"])


def test_hosted_tool_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function of the page is one that the SDK's server can cancel."""
    pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")
    (tmp_path / "Makefile").write_text("all:\n\t@echo built\n")
    monkeypatch.chdir(tmp_path)
    build = examples("mcp.md", "A server")["build"]

    assert "built\n" == asyncio.run(build("all"))


def test_client_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loop prints what the tool found; the coroutine, run by a turn, gives the SDK's result."""
    pytest.importorskip("mcp", reason="the official SDK of MCP is not installed: pip install mcp")
    from mcp.client.stdio import StdioServerParameters, stdio_client

    page = examples("mcp.md", "A client")
    argv, _ = fake_server(tmp_path)
    with page["mcp"].Client.stdio(argv) as client:
        report = page["ask"](client, "x")
        evidence = examples("mcp.md", "What is known afterwards")["told"](client)
    with turnctl.turn() as turn:
        opened = stdio_client(StdioServerParameters(command=argv[0], args=argv[1:]))
        result = turn.run_coroutine(page["ask_async"](opened, "y"))

    assert "found x\n" == capsys.readouterr().out
    assert ("completed", []) == (report.outcome, evidence)
    assert "found y" == result.content[0].text


def test_server_needs_neither_the_sdk_nor_a_loop() -> None:
    """Importing the package loads nothing of it; the server loads no asyncio and no SDK."""
    status, out, err = run_program("""
        import turnctl.integrations.mcp as mcp
        print("turnctl.integrations.mcp.server" in sys.modules)
        mcp.Server("s")
        print([name for name in ("asyncio", "anyio", "mcp", "http.server") if name in sys.modules])
    """)

    assert (0, ["False", "[]"], "") == (status, out, err)
