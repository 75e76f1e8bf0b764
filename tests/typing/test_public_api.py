"""What is public is typed, documented and listed, and the three lists are one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import turnctl
import turnctl.agent

HERE = Path(__file__).parent
USES = HERE / "public_api.py"
EXACT = HERE / "exact_types.py"
AGENT = HERE / "public_agent.py"
USER = HERE / "agent_user.py"
REFERENCE = HERE.parent.parent / "docs" / "reference.md"


def test_reference_has_one_line_for_each_public_name() -> None:
    """``docs/reference.md`` lists what ``__all__`` lists: all of it, once, and nothing else."""
    before, _, after = REFERENCE.read_text(encoding="utf-8").partition("## The agent loop")
    listed = re.findall(r"^\| `([A-Za-z_]+)` \| \S", before + after.partition("\n## ")[2], re.MULTILINE)

    assert Counter(turnctl.__all__) == Counter(listed)


def test_each_public_name_is_used_in_the_typed_file() -> None:
    """The file that the type checker reads uses every public name, and no private one."""
    source = ast.parse(USES.read_text(encoding="utf-8"))
    froms = [n for n in ast.walk(source) if isinstance(n, ast.ImportFrom) and n.module == "turnctl"]
    imported = {alias.name for node in froms for alias in node.names}
    used = {
        *(n.id for n in ast.walk(source) if isinstance(n, ast.Name) and n.id in imported),
        *(
            n.attr
            for n in ast.walk(source)
            if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "turnctl"
        ),
    }

    assert set() == set(turnctl.__all__) - used
    assert set() == used - {*turnctl.__all__, "processes", "records"}


def test_public_names_of_the_agent_are_used_and_told() -> None:
    """The same for ``turnctl.agent``: each has its line in the reference, once."""
    source = ast.parse(AGENT.read_text(encoding="utf-8"))
    froms = [n for n in ast.walk(source) if isinstance(n, ast.ImportFrom) and n.module == "turnctl.agent"]
    imported = {alias.name for node in froms for alias in node.names}
    used = {n.id for n in ast.walk(source) if isinstance(n, ast.Name)}
    section = REFERENCE.read_text(encoding="utf-8").partition("## The agent loop")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| \S", section, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert set(turnctl.agent.__all__) == imported & used
    assert sorted(turnctl.agent.__all__) == sorted(told)


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy says in strict mode about the files here, one line each."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    place = tmp_path_factory.mktemp("mypy")
    package = Path(turnctl.__file__).parent.parent
    environment = {**os.environ, "MYPYPATH": "" if package.name == "site-packages" else str(package)}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="),
            *("--no-error-summary", "--cache-dir", str(place), str(USES), str(AGENT), str(USER), str(EXACT)),
        ],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return (done.stdout + done.stderr).splitlines()


def test_public_names_type_check_strictly(complaints: list[str]) -> None:
    """A host that checks its types strictly can use every public name as the file does."""
    assert [] == [line for line in complaints if EXACT.name not in line]


def test_types_are_exact_enough_to_find_misuse(complaints: list[str]) -> None:
    """A misspelled option or a wrong value is told to the host by its type checker, not by its users."""
    assert [] == [line for line in complaints if EXACT.name in line]
