"""The pages of the command line: what they show of commands is what they answer, and what is made is up to date."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from launch import ask

from turnctl.cli.pages.documents import mark, renewed
from turnctl.cli.pages.tree import ROOT, pages

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGES = [DOCS / "cli.md", *sorted((DOCS / "cli").glob("*.md"))]


def _examples() -> list[tuple[str, str]]:
    """Each call that the pages show, with its output."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for call in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, output = call.partition("\n")
                found.append((line, output))
    return found


@pytest.mark.parametrize(("line", "output"), _examples())
def test_example_answers_as_shown(shelf: Path, capfd: pytest.CaptureFixture[str], line: str, output: str) -> None:
    """Every call on a page gives the output on the page, from the state directory that the tests have."""
    name, *args = shlex.split(line)

    assert "turnctl" == name
    assert output == ask(capfd, *args).out


def test_what_is_made_is_up_to_date() -> None:
    """No page tells of a command what it was before it was changed; bin/pages brings them up to date."""
    stale = [str(path) for path, text in renewed(DOCS).items() if not path.exists() or text != path.read_text("utf-8")]

    assert [] == stale, "run bin/pages"


def test_every_command_has_a_page() -> None:
    """No command is left out, and the one page begins with the list of all."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES)

    assert [] == [page.name for page in pages() if mark(page.name) not in text]


def test_a_new_command_gets_its_page(tmp_path: Path) -> None:
    """Where there is no page yet, one is made for each command; what is written beside a made part stays."""
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli.md").write_text(f"{mark('commands')}\n<!-- end -->\n")
    (tmp_path / "cli" / "ps.md").write_text(f"# Mine\n\n{mark('turnctl ps')}\nbygone\n<!-- end -->\n\nBy hand.\n")
    made = renewed(tmp_path)
    ps = made[tmp_path / "cli" / "ps.md"]

    assert made[tmp_path / "cli" / "ledger.md"].count("\n## turnctl ledger ") == 3
    assert ps.startswith("# Mine\n\n")
    assert ps.endswith("<!-- end -->\n\nBy hand.\n")
    assert "bygone" not in ps
    assert {page.name.split()[1] for page in pages() if page.name != ROOT} == {p.stem for p in made} - {"cli"}


def test_a_part_of_nothing_is_refused(tmp_path: Path) -> None:
    """A page that tells of a command that is gone is an error with its name."""
    (tmp_path / "cli.md").write_text(f"{mark('turnctl fly')}\n<!-- end -->\n")

    with pytest.raises(LookupError, match="turnctl fly"):
        renewed(tmp_path)
