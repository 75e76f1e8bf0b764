"""The rules of the house hold: layers, homes of packages, lean import, sizes, names, words that stay out."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from layers import FACE, breaches

CHECKOUT = Path(__file__).resolve().parent.parent
SOURCE = CHECKOUT / "turnctl"
MODULES = sorted(SOURCE.rglob("*.py"))

GROUND = frozenset({"homes", "spelling", "beside", "errors", "points", "lazily", "records", "clock", "log"})
SIGNAL = GROUND | {"tokens"}
ABOVE_SIGNAL = SIGNAL | {"waiting", "signals"}
WORK = ABOVE_SIGNAL | {"processes", "ledger"}
TOLD = WORK | {"turns", "agent", "report"}
FACES = TOLD | {"ambient", "compat", "installs", "_version"}
ALL = FACES | {FACE}

#: Which other rooms a room may import, also lazily. Dependencies point down only.
LOWER = {
    "_version": frozenset[str](),
    "homes": frozenset[str](),
    "spelling": frozenset[str](),
    "beside": frozenset[str](),
    "digest": frozenset[str](),
    "errors": frozenset({"spelling"}),
    "points": frozenset[str](),
    "lazily": frozenset[str](),
    "records": frozenset({"spelling", "errors", "lazily"}),
    "clock": frozenset({"errors", "records"}),
    "log": frozenset({"spelling", "errors", "records", "clock"}),
    "tokens": GROUND,
    "waiting": SIGNAL,
    "signals": SIGNAL,
    "processes": ABOVE_SIGNAL,
    "ledger": ABOVE_SIGNAL | {"_version", "digest"},
    "turns": WORK,
    "agent": WORK | {"turns"},
    "report": WORK | {"agent"},
    "ambient": TOLD,
    "compat": TOLD,
    "installs": TOLD | {"integrations"},
    FACE: FACES,
    "integrations": ALL - {"installs"},
    "cli": ALL,
    "testing": SIGNAL | {FACE},
    "__main__": frozenset({"cli"}),
}
#: What more type checkers may see: the errors carry values that they never make.
LOWER_FOR_TYPES = {"errors": frozenset({"records", "waiting"})}

#: The one place of each package of others: a file, or a room where the records or commands of it are.
HOMES = {
    "anyio": "integrations/mcp/",
    "attrs": "records/",
    "click": "cli/",
    "httpx": "integrations/httpx.py",
    "httpx2": "integrations/httpx2.py",
    "mcp": "integrations/mcp/",
    "psutil": "processes/",
    "pytest": "testing/",
    "requests": "integrations/requests.py",
    "rich": "cli/live.py",
    "structlog": "log.py",
    "tenacity": "integrations/retries/",
    "urllib3": "integrations/",
}
#: In these rooms one file alone does it.
SINGLE = ["psutil", "rich", "structlog"]

HEAVY = [
    *("psutil", "structlog", "click", "sqlite3", "asyncio", "rich"),
    *("importlib.metadata", "subprocess", "logging", "pytest"),
]


#: Programs in the package that are to be run, and stand where a user's own program stands: no room imports them.
PROGRAMS = ("agent/demo.py",)


def breaches_of(tree: Path) -> list[str]:
    found = breaches(tree, lower=LOWER, lower_for_types=LOWER_FOR_TYPES, homes=HOMES)
    return [one for one in found if one.partition(":")[0] not in PROGRAMS or not one.endswith(f"import {FACE}")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_imported_by_nobody(program: str) -> None:
    """What stands above everything is below nothing."""
    module = f"{FACE}.{program.removesuffix('.py').replace('/', '.')}"
    room, _, name = module.rpartition(".")
    spelled = re.compile(
        rf"(from {re.escape(module)} |import {re.escape(module)}\b|from {re.escape(room)} import .*\b{name}\b)"
    )

    assert [] == [path for path in SOURCE.rglob("*.py") if spelled.search(path.read_text(encoding="utf-8"))]


def test_imports_point_down() -> None:
    """No room imports one above it, and each package of others is imported in its place alone."""
    assert [] == breaches_of(SOURCE)


@pytest.mark.parametrize(
    ("file", "code", "breach"),
    [
        ("errors.py", "import turnctl.clock", "errors may not import clock"),
        ("errors.py", "from turnctl.records.stops import StopRecord", "errors may not import records"),
        ("clock.py", "def f():\n    from turnctl import tokens", "clock may not import tokens"),
        ("tokens/token.py", "from turnctl.processes.tree import Tree", "tokens may not import processes"),
        ("tokens/token.py", "from turnctl import turn", "tokens may not import turnctl"),
        ("tokens/token.py", "import turnctl", "tokens may not import turnctl"),
        ("tokens/token.py", "from . import event", "tokens may not import relative"),
        ("tokens/t.py", "if TYPE_CHECKING:\n    import turnctl.turns", "tokens may not import turns"),
        ("tokens/t.py", "import_module('turnctl.turns')", "tokens may not import turns"),
        ("tokens/t.py", "importlib.import_module(f'turnctl.ledger.{x}')", "tokens may not import ledger"),
        ("ledger/gate.py", "import turnctl.processes", "ledger may not import processes"),
        ("processes/tree.py", "import turnctl.ledger", "processes may not import ledger"),
        ("turns.py", "import turnctl.cli", "turns may not import cli"),
        ("attic/old.py", "import turnctl.errors", "room attic is not in the table"),
        ("tokens/token.py", "def f():\n    import psutil", "psutil is imported in processes/ only"),
        ("cli/main.py", "import structlog", "structlog is imported in log.py only"),
        ("cli/main.py", "from aiohttp.web import run_app", "aiohttp has no home in the table"),
    ],
)
def test_breach_is_found(tmp_path: Path, file: str, code: str, breach: str) -> None:
    """The reader of imports sees each form of an upward or misplaced import."""
    tree = tmp_path / "turnctl"
    (tree / "tokens").mkdir(parents=True)
    (tree / file).parent.mkdir(exist_ok=True)
    (tree / file).write_text(f"# line one\n{code}\n")
    found = breaches_of(tree)

    assert 1 == len(found)
    assert found[0].startswith(f"{file}:")
    assert found[0].endswith(breach)


def test_right_imports_are_no_breach(tmp_path: Path) -> None:
    """Downward, own-room, stdlib and types-only imports pass."""
    tree = tmp_path / "turnctl"
    (tree / "tokens").mkdir(parents=True)
    (tree / "clock.py").write_text("import os.path\nfrom turnctl.errors import BadDuration\n")
    (tree / "errors.py").write_text("if TYPE_CHECKING:\n    from turnctl.records.stops import StopRecord\n")
    (tree / "tokens" / "token.py").write_text(
        "from __future__ import annotations\nfrom turnctl import clock\nfrom turnctl.tokens import event\n"
    )

    assert [] == breaches_of(tree)


@pytest.mark.parametrize("package", SINGLE)
def test_package_is_imported_in_one_file(package: str) -> None:
    """Where one file can stand for a package, no second file imports it."""
    importing = [m for m in MODULES if re.search(rf"^\s*(import|from) {package}\b", m.read_text(), re.MULTILINE)]

    assert 1 >= len(importing), importing


@pytest.mark.parametrize(
    ("code", "spared"),
    [
        ("import turnctl", HEAVY),
        ("from turnctl.cli import main", [name for name in HEAVY if name != "click"]),
    ],
)
def test_import_is_lean(code: str, spared: list[str]) -> None:
    """In a fresh interpreter neither ``import turnctl`` nor the command line loads what only some uses need."""
    code = (
        f"import sys; before = set(sys.modules); {code}; loaded = set(sys.modules) - before;"
        "import json; print(json.dumps([*loaded]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    loaded = json.loads(done.stdout)

    assert "turnctl" in loaded
    assert [] == [name for name in spared if name in loaded]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_module_is_small_and_says_what_it_is(path: Path) -> None:
    """A module has at most 400 lines, and its docstring begins with one sentence of its concern."""
    text = path.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""

    assert text.count("\n") <= 400
    assert re.match(r"[^\n]{10,}[.:,]?", doc), "no docstring that says what this module is"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_public_names_are_sorted_and_there(path: Path) -> None:
    """``__all__`` is sorted (constants, classes, the rest) and each name in it can be had."""
    name = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
    if "__all__" not in path.read_text(encoding="utf-8") or name.endswith("__main__"):
        return
    module = importlib.import_module(name)
    public = list(module.__all__)

    assert sorted(set(public), key=_order) == public
    assert [] == [one for one in public if not hasattr(module, one)]


def _order(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_face_lists_its_public_names() -> None:
    """The package says what is public, and ``dir`` shows it without loading it."""
    import turnctl

    assert "__version__" in turnctl.__all__
    assert set(turnctl.__all__) <= set(dir(turnctl))


def test_type_marker_is_installed() -> None:
    """Type checkers of hosts find ``py.typed`` beside what is imported."""
    import turnctl

    assert (Path(turnctl.__file__).parent / "py.typed").is_file()


#: a test with a name that is short enough, and a docstring that is not empty
_SAID = re.compile(r'^ *def test_\w{1,54}\([^)]*\)[^\n]*:\n +r?"""[^"\s]', re.MULTILINE)


def _silent(source: str) -> list[tuple[int, str]]:
    """The line and the name of each test that has no docstring, or a name that is too long."""
    if len(re.findall(r"^ *def test_", source, re.MULTILINE)) == len(_SAID.findall(source)):
        return []  # to understand all of them takes a hundred times as long
    return [
        (node.lineno, node.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        if len(node.name) >= 60 or not ast.get_docstring(node)
    ]


def test_each_test_says_its_promise() -> None:
    """Every test has a docstring and a name under 60 characters."""
    found = [
        f"{path.relative_to(CHECKOUT)}:{line} {name}"
        for path in sorted((CHECKOUT / "tests").rglob("test_*.py"))
        for line, name in _silent(path.read_text(encoding="utf-8"))
    ]

    assert [] == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('def test_a() -> None:\n    """It is."""\n', []),
        ('def test_a(\n    one: int,\n) -> None:\n    """It is."""\n', []),
        ("def test_a(one: int = int()) -> None:\n    '''It is.'''\n", []),
        ('class TestIt:\n    def test_a(self) -> None:\n        """It is."""\n', []),
        ("def test_a() -> None:\n    pass\n", [(1, "test_a")]),
        ('def test_a() -> None:\n    """"""\n', [(1, "test_a")]),
        ('def test_a() -> None:\n    x = 1\n    """It is."""\n', [(1, "test_a")]),
        (f'def test_{"a" * 54}() -> None:\n    """It is."""\n', []),
        (f'def test_{"a" * 55}() -> None:\n    """It is."""\n', [(1, f"test_{'a' * 55}")]),
        ('X = """\ndef test_x():\n    pass\n"""\ndef test_a() -> None:\n    pass\n', [(5, "test_a")]),
    ],
)
def test_silent_tests_are_found(source: str, found: list[tuple[int, str]]) -> None:
    """However they are written; a text that looks like one is none."""

    assert found == _silent(source)


def _texts() -> list[tuple[str, str]]:
    """All files that belong to the project and are text."""
    texts = []
    for folder, folders, files in os.walk(CHECKOUT):
        folders[:] = [f for f in folders if f == ".ci" or not f.startswith((".", "__pycache__", "dist", "build"))]
        for file in files:
            path = Path(folder, file)
            try:
                texts.append((path.relative_to(CHECKOUT).as_posix(), path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return texts


def test_helpers_of_tests_have_names_of_their_own() -> None:
    """No two modules that tests import have one name: they lie on one path, and one would be taken for the other."""
    found: dict[str, list[Path]] = {}
    for path in (CHECKOUT / "tests").rglob("*.py"):
        if path.name not in ("conftest.py", "__init__.py") and not path.name.startswith("test_"):
            found.setdefault(path.stem, []).append(path)

    assert [] == [paths for paths in found.values() if len(paths) > 1]


def test_no_private_place_is_mentioned() -> None:
    """No file names a folder of the machine it was written on, nor the host of a package registry."""
    # written backwards, so that this file does not find itself
    words = [word[::-1] for word in ("/krow/", "/derahs", ".ipyp", "detsohnohtyp", "sjmpn", "naibed.bed")]
    found = [(file, word) for file, text in _texts() for word in words if word in text]

    assert [] == found


def test_top_level_is_fixed() -> None:
    """Nothing is added beside the folders and files that the project is made of."""
    known = {
        *("turnctl", "tests", "bin", "docs", ".ci"),
        *("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"),
        *(".git", ".venv", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist", "build"),
    }

    assert set() == {entry.name for entry in CHECKOUT.iterdir()} - known
